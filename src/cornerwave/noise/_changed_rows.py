"""Which rows each edition changed, and in which columns: keyed hashes and bits, and no values."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from cornerwave.arrays import Flags, Floats, Ids, Ints, Words, places_among
from cornerwave.noise._carried import noise_across
from cornerwave.noise._moved_cells import MovedRows
from cornerwave.noise._transition import Transition, kinds_of

_FILTER_BITS = 24
MANY, STEP = 100, 0.01
"""Changed rows, at least, whose noise a copy's average takes account of, and how finely."""
MOST_HISTORIES = 256
"""Histories of changes, the most frequent ones, that stand for all."""


@dataclass(frozen=True)
class ChangedRows:
    """The rows that an edition changed: 64 bits of their ids, ascending; cells (N, rows); rules.

    `back` are rows with values that came back, with their own rules, `rules[returning:]`. Rules
    may carry over the noise of further numbers, which persons have in linked tables: `beside`
    (numbers, paths) are the loadings of these on the paths of persons.
    """

    hashes: Words
    cells: Flags
    back: Flags
    rules: tuple[Transition, ...]
    returning: int
    beside: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    @classmethod
    def of(
        cls,
        hashes: Words,
        cells: Flags,
        rules: Sequence[Transition],
        *,
        back: Flags | None = None,
        returning: Sequence[Transition] = (),
        beside: Floats | None = None,
    ) -> "ChangedRows":
        """Put rows in the order of their ids."""
        order = np.argsort(hashes)
        back = np.zeros(len(hashes), dtype=bool) if back is None else back
        every = (*rules, *returning)
        beside = np.zeros((0, 0)) if beside is None else beside
        return cls(hashes[order], cells[:, order], back[order], every, len(rules), beside)

    @cached_property
    def kinds(self) -> Ints:
        """By which of the rules the noise of each row is carried over."""
        changed, returning = self.rules[: self.returning], self.rules[self.returning :]
        kinds = kinds_of(changed, self.cells)
        there = kinds_of(returning, self.cells)
        return np.where(self.back & (there >= 0), self.returning + there, kinds).astype(np.int64)

    @property
    def followed(self) -> tuple[Transition, ...]:
        """The rules that some row follows."""
        return tuple(self.rules[kind] for kind in np.unique(self.kinds).tolist() if self.rules)

    def to_bytes(self) -> bytes:
        """Return what is kept beside the chain."""
        number, rows = self.cells.shape
        rules = [rule.to_json() for rule in self.rules]
        stated = {"columns": number, "rows": rows, "rules": rules, "returning": self.returning}
        if len(self.beside):
            stated["beside"] = self.beside.tolist()
        head = json.dumps(stated).encode()
        # a row's bits lie together: one for each column that changed, and whether the row came back
        bits = np.packbits(np.vstack([self.cells, self.back]), axis=0).T.tobytes()
        return len(head).to_bytes(8, "little") + head + self.hashes.astype("<u8").tobytes() + bits

    @classmethod
    def read(cls, content: bytes) -> "ChangedRows":
        """Return what `to_bytes` wrote."""
        start = 8 + int.from_bytes(content[:8], "little")
        head = json.loads(content[8:start])
        number, rows = head["columns"], head["rows"]
        hashes = np.frombuffer(content, "<u8", rows, start).astype(np.uint64)
        packed = np.frombuffer(content, np.uint8, offset=start + 8 * rows)
        width = -(-(number + 1) // 8)
        bits = np.unpackbits(packed.reshape(rows, width), axis=1, count=number + 1)
        cells = np.ascontiguousarray(bits.T).astype(bool)
        rules = tuple(Transition.from_json(rule) for rule in head["rules"])
        beside = np.array(head["beside"]) if "beside" in head else np.zeros((0, 0))
        return cls(hashes, cells[:-1], cells[-1], rules, head["returning"], beside)


class Past:
    """What all editions changed: for some rows, which of them changed, and by which rules.

    >>> changed = ChangedRows.of(np.array([7], np.uint64), np.array([[True]]), ())
    >>> past = Past({2: changed})
    >>> rows, kinds = past.of(np.array([[3, 0], [7, 0]], np.uint64))
    >>> rows.tolist(), {edition: found.tolist() for edition, found in kinds.items()}
    ([1], {2: [0]})
    """

    def __init__(
        self,
        editions: Mapping[int, ChangedRows],
        moved: Mapping[int, MovedRows] | None = None,
    ) -> None:
        """`moved` are the rows in which each edition changed a category."""
        self.moved = dict(moved or {})
        self._editions = {e: rows for e, rows in sorted(editions.items()) if len(rows.hashes)}
        self._any = np.unique(
            np.concatenate([np.empty(0, np.uint64), *(r.hashes for r in self._editions.values())])
        )
        # Most rows of a table never changed: a bit for the first bits of a hash shows it at once.
        bits = min(_FILTER_BITS, max(8, (16 * len(self._any)).bit_length()))
        self._shift = np.uint64(64 - bits)
        self._near = np.zeros(1 << bits, dtype=bool)
        self._near[self._any >> self._shift] = True

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to the machines of a cluster without what is made of it here."""
        return Past, (self._editions, self.moved)

    @property
    def rules(self) -> dict[int, tuple[Transition, ...]]:
        """The rules of each edition that changed rows."""
        return {edition: rows.rules for edition, rows in self._editions.items()}

    @property
    def followed(self) -> dict[int, tuple[Transition, ...]]:
        """The rules of each edition that some row follows."""
        return {edition: rows.followed for edition, rows in self._editions.items()}

    @property
    def beside(self) -> Floats:
        """The loadings of what persons have in linked tables, if rules carry over noise of it."""
        found = [rows.beside for rows in self._editions.values() if len(rows.beside)]
        return found[0] if found else np.zeros((0, 0))

    def renewed(self, shape: Floats, rows: int) -> Floats:
        """Return by how much the noise of all rows of a table, on average, exceeds its first shape.

        Rounded to STEP of the shape, and 0 if few rows changed: what few rows changed by is not
        to be seen in an average that a copy states.
        """
        histories = np.array([_kinds(rows, self._any) for rows in self._editions.values()])
        # rows with the same history of rules have noise of one covariance
        distinct, counts = np.unique(histories.T, axis=0, return_counts=True)
        if not len(distinct) or counts.sum() < MANY:
            return np.zeros_like(shape)
        often = np.argsort(-counts)[:MOST_HISTORIES]
        total = np.zeros_like(shape)
        for history, count in zip(distinct[often], counts[often], strict=True):
            paired = zip(self._editions.values(), history.tolist(), strict=True)
            steps = [changed.rules[kind] if kind >= 0 else None for changed, kind in paired]
            # S_EE: the covariance of the last edition's noise, after all steps
            now = noise_across(shape, steps)[-len(shape) :, -len(shape) :]
            total += count / counts[often].sum() * (now - shape)
        size = np.sqrt(np.maximum(np.diag(shape), 0.0))
        unit = STEP * np.outer(size, size)
        # on average over all rows, of which those that never changed have S itself
        share = min(1.0, counts.sum() / max(rows, 1))
        steps = np.rint(share * total / np.where(unit > 0, unit, 1.0))
        return np.asarray(steps * unit)

    def of(self, ids: Ids) -> tuple[Ints, dict[int, Ints]]:
        """Return which of some rows changed, and for each edition by which rule; -1 is none."""
        hashes = np.ascontiguousarray(ids[:, 0])
        # the filter passes all that changed and few others: these are looked up
        rows = np.flatnonzero(self._near[hashes >> self._shift]) if len(self._any) else _NONE
        rows = rows[places_among(self._any, hashes[rows]) >= 0]
        kinds = {}
        for edition, changed in self._editions.items():
            kinds[edition] = _kinds(changed, hashes[rows])
        return rows, kinds


def _kinds(changed: ChangedRows, hashes: Words) -> Ints:
    """Return by which rule each of some rows changed; -1 for one that did not."""
    places = places_among(changed.hashes, hashes)
    return np.where(places >= 0, changed.kinds[places], -1)


_NONE = np.empty(0, dtype=np.int64)
