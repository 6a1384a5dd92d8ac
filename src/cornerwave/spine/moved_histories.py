"""What copies show of persons who were replaced, in rows of which an edition changed a category.

A person has one clock and one donor for all editions. What was kept stays kept; of a person who was
replaced a row shows what the donor's did when the row came (see histories.py), and moves whenever
the row itself does, in the same categories, as other persons moved:

    S_0 = donor's row,     S_e = after(j),   j a row that e changed in the same categories
                                             and that held the values S_{e-1} in these

Categories that predict each other, as an occupation and its sector do, move together; others by
themselves. Rows of a person that hold the same values in those that change, and change in the same
ones, are a group: they move together, row by row, as such a group of one other person did. That
person is drawn, by a key, among those who also agree in what persons keep, if LEAST do; else among
those who held the same values; else among all who changed in the same categories; else each
category is drawn from the whole table. A cell that returns to an earlier value shows what it showed
then, and one with a new value what it has not shown. What all rows of a person had in common, and
moved from one value to another, moves in rows that come later too.

Draws are keyed by person, event, edition and group, and look at nothing of the person's but which
cells changed, which anyone sees who has two editions. So copies of all editions show with
probability q = 1/sqrt(1+v) a person's history in all of them, else one that has nothing to do with
it: they reveal what one of them does, as far as new values depend on the values before, and on what
persons keep. Somebody who recognises who was replaced still finds nothing there: 1 - q is hidden.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from cornerwave.arrays import Codes, Flags, Ids, Ints, Words, lengths_of
from cornerwave.keyed import BlockFunction, expand, room_for
from cornerwave.noise import ATTEMPTS, LEAST, MISSING, other_values
from cornerwave.spine.continued import Tail, state_words

if TYPE_CHECKING:
    from cornerwave.spine.histories import Histories

KEPT = 64
"""Rows per change: what changes less often is what persons keep."""
RELATED = 0.5
"""The share of a category that another one predicts, if they move together."""


@dataclass(frozen=True)
class HistoryStep:
    """What an edition, counted from 0, changed: rows by their words, ascending.

    `before` and `after` (categories, rows) are the last codes that were known, `moved` the cells
    that went from one value to another. `whole` are the cells that moved in all rows of the person
    that were there; and, if there are households, in all rows of these.
    """

    edition: int
    words: Words
    before: Codes
    after: Codes
    moved: Flags
    whole: tuple[Flags, ...]


@dataclass(frozen=True)
class ShownMoves:
    """What copies of a level show of some rows, ascending by their place: codes of categories."""

    places: Ints
    codes: Codes

    @classmethod
    def nothing(cls) -> "ShownMoves":
        """Return that of a table that no edition changed."""
        return cls(np.empty(0, dtype=np.int64), np.empty((0, 0), dtype=np.int32))

    def put(self, places: Ints, codes: Codes) -> Codes:
        """Return the codes of rows at some places, with those that are shown instead."""
        if not len(self.places):
            return codes
        found = np.minimum(np.searchsorted(self.places, places), len(self.places) - 1)
        return np.where(self.places[found] == places, self.codes[:, found], codes)


class MovedHistories:
    """How the rows of persons who were replaced move, edition by edition."""

    def __init__(self, histories: "Histories", bounds: Sequence[Words], secret: bytes) -> None:
        """`bounds` are those of the draws of each category."""
        self._all, self._bounds, self._secret = histories, bounds, secret
        self._person = histories.stamps // histories.editions
        self._came = histories.stamps % histories.editions
        self._owner, self._ids = histories.owners
        self._steps = [self._step(each) for each in histories.steps]

    def _step(self, step: HistoryStep) -> "_Step":
        """Return the rows that a step moved, by their place."""
        some = step.moved.any(axis=0)
        places = self._places(step.words[some])
        order = np.argsort(places)
        at, moved, after = places[order], step.moved[:, some][:, order], step.after[:, some]
        before = step.before[:, some][:, order]
        blocks = []
        for block in self.blocks:
            rows = np.flatnonzero(moved[block].any(axis=0))
            groups = self._groups(at[rows], block, moved[:, rows], before[:, rows])
            blocks.append(_Block.of(block, rows, groups))
        whole = tuple(each[:, some][:, order] for each in step.whole)
        return _Step(step.edition, at, before, after[:, order], moved, whole, tuple(blocks))

    def _groups(self, places: Ints, block: Ints, moved: Flags, codes: Codes) -> "_Groups":
        """Group rows that move together in some categories, given the codes of all before."""
        others = np.setdiff1d(np.flatnonzero(self.kept), block)
        owners = self._owner[self._person[places]]
        return _Groups.of(owners, moved[block], codes[block], codes[others])

    def _places(self, words: Words) -> Ints:
        return self._all.places[np.searchsorted(self._all.rows, words)]

    @cached_property
    def kept(self) -> Flags:
        """The categories that persons of the first edition keep, but for a few changes."""
        codes, same = self._all.codes, self._person[1:] == self._person[:-1]
        same = same & (self._came[1:] == 0)
        changes = np.count_nonzero((codes[:, 1:] != codes[:, :-1]) & same, axis=1)
        return np.asarray(changes * KEPT <= np.count_nonzero(same))

    @cached_property
    def blocks(self) -> list[Ints]:
        """The categories that move together."""
        starts = self._all.starts[self._all.starts < len(self._came)]
        return related(self._all.codes[:, starts[self._came[starts] == 0]])

    @property
    def _all_of(self) -> list[Ints]:
        """Whose each row is: the person's, and the household's if there are some."""
        if self._all.households is None:
            return [self._person]
        return [self._person, self._owner[self._person]]

    @cached_property
    def _rows(self) -> Ints:
        """The places of rows that show something else than a donor's: moved, or came later."""
        first = self._all.steps[0].edition
        whose = self._all_of[-1]
        someone = np.zeros(int(whose.max(initial=0)) + 1, dtype=np.bool_)
        someone[whose[np.concatenate([each.places for each in self._steps])]] = True
        later = np.flatnonzero(someone[whose] & (self._came >= first))
        return np.unique(np.concatenate([later, *(each.places for each in self._steps)]))

    def shown(self, donors: Ints, events: Ints, tail: Tail) -> ShownMoves:
        """Return what copies of a level show, given persons' donors and numbers of events."""
        rows = self._rows
        rows = rows[donors[self._person[rows]] >= 0]
        shows = [self._all.codes[:, self._all.sources(rows, donors, tail)]]
        truth = [self._before(rows)]
        for step in self._steps:
            own = np.flatnonzero(np.isin(step.places, rows, assume_unique=True))
            at = np.searchsorted(rows, step.places[own])
            values = truth[-1].copy()
            values[:, at] = np.where(step.moved[:, own], step.after[:, own], values[:, at])
            now = shows[-1].copy()
            now[:, at] = self._moved(
                step,
                step.moved[:, own],
                values[:, at],
                np.stack(shows)[:, :, at],
                np.stack(truth)[:, :, at],
                step.places[own],
                events,
            )
            later = np.flatnonzero(self._came[rows] >= step.edition)
            for whose, whole in zip(self._all_of, step.whole, strict=True):
                cells = (whole[:, own], shows[-1][:, at], now[:, at])
                move_alike(now, later, whose[rows], whose[rows[at]], *cells)
            shows.append(now)
            truth.append(values)
        return ShownMoves(rows, shows[-1])

    def _before(self, rows: Ints) -> Codes:
        """Return the codes of some rows before an edition moved them first, where one did."""
        codes = np.full((len(self._bounds), len(rows)), MISSING, dtype=np.int32)
        for step in reversed(self._steps):
            own = np.flatnonzero(np.isin(step.places, rows, assume_unique=True))
            at = np.searchsorted(rows, step.places[own])
            codes[:, at] = np.where(step.moved[:, own], step.before[:, own], codes[:, at])
        return codes

    def _moved(
        self,
        step: "_Step",
        moved: Flags,
        values: Codes,
        earlier: Codes,
        truth: Codes,
        places: Ints,
        events: Ints,
    ) -> Codes:
        """Return what rows show after a step, given all that they showed and were before it.

        earlier, truth: (moments, categories, rows).
        """
        seen = truth == values
        again = moved & seen.any(axis=0)
        out = earlier[-1].copy()
        for block in step.blocks:
            rows = np.flatnonzero(moved[block.columns].any(axis=0))
            if len(rows):
                groups = self._groups(
                    places[rows], block.columns, moved[:, rows], earlier[-1][:, rows]
                )
                here = np.ix_(block.columns, rows)
                new = (moved & ~again)[here]
                past = earlier[:, block.columns][:, :, rows]
                of = events[self._person[places[rows[groups.firsts]]]]
                out[here] = self._drawn(step, block, groups, new, past, of)
        before = np.take_along_axis(earlier, seen.argmax(axis=0)[None], axis=0)[0]
        return np.asarray(np.where(again, before, out))

    def _drawn(
        self,
        step: "_Step",
        block: "_Block",
        groups: "_Groups",
        new: Flags,
        past: Codes,
        events: Ints,
    ) -> Codes:
        """Return what groups of rows show of a block of categories after a step.

        `new` are the cells that get a new value, `past` (moments, categories, rows) what rows
        showed, `events` the number of the event of each group.
        """
        after, out = step.after[block.columns][:, block.rows], past[-1].copy()
        # groups of one person are told apart by what they held, those of two events by its number
        blocks = self._ids[groups.owners] ^ np.column_stack(
            [groups.coarse, events.astype(np.uint64)]
        )
        blocks = np.ascontiguousarray(blocks)
        waits = np.ones(len(groups.firsts), dtype=np.bool_)
        for attempt in range(ATTEMPTS):
            words = self._random("moves", step.edition, block.columns[0], attempt, blocks)
            drawn = block.drawn(groups, words)
            rows = waits[groups.of_row] & (drawn >= 0)
            out = np.where(rows & new, after[:, np.maximum(drawn, 0)], out)
            # a new value of a cell is shown by one that it has not shown, if there is any
            bad = (new & (past == out).any(axis=0)).any(axis=0)
            waits = np.bincount(groups.of_row, bad, minlength=len(waits)) > 0
            if not waits.any():
                break
        unmoved = new & (out == past[-1])
        for place in np.flatnonzero(unmoved.any(axis=1)).tolist():
            category, own = block.columns[place], np.flatnonzero(unmoved[place])
            words = self._random("others", step.edition, category, 0, blocks)[groups.of_row]
            was = past[-1][place, own]
            out[place, own] = other_values(was, words[own], self._bounds[category])
        return np.asarray(out)

    def _random(self, what: str, edition: int, category: int, attempt: int, blocks: Ids) -> Words:
        info = struct.pack("<QII", edition, category, attempt)
        secret = expand(self._secret, f"{what} of histories", info)
        return BlockFunction(secret)(blocks, room_for(len(blocks)))[::2].copy()


def move_alike(
    codes: Codes, rows: Ints, whose: Ints, of: Ints, whole: Flags, before: Codes, after: Codes
) -> None:
    """Move what all rows of somebody had in common, and have, in further rows of theirs, too.

    `codes` (categories, rows) are those of rows of `whose`, of which some `rows` are to move; of
    others it is known how they moved: whose (`of`) they are, cells that are `whole`, and their
    codes before and after.
    """
    for category, own in enumerate(whole):
        moved = np.flatnonzero(own)
        if not len(moved) or not len(rows):
            continue
        moved = moved[np.argsort(of[moved], kind="stable")]
        start = np.flatnonzero(np.append(True, of[moved][1:] != of[moved][:-1]))
        was, now = before[category, moved], after[category, moved]
        one = np.minimum.reduceat(was, start) == np.maximum.reduceat(was, start)
        one &= np.minimum.reduceat(now, start) == np.maximum.reduceat(now, start)
        known = of[moved][start]
        place = np.minimum(np.searchsorted(known, whose[rows]), len(known) - 1)
        goes = (known[place] == whose[rows]) & one[place]
        goes &= codes[category, rows] == was[start][place]
        codes[category, rows[goes]] = now[start][place[goes]]


@dataclass(frozen=True)
class _Groups:
    """Rows of a person that move together: they held the same values in what changes.

    `order` has the rows group by group, which begin at `begins`; `firsts` are the first rows,
    `owners` whose they are. Words state what they are alike in: `fine` also what persons keep,
    `coarse` the values that change, `mask` which categories do.
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

    @classmethod
    def of(cls, owners: Ints, moved: Flags, codes: Codes, kept: Codes) -> "_Groups":
        """Group rows by whose they are, which cells moved, and what these held.

        `kept` (categories, rows) is what persons keep beside.
        """
        which = moved.astype(np.int32)
        states = np.concatenate([which, np.where(moved, codes, MISSING)])
        coarse = state_words(states)
        order = np.lexsort((np.arange(len(owners)), coarse, owners))
        new = np.ones(len(order), dtype=np.bool_)
        new[1:] = (owners[order][1:] != owners[order][:-1]) | (
            coarse[order][1:] != coarse[order][:-1]
        )
        begins = np.flatnonzero(new)
        firsts, of_row = order[begins], np.empty(len(order), dtype=np.int64)
        of_row[order] = np.cumsum(new) - 1
        fine = state_words(np.concatenate([states, kept])[:, firsts])
        return cls(
            order,
            begins,
            lengths_of(begins, len(order)),
            firsts,
            owners[firsts],
            of_row,
            fine,
            coarse[firsts],
            state_words(which[:, firsts]),
        )

    @cached_property
    def ranks(self) -> Ints:
        """The place of each row in its group."""
        found = np.empty(len(self.order), dtype=np.int64)
        found[self.order] = np.arange(len(self.order)) - np.repeat(self.begins, self.sizes)
        return found


@dataclass(frozen=True)
class _Block:
    """Rows of a step that moved in some categories, `columns`, and the groups by which others move.

    `rows` are places among those of the step.
    """

    columns: Ints
    rows: Ints
    groups: _Groups
    pools: tuple["_AlikeGroups", ...]

    @classmethod
    def of(cls, columns: Ints, rows: Ints, groups: _Groups) -> "_Block":
        """Arrange rows, given their groups."""
        pools = tuple(
            _AlikeGroups.of(words, groups.sizes, groups.owners)
            for words in (groups.fine, groups.coarse, groups.mask)
        )
        return cls(columns, rows, groups, pools)

    def drawn(self, groups: _Groups, random: Words) -> Ints:
        """Return for each row of some groups the row of this block that it moves like, or -1."""
        found = np.full(len(groups.firsts), -1, dtype=np.int64)
        for pool, words in zip(self.pools, (groups.fine, groups.coarse, groups.mask), strict=True):
            found = np.where(found < 0, pool.drawn(words, groups.sizes, random), found)
        group = found[groups.of_row]
        # a group with more rows than the other goes through that one again
        turn = groups.ranks % np.maximum(self.groups.sizes[group], 1)
        rows = self.groups.order[np.minimum(self.groups.begins[group] + turn, len(self.rows) - 1)]
        return np.where(group < 0, -1, rows)


@dataclass(frozen=True)
class _Step:
    """Rows that an edition moved, ascending by place, and the blocks in which they did."""

    edition: int
    places: Ints
    before: Codes
    after: Codes
    moved: Flags
    whole: tuple[Flags, ...]
    blocks: tuple[_Block, ...]


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

    def drawn(self, words: Words, sizes: Ints, random: Words) -> Ints:
        """Return a group that is like each of some, with as many rows if LEAST have; or -1."""
        if not len(self.words):
            return np.full(len(words), -1)
        number = np.minimum(np.searchsorted(self.words, words), len(self.words) - 1)
        like = (self.words[number] == words) & self.enough[number]
        first = np.searchsorted(self.keys, number * (self.most + 1))
        every = np.searchsorted(self.keys, (number + 1) * (self.most + 1)) - first
        least = self.most - np.minimum(sizes, self.most)
        long = np.searchsorted(self.keys, number * (self.most + 1) + least, side="right") - first
        count = np.where(long >= LEAST, long, every)
        chosen = first + (random % np.maximum(count, 1).astype(np.uint64)).astype(np.int64)
        return np.where(like, self.groups[np.minimum(chosen, len(self.groups) - 1)], -1)


def related(codes: Codes) -> list[Ints]:
    """Return groups of categories of which one predicts half of another, given codes of persons.

    codes: (categories, persons).

    >>> sector = np.repeat([0, 1, 2], 30)
    >>> occupation, sex = 2 * sector + np.tile([0, 1], 45), np.tile([0, 0, 1], 30)
    >>> related(np.array([occupation, sex, sector], dtype=np.int32))
    [array([0, 2]), array([1])]
    """
    group = np.arange(len(codes))
    for one, own in enumerate(codes):
        for two, other in enumerate(codes):
            if one != two and predicted(own, other) >= RELATED:
                group[group == group[two]] = group[one]
    return [np.flatnonzero(group == each) for each in np.unique(group)]


def predicted(known: Codes, wanted: Codes) -> float:
    """Return which share of a category another one predicts: 1 - W / B, estimated by pairs.

    Two rows with one known value hold different wanted values with probability W, any two with B.
    """
    B = _differ(wanted[None], np.zeros_like(wanted))
    return 1 - _differ(wanted[None], known) / B if B > 0 else 0.0


def _differ(wanted: Codes, known: Codes) -> float:
    """Return how often two rows differ that have one known value, without bias."""
    _, number, left = np.unique(known, return_inverse=True, return_counts=True)
    pairs, often = np.unique(np.vstack([number, wanted]), axis=1, return_counts=True)
    equal = np.bincount(pairs[0], often * (often - 1.0), minlength=len(left))
    repeated = left > 1
    if not repeated.any():
        return 1.0
    return float(1 - (equal[repeated] / (left[repeated] - 1)).sum() / left[repeated].sum())
