"""The schema file that a first look proposes, with what was found as comments.

Columns that are alike, as item_1, item_2, ..., share one entry with a wildcard.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from cornerwave.inspection._columns import ColumnReport
from cornerwave.inspection._telling import Telling
from cornerwave.table import toml_comment, toml_text

ALIKE = 5
"""So many columns of one stem, one type and one decision share an entry."""
MOST_NOTES = 8

_ORDER = (
    'order = "shuffle"    # the order of the rows tells columns: shuffle the rows of copies, or',
    '                     # "keep" their order if recipients need it, as in a time series',
)
_FEW_ROWS = "# few_rows = true    # if so few rows shall be registered: see the warning"
_DECIDE = "perturb, category, key, keep or drop"


_UNITS = ("# independent_rows = true    # if rows do not belong together: see the warning",)


def written(
    columns: Sequence[ColumnReport],
    telling: Telling,
    risks: Sequence[str],
    *,
    units: bool,
    few_rows: bool,
) -> str:
    """Return the text of the draft; `units` if rows belong together."""
    groups = ", ".join(f"[{', '.join(map(toml_text, names))}]" for names in telling.together)
    undecided = sum(report.do == "decide" for report in columns)
    lines = [
        "# Edit this schema file, then register the table with it.",
        *([_to_decide(undecided)] if undecided else ()),
        "min_count = 0    # pool category values that are held by fewer rows than this",
        f'together = [{groups}]    # categories to refresh as one, as in [["city", "district"]]',
        *(_ORDER if any(report.told for report in columns) else ()),
        *(_UNITS if units else ()),
        *([_FEW_ROWS] if few_rows else ()),
        *(f"# {toml_comment(line)}" for line in telling.sentences),
        *(f"# warning: {toml_comment(line)}" for line in risks),
        *(line for same in alike(columns) for line in _entry(same, telling)),
    ]
    return "\n".join(lines) + "\n"


def _to_decide(columns: int) -> str:
    many = "1 column" if columns == 1 else f"{columns:,} columns"
    return f'# To decide: {many}, marked do = "decide".'


def alike(columns: Sequence[ColumnReport]) -> list[list[ColumnReport]]:
    """Return the columns in groups that share an entry, most of them of one column."""
    stems: dict[str, list[ColumnReport]] = defaultdict(list)
    for report in columns:
        stems[_stem(report.name)].append(report)
    shared = {
        stem: group
        for stem, group in stems.items()
        if stem and len(group) >= ALIKE and len({(r.do, r.type, r.marks) for r in group}) == 1
        if group[0].do != "decide"
    }
    # A wildcard must not take a column from another one.
    many = {r.name: stem for stem, group in shared.items() for r in group}
    clear = {
        stem
        for stem in shared
        if all(own == stem for name, own in many.items() if fnmatchcase(name, f"{stem}*"))
    }
    groups: dict[str, list[ColumnReport]] = defaultdict(list)
    for place, report in enumerate(columns):
        stem = many.get(report.name)
        groups[stem if stem in clear else f"*{place}"].append(report)
    return list(groups.values())


def _stem(name: str) -> str:
    """Return a name without the number at its end; '' if there is none."""
    found = re.fullmatch(r"(\w*[^\W\d])\d+", name)
    return found[1] if found else ""


def _entry(same: Sequence[ColumnReport], telling: Telling) -> Iterator[str]:
    looks, hides = telling.looks, any(each.name in telling.hide_missing for each in same)
    first, several = same[0], len(same) > 1
    name = f"{_stem(first.name)}*" if several else first.name
    yield ""
    yield "[[column]]"
    yield f"name = {toml_text(name)}" + (f"    # {len(same)} columns" if several else "")
    yield f"do = {toml_text(first.do)}    # {_DECIDE}"
    if hides:
        yield "hide_missing = true    # missing cells get values: where they are missing tells"
    yield f"# {toml_comment(first.type)}, {_distinct(same)}, {_missing(same)} missing"
    if first.marks is not None:
        cells = sum(report.marked for report in same)
        proposed = f"    # proposed: {cells:,} cells; take out what is a value" if cells else ""
        yield f"missing = {toml_text(first.marks)}{proposed}"
    elif first.code is not None and len({report.code and report.code[0] for report in same}) == 1:
        mark, cells = first.code[0], sum(report.code[1] for report in same if report.code)
        yield f'# missing = ["{mark}"]    # if {mark} says that there is no value: {cells:,} cells'
    if first.name in looks:
        of = f" of {first.name}" if several else ""
        yield f"# copy{of}: {toml_comment(looks[first.name])}"
    if first.do == "perturb" and "int" in first.type:
        yield "# round = true       # whole at every privacy, not only where noise is wider than 1"
    if all(report.from_zero for report in same):
        yield "# clip = [0, inf]    # no value looked at is negative; clipped copies bias sums"
    yield from _notes(same)


def _notes(same: Sequence[ColumnReport]) -> Iterator[str]:
    found: dict[str, list[str]] = defaultdict(list)
    for report in same:
        for warning in report.warnings:
            found[warning].append(report.name)
    for warning, names in list(found.items())[:MOST_NOTES]:
        of = "" if len(same) == 1 else f" ({', '.join(names[:3])}{', ...' * (len(names) > 3)})"
        yield f"# note{toml_comment(of)}: {toml_comment(warning)}"
    if len(found) > MOST_NOTES:
        yield f"# and {len(found) - MOST_NOTES} notes more"


def _distinct(same: Sequence[ColumnReport]) -> str:
    about = "" if all(report.exact for report in same) else "about "
    numbers = [r.distinct if r.exact else float(f"{r.distinct:.1e}") for r in same]
    least, most = min(numbers), max(numbers)
    span = f"{most:,.0f}" if least == most else f"{least:,.0f} to {most:,.0f}"
    return f"{about}{span} distinct {'value' if most == 1 else 'values'}"


def _missing(same: Sequence[ColumnReport]) -> str:
    least, most = (pick(report.missing for report in same) for pick in (min, max))
    return f"{most:.1%}" if least == most else f"{least:.1%} to {most:.1%}"
