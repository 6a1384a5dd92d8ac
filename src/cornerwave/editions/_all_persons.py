"""What copies hide of persons once the rows of all editions are in one copy.

A person's history grows, and with it what anyone learns who knows which rows are theirs. So a
ledger keeps the persons whose keyed hash is smallest, with rows of all editions, and what copies
hide of them is measured again as rows come, as at registration. As of `AllRows`, of numbers that
get noise, and of times, it is kept in which part of their column they lie.
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cornerwave.arrays import Floats, Words
from cornerwave.columns import Schema
from cornerwave.editions._all_rows import (
    MORE,
    MOST_KEPT,
    cells_from_arrays,
    cells_to_arrays,
    coarse,
    from_parts,
    parted,
    to_parts,
)
from cornerwave.spine.person_sample import PersonSample
from cornerwave.spine.survey import Survey

Shares = Mapping[str, tuple[float, ...]]
"""What copies at privacy 0.01, 0.02, ... of the lattice hide of each column."""


def _none() -> Words:
    return np.empty(0, dtype=np.uint64)


@dataclass(frozen=True)
class RowsReplaced:
    """Hashes of rows: of those that went, and of those that changed, before and after."""

    went: Words = field(default_factory=_none)
    before: Words = field(default_factory=_none)
    after: Words = field(default_factory=_none)

    def __add__(self, other: "RowsReplaced") -> "RowsReplaced":
        return RowsReplaced(
            np.concatenate([self.went, other.went]),
            np.concatenate([self.before, other.before]),
            np.concatenate([self.after, other.after]),
        )


@dataclass(frozen=True)
class AllPersons:
    """Sampled persons with rows of all editions: of `rows` rows in all.

    `first` is what copies hid of those of the first edition, measured in the same way; it is empty
    until rows came. What `measured` rows hide was measured.
    """

    rows: int
    measured: int
    sample: PersonSample
    ends: Floats
    middles: Floats
    timed: bool
    first: Shares = field(default_factory=dict)

    @classmethod
    def of(cls, survey: Survey, schema: Schema) -> "AllPersons":
        """Return the persons of the first edition."""
        assert survey.persons is not None
        timed, rows = schema.time is not None, survey.moments.rows
        ends, middles = parted(_hidden_numbers(survey.persons, len(schema.perturbed), timed))
        nothing = cls(rows, rows, survey.persons, ends, middles, timed)
        return replace(nothing, sample=nothing._coarse(survey.persons.at_most(MOST_KEPT)))

    def after(self, rows: "RowsReplaced") -> "AllPersons":
        """Return these persons without rows that went, and with the hashes of those that changed.

        Of rows that changed the numbers stay: with them goes the noise that is compared. The rule
        by which noise is renewed hides what they became.
        """
        sample = self.sample.without(rows.went).renamed(rows.before, rows.after)
        return replace(self, rows=self.rows - len(rows.went), sample=sample)

    def with_rows(self, survey: Survey) -> "AllPersons":
        """Return these persons with the rows of another survey."""
        assert survey.persons is not None
        # what gets noise is kept as the middle of its part, one byte each: see _all_rows
        sample = self.sample + self._coarse(survey.persons)
        return replace(self, rows=self.rows + survey.moments.rows, sample=sample)

    @property
    def are_many_more(self) -> bool:
        """Whether many rows came since it was measured what copies hide."""
        return self.rows >= MORE * self.measured

    @property
    def as_measured(self) -> "AllPersons":
        """The same persons, once that is measured."""
        return replace(self, measured=self.rows)

    @property
    def _numbers(self) -> int:
        """How many columns of numbers get noise."""
        return len(self.ends) - self.timed

    def _coarse(self, sample: PersonSample) -> PersonSample:
        """Return persons with the middle of its part for each number that is not shown."""
        found = coarse(_hidden_numbers(sample, self._numbers, self.timed), self.ends, self.middles)
        shown = sample.numbers[self._numbers : len(sample.numbers) - self.timed]
        numbers = np.concatenate([found[: self._numbers], shown, found[self._numbers :]])
        # a key, which may be the order, is not kept
        return replace(sample, numbers=numbers, order=None)

    def to_bytes(self) -> bytes:
        """Return what a ledger keeps."""
        sample, out = self.sample, io.BytesIO()
        hidden = _hidden_numbers(sample, self._numbers, self.timed)
        arrays: dict[str, Any] = {
            "head": np.array([self.rows, self.measured, sample.most, len(sample.cells)]),
            "limit": np.array(sample.limit),
            "units": sample.units,
            "rows": sample.rows,
            "counts": sample.counts,
            "parts": to_parts(hidden, self.middles),
            "shown": sample.numbers[self._numbers : len(sample.numbers) - self.timed],
            "ends": self.ends,
            "middles": self.middles,
            "timed": np.array(self.timed),
            "names": np.array(list(self.first), dtype=np.str_),
            "first": np.array(list(self.first.values()), dtype=np.float64),
            **cells_to_arrays(sample.cells),
            **({} if sample.outers is None else {"outers": sample.outers}),
        }
        np.savez(out, **arrays)
        return out.getvalue()

    @classmethod
    def read(cls, content: bytes) -> "AllPersons":
        """Return what `to_bytes` wrote."""
        with np.load(io.BytesIO(content), allow_pickle=False) as kept:
            rows, measured, most, columns = kept["head"].tolist()
            timed, middles = bool(kept["timed"]), kept["middles"]
            hidden = from_parts(kept["parts"], middles)
            noisy = len(middles) - timed
            sample = PersonSample(
                kept["units"],
                kept["rows"],
                kept["counts"],
                np.concatenate([hidden[:noisy], kept["shown"], hidden[noisy:]]),
                cells_from_arrays(kept, columns, len(kept["units"])),
                most,
                np.uint64(kept["limit"]),
                kept.get("outers"),
            )
            pairs = zip(kept["names"].tolist(), kept["first"].tolist(), strict=True)
            first = {name: tuple(shares) for name, shares in pairs}
            return cls(rows, measured, sample, kept["ends"], middles, timed, first)


def _hidden_numbers(sample: PersonSample, numbers: int, timed: bool) -> Floats:
    """Return the numbers of sampled persons that get noise, and their times."""
    times = sample.numbers[len(sample.numbers) - timed :]
    return np.concatenate([sample.numbers[:numbers], times])
