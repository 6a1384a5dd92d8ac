"""What columns without noise reveal once rows of all editions stand in one copy.

Rows of one person that come in several batches share what copies show of them: each batch by
itself reveals little, all of them together average the noise away. So a ledger keeps the rows
whose keyed hash is smallest, of all editions, and what they reveal is measured again with each
batch, as at registration. Of numbers that get noise it keeps in which of PARTS parts of their
column they lie; what copies show anyway is kept as it is, all else as keyed hashes.
"""

import io
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cornerwave.arrays import Floats, part_ends
from cornerwave.columns import Schema
from cornerwave.moments import Moments
from cornerwave.spine.freeze import Frozen
from cornerwave.spine.survey import Sample, Sampled, Survey, Surveyor

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
        parted = [_parted(column) for column in noisy]
        ends = np.array([column[0] for column in parted]).reshape(len(noisy), PARTS - 1)
        middles = np.array([column[1] for column in parted]).reshape(len(noisy), PARTS)
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
        for column, ends, middles in zip(numbers, self.ends, self.middles, strict=False):
            here = ~np.isnan(column)
            column[here] = middles[np.searchsorted(ends, column[here], side="left")]
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
        # the middle of a part stands for its number, and is recognised by its place
        parts = [
            np.where(np.isnan(column), PARTS, np.searchsorted(middles, column, side="left"))
            for column, middles in zip(noisy, self.middles, strict=True)
        ]
        arrays: dict[str, Any] = {
            "head": np.array([self.rows, self.measured, self.sample.most, len(rows.cells)]),
            "limit": np.array(self.sample.limit),
            "hashes": rows.hashes,
            "parts": np.array(parts, dtype=np.uint8).reshape(len(noisy), len(rows.hashes)),
            "shown": shown,
            "ends": self.ends,
            "middles": self.middles,
        }
        for number, cells in enumerate(rows.cells):
            values, codes = np.unique(cells, return_inverse=True)
            small = np.uint8 if len(values) <= _BYTE else np.uint16
            few = len(values) <= _SHORT
            arrays[f"codes{number}"] = codes.astype(small) if few else cells
            arrays[f"values{number}"] = values if few else values[:0]
        np.savez(out, **arrays)
        return out.getvalue()

    @classmethod
    def read(cls, content: bytes) -> "AllRows":
        """Return what `to_bytes` wrote."""
        with np.load(io.BytesIO(content), allow_pickle=False) as kept:
            middles, codes = kept["middles"], kept["parts"]
            gap = np.full((len(middles), 1), np.nan)
            noisy = np.take_along_axis(np.hstack([middles, gap]), codes.astype(np.intp), axis=1)
            rows, measured, most, columns = kept["head"].tolist()
            cells = [(kept[f"values{n}"], kept[f"codes{n}"]) for n in range(columns)]
            words = [values[code] if len(values) else code for values, code in cells]
            sampled = Sampled(
                kept["hashes"],
                np.concatenate([noisy, kept["shown"]]),
                np.array(words, dtype=np.uint64).reshape(columns, len(kept["hashes"])),
            )
            sample = Sample((sampled,), most, np.uint64(kept["limit"]))
            return cls(rows, measured, sample, kept["ends"], middles)


def _parted(numbers: Floats) -> tuple[Floats, Floats]:
    """Return the ends of the parts of a column, and the means of its rows in each."""
    here = numbers[~np.isnan(numbers)]
    if not len(here):
        return np.zeros(PARTS - 1), np.zeros(PARTS)
    ends = part_ends(here, PARTS)
    part = np.searchsorted(ends, here, side="left")
    # sums of differences from the first end: those of large numbers close together stay exact
    count = np.bincount(part, minlength=PARTS)
    sums = np.bincount(part, weights=here - ends[0], minlength=PARTS)
    # a part without rows lies between equal ends, or beyond the largest value
    means = np.where(count > 0, ends[0] + sums / np.maximum(count, 1), np.append(ends, ends[-1]))
    return ends, np.maximum.accumulate(means)
