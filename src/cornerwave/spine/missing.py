"""Numbers that are missing in secret: a keyed draw replaces them before the noise.

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
from cornerwave.spine.person_sample import person_noise
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
    others does so here; `quantiles` are those of the columns that hide missing values. With a unit
    the covariance is that `between` persons and `within` them, and some columns are `constant` in
    each person: see person_gaps.py.
    """

    mean: Floats
    covariance: Floats
    quantiles: Mapping[str, Knots]
    between: Floats | None = None
    within: Floats | None = None
    constant: tuple[int, ...] = ()

    @classmethod
    def of(cls, surveyor: Surveyor, survey: Survey) -> "Draws | None":
        """Return the distribution for a table; None if nothing is hidden."""
        if not surveyor.sampled:
            return None
        is_complete = has_many_complete_rows(survey)
        moments = survey.whole if is_complete else survey.moments
        quantiles, sample = quantiles_of(surveyor, survey), survey.persons
        if sample is None:
            return cls(moments.mean, moments.covariance, quantiles)
        names, known = surveyor.schema.perturbed, survey.constants
        looked = known.columns if known else ()
        varying = known.varying if known else frozenset[str]()
        if is_complete:
            sample = sample.without_gaps(len(names))
        places = [names.index(name) for name in varying]
        noise = person_noise(sample, len(names), moments.covariance, places)
        between, within = noise.shape - noise.within[0], noise.within[0]
        constant = tuple(names.index(name) for name in looked if name not in varying)
        return cls(moments.mean, noise.shape, quantiles, between, within, constant)

    @property
    def deviation(self) -> Floats:
        """The deviation of each column; 1 for one that does not vary."""
        deviation = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        return np.where(deviation > 0, deviation, 1.0)


def has_many_complete_rows(survey: Survey) -> bool:
    """Return whether the rows that miss no number are enough to go by their covariance."""
    return survey.whole.rows >= ROWS_PER_WEIGHT * (1 + len(survey.moments.top))


def hides_gaps(x: Floats, schema: Schema) -> Flags:
    """Return which of the numbers x (N, rows) are missing in secret."""
    wanted = np.zeros(x.shape, dtype=bool)
    for row, name, values in zip(wanted, schema.perturbed, x, strict=True):
        if schema.column(name).hide_missing:
            np.isnan(values, out=row)
    return wanted


def fill_missing(x: Floats, ids: Ids, schema: Schema, draws: Draws | None, secret: bytes) -> Floats:
    """Return columns x (N, rows) with draws for the values that are missing in secret."""
    if draws is None:  # no column hides its missing values
        return x
    x = np.ascontiguousarray(x)
    wanted = hides_gaps(x, schema)
    if not wanted.any():
        return x
    # one white number a cell, keyed by the row: the same draw in every copy
    streams = WhiteStreams(secret, [0.0], columns=len(x), rows=len(ids))
    streams.place(ids)
    z = streams.normals(0.0)
    out = x.copy()
    for rows in _patterns(x, wanted):
        spread = _fill(out, x, z, rows, wanted[:, rows[0]], draws.mean, draws.covariance)
        for place, factors in zip(np.flatnonzero(wanted[:, rows[0]]).tolist(), spread, strict=True):
            # c_h^2, added up in one order on every machine
            open_ = sum(part * part for part in factors.tolist())
            name = schema.perturbed[place]
            out[place, rows] = like_the_column(out[place, rows], place, name, open_, draws)
    return out


def like_the_column(drawn: Floats, place: int, name: str, open_: float, draws: Draws) -> Floats:
    """Return draws of a column brought to its distribution, if so much variance is left open."""
    knots = draws.quantiles.get(name)
    if not knots:
        return drawn
    size = max(np.sqrt(np.diag(draws.covariance))[place], 1e-300)
    matched = interpolate((drawn - draws.mean[place]) / size, knots)
    # x = t + min(1, 4 (c/s)^2) (Q((t - mu)/s) - t)
    return np.asarray(drawn + min(1.0, open_ / (size * size) / FREE) * (matched - drawn))


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


def conditional(
    covariance: Floats, seen: Ints, wanted: Ints, vanishing: float = VANISHING
) -> tuple[Floats, Floats]:
    """Return the weights of the seen columns on the wanted ones, and what spread is left.

    The spread is lower triangular: its product with white noise has the conditional covariance.
    """
    weights = np.zeros((len(wanted), len(seen)))
    spread = np.zeros((len(wanted), len(wanted)))
    matrix = np.ascontiguousarray(covariance)
    _core.sweep_seen(matrix, seen, wanted, vanishing, weights, spread)
    return weights, spread
