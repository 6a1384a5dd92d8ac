"""What a survey is checked for: whether rows belong together, and what their order reveals."""

import itertools
from collections.abc import Sequence
from typing import Any

from cornerwave.choices import KEEP_ORDER, SHUFFLE, toml_text
from cornerwave.columns import Schema, distance_name, listed
from cornerwave.errors import ColumnError, warn
from cornerwave.privacy import (
    LEAST_PERSONS,
    Looked,
    RevealedByOrder,
    RowOrder,
    as_nested,
    find_above,
    find_better,
    find_units,
)
from cornerwave.spine.person_sample import PersonSample
from cornerwave.spine.survey import Survey, Surveyor


def check_units(surveyor: Surveyor, survey: Survey) -> None:
    """Raise ColumnError if rows belong together, unless the owner states that they do not."""
    columns, rows, schema = surveyor.unit_columns, survey.units.ordered, surveyor.schema
    if not columns.count or schema.unit is not None:
        return
    units = find_units(columns.looked(rows.numbers, rows.cells), rows=survey.moments.rows)
    if not units:
        return
    [unit, *_] = units
    declared = unit.can_be_declared(schema.naming)
    error = ColumnError(
        f"{unit}. {unit.ways_out(schema.naming)}",
        use=("unit", "independent_rows") if unit.units >= LEAST_PERSONS else ("independent_rows",),
    )
    named = f"unit={unit.columns[0]!r} or " if declared else ""
    error.add_note(f"In Python: {named}independent_rows=True")
    raise error


def check_declared_unit(surveyor: Surveyor, survey: Survey) -> None:
    """Raise ColumnError if the declared unit does not name what rows belong to.

    Unless the owner states that the rows of different units are independent. Warns if persons
    belong together.
    """
    schema, rows = surveyor.schema, survey.units.ordered
    if schema.unit is None or survey.persons is None or schema.independent_rows:
        return
    looked = surveyor.unit_columns.looked(rows.numbers, rows.cells)
    for unit in schema.units:
        if all(each.distinct == 0 for each in looked if each.name == unit):
            raise ColumnError(
                f"{unit!r} has no value, so it identifies no one; choose another unit"
            )
    if survey.persons.persons < LEAST_PERSONS or (survey.persons.counts == 1).all():
        return  # refused where the noise of persons is made
    of_rows, of_outers = looked, looked
    if schema.outer_unit is not None:
        of_rows, of_outers = as_nested(looked, schema.outer_unit, schema.unit)
    better = find_better(of_rows, schema.unit, rows=survey.moments.rows)
    if better is not None:
        remedy = (
            f"Name {better.columns[0]!r} as the unit"
            if better.can_be_declared(schema.naming)
            else "Name as the unit what these rows belong to"
        )
        raise ColumnError(
            f"{schema.unit!r} is not what rows belong to: {better}. Rows with the same "
            f"{schema.unit!r} agree far less. {remedy}; if it is {schema.unit!r} that is to be "
            f"hidden, and not what rows with the same {listed(better.columns)} have in common, "
            "state that other rows are independent",
            use=("unit", "independent_rows"),
        )
    _warn_of_outer(of_outers, surveyor.schema, survey.persons)


def _warn_of_outer(looked: Sequence[Looked], schema: Schema, sample: PersonSample) -> None:
    """Warn if units belong together: persons of a household, or households of a village."""
    unit = schema.outer_unit or schema.unit
    assert unit is not None
    units = round(len(sample.outer_starts) / sample.share)
    for above in find_above(looked, unit, persons=units)[:1]:
        names = listed(above.columns)
        remedy = f"If {names} is the person, or the thing to hide, name it as the unit"
        if not schema.nested and len(above.columns) == 1 and above.columns[0] in schema.naming:
            both = toml_text([*above.columns, unit])
            remedy += f". To hide both, name both as units, {names} first (unit = {both})"
        warn(
            f"{above}. Copies hide each {unit!r}, not what those with the same {names} have "
            f"in common. {remedy}",
            stacklevel=6,
        )


def not_unique(key: str | None, repeated: int) -> ColumnError:
    """Return the message about rows that have one key."""
    return ColumnError(f"the key column {key!r} is not unique: {repeated} rows repeat a key")


def ordered_columns(schema: Schema) -> list[str]:
    """Return the columns to look at in the order of the rows, or in that of a key as it is."""
    categories = [name for group in schema.categories for name in group]
    is_looked_at = schema.order != KEEP_ORDER or schema.key in schema.unchanged
    return [*_numbers(schema), *categories, *schema.unchanged] if is_looked_at else []


def _numbers(schema: Schema) -> list[str]:
    """Return the numbers with noise, and the distances that some are perturbed as."""
    return [*schema.perturbed, *itertools.starmap(distance_name, schema.relative.items())]


def order_of(schema: Schema, *, is_placed: bool = True, **known: Any) -> RowOrder:
    """Return what looks at the order of a table's rows, as far as copies will show it.

    Rows far apart are compared if copies keep their order by default, and if they have places.
    """
    shows = is_placed and schema.order not in (SHUFFLE, KEEP_ORDER)
    noisy = [*_numbers(schema), *(name for group in schema.categories for name in group)]
    return RowOrder(ordered_columns(schema), distant=noisy if shows else (), **known)


def check_order(order: RowOrder, schema: Schema, *, is_batch: bool = False) -> None:
    """Raise ColumnError if the order of the rows reveals a column, unless that is dealt with.

    Rows of a batch are dealt with as those that were registered. Warns of what a key that is
    released as it is reveals, by the order of its values.
    """
    revealed = [] if schema.order == KEEP_ORDER else _revealed_columns(order, schema)
    if revealed and schema.order != SHUFFLE:
        remedy, use = _RANDOM if is_batch else _DECIDE
        raise ColumnError(
            f"the order of the rows reveals {listed([each.column for each in revealed])}: "
            f"{revealed[0]}. {remedy}",
            use=use,
        )
    for name in schema.unchanged:
        is_key = name == schema.key
        if (revealed or is_key) and (again := _revealed_columns(order, schema, sorted_by=name)):
            remedy = (
                "Release the key as a pseudonym, as is the default, or drop it: it still "
                "identifies the rows"
                if is_key
                else "Shuffling does not help against that; drop the column"
            )
            warn(
                f"{name!r} is released unchanged, and rows sorted by it reveal "
                f"{listed([each.column for each in again])}: {again[0]}. {remedy}",
                stacklevel=7,
            )


_DECIDE = (
    "Shuffle the rows of the copies or, if recipients need the order as in a time series, keep it",
    ("shuffle", "keep_order"),
)

_RANDOM = "Put the rows into a random order", ()
"""What to do about an order that reveals a column, and the choices for it."""


def _revealed_columns(
    order: RowOrder, schema: Schema, sorted_by: str | None = None
) -> list[RevealedByOrder]:
    """Return the columns that neighbours reveal, in the file or sorted by a column, most first."""
    categories = [name for group in schema.categories for name in group]
    hidden = [name for name in categories if schema.column(name).hide_missing]
    return order.revealed(_numbers(schema), categories, hide_missing=hidden, sorted_by=sorted_by)


def batch_order(schema: Schema, **known: Any) -> RowOrder:
    """Return what looks at the order of new rows: at fewer than of a table that is registered."""
    return order_of(schema, cells=0, **known)
