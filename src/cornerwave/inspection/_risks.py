"""What to know about a table as a whole before it is registered, each with a number.

    few rows        leverage (N + 1) / T: the share of a row in what the noise is shaped by
    far out         records that copies at privacy 0.5 do not hide
    combinations    up to three columns that together single out rows
    gaps            E(prediction | missing) - E(prediction | present), in deviations, where the
                    prediction is the column's regression on the other numbers

All but the first are measured on the sampled rows.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.arrays import Flags, Floats, Ints
from cornerwave.errors import ColumnError
from cornerwave.frozen import Frozen
from cornerwave.outlook import see
from cornerwave.table import LEAST_ROWS, SAFE_ROWS, listed, open_source, to_floats

LEVERAGE = 0.05
"""A row that is more than this share of what the noise is shaped by is worth a warning."""
MOST_TOGETHER, MOST_LOOKED_AT, MOST_VALUES = 3, 40, 1000
"""So many columns single rows out together; so many, of no more values than this, are tried."""
GAP_CELLS = 1 << 19
"""Gaps are judged by fewer rows if the table is wide."""
ROWS_TO_JUDGE = 30
"""Gaps, and values beside them, are judged if there are at least so many."""
SHIFT, CHANCE = 0.2, 4.0
"""Gaps that shift a column by more than this, and by more than CHANCE standard errors, tell."""
HALF = 500
LARGEST = 1e140
"""Larger values cannot be squared."""


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
    share = (numbers + 1) / max(rows, 1)
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
    far = int(see(frozen, open_source(rows), [level.noise]).exposed.rows[0])
    if far:
        lie = "lies" if far == 1 else "lie"
        yield (
            f"far out: {far:,} of {rows.num_rows:,} records looked at {lie} so far "
            "from the others, in a column or in combination, that a copy at privacy 0.5 does not "
            "hide them; see transform, or drop them"
        )


def _singled_out(rows: pa.Table, proposed: Mapping[str, str]) -> Iterator[str]:
    """Yield which few columns single out most rows: the best one, then the best beside it."""
    found = sorted(_codes(rows, proposed), key=lambda each: -int(each[1].max()))
    left = dict(found[:MOST_LOOKED_AT])
    chosen: list[str] = []
    together, alone = np.zeros(rows.num_rows, dtype=np.int64), 0
    while left and len(chosen) < MOST_TOGETHER:
        scores = {name: _alone(_joined(together, codes)) for name, codes in left.items()}
        best = max(scores, key=lambda name: scores[name])
        if 0 < scores[best][0] <= alone:
            break
        alone, together = scores[best][0], _joined(together, left.pop(best))
        chosen.append(best)
    if alone and len(chosen) > 1:
        share = alone / rows.num_rows
        part = f"{share:.0%}" if share >= 0.01 else "below 1%"
        yield (
            f"combinations: {listed(chosen)} together single out {alone:,} of "
            f"{rows.num_rows:,} rows looked at ({part}): somebody who knows them about a "
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
    every = max(1, rows.num_rows * len(names) // GAP_CELLS)
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
                f"{'higher' if shift > 0 else 'lower'} than elsewhere, so a gap tells; see "
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
    beside = np.stack([np.ones(len(values)), *map(_whole, others)], axis=1)
    known, target = beside[~missing], values[~missing] / deviation
    weights = np.linalg.lstsq(known.T @ known, known.T @ target, rcond=None)[0]
    predicted = beside @ weights
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
