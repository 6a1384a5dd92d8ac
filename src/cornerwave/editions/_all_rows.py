"""What columns without noise reveal once rows of all editions are in one copy.

Rows of one person that come in several batches share what copies show of them: each batch by
itself reveals little, all of them together average the noise away. So a ledger keeps the rows
whose keyed hash is smallest, of all editions, and what they reveal is measured again with each
batch, as at registration. Of numbers that get noise it keeps in which of PARTS parts of their
column they lie; what copies show anyway is kept as it is, all else as keyed hashes.
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cornerwave.arrays import Floats, Words, lengths_of, part_ends
from cornerwave.columns import Schema
from cornerwave.moments import Moments
from cornerwave.spine.frozen import Frozen
from cornerwave.spine.sample import Sample, Sampled
from cornerwave.spine.survey import Survey, Surveyor

PARTS = 255
"""Parts of a column of numbers, of as many rows each; with a gap they fit into a byte."""
MOST_KEPT, LEAST_KEPT, KEPT_CELLS = 1 << 15, 1 << 13, 1 << 21
"""Rows that are kept: fewer of a wide table."""
MORE = 1.1
"""So many times as many rows as when it was last measured what they reveal are measured again."""
_BYTE, _SHORT = 1 << 8, 1 << 16


def shows_something(frozen: Frozen) -> bool:
    """Whether copies show anything without noise."""
    return bool(frozen.schema.unchanged or frozen.missing)


@dataclass(frozen=True)
class AllRows:
    """Some of the `rows` of all editions: a sample whose noisy numbers are those of their parts.

    `ends` (columns, PARTS - 1) part the columns, `middles` (columns, PARTS) are the means of the
    parts; both are those of the first edition. What `measured` rows reveal was measured.
    """

    rows: int
    measured: int
    sample: Sample
    ends: Floats
    middles: Floats

    @classmethod
    def of(cls, survey: Survey, schema: Schema) -> "AllRows":
        """Return the rows of the first edition."""
        rows = survey.joint.ordered
        noisy = rows.numbers[: len(schema.perturbed)]
        ends, middles = parted(noisy)
        nothing = cls(0, 0, replace(survey.joint, parts=()), ends, middles)
        return nothing.with_rows(survey).as_measured

    def with_rows(self, survey: Survey) -> "AllRows":
        """Return these rows and those of another survey."""
        sample = replace(survey.joint, parts=tuple(map(self._coarse, survey.joint.parts)))
        if self.sample.parts:
            sample = self.sample + replace(sample, most=self.sample.most)
        columns = len(sample.parts[0].numbers) + len(sample.parts[0].cells)
        most = min(MOST_KEPT, max(LEAST_KEPT, KEPT_CELLS // max(1, columns)))
        sample = replace(sample, most=most).trimmed()
        return replace(self, rows=self.rows + survey.moments.rows, sample=sample)

    @property
    def are_many_more(self) -> bool:
        """Whether many rows came since it was measured what they reveal."""
        return self.rows >= MORE * self.measured

    @property
    def as_measured(self) -> "AllRows":
        """The same rows, once that is measured."""
        return replace(self, measured=self.rows)

    def _coarse(self, rows: Sampled) -> Sampled:
        """Return rows with the middle of its part for each noisy number."""
        numbers = rows.numbers.copy()
        noisy = len(self.ends)
        numbers[:noisy] = coarse(numbers[:noisy], self.ends, self.middles)
        return replace(rows, numbers=numbers)

    def survey(self, like: Survey, surveyor: Surveyor) -> Survey:
        """Return what the rows of all editions are measured by, in the form of a survey."""
        numbers = self.sample.ordered.numbers[: len(self.ends)]
        moments = Moments.of_columns(numbers, surveyor.schema.perturbed)
        return replace(like, moments=moments, complete=None, joint=self.sample)

    def to_bytes(self) -> bytes:
        """Return what a ledger keeps."""
        rows, out = self.sample.ordered, io.BytesIO()
        noisy, shown = np.split(rows.numbers, [len(self.ends)])
        arrays: dict[str, Any] = {
            "head": np.array([self.rows, self.measured, self.sample.most, len(rows.cells)]),
            "limit": np.array(self.sample.limit),
            "hashes": rows.hashes,
            "parts": to_parts(noisy, self.middles),
            "shown": shown,
            "ends": self.ends,
            "middles": self.middles,
            **cells_to_arrays(rows.cells),
        }
        np.savez(out, **arrays)
        return out.getvalue()

    @classmethod
    def read(cls, content: bytes) -> "AllRows":
        """Return what `to_bytes` wrote."""
        with np.load(io.BytesIO(content), allow_pickle=False) as kept:
            middles = kept["middles"]
            noisy = from_parts(kept["parts"], middles)
            rows, measured, most, columns = kept["head"].tolist()
            sampled = Sampled(
                kept["hashes"],
                np.concatenate([noisy, kept["shown"]]),
                cells_from_arrays(kept, columns, len(kept["hashes"])),
            )
            sample = Sample((sampled,), most, np.uint64(kept["limit"]))
            return cls(rows, measured, sample, kept["ends"], middles)


def parted(numbers: Floats) -> tuple[Floats, Floats]:
    """Return the ends of the parts of columns (columns, PARTS - 1), and the means of each part."""
    found = [_parted(column) for column in numbers]
    ends = np.array([column[0] for column in found]).reshape(len(numbers), PARTS - 1)
    return ends, np.array([column[1] for column in found]).reshape(len(numbers), PARTS)


def coarse(numbers: Floats, ends: Floats, middles: Floats) -> Floats:
    """Return numbers (columns, rows) with the middle of its part for each."""
    found = numbers.copy()
    for column, own_ends, own_middles in zip(found, ends, middles, strict=True):
        here = ~np.isnan(column)
        column[here] = own_middles[np.searchsorted(own_ends, column[here], side="left")]
    return found


def to_parts(numbers: Floats, middles: Floats) -> "np.ndarray[Any, np.dtype[np.uint8]]":
    """Return in which part coarse numbers lie: the middle is recognised by its place."""
    parts = [
        np.where(np.isnan(column), PARTS, np.searchsorted(own, column, side="left"))
        for column, own in zip(numbers, middles, strict=True)
    ]
    return np.array(parts, dtype=np.uint8).reshape(numbers.shape)


def from_parts(parts: "np.ndarray[Any, np.dtype[np.uint8]]", middles: Floats) -> Floats:
    """Return coarse numbers, from what `to_parts` gave."""
    gap = np.full((len(middles), 1), np.nan)
    return np.take_along_axis(np.hstack([middles, gap]), parts.astype(np.intp), axis=1)


def cells_to_arrays(cells: Words) -> dict[str, NDArray[Any]]:
    """Return cells (columns, rows) as arrays that take little space."""
    arrays = dict[str, NDArray[Any]]()
    for number, own in enumerate(cells):
        values, codes = np.unique(own, return_inverse=True)
        small = np.uint8 if len(values) <= _BYTE else np.uint16
        few = len(values) <= _SHORT
        arrays[f"codes{number}"] = codes.astype(small) if few else own
        arrays[f"values{number}"] = values if few else values[:0]
    return arrays


def cells_from_arrays(kept: Mapping[str, NDArray[Any]], columns: int, rows: int) -> Words:
    """Return cells, from what `cells_to_arrays` gave."""
    cells = [(kept[f"values{n}"], kept[f"codes{n}"]) for n in range(columns)]
    words = [values[code] if len(values) else code for values, code in cells]
    return np.array(words, dtype=np.uint64).reshape(columns, rows)


def _parted(numbers: Floats) -> tuple[Floats, Floats]:
    """Return the ends of the parts of a column, and the means of its rows in each."""
    here = np.sort(numbers[~np.isnan(numbers)])
    if not len(here):
        return np.zeros(PARTS - 1), np.zeros(PARTS)
    ends = part_ends(here, PARTS)
    starts = np.append(0, np.searchsorted(here, ends, side="right"))
    count = lengths_of(starts, len(here))
    # a part without rows lies between equal ends, or beyond the largest value
    means, some = np.append(ends, ends[-1]), count > 0
    # sums of differences from the first end: those of large numbers close together stay exact
    sums = np.add.reduceat(here - ends[0], starts[some])
    means[some] = ends[0] + sums / count[some]
    return ends, np.maximum.accumulate(means)
