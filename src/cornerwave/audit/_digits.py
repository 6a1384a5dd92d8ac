"""Do the low digits of a copy tell about the source?

Far below the noise the digits of Y = X + W are those of the noise: for a scale g that is
small beside it, the remainder of Y / g is uniform and unrelated to X, whatever X is. Rows
are sorted by that remainder, for each scale, and neighbours must be no closer in X than
by chance. Scales are powers of ten, as digits are written, and of two, as bits are.

Copies lie on grids of their own, and a scale that does not fit the grid would show where
on the grid a value lies, and so the value. So scales are multiples of the grid, or so much
coarser that it does not matter.
"""

from collections.abc import Iterator

import numpy as np

from cornerwave.arrays import Floats, Ints
from cornerwave.audit._chance import Check, z_limit
from cornerwave.audit._evidence import NumberEvidence
from cornerwave.audit._ranks import Ranks

CELLS = 256
"""The remainder is known to so many equal parts."""

SMALL = 0.25
"""The coarsest scale, in standard deviations of the noise."""

COARSER = 4096.0
"""A scale so many times the grid need not be a multiple of it."""

LAST_BITS = 2.0**-38
"""The finest scale, as a share of the largest value: what is below may be rounding."""

FINEST_DECIMAL, EXACT = 15, 1e-4
BITS_APART = 4
FEWEST = 100
"""A column that fewer of the kept rows have is not looked at."""

CROSSED = 6
"""Up to this many columns the digits of each are compared with every column of X."""


def digits(evidence: NumberEvidence, alpha: float) -> Iterator[Check]:
    """Compare the low digits of every column of every copy with X."""
    columns, found = range(evidence.found.columns), evidence.found
    crossed = found.columns <= CROSSED
    seen = [[(n, list(_scales(evidence, i, n))) for n in columns] for i in range(found.copies)]
    scales = sum(len(own) for copy in seen for _, own in copy)
    limit = z_limit(alpha / max(scales * (found.columns if crossed else 1), 1))
    for i, copy in enumerate(seen):
        worst = (0.0, 0)
        for n, own in ((n, own) for n, own in copy if own):
            shown, present = _shown(evidence, i, n)
            against = evidence.rows.source[:, present][columns if crossed else [n]]
            truth = [Ranks.of(row) for row in against]
            for scale in own:
                order = Ranks.of(_remainder(shown, scale), again=True)
                worst = max(worst, *((order.neighbours(ranks), n) for ranks in truth))
        note = f"the low digits of {evidence.columns[worst[1]]} depend on the source"
        yield Check.of((i,), worst[0], limit, note)


def _remainder(values: Floats, scale: float) -> Floats:
    """Return the remainder by a scale, in cells; those of the scale's multiples in the first."""
    turns = values / scale + 0.5 / CELLS
    return np.floor((turns - np.floor(turns)) * CELLS).astype(np.uint8)


def _shown(evidence: NumberEvidence, i: int, n: int) -> tuple[Floats, Ints]:
    """Return what a copy shows of a column, and in which of the kept rows."""
    raw = evidence.rows.raw
    present = np.flatnonzero(np.isfinite(raw[0, n]) & np.isfinite(raw[1 + i, n]))
    return raw[1 + i, n, present], present


def _scales(evidence: NumberEvidence, i: int, n: int) -> Iterator[float]:
    """Yield the scales that suit a column of a copy."""
    found, (values, _) = evidence.found, _shown(evidence, i, n)
    own = found.covariance[(1 + i) * found.columns + n, (1 + i) * found.columns + n]
    most = SMALL * float(np.sqrt(max(own - found.steps[i, n] ** 2 / 12, 0.0)))
    if evidence.logarithmic[n]:  # noise is smallest where values are
        most *= float(np.min(1 + values, initial=np.inf)) / 4
    if most > 0 and len(values) >= FEWEST:
        yield from scales_of(values, most)


def scales_of(values: Floats, most: float) -> list[float]:
    """Return the scales up to `most` at which the remainders of honest values are uniform.

    >>> values = np.random.default_rng(1).normal(size=1000)
    >>> [g for g in scales_of(values.round(3), 0.5) if g < 0.1]
    [0.01]
    """
    largest = float(np.abs(values).max(initial=0.0))
    least = max(largest * LAST_BITS, most * 1e-12, 1e-300)
    binary, decimal = _binary_grid(values), _decimal_grid(values, most, largest)
    tens = range(int(np.floor(np.log10(most))), int(np.floor(np.log10(least))), -1)
    twos = range(int(np.floor(np.log2(most))), int(np.floor(np.log2(least))), -BITS_APART)
    written = [float(f"1e{power}") for power in tens]
    bits = [2.0**power for power in twos]
    if decimal:
        written = [scale for scale in written if scale > 1.5 * decimal]
        bits = [scale for scale in bits if scale >= COARSER * decimal]
    else:
        written = [scale for scale in written if scale >= COARSER * binary]
        bits = [scale for scale in bits if scale > 1.5 * binary]
    return [*written, *bits]


def _binary_grid(values: Floats) -> float:
    """Return the largest power of two that all values are multiples of; 0 for zeros.

    If large values lie on a coarser grid than small ones, as in single precision, return
    what is coarse enough for both.
    """
    held = values[values != 0]
    if not len(held):
        return 0.0
    lowest = _lowest_bits(held)
    size = np.abs(held)
    coarser = float(lowest[size >= np.median(size)].min())
    return coarser * CELLS if coarser > lowest.min() else coarser


def _lowest_bits(values: Floats) -> Floats:
    """Return the value of the lowest bit that is set in each value."""
    mantissa, exponent = np.frexp(values)
    whole = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
    lowest = (whole & -whole).astype(np.float64)
    return np.asarray(np.ldexp(lowest, exponent - 53))


def _decimal_grid(values: Floats, most: float, largest: float) -> float:
    """Return the largest power of ten up to `most` that all values are multiples of, or 0."""
    top = int(np.floor(np.log10(most))) + 1
    for power in range(top, top - FINEST_DECIMAL, -1):
        step = float(f"1e{power}")
        if step < largest * LAST_BITS:
            break
        turns = values / step
        if (np.abs(turns - np.rint(turns)) < EXACT).all():
            return step
    return 0.0
