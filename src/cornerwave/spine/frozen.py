"""What registration fixed: the columns, K and its factor, the grid, the fingerprint.

    sqrt(v) L z,   L L' = S = covariance + excess >= K      the noise of a row at v, before the grid

A `Frozen` is a value: `to_json` writes every double so that `from_json` reads the same bits, and
`identity` is what the dataset's id and key, and with them its noise, are derived from.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Codes, Floats
from cornerwave.choices import DECLARED, ReadingSettings
from cornerwave.columns import (
    Categories,
    Column,
    Derived,
    Encoded,
    Knots,
    RankDraws,
    Scale,
    Schema,
    is_text,
    plain_type,
)
from cornerwave.errors import LevelError, VaultError, spelled
from cornerwave.levels import LATTICE, LINEAR, Level, Privacy
from cornerwave.noise import NOISE_FORMAT, PersonNoise
from cornerwave.privacy import Hidden, JointShares, MostRevealing, Remedy, Shown, unreachable
from cornerwave.risks import LinkageCurve
from cornerwave.spine.missing import Draws
from cornerwave.spine.person_counts import PersonCounts
from cornerwave.spine.survey import on_scales

_LOOKS = [name for name, choice in DECLARED.items() if choice.looks]
"""Choices about a column on which no noise depends."""
BURIED = 10.0
"""Noise of so many times the variance of a column leaves an eleventh of a copy to its values."""


@dataclass(frozen=True)
class TableFamily:
    """The tables that a table is linked with: an id of all that was frozen of them, and names."""

    id: str
    table: str
    tables: tuple[str, ...]


@dataclass(frozen=True)
class Frozen:
    """A registered table, without a single one of its cells.

    Moments, factor and grid belong to the perturbed columns on their scales. The noise has the
    covariance v (`covariance` + `excess`): the excess is 0 unless values are missing. `missing`
    names the columns that have missing values and show it, `draws` is what replaces
    those that hide theirs.
    """

    schema: Schema
    source_types: pa.Schema
    rows: int
    scales: tuple[Scale, ...]
    mean: Floats
    covariance: Floats
    excess: Floats
    factor: Floats
    grid: Floats
    categories: tuple[Categories, ...]
    missing: tuple[str, ...]
    fingerprint: str
    draws: Draws | None
    hidden: Hidden
    persons: PersonNoise | None = None
    """The noise of persons and of their rows, if the table has a unit."""
    people: PersonCounts | None = None
    """How many persons there are, and how many rows each, if the table has a unit."""
    family: TableFamily | None = None
    """The tables that it is linked with, if it is one of several."""
    noise_with: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By column, the covariance of its noise with that of columns of linked tables."""
    joint: JointShares = field(default_factory=lambda: JointShares({}))
    """What an adversary who knows how rows are distributed leaves of each column."""
    linkage: LinkageCurve = field(default_factory=LinkageCurve)
    """How often somebody who knows a row finds it in a copy."""
    spreads: tuple[tuple[float, float], ...] = ()
    """Of each column, what copies are drawn together around, on its scale, and the variance of its
    noise beside its own: a mean and a ratio, neither of them exact."""
    derived: tuple[Derived, ...] = ()
    """How columns follow from others."""
    label_codes: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Of categories that are labels of a file's numbers, the number of each value of copies."""
    presence: tuple[Derived, ...] = ()
    """Beside which values of a category numbers are present."""
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Where copies of columns that are relative to others end: no exact averages."""
    noise_format: int = NOISE_FORMAT
    reading: ReadingSettings | None = None
    """How the cells of the source are spelled: values do not depend on it, reading them does."""

    def scaled(self, numbers: Floats, draws: RankDraws | None = None) -> Floats:
        """Return perturbed columns (N, rows) on the scales that they are perturbed on."""
        return on_scales(self.scales, self.schema.perturbed, numbers, draws)

    def shape_beside(self, loadings: Floats) -> Floats:
        """Return S, the covariance of the noise of a row and of what its person has elsewhere.

        loadings: (M, paths), of the levels of persons in linked tables; none is S of the row alone.
        """
        shape = self.covariance + self.excess
        if not len(loadings) or self.persons is None:
            return shape
        across = self.persons.person.mean(axis=0) @ loadings.T
        return np.block([[shape, across], [across.T, loadings @ loadings.T]])

    def unscaled(self, numbers: Floats) -> Floats:
        """Return columns on their own scale again."""
        if all(scale.name is None for scale in self.scales):
            return numbers
        return np.stack([s.backward(row) for s, row in zip(self.scales, numbers, strict=True)])

    def codes(self, cells: Mapping[str, Encoded]) -> Codes:
        """Return the codes of all categories of some rows (categories, rows).

        `cells` are their columns, and the unit's, whose rows count where there is no category.
        """
        rows = len(next(iter(cells.values())).codes)
        each = [c.encode([cells[name] for name in c.columns]) for c in self.categories]
        return np.array(each, dtype=np.int32).reshape(len(each), rows)

    def left_by_joint(self, level: Level) -> dict[str, float]:
        """Return what the better of the linear and the joint adversary leaves of each column.

        Empty if the joint one was not measured, as of a table of few rows.
        """
        linear, joint = self.hidden.at(level), self.joint.at(level)
        return {name: min(share, joint.get(name, share)) for name, share in linear.items() if joint}

    def level_for(self, asked: Level | Privacy) -> Level:
        """Return the level of the lattice that gives what is asked for.

        Raises LevelError for a privacy that no level reaches.
        """
        if isinstance(asked, Level):
            return asked.on_lattice()
        level = self.level_against(asked)
        if level is None:
            raise LevelError(f"privacy {asked.share:g} cannot be reached: {self._why(asked)}")
        return level

    def _why(self, asked: Privacy) -> str:
        """Return why no level gives a privacy."""
        if self.hidden.level_of(asked.thousandths) is None:
            return unreachable(self.hidden, self.schema.unit)
        left = self.left_by_joint(Level(LATTICE[-1]))
        if not left:
            return (
                "what an adversary who knows how rows are distributed recovers was not measured, "
                "as the table has too few rows; choose a privacy against linear estimates"
            )
        worst = min(left, key=lambda name: left[name])
        return (
            "from an adversary who knows how rows are distributed, the noisiest copy hides "
            f"{left[worst]:.3f} of {spelled(worst)}; drop or coarsen the column, or choose less"
        )

    def level_against(self, asked: Privacy) -> Level | None:
        """Return the least level that gives a privacy against its adversary, if one does."""
        level = self.hidden.level_of(asked.thousandths)
        if level is None or asked.against == LINEAR:
            return level
        # the noisier of the two: each alone has to hide what is asked for
        place = self.joint.place_of(asked.thousandths)
        return None if place is None else max(level, Level(LATTICE[place - 1]))

    def to_json(self) -> str:
        """Return the exact text that is kept."""
        return _exact(self._kept())

    def identity(self) -> bytes:
        """Return all that the noise depends on, in a form that no version of a library changes.

        Not how copies look: released in another way, a table must have the same noise again.
        """
        kept = self._kept()
        kept.pop("people", None)
        kept.pop("noise_with", None)
        kept.pop("linkage", None)
        kept.pop("spreads", None)
        kept.pop("derived", None)
        kept.pop("label_codes", None)
        kept.pop("presence", None)
        kept.pop("ranges", None)
        del kept["hidden"], kept["joint"], kept["reading"]
        del kept["independent_rows"], kept["few_rows"]
        kept["types"] = [[part.name, type_name(part.type)] for part in self.source_types]
        for column in kept["columns"]:
            for look in ("declared", "as_is", *_LOOKS):
                column.pop(look, None)
            column["type"] = type_name(self.source_types.field(column["name"]).type)
        for group, categories in zip(kept["categories"], self.categories, strict=True):
            group["values"] = categories.hashed_values()
        return _exact(kept).encode()

    def _kept(self) -> dict[str, Any]:
        return {
            "noise_format": self.noise_format,
            "columns": [_stated(column) for column in self.schema.columns],
            "together": self.schema.together,
            "min_count": self.schema.min_count,
            "order": self.schema.order,
            "independent_rows": self.schema.independent_rows,
            "few_rows": self.schema.few_rows,
            **({} if self.schema.time is None else {"time": self.schema.time}),
            **({"nested": self.schema.nested} if self.schema.nested else {}),
            "types": base64.b64encode(self.source_types.serialize()).decode(),
            "rows": self.rows,
            "scales": [asdict(scale) for scale in self.scales],
            "mean": self.mean.tolist(),
            "covariance": self.covariance.tolist(),
            "excess": self.excess.tolist(),
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
                **_kept_between(self.draws),
            },
            "hidden": asdict(self.hidden),
            # nothing else of a table without a unit may change: its noise hangs on every byte
            **({} if self.persons is None else {"persons": self.persons.to_json()}),
            **({} if self.people is None else {"people": asdict(self.people)}),
            **({} if self.family is None else {"family": asdict(self.family)}),
            **({"noise_with": self.noise_with} if self.noise_with else {}),
            **({"spreads": self.spreads} if self.spreads else {}),
            **({"derived": [each.to_json() for each in self.derived]} if self.derived else {}),
            **({"label_codes": self.label_codes} if self.label_codes else {}),
            **({"presence": [each.to_json() for each in self.presence]} if self.presence else {}),
            **({"ranges": self.ranges} if self.ranges else {}),
            "joint": dict(self.joint.shares),
            **({"linkage": self.linkage.to_json()} if self.linkage.measured else {}),
            "reading": self.reading and self.reading.to_json(),
        }

    @classmethod
    def from_json(cls, text: str) -> "Frozen":
        """Return what `to_json` wrote, bit for bit. Raises VaultError for another noise format."""
        kept = json.loads(text)
        if kept["noise_format"] != NOISE_FORMAT:
            raise VaultError(
                f"this dataset has noise of format {kept['noise_format']}, and this version of "
                f"Cornerwave makes format {NOISE_FORMAT}: its copies would have other noise"
            )
        columns = len(kept["mean"])
        return cls(
            schema=Schema(
                columns=tuple(_column(column) for column in kept["columns"]),
                together=tuple(tuple(group) for group in kept["together"]),
                min_count=kept["min_count"],
                order=kept["order"],
                independent_rows=kept["independent_rows"],
                few_rows=kept["few_rows"],
                time=kept.get("time"),
                nested=tuple(kept.get("nested", ())),
            ),
            source_types=pa.ipc.read_schema(pa.py_buffer(base64.b64decode(kept["types"]))),
            rows=kept["rows"],
            scales=tuple(_scale(scale) for scale in kept["scales"]),
            mean=np.array(kept["mean"], dtype=np.float64),
            covariance=_square(kept["covariance"], columns),
            excess=_square(kept["excess"], columns),
            factor=_square(kept["factor"], columns),
            grid=np.array(kept["grid"], dtype=np.float64),
            categories=tuple(Categories.from_json(group) for group in kept["categories"]),
            missing=tuple(kept["missing"]),
            fingerprint=kept["fingerprint"],
            draws=kept["draws"] and _draws(kept["draws"], columns),
            hidden=_hidden(kept["hidden"]),
            persons=PersonNoise.from_json(kept["persons"]) if "persons" in kept else None,
            people=PersonCounts(**kept["people"]) if "people" in kept else None,
            family=_family(kept["family"]) if "family" in kept else None,
            noise_with=kept.get("noise_with", {}),
            joint=JointShares({name: tuple(shares) for name, shares in kept["joint"].items()}),
            linkage=LinkageCurve.from_json(kept.get("linkage", ())),
            spreads=tuple((centre, ratio) for centre, ratio in kept.get("spreads", ())),
            derived=tuple(Derived.from_json(each) for each in kept.get("derived", ())),
            label_codes=kept.get("label_codes", {}),
            presence=tuple(Derived.from_json(each) for each in kept.get("presence", ())),
            ranges={name: (low, high) for name, (low, high) in kept.get("ranges", {}).items()},
            noise_format=kept["noise_format"],
            reading=kept["reading"] and ReadingSettings.from_json(kept["reading"]),
        )


Kept = Mapping[str, Any]
"""An object in the JSON that a ledger keeps of a registration; a MAC vouches for its fields."""


def _family(kept: Kept) -> TableFamily:
    return TableFamily(kept["id"], kept["table"], tuple(kept["tables"]))


_LATER = ("follows", "sum_of", "describe", "relative_to", "present_if")
"""What columns state only where it was chosen: noise hangs on every byte of what is kept."""


def _stated(column: Column) -> dict[str, Any]:
    stated = asdict(column)
    return {name: value for name, value in stated.items() if name not in _LATER or value}


def _column(kept: Kept) -> Column:
    clip = kept["clip"]
    return Column(**{**kept, "clip": None if clip is None else tuple(clip)})


def _scale(kept: Kept) -> Scale:
    return Scale(kept["name"], _knots(kept["knots"]), kept["ends"] and tuple(kept["ends"]))


def type_name(type_: pa.DataType) -> str:
    """Return a type's name; all kinds of text, encoded or not, are one: files differ in them."""
    return "string" if is_text(plain_type(type_)) else str(plain_type(type_))


def _exact(kept: Mapping[str, object]) -> str:
    # a double is written with as many digits as bring the same double back
    return json.dumps(kept, allow_nan=False, sort_keys=True)


def _square(kept: Sequence[Sequence[float]], columns: int) -> Floats:
    return np.array(kept, dtype=np.float64).reshape(columns, columns)


def _draws(kept: Kept, columns: int) -> Draws:
    return Draws(
        mean=np.array(kept["mean"], dtype=np.float64),
        covariance=_square(kept["covariance"], columns),
        quantiles={name: _knots(knots) for name, knots in kept["quantiles"].items()},
        between=_square(kept["between"], columns) if "between" in kept else None,
        within=_square(kept["within"], columns) if "within" in kept else None,
        constant=tuple(kept.get("constant", ())),
    )


def _kept_between(draws: Draws) -> dict[str, Any]:
    if draws.between is None or draws.within is None:
        return {}
    between, within = draws.between.tolist(), draws.within.tolist()
    return {"between": between, "within": within, "constant": draws.constant}


def _hidden(kept: Kept) -> Hidden:
    return Hidden(
        shares={name: tuple(shares) for name, shares in kept["shares"].items()},
        needed=tuple(kept["needed"]),
        strongest={name: _revealing(each) for name, each in kept["strongest"].items()},
        remedies=tuple(
            Remedy(**{**each, "columns": tuple(each["columns"])}) for each in kept["remedies"]
        ),
        bounds={name: _revealing(each) for name, each in kept["bounds"].items()},
        ceilings=kept["ceilings"],
    )


def _revealing(kept: Kept) -> MostRevealing:
    return MostRevealing(Shown(**kept["by"]), kept["share"])


def _knots(kept: Sequence[Sequence[float]]) -> Knots:
    return tuple((value, score) for value, score in kept)
