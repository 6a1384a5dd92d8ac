"""The categories of persons: whole histories, which persons exchange.

A person's history, the values of all categories in all of their rows, is shown as a whole: by
themselves, or by another person with as many rows, row by row (exchanges.py). Whatever function of
the history someone looks at, with probability q = 1/sqrt(1+v) it is the person's, else that of a
donor, who is a person chosen by chance.

Persons exchange histories in classes: those that came with one edition and had as many rows then;
sizes that fewer than LEAST persons have share a class with the next. Persons that came with fewer
than LEAST others copy what any of those show that were there. How a history goes on that outgrows
its donor's is in continued.py. Which cells are missing is the person's own, unless that is hidden:
a donor's gaps take the value of the row before, or after.

Linked tables have one class and one donor for a person: classes are persons who have rows in the
same tables and as many in all, when they were registered; persons who come later copy these.
Of a donor without rows in a table the next person of the class who has some stands in.

If persons belong to households, these exchange theirs, see households.py.

None of that changes when editions come: a row takes from a donor only what was there when the row
itself came, as it was then. Else a change of a cell between two editions would show who was
replaced. What editions change of rows that are there is in moved_histories.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from cornerwave.arrays import Codes, Flags, Floats, Ids, Ints, Words, lengths_of
from cornerwave.columns import Categories, Fingerprint
from cornerwave.keyed import BlockFunction, expand, room_for
from cornerwave.noise import MISSING, ln_1_plus
from cornerwave.spine.continued import Continued, Tail
from cornerwave.spine.exchanges import Exchanged, Partners, pair_words
from cornerwave.spine.households import Households, kept_states
from cornerwave.spine.moved_histories import HistoryStep, MovedHistories, ShownMoves

LEAST = 20
"""Persons of a class."""
LEAST_HOUSEHOLDS = 100
"""Households of a class, which need not be alike to the last row: how histories go on is known."""
CHANGED = (
    "this is not the registered table: a value or a row differs, perhaps in a batch that was "
    "appended. Persons are replaced by others of the whole table, so nothing was written. Restore "
    "the registered table"
)
"""The message about a table that histories cannot be taken from."""


@dataclass(frozen=True)
class HistoryRows:
    """Rows of persons: words that identify them, units, editions, order, codes of categories.

    The rows of a person are in the order of `row_order`: of their times, of a key that is a number
    or ends in one, or of the file; else by their words. `a + b` has the rows of both, in parts.
    `fingerprint` is that of the table they were taken from, if it was looked at, `taken` that of
    what was taken. `outers` are the ids of the households of persons, part by part, if there are
    some; `steps` what editions changed of rows that were there, of which the codes are those with
    which they came.
    """

    parts: tuple[tuple[Words, Ids, Ints, Floats, Codes], ...] = ()
    fingerprint: Fingerprint = field(default_factory=Fingerprint.nothing)
    taken: Fingerprint = field(default_factory=Fingerprint.nothing)
    outers: tuple[Ids, ...] = ()
    steps: tuple[HistoryStep, ...] = ()

    def __add__(self, other: "HistoryRows") -> "HistoryRows":
        return HistoryRows(
            self.parts + other.parts,
            self.fingerprint + other.fingerprint,
            self.taken + other.taken,
            self.outers + other.outers,
        )

    def trimmed(self) -> "HistoryRows":
        """Return the same: all rows are needed."""
        return self


@dataclass(frozen=True)
class Histories:
    """The categories of all rows, person by person.

    `rows` are the sorted words that identify rows, `places` where their codes are; `units` the ids
    of persons, whose rows begin at `starts`. `stamps` are person * `editions` + edition of each
    row, ascending. `partners` are with whom persons, or their `households` if they belong to some,
    exchange. Of linked tables `here` are the persons who had rows in this one when it was
    registered. `codes` are those of rows as they came, `steps` what editions changed since,
    `bounds` those of the draws of each category.
    """

    rows: Words
    places: Ints
    units: Ids
    starts: Ints
    stamps: Ints
    editions: int
    codes: Codes
    partners: Partners
    here: Flags | None = None
    households: Households | None = None
    steps: tuple[HistoryStep, ...] = ()
    bounds: tuple[Words, ...] = ()

    @classmethod
    def of(
        cls,
        found: HistoryRows,
        categories: Sequence[Categories],
        secret: bytes,
        linked: Sequence[HistoryRows] = (),
    ) -> "Histories":
        """Put the rows of a table in order; `linked` are those of all tables, in a fixed order."""
        words, units, editions, order, codes = (
            np.concatenate(each, axis=axis)
            for each, axis in zip(zip(*found.parts, strict=True), (0, 0, 0, 0, 1), strict=True)
        )
        word = np.ascontiguousarray(units[:, 0])
        by = _by_person(word, editions, order, words)
        firsts = (words[by], order[by]) if found.outers else None
        number = int(editions.max(initial=0)) + 1
        codes = np.stack([own.take(by) for own in codes])
        editions = editions if number == 1 else editions.take(by)
        # where the rows of each person begin; of linked tables some may have none here
        first = _first_rows(word.take(by))
        sizes, units = lengths_of(first, len(by)), units[by[first]]
        if linked:
            persons = _Persons.of_tables(linked)
            there = np.searchsorted(persons.units[:, 0], units[:, 0])
            person = np.repeat(there, sizes)
            starts = np.searchsorted(person, np.arange(len(persons.units)))
        else:
            persons = _Persons.of(units, editions, first, sizes)
            person, starts = np.repeat(np.arange(len(first)), sizes), first
        stamps = person if number == 1 else person * number + editions
        for own, each in zip(codes, categories, strict=True):
            gaps = expand(secret, "gaps", each.columns[0].encode())
            own[:] = _filled(own, starts, stamps, persons.units, each, gaps)
        households = None
        if firsts is not None:
            outers = np.concatenate(found.outers)[by]
            households = _households(persons.units, outers, starts, stamps, number, firsts, codes)
            partners = households.partners
        else:
            partners = persons.partners
        places = np.empty(len(by), dtype=np.int64)
        places[by] = np.arange(len(by))
        if (words[1:] < words[:-1]).any():
            ascending = np.argsort(words, kind="stable")
            words, places = words[ascending], places[ascending]
        here = np.bincount(person[editions == 0], minlength=len(starts)) > 0 if linked else None
        return cls(
            words,
            places,
            persons.units,
            starts,
            stamps,
            number,
            codes,
            partners,
            here,
            households,
            found.steps,
            tuple(each.bounds for each in categories),
        )

    def exchanged(self, noise: Sequence[float], secret: bytes) -> Exchanged:
        """Return whose history each person shows at some levels, and how often that changed."""
        clocked = self.units if self.households is None else self.households.units
        shown = self.partners.exchanged(clocked, secret, ln_1_plus(noise))
        if self.households is not None:
            return self.households.exchanged(shown, secret)
        if self.here is None:
            return shown
        donors = [self._with_rows(own.copy(), self.here, secret) for own in shown.donors]
        return Exchanged(np.array(donors).reshape(shown.donors.shape), shown.changes)

    def _with_rows(self, donors: Ints, here: Flags, secret: bytes) -> Ints:
        """Return donors who have rows in this table: the next of the class who has, or any."""
        rows = lengths_of(self.starts, len(self.rows))
        lacking = np.flatnonzero((rows > 0) & (donors >= 0) & ~here[donors])
        everybody, words = np.flatnonzero(here), pair_words(self.units, lacking, donors, secret)
        for person, word in zip(lacking.tolist(), words.tolist(), strict=True):
            pool = self.partners.of(person)
            after = np.roll(pool, -1 - int(np.flatnonzero(pool == donors[person])[0]))
            some = after[here[after]]
            donors[person] = some[0] if len(some) else everybody[word % len(everybody)]
        return donors

    @property
    def owners(self) -> tuple[Ints, Ids]:
        """Which household each person belongs to, or themselves, and the ids of these."""
        if self.households is not None:
            return self.households.of_person, self.households.units
        return np.arange(len(self.units)), self.units

    def moves(self, exchanged: Exchanged, secret: bytes) -> list[ShownMoves]:
        """Return for each level what rows show that editions changed."""
        donors = exchanged.donors
        if not any(each.moved.any() for each in self.steps):
            return [ShownMoves.nothing()] * len(donors)
        moved = MovedHistories(self, self.bounds, secret)
        each = zip(donors, exchanged.changes, self.tails(donors, secret), strict=True)
        return [moved.shown(*level) for level in each]

    def tails(self, donors: Ints, secret: bytes) -> list[Tail]:
        """Return for each level how histories go on that outgrow those of their donors."""
        continued = Continued(self)
        return [continued.tail(own, secret) for own in donors]

    def replaced(
        self, ids: Ids, own: Codes, donors: Ints, tail: Tail, shown: ShownMoves | None = None
    ) -> Codes:
        """Return the codes (categories, rows) of some rows, given the donors of all persons.

        `shown` is what rows show that editions changed.
        """
        places = self._places_of(row_words(ids))
        person = self._persons_of(places)
        donor = donors.take(person)
        rows = np.flatnonzero(donor >= 0)
        replaced = places.take(rows)
        sources = self._sources(replaced, person.take(rows), donor.take(rows), tail)
        codes = self.codes.take(sources, axis=1)
        if shown is not None:
            codes = shown.put(replaced, codes)
        out = own.copy()
        for new, old in zip(out, codes, strict=True):
            here = new.take(rows)
            new[rows] = np.where(here == MISSING, MISSING, old)
        return out

    def sources(self, places: Ints, donors: Ints, tail: Tail) -> Ints:
        """Return the places of the rows that replace some rows, whose persons all have donors."""
        person = self._persons_of(places)
        return self._sources(places, person, donors[person], tail)

    def _sources(self, places: Ints, person: Ints, donor: Ints, tail: Tail) -> Ints:
        edition = self.stamps[places] % self.editions if self.editions > 1 else places[:0]
        last = self.ends(donor, edition) - 1
        at = np.minimum(self.starts.take(donor) + places - self.starts.take(person), last)
        return tail.replace(places, at)

    def _persons_of(self, places: Ints) -> Ints:
        """Return the person of some rows."""
        stamps = self.stamps.take(places)
        return stamps if self.editions == 1 else stamps // self.editions

    def _places_of(self, words: Words) -> Ints:
        """Return the places of rows; of one that is not there any: the fingerprint will differ."""
        first = np.searchsorted(self.rows, words[:1])
        if len(first) and np.array_equal(self.rows[first[0] : first[0] + len(words)], words):
            return self.places[first[0] : first[0] + len(words)]  # they follow each other
        return self.places[np.minimum(np.searchsorted(self.rows, words), len(self.rows) - 1)]

    def ends(self, persons: Ints, edition: Ints) -> Ints:
        """Return where the rows of persons end that were there with an edition."""
        if self.editions == 1:
            return np.append(self.starts[1:], len(self.rows))[persons]
        return np.searchsorted(self.stamps, persons * self.editions + edition, side="right")


@dataclass(frozen=True)
class _Persons:
    """Ids of persons, ascending by their first word, and their classes."""

    units: Ids
    partners: Partners

    @classmethod
    def of(cls, units: Ids, editions: Ints, starts: Ints, sizes: Ints) -> "_Persons":
        """Return those of a table: their rows begin at `starts`, those of an edition together."""
        came = editions[starts]
        if came.any() or editions.any():  # how many rows a person had when it came
            sizes = np.add.reduceat(editions == np.repeat(came, sizes), starts, dtype=np.int64)
        return cls(units, _classes(came, [sizes]))

    @classmethod
    def of_tables(cls, tables: Sequence[HistoryRows]) -> "_Persons":
        """Return those of linked tables."""
        rows = [
            tuple(np.concatenate([part[k] for part in each.parts]) for k in (1, 2))
            for each in tables
        ]
        every = np.concatenate([units for units, _ in rows])
        words, at = np.unique(every[:, 0], return_index=True)
        counts = np.array(
            [
                np.bincount(np.searchsorted(words, units[editions == 0, 0]), minlength=len(words))
                for units, editions in rows
            ]
        )
        total, places = counts.sum(axis=0), np.arange(len(counts))[:, None]
        # persons in the same tables are alike first, then those with as many rows
        alike = ((counts > 0) << places).sum(axis=0) * (int(total.max()) + 1) + total
        first = np.flatnonzero(total > 0)
        known = _classes(np.zeros(len(first), dtype=np.int64), [alike[first]])
        begins, many = np.full(len(words), len(known.pools)), np.full(len(words), len(first))
        begins[first], many[first] = known.firsts, known.counts
        copies = total == 0
        copies[first] = known.copies
        pools = np.concatenate([first[known.pools], first])
        return cls(every[at], Partners(pools, begins, many, copies))


def taken_from(
    ids: Ids, units: Ids, times: Floats | None, codes: Codes, secret: bytes
) -> Fingerprint:
    """Return the fingerprint of what histories take from some rows.

    What else they depend on, a row's key or the place of one that has none, is in its id.
    """
    when = [] if times is None else [times.view(np.uint64)]
    words = np.vstack([units.T, *when, codes.astype(np.int64).view(np.uint64)])
    return Fingerprint.of(ids, words, expand(secret, "histories"))


def row_words(ids: Ids) -> Words:
    """Return a word that identifies each row."""
    return ids[:, 0] ^ ids[:, 1]


def _first_rows(word: Words) -> Ints:
    """Return where each run of a word begins."""
    is_first = np.ones(len(word), dtype=np.bool_)
    np.not_equal(word[1:], word[:-1], out=is_first[1:])
    return np.flatnonzero(is_first)


def _by_person(word: Words, editions: Ints, order: Floats, words: Words) -> Ints:
    """Return rows sorted by their unit's first word, then by edition, order and their own word.

    Rows of a person that follow each other are sorted as one.
    """
    if not ((editions[1:] >= editions[:-1]) & (order[1:] > order[:-1])).all():
        return np.lexsort((words, order, editions, word))
    firsts = _first_rows(word)
    runs = np.argsort(word[firsts], kind="stable")
    lengths = lengths_of(firsts, len(word))[runs]
    begins = np.cumsum(lengths) - lengths
    return np.asarray(np.arange(len(word)) + np.repeat(firsts[runs] - begins, lengths))


def _households(
    units: Ids,
    outers: Ids,
    starts: Ints,
    stamps: Ints,
    editions: int,
    firsts: tuple[Words, Floats],
    codes: Codes,
) -> Households:
    """Return the households of persons, whose rows are sorted and begin at `starts`.

    `firsts` are the words and the order of all rows: the first of a person states its place.
    """
    words, order = firsts
    edition = stamps % editions
    came = edition[starts]
    sizes = lengths_of(starts, len(stamps))
    rows = np.add.reduceat(edition == np.repeat(came, sizes), starts)
    places = np.empty(len(starts), dtype=np.int64)
    places[np.lexsort((words[starts], order[starts]))] = np.arange(len(starts))
    old = np.flatnonzero(edition == edition.min())
    states = kept_states(codes, np.unique(outers[:, 0], return_inverse=True)[1], old, starts)
    return Households.of(
        units,
        outers[starts],
        came=came,
        order=places,
        rows=rows,
        states=states,
        classes=partial(_classes, least=LEAST_HOUSEHOLDS),
    )


def _classes(came: Ints, likeness: Sequence[Ints], *, least: int = LEAST) -> Partners:
    """Return with whom persons exchange, who came with some editions.

    `likeness` is what those of a class are alike in, coarse to fine.
    """
    pools: list[Ints] = []
    firsts, counts = np.zeros(len(came), dtype=np.int64), np.zeros(len(came), dtype=np.int64)
    copies, at = np.zeros(len(came), dtype=np.bool_), 0
    for edition in np.unique(came):
        here = np.flatnonzero(came == edition)
        if len(here) < LEAST:  # fewer than `least` are one class
            classes, everybody = [here], np.flatnonzero(came <= edition)
            copies[here] = True
        else:
            classes, everybody = [here], None
            for alike in likeness:
                classes = [
                    each for part in classes for each in _of_like_size(part, alike[part], least)
                ]
        for members in classes:
            pool = members if everybody is None else everybody
            firsts[members], counts[members] = at, len(pool)
            pools.append(pool)
            at += len(pool)
    return Partners(np.concatenate(pools), firsts, counts, copies)


def _of_like_size(persons: Ints, sizes: Ints, least: int) -> list[Ints]:
    """Divide persons by how many rows they had; what fewer than `least` had goes with the next."""
    order = np.argsort(sizes, kind="stable")
    cuts, begun = [], 0
    for end in np.flatnonzero(np.diff(sizes[order])) + 1:
        if end - begun >= least and len(order) - end >= least:
            cuts.append(int(end))
            begun = int(end)
    return [np.sort(persons[each]) for each in np.split(order, cuts)]


def _filled(
    codes: Codes, starts: Ints, stamps: Ints, units: Ids, categories: Categories, secret: bytes
) -> Codes:
    """Return the codes of a category with values in place of gaps: those of the row before.

    Before the first value of a person it is that value, if it came with the same edition; a person
    without one draws it.
    """
    missing = codes == MISSING
    if not missing.any():
        return codes
    lengths = lengths_of(starts, len(codes))
    rows, begins = np.arange(len(codes)), np.repeat(starts, lengths)
    before = np.maximum.accumulate(np.where(missing, -1, rows))
    after = np.minimum.accumulate(np.where(missing, len(codes), rows)[::-1])[::-1]
    ends = np.searchsorted(stamps, stamps, side="right")
    source = np.where(before >= begins, before, after)
    words = BlockFunction(secret)(units, room_for(len(units)))[::2]
    drawn = np.minimum(
        np.searchsorted(categories.bounds, words, side="right"), len(categories.bounds) - 1
    ).astype(codes.dtype)
    nothing = source >= ends
    return np.where(nothing, np.repeat(drawn, lengths), codes[np.where(nothing, 0, source)])
