"""Rows that resemble others far away in the file: people stacked in waves, or there and back.

For values y in the order of the file, standard, the sums

    a(L) = sum over i of y_i y_(i+L) / sqrt(n - L)
    c(s) = sum over i < s - i of y_i y_(s-i) / sqrt(pairs)

are normal with variance 1 if rows are independent; two Fourier transforms give them all. A
distance counts if its sum stands out from the two beside it. All of it is seen in the copy alone.
"""

import numpy as np

from cornerwave.arrays import Floats, Ints

STANDS_OUT = 7.5
"""Less the mean of two others, a sum has variance 1.5 by chance: this is 6.1 deviations."""

FEWEST_PAIRS, FAR, MOST_LAGS, MOST_ROWS = 50, 4.0, 3, 64
"""Pairs of rows at least, values further out are drawn in, and distances and columns at most."""


def rows_alike(shown: Floats) -> dict[str, Ints]:
    """Return codes (n,) of rows that belong together by their places, by name.

    `shown` (d, n) is what a copy shows with noise, standard, in the order of the file.
    """
    n = shown.shape[1]
    if not len(shown) or n < 4 * FEWEST_PAIRS:
        return {}
    ahead, back = (part.max(axis=0) for part in _sums(np.clip(shown[:MOST_ROWS], -FAR, FAR)))
    place, found = np.arange(n), {}
    for lag in _peaks(ahead):
        found[f"rows {lag:,} apart"] = place % lag
    for total in _peaks(back, multiples=True):
        other = total - place
        inside = (other >= 0) & (other < n)
        code = np.where(inside, np.minimum(place, other), place)
        found[f"rows mirrored around row {total / 2 + 1:,.1f}"] = code
    return found


def _sums(rows: Floats) -> tuple[Floats, Floats]:
    """Return how far a(L) and c(s) stand out from those beside them, (d, lags) each."""
    from scipy.fft import irfft, next_fast_len, rfft

    n = rows.shape[1]
    size = next_fast_len(2 * n, real=True)
    spectrum = rfft(rows, size)
    apart = np.maximum(n - np.arange(n), 1)
    ahead = irfft(np.abs(spectrum) ** 2, size)[:, :n] / np.sqrt(apart)
    total = np.arange(2 * n - 1)
    pairs = (np.minimum(total, 2 * n - 2 - total) + 1) // 2
    double = irfft(spectrum**2, size)[:, : 2 * n - 1]
    double[:, ::2] -= rows**2  # a row with itself
    back = double / 2 / np.sqrt(np.maximum(pairs, 1))
    return _out(ahead, apart, first=2), _out(back, pairs, first=1)


def _out(sums: Floats, pairs: Ints, first: int) -> Floats:
    out = np.zeros_like(sums)
    out[:, 1:-1] = sums[:, 1:-1] - (sums[:, :-2] + sums[:, 2:]) / 2
    out[:, :first] = 0.0
    out[:, pairs < FEWEST_PAIRS] = 0.0
    return out


def _peaks(out: Floats, *, multiples: bool = False) -> list[int]:
    """Return the places that stand out most; of distances, no multiple of another."""
    found: list[int] = []
    for k in np.argsort(-out, kind="stable")[: 8 * MOST_LAGS].tolist():
        fresh = multiples or not any(k % own == 0 for own in found)
        if out[k] > STANDS_OUT and fresh and len(found) < MOST_LAGS:
            found.append(k)
    return found
