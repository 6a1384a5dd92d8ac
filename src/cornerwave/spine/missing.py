"""Numbers that are missing in secret: a keyed draw stands in their place before the noise.

A draw must look like a value of that row. So it comes from the normal distribution of the column
given the row's other numbers, by the frozen mean and K of complete rows, and is then brought to the
column's own distribution by its frozen quantiles Q, as far as the others leave it open:

    t = mu_h + K_ho K_oo^-1 (x_o - mu_o) + c_h z
    x = t + min(1, 4 (c_h / s_h)^2) (Q((t - mu_h) / s_h) - t)

A column that follows from the others, c = 0, follows from them in a draw too. Quantiles
are averages of equal shares of the rows. The arithmetic is strict: the same bits on every
machine.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cornerwave import _core
from cornerwave.arrays import Flags, Floats, Ids, Ints
from cornerwave.columns import Knots, Schema, interpolate
from cornerwave.noise import WhiteStreams
from cornerwave.spine.survey import Survey, Surveyor, quantiles_of

FREE = 0.25
"""A draw has its column's distribution where the others leave this share of it open: the 4 of
min(1, 4 (c_h / s_h)^2)."""

VANISHING = 2.0**-48
"""A column whose variance given the others is below this share of its own adds nothing."""


ROWS_PER_WEIGHT = 10
"""Complete rows for each number, at least, to go by their covariance: the rule of thumb of ten
rows a coefficient."""


@dataclass(frozen=True)
class Draws:
    """The distribution of draws that replace numbers whose absence is hidden.

    Mean and covariance are those of the complete rows, so that a column which follows from
    others does so here; `quantiles` are those of the columns that hide missing values.
    """

    mean: Floats
    covariance: Floats
    quantiles: Mapping[str, Knots]

    @classmethod
    def of(cls, surveyor: Surveyor, survey: Survey) -> "Draws | None":
        """Return the distribution for a table; None if nothing is hidden."""
        if not surveyor.sampled:
            return None
        found = survey.whole if has_many_complete_rows(survey) else survey.moments
        return cls(found.mean, found.covariance, quantiles_of(surveyor, survey))


def has_many_complete_rows(survey: Survey) -> bool:
    """Return whether the rows that miss no number are enough to go by their covariance."""
    return survey.whole.rows >= ROWS_PER_WEIGHT * (1 + len(survey.moments.top))


def fill_missing(x: Floats, ids: Ids, schema: Schema, draws: Draws | None, secret: bytes) -> Floats:
    """Return columns x (N, rows) with draws for the values that are missing in secret."""
    if draws is None:  # no column hides its missing values
        return x
    x, columns = np.ascontiguousarray(x), [schema.column(name) for name in schema.perturbed]
    wanted = np.zeros(x.shape, dtype=bool)
    for row, column, values in zip(wanted, columns, x, strict=True):
        if column.hide_missing:
            np.isnan(values, out=row)
    if not wanted.any():
        return x
    # one white number a cell, keyed by the row: the same draw in every copy
    streams = WhiteStreams(secret, [0.0], columns=len(x), rows=len(ids))
    streams.place(ids)
    z = streams.normals(0.0)
    deviation = np.sqrt(np.diag(draws.covariance))
    out = x.copy()
    for rows in _patterns(x, wanted):
        spread = _fill(out, x, z, rows, wanted[:, rows[0]], draws.mean, draws.covariance)
        for place, own in zip(np.flatnonzero(wanted[:, rows[0]]), spread, strict=True):
            if knots := draws.quantiles.get(columns[place].name):
                drawn, size = out[place, rows], max(deviation[place], 1e-300)
                # (c_h / s_h)^2, added up in one order on every machine
                open_ = sum(part * part for part in own.tolist()) / (size * size)
                matched = interpolate((drawn - draws.mean[place]) / size, knots)
                # x = t + min(1, 4 (c/s)^2) (Q((t - mu)/s) - t)
                out[place, rows] = drawn + min(1.0, open_ / FREE) * (matched - drawn)
    return out


def _patterns(x: Floats, wanted: Flags) -> list[Ints]:
    """Return the rows that want a draw, those together that miss the same columns."""
    rows = np.flatnonzero(wanted.any(axis=0))
    _, which = np.unique(np.isnan(x[:, rows]), axis=1, return_inverse=True)
    which = which.reshape(-1)
    return [rows[which == pattern] for pattern in range(int(which.max()) + 1)]


def _fill(
    out: Floats,
    x: Floats,
    z: Floats,
    rows: Ints,
    wanted: Flags,
    mean: Floats,
    covariance: Floats,
) -> Floats:
    """Draw in some rows that miss the same columns; return the spread of what was drawn."""
    seen = np.flatnonzero(~np.isnan(x[:, rows[0]]))
    missing = np.flatnonzero(wanted)
    weights, spread = conditional(covariance, seen, missing)
    _core.draw_missing(out, x, z, rows, seen, missing, mean, weights, spread)
    return spread


def conditional(covariance: Floats, seen: Ints, wanted: Ints) -> tuple[Floats, Floats]:
    """Return the weights of the seen columns on the wanted ones, and what spread is left.

    The spread is lower triangular: its product with white noise has the conditional covariance.
    """
    weights = np.zeros((len(wanted), len(seen)))
    spread = np.zeros((len(wanted), len(wanted)))
    matrix = np.ascontiguousarray(covariance)
    _core.sweep_seen(matrix, seen, wanted, VANISHING, weights, spread)
    return weights, spread
