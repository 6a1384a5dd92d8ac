"""What registration fixes for ever: the columns, K and its factor, the grid, the fingerprint.

The noise depends on all of it, and the same noise on anything else gives the
difference away. So it is computed once, written to the ledger exactly, and sealed.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Floats
from cornerwave.moments import Factor, Moments
from cornerwave.noise import NOISE_FORMAT, grid_of
from cornerwave.table import Column, Schema
from cornerwave.table.categories import Categories
from cornerwave.table.scale import Knots, Scale


@dataclass(frozen=True)
class Draws:
    """What a draw in the place of a number that is missing in secret goes by.

    Mean and covariance are those of the complete rows, so that a column which follows from
    others does so here, and `quantiles` those of the columns that hide missing values.
    """

    mean: Floats
    covariance: Floats
    quantiles: Mapping[str, Knots]

    def to_json(self) -> dict[str, Any]:
        """Return what is kept in the ledger."""
        return {
            "mean": self.mean.tolist(),
            "covariance": self.covariance.tolist(),
            "quantiles": self.quantiles,
        }

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "Draws":
        """Return what `to_json` wrote."""
        mean = np.array(kept["mean"], dtype=np.float64)
        covariance = np.array(kept["covariance"], dtype=np.float64).reshape(len(mean), len(mean))
        laws = {name: _knots(knots) for name, knots in kept["quantiles"].items()}
        return cls(mean, covariance, laws)


@dataclass(frozen=True)
class Frozen:
    """A registered table, without a single one of its cells.

    Moments, factor and grid belong to the perturbed columns on their scales; `missing`
    names the columns that have missing values and show it, `draws` is what stands in for
    those that hide theirs (None in tables that were registered without).
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
    draws: Draws | None = None
    noise_format: int = NOISE_FORMAT

    @classmethod
    def of(
        cls,
        schema: Schema,
        source_types: pa.Schema,
        scales: tuple[Scale, ...],
        moments: Moments,
        factor: Factor,
        categories: tuple[Categories, ...],
        missing: tuple[str, ...],
        fingerprint: str,
        draws: Draws | None = None,
    ) -> "Frozen":
        """Freeze what one pass over the source found."""
        return cls(
            schema=schema,
            source_types=source_types,
            rows=moments.rows,
            scales=scales,
            mean=moments.mean,
            covariance=moments.covariance,
            factor=factor.lower,
            grid=grid_of(deviation=moments.deviation, largest=moments.largest),
            categories=categories,
            missing=missing,
            fingerprint=fingerprint,
            draws=draws,
        )

    def scaled(self, numbers: Floats) -> Floats:
        """Return perturbed columns (N, rows) on the scales that they are perturbed on."""
        return on_scales(self.scales, self.schema.perturbed, numbers)

    def unscaled(self, numbers: Floats) -> Floats:
        """Return columns on their own scale again."""
        if all(scale.name is None for scale in self.scales):
            return numbers
        return np.stack([s.backward(row) for s, row in zip(self.scales, numbers, strict=True)])

    def to_json(self) -> str:
        """Return the exact text that is kept and sealed."""
        return json.dumps(
            {
                "noise_format": self.noise_format,
                "columns": [asdict(column) for column in self.schema.columns],
                "together": [list(group) for group in self.schema.together],
                "min_count": self.schema.min_count,
                "types": base64.b64encode(self.source_types.serialize()).decode(),
                "rows": self.rows,
                "scales": [asdict(scale) for scale in self.scales],
                "mean": self.mean.tolist(),
                "covariance": self.covariance.tolist(),
                "factor": self.factor.tolist(),
                "grid": self.grid.tolist(),
                "categories": [categories.to_json() for categories in self.categories],
                "missing": list(self.missing),
                "fingerprint": self.fingerprint,
                "draws": self.draws and self.draws.to_json(),
            },
            allow_nan=False,
        )

    @classmethod
    def from_json(cls, text: str) -> "Frozen":
        """Return what `to_json` wrote, bit for bit."""
        kept: dict[str, Any] = json.loads(text)
        arrays = {
            name: np.array(kept[name], dtype=np.float64)
            for name in ("mean", "covariance", "factor", "grid")
        }
        columns = len(arrays["mean"])
        arrays["covariance"] = arrays["covariance"].reshape(columns, columns)
        arrays["factor"] = arrays["factor"].reshape(columns, columns)
        types = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(kept["types"])))
        return cls(
            schema=Schema(
                columns=tuple(Column(**column) for column in kept["columns"]),
                together=tuple(tuple(group) for group in kept["together"]),
                min_count=kept["min_count"],
            ),
            categories=tuple(Categories.from_json(group) for group in kept["categories"]),
            source_types=types,
            rows=kept["rows"],
            scales=tuple(
                Scale(scale["name"], _knots(scale["knots"]), scale.get("sloping", False))
                for scale in kept["scales"]
            ),
            missing=tuple(kept["missing"]),
            fingerprint=kept["fingerprint"],
            draws=Draws.from_json(kept["draws"]) if kept.get("draws") else None,
            noise_format=kept["noise_format"],
            **arrays,
        )


def _knots(kept: Sequence[Sequence[float]]) -> Knots:
    return tuple((value, score) for value, score in kept)


def on_scales(scales: Sequence[Scale], names: Sequence[str], numbers: Floats) -> Floats:
    """Return columns (N, rows) on their scales; the same array if these are their own."""
    if all(scale.name is None for scale in scales):
        return numbers
    columns = zip(scales, numbers, names, strict=True)
    return np.stack([scale.forward(row, name) for scale, row, name in columns])
