"""How a copy was made, from its metadata: its level, and what was done to each column.

    perturbed  Y = X + W, W ~ N(0, noise K), perhaps as c + f (Y - c)   numeric
    category   retained with probability `retention`, else redrawn      category
    kept       unchanged: noise 0, retention 1                          either
    relative   b' + d', d = x - b perturbed: as the sum of these, and d as a column of its own
    derived    computed from another column of the copy: ask about that one    left out
    key        identifies rows; there is nothing to estimate            left out

The metadata is inside a Parquet or Arrow file, beside a CSV, or given by the recipient.
A field that is not there has its default value.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cornerwave.arrays import Floats
from cornerwave.choices import CATEGORY, DERIVED, KEPT, KEY, MARGINAL, PERTURBED, UNIT
from cornerwave.columns import (
    KNOTS,
    Relative,
    SameSpread,
    chain,
    distance_name,
    is_number,
    type_named,
)
from cornerwave.errors import BiasWarning, ColumnError, LevelError, SourceError, warn
from cornerwave.levels import THOUSANDTHS, Level
from cornerwave.outputs import metadata_of, read_metadata
from cornerwave.sources import Address, Source, kind_of, open_source, place_of
from cornerwave.spec import ColumnMetadata, CopyMetadata

LOG1P, RANK, MIXED = "log1p", "rank", "several scales"

UNKNOWN_BIAS = "so estimates are biased, and the copy does not state by how much"


@dataclass(frozen=True, slots=True)
class CopyColumn:
    """A column of a copy and its perturbation.

    `rounded` is the rounding step, 0 for none. A category that was not retained was drawn
    from `base`: "marginal" (the column's own frequencies) or "uniform" over `categories`
    values. Columns in `together` are one category whose values are their combinations. Of one that
    `is_exchanged` persons show those of others, which were exchanged and not drawn.
    `excess` is by how much the noise exceeds the table's covariances, per unit of noise,
    `scores` the number of scores of a column that was perturbed on ranks, `knots` their values.
    `noise_with` is the covariance of its noise with that of columns, where it is not a multiple of
    the table's: in a copy joined from several. `spread` is how it was drawn together after the
    noise: answers are from what it was before. A distance is that of the column `held` from the one
    it is `away_from`; a column that copies show as such a distance and its base has these `parts`.
    """

    name: str
    is_number: bool
    noise: float = 0.0
    retention: float = 1.0
    base: str = MARGINAL
    categories: int | None = None
    is_exchanged: bool = False
    together: tuple[str, ...] = ()
    transform: str | None = None
    rounded: float = 0.0
    clipped: bool = False
    hides_missing: bool = False
    excess: Mapping[str, float] = field(default_factory=dict)
    noise_with: Mapping[str, float] = field(default_factory=dict)
    scores: int = KNOTS
    knots: tuple[float, ...] = ()
    spread: SameSpread | None = None
    held: str | None = None
    away_from: str | None = None
    parts: "tuple[CopyColumn, ...]" = ()

    @property
    def summands(self) -> "tuple[CopyColumn, ...]":
        """What had noise by itself and adds up to it: mostly nothing but the column."""
        return self.parts or (self,)

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns of the copy that it is read from."""
        names = [n for part in self.summands for n in (part.source, part.away_from)]
        return tuple(dict.fromkeys(name for name in names if name is not None))

    @property
    def source(self) -> str:
        """The column of the copy that it, or what it is a distance of, is read from."""
        return self.name if self.held is None else self.held

    @property
    def step(self) -> float:
        """The rounding step of what the noise left, on the perturbed scale; a transform leaves no
        fixed step.
        """
        if self.transform or not self.rounded:
            return 0.0
        return self.rounded if self.spread is None else self.spread.step(self.rounded)

    @property
    def origin(self) -> float:
        """A value from which all that a rounded column shows are whole steps away."""
        return float(self.as_left(np.zeros(1))[0]) if self.step else 0.0

    def as_left(self, values: Floats) -> Floats:
        """Return values of the copy, on the perturbed scale, as the noise left them."""
        return values if self.spread is None else self.spread.undone(values)


def open_copy(
    what: Any, metadata: Mapping[str, object] | None, *, subset: bool = False
) -> tuple[Source, CopyMetadata | None]:
    """Open a place or a frame; return it with its metadata, None if it has none.

    It has as many rows as the metadata states, unless it is a `subset`.
    """
    path = place_of(what) if isinstance(what, str | Path | Address) else None
    if metadata is not None:
        stated: CopyMetadata | None = CopyMetadata.read(metadata, "the copy")
    elif isinstance(path, Address) or (isinstance(path, Path) and path.exists()):
        stated = read_metadata(path)  # of a file, or of a folder of them
    else:
        stated = None
    is_untyped = isinstance(path, Path | Address) and kind_of(Path(path.name)) != "typed"
    source = open_source(what, _types(stated) if is_untyped and stated else None)
    if stated is None:
        stated = metadata_of(source)
    if stated is not None and stated.rows is not None and not subset:
        source = _whole(source, stated.rows)
    return source, stated


def _whole(source: Source, rows: int) -> Source:
    """Return a source that raises SourceError at the end of a pass over another number of rows."""

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        total = 0
        for batch in source.open(columns):
            total += batch.num_rows
            yield batch
        if total != rows:
            raise SourceError(
                f"{source.name} has {total:,} rows, but its metadata states {rows:,}. Rows chosen "
                "by noisy values give biased estimates: open the whole copy and ask for "
                "group_means() or a regression on the column that you selected by. For rows "
                "chosen at random pass subset=True; chosen by a kept column, only means hold then"
            )

    return replace(source, open=read)


def table_of(array: NDArray[Any], names: Sequence[str] | None) -> pa.Table:
    """Return an array (rows, columns), or (rows,), as a table with these column names."""
    if array.ndim not in (1, 2):
        raise SourceError(f"the array must have 1 or 2 dimensions, not {array.ndim}")
    array = array.reshape(len(array), -1)
    names = [str(i) for i in range(array.shape[1])] if names is None else list(names)
    if len(names) != array.shape[1]:
        raise ColumnError(f"{len(names)} names given for {array.shape[1]} columns")
    return pa.table([pa.array(column) for column in array.T], names=names)


def level_of(
    source: Source, metadata: CopyMetadata | None, *, noise: float | None, privacy: float | None
) -> Level:
    """Return the level of a copy, from its metadata or by its noise.

    A privacy is that of the whole copy, which depends on the table: it does not state the noise.
    Raises SourceError if nothing does, LevelError if what is given is not what is stated.
    """
    if metadata is None or metadata.noise is None:
        if privacy is not None:
            raise LevelError(
                f"privacy {privacy:g} does not state how noisy {source.name} is: it is the privacy "
                "of the whole copy, which depends on how its columns are related. Pass noise=, as "
                "its .meta.json or its owner states it; a table of numbers alone has noise "
                f"p / (1 - p) = {Level.of(privacy=privacy).noise:.6g}"
            )
        if noise is None:
            raise SourceError(
                f"{source.name} has no metadata that states its noise: it is not a released copy, "
                "or its .meta.json is missing, or it is a frame that keeps none, as those of "
                "polars. Pass metadata=, as release.metadata has it; or noise=, if its numbers are "
                "as the noise left them (a raw copy)"
            )
        if metadata is None and any(is_number(part.type) for part in source.schema):
            warn(
                f"{source.name} does not state how it was made, so its numbers are taken as the "
                "noise left them (a raw copy); pass metadata={} if they are, or else "
                "metadata=release.metadata",
                kind=BiasWarning,
                stacklevel=3,
            )
        return Level(noise)
    level = Level.of(noise=metadata.noise)
    promised = level.privacy if metadata.privacy is None else metadata.privacy
    for unit, given, known, close in (
        ("noise", noise, level.noise, 1e-9 * level.noise),
        ("privacy", privacy, promised, 0.5 / THOUSANDTHS),
    ):
        if given is not None and not abs(given - known) <= close:
            raise LevelError(
                f"the copy's metadata states {unit} {known!r}, but {unit} {given!r} was "
                "given; leave it out to use the metadata"
            )
    return level


def columns_of(
    schema: pa.Schema, noise: float, metadata: CopyMetadata | None
) -> dict[str, CopyColumn]:
    """Return the columns that can be asked about, in the copy's order.

    Without metadata, numeric columns count as perturbed and all others as categories
    with the base "marginal", which is how a release treats them by default. A release states all
    of its columns: what was added to them later has a noise that nobody states, and is left out.
    """
    metadata = metadata or CopyMetadata()
    names = metadata.columns if metadata.dataset is not None else schema.names
    retention = (1 + noise) ** -0.5 if metadata.retention is None else float(metadata.retention)
    columns = {}
    # persons exchange whole histories: all categories are those of one donor
    drawn = [n for n, known in metadata.columns.items() if known.role == CATEGORY]
    as_one = tuple(drawn) if metadata.unit is not None and len(drawn) > 1 else ()
    for part in schema:
        if part.name not in names:
            continue
        known = metadata.column(part.name)
        role = known.role or (PERTURBED if is_number(part.type) else CATEGORY)
        if role in (KEY, UNIT, DERIVED):
            continue
        columns[part.name] = CopyColumn(
            part.name,
            is_number=role == PERTURBED or (role == KEPT and is_number(part.type)),
            noise=noise if role == PERTURBED else 0.0,
            retention=retention if role == CATEGORY else 1.0,
            base=known.base or MARGINAL,
            is_exchanged=role == CATEGORY and metadata.unit is not None,
            categories=known.categories,
            together=as_one if role == CATEGORY and as_one else known.together or (),
            transform=known.transform,
            rounded=float(known.rounded or 0.0),
            clipped=known.clipped is not None,
            # a joint draw treats a missing cell as one more value of its combination
            hides_missing=known.missing == "hidden" or bool(known.together),
            excess=known.excess or {},
            scores=known.scores or KNOTS,
            knots=known.knots or (),
            spread=known.spread if role == PERTURBED else None,
        )
    stated = {name: metadata.column(name).relative_to for name in columns}
    relative = {n: base for n, base in stated.items() if base is not None and base in columns}
    return _with_distances(columns, relative) if relative else columns


def _with_distances(columns: Mapping[str, CopyColumn], relative: Relative) -> dict[str, CopyColumn]:
    """Return columns with those that are relative to others as sums, beside their distances.

    What is stated about them is about the distance.
    """
    distances = {
        name: replace(columns[name], name=distance_name(name, base), held=name, away_from=base)
        for name, base in relative.items()
    }
    found, made_of = dict[str, CopyColumn](), dict[str, list[str]]()
    for name, column in columns.items():
        of = list(chain(name, relative))
        made_of[name] = of
        found[name] = column
        if name in relative:
            parts = tuple(distances.get(part, columns[part]) for part in of)
            scales = {part.transform for part in parts}
            found[name] = CopyColumn(
                name,
                is_number=True,
                noise=column.noise,
                transform=scales.pop() if scales in ({None}, {RANK}) else MIXED,
                clipped=any(part.clipped for part in parts),
                hides_missing=any(part.hides_missing for part in parts),
                parts=parts,
            )
            made_of[distances[name].name] = [name]
            found[distances[name].name] = distances[name]
    # Cov(a + b, c) = Cov(a, c) + Cov(b, c)
    excess = {
        one: {
            other: sum(columns[a].excess.get(b, 0.0) for a in of for b in of_other)
            for other, of_other in made_of.items()
        }
        for one, of in made_of.items()
    }
    return {
        name: replace(column, excess={n: more for n, more in excess[name].items() if more})
        for name, column in found.items()
    }


def unit_of(source: Source, metadata: CopyMetadata | None) -> str | None:
    """Return the column of a copy that names the person of each row, if rows belong to persons.

    If persons belong to households, the one of these: they are independent. Warns if the copy does
    not show whose rows are, or which persons belong together.
    """
    if metadata is None or metadata.unit is None:
        return None
    shown = {
        about.source or name: name
        for name, about in metadata.columns.items()
        if about.role == UNIT and name in source.schema.names
    }
    unit = shown.get(metadata.outer_unit or metadata.unit)
    if unit is not None:
        return unit
    what = "rows" if metadata.outer_unit is None or not shown else "persons"
    belong = "persons" if metadata.outer_unit is None else "households"
    warn(
        f"{what} of {source.name} belong to {belong}, and the copy does not show which: standard "
        f"errors are those of independent {what}, and too small",
        kind=BiasWarning,
        stacklevel=3,
    )
    return shown.get(metadata.unit)


def _types(metadata: CopyMetadata) -> dict[str, pa.DataType] | None:
    """Return the types of the columns of a copy whose file states none, such as a CSV.

    None if any of them is not in the metadata.
    """
    types = {name: _type(known) for name, known in metadata.columns.items()}
    readable = {name: type_ for name, type_ in types.items() if type_ is not None}
    return readable if readable and len(readable) == len(types) else None


def _type(known: ColumnMetadata) -> pa.DataType | None:
    if known.type is None:
        return None
    if known.role == PERTURBED and not known.rounded:
        return pa.float64()
    type_ = type_named(known.type)
    return pa.string() if type_ in (pa.large_string(), pa.string_view()) else type_


def warn_of_bias(columns: Iterable[CopyColumn]) -> None:
    """Warn about columns, by name, that were changed in ways that cannot be undone."""
    numbers = [column for column in columns if column.is_number]
    for what, names in (
        ("clipped to a range after the noise", [c.name for c in numbers if c.clipped]),
        ("missing values were filled in", [c.name for c in numbers if c.hides_missing]),
        (
            "rounded after the transform was undone",
            [c.name for c in numbers if c.rounded and c.transform],
        ),
    ):
        warn_biased(names, f"{what}, {UNKNOWN_BIAS}")


def warn_biased(names: Sequence[str], what: str) -> None:
    """Issue a BiasWarning that names the columns, if there are any."""
    if names:
        warn(f"{quoted(names)}: {what}", kind=BiasWarning, stacklevel=5)


def quoted(names: Iterable[str]) -> str:
    """Return names as a list for a message."""
    return ", ".join(repr(name) for name in names)
