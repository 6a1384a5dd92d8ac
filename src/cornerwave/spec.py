"""What a copy is: which one is wanted, and what it states about itself. Each is written once.

    CopySpec      all that makes the bytes of a copy, beside its dataset: a line of the ledger
    CopyMetadata  what travels with a copy, so that recipients and auditors can allow for its noise

Metadata comes with a file from outside, so nobody relies on it before every field has the type and
the range that a release writes. Each field is declared once, with the kind of its values: `read`
checks by the declarations and `to_json` writes by them. Fields that are not declared are ignored.
"""

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field, asdict, dataclass, field, fields, replace
from typing import Any, cast

from cornerwave.choices import (
    CATEGORY,
    DERIVED,
    DESCRIPTION,
    KEPT,
    KEY,
    MARGINAL,
    ORDERS,
    PERTURBED,
    TRANSFORMS,
    UNIFORM,
    UNIT,
)
from cornerwave.columns import LEAST_FACTOR, Finish, SameSpread
from cornerwave.errors import SourceError
from cornerwave.kinds import (
    Json,
    JsonObject,
    Kind,
    ListOf,
    Number,
    OneOf,
    OrNull,
    TableOf,
    Text,
    Whole,
)
from cornerwave.levels import LATTICE, Level

# --------------------------------------------------------------------------------------------------
# Which copy is wanted.


Ends = tuple[float | None, float | None]
"""Bounds as a spec has them: numbers, since dates were counted when it was made."""


@dataclass(frozen=True)
class PartOf:
    """The copy of linked tables that a copy is part of.

    `kind` is what holds all tables: folder, zip, duckdb or schema. `copy` is an id that the parts
    of one copy have in common: a hash of what makes the bytes of all of them.
    """

    kind: str
    copy: str

    @classmethod
    def of(cls, kind: str, parts: "Sequence[CopySpec]") -> "PartOf":
        """Return what these copies are part of together."""
        stated = [replace(each, part_of=None).to_json() for each in parts]
        text = json.dumps([kind, stated], sort_keys=True)
        return cls(kind, hashlib.sha256(text.encode()).hexdigest()[:16])


@dataclass(frozen=True)
class CopySpec:
    """A copy: its level, what is done after the noise, whose rows it shows, and how it is written.

    `edition` is None for the last one, whichever that is, `batch` None for all rows of the edition,
    `format` None as long as nothing is written, `part_of` None for the copy of a single table.
    `mark` is reserved.
    """

    level: Level
    finish: Finish = field(default_factory=Finish)
    edition: int | None = None
    batch: int | None = None
    format: str | None = None
    dictionary: bool = False
    mark: None = None
    part_of: PartOf | None = None

    def to_json(self) -> JsonObject:
        """Return it as a ledger keeps it."""
        clip = {name: cast("Ends", ends) for name, ends in self.finish.clip.items()}
        return {
            "level": self.level.thousandths,
            "round": sorted(self.finish.round),
            "clip": {name: list(ends) for name, ends in clip.items()},
            "types": dict(self.finish.types),
            "names": dict(self.finish.names),
            "decimals": dict(self.finish.decimals),
            "spread": {
                name: [spread.centre, spread.factor] for name, spread in self.finish.spread.items()
            },
            **({"descriptions": dict(d)} if (d := self.finish.descriptions) else {}),
            "format": self.format,
            "dictionary": self.dictionary,
            "edition": self.edition,
            "batch": self.batch,
            "mark": self.mark,
            **({} if self.part_of is None else {"part_of": asdict(self.part_of)}),
        }

    @classmethod
    def of_json(cls, kept: Mapping[str, Any]) -> "CopySpec":
        """Return what `to_json` wrote; what is not kept has its default."""
        clip = {name: (low, high) for name, (low, high) in kept["clip"].items()}
        types, names = kept.get("types", {}), kept.get("names", {})
        decimals = kept.get("decimals", {})
        spread = {name: SameSpread(*pair) for name, pair in kept.get("spread", {}).items()}
        return cls(
            level=Level(LATTICE[kept["level"] - 1]),
            finish=Finish(
                frozenset(kept["round"]),
                clip,
                types,
                names,
                decimals,
                spread,
                kept.get("descriptions", {}),
            ),
            edition=kept.get("edition"),
            batch=kept.get("batch"),
            format=kept.get("format"),
            dictionary=kept.get("dictionary", False),
            part_of=PartOf(**kept["part_of"]) if "part_of" in kept else None,
        )

    @property
    def rows(self) -> str:
        """Which rows of the table it shows: an edition, or a batch alone."""
        return f"{self.edition}" if self.batch is None else f"batch {self.batch}"


class Knots(ListOf):
    """Ascending numbers, not all of them the same."""

    def accepts(self, value: Any) -> bool:
        """Whether they are."""
        return super().accepts(value) and len(value) > 1 and value[0] < value[-1]


@dataclass(frozen=True)
class SpreadKind(Kind):
    """How a column was drawn together: a centre, and a factor from 1e-6 to 1."""

    allowed: str = "a centre and a factor from 1e-6 to 1"

    def accepts(self, value: Any) -> bool:
        """Whether it states both."""
        return (
            isinstance(value, Mapping)
            and value.keys() == {"centre", "factor"}
            and _FINITE.accepts(value["centre"])
            and _FACTOR.accepts(value["factor"])
        )

    def parsed(self, value: Any) -> Any:
        """Return it as it is used."""
        return value if value is None else SameSpread(**value)


def stated(kind: Kind, *, always_of: tuple[str, ...] = ()) -> Any:
    """Declare a field that metadata may state.

    Of columns in the roles `always_of` it is written even if it is null.
    """
    return field(default=None, metadata={"kind": kind, "always_of": always_of})


_MOST = 1e300
_MOST_NOISE, _LEAST_RETENTION = 1000.0, 0.01
"""Beyond the last level of the lattice: noise 999, where 1/sqrt(1000) of a category is retained."""
_FINEST, _COARSEST = 1e-100, 1e100
"""Steps of all types lie between: those of decimals are 1e-76 to 1e76. Squares do not overflow."""
_MOST_SCORES = 1 << 16
_ROLES = (PERTURBED, CATEGORY, KEPT, KEY, UNIT, DERIVED)
_SHARE = Number(0.0, 1.0, "a number from 0 to 1")
_NOISE = Number(1e-300, _MOST_NOISE, "a finite number greater than 0, at most 1000")
_FINITE = Number(-_MOST, _MOST, "a finite number")
_FACTOR = Number(LEAST_FACTOR, 1.0, "a number from 1e-6 to 1")
_BOUND = OrNull(Number(-sys.float_info.max, sys.float_info.max, "a finite number"))
_MARKS = ListOf(Text(printable=False), "a list of marks for missing values in the source")
_NAME = Text("the name of a column")

# --------------------------------------------------------------------------------------------------
# What a copy states about itself.


@dataclass(frozen=True)
class ColumnMetadata:
    """What a copy states about one of its columns; None is not stated.

    `hidden` is the share of its variance that the copy hides. A number was perturbed on the scale
    `transform`, on ranks with `scores` of the values `knots`; `excess` is by how much its noise
    exceeds the covariances, for a unit of noise, and `noise_with` the covariance of its noise with
    that of columns of linked tables, called TABLE.COLUMN as there, in rows joined by their person.
    `spread` is how it was drawn together after the noise, before it was `rounded` and `clipped`.
    A category that was not retained was drawn from `base`, over `categories` values, `together`
    with other columns. A derived column `follows` another one of the copy, of a number with one
    value for each of the intervals between `limits`, or it is the `sum_of` others. A number that is
    `relative_to` another one was perturbed as its distance from that, in copies as in the source:
    what is stated about its noise, scale and gaps is about the distance. One that is `present_if`
    another column lets it hides its gaps, and shows those of the copy's own category. `marks` are
    what is missing in the source, `source` its name there, `about` a sentence for readers.
    `description` is what the owner states that a column means, and `codes` are the numbers that
    texts had in a file of a statistics program, of which they were the labels.
    """

    role: str | None = stated(OneOf(*_ROLES))
    type: str | None = stated(Text("the name of a type"))
    unit: str | None = stated(OrNull(Text()), always_of=_ROLES)
    pseudonym: bool | None = stated(OneOf(None, False, True))
    source: str | None = stated(_NAME)
    marks: tuple[str, ...] | None = stated(_MARKS)
    hidden: float | None = stated(_SHARE)
    transform: str | None = stated(OneOf(None, *TRANSFORMS), always_of=(PERTURBED,))
    scores: int | None = stated(OrNull(Whole("a number of scores of at least 2", 2, _MOST_SCORES)))
    knots: tuple[float, ...] | None = stated(
        OrNull(Knots(_FINITE, "ascending numbers", None, True))
    )
    excess: Mapping[str, float] | None = stated(
        OrNull(TableOf(_FINITE, "a number for each column")), always_of=(PERTURBED,)
    )
    noise_with: Mapping[str, float] | None = stated(
        OrNull(TableOf(_FINITE, "a number for each column of linked tables"))
    )
    spread: SameSpread | None = stated(OrNull(SpreadKind()))  # noqa: RUF009
    rounded: float | None = stated(
        OrNull(Number(_FINEST, _COARSEST, "a step from 1e-100 to 1e100")), always_of=(PERTURBED,)
    )
    clipped: tuple[float | None, float | None] | None = stated(
        OrNull(ListOf(_BOUND, "two bounds, the lower one first", 2, True)), always_of=(PERTURBED,)
    )
    missing: str | None = stated(OneOf(None, "hidden", "shown"))
    base: str | None = stated(OneOf(None, MARGINAL, UNIFORM))
    pooled: bool | None = stated(OneOf(None, False, True))
    categories: int | None = stated(OrNull(Whole("a number of values")))
    together: tuple[str, ...] | None = stated(
        OrNull(ListOf(Text(printable=False), "a list of columns")), always_of=(CATEGORY,)
    )
    follows: str | None = stated(_NAME)
    sum_of: tuple[str, ...] | None = stated(
        OrNull(ListOf(Text(printable=False), "a list of columns"))
    )
    relative_to: str | None = stated(_NAME)
    present_if: str | None = stated(_NAME)
    limits: tuple[float, ...] | None = stated(
        OrNull(ListOf(_FINITE, "ascending numbers", None, True))
    )
    description: str | None = stated(DESCRIPTION)
    codes: Mapping[str, float] | None = stated(
        OrNull(TableOf(_FINITE, "a number for each of some texts"))
    )
    about: str | None = stated(Text(printable=False))

    def to_json(self) -> JsonObject:
        """Return it as a release writes it."""
        return dict(_written(self, self.role))


@dataclass(frozen=True)
class CopyMetadata:
    """What a copy states about itself; None is not stated.

    `privacy` is the share of the variance of every column that the whole copy hides, `retention`
    the share of the cells of a category that were retained; `missing` are marks of the source,
    `unit` is its column whose values the rows of one person share, whether copies show it or not,
    `outer_unit` the one of the household, or other thing, that persons belong to, if there is one;
    `time` the one that states when a person's rows were, if noise is a curve in it. A copy of a
    linked table states its `family`, the id that copies of all its `tables` have, and its `table`.
    A file of estimates is not a copy: it states the `estimate` that they were made by, alone.
    """

    dataset: str | None = stated(Text())
    noise: float | None = stated(_NOISE)
    privacy: float | None = stated(_SHARE)
    retention: float | None = stated(Number(_LEAST_RETENTION, 1.0, "a number from 0.01 to 1"))
    rows: int | None = stated(Whole("a number of rows"))
    edition: int | None = stated(Whole("the number of an edition", 1))
    batch: int | None = stated(Whole("the number of a batch", 1))
    order: str | None = stated(OneOf(None, *ORDERS), always_of=("",))
    noise_format: int | None = stated(Whole("the number of a format", 1))
    unit: str | None = stated(_NAME)
    outer_unit: str | None = stated(_NAME)
    time: str | None = stated(_NAME)
    family: str | None = stated(Text())
    table: str | None = stated(Text("the name of a table"))
    tables: tuple[str, ...] | None = stated(ListOf(Text(), "a list of tables"))
    missing: tuple[str, ...] | None = stated(_MARKS)
    estimate: str | None = stated(Text())
    columns: Mapping[str, ColumnMetadata] = field(default_factory=dict)

    @classmethod
    def read(cls, stated: Any, name: str) -> "CopyMetadata":
        """Return metadata from the JSON of a copy of this name. Raises SourceError."""
        where = f"the metadata of {name} is damaged"
        if not isinstance(stated, Mapping):
            raise SourceError(f"{where}: it is not a table of fields")
        columns = stated.get("columns", {})
        if not isinstance(columns, Mapping):
            raise SourceError(f"{where}: 'columns' must be a table of columns")
        read = {}
        for column, about in columns.items():
            if not isinstance(column, str) or not isinstance(about, Mapping):
                raise SourceError(f"{where}: column {column!r} is not described by fields")
            read[column] = ColumnMetadata(
                **_checked(about, fields(ColumnMetadata), f"{where}: column {column!r}")
            )
        return cls(**_checked(stated, _FIELDS, where), columns=read)

    @classmethod
    def parse(cls, text: bytes, name: str) -> "CopyMetadata":
        """Return metadata from the text of a copy of this name. Raises SourceError."""
        try:
            stated = json.loads(text)
        except (ValueError, RecursionError):
            raise SourceError(f"{name} or its metadata is damaged") from None
        return cls.read(stated, name)

    def column(self, name: str) -> ColumnMetadata:
        """Return what is stated about a column; nothing about one that is not named."""
        return self.columns.get(name, _NOTHING)

    def to_json(self) -> JsonObject:
        """Return it as a release writes it."""
        columns = {name: about.to_json() for name, about in self.columns.items()}
        role = "" if self.estimate is None else None
        return {**dict(_written(self, role)), **({"columns": columns} if columns else {})}


_NOTHING = ColumnMetadata()
_FIELDS = tuple(each for each in fields(CopyMetadata) if each.name != "columns")


def kinds_of(what: type[CopyMetadata] | type[ColumnMetadata]) -> dict[str, Kind]:
    """Return the kind of each declared field."""
    return {each.name: each.metadata["kind"] for each in fields(what) if "kind" in each.metadata}


def _checked(
    stated: Mapping[str, object], declared: tuple[Field[Any], ...], where: str
) -> dict[str, Any]:
    """Return the declared fields that are stated. Raises SourceError for a value that cannot be."""
    known = {}
    for each in declared:
        if each.name not in stated:
            continue
        kind: Kind = each.metadata["kind"]
        if not kind.accepts(stated[each.name]):
            raise SourceError(f"{where}: {each.name!r} must be {kind.allowed}")
        known[each.name] = kind.parsed(stated[each.name])
    return known


def _written(what: CopyMetadata | ColumnMetadata, role: str | None) -> Iterator[tuple[str, Any]]:
    for each in fields(what):
        if "kind" not in each.metadata:
            continue
        value = getattr(what, each.name)
        if value is not None or role in each.metadata["always_of"]:
            yield each.name, _as_json(value)


def _as_json(value: Any) -> Json:
    if isinstance(value, SameSpread):
        return {"centre": value.centre, "factor": value.factor}
    return list(value) if isinstance(value, tuple) else value
