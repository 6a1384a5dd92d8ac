"""Known rows reveal their noise, and their noise the generator that made it.

The scheme that falls draws uniform doubles u = (a 2^26 + b) / 2^53 from MT19937, two
outputs each, row by row, and adds  sqrt(v) L z  with z = Phi^-1(u), K = L L'. Whoever
knows some true rows has  z = L^-1 (y - x) / sqrt(v),  thus u to 45 bits or so: all 27
bits of `a` and many of `b`. Enough of these give the state (`twister`), the state
all the noise, and the noise all the rows.

Against noise from a keyed cryptographic function the same bits contradict each
other: no state is found and nothing is stripped.
"""

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cornerwave.arrays import Floats, Ints
from cornerwave.attack.twister import equations, seeded, solve
from cornerwave.moments import factor

FIRST_BITS, DOUBLE_BITS = 27, 53
"""Bits of a double that its first output makes, and that both make."""

ENOUGH = 60_000
"""Equations that determine 19937 bits of state, though many follow from others."""

_NORMAL = NormalDist()


@dataclass(frozen=True)
class Stripped:
    """What the attack came to: the table (T, N) without its noise, or None."""

    estimate: Floats | None

    @property
    def found(self) -> bool:
        """Whether a state was found that explains every leaked row."""
        return self.estimate is not None


def strip(copy: Any, *, noise: float, covariance: Any, leaked: Any, truth: Any) -> Stripped:
    """Recover the state behind a copy's noise from leaked rows, and take the noise off.

    copy: (T, N); noise: v; covariance: K (N, N); leaked: (n,) ascending positions;
    truth: (n, N). Rows in one stretch suffice from about 700 / N on, scattered ones from
    about 1200 / N; more where a column is small beside its mean, which hides bits. A
    state counts as found only if it is the only one that fits and it predicts the noise
    of every leaked row.
    """
    copy, truth = np.asarray(copy, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    lower = np.sqrt(noise) * factor(np.atleast_2d(covariance)).lower
    leaked = np.asarray(leaked, dtype=np.int64)
    uniform, slack = _uniforms(copy[leaked], truth, lower)
    places = leaked[:, None] * copy.shape[1] + np.arange(copy.shape[1])
    state = _state(places.ravel(), uniform.ravel(), slack.ravel())
    if state is None:
        return Stripped(None)
    predicted = seeded(state).random(copy.shape)
    if not np.allclose(predicted[leaked], uniform, rtol=0, atol=1e-6):
        return Stripped(None)
    return Stripped(copy - normals(predicted) @ lower.T)


def normals(uniform: Floats) -> Floats:
    """Return the normal quantile of each double in [0, 1), shape for shape.

    >>> normals(np.array([0.5])).round(12).tolist()
    [0.0]
    """
    middles = np.clip(uniform + 2.0**-54, 2.0**-54, 1 - 2.0**-53)
    return np.reshape([_NORMAL.inv_cdf(u) for u in middles.ravel()], uniform.shape)


def _uniforms(rows: Floats, truth: Floats, lower: Floats) -> tuple[Floats, Floats]:
    """Return the uniforms behind known rows, and how far rounding may have moved each."""
    # Columns in units of their noise, or the inverse of a large one drowns a small one.
    size = np.sqrt((lower**2).sum(axis=1))
    scale = np.where(size > 0, size, 1.0)
    inverse = np.linalg.pinv(lower / scale[:, None]) / scale
    white = (rows - truth) @ inverse.T
    slack = (np.abs(rows) + np.abs(truth)) @ np.abs(inverse).T * 2.0**-52 + 2.0**-50
    return np.reshape([_NORMAL.cdf(z) for z in white.ravel()], white.shape), slack


def _state(places: Any, uniform: Floats, slack: Floats) -> NDArray[np.uint32] | None:
    low, high = (_bits_of(uniform + side) for side in (-slack, slack))
    agreed = DOUBLE_BITS - np.frexp(low ^ high)[1].astype(np.int64)
    used = np.searchsorted(np.cumsum(agreed), ENOUGH) + 1
    known = (low[:used, None] >> np.arange(DOUBLE_BITS - 1, -1, -1)) & 1
    outputs = 2 * places[:used, None] + np.arange(2)
    first = np.minimum(agreed[:used], FIRST_BITS)
    rows = equations(
        outputs.ravel(), top_bits=np.column_stack([first, agreed[:used] - first]).ravel()
    )
    return solve(rows, known[np.arange(DOUBLE_BITS) < agreed[:used, None]])


def _bits_of(uniform: Floats) -> Ints:
    whole = np.floor(np.clip(uniform, 0.0, 1 - 2.0**-DOUBLE_BITS) * 2.0**DOUBLE_BITS)
    return whole.astype(np.int64)
