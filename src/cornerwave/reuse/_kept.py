"""The marks of a table, as a ledger keeps them: keyed hashes, about 7 KB a column.

What is kept of a sketch are the values with the smallest hashes: those that one row holds, or two.
A value that more rows share is evidence of nothing; it is kept so that marks can grow.
"""

import base64
import json
import math
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypedDict

import numpy as np

from cornerwave.arrays import Floats, Ints, Words
from cornerwave.reuse._bottom import SIZE, WIDTH, Bottom, Density, lattice
from cornerwave.reuse._learned import ChosenRows, Learned, Numbers
from cornerwave.reuse._order import FEW_STEPS

BYTES = 6
"""Of each hash: two of 512 different ones are equal in as many bits with probability 5e-10."""

DENSE = 0.25
"""Values that fill this much of their range, each of them once, are an enumeration."""

MONOTONE = 0.95
"""So many steps go one way in record numbers that are in order, also of files one after another:
numbers with gaps, as filtered rows leave them, have runs such as 7, 8, ..., 14 in common."""

_DROP = np.uint64(64 - 8 * BYTES)


class KeptSketch(TypedDict):
    """A `Sketch` as a ledger keeps it: hashes as text."""

    rows: int
    below: int
    ones: str
    twos: str
    more: str


@dataclass(frozen=True)
class Sketch:
    """Hashes up to `below` that one row holds, that two hold, and `more`, of so many `rows`."""

    rows: int
    below: int
    ones: Words
    twos: Words
    more: Words

    @classmethod
    def of(cls, bottom: Bottom, rows: int) -> "Sketch":
        """Return what is kept of a sketch."""
        short = bottom.hashes >> _DROP
        return cls._split(rows, int(bottom.below >> _DROP), short, bottom.counts)

    @property
    def sampling_rate(self) -> float:
        """The share of all values, on average, that have a hash up to `below`; 1 if all fit."""
        return (self.below + 1) / 2.0 ** (8 * BYTES)

    @classmethod
    def _split(cls, rows: int, below: int, hashes: Words, counts: Ints) -> "Sketch":
        """Put ascending hashes into those that one row holds, two, and more."""
        ones, twos, more = (hashes[np.minimum(counts, 3) == count] for count in (1, 2, 3))
        return cls(rows, below, ones, twos, more)

    def __add__(self, other: "Sketch") -> "Sketch":
        """Return the sketch of the rows of both."""
        below = min(self.below, other.below)
        parts = [part for each in (self, other) for part in (each.ones, each.twos, each.more)]
        joined = np.concatenate(parts)
        counts = np.repeat([1, 2, 3, 1, 2, 3], [len(part) for part in parts])
        hashes, places = np.unique(joined, return_inverse=True)
        totals = np.bincount(places, weights=counts).astype(np.int64)
        known = min(int(np.searchsorted(hashes, np.uint64(below), side="right")), SIZE)
        if known == SIZE:
            below = int(hashes[SIZE - 1])
        return Sketch._split(self.rows + other.rows, below, hashes[:known], totals[:known])


@dataclass(frozen=True)
class ColumnMarks:
    """How a column is recognised. None where it cannot be: in that way it is like any other.

    `shown` if copies show it unchanged. `total` is the sum of all its hashes, for a column
    that no other has by chance; `repeats` the chance that two of its cells are equal; `density`
    how its numbers fill the places there are; `codes` its cells in the rows of
    `TableMarks.keys`, `numbers` what they are there and in the rows of `TableMarks.places`.
    """

    name: str
    shown: bool
    rows: int
    repeats: float
    total: str | None
    values: Sketch | None
    windows: Sketch | None
    codes: Words | None
    density: Density | None = None
    numbers: Numbers | None = None


@dataclass(frozen=True)
class TableMarks:
    """How a table is recognised: by its columns, by its rows, by its keys.

    `keys` and `places` are the smallest hashes of either, those of the sampled rows; `keyed_at`
    and `placed_at` state where these rows are.
    """

    columns: tuple[ColumnMarks, ...]
    total: str | None
    rows: Sketch | None
    keys: Words | None
    keyed_at: Floats | None = None
    places: Words = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    placed_at: Floats = field(default_factory=lambda: np.empty(0))

    def to_json(self) -> str:
        """Return the text that a ledger keeps."""
        return json.dumps(asdict(self), default=_encoded, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "TableMarks":
        """Return what `to_json` wrote."""
        kept = json.loads(text)
        columns = tuple(
            ColumnMarks(
                **{
                    **column,
                    "values": _sketch(column["values"]),
                    "density": _density(column["density"]),
                    "windows": _sketch(column["windows"]),
                    "codes": _words(column["codes"]),
                    "numbers": _numbers(column["numbers"]),
                }
            )
            for column in kept["columns"]
        )
        return cls(
            columns=columns,
            total=kept["total"],
            rows=_sketch(kept["rows"]),
            keys=_words(kept["keys"]),
            keyed_at=None if kept["keyed_at"] is None else _floats(kept["keyed_at"]),
            places=_known_words(kept["places"]),
            placed_at=_floats(kept["placed_at"]),
        )


def _encoded(words: Words | Floats) -> str:
    """Return words as text, with no more bytes each than are needed; or numbers, single ones."""
    if words.dtype == np.float64:
        ends = np.finfo(np.float32)  # what is further out need not be distinguished
        single = np.clip(words, ends.min, ends.max).astype("<f4")
        return base64.b64encode(single.tobytes()).decode()
    size = 2 if not len(words) or words.max() < 1 << 16 else BYTES
    content = words.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :size]
    return f"{size}:{base64.b64encode(content.tobytes()).decode()}"


def _words(kept: str | None) -> Words | None:
    return None if kept is None else _known_words(kept)


def _known_words(kept: str) -> Words:
    size, text = kept.split(":", 1)
    content = np.frombuffer(base64.b64decode(text), dtype=np.uint8).reshape(-1, int(size))
    whole = np.zeros((len(content), 8), dtype=np.uint8)
    whole[:, : int(size)] = content
    return whole.view("<u8").ravel().astype(np.uint64)


def _floats(kept: str) -> Floats:
    return np.frombuffer(base64.b64decode(kept), dtype="<f4").astype(np.float64)


def _density(kept: dict[str, str] | None) -> Density | None:
    return Density(_floats(kept["edges"]), _floats(kept["shares"])) if kept else None


def _numbers(kept: dict[str, Any] | None) -> Numbers | None:
    if kept is None:
        return None
    keyed = None if kept["keyed"] is None else _floats(kept["keyed"])
    return Numbers(**{**kept, "placed": _floats(kept["placed"]), "keyed": keyed})


def _sketch(kept: KeptSketch | None) -> Sketch | None:
    if kept is None:
        return None
    ones, twos = _known_words(kept["ones"]), _known_words(kept["twos"])
    return Sketch(kept["rows"], kept["below"], ones, twos, _known_words(kept["more"]))


# --- from what was learned --------------------------------------------------------------


def kept_of(learned: Learned, names: Sequence[str], shown: Collection[str]) -> TableMarks:
    """Return the marks of a table, given its columns and which of them copies show."""
    known = [_Known(learned, place) for place in range(len(names))]
    hidden = [k for k, name in zip(known, names, strict=True) if name not in shown]
    enumerated = any(k.enumerated for k in hidden)
    row_sum = f"{int(learned.row_sum[0]):016x}"
    keyed = learned.keyed
    return TableMarks(
        columns=tuple(k.marks(name, name in shown) for k, name in zip(known, names, strict=True)),
        total=row_sum if _log_chance_of_counts(learned.rows) < LOG_CHANCE else None,
        # rows of one column are its values, which are compared by more than that
        rows=None if enumerated or len(hidden) < 2 else Sketch.of(learned.rows, known[0].all),
        keys=None if keyed is None else keyed.hashes >> _DROP,
        keyed_at=None if keyed is None else keyed.numbers[-1],
        places=learned.placed.hashes >> _DROP,
        placed_at=learned.placed.numbers[-1],
    )


def grown(marks: TableMarks, learned: Learned) -> TableMarks:
    """Return the marks of a table to which rows were added, given what was learned of these.

    By what a column is recognised stays decided: only what is kept of it grows.
    """
    keys, keyed_at, by_key, keyed = None, None, None, learned.keyed
    if marks.keys is not None and marks.keyed_at is not None and keyed is not None:
        keys, by_key = _merged(marks.keys, keyed)
        keyed_at = np.concatenate([marks.keyed_at, keyed.numbers[-1]])[by_key]
    places, by_place = _merged(marks.places, learned.placed)
    rows = int(sum(run.stop - run.start for run in learned.order.runs))
    return TableMarks(
        columns=tuple(
            _grown_column(column, learned, place, rows, by_key, by_place)
            for place, column in enumerate(marks.columns)
        ),
        total=_added(marks.total, int(learned.row_sum[0])),
        rows=marks.rows and marks.rows + Sketch.of(learned.rows, rows),
        keys=keys,
        keyed_at=keyed_at,
        places=places,
        placed_at=np.concatenate([marks.placed_at, learned.placed.numbers[-1]])[by_place],
    )


def _merged(known: Words, more: ChosenRows) -> tuple[Words, Ints]:
    """Return the smallest hashes of both, and where each is among those known, then the others."""
    both = np.concatenate([known, more.hashes >> _DROP])
    hashes, order = np.unique(both, return_index=True)
    return hashes[:SIZE], order[:SIZE]


def _grown_column(
    column: ColumnMarks,
    learned: Learned,
    place: int,
    rows: int,
    by_key: Ints | None,
    by_place: Ints,
) -> ColumnMarks:
    present, codes, numbers, keyed = int(learned.present[place]), None, None, learned.keyed
    if column.codes is not None and by_key is not None and keyed is not None:
        new = keyed.cells[place] & np.uint64(0xFFFF)
        codes = np.concatenate([column.codes, new])[by_key]
    if column.numbers is not None:
        more = None if keyed is None else keyed.numbers[place]
        numbers = column.numbers.with_rows(more, learned.placed.numbers[place], by_key, by_place)
    values, windows = learned.values[place], learned.order.windows[place]
    return replace(
        column,
        rows=column.rows + present,
        total=_added(column.total, int(learned.sums[place])),
        values=column.values and column.values + Sketch.of(values, present),
        density=_denser(column.density, Density.of(values)),
        windows=column.windows and column.windows + Sketch.of(windows, rows),
        codes=codes,
        numbers=numbers,
    )


def _denser(density: Density | None, more: Density | None) -> Density | None:
    return density + more if density and more else density


def _added(total: str | None, more: int) -> str | None:
    return None if total is None else f"{(int(total, 16) + more) % (1 << 64):016x}"


CHANCE = 1e-11
"""Probability, at most, that two columns of independent tables are taken for one."""

LOG_CHANCE = math.log(CHANCE)


class _Known:
    """One column of what was learned: how its values and their order are spread."""

    def __init__(self, learned: Learned, place: int) -> None:
        self.all = int(sum(run.stop - run.start for run in learned.order.runs))
        self.rows = int(learned.present[place])
        self.values = learned.values[place]
        self.windows = learned.order.windows[place]
        self.steps = learned.order.steps[place]
        self.alike = int(learned.order.alike[place]) / max(self.all - 1, 1)
        self.total = f"{int(learned.sums[place]):016x}"
        self.codes = None if learned.keyed is None else learned.keyed.cells[place]
        self.numbers = None if learned.keyed is None else learned.keyed.numbers[place]
        self.placed = learned.placed.numbers[place]
        self.placed_at = learned.placed.numbers[-1]
        share = self.values.counts / max(self.all, 1)
        seen = float((share**2).sum() * self.values.distinct / max(len(share), 1))
        self.repeats = min(seen + (1 - self.rows / max(self.all, 1)) ** 2, 1.0)
        self.places = lattice(self.values.numbers, whole=len(share) < SIZE)

    @property
    def enumerated(self) -> bool:
        """Whether others have these values too, as row numbers or the days of a calendar."""
        once = self.values.single >= 0.95
        return self.stepping or (once and self.values.distinct >= DENSE * self.places)

    @property
    def stepping(self) -> bool:
        distinct = self.values.distinct >= 0.5 * self.rows
        few = min(FEW_STEPS, self.rows / 4)
        return distinct and 0 < len(self.steps) <= few

    @property
    def arranged(self) -> bool:
        """Whether the order is not by chance: sorted, in blocks, or with a period.

        Independent cells give about min(rows, 1 / repeats^WIDTH) different windows.
        """
        sorted_ = self.alike > 0.5 * (1 + self.repeats)
        possible = max(self.repeats, 1e-3) ** -WIDTH
        periodic = self.windows.distinct < 0.25 * min(self.all, possible)
        numbered = self.enumerated and self._monotone >= MONOTONE
        return self.stepping or sorted_ or periodic or numbered

    @property
    def _monotone(self) -> float:
        """The share of steps up, or down, between sampled rows: 1 if they are sorted."""
        numbers = self.placed[np.argsort(self.placed_at)]
        steps = np.diff(numbers[np.isfinite(numbers)])
        return float(max(np.mean(steps > 0), np.mean(steps < 0))) if len(steps) else 0.0

    def marks(self, name: str, shown: bool) -> ColumnMarks:
        """Return what is kept of the column."""
        varies = self.values.distinct > 1
        by_value = varies and not self.enumerated
        by_order = varies and not self.arranged
        enough = by_value and self.values.single >= 0.5  # then the order adds nothing
        codes = None if self.codes is None or not by_order else self.codes & np.uint64(0xFFFF)
        sure = enough and self._log_chance_of_values() < LOG_CHANCE
        return ColumnMarks(
            name=name,
            shown=shown,
            rows=self.rows,
            repeats=self.repeats,
            total=self.total if sure else None,
            values=Sketch.of(self.values, self.rows) if by_value else None,
            density=Density.of(self.values) if by_value else None,
            windows=Sketch.of(self.windows, self.all) if by_order and not enough else None,
            codes=codes,
            numbers=Numbers.of(self.numbers, self.placed) if by_order else None,
        )

    def _log_chance_of_values(self) -> float:
        """Return the log of the chance that other values from the same range are just these."""
        distinct = self.values.distinct
        if math.isnan(self.places) or distinct >= 0.75 * self.places:  # both are estimates
            return 0.0
        if math.isinf(self.places):
            return -20.0 * distinct
        return -_log_choices(self.places, distinct)


def _log_choices(places: float, chosen: float) -> float:
    return math.lgamma(places + 1) - math.lgamma(chosen + 1) - math.lgamma(places - chosen + 1)


def _log_chance_of_counts(rows: Bottom) -> float:
    """Return the log of the chance that another table has every row as often as this one.

    Two counts that are Poisson with mean c are equal with probability about
    1 / sqrt(4 pi c). Rows that are all equally frequent are a design, not chance.
    """
    counts = rows.counts
    if len(counts) < 2 or (counts == counts[0]).all():
        return 0.0
    equal = -0.5 * np.log(4.0 * np.pi * counts)
    return float(equal.mean() * rows.distinct)
