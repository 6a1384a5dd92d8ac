"""What names the same persons in several tables: a column of each, by its values.

    unique in one table, repeated in another    patients and their visits
    values that both have                       at least half of those of the smaller column
    not by chance                               names and sparse numbers meet because they are the
                                                same; 1, 2, 3, ... are in any two tables

Values that were counted out, as 1 to n, are evidence of nothing: then rows that share one must
agree in something, a_u and b_u, what two tables have of u, in the order of u. Either they are equal
for nearly all of n such u, where chance makes a share e equal: in all of them with e^n. Or they
rise and fall together: with second differences a' = a_u - 2 a_{u+1} + a_{u+2} of triples that do
not overlap,

    T = sum a' b' / sqrt(sum a'^2 b'^2)      P(|T| > t) <= 2 exp(-t^2 / 2)    (Hoeffding)

if the tables are unrelated: the signs of a' are then random, also where both tables are sorted by
something, so that a_u and b_u rise together. Columns that are sorted in the order of u, or repeat
themselves every few u, as treatments do, are not looked at.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.arrays import Floats
from cornerwave.choices import DECIDE
from cornerwave.columns import is_category, is_number, one_chunk, places_of, to_floats, unit_of
from cornerwave.inspection import _words
from cornerwave.inspection._inspected import Look
from cornerwave.inspection._unit_draft import TIMES, naming_in
from cornerwave.privacy import LEAST_PERSONS, names_a_thing

ALPHA = 1e-4
"""The probability that unrelated tables are drafted as linked by what was counted out: a draft is
read, and states why."""
MOST, NEARLY_ALL = 0.5, 0.9
"""Values of one column that another has, of the smaller one; of columns of different names."""
COUNTED = 0.2
"""Whole numbers that fill this share of their range were counted out, or measured."""
MOST_SIGNALS, MOST_OF_ONE = 16, 4
"""So many columns of a table are compared, and so many values of a category."""
PERIODS, REPEATED = 12, 0.9
"""A column that is equal so many rows later, in this share of the rows, repeats itself."""
EQUAL = 0.98
"""Columns of two tables are equal if they are in this share of what both have."""
ROUNDING = 1e-9
"""Means of equal values differ by a smaller share of the largest."""
_NUMBERED = re.compile(r"(\D*)(\d{1,15})")


@dataclass(frozen=True)
class Match:
    """Two columns of two tables that have the same values, the first in a table with one row each
    if it is `unique`.

    `both` values are in both, `lone` ones in the second table alone, in `lone_rows` rows.
    """

    tables: tuple[str, str]
    columns: tuple[str, str]
    unique: bool
    both: int
    lone: int
    lone_rows: int
    evident: bool
    """Whether that is no chance."""


@dataclass(frozen=True)
class CommonUnit:
    """What names persons in some tables: the column of each, and the table with a row for each."""

    columns: Mapping[str, str]
    parent: str | None
    matches: tuple[Match, ...]

    def orphans(self) -> Iterator[Match]:
        """Yield the tables that have persons without a row in the parent."""
        for match in self.matches:
            if match.tables[0] == self.parent and match.lone:
                yield match


def matches_in(looks: Mapping[str, Look]) -> list[Match]:
    """Return which columns of which tables have the same values."""
    pairs = [pair for pair in _pairs(looks) if _meet(looks, *pair)]
    return [_match(looks, *pair, tried=len(pairs)) for pair in pairs]


_Place = tuple[str, str]


def _pairs(looks: Mapping[str, Look]) -> Iterator[tuple[_Place, _Place]]:
    """Yield the places, table and column, of columns that might name the same: unique ones first.

    Columns of different names only if one is unique, and no number that was counted out.
    """
    naming = {table: _candidates(look) for table, look in looks.items()}
    for table, names in naming.items():
        for name in names:
            unique = looks[table].is_unique(name)
            for other, theirs in naming.items():
                for column in theirs if other != table else ():
                    alone = not looks[other].is_unique(column)
                    once = unique and (alone or (name == column and table < other))
                    neither = not unique and alone and name == column and table < other
                    same = name == column or not counted(looks, (table, name), (other, column))
                    if (once or neither) and same:
                        yield (table, name), (other, column)


def _candidates(look: Look) -> list[str]:
    """Return the columns that could name persons, or what tables are joined by: not times."""
    return [
        each.name
        for each in look.columns
        if each.name in naming_in(look.columns) and not is_time_called(each.name, look)
        if each.name in look.rows.column_names
    ]


def is_time_called(name: str, look: Look) -> bool:
    """Whether a column holds times, or is called like one."""
    words = {*re.split(r"[^a-z]+", name.casefold())}
    return unit_of(look.schema.field(name).type) is not None or (
        bool(TIMES & words) and not names_a_thing(name)
    )


def _meet(looks: Mapping[str, Look], one: _Place, two: _Place) -> bool:
    kinds = {str(looks[table].schema.field(name).type)[:3] for table, name in (one, two)}
    if len({kind == "int" for kind in kinds}) > 1:
        return False
    mine, theirs = (looks[table].values[name] for table, name in (one, two))
    both, _, _ = mine.beside(theirs)
    share = MOST if one[1] == two[1] else NEARLY_ALL
    if one[1] != two[1]:  # all values of the second are those of the first
        return both >= max(share * theirs.number, LEAST_PERSONS)
    return both >= max(share * min(mine.number, theirs.number), 2)


def _match(looks: Mapping[str, Look], one: _Place, two: _Place, *, tried: int) -> Match:
    looked = looks[one[0]], looks[two[0]]
    both, lone, rows = looked[0].values[one[1]].beside(looked[1].values[two[1]])
    known = both >= LEAST_PERSONS
    if known and counted(looks, one, two):
        known = agree(looked[0].rows, looked[1].rows, (one[1], two[1]), tried=tried)
    return Match(
        (one[0], two[0]),
        (one[1], two[1]),
        looked[0].is_unique(one[1]),
        both,
        lone,
        rows,
        evident=known,
    )


def counted(looks: Mapping[str, Look], *places: _Place) -> bool:
    """Whether the values of columns are those that any table might have: 1 to n, P001 to P999, or
    measured, as numbers that are not called like names of anything.
    """
    named = any(_is_called_so(name) for _, name in places)
    return any(_is_counted(looks[table], name, named=named) for table, name in places)


def _is_counted(look: Look, name: str, *, named: bool) -> bool:
    values = pc.unique(look.rows.column(name)).drop_null()
    distinct = look.values[name].number
    if not pa.types.is_integer(values.type):
        matches = [_NUMBERED.fullmatch(text) for text in map(str, values.to_pylist())]
        stems = {match[1] for match in matches if match}
        if None in matches or len(stems) > 1:
            return False
        values = pa.array([int(match[2]) for match in matches if match])
    elif not named:
        return True
    if not len(values):
        return True
    ends = pc.min_max(values).as_py()
    return bool(distinct > COUNTED * (ends["max"] - ends["min"] + 1))


# --------------------------------------------------------------------------------------------------
# Do rows of two tables that share a value agree in something?


def agree(one: pa.Table, two: pa.Table, names: tuple[str, str], *, tried: int = 1) -> bool:
    """Whether rows of two tables that share a value agree in some column, beyond chance."""
    shared = _common(one.column(names[0]), two.column(names[1]))
    a, b = (_signals(rows, name, shared) for rows, name in ((one, names[0]), (two, names[1])))
    if not len(a) or not len(b):
        return False
    # Bonferroni over all pairs of columns, of all tables, and both ways to agree
    chance = ALPHA / (2 * len(a) * len(b) * tried)
    if any(_chance_of_equal(x, y) < math.log(chance) for x in a for y in b):
        return True
    a, b = (_triples(np.array([_ranked(row) for row in each])) for each in (a, b))
    held = np.isfinite(a)[:, None] & np.isfinite(b)
    products = np.where(held, np.nan_to_num(a)[:, None] * np.nan_to_num(b), 0.0)
    squares = np.sqrt((products**2).sum(axis=2))
    T = np.abs(products.sum(axis=2)) / np.where(squares > 0, squares, np.inf)
    return bool(T.max() > math.sqrt(2 * math.log(2 / chance)))


def _chance_of_equal(a: Floats, b: Floats) -> float:
    """Return the log of the chance that two columns are equal by chance; 0 if they are not."""
    known = np.isfinite(a) & np.isfinite(b)
    both = np.concatenate([a[known], b[known]])
    steps = max(float(np.abs(both).max(initial=0.0)), 1e-300) * ROUNDING
    codes = np.unique(np.round(both / steps), return_inverse=True)[1]
    x, y = np.split(codes, 2)
    if np.mean(x == y) < EQUAL:
        return 0.0
    shares = [np.bincount(each, minlength=int(codes.max()) + 1) / len(x) for each in (x, y)]
    return float(len(x) * math.log(float(shares[0] @ shares[1])))


def _ranked(row: Floats) -> Floats:
    """Return the ranks of what is there: large values do not outweigh all others."""
    known, ranks = np.isfinite(row), np.full(len(row), np.nan)
    ranks[known] = np.unique(row[known], return_inverse=True)[1]
    return ranks


def _triples(signals: Floats) -> Floats:
    triples = signals.shape[1] // 3
    parts = signals[:, : 3 * triples].reshape(len(signals), triples, 3)
    return np.asarray(parts @ np.array([1.0, -2.0, 1.0]))


def _common(one: pa.ChunkedArray, two: pa.ChunkedArray) -> pa.Array:
    """Return the values that both have, in their order: short texts first."""
    values = pc.unique(one).drop_null()
    both = values.filter(pc.is_in(values, value_set=pc.unique(two).cast(values.type)))
    if pa.types.is_integer(both.type):
        return both.take(pc.sort_indices(both))
    texts = both.to_pylist()
    return pa.array(sorted(texts, key=lambda text: (len(str(text)), str(text))), both.type)


def _signals(rows: pa.Table, unit: str, shared: pa.Array) -> Floats:
    """Return what each of some persons has on average in each column (signals, persons)."""
    at = places_of(rows.column(unit).cast(shared.type), shared)
    here, count = at >= 0, np.bincount(at[at >= 0], minlength=len(shared))
    signals = [
        np.bincount(at[here], scores[here], len(shared)) / np.maximum(count, 1)
        for name in rows.column_names
        if name != unit
        for scores in _scores(one_chunk(rows.column(name)), name)
    ]
    kept = [each for each in signals[:MOST_SIGNALS] if not _repeats_itself(each)]
    if not kept:
        return np.empty((0, len(shared)))
    return np.where(count > 0, np.array(kept), np.nan)


def _scores(cells: pa.Array, name: str) -> list[Floats]:
    """Return numbers, or which cells hold each frequent value of a category."""
    if is_number(cells.type):
        values = to_floats(cells, name)
        known = np.isfinite(values)
        if not known.any():
            return []
        return [np.where(known, values, values[known].mean())]
    if not is_category(cells.type):
        return []
    coded = pc.dictionary_encode(cells)
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    held = np.bincount(codes[codes >= 0], minlength=len(coded.dictionary))
    if len(held) > len(cells) / 2:  # a name of each row
        return []
    return [(codes == k).astype(np.float64) for k in np.argsort(-held)[:MOST_OF_ONE]]


def _repeats_itself(signal: Floats) -> bool:
    """Whether a column is sorted, or the same some rows later: constant, in blocks, or in turns."""
    steps = np.diff(signal)
    if (steps >= 0).all() or (steps <= 0).all():
        return True
    most = min(PERIODS, len(signal) // 3)
    return any(np.mean(signal[k:] == signal[:-k]) > REPEATED for k in range(1, most + 1))


# --------------------------------------------------------------------------------------------------
# Which of the columns that tables share names the persons?


def common_unit(looks: Mapping[str, Look], matches: Sequence[Match]) -> CommonUnit | None:
    """Return what names persons in most tables: the rest of what they share joins them.

    What is called like people first, then what most tables have, then what has most values.
    """
    units = [unit for seed in matches if (unit := _grown(looks, matches, seed)) is not None]
    return max(units, key=lambda unit: _rank(looks, unit), default=None)


def _grown(looks: Mapping[str, Look], matches: Sequence[Match], seed: Match) -> CommonUnit | None:
    """Return the unit that a match gives, with all tables that have it."""
    table, name = seed.tables[0], seed.columns[0]
    columns, used = {table: name}, list[Match]()
    for match in sorted(matches, key=lambda m: (m.columns[0] != m.columns[1], -m.both)):
        (mine, other), (column, theirs) = match.tables, match.columns
        if (mine, column) != (table, name) or other in columns or not match.evident:
            continue
        if names_persons(looks[other], theirs):
            columns[other] = theirs
            used.append(match)
    repeats = [t for t, column in columns.items() if not looks[t].is_unique(column)]
    if len(columns) < 2 or not repeats:
        return None
    unique = [t for t in columns if t not in repeats]
    return CommonUnit(columns, unique[0] if unique else None, tuple(used))


def names_persons(look: Look, name: str) -> bool:
    """Whether a column could name the persons, or firms, that rows belong to: not kinds of rows.

    It is called so, groups rows that agree, or has so many texts that they may name someone.
    """
    alone = {unit.columns[0] for unit in look.units if len(unit.columns) == 1}
    report = look.column(name)
    many = report.do == DECIDE and "string" in report.type
    return _is_called_so(name) or name in alone or many


def _is_called_so(name: str) -> bool:
    things = _words.ROLES | _words.HOLDERS | _PERSONS
    return names_a_thing(name) or bool(_words.words_of(name) & things)


def _rank(looks: Mapping[str, Look], unit: CommonUnit) -> tuple[bool, int, bool, int]:
    names = {*unit.columns.values()}
    people = any(_words.words_of(name) & _PERSONS for name in names)
    things = any(names_a_thing(name) for name in names)
    return people, len(unit.columns), things, max(match.both for match in unit.matches)


_PERSONS = _words.ROLES | {"individual", "member", "participant", "person", "player", "pupil"}
_PERSONS |= {"respondent", "subj", "subject", "user", "usubjid"}
"""Words for the persons themselves, rather than for what they are grouped by."""
