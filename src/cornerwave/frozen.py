"""What registration fixes for ever: the columns, K and its factor, the grid, the fingerprint.

The noise depends on all of it, and the same noise on anything else gives the difference
away. So it is computed once, kept exactly, and a dataset's key is derived from it: the same
table with the same choices is the same dataset, and anything else has independent noise.
"""

import base64
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Floats
from cornerwave.errors import ColumnError, CornerwaveWarning, SourceError
from cornerwave.moments import Moments, factor
from cornerwave.noise import NOISE_FORMAT, grid_of
from cornerwave.survey import Survey, Surveyor, laws_of, on_scales
from cornerwave.table import (
    Categories,
    Column,
    Knots,
    Scale,
    Schema,
    check_identifying,
    freeze_categories,
    listed,
)

ROWS_PER_WEIGHT = 10
"""Complete rows for each number, at least, to go by them in draws for hidden values."""


@dataclass(frozen=True)
class Draws:
    """The law of draws that replace numbers whose absence is hidden.

    Mean and covariance are those of the complete rows, so that a column which follows from
    others does so here; `quantiles` are those of the columns that hide missing values.
    """

    mean: Floats
    covariance: Floats
    quantiles: Mapping[str, Knots]

    @classmethod
    def of(cls, surveyor: Surveyor, survey: Survey) -> "Draws | None":
        """Return the law for a table; None if nothing is hidden."""
        if survey.complete is None:
            return None
        enough = survey.complete.rows >= ROWS_PER_WEIGHT * (1 + len(survey.moments.top))
        found = survey.complete if enough else survey.moments
        return cls(found.mean, found.covariance, laws_of(surveyor, survey))


@dataclass(frozen=True)
class Frozen:
    """A registered table, without a single one of its cells.

    Moments, factor and grid belong to the perturbed columns on their scales; `missing`
    names the columns that have missing values and show it, `draws` is what stands in for
    those that hide theirs.
    """

    schema: Schema
    source_types: pa.Schema
    rows: int
    scales: tuple[Scale, ...]
    mean: Floats
    covariance: Floats
    factor: Floats
    grid: Floats
    categories: tuple[Categories, ...]
    missing: tuple[str, ...]
    fingerprint: str
    draws: Draws | None
    noise_format: int = NOISE_FORMAT

    def scaled(self, numbers: Floats) -> Floats:
        """Return perturbed columns (N, rows) on the scales that they are perturbed on."""
        return on_scales(self.scales, self.schema.perturbed, numbers)

    def unscaled(self, numbers: Floats) -> Floats:
        """Return columns on their own scale again."""
        if all(scale.name is None for scale in self.scales):
            return numbers
        return np.stack([s.backward(row) for s, row in zip(self.scales, numbers, strict=True)])

    def to_json(self) -> str:
        """Return the exact text that is kept."""
        return _exact(self._kept())

    def identity(self) -> bytes:
        """Return all of it in a form that no version of a library changes."""
        kept = self._kept()
        kept["types"] = [[field.name, str(field.type)] for field in self.source_types]
        for group, categories in zip(kept["categories"], self.categories, strict=True):
            group["values"] = categories.hashed_values()
        return _exact(kept).encode()

    def _kept(self) -> dict[str, Any]:
        return {
            "noise_format": self.noise_format,
            "columns": [asdict(column) for column in self.schema.columns],
            "together": self.schema.together,
            "min_count": self.schema.min_count,
            "order": self.schema.order,
            "types": base64.b64encode(self.source_types.serialize()).decode(),
            "rows": self.rows,
            "scales": [asdict(scale) for scale in self.scales],
            "mean": self.mean.tolist(),
            "covariance": self.covariance.tolist(),
            "factor": self.factor.tolist(),
            "grid": self.grid.tolist(),
            "categories": [categories.to_json() for categories in self.categories],
            "missing": self.missing,
            "fingerprint": self.fingerprint,
            "draws": self.draws
            and {
                "mean": self.draws.mean.tolist(),
                "covariance": self.draws.covariance.tolist(),
                "quantiles": self.draws.quantiles,
            },
        }

    @classmethod
    def from_json(cls, text: str) -> "Frozen":
        """Return what `to_json` wrote, bit for bit."""
        kept: dict[str, Any] = json.loads(text)
        columns = len(kept["mean"])
        return cls(
            schema=Schema(
                columns=tuple(Column(**column) for column in kept["columns"]),
                together=tuple(tuple(group) for group in kept["together"]),
                min_count=kept["min_count"],
                order=kept["order"],
            ),
            source_types=pa.ipc.read_schema(pa.py_buffer(base64.b64decode(kept["types"]))),
            rows=kept["rows"],
            scales=tuple(Scale(s["name"], _knots(s["knots"])) for s in kept["scales"]),
            mean=np.array(kept["mean"], dtype=np.float64),
            covariance=_square(kept["covariance"], columns),
            factor=_square(kept["factor"], columns),
            grid=np.array(kept["grid"], dtype=np.float64),
            categories=tuple(Categories.from_json(group) for group in kept["categories"]),
            missing=tuple(kept["missing"]),
            fingerprint=kept["fingerprint"],
            draws=kept["draws"] and _draws(kept["draws"], columns),
            noise_format=kept["noise_format"],
        )


def _exact(kept: Mapping[str, Any]) -> str:
    # a double is written with as many digits as bring the same double back
    return json.dumps(kept, allow_nan=False, sort_keys=True)


def _square(kept: Sequence[Sequence[float]], columns: int) -> Floats:
    return np.array(kept, dtype=np.float64).reshape(columns, columns)


def _draws(kept: Mapping[str, Any], columns: int) -> Draws:
    return Draws(
        mean=np.array(kept["mean"], dtype=np.float64),
        covariance=_square(kept["covariance"], columns),
        quantiles={name: _knots(knots) for name, knots in kept["quantiles"].items()},
    )


def _knots(kept: Sequence[Sequence[float]]) -> Knots:
    return tuple((value, score) for value, score in kept)


def freeze(surveyor: Surveyor, survey: Survey, types: pa.Schema) -> Frozen:
    """Fix what a survey of the whole table found; `types` are those of the source.

    Warns about singular columns. Raises SourceError for a table that cannot be perturbed.
    """
    schema, moments = surveyor.schema, survey.moments
    _check_size(moments, schema)
    for names, found in survey.tallies.items():
        check_identifying(names, found, schema)
    shape = factor(moments.covariance)
    shape.warn(schema.perturbed)
    categories = tuple(
        freeze_categories(names, found, schema, types) for names, found in survey.tallies.items()
    )
    _warn_of(categories, schema)
    return Frozen(
        schema=schema,
        source_types=pa.schema([pa.field(field.name, field.type) for field in types]),
        rows=moments.rows,
        scales=surveyor.scales,
        mean=moments.mean,
        covariance=moments.covariance,
        factor=shape.lower,
        grid=grid_of(deviation=moments.deviation, largest=moments.largest),
        categories=categories,
        missing=_shows_missing(survey, schema, categories),
        fingerprint=str(survey.fingerprint),
        draws=Draws.of(surveyor, survey),
    )


def _shows_missing(
    survey: Survey, schema: Schema, categories: Sequence[Categories]
) -> tuple[str, ...]:
    """Name the columns that have missing values and do not hide them."""
    present = zip(schema.perturbed, survey.moments.present, strict=True)
    numbers = [name for name, count in present if count < survey.moments.rows]
    shown = [name for name in numbers if not schema.column(name).hide_missing]
    open_ = [each.columns for each in categories if not each.hides_missing]
    return (*shown, *(names[0] for names in open_ if (None,) in survey.tallies[names]))


def _check_size(moments: Moments, schema: Schema) -> None:
    if moments.rows < 2:
        raise SourceError(f"a table needs at least 2 rows to be perturbed; it has {moments.rows}")
    for name, present in zip(schema.perturbed, moments.present, strict=True):
        if present < 2:
            raise ColumnError(f"{name!r} has fewer than 2 values; drop it")
    vanishing = (moments.deviation == 0) & (moments.lowest < moments.highest)
    for name in np.array(schema.perturbed)[vanishing]:
        raise ColumnError(
            f"{str(name)!r}: its values are so close together that their variance, and with it "
            "the noise, vanishes in floating point; multiply them, or drop the column"
        )


def _warn_of(categories: Sequence[Categories], schema: Schema) -> None:
    """Warn of what an owner may not expect of categories."""
    for each in categories:
        if len(each.counts) == 1:
            message = f"{listed(each.columns)}: has a single value, so copies show it unchanged"
            warnings.warn(message, CornerwaveWarning, stacklevel=4)
        hidden = len(each.columns) > 1 or schema.column(each.columns[0]).hide_missing
        if each.hides_missing and not hidden:
            message = (
                f"{listed(each.columns)}: pooled values are released as missing, so cells that "
                "are missing already are refreshed with them"
            )
            warnings.warn(message, CornerwaveWarning, stacklevel=4)
