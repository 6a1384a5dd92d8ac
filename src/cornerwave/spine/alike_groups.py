"""Groups of rows that an edition moved together, and those of other persons that they move like.

Rows of a person are a group if the same categories changed in them, and had the same states. What
groups are alike in has five steps: the last states and what persons keep, these states alone, the
values and what persons keep, the values, and which categories changed. A group moves like one drawn
from those that are as alike as possible, of at least LEAST persons.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cornerwave.arrays import Codes, Flags, Ints, Words, lengths_of
from cornerwave.noise import LEAST, MISSING, CategoryMoves, last_states
from cornerwave.spine.continued import state_words


@dataclass(frozen=True)
class MovedGroups:
    """Rows of a person that move together: they had the same states in what changes.

    `order` has the rows group by group, which begin at `begins`; `firsts` are the first rows,
    `owners` whose they are. Words state what they are alike in: `fine` also what persons keep,
    `coarse` the values that change, `mask` which categories do; the others also what `states`
    (STATES, categories, groups) the first rows had. `single` is the category that alone moved, -1
    if several did.
    """

    order: Ints
    begins: Ints
    sizes: Ints
    firsts: Ints
    owners: Ints
    of_row: Ints
    fine: Words
    coarse: Words
    mask: Words
    fine_past: Words
    coarse_past: Words
    states: Codes
    single: Ints

    @classmethod
    def of(cls, owners: Ints, moved: Flags, kept: Codes, past: Codes) -> "MovedGroups":
        """Group rows by whose they are, which cells moved, and what these were.

        `kept` (categories, rows) is what persons keep beside, `past` (moments, categories, rows)
        all that cells were.
        """
        which = moved.astype(np.int32)
        had = np.array([last_states(own) for own in np.swapaxes(past, 0, 1)])
        had = np.where(moved[:, None], had, MISSING)
        values, states = np.vstack([which, had[:, 0]]), np.vstack([which, *had])
        alike = state_words(states)
        order = np.lexsort((np.arange(len(owners)), alike, owners))
        new = np.ones(len(order), dtype=np.bool_)
        new[1:] = (owners[order][1:] != owners[order][:-1]) | (
            alike[order][1:] != alike[order][:-1]
        )
        begins = np.flatnonzero(new)
        firsts, of_row = order[begins], np.empty(len(order), dtype=np.int64)
        of_row[order] = np.cumsum(new) - 1
        here, kept = moved[:, firsts], kept[:, firsts]
        return cls(
            order,
            begins,
            lengths_of(begins, len(order)),
            firsts,
            owners[firsts],
            of_row,
            state_words(np.vstack([values[:, firsts], kept])),
            state_words(values[:, firsts]),
            state_words(which[:, firsts]),
            state_words(np.vstack([states[:, firsts], kept])),
            alike[firsts],
            np.swapaxes(had, 0, 1)[:, :, firsts],
            np.where(here.sum(axis=0) == 1, here.argmax(axis=0), -1),
        )

    @property
    def likenesses(self) -> tuple[Words, ...]:
        """What groups are alike in, the best first."""
        return self.fine_past, self.coarse_past, self.fine, self.coarse, self.mask

    @cached_property
    def ranks(self) -> Ints:
        """The place of each row in its group."""
        found = np.empty(len(self.order), dtype=np.int64)
        found[self.order] = np.arange(len(self.order)) - np.repeat(self.begins, self.sizes)
        return found


@dataclass(frozen=True)
class MovedBlock:
    """Rows of a step that moved in some categories, `columns`, and the groups by which others move.

    `rows` are places among those of the step.
    """

    columns: Ints
    rows: Ints
    groups: MovedGroups
    pools: tuple["_AlikeGroups", ...]
    moves: Mapping[int, CategoryMoves]

    @classmethod
    def of(
        cls, columns: Ints, rows: Ints, groups: MovedGroups, moves: Mapping[int, CategoryMoves]
    ) -> "MovedBlock":
        """Arrange rows, given their groups, and how single categories moved."""
        pools = tuple(
            _AlikeGroups.of(words, groups.sizes, groups.owners) for words in groups.likenesses
        )
        return cls(columns, rows, groups, pools, moves)

    def alone(self, groups: MovedGroups, place: int) -> Ints:
        """Return which of some groups move as cells do, in the category at a place."""
        known = self.pools[0].known(groups.fine_past)
        before = (groups.states[1:, place] != MISSING).any(axis=0)
        return np.flatnonzero((groups.single == place) & before & ~known)

    def drawn(self, groups: MovedGroups, random: Words) -> Ints:
        """Return for each row of some groups the row of this block that it moves like, or -1."""
        found = np.full(len(groups.firsts), -1, dtype=np.int64)
        for pool, words in zip(self.pools, groups.likenesses, strict=True):
            found = np.where(found < 0, pool.drawn(words, groups.sizes, random), found)
        group = found[groups.of_row]
        # a group with more rows than the other goes through that one again
        turn = groups.ranks % np.maximum(self.groups.sizes[group], 1)
        rows = self.groups.order[np.minimum(self.groups.begins[group] + turn, len(self.rows) - 1)]
        return np.where(group < 0, -1, rows)


@dataclass(frozen=True)
class _AlikeGroups:
    """Groups by what they are alike in, those with most rows first; `enough` have LEAST persons.

    `keys` are ascending: the number of the likeness * (most + 1) + most - rows of the group.
    """

    words: Words
    enough: Flags
    keys: Ints
    groups: Ints
    most: int

    @classmethod
    def of(cls, words: Words, sizes: Ints, owners: Ints) -> "_AlikeGroups":
        """Arrange groups."""
        known, number = np.unique(words, return_inverse=True)
        most = int(sizes.max(initial=0))
        keys = number * (most + 1) + most - sizes
        order = np.argsort(keys, kind="stable")
        of_owners = np.unique(np.stack([number, owners]), axis=1)[0]
        enough = np.bincount(of_owners, minlength=len(known)) >= LEAST
        return cls(known, enough, keys[order], order, most)

    def known(self, words: Words) -> Flags:
        """Return whether enough groups are like each of some."""
        if not len(self.words):
            return np.zeros(len(words), dtype=np.bool_)
        number = np.minimum(np.searchsorted(self.words, words), len(self.words) - 1)
        return np.asarray((self.words[number] == words) & self.enough[number])

    def drawn(self, words: Words, sizes: Ints, random: Words) -> Ints:
        """Return a group that is like each of some, with as many rows if LEAST have; or -1."""
        if not len(self.words):
            return np.full(len(words), -1)
        number, like = np.searchsorted(self.words, words), self.known(words)
        number = np.minimum(number, len(self.words) - 1)
        first = np.searchsorted(self.keys, number * (self.most + 1))
        every = np.searchsorted(self.keys, (number + 1) * (self.most + 1)) - first
        least = self.most - np.minimum(sizes, self.most)
        long = np.searchsorted(self.keys, number * (self.most + 1) + least, side="right") - first
        count = np.where(long >= LEAST, long, every)
        chosen = first + (random % np.maximum(count, 1).astype(np.uint64)).astype(np.int64)
        return np.where(like, self.groups[np.minimum(chosen, len(self.groups) - 1)], -1)
