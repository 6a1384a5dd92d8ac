"""Numbers and dates that come after another one in nearly all rows, as an exit after an entry.

Or before it, where the earlier one has gaps: then the other way round a value would be lost.

With noise of its own each of the two, 42 % of the people of COMPAS leave jail before they enter it.
So the later one is drafted as a distance from the one before it, on ranks, where copies keep the
order. Dates are compared with dates; numbers only if their names differ by a pair of words.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Floats
from cornerwave.columns import Relative, chain, plain_type, to_floats, unit_of
from cornerwave.errors import ColumnError
from cornerwave.inspection._columns import ColumnReport
from cornerwave.inspection._scales import RANK, DraftedScale, can_be_ranked

ORDERED, NAMED = 0.995, 0.95
"""In so many of the rows that have both, the one is not before the other; of a pair by its names in
fewer, since dates have errors: 3 % of COMPAS leave jail up to a day before they enter it."""
HELD = 0.999
"""So many of the rows that have a value have one to be relative to: without it a value is lost."""
PAIRS = {
    *(("in", "out"), ("start", "end"), ("start", "stop"), ("begin", "end"), ("entry", "exit")),
    *(("min", "max"), ("low", "high"), ("lower", "upper"), ("from", "to"), ("first", "last")),
    *(("minimum", "maximum"), ("opened", "closed"), ("admission", "discharge")),
}
"""Words by which the names of two numbers of one kind differ, the lower one first."""


@dataclass(frozen=True)
class _Later:
    """A column that lies above another one: in which share of the rows, and by how much.

    Or below it, if it `is_earlier`.
    """

    base: str
    share: float
    distance: float
    named: bool
    is_earlier: bool


def with_distances_drafted(
    columns: Sequence[ColumnReport], rows: pa.Table
) -> tuple[ColumnReport, ...]:
    """Return columns of which some are relative to others, by the sampled rows."""
    known = {each.name: each for each in columns if _may_pair(each, rows)}
    values = {name: to_floats(rows.column(name).combine_chunks(), name) for name in known}
    relative: dict[str, str] = {}
    drafted = dict[str, ColumnReport]()
    for name, report in known.items():
        later = _bases(report, known, values, rows.schema)
        # the one that its name goes with, or else the nearest
        for each in sorted(later, key=lambda each: (not each.named, each.distance)):
            if _is_open({**relative, name: each.base}, name):
                relative[name] = each.base
                drafted[name] = _relative(report, known[each.base], each)
                break
    return tuple(drafted.get(each.name, each) for each in columns)


def _may_pair(report: ColumnReport, rows: pa.Table) -> bool:
    if report.do != "perturb" or report.name not in rows.column_names:
        return False
    try:
        to_floats(rows.column(report.name).combine_chunks(), report.name)
    except ColumnError:  # registration refuses it
        return False
    return True


def _is_open(relative: Relative, name: str) -> bool:
    try:
        return bool(list(chain(name, relative)))
    except ColumnError:  # it leads back to the column
        return False


def _bases(
    report: ColumnReport,
    known: Mapping[str, ColumnReport],
    values: Mapping[str, Floats],
    types: pa.Schema,
) -> Iterator[_Later]:
    """Yield the columns that one lies above in nearly all rows."""
    name, x = report.name, values[report.name]
    for other, base in known.items():
        alike = plain_type(types.field(name).type) == plain_type(types.field(other).type)
        digits = _digits(report) == _digits(base)
        named = _named_as_pair(other, name)
        dated = unit_of(plain_type(types.field(name).type)) is not None
        if other == name or not alike or not digits or not (named or dated):
            continue
        distance = x - values[other]
        distance = distance[~np.isnan(distance)]
        held = len(distance) / HELD
        if held < max(int(np.count_nonzero(~np.isnan(x))), 1):
            continue
        # an earlier one is relative to a later one only if that could not be to it
        is_earlier = bool(held < np.count_nonzero(~np.isnan(values[other])) and distance.mean() < 0)
        named = named or (is_earlier and _named_as_pair(name, other))
        away = -distance if is_earlier else distance
        share = float(np.mean(away >= 0))
        ranked = can_be_ranked(pa.chunked_array([distance]), name)
        if share >= (NAMED if named else ORDERED) and away.mean() > 0 and ranked:
            yield _Later(other, share, float(np.median(away)), named, is_earlier)


def _digits(report: ColumnReport) -> tuple[int | None, bool, bool]:
    """Return how finely a column is drafted to be rounded."""
    scale = report.scale
    return (report.decimals, *((scale.whole, scale.seconds) if scale else (False, False)))


def _named_as_pair(base: str, name: str) -> bool:
    """Whether the names of two columns differ by a pair of words."""
    one, other = _words(base), _words(name)
    if len(one) != len(other):
        return False
    differ = [pair for pair in zip(one, other, strict=True) if pair[0] != pair[1]]
    return len(differ) == 1 and differ[0] in PAIRS


def _words(name: str) -> list[str]:
    """Return the words of a name in order: of c_jail_in and cJailIn c, jail, in."""
    return re.findall(r"[^\W\d_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())


def _relative(report: ColumnReport, base: ColumnReport, later: _Later) -> ColumnReport:
    """Return a column drafted as relative to another."""
    share = "all" if later.share == 1 else f"{later.share:.2%} of the"
    where = "above" if later.is_earlier else "below"
    why = f"not {where} {base.name} in {share} rows looked at: copies keep that"
    scale = report.scale or DraftedScale(RANK, "")
    reason = "its distance on ranks: one that never changes its sign stays so"
    return replace(
        report,
        relative_to=(base.name, why),
        scale=replace(scale, transform=RANK, reason=reason),
        from_zero=False,
    )
