"""The schema file that a first look at linked tables proposes: a [[table]] for each, and what they
share as comments.
"""

from collections.abc import Iterator

from cornerwave.choices import DECIDE, toml_comment
from cornerwave.columns import listed
from cornerwave.inspection._common_units import CommonUnit, Match
from cornerwave.inspection._draft import written
from cornerwave.inspection._family import LinkedInspection

BY_NAME = ("independent_rows", "few_rows")
"""Choices about a table that only the owner can make, as comments of the draft."""


def linked_draft(inspection: LinkedInspection) -> str:
    """Return a schema file for all tables."""
    lines = [
        "# Edit this schema file, then register the tables with it.",
        *_to_decide(inspection),
        *(f"# {toml_comment(line)}" for line in _shared(inspection)),
        *(_orphans(inspection.unit) if inspection.unit is not None else ()),
    ]
    parts = [
        written(each.columns, each.disclosure, each.warnings, each.asks, each.time, within=table)
        + inspection.readings.get(table, "")
        for table, each in inspection.tables.items()
    ]
    return "\n".join([*lines, *parts])


def _to_decide(inspection: LinkedInspection) -> Iterator[str]:
    """Yield what the owner has to decide, each by its name."""
    if inspection.unit is None:
        yield "# To decide: the unit, the column that names the same persons in several tables."
    for table, each in inspection.tables.items():
        columns = [report.name for report in each.columns if report.do == DECIDE]
        if columns:
            named = toml_comment(", ".join(map(repr, columns)))
            yield f'# To decide in {toml_comment(repr(table))}: {named}, marked do = "{DECIDE}".'
        for choice in BY_NAME:
            if choice in each.asks:
                yield (
                    f"# To decide in {toml_comment(repr(table))}: whether to state {choice}, see "
                    "the warning."
                )
    if inspection.unit is not None and any(inspection.unit.orphans()):
        yield "# To decide: whether persons without a row may be, see orphans."


def _shared(inspection: LinkedInspection) -> Iterator[str]:
    """Yield what tables share, and what that means."""
    if inspection.unit is None:
        yield "unit: nothing shows that rows of different tables belong to the same persons"
        for match in inspection.matches:
            yield f"  {_met(match)}: such values are in any two tables"
        yield (
            'If a column names the same persons in several tables, state do = "unit" for it in '
            "each. If none does, register each table by itself"
        )
        return
    named = _named(inspection.unit)
    yield (
        f"unit: {named}. All that a person has in any of these tables is hidden together, and "
        "copies have a pseudonym in its place, by which recipients join them"
    )
    for match in inspection.unit.matches:
        yield f"  {_met(match)}"
    for table in inspection.tables.keys() - inspection.unit.columns.keys():
        yield (
            f"{table!r} has no such column: each of its rows is hidden as a row, and not all rows "
            "of a person together"
        )


def _named(unit: CommonUnit) -> str:
    """Return the columns that name persons, and the tables that have them."""
    by_column: dict[str, list[str]] = {}
    for table, column in unit.columns.items():
        by_column.setdefault(column, []).append(table)
    return "; ".join(f"{c!r} of {listed(tables)}" for c, tables in by_column.items())


def _met(match: Match) -> str:
    (one, two), (mine, theirs) = match.tables, match.columns
    name = f"{mine!r}" if mine == theirs else f"{mine!r} and {theirs!r}"
    return f"{name}: {match.both:,} values are in both {one!r} and {two!r}"


def _orphans(unit: CommonUnit) -> Iterator[str]:
    """Yield the choice that accepts persons without a row in the parent, if there are any."""
    for match in unit.orphans():
        rows = "1 row" if match.lone_rows == 1 else f"{match.lone_rows:,} rows"
        yield (
            f"# {toml_comment(f'{match.lone:,} values of {match.columns[1]!r} in')} "
            f"{toml_comment(f'{match.tables[1]!r}, {rows}, have no row in {match.tables[0]!r}')}; "
            "registration refuses that unless you accept it:"
        )
    if any(unit.orphans()):
        yield "# orphans = true"
