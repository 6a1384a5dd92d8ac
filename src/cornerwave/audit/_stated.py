"""What copies state in their metadata, which an audit checks and does not trust."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Floats
from cornerwave.columns import KEPT, KEY, is_category
from cornerwave.errors import LevelError, SourceError
from cornerwave.levels import Level
from cornerwave.outputs import read_metadata
from cornerwave.sources import DatabaseAddress, Source


@dataclass(frozen=True)
class Stated:
    """The metadata of some copies, empty for one without any, and the privacy of each if given."""

    copies: tuple[Mapping[str, Any], ...]
    given: tuple[float, ...] | None = None

    @classmethod
    def of(cls, copies: Sequence[Source], privacy: Sequence[float] | None = None) -> "Stated":
        """Read the metadata of each copy; `privacy` stands for what it states, if given.

        Raises SourceError if metadata is damaged, LevelError if this privacy does not fit.
        """
        if privacy is not None and len(privacy) != len(copies):
            raise LevelError(
                f"got {len(privacy)} privacies for {len(copies)} copies; "
                "give one for each copy, in the order of the copies"
            )
        given = None if privacy is None else tuple(Level.of(privacy=p).privacy for p in privacy)
        told = tuple(_metadata_of(copy) for copy in copies)
        editions = sorted({each["edition"] for each in told if "edition" in each})
        if len(editions) > 1:
            raise SourceError(
                f"these are copies of editions {', '.join(map(str, editions))} of a table that "
                "changed: audit those of one edition at a time, against the table of that edition"
            )
        return cls(told, given)

    @property
    def noise(self) -> tuple[float | None, ...]:
        """The noise that each copy states."""
        found = [told.get("noise") for told in self.copies]
        return tuple(None if noise is None else float(noise) for noise in found)

    @property
    def privacy(self) -> tuple[float | None, ...]:
        """The share of each number that each copy states to hide, by its privacy or its noise."""
        if self.given is not None:
            return self.given
        found = [told.get("privacy") for told in self.copies]
        return tuple(
            float(p)
            if isinstance(p, int | float) and 0 < p < 1
            else None
            if v is None
            else v / (1 + v)
            for p, v in zip(found, self.noise, strict=True)
        )

    @property
    def whole(self) -> tuple[float | None, ...]:
        """The share of every column that each copy states to hide from everything in it."""
        found = [told.get("privacy") for told in self.copies]
        return self.given or tuple(None if p is None else float(p) for p in found)

    def promised(self, copy: int, names: Sequence[str]) -> float | None:
        """Return the share of a column, or of columns refreshed together, that a copy states to
        hide from everything in it. Noise alone states nothing about that.
        """
        told = self.column(copy, names[0])
        if self.given is not None:
            return self.given[copy]
        if told.get("role") in (KEPT, KEY):
            return None
        return float(told["hidden"]) if "hidden" in told else self.whole[copy]

    def told(self, name: str, what: str) -> list[Any]:
        """Return what each copy with metadata for a column states under `what`."""
        return [own.get(what) for i in range(len(self.copies)) if (own := self.column(i, name))]

    def column(self, copy: int, name: str) -> Mapping[str, Any]:
        """Return what a copy states about a column."""
        own: Mapping[str, Any] = self.copies[copy].get("columns", {}).get(name, {})
        return own

    def is_pseudonym(self, copy: int, name: str) -> bool:
        """Whether a copy states that a column holds pseudonyms of the source's keys."""
        return bool(self.column(copy, name).get("pseudonym"))

    def excess(self, names: Sequence[str]) -> Floats:
        """Return by how much the noise of numbers exceeds their covariance, as stated, (N, N)."""
        told: list[Mapping[str, float]]
        told = [next((e for e in self.told(name, "excess") if e), {}) for name in names]
        return np.array([[own.get(name, 0.0) for name in names] for own in told], dtype=np.float64)

    def logarithmic(self, name: str) -> bool:
        """Whether a column was perturbed on the scale log(1+x)."""
        return "log1p" in self.told(name, "transform")

    def lowest_logarithm(self, name: str) -> float:
        """Return where a value of -1 lies on the scale log(1+x): below all that copies can show.

        Doubles end there at log(2^-53), a column rounded to a step at half of it.
        """
        steps = [s for s in self.told(name, "rounded") if isinstance(s, int | float) and s > 0]
        return math.log(min(steps) / 4) if steps else -53 * math.log(2)

    def on_ranks(self, name: str) -> bool:
        """Whether a column was perturbed on the scale of its ranks."""
        return "rank" in self.told(name, "transform")

    def apart(self, name: str) -> str | None:
        """Return why a column is judged by itself, if it is; the copies' noise must be stated."""
        if None in self.noise:
            return None
        if self.on_ranks(name):
            return "perturbed on the scale of its ranks"
        return "clipped" if any(self.told(name, "clipped")) else None

    def not_comparable(self, name: str) -> str | None:
        """Return why copy minus source is not the noise of a column, if it is not."""
        if self.on_ranks(name):
            return f"{name} was perturbed on the scale of its ranks, and a copy states no noise"
        if any(self.told(name, "clipped")):
            return f"{name} was clipped, which truncates its noise"
        return None

    def categories(self, shared: Sequence[str], tables: Sequence[Source]) -> list[tuple[str, ...]]:
        """Return the categories among shared columns, by the source's type or as a copy states.

        Text in the source is a category, whatever a copy states. Columns that were
        refreshed together are one category.
        """
        groups: dict[tuple[str, ...], None] = {}
        for name in shared:
            typed = is_category(tables[0].schema.field(name).type)
            if typed or "category" in self.told(name, "role"):
                groups[self._together(name, shared)] = None
        return list(groups)

    def _together(self, name: str, shared: Sequence[str]) -> tuple[str, ...]:
        for group in self.told(name, "together"):
            if group and name in group and all(part in shared for part in group):
                return tuple(dict.fromkeys(group))
        return (name,)


def _told_by(copy: Source) -> Mapping[str, Any]:
    """Return the metadata of a copy in one file; nothing for a directory, a frame or a table."""
    place = copy.path
    if isinstance(place, DatabaseAddress) or (isinstance(place, Path) and not place.is_file()):
        return {}
    return (place and read_metadata(place)) or {}


def _metadata_of(copy: Source) -> Mapping[str, Any]:
    """Return what a copy states; its columns by the names that they have here."""
    told = _told_by(copy)
    names = _names(told, copy.schema.names)
    columns = {
        names.get(name, name): {
            **known,
            "together": [names.get(n, n) for n in known.get("together") or ()] or None,
        }
        for name, known in told.get("columns", {}).items()
    }
    return {**told, "columns": columns} if names else told


def by_source_names(copy: Source, truth: Sequence[str]) -> Source:
    """Return a copy whose columns are called as in the source, where it states other names."""
    names = _names(_told_by(copy), truth)
    names = {own: name for own, name in names.items() if own not in truth}
    back = {name: own for own, name in names.items()}
    if not names or len(back) < len(names) or back.keys() & set(copy.schema.names):
        return copy

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in copy.open([back.get(name, name) for name in columns]):
            yield batch.rename_columns(list(columns))

    fields = [part.with_name(names.get(part.name, part.name)) for part in copy.schema]
    return replace(copy, schema=pa.schema(fields, copy.schema.metadata), open=read)


def _names(told: Mapping[str, Any], known: Sequence[str]) -> dict[str, str]:
    """Return the names in the source, of those known, that renamed columns state."""
    stated = {own: about.get("source") for own, about in told.get("columns", {}).items()}
    return {own: name for own, name in stated.items() if name in known}
