"""What copies show of persons who were replaced, in rows of which an edition changed a category.

A person has one clock and one donor for all editions. What was kept stays kept; of a person who was
replaced a row shows what the donor's did when the row came (see histories.py), and moves whenever
the row itself does, in the same categories, as other persons moved:

    S_0 = donor's row,     S_e = after(j),   j a row that e changed in the same categories
                                             and that held the values S_{e-1} in these

Categories that predict each other, as an occupation and its sector do, move together; others by
themselves. Rows of a person that had the same last states in those that change, and change in the
same ones, are a group: they move together, row by row, as such a group of one other person did.
That person is drawn, by a key, among those who had the same last states in these categories and
agree in what persons keep, if LEAST do. Else a group that moved before, and moves in one category,
moves as the cells of rows do (noise/_moves_of_cells.py), each group being one. Others move like a
person who had the same last states; else one who agrees in what persons keep, in the values, or in
which categories changed; else each category is drawn from the whole table. So what is shown returns
to an earlier value as often as persons do. What all rows of a person had in common, and moved from
one value to another, moves in rows that come later too.

Draws are keyed by person, event, edition and group, and look at nothing of the person's but which
cells changed, which anyone sees who has two editions. So copies of all editions show with
probability q = 1/sqrt(1+v) a person's history in all of them, else one that has nothing to do with
it: they reveal what one of them does, as far as new values depend on the states before, and on what
persons keep. Somebody who recognises who was replaced still finds nothing there: 1 - q is hidden.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from cornerwave.arrays import Codes, Flags, Ids, Ints, Words
from cornerwave.keyed import BlockFunction, expand, room_for
from cornerwave.noise import MISSING, CategoryMoves, other_values
from cornerwave.spine.alike_groups import MovedBlock, MovedGroups
from cornerwave.spine.continued import Tail

if TYPE_CHECKING:
    from cornerwave.spine.histories import Histories

ATTEMPTS = 4
"""Draws of a value that a cell does not show already."""
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
        moved = [self._moved_by(each) for each in histories.steps]
        # what rows were before each step, as far as it changed them; those that came later as if
        # they had been there, as in what is shown
        rows = np.unique(np.concatenate([np.empty(0, np.int64), *(each.places for each in moved)]))
        at = [np.searchsorted(rows, each.places) for each in moved]
        first = np.full((len(bounds), len(rows)), MISSING, dtype=np.int32)
        for each, here in zip(reversed(moved), reversed(at), strict=True):
            first[:, here] = np.where(each.moved, each.before, first[:, here])
        since = np.flatnonzero(self._came[rows] > 0)
        first[:, since] = histories.codes[:, rows[since]]
        past, self._steps = [first], list[_Step]()
        for each, here in zip(moved, at, strict=True):
            self._steps.append(self._with_blocks(each, np.stack(past)[:, :, here]))
            now = past[-1].copy()
            now[:, here] = np.where(each.moved, each.after, now[:, here])
            self._move_later(each, rows, here, each.whole, past[-1][:, here], now)
            past.append(now)

    def _moved_by(self, step: HistoryStep) -> "_Step":
        """Return the rows that a step moved, by their place."""
        some = step.moved.any(axis=0)
        places = self._places(step.words[some])
        order = np.argsort(places)
        before, after = (each[:, some][:, order] for each in (step.before, step.after))
        moved = step.moved[:, some][:, order]
        whole = tuple(each[:, some][:, order] for each in step.whole)
        return _Step(step.edition, places[order], before, after, moved, whole, ())

    def _with_blocks(self, step: "_Step", past: Codes) -> "_Step":
        """Return a step with how others move, given all that its rows were before.

        past: (moments, categories, rows).
        """
        blocks = []
        for block in self.blocks:
            rows = np.flatnonzero(step.moved[block].any(axis=0))
            places, moved = step.places[rows], step.moved[:, rows]
            groups = self._groups(places, block, moved, step.before[:, rows], past[:, :, rows])
            of = groups.firsts
            moves = {
                place: CategoryMoves.of(
                    groups.states[:, place, single],
                    step.after[column, rows[of[single]]],
                    self._bounds[column],
                )
                for place, column in enumerate(block.tolist())
                if len(single := np.flatnonzero(groups.single == place))
            }
            blocks.append(MovedBlock.of(block, rows, groups, moves))
        return replace(step, blocks=tuple(blocks))

    def _groups(
        self, places: Ints, block: Ints, moved: Flags, codes: Codes, past: Codes
    ) -> MovedGroups:
        """Group rows that move together in some categories, given the codes of all before.

        past: (moments, categories, rows).
        """
        others = np.setdiff1d(np.flatnonzero(self.kept), block)
        owners = self._owner[self._person[places]]
        return MovedGroups.of(owners, moved[block], codes[others], past[:, block])

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
        for step in self._steps:
            own = np.flatnonzero(np.isin(step.places, rows, assume_unique=True))
            at = np.searchsorted(rows, step.places[own])
            now = shows[-1].copy()
            now[:, at] = self._moved(
                step, step.moved[:, own], np.stack(shows)[:, :, at], step.places[own], events
            )
            whole = [cells[:, own] for cells in step.whole]
            self._move_later(step, rows, at, whole, shows[-1][:, at], now)
            shows.append(now)
        return ShownMoves(rows, shows[-1])

    def _move_later(
        self,
        step: "_Step",
        rows: Ints,
        at: Ints,
        whole: Sequence[Flags],
        before: Codes,
        codes: Codes,
    ) -> None:
        """Move what all rows of somebody had in common in those, of some rows, that came later.

        `codes` are those of all `rows` after the step, `at` which of them moved, with codes before.
        """
        later = np.flatnonzero(self._came[rows] >= step.edition)
        for whose, cells in zip(self._all_of, whole, strict=True):
            of = whose[rows]
            move_alike(codes, later, of, of[at], cells, before, codes[:, at])

    def _moved(self, step: "_Step", moved: Flags, past: Codes, places: Ints, events: Ints) -> Codes:
        """Return what rows show after a step, given all that they showed before it.

        past: (moments, categories, rows).
        """
        out: Codes = past[-1].copy()
        for block in step.blocks:
            rows = np.flatnonzero(moved[block.columns].any(axis=0))
            if len(rows):
                some = past[:, :, rows]
                groups = self._groups(places[rows], block.columns, moved[:, rows], some[-1], some)
                here = np.ix_(block.columns, rows)
                of = events[self._person[places[rows[groups.firsts]]]]
                out[here] = self._drawn(step, block, groups, moved[here], out[here], of)
        return out

    def _drawn(
        self,
        step: "_Step",
        block: MovedBlock,
        groups: MovedGroups,
        moved: Flags,
        shown: Codes,
        events: Ints,
    ) -> Codes:
        """Return what groups of rows show of a block of categories after a step.

        `moved` are the cells that it changed, `shown` (categories, rows) what rows show before it,
        `events` the number of the event of each group.
        """
        after, out = step.after[block.columns][:, block.rows], shown.copy()
        # groups of one person are told apart by what they held, those of two events by its number
        blocks = self._ids[groups.owners] ^ np.column_stack(
            [groups.coarse_past, events.astype(np.uint64)]
        )
        blocks = np.ascontiguousarray(blocks)
        waits = np.ones(len(groups.firsts), dtype=np.bool_)
        for attempt in range(ATTEMPTS):
            words = self._random("moves", step.edition, block.columns[0], attempt, blocks)
            drawn = block.drawn(groups, words)
            rows = waits[groups.of_row] & (drawn >= 0)
            out = np.where(rows & moved, after[:, np.maximum(drawn, 0)], out)
            waits = np.bincount(groups.of_row, (moved & (shown == out)).any(axis=0)) > 0
            if not waits.any():
                break
        for place, moves in block.moves.items():
            alone = block.alone(groups, place)
            words = self._random("cells", step.edition, block.columns[place], 0, blocks)
            bounds = self._bounds[block.columns[place]]
            values = moves.drawn(groups.states[:, place, alone], words[alone], bounds)
            of = np.full(len(groups.firsts), MISSING, dtype=np.int32)
            of[alone] = values
            rows = (of[groups.of_row] != MISSING) & moved[place]
            out[place] = np.where(rows, of[groups.of_row], out[place])
        unmoved = moved & (out == shown)
        for place in np.flatnonzero(unmoved.any(axis=1)).tolist():
            category, own = block.columns[place], np.flatnonzero(unmoved[place])
            words = self._random("others", step.edition, category, 0, blocks)[groups.of_row]
            out[place, own] = other_values(shown[place, own], words[own], self._bounds[category])
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
class _Step:
    """Rows that an edition moved, ascending by place, and the blocks in which they did."""

    edition: int
    places: Ints
    before: Codes
    after: Codes
    moved: Flags
    whole: tuple[Flags, ...]
    blocks: tuple[MovedBlock, ...]


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
