"""The schema file that a first look proposes, with what was found as comments.

Columns that are alike, as item_1, item_2, ..., share one entry with a wildcard.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.arrays import Flags, Floats, Ints
from cornerwave.choices import DECIDE, DECLARED, DOES, DROPPED, toml_comment, toml_text
from cornerwave.columns import LEAST_ROWS, SAFE_ROWS, listed, to_floats
from cornerwave.errors import ColumnError
from cornerwave.inspection._columns import RARE, ColumnReport
from cornerwave.inspection._disclosure import Disclosure
from cornerwave.levels import HALF
from cornerwave.moments import LARGEST
from cornerwave.outlook import see
from cornerwave.sources import Source, open_source
from cornerwave.spine.frozen import Frozen

ALIKE = 5
"""So many columns of one stem, one type and one decision share an entry."""
MOST_NOTES = 8


def written(
    columns: Sequence[ColumnReport],
    disclosure: Disclosure,
    risks: Sequence[str],
    asks: Collection[str],
    time: str | None = None,
    within: str | None = None,
) -> str:
    """Return the text of the draft; `asks` are the choices that registration asks for.

    `within` is the name of one of several tables: its part of a draft for all of them.
    """
    undecided = sum(report.do == DECIDE for report in columns)
    lines = [
        *(_begun(undecided) if within is None else _table(within)),
        _line("min_count", RARE),
        _line("together", disclosure.together),
        *([_line("time", time)] if time else ()),
        *_asked(asks),
        *(f"# {toml_comment(line)}" for line in disclosure.sentences),
        *(f"# warning: {toml_comment(line)}" for line in risks),
        *(line for same in alike(columns) for line in _entry(same, disclosure, within)),
    ]
    return "\n".join(lines) + "\n"


def _begun(undecided: int) -> Iterator[str]:
    yield "# Edit this schema file, then register the table with it."
    if undecided:
        yield _to_decide(undecided)


def _table(name: str) -> Iterator[str]:
    yield from ("", "[[table]]", f"name = {toml_text(name)}")


def in_table(within: str | None) -> str:
    """Return how the names of tables in a draft begin."""
    return "" if within is None else "table."


def _line(name: str, value: Any = None, comment: str = "") -> str:
    """Return a line that makes a choice, by default as its declaration does, with its help."""
    choice = DECLARED[name]
    value = choice.value if value is None else value
    return f"{choice.key} = {toml_text(value)}    # {comment or choice.help}"


def _asked(asks: Collection[str]) -> Iterator[str]:
    """Yield the choices about the table that are asked for: what is proposed, else as comments."""
    if "shuffle" in asks:
        yield _line(
            "shuffle", comment="the order of the rows reveals columns: shuffle the rows, or"
        )
        yield '#                    "keep" their order if recipients need it, as in a time series'
    for name in DECLARED:
        if name in asks and name not in ("shuffle", "keep_order", "time"):
            yield f"# {_line(name)}: see the warning"


def _to_decide(columns: int) -> str:
    many = "1 column" if columns == 1 else f"{columns:,} columns"
    return f'# To decide: {many}, marked do = "{DECIDE}".'


def alike(columns: Sequence[ColumnReport]) -> list[list[ColumnReport]]:
    """Return the columns in groups that share an entry, most of them of one column."""
    stems: dict[str, list[ColumnReport]] = defaultdict(list)
    for report in columns:
        stems[_stem(report.name)].append(report)
    shared = {
        stem: group
        for stem, group in stems.items()
        if stem and len(group) >= ALIKE
        if len({_decided(r) for r in group}) == 1
        if group[0].do != DECIDE
    }
    # A wildcard must not take a column from another one.
    many = {r.name: stem for stem, group in shared.items() for r in group}
    clear = {
        stem
        for stem in shared
        if all(other == stem for name, other in many.items() if fnmatchcase(name, f"{stem}*"))
    }
    groups: dict[str, list[ColumnReport]] = defaultdict(list)
    for place, report in enumerate(columns):
        stem = many.get(report.name)
        groups[stem if stem in clear else f"*{place}"].append(report)
    return list(groups.values())


def _decided(report: ColumnReport) -> tuple[object, ...]:
    """Return what columns have in common that share an entry."""
    return (
        *(report.do, report.type, report.marks, report.is_ranked, report.released_type),
        *(report.decimals, report.description, report.relative_to, report.present_if),
        *(report.follows, report.sum_of),
    )


def _stem(name: str) -> str:
    """Return a name without the number at its end; '' if there is none."""
    match = re.fullmatch(r"(\w*[^\W\d])\d+", name)
    return match[1] if match else ""


def _entry(
    same: Sequence[ColumnReport], disclosure: Disclosure, within: str | None = None
) -> Iterator[str]:
    looks, hides = disclosure.looks, any(each.name in disclosure.hide_missing for each in same)
    first, several = same[0], len(same) > 1
    name = f"{_stem(first.name)}*" if several else first.name
    yield ""
    yield f"[[{in_table(within)}column]]"
    yield f"name = {toml_text(name)}" + (f"    # {len(same)} columns" if several else "")
    yield f"do = {toml_text(first.do)}    # {', '.join(DOES.values())}"
    if first.description is not None and first.do != DOES[DROPPED]:
        told = "released with copies: it must not name people"
        undecided = "# " if first.do == DECIDE else ""
        yield undecided + _line("describe", first.description, told)
    if first.follows is not None:
        yield _line("follows", *first.follows)
    elif first.sum_of is not None:
        yield _line("sum_of", *first.sum_of)
        if (many := first.scale and first.scale.decimals) is not None:
            yield _line("decimals", many, "as many as the table has, and so do copies")
    elif first.do == "perturb" and first.present_if is not None:
        yield _line("present_if", *first.present_if)
    elif hides:
        yield _line("hide_missing")
    yield f"# {toml_comment(first.type)}, {_distinct(same)}, {_missing(same)} missing"
    if first.marks is not None:
        cells = sum(report.marked for report in same)
        proposed = f"    # proposed: {cells:,} cells; take out what is a value" if cells else ""
        yield f"missing = {toml_text(first.marks)}{proposed}"
    elif first.code is not None and len({report.code and report.code[0] for report in same}) == 1:
        mark, cells = first.code[0], sum(report.code[1] for report in same if report.code)
        yield f'# missing = ["{mark}"]    # if {mark} means that there is no value: {cells:,} cells'
    if first.name in looks:
        of = f" of {first.name}" if several else ""
        yield f"# copy{of}: {toml_comment(looks[first.name])}"
    yield from _scale(same)
    if first.do == "perturb" and "int" in first.type and not first.is_ranked:
        whole = "whole at every privacy, not only where noise is wider than 1"
        yield f"# {_line('round', comment=whole)}"
    if all(report.from_zero for report in same):
        positive = "no value looked at is negative; clipped copies bias sums"
        yield f"# {_line('clip', comment=positive)}"
    yield from _notes(same)


def _scale(same: Sequence[ColumnReport]) -> Iterator[str]:
    """Yield on which scale numbers are drafted to be perturbed, and why."""
    first = same[0]
    if first.do != "perturb" or first.scale is None:
        return
    if first.relative_to is not None:
        yield _line("relative_to", *first.relative_to)
    if first.is_ranked:
        yield _line("transform", first.scale.transform, first.scale.reason)
    else:
        yield f"# {first.scale.reason}"
    if first.released_type is not None:
        yield _line("released_type", *first.released_type)
    if first.decimals is not None:
        yield _line("decimals", first.decimals, "as many as the table has, and so do copies")


def _notes(same: Sequence[ColumnReport]) -> Iterator[str]:
    notes: dict[str, list[str]] = defaultdict(list)
    for report in same:
        for warning in report.warnings:
            notes[warning].append(report.name)
    for warning, names in list(notes.items())[:MOST_NOTES]:
        of = "" if len(same) == 1 else f" ({', '.join(names[:3])}{', ...' * (len(names) > 3)})"
        yield f"# note{toml_comment(of)}: {toml_comment(warning)}"
    if len(notes) > MOST_NOTES:
        yield f"# and {len(notes) - MOST_NOTES} notes more"


def _distinct(same: Sequence[ColumnReport]) -> str:
    about = "" if all(report.exact for report in same) else "about "
    numbers = [r.distinct if r.exact else float(f"{r.distinct:.1e}") for r in same]
    least, most = min(numbers), max(numbers)
    span = f"{most:,.0f}" if least == most else f"{least:,.0f} to {most:,.0f}"
    return f"{about}{span} distinct {'value' if most == 1 else 'values'}"


def _missing(same: Sequence[ColumnReport]) -> str:
    least, most = (pick(report.missing for report in same) for pick in (min, max))
    return f"{most:.1%}" if least == most else f"{least:.1%} to {most:.1%}"


# --------------------------------------------------------------------------------------------------
# How the cells of a text file are spelled, as the last table of a schema file.


def how_read(source: Source, within: str | None = None) -> str:
    """Return the [reading] of a draft, with what was found as comments; '' if there is none.

    What may mean a missing value is proposed: it is missing if the owner leaves it there.
    What does so in one column alone is proposed with that column.
    """
    if source.reading is None or not (source.reading.stated or source.remarks):
        return ""
    begun = f"[{in_table(within)}reading]"
    lines = ["", f"{begun}    # how the cells are spelled; register reads them in this way"]
    lines += [f"# {toml_comment(remark)}" for remark in source.remarks]
    shared = set(source.reading.missing or ())
    marks = [pair for counted in source.markers.values() for pair in counted.items()]
    if cells := sum(count for mark, count in marks if mark in shared):
        lines.append(
            f"# proposed: {cells:,} cells look like marks for missing values; take out of "
            "`missing` what is a value"
        )
    return "\n".join([*lines, *source.reading.lines()]) + "\n"


# --------------------------------------------------------------------------------------------------
# What to know about a table as a whole before it is registered, each with a number.
#
#     few rows        leverage (N + 1) / T: the share of a row in what the noise is shaped by
#     far out         records that copies at privacy 0.5 do not hide
#     combinations    up to three columns that together single out rows
#     gaps            E(prediction | missing) - E(prediction | present), in deviations, where the
#                     prediction is the column's regression on the other numbers
#
# All but the first are measured on the sampled rows.


LEVERAGE = 0.05
"""A row that is more than this share of what the noise is shaped by is worth a warning."""
MOST_TOGETHER, MOST_LOOKED_AT, MOST_VALUES = 3, 40, 1000
"""So many columns single rows out together; so many, of no more values than this, are tried."""
GAP_CELLS = 1 << 19
"""Gaps are judged by fewer rows if the table is wide."""
ROWS_TO_JUDGE = 30
"""Gaps, and values beside them, are judged if there are at least so many."""
SHIFT, CHANCE = 0.2, 4.0
"""Gaps that shift a column by more than this, and more than CHANCE standard errors, reveal it."""


def risks(
    rows: pa.Table, total: int, proposed: Mapping[str, str], frozen: Frozen | None
) -> Iterator[str]:
    """Yield warnings about a table of `total` rows, of which some were sampled."""
    numbers = [name for name, do in proposed.items() if do == "perturb"]
    yield from _few_rows(total, len(numbers))
    if frozen is not None:
        yield from _far_out(rows, frozen)
    yield from _singled_out(rows, proposed)
    yield from _gaps(rows, numbers)


def _few_rows(rows: int, numbers: int) -> Iterator[str]:
    share = (numbers + 1) / max(rows, 1)  # the mean leverage: trace of the hat matrix over T
    asks = ""
    if rows < SAFE_ROWS:
        least = f"refuses fewer than {LEAST_ROWS}"
        few = least if rows < LEAST_ROWS else f"warns of fewer than {SAFE_ROWS}"
        asks = f"; registration {few} unless few_rows accepts them"
    if share > LEVERAGE:
        yield (
            f"few rows: with {rows:,} rows and {numbers} numbers, a row makes up "
            f"{min(share, 1.0):.0%} of what its own noise is shaped by; 1 % takes "
            f"{100 * (numbers + 1):,} rows. What is promised holds on average over rows, and "
            f"here each row counts{asks}"
        )
    elif asks:
        yield (
            f"few rows: with {rows:,} rows, an audit of copies sees only large faults; what is "
            f"promised holds on average over rows{asks}"
        )


def _far_out(rows: pa.Table, frozen: Frozen) -> Iterator[str]:
    level = frozen.hidden.level_of(HALF)
    if level is None or not frozen.schema.perturbed:
        return
    far = int(see(frozen, open_source(rows), [level.noise]).rows[0])
    if far:
        lie = "lies" if far == 1 else "lie"
        yield (
            f"far out: {far:,} of {rows.num_rows:,} records looked at {lie} so far "
            "from the others, in a column or in combination, that a copy at privacy 0.5 does not "
            "hide them; see transform, or drop them"
        )


def _singled_out(rows: pa.Table, proposed: Mapping[str, str]) -> Iterator[str]:
    """Yield which few columns single out most rows: the best one, then the best beside it."""
    coded = sorted(_codes(rows, proposed), key=lambda each: -int(each[1].max()))
    left = dict(coded[:MOST_LOOKED_AT])
    chosen: list[str] = []
    together, alone = np.zeros(rows.num_rows, dtype=np.int64), 0
    while left and len(chosen) < MOST_TOGETHER:
        scores = {name: _alone(_joined(together, codes)) for name, codes in left.items()}
        best = max(scores, key=lambda name: scores[name])
        if 0 < scores[best][0] <= alone:  # one column more singles out no further row
            break
        alone, together = scores[best][0], _joined(together, left.pop(best))
        chosen.append(best)
    if alone and len(chosen) > 1:
        share = alone / rows.num_rows
        part = f"{share:.0%}" if share >= 0.01 else "below 1%"
        yield (
            f"combinations: {listed(chosen)} together single out {alone:,} of "
            f"{rows.num_rows:,} rows looked at ({part}): someone who knows them about a "
            "person can find that row, so do not keep them unchanged"
        )


def _codes(rows: pa.Table, proposed: Mapping[str, str]) -> Iterator[tuple[str, Ints]]:
    """Yield the columns that people may know of each other, as codes: those of few values."""
    usable = [n for n in rows.column_names if proposed[n] in ("perturb", "category")]
    for name in usable:
        cells = rows.column(name).combine_chunks()
        if pa.types.is_floating(cells.type) or pa.types.is_decimal(cells.type):
            continue
        coded = pc.dictionary_encode(cells, null_encoding="encode")
        if 1 < len(coded.dictionary) <= MOST_VALUES:
            yield name, coded.indices.to_numpy().astype(np.int64)


def _joined(codes: Ints, others: Ints) -> Ints:
    """Return one code for each combination of two."""
    both = codes * (int(others.max(initial=0)) + 1) + others
    return np.asarray(np.unique(both, return_inverse=True)[1])


def _alone(codes: Ints) -> tuple[int, int]:
    """Return how many combinations one row alone has, and how many there are."""
    held = np.bincount(codes)
    return int((held == 1).sum()), len(held)


def _gaps(rows: pa.Table, names: Sequence[str]) -> Iterator[str]:
    """Yield which columns seem to be missing because they are high, or low."""
    every = max(1, rows.num_rows * len(names) // GAP_CELLS)  # each column is fitted on all others
    columns = {name: values[::every] for name, values in _numbers(rows, names)}
    for name, values in columns.items():
        missing = np.isnan(values)
        if min(missing.sum(), (~missing).sum()) < ROWS_TO_JUDGE:
            continue
        others = [column for other, column in columns.items() if other != name]
        shift, error = _shift(values, missing, others)
        if abs(shift) > SHIFT and abs(shift) > CHANCE * error:
            yield (
                f"gaps: {name!r} is missing in {missing.mean():.0%} of the rows; by the other "
                f"numbers its values there would be {abs(shift):.1f} deviations "
                f"{'higher' if shift > 0 else 'lower'} than elsewhere, so a gap reveals them; see "
                "hide_missing"
            )


def _numbers(rows: pa.Table, names: Sequence[str]) -> Iterator[tuple[str, Floats]]:
    """Yield columns as floats, but for those that registration would refuse."""
    for name in names:
        try:
            values = to_floats(rows.column(name).combine_chunks(), name)
        except ColumnError:
            continue
        if not (np.abs(values) > LARGEST).any():
            yield name, values


def _shift(values: Floats, missing: Flags, others: Sequence[Floats]) -> tuple[float, float]:
    """Return how far predictions of missing values lie from the others, and its error."""
    deviation = values[~missing].std()
    if not others or not deviation:
        return 0.0, 0.0
    # the regression on the other numbers, fitted where the value is present: (X'X) b = X'y
    beside = np.stack([np.ones(len(values)), *map(_whole, others)], axis=1)
    known, target = beside[~missing], values[~missing] / deviation
    weights = np.linalg.lstsq(known.T @ known, known.T @ target, rcond=None)[0]
    predicted = beside @ weights
    # E(prediction | missing) - E(prediction | present), and the error of two independent means
    apart = predicted[missing].mean() - predicted[~missing].mean()
    error = np.sqrt(
        predicted[missing].var() / missing.sum() + predicted[~missing].var() / (~missing).sum()
    )
    return float(apart), float(error)


def _whole(column: Floats) -> Floats:
    """Return a column in deviations, with its mean for what is missing."""
    gap = np.isnan(column)
    mean, deviation = (column[~gap].mean(), column[~gap].std()) if not gap.all() else (0.0, 1.0)
    return np.where(gap, 0.0, (column - mean) / (deviation or 1.0))
