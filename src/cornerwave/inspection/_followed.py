"""Columns that another one decides: bands of a number, labels of codes, the group of a category.

With noise of their own 62 % of the people under 25 of COMPAS are not labelled 'Less than 25'. So a
column of few values is drafted to be recomputed in copies (columns/_follows.py) from the one that
decides it in all sampled rows:

    number      each of its values has an interval of the number, two at least
    category    rows with one value agree, ten of them on average

One that decides others decides what these decide, so each follows one that follows nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.arrays import Floats, Ints
from cornerwave.choices import parts_of
from cornerwave.columns import LEAST_ROWS, to_floats
from cornerwave.errors import ColumnError
from cornerwave.inspection._columns import ColumnReport

MOST_VALUES = 50
"""Values of a column that may follow."""
LEAST_VARIED = 5
"""So many rows do not hold its most frequent value: of fewer any number decides it by chance."""
ROWS_OF_A_VALUE = 10
"""Rows of each value of a category on average: of fewer it may decide anything by chance."""

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _CodedRows:
    """Columns of the sampled rows as codes, a missing cell as one more value; numbers too."""

    codes: Mapping[str, Codes]
    numbers: Mapping[str, Floats]

    @classmethod
    def of(cls, columns: Sequence[ColumnReport], rows: pa.Table) -> "_CodedRows":
        codes, numbers = {}, {}
        for each in columns:
            cells = rows.column(each.name).combine_chunks()
            if each.do == "perturb":
                try:
                    numbers[each.name] = to_floats(cells, each.name)
                except ColumnError:  # registration refuses it
                    continue
            codes[each.name] = _coded(cells)
        return cls(codes, numbers)

    def may_follow(self, name: str) -> bool:
        """Whether a column has few values, and not nearly all the same one."""
        held = np.bincount(self.codes[name])
        return 1 < len(held) <= MOST_VALUES and len(self.codes[name]) - held.max() >= LEAST_VARIED


def with_followers_drafted(
    columns: Sequence[ColumnReport], rows: pa.Table, time: str | None = None
) -> tuple[ColumnReport, ...]:
    """Return columns of which some follow others, by the sampled rows; the `time` never does."""
    bases = {each.relative_to[0] for each in columns if each.relative_to} | {time}
    bases |= {part for each in columns if each.sum_of for part in parts_of(each.sum_of[0])}
    known = [
        each
        for each in columns
        if each.do in ("perturb", "category") and each.name in rows.column_names
        if not each.relative_to
    ]
    if rows.num_rows < LEAST_ROWS:
        return tuple(columns)
    sampled = _CodedRows.of(known, rows)
    # the finest first; of equally fine ones numbers, then as they come
    places = {name: int(codes.max(initial=0)) for name, codes in sampled.codes.items()}
    order = sorted(places, key=lambda name: (-places[name], name not in sampled.numbers))
    following: dict[str, str] = {}
    for source in order:
        if source in following:
            continue
        later = order[order.index(source) + 1 :]
        others = [n for n in later if n not in following and n not in bases]
        others = [n for n in others if sampled.may_follow(n)]
        found = _decided_by_number if source in sampled.numbers else _decided_by_category
        following.update(dict.fromkeys(found(sampled, source, others), source))
    return tuple(
        _following(each, following[each.name], sampled) if each.name in following else each
        for each in columns
    )


def _following(report: ColumnReport, source: str, sampled: _CodedRows) -> ColumnReport:
    each = "an interval" if source in sampled.numbers else "a value, or some,"
    why = f"each of its values has {each} of {source} in all rows looked at"
    return replace(report, do="derive", follows=(source, why), present_if=None, from_zero=False)


def _coded(cells: pa.Array) -> Codes:
    if pa.types.is_floating(cells.type):
        cells = pc.if_else(pc.is_nan(cells), None, cells)
    if not pa.types.is_dictionary(cells.type):
        cells = pc.dictionary_encode(cells, null_encoding="encode")
    codes = cells.indices.fill_null(len(cells.dictionary)).to_numpy().astype(np.int64)
    return np.asarray(np.unique(codes, return_inverse=True)[1])


def _decided_by_number(sampled: _CodedRows, source: str, others: Sequence[str]) -> list[str]:
    """Return the columns each of whose values has an interval of a number."""
    x = sampled.numbers[source]
    present = np.flatnonzero(~np.isnan(x))
    order = present[np.argsort(x[present], kind="stable")]
    rises = np.diff(x[order]) > 0
    found = []
    for name in others:
        codes = sampled.codes[name][order]
        changes = np.diff(codes) != 0
        values = len(np.unique(codes))
        # as many runs as values, none of which changes within a number
        is_decided = values > 1 and changes.sum() == values - 1 and bool(rises[changes].all())
        if is_decided and _has_one_value(sampled.codes[name][np.isnan(x)]):
            found.append(name)
    return found


def _decided_by_category(sampled: _CodedRows, source: str, others: Sequence[str]) -> list[str]:
    """Return the columns that have one value beside each value of a category."""
    codes = sampled.codes[source]
    if not len(others) or len(codes) < ROWS_OF_A_VALUE * (int(codes.max()) + 1):
        return []
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    beside = np.array([sampled.codes[name] for name in others])[:, order]
    same = np.maximum.reduceat(beside, starts, axis=1) == np.minimum.reduceat(
        beside, starts, axis=1
    )
    return [name for name, agrees in zip(others, same.all(axis=1), strict=True) if agrees]


def _has_one_value(codes: Ints) -> bool:
    return not len(codes) or bool((codes == codes[0]).all())
