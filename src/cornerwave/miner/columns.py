"""What was done to each column of a copy, from the copy's own metadata.

    perturbed  Y = X + W, W ~ N(0, noise K)                         a number
    category   kept with probability `retention`, else drawn anew   a category
    kept       as it was: noise 0, retention 1                      either of the two
    key        tells rows apart; there is nothing to estimate       left out

A field that an older copy lacks means the plain case.
"""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cornerwave.errors import BiasWarning, ColumnError
from cornerwave.table import is_number, is_text

MARGINAL, UNIFORM = "marginal", "uniform"
LOG1P, RANK = "log1p", "rank"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a copy and its perturbation; `rounded` is the step, 0 for none.

    A category is drawn anew from `base`, "marginal" or "uniform" over `categories`
    values. Columns in `together` are one category, whose values are the combinations
    that occur.
    """

    name: str
    is_number: bool
    noise: float = 0.0
    retention: float = 1.0
    base: str = MARGINAL
    categories: int | None = None
    together: tuple[str, ...] = ()
    transform: str | None = None
    rounded: float = 0.0
    clipped: bool = False
    hides_missing: bool = False
    mixes_missing: bool = False
    """Whether pooled values left as missing beside values that were missing."""

    @property
    def step(self) -> float:
        """The step on the scale that the column was perturbed on; there is none after a log."""
        return 0.0 if self.transform else self.rounded


def columns_of(
    schema: pa.Schema, noise: float, metadata: Mapping[str, Any] | None
) -> dict[str, Column]:
    """Return the columns that can be asked about, in the copy's order.

    Without metadata, numbers count as perturbed and everything else as a category
    drawn anew from its own frequencies, as a release does by default.
    """
    said = dict((metadata or {}).get("columns", {}))
    retention = float((metadata or {}).get("retention", (1 + noise) ** -0.5))
    columns = {}
    for field in schema:
        known = said.get(field.name, {})
        role = known.get("role", "perturbed" if is_number(field.type) else "category")
        if role != "key":
            columns[field.name] = _column(field, role, known, noise, retention)
    return columns


def _column(
    field: pa.Field, role: str, known: Mapping[str, Any], noise: float, retention: float
) -> Column:
    if role == "kept":
        return Column(field.name, is_number(field.type))
    hides_missing = known.get("missing") == "hidden"
    if role == "perturbed":
        return Column(
            field.name,
            is_number=True,
            noise=noise,
            transform=known.get("transform"),
            rounded=float(known.get("rounded") or 0.0),
            clipped=bool(known.get("clipped")),
            hides_missing=hides_missing,
        )
    together = tuple(known.get("together") or ())
    # in a joint draw a missing cell is a part of its combination, and drawn like one
    hides_missing = hides_missing or bool(together)
    return Column(
        field.name,
        is_number=False,
        retention=retention,
        base=known.get("base") or MARGINAL,
        categories=known.get("categories"),
        together=together,
        hides_missing=hides_missing,
        mixes_missing=bool(known.get("pooled")) and not (hides_missing or is_text(field.type)),
    )


def refuse_mixed(column: Column) -> None:
    """Raise ColumnError if pooled and missing values of a category cannot be told apart."""
    if column.mixes_missing:
        raise ColumnError(
            f"{column.name!r}: rare values left as missing beside missing ones, which an older "
            "version did; ask for a copy made by a newer one"
        )


def warn_of_bias(columns: Iterable[Column]) -> None:
    """Warn by name of columns whose copy was changed in ways that cannot be undone.

    Raises ColumnError for ranks: the way back from them is the owner's alone.
    """
    numbers = [column for column in columns if column.is_number]
    if ranks := [column.name for column in numbers if column.transform == RANK]:
        raise ColumnError(
            f"{_listed(ranks)}: perturbed on the ranks, and only the owner can map ranks to "
            "values; leave the column out, or ask for a copy with another transform"
        )
    _warn([c.name for c in numbers if c.clipped], "clipped to a range after the noise")
    _warn([c.name for c in numbers if c.hides_missing], "missing values were filled in")
    _warn(
        [c.name for c in numbers if c.rounded and c.transform],
        "rounded after the transform was undone",
    )


def _warn(names: list[str], what: str) -> None:
    if names:
        warnings.warn(
            f"{_listed(names)}: {what}, so estimates are biased by an amount that the copy "
            "does not tell",
            BiasWarning,
            stacklevel=5,
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)
