"""Numbers that are missing just beside some values of a category: not applicable, not unknown."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.columns import LEAST_HELD
from cornerwave.inspection._columns import ColumnReport

EXPLAINED = 0.999
"""A category explains the gaps of a number if it does in so many of the rows."""
SELDOM = 0.01
"""Of gaps in fewer rows a category would explain as many by chance, or none."""
MOST_VALUES = 50
"""A category of more values explains gaps as a name does."""
NEARLY_EMPTY = 0.8
"""A number that is missing in so many rows would be invented in most of them."""


def with_presence_drafted(
    columns: Sequence[ColumnReport], rows: pa.Table
) -> tuple[ColumnReport, ...]:
    """Return columns of which some are present if a category lets them, by the sampled rows."""
    known = [c for c in columns if c.do == "category" and c.distinct <= MOST_VALUES]
    known = [c for c in known if c.name in rows.column_names]
    drafted = {each.name: _drafted(each, known, rows) for each in columns}
    # whose base hides its gaps has to hide them too
    return tuple(
        replace(each, relative_to=None)
        if each.relative_to and drafted[each.relative_to[0]].present_if and not each.present_if
        else each
        for each in drafted.values()
    )


def _drafted(report: ColumnReport, known: Sequence[ColumnReport], rows: pa.Table) -> ColumnReport:
    if report.do != "perturb" or report.missing < SELDOM or report.name not in rows.column_names:
        return report
    missing = _missing(rows.column(report.name))
    # the fewest values that explain it, then the best
    found = sorted(
        (each.distinct, unlike, each.name)
        for each in known
        for unlike in _unlike(rows.column(each.name), missing)
    )
    if not found:
        return report
    _, unlike, name = found[0]
    share = "all" if unlike == 0 else f"{1 - unlike:.2%} of the"
    why = f"{name} explains the gaps in {share} rows looked at: 'not applicable', not 'unknown'"
    return replace(report, present_if=(name, why))


def _missing(cells: pa.ChunkedArray) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    gone = pc.is_null(cells.combine_chunks(), nan_is_null=True)
    return np.asarray(gone.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _unlike(
    category: pa.ChunkedArray, missing: "np.ndarray[tuple[int], np.dtype[np.bool_]]"
) -> Iterator[float]:
    """Yield which share of the rows a category does not explain, if it explains the gaps."""
    encoded = pc.dictionary_encode(category.combine_chunks(), null_encoding="encode")
    codes = encoded.indices.to_numpy().astype(np.int64)
    held = np.bincount(codes)
    gaps = np.bincount(codes, weights=missing, minlength=len(held))
    unlike = float(np.minimum(gaps, held - gaps).sum() / max(len(codes), 1))
    absent = (gaps > held - gaps) & (held >= LEAST_HELD)
    if unlike <= 1 - EXPLAINED and absent.any() and not absent.all():
        yield unlike


def without_invented(
    columns: Sequence[ColumnReport], hidden: Sequence[str]
) -> tuple[ColumnReport, ...]:
    """Return columns without those that are nearly empty, and whose gaps would be hidden.

    Most of the cells of a number would be draws, and a category would show when it has a value.
    """
    return tuple(
        replace(
            each,
            do="drop",
            warnings=(
                f"{each.missing:.0%} of it is missing, and its gaps would have to be hidden: most "
                "of what copies show would be invented",
                *each.warnings,
            ),
        )
        if each.name in hidden
        and each.do in ("perturb", "category")
        and each.present_if is None
        and each.missing >= NEARLY_EMPTY
        else each
        for each in columns
    )
