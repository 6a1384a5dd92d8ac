"""Records that noise of the population's size does not hide.

A copy's column has standard deviation s sqrt(1 + v). Of T Gaussian rows fewer than one
lies further out than z_T of these, P(|N(0,1)| > z_T) = 1/T. A record whose own value
does stands alone in the copy: whoever knows that it is extreme will find it there.
Only counts leave this module.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from cornerwave.arrays import Floats, Ints
from cornerwave.audit.chance import z_limit


@dataclass(frozen=True)
class Exposed:
    """How many rows stand alone: per copy and column (M, N), and per copy in any column."""

    columns: Ints
    rows: Ints


def count_exposed(
    blocks: Iterable[Floats], *, rows: int, mean: Floats, variance: Floats, noise: Sequence[float]
) -> Exposed:
    """Count the rows of X, given as blocks (N, n), that stand alone at each noise.

    >>> X = np.append(np.zeros(999), 40.0)[None]
    >>> found = count_exposed([X], rows=1000, mean=[0.04], variance=[1.6], noise=[1.0, 400.0])
    >>> found.columns.tolist(), found.rows.tolist()
    ([[1], [0]], [1, 0])
    """
    centre, unit = np.asarray(mean), np.sqrt(np.asarray(variance))
    scale = np.where(unit > 0, unit, np.inf)
    limits = z_limit(1 / max(rows, 2)) * np.sqrt(1 + np.asarray(noise, dtype=np.float64))
    columns = np.zeros((len(limits), len(centre)), dtype=np.int64)
    anywhere = np.zeros(len(limits), dtype=np.int64)
    for X in blocks:
        away = np.abs(X - centre[:, None])
        far = (away > limits.min(initial=np.inf) * scale[:, None]).any(axis=0)
        out = away[:, far] / scale[:, None] > limits[:, None, None]
        columns += out.sum(axis=2)
        anywhere += out.any(axis=1).sum(axis=1)
    return Exposed(columns, anywhere)
