"""The categories of persons in tables that are updated: what each edition changed of them.

Copies replace a person by what a donor was when rows came (see histories.py), and a new state of
the table no longer shows that. So of each row of which an edition changed a category its codes
before are kept, and of rows that went whose they were. From the rows of the last edition they give
what each row was when it came, and what each edition made of it:

    codes before e  =  those kept of e, in rows that e changed,      else codes after e

Codes and times are kept under a keyed pad: they are values only with the key.
"""

import io
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cornerwave.arrays import Codes, Flags, Floats, Ids, Ints, Words, places_among
from cornerwave.keyed import BlockFunction, expand, room_for
from cornerwave.noise import MISSING
from cornerwave.spine.histories import HistoryRows
from cornerwave.spine.moved_histories import HistoryStep, move_alike

CHANGED, WENT, BACK = range(3)
"""What an edition did to a row: it has other codes, it went, or it came back."""


@dataclass(frozen=True)
class ChangedHistories:
    """Rows of which an edition changed a category, which went or came back, by their words.

    `before` (categories, rows) are the codes of the edition before; `came` with which edition rows
    came, from 0; `units`, `outers` (of households, if there are some) and `order` state whose they
    are, and where in the history. `later` are the words, ascending, of all rows of this edition
    that came after the first, `editions` with which.
    """

    words: Words
    kinds: Ints
    before: Codes
    came: Ints
    units: Ids
    outers: Ids
    order: Floats
    later: Words
    editions: Ints

    @classmethod
    def of(
        cls, old: HistoryRows, new: HistoryRows, gone: "ChangedHistories | None", edition: int
    ) -> "ChangedHistories":
        """Compare two states of a table; `gone` are rows that went before, `edition` counts from 0.

        Rows of the old state have the edition with which they came; those of the new one need none.
        """
        one, two = _HistoriesByWord.of(old), _HistoriesByWord.of(new)
        partner = places_among(one.words, two.words)
        stays = np.flatnonzero(partner >= 0)
        differ = (one.codes[:, partner[stays]] != two.codes[:, stays]).any(axis=0)
        went = np.flatnonzero(places_among(two.words, one.words) < 0)
        alone = np.flatnonzero(partner < 0)
        known = np.empty(0, dtype=np.uint64) if gone is None else gone.words
        place = places_among(known, two.words[alone])
        back, came = alone[place >= 0], two.editions.copy()
        came[stays], came[alone] = one.editions[partner[stays]], edition
        if gone is not None:
            came[back] = gone.came[place[place >= 0]]
        changed = stays[differ]
        parts = [
            replace(two.take(changed, came), codes=one.codes[:, partner[changed]]),
            one.take(went, one.editions),
            replace(two.take(back, came), codes=np.full_like(two.codes[:, back], MISSING)),
        ]
        rows = _HistoriesByWord.joined(parts)
        kinds = np.repeat([CHANGED, WENT, BACK], [len(changed), len(went), len(back)])
        order = np.argsort(rows.words)
        later = np.flatnonzero(came > 0)
        return cls(
            rows.words[order],
            kinds[order],
            rows.codes[:, order],
            rows.editions[order],
            rows.units[order],
            rows.outers[order] if len(rows.outers) else rows.outers,
            rows.order[order],
            two.words[later],
            came[later],
        )

    def to_bytes(self, key: bytes) -> bytes:
        """Return what is kept beside the chain; `key` is that of the edition."""
        out = io.BytesIO()
        np.savez(
            out,
            words=self.words,
            kinds=self.kinds.astype(np.uint8),
            before=self.before.view(np.uint32) ^ _pads(self.words, len(self.before), key),
            came=self.came,
            units=self.units,
            outers=self.outers,
            order=self.order.view(np.uint64) ^ _words(self.words, key),
            later=self.later,
            editions=self.editions,
        )
        return out.getvalue()

    @classmethod
    def read(cls, content: bytes, key: bytes) -> "ChangedHistories":
        """Return what `to_bytes` wrote."""
        with np.load(io.BytesIO(content), allow_pickle=False) as kept:
            words = kept["words"]
            padded = kept["before"]
            return cls(
                words,
                kept["kinds"].astype(np.int64),
                (padded ^ _pads(words, len(padded), key)).view(np.int32),
                kept["came"],
                kept["units"],
                kept["outers"],
                (kept["order"] ^ _words(words, key)).view(np.float64),
                kept["later"],
                kept["editions"],
            )

    def only(self, rows: Ints | Flags) -> "ChangedHistories":
        """Return some of the rows."""
        return replace(
            self,
            words=self.words[rows],
            kinds=self.kinds[rows],
            before=self.before[:, rows],
            came=self.came[rows],
            units=self.units[rows],
            outers=self.outers[rows] if len(self.outers) else self.outers,
            order=self.order[rows],
        )


def came_with(rows: HistoryRows, changes: Mapping[int, ChangedHistories]) -> HistoryRows:
    """Return rows with the edition that each came with, from 0, in place of the last update.

    `changes` are those of updates by their number, from 1.
    """
    if not changes:
        return rows
    begins = max(changes)
    last = changes[begins]

    def known(words: Words, editions: Ints) -> Ints:
        place = places_among(last.later, words)
        first = np.where(place >= 0, last.editions[place] if len(last.later) else 0, 0)
        return np.where(editions == begins - 1, first, editions)

    parts = tuple(
        (words, units, known(words, editions), order, codes)
        for words, units, editions, order, codes in rows.parts
    )
    return replace(rows, parts=parts)


def gone_by(changes: Mapping[int, ChangedHistories]) -> ChangedHistories | None:
    """Return the rows that went and did not come back, with their last codes; None without any."""
    gone: ChangedHistories | None = None
    for _, each in sorted(changes.items()):
        went = each.only(each.kinds == WENT)
        if gone is None:
            gone = went
            continue
        back = each.words[each.kinds == BACK]
        left = gone.only(~np.isin(gone.words, back))
        gone = _together(left, went)
    return gone


def put_back(rows: HistoryRows, changes: Mapping[int, ChangedHistories]) -> HistoryRows:
    """Return all rows there ever were as they came, with what each update made of them.

    `rows` have the edition that each came with.
    """
    if not changes:
        return rows
    every = _HistoriesByWord.joined([_HistoriesByWord.of(rows), _lost(changes)])
    every = every.take(np.argsort(every.words), every.editions)
    codes, found = every.codes.copy(), list[_Change]()
    for number, each in sorted(changes.items(), reverse=True):
        at = np.searchsorted(every.words, each.words)
        found.append(_Change(number - 1, each, at, codes[:, at].copy()))
        codes[:, at] = each.before
    whose = [np.unique(ids[:, 0], return_inverse=True)[1] for ids in every.named]
    steps = _steps(found[::-1], every, codes.copy(), whose)
    # What a person had in common is that of their first rows, in rows that came later too: these
    # stand for others, whose rows move by themselves.
    for change, step in zip(found, reversed(steps), strict=True):
        later = np.flatnonzero(every.editions >= step.edition)
        for own, cells in zip(whose, step.whole, strict=True):
            move_alike(codes, later, own, own[change.at], cells, step.after, step.before)
    outers = (every.outers,) if len(every.outers) else ()
    part = (every.words, every.units, every.editions, every.order, codes)
    return replace(rows, parts=(part,), outers=outers, steps=steps)


@dataclass(frozen=True)
class _Change:
    """What an edition, from 0, changed: `at` which of all rows, and their codes after it."""

    edition: int
    rows: ChangedHistories
    at: Ints
    after: Codes


def _lost(changes: Mapping[int, ChangedHistories]) -> "_HistoriesByWord":
    """Return the rows that went, without codes."""
    gone = gone_by(changes)
    assert gone is not None
    nothing = np.full_like(gone.before, MISSING)
    return _HistoriesByWord(gone.words, gone.units, gone.came, gone.order, nothing, gone.outers)


def _steps(
    found: Sequence[_Change], every: "_HistoriesByWord", codes: Codes, whose: Sequence[Ints]
) -> tuple[HistoryStep, ...]:
    """Return what each edition changed, given all rows and the codes with which they came.

    `codes` become the last that were known. `whose` rows are: the person's, the household's.
    """
    there, steps = np.ones(len(every.words), dtype=np.bool_), list[HistoryStep]()
    for each in found:
        at, kinds, before = each.at, each.rows.kinds, codes[:, each.at]
        after = np.where(kinds == WENT, MISSING, each.after)
        # a gap does not count: of a value that comes back after one, what it was before
        moved = (before != after) & (before != MISSING) & (after != MISSING)
        after = np.where(after == MISSING, before, after)
        codes[:, at] = after
        there[at[kinds == WENT]] = False
        stayed = there & (every.editions < each.edition)
        there[at[kinds == BACK]] = True
        whole = tuple(_in_all(moved, own[at], own[stayed]) for own in whose)
        steps.append(HistoryStep(each.edition, each.rows.words, before, after, moved, whole))
    return tuple(steps)


def _in_all(moved: Flags, of: Ints, there: Ints) -> Flags:
    """Return which cells moved in all rows of somebody (`of`): `there` has whose all rows are."""
    most = int(max(of.max(initial=0), there.max(initial=0))) + 1
    rows = np.bincount(there, minlength=most)
    counts = [np.bincount(of[own], minlength=most) for own in moved]
    whole = [own & (count == rows)[of] for own, count in zip(moved, counts, strict=True)]
    return np.array(whole, dtype=np.bool_).reshape(moved.shape)


@dataclass(frozen=True)
class _HistoriesByWord:
    """Rows by their words, ascending."""

    words: Words
    units: Ids
    editions: Ints
    order: Floats
    codes: Codes
    outers: Ids

    @property
    def named(self) -> list[Ids]:
        """The ids of persons, and of households if there are some."""
        return [self.units, self.outers] if len(self.outers) else [self.units]

    @classmethod
    def of(cls, rows: HistoryRows) -> "_HistoriesByWord":
        words, units, editions, order, codes = (
            np.concatenate(each, axis=axis)
            for each, axis in zip(zip(*rows.parts, strict=True), (0, 0, 0, 0, 1), strict=True)
        )
        outers = np.concatenate([np.empty((0, 2), dtype=np.uint64), *rows.outers])
        found = cls(words, units, editions.astype(np.int64), order, codes, outers)
        return found.take(np.argsort(words, kind="stable"), found.editions)

    @classmethod
    def joined(cls, parts: Sequence["_HistoriesByWord"]) -> "_HistoriesByWord":
        words, units, editions, order, codes, outers = (
            np.concatenate([getattr(part, name) for part in parts], axis=axis)
            for name, axis in _FIELDS
        )
        return cls(words, units, editions, order, codes, outers)

    def take(self, rows: Ints, editions: Ints) -> "_HistoriesByWord":
        """Return some rows, that came with `editions` of all."""
        return _HistoriesByWord(
            self.words[rows],
            self.units[rows],
            editions[rows],
            self.order[rows],
            self.codes[:, rows],
            self.outers[rows] if len(self.outers) else self.outers,
        )


_FIELDS = (
    ("words", 0),
    ("units", 0),
    ("editions", 0),
    ("order", 0),
    ("codes", 1),
    ("outers", 0),
)


def _together(one: ChangedHistories, two: ChangedHistories) -> ChangedHistories:
    """Return the rows of both, by their words."""
    both = replace(
        two,
        before=np.concatenate([one.before, two.before], axis=1),
        **{
            name: np.concatenate([getattr(one, name), getattr(two, name)])
            for name in ("words", "kinds", "came", "units", "outers", "order")
        },
    )
    return both.only(np.argsort(both.words))


def _pads(words: Words, categories: int, key: bytes) -> NDArray[np.uint32]:
    """Return 32 random bits for each cell of some rows (categories, rows)."""
    pads = np.empty((categories, len(words)), dtype=np.uint32)
    for category, own in enumerate(pads):
        own[:] = _words(words, key, category + 1)
    return pads


def _words(words: Words, key: bytes, number: int = 0) -> Words:
    """Return 64 random bits for each row."""
    blocks = np.full((len(words), 2), number, dtype=np.uint64)
    blocks[:, 0] = words
    function = BlockFunction(expand(key, "histories", struct.pack("<I", number)))
    return np.asarray(function(blocks, room_for(len(blocks)))[::2].copy())
