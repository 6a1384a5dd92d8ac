"""A look at several tables of the same persons: what they share, and what each of them has.

unit      the column that names persons, in all tables that have it    (_common_units)
key       a column with another value in each row
repeated  columns that are the same in two tables, person by person: one noise, or none
joining   columns by which a table without the unit is joined: the owner decides
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.arrays import Floats, Ints
from cornerwave.choices import CATEGORY, DECIDE, DOES, DROPPED, KEY, PERTURBED, UNIT
from cornerwave.columns import listed
from cornerwave.inspection._common_units import (
    CommonUnit,
    Match,
    common_unit,
    is_time_called,
    matches_in,
)
from cornerwave.inspection._inspected import Inspection, Look, inspected_with
from cornerwave.inspection._seen import IDENTIFIER
from cornerwave.inspection._unit_draft import PROPOSED, naming_in
from cornerwave.privacy import names_a_thing
from cornerwave.reuse import TableMarks, related, repeated

NEARLY = 0.95
"""Two columns are the same if so much more of their cells are equal than by chance."""
ALL_BUT_A_FEW = 0.99
"""Columns name the rows of a table if so many rows have a combination of their own."""
NOISY = (DOES[PERTURBED], DOES[CATEGORY])

Changes = dict[str, dict[str, tuple[str, str]]]
"""The roles of columns, each with the reason, by table."""


@dataclass(frozen=True)
class LinkedInspection:
    """What was found in several tables: in each, and what names the same persons in them.

    Without a `unit` nothing shows that tables have persons in common. `readings` state how the
    cells of each are spelled.
    """

    tables: Mapping[str, Inspection]
    unit: CommonUnit | None
    matches: tuple[Match, ...] = ()
    readings: Mapping[str, str] = field(default_factory=dict)


def inspected_together(looks: Mapping[str, Look], readings: Mapping[str, str]) -> LinkedInspection:
    """Return what to propose for linked tables, given how each is read."""
    matches = matches_in(looks)
    unit = common_unit(looks, matches)
    columns = unit.columns if unit is not None else {}
    changes: Changes = {table: {} for table in looks}
    if unit is not None:
        for table, name in columns.items():
            changes[table][name] = DOES[UNIT], _why(looks, unit, table)
        _decide_joins(looks, unit, matches, changes)
        for table, look in looks.items():
            if (key := _key(look, changes[table])) is not None:
                changes[table][key] = DOES[KEY], f"proposed as the key: {EACH_ROW}"
        looks = _with_one_scale(looks, _mark_repeats(looks, unit, changes))
    tables = {t: inspected_with(look, columns.get(t), changes[t]) for t, look in looks.items()}
    for table in sorted({*_still_repeated(tables, unit, changes)}):
        tables[table] = inspected_with(looks[table], columns.get(table), changes[table])
    return LinkedInspection(tables, unit, tuple(matches), readings)


EACH_ROW = "every row has another value; copies have a pseudonym in its place"


def _why(looks: Mapping[str, Look], unit: CommonUnit, table: str) -> str:
    """Return why a column of a table is proposed as the unit."""
    look, name = looks[table], unit.columns[table]
    others = [other for other in unit.columns if other != table]
    named = listed([_named(unit, other, name) for other in others], str)
    if table == unit.parent:
        return f"{PROPOSED}: it names the rows of this table, one each, and rows of {named}"
    each = look.total / max(look.column(name).distinct, 1)
    return f"{PROPOSED}: it names what several rows belong to, about {each:.3g} each, as in {named}"


def _named(unit: CommonUnit, table: str, name: str) -> str:
    """Return how a message names a table, and the unit's column if it is called otherwise there."""
    column = unit.columns[table]
    return repr(table) if column == name else f"{table!r} (there {column!r})"


def _key(look: Look, changes: Mapping[str, tuple[str, str]]) -> str | None:
    """Return the column that names each row, if there is one that seems to be there for that."""
    if any(name in changes and changes[name][0] == DOES[UNIT] for name in look.values):
        unique = [n for n, (do, _) in changes.items() if do == DOES[UNIT] and look.is_unique(n)]
        if unique:  # one row for each person: the unit names the rows
            return None
    candidates = [
        each.name
        for each in look.columns
        if each.do == DECIDE and each.name in naming_in(look.columns)
        if each.name not in changes and look.is_unique(each.name)
        if any(IDENTIFIER in note for note in each.warnings)
    ]
    called = [name for name in candidates if names_a_thing(name)]
    return next(iter(called or (candidates if len(candidates) == 1 else ())), None)


# --------------------------------------------------------------------------------------------------
# What tables without the unit are joined by.


def _decide_joins(
    looks: Mapping[str, Look], unit: CommonUnit, matches: Sequence[Match], changes: Changes
) -> None:
    """Leave to the owner what joins a table without the unit with others."""
    joined: dict[tuple[str, str], list[str]] = {}
    for match in matches:
        if all(table in unit.columns for table in match.tables) or not match.unique:
            continue
        ends = list(zip(match.tables, match.columns, strict=True))
        for (table, name), (other, column) in (ends, ends[::-1]):
            joined.setdefault((table, name), []).append(f"{column!r} of {other!r}")
    for table in looks.keys() - unit.columns.keys():
        for other in unit.columns:
            for name in _composite(looks[table], looks[other]):
                joined.setdefault((table, name), []).append(f"{name!r} of {other!r}")
                if not is_time_called(name, looks[other]):
                    joined.setdefault((other, name), []).append(f"{name!r} of {table!r}")
    for (table, name), others in joined.items():
        if name not in changes[table]:
            changes[table][name] = DECIDE, _joining([*dict.fromkeys(others)])


def _joining(others: Sequence[str]) -> str:
    return (
        f"joins this table with {listed(others, str)}: keep it in both, so that recipients can "
        "join them (anyone who knows its value for a row finds that row then), or drop it"
    )


def _composite(look: Look, other: Look) -> list[str]:
    """Return the columns that both tables have and that together name the rows of the first."""
    left = [n for n in look.rows.column_names if n in other.values and len(look.values) > 1]
    if any(look.is_unique(name) for name in left):
        return []  # by itself: a match
    chosen, codes, rows = list[str](), np.zeros(look.rows.num_rows, dtype=np.int64), 0
    coded = {name: _codes(look.rows.column(name)) for name in left}
    while coded and rows < ALL_BUT_A_FEW * len(codes):
        held = {name: _joined(codes, each) for name, each in coded.items()}
        best = max(held, key=lambda name: int(held[name].max(initial=0)))
        if int(held[best].max(initial=0)) + 1 <= rows:
            return []
        chosen, codes, rows = [*chosen, best], held[best], int(held[best].max(initial=0)) + 1
        del coded[best]
    return chosen if rows >= ALL_BUT_A_FEW * len(codes) and len(chosen) > 1 else []


def _codes(column: pa.ChunkedArray) -> Ints:
    encoded = pc.dictionary_encode(column.combine_chunks(), null_encoding="encode")
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)


def _joined(codes: Ints, others: Ints) -> Ints:
    both = codes * (int(others.max(initial=0)) + 1) + others
    return np.asarray(np.unique(both, return_inverse=True)[1])


# --------------------------------------------------------------------------------------------------
# Columns that tables repeat.


def _mark_repeats(
    looks: Mapping[str, Look], unit: CommonUnit, changes: Changes
) -> dict[str, dict[str, str]]:
    """Note what tables repeat person by person: the same name and values have one noise, and what
    differs in either is left out of the second table.

    Returns, by table and column, the first table that has what has one noise.
    """
    first: dict[str, dict[str, str]] = {}
    tables = sorted(unit.columns, key=lambda table: table != unit.parent)
    for i, one in enumerate(tables):
        for two in tables[i + 1 :]:
            for name, column, equal in _same(looks[one], looks[two], unit, (one, two)):
                if column in changes[two] or name in changes[one]:
                    continue
                if name == column and equal == 1.0 and _is_constant(looks[two], unit, two, column):
                    changes[two][column] = looks[two].column(column).do, _one_noise(one)
                    first.setdefault(two, {})[column] = one
                else:
                    changes[two][column] = (
                        DOES[DROPPED],
                        f"repeats {name!r} of {one!r} ({equal:.0%} of the values are equal): "
                        "proposed to be left out; recipients have it by joining the tables",
                    )
    return first


def _with_one_scale(
    looks: Mapping[str, Look], first: Mapping[str, Mapping[str, str]]
) -> dict[str, Look]:
    """Return the looks with the scale of the first table for columns that have one noise."""
    return {
        table: replace(
            look,
            columns=tuple(
                replace(each, scale=looks[first[table][each.name]].column(each.name).scale)
                if each.name in first.get(table, {})
                else each
                for each in look.columns
            ),
        )
        for table, look in looks.items()
    }


def _same(
    one: Look, two: Look, unit: CommonUnit, tables: tuple[str, str]
) -> Iterator[tuple[str, str, float]]:
    """Yield the columns of two tables that are the same in rows of one person, and how often."""
    names = [unit.columns[table] for table in tables]
    at = pc.index_in(
        two.rows.column(names[1]).cast(one.rows.schema.field(names[0]).type),
        value_set=one.rows.column(names[0]).combine_chunks(),
    )
    here = np.flatnonzero(at.is_valid().to_numpy())
    there = at.drop_null().to_numpy()
    if not len(here):
        return
    for mine in _noisy_columns(one, names[0]):
        for theirs in _noisy_columns(two, names[1]):
            a, b = one.rows.column(mine).take(there), two.rows.column(theirs).take(here)
            if (equal := _equal_beyond_chance(a, b)) is not None:
                yield mine, theirs, equal


def _noisy_columns(look: Look, unit: str) -> list[str]:
    return [
        each.name
        for each in look.columns
        if each.name in look.rows.column_names and each.name != unit and each.do in NOISY
    ]


def _equal_beyond_chance(a: pa.ChunkedArray, b: pa.ChunkedArray) -> float | None:
    """Return the share of cells that are equal, if it is nearly all beyond what chance makes.

    Cohen's kappa: (p - e) / (1 - e), with e = sum of the products of both shares of a value.
    """
    texts = [pa.types.is_string(c.type) or pa.types.is_large_string(c.type) for c in (a, b)]
    if texts[0] != texts[1] or pa.types.is_boolean(a.type) != pa.types.is_boolean(b.type):
        return None
    known = pc.and_(a.is_valid(), b.is_valid())
    try:
        a, b = a.filter(known), b.filter(known).cast(a.type)
    except pa.ArrowException:
        return None
    if not len(a):
        return None
    codes = _codes(pa.chunked_array([*a.chunks, *b.chunks], a.type))
    one, two = np.split(codes, 2)
    p = float(np.mean(one == two))
    e = float(_shares(one, codes) @ _shares(two, codes))
    return p if e < 1 and (p - e) / (1 - e) >= NEARLY else None


def _shares(codes: Ints, every: Ints) -> Floats:
    return np.bincount(codes, minlength=int(every.max()) + 1) / len(codes)


def _is_constant(look: Look, unit: CommonUnit, table: str, name: str) -> bool:
    """Whether a column is the same in all rows of each person, of those that were sampled."""
    pairs = look.rows.select([unit.columns[table], name])
    distinct = pairs.group_by(pairs.column_names).aggregate([]).num_rows
    return bool(distinct == pairs.group_by(pairs.column_names[:1]).aggregate([]).num_rows)


def _still_repeated(
    tables: Mapping[str, Inspection], unit: CommonUnit | None, changes: Changes
) -> Iterator[str]:
    """Yield tables in which values of another one are left to decide, as registration would refuse
    them: they are compared by the marks of the trials.
    """
    marks = {t: known for t, each in tables.items() if (known := each.disclosure.marks())}
    named = sorted(marks, key=lambda table: unit is None or table not in unit.columns)
    for i, two in enumerate(named):
        for one in named[:i]:
            persons = unit is not None and {one, two} <= unit.columns.keys()
            same = {n for n, (_, why) in changes[two].items() if why == _one_noise(one)}
            for column, of in _repeats(_without(marks[two], same), marks[one], persons=persons):
                changes[two][column] = (
                    DECIDE,
                    f"holds values of {of} of {one!r}: drop it here, or keep it in both. With "
                    "noise of its own in each, recipients of both could average it",
                )
                yield two


def _repeats(new: TableMarks, old: TableMarks, *, persons: bool) -> Iterator[tuple[str, str]]:
    """Yield the columns of one table that repeat another, as registration compares them."""
    while True:
        repeats = repeated(new, old)
        pairs = [] if repeats is None else [(repeats.column, repr(repeats.of))]
        if not pairs and not persons and (follows := related(new, old)) is not None:
            pairs = [(name, listed(follows.of)) for name in follows.columns]
        known = [(name, of) for name, of in pairs if name is not None]
        if not known:
            return
        yield from known
        new = _without(new, {name for name, _ in known})


def _without(marks: TableMarks, names: Collection[str]) -> TableMarks:
    columns = tuple(each for each in marks.columns if each.name not in names)
    return replace(marks, columns=columns, total=None)


def _one_noise(table: str) -> str:
    return f"the same in {table!r}, person by person: it has one noise in both tables"
