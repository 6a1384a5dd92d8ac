"""Which column names the persons, firms or places that a table has several rows of.

A draft proposes it as the unit, with the reasons: its values repeat, it is called like an
identifier, rows with the same value agree in other columns.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.arrays import Ints
from cornerwave.choices import CATEGORY, DECIDE, DOES, DROPPED, PERTURBED, UNIT, toml_text
from cornerwave.columns import Column, Schema, is_number, unit_of
from cornerwave.inspection._columns import ColumnReport
from cornerwave.inspection._seen import IDENTIFIER, OF_THINGS
from cornerwave.inspection._trial import KNOWN
from cornerwave.privacy import (
    Looked,
    Unit,
    UnitColumns,
    find_above,
    find_better,
    find_units,
    names_a_thing,
)

MOST_AGREEING = 5
"""So many columns that agree are named."""
PROPOSED = "proposed as the unit"
MOST_INNER = 3
"""So many columns are looked at that could name persons within the unit that is proposed."""
_ROLES = {DOES[PERTURBED]: PERTURBED, DOES[CATEGORY]: CATEGORY}


def units_in(rows: pa.Table, total: int, proposed: Mapping[str, str]) -> list[Unit]:
    """Return which columns name units, by sampled rows of `total`, as registration would find."""
    looked = _looked(rows, proposed)
    return find_units(looked, rows=total) if looked else []


def _looked(rows: pa.Table, proposed: Mapping[str, str]) -> list[Looked]:
    """Return the columns of sampled rows as they are looked at for units; none without noise."""
    columns = tuple(
        Column(part.name, str(part.type), _ROLES.get(proposed[part.name], DROPPED))
        for part in rows.schema
    )
    if not any(column.role != DROPPED for column in columns):
        return []
    looked = UnitColumns.of(Schema(columns))
    numbers, cells = looked.of_rows(rows, np.arange(rows.num_rows), KNOWN)
    return looked.looked(np.array(numbers), np.array(cells))


def better_unit(rows: pa.Table, total: int, proposed: Mapping[str, str], unit: str) -> Unit | None:
    """Return what groups rows that agree far more than those of the unit, if anything does."""
    looked = _looked(rows, proposed)
    if not any(each.name == unit for each in looked):
        return None
    return find_better(looked, unit, rows=total)


def accepted_unit(
    rows: pa.Table,
    total: int,
    proposed: Mapping[str, str],
    unit: Unit | None,
    naming: Collection[str],
) -> Unit | None:
    """Return the unit, or the one that registration would name instead, if it can be declared."""
    tried = set[str]()
    while unit is not None and unit.columns[0] not in tried:
        tried.add(unit.columns[0])
        better = better_unit(rows, total, proposed, unit.columns[0])
        if better is None or not better.can_be_declared(naming):
            break
        unit = better
    return unit


def outer_warnings(
    rows: pa.Table,
    proposed: Mapping[str, str],
    reports: Sequence[ColumnReport],
    unit: Unit | None,
    *,
    linked: bool = False,
) -> Iterator[str]:
    """Yield that units belong together, as persons of a household, and how to hide both.

    The unit that is proposed may be either of the two. `linked` tables have one.
    """
    looked = _looked(rows, proposed) if unit is not None else []
    if unit is None or not looked:
        return
    naming, drafted = naming_in(reports), unit.columns[0]
    distinct = {report.name: report.distinct for report in reports}
    named = [name for name in naming if name != drafted and names_a_thing(name)]
    for inner in [drafted, *sorted(named)[:MOST_INNER]]:
        if not any(each.name == inner for each in looked):
            continue
        for above in find_above(looked, inner, persons=distinct[inner]):
            outer = above.columns[0]
            if linked and inner == drafted:
                yield (
                    f"units: {above}. The draft hides each {drafted!r} alone: linked tables have "
                    "one unit"
                )
                return
            if not linked and above.can_be_declared(naming) and drafted in (inner, outer):
                yield (
                    f"units: {above}. The draft hides each {drafted!r} alone. To hide both, state "
                    f"unit = {toml_text([outer, inner])}"
                )
                return


def unit_to_propose(reports: Sequence[ColumnReport], units: Sequence[Unit]) -> Unit | None:
    """Return the unit to propose: one column of whole numbers or text that names enough persons.

    It is the one in which most columns agree, of those that are called like an identifier if
    there are any: a time or a size may group rows that agree, and names nobody.
    """
    usable = [unit for unit in units if unit.can_be_declared(naming_in(reports))]
    called = [unit for unit in usable if names_a_thing(unit.columns[0])]
    return max(called or usable, key=lambda unit: len(unit.agreeing), default=None)


def repeated_identifier(reports: Sequence[ColumnReport], rows: pa.Table, total: int) -> Unit | None:
    """Return the one column that is called like an identifier of people, if most values repeat."""
    called = [report for report in reports if _is_identifier(report)]
    if len(called) != 1 or called[0].name not in naming_in(reports):
        return None
    [report] = called
    sizes = pc.value_counts(rows.column(report.name).drop_null()).field("counts").to_numpy()
    each = total * (1 - report.missing) / max(1, report.distinct)
    unit = Unit((report.name,), report.distinct, each, (), each)
    repeats = len(sizes) > 0 and np.median(sizes) > 1 and unit.units >= each
    return unit if repeats and unit.can_be_declared([report.name]) else None


def _is_identifier(report: ColumnReport) -> bool:
    return report.do == DECIDE and any(OF_THINGS in reason for reason in report.warnings)


def naming_in(reports: Sequence[ColumnReport]) -> set[str]:
    """Return the columns that could name persons: whole numbers, and text that spells no dates."""
    return {
        r.name for r in reports if "int" in r.type or (r.type.endswith("string") and not r.is_dated)
    }


def with_units(
    reports: Sequence[ColumnReport], units: Sequence[Unit], unit: Unit | None, rows: pa.Table
) -> Iterator[ColumnReport]:
    """Yield what was found, with what is proposed for columns that name units.

    Other names of the unit are left out. Without a unit to propose, the owner has to decide.
    """
    alone = {u.columns[0]: u for u in units if len(u.columns) == 1}
    naming = {name: alone[name] for name in alone.keys() & naming_in(reports)}
    most = max((len(each.agreeing) for each in naming.values()), default=0)
    for report in reports:
        if unit is not None and report.name == unit.columns[0]:
            notes = tuple(note for note in report.warnings if IDENTIFIER not in note)
            yield _proposed(replace(report, warnings=notes), UNIT, _why(unit))
        elif unit is not None and _is_other_name(rows, report, unit.columns[0]):
            name = f"another name of {unit.columns[0]!r}, the unit: proposed to be left out"
            yield _proposed(report, DROPPED, name)
        elif unit is not None and _is_identifier(report):
            yield _proposed(report, DROPPED, "proposed to be left out, beside the unit")
        elif unit is None and report.name in naming:
            its_unit = naming[report.name]
            is_first = len(its_unit.agreeing) == most  # others agree with what names the units
            yield replace(_asked(report, its_unit), do=DECIDE) if is_first else report
        else:
            yield report


def with_changes(
    reports: Sequence[ColumnReport], changes: Mapping[str, tuple[str, str]]
) -> Iterator[ColumnReport]:
    """Yield what was found, with another role for some columns, each with the reason."""
    for report in reports:
        if report.name not in changes:
            yield report
            continue
        do, reason = changes[report.name]
        notes = [n for n in report.warnings if IDENTIFIER not in n and not n.startswith(PROPOSED)]
        yield replace(report, do=do, from_zero=False, warnings=(reason, *notes))


def _proposed(report: ColumnReport, role: str, reason: str) -> ColumnReport:
    return replace(report, do=DOES[role], from_zero=False, warnings=(reason, *report.warnings))


def _asked(report: ColumnReport, unit: Unit) -> ColumnReport:
    reason = (
        f"names units, such as people: {unit.units:,} values of {unit.sizes}, "
        "which agree; noise hides each row, not all rows of a unit together"
    )
    return replace(report, from_zero=False, warnings=(reason, *report.warnings))


def _why(unit: Unit) -> str:
    """Return why a column is proposed as the unit."""
    some = unit.agreeing[:MOST_AGREEING]
    more = f" and {len(unit.agreeing) - len(some)} more" if len(unit.agreeing) > len(some) else ""
    named = ", ".join(f"{each.column!r} ({min(each.r, 1.0):.2f})" for each in some)
    called = "; it is called like an identifier" * names_a_thing(unit.columns[0])
    agree = (
        f"; rows with the same value agree in {named}{more} (intraclass correlation: 0 is chance, "
        "1 is equal)"
        if some
        else "; rows with the same value do not agree more than by chance in this table"
    )
    return (
        f"{PROPOSED}: it seems to name the person, or other thing, that rows belong to. "
        f"Its {unit.units:,} values repeat, {unit.sizes}{called}{agree}"
    )


def _is_other_name(rows: pa.Table, report: ColumnReport, unit: str) -> bool:
    """Whether a column that names things has just one value for each unit, another for each."""
    names = report.type.endswith("string") or report.do == DECIDE or names_a_thing(report.name)
    if not names or report.name not in rows.column_names:
        return False
    pairs = rows.select([report.name, unit]).drop_null()
    groups = ([report.name], [unit], [report.name, unit])
    counts = {pairs.group_by(each).aggregate([]).num_rows for each in groups}
    return len(counts) == 1 and pairs.num_rows > 0


TIMES = frozenset(
    [
        "date",
        "day",
        "hour",
        "month",
        "period",
        "quarter",
        "round",
        "t",
        "time",
        "tick",
        "timestamp",
        "visit",
        "visited",
        "wave",
        "week",
        "when",
        "year",
        "yr",
    ]
)
"""What columns are called that state when a row was."""
ONCE = 0.95
"""A person has a time once: this share of rows must have it alone among the person's rows."""
LEAST_WITHIN = 0.05
"""Times of a person lie apart by this, of all rows in order of time: half of what lies between two
knots (spine/person_curves.py). Row numbers that follow the persons do not."""


def time_to_propose(rows: pa.Table, unit: Unit | None) -> str | None:
    """Return the column that states when a person's rows were: a date, or called like one."""
    if unit is None:
        return None
    times = [name for name in rows.column_names if _is_time(rows, name, unit.columns[0])]
    dated = [name for name in times if unit_of(rows.schema.field(name).type) is not None]
    return next(iter(dated or times), None)


def _is_time(rows: pa.Table, name: str, unit: str) -> bool:
    type_ = rows.schema.field(name).type
    words = re.split(r"[^a-z]+", name.casefold())
    if name == unit or not is_number(type_):
        return False
    if unit_of(type_) is None and not TIMES & {*words}:
        return False
    pairs = rows.select([unit, name]).drop_null()
    distinct = pairs.group_by([unit, name]).aggregate([]).num_rows
    persons = pairs.group_by([unit]).aggregate([]).num_rows
    if not (distinct >= ONCE * pairs.num_rows and distinct > persons):
        return False
    codes = pc.dictionary_encode(pairs.column(unit).combine_chunks()).indices.to_numpy()
    return (
        _within(codes, pc.rank(pairs.column(name), tiebreaker="first").to_numpy()) >= LEAST_WITHIN
    )


def _within(persons: Ints, ranks: Ints) -> float:
    """Return how far rows of one person lie apart, as a share of all rows, in order of time.

    The root of the mean square of deviations within persons that have several rows.

    >>> _within(np.array([0, 0, 1, 1]), np.array([1, 2, 3, 4]))
    0.125
    """
    share, counts = ranks / len(ranks), np.bincount(persons)
    apart = share - (np.bincount(persons, share) / np.maximum(counts, 1))[persons]
    return float(np.sqrt(np.mean(apart[counts[persons] > 1] ** 2)))


def with_time(
    reports: Sequence[ColumnReport], rows: pa.Table, unit: Unit | None, time: str | None
) -> Iterator[ColumnReport]:
    """Yield what was found, with what is proposed for categories that a panel's time determines.

    Where every person has a row at every time, the history of any other person shows them too. The
    time itself is a number everywhere: a history with as many rows has nearly the same times.
    """
    names = [time, unit.columns[0]] if time and unit else []
    pairs = rows.select(names).drop_null()
    every = [len(pc.unique(pairs.column(name))) for name in names]
    balanced = len(names) > 0 and every[0] * every[1] * ONCE <= pairs.num_rows
    for report in reports:
        if time is None or report.do != DOES[CATEGORY]:
            yield report
        elif report.name == time and pa.types.is_integer(rows.schema.field(time).type):
            reason = SAME_TIMES if balanced else LIKE_TIMES
            yield _proposed(replace(report, warnings=()), PERTURBED, reason)
        elif balanced and _follows(rows, report.name, time):
            yield _proposed(report, DROPPED, f"{SAME}: proposed to be left out; or keep it")
        else:
            yield report


SAME = "every person has the same values in the same order in time, so that noise cannot hide it"
SAME_TIMES = f"perturbed as a number: {SAME.replace('noise', 'another history')}"
LIKE_TIMES = (
    "the time, perturbed as a number: the history of another person with as many rows would show "
    "nearly the same times"
)


def _follows(rows: pa.Table, name: str, time: str) -> bool:
    """Whether a time has one value of a column in nearly all rows, and times have others."""
    pairs = (
        rows.select([time, name]).drop_null().group_by([time, name]).aggregate([([], "count_all")])
    )
    most = pairs.group_by(time).aggregate([("count_all", "max")])["count_all_max"]
    held, total = pc.sum(most).as_py() or 0, pc.sum(pairs["count_all"]).as_py() or 0
    by_value = pairs.group_by(name).aggregate([("count_all", "sum")])["count_all_sum"]
    rest = total - (pc.max(by_value).as_py() or 0)
    return bool(rest > 0 and total - held <= (1 - ONCE) * rest)


def unit_warnings(
    reports: Sequence[ColumnReport], units: Sequence[Unit], unit: Unit | None
) -> Iterator[str]:
    """Yield what to know about rows that belong together."""
    if unit is not None and unit.agreeing:
        yield (
            f"units: {unit}. So the draft proposes {unit.columns[0]!r} as the unit: copies then "
            "hide all rows of a person together, and have a pseudonym in its place. If rows merely "
            "share a school, an area or a product, choose something else for that column and "
            "state independent_rows: anyone who knows which rows share it then learns as much as "
            "this about them"
        )
    elif units:
        ways_out = units[0].ways_out(naming_in(reports))
        yield f"units: {units[0]}. Registration refuses that. {ways_out}"
