"""Persons who belong to households: these exchange the histories of all their persons.

What a household shows is its own, or that of another one, person by person in their order: whatever
function of the household's history someone looks at, with probability q it is its own, else that of
a household chosen by chance (exchanges.py).

    donor(person k of h) = person k of donor(h)

Classes are households that came with one edition and had as many persons and, where enough have,
as many rows, then as many of each person. A person beyond those of the donor, as in a school with
more pupils, takes the history of any person whose household agrees with the donor in what
households keep. As in `histories`, nothing of that changes when editions come.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cornerwave.arrays import Codes, Ids, Ints, Words, lengths_of
from cornerwave.spine.continued import state_words
from cornerwave.spine.exchanges import Exchanged, Partners, pair_words


@dataclass(frozen=True)
class Households:
    """Households by their ids, and their persons in order, household by household.

    `of_person` is each person's household, `ranks` the place in it, `came` its edition; `states`
    is a word for what the person's household keeps, and `pool` are persons by state and edition.
    """

    units: Ids
    partners: Partners
    members: Ints
    begins: Ints
    sizes: Ints
    of_person: Ints
    ranks: Ints
    came: Ints
    states: Words
    persons: Ids
    pool: Ints

    @classmethod
    def of(
        cls,
        persons: Ids,
        outers: Ids,
        *,
        came: Ints,
        order: Ints,
        rows: Ints,
        states: Words,
        classes: Callable[[Ints, Sequence[Ints]], Partners],
    ) -> "Households":
        """Arrange persons, given the ids of their households.

        They `came` with an edition, in an `order`, with so many `rows`. `classes` divides units
        by edition and likeness.
        """
        words, first, of_person = np.unique(outers[:, 0], return_index=True, return_inverse=True)
        members = np.lexsort((order, came, of_person))
        sizes = np.bincount(of_person, minlength=len(words))
        begins = np.cumsum(sizes) - sizes
        ranks = np.empty(len(members), dtype=np.int64)
        ranks[members] = np.arange(len(members)) - np.repeat(begins, sizes)
        # a household is like others by the persons that it had when it came: later ones change none
        began = came[members[begins]]
        here = members[came[members] == np.repeat(began, sizes)]
        likeness = _likeness(of_person[here], rows[here])
        return cls(
            outers[first],
            classes(began, likeness),
            members,
            begins,
            sizes,
            of_person,
            ranks,
            came,
            states,
            persons,
            np.lexsort((persons[:, 0], came, states)),
        )

    def exchanged(self, shown: Exchanged, secret: bytes) -> Exchanged:
        """Return what persons show, given what their households do."""
        donors = [self._donors(own, secret) for own in shown.donors]
        return Exchanged(
            np.array(donors).reshape(len(donors), len(self.of_person)),
            shown.changes[:, self.of_person],
        )

    def _donors(self, households: Ints, secret: bytes) -> Ints:
        """Return the donor of each person, given those of all households; -1 for none."""
        donor = households[self.of_person]
        inside = self.ranks < self.sizes[donor]
        found = self.members[np.where(inside, self.begins[donor] + self.ranks, 0)]
        inside &= self.came[found] <= self.came  # nobody shows a person who came later
        found[donor < 0] = -1
        # the donor has no k-th person: someone whose household keeps what the donor's does
        beyond = np.flatnonzero(~inside & (donor >= 0))
        if len(beyond):
            first = self.members[self.begins[donor]]
            words = pair_words(self.persons, beyond, first, secret)
            found[beyond] = self._drawn(self.states[first[beyond]], self.came[beyond], words)
        return found

    def _drawn(self, states: Words, came: Ints, words: Words) -> Ints:
        """Return persons of households in some states, who were there with an edition."""
        editions = int(self.came.max(initial=0)) + 1
        known, number = np.unique(self.states[self.pool], return_inverse=True)
        keys = number * editions + self.came[self.pool]
        wanted = np.searchsorted(known, states)
        # those of a state who came with this edition or before lie side by side
        first = np.searchsorted(keys, wanted * editions)
        count = np.searchsorted(keys, wanted * editions + came, side="right") - first
        # of a state that nobody had by then any person of the first edition stands in
        none = count <= 0
        everybody = np.flatnonzero(self.came == self.came.min())
        place = words % np.where(none, len(everybody), count).astype(np.uint64)
        place = place.astype(np.int64)
        drawn = self.pool[np.where(none, 0, first + place)]
        return np.where(none, everybody[np.where(none, place, 0)], drawn)


def _likeness(households: Ints, rows: Ints) -> list[Ints]:
    """Return what households are alike in, coarse to fine: persons, rows, rows of each person."""
    starts = np.flatnonzero(np.append(True, households[1:] != households[:-1]))
    sizes = lengths_of(starts, len(rows))
    total = np.add.reduceat(rows, starts)
    pattern = np.zeros(len(starts), dtype=np.uint64)
    place = np.arange(len(rows)) - np.repeat(starts, sizes)
    # a hash of the rows of the first, the second, ... person, all households at once
    for rank in range(int(sizes.max(initial=0))):
        here = np.flatnonzero(place == rank)
        at = np.searchsorted(starts, here, side="right") - 1
        pattern[at] = pattern[at] * np.uint64(0x9E3779B97F4A7C15) + rows[here].astype(np.uint64)
    return [sizes, total, np.unique(pattern, return_inverse=True)[1]]


def kept_states(codes: Codes, households: Ints, old: Ints, persons: Ints) -> Words:
    """Return a word for each person of the categories that all households keep.

    By the first rows of `persons`, given the codes (categories, rows) and households of all rows.
    What is kept is looked up in the `old` rows, of the first edition.
    """
    order = old[np.argsort(households[old], kind="stable")]
    same = households[order][1:] == households[order][:-1]
    changes = (codes[:, order[1:]] != codes[:, order[:-1]]) & same
    kept = np.flatnonzero(~changes.any(axis=1))  # the same in all rows of every household
    return state_words(codes[kept][:, persons])
