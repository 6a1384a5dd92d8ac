"""The grid that copies lie on, so that their low bits reveal nothing (Mironov 2012).

    copy = (rint(x / g) + rint(w / g)) g,   g a power of two, about 2^-24 of the deviation

The value in steps is whole, so rounding the noise rounds their sum: a copy on the grid
is a function of the raw copy of the table on the grid. g is the same for every level.
"""

import numpy as np

from cornerwave.arrays import Floats

GRID_BITS = 24
"""Copies lie on a grid of about 2^-24 of a column's standard deviation."""


COARSEST = 2.0**-8
"""A grid coarser than this share of the deviation swallows the noise of the lowest levels."""


def grid_of(*, deviation: Floats, largest: Floats) -> Floats:
    """Return the step of each column's grid, a power of two; 0 for a constant column.

    From its deviation, and coarser where its largest |x| is so far from zero that doubles
    are: then a value and its noise are whole numbers of steps that add up exactly.

    >>> grid_of(deviation=np.array([1.0, 0.0]), largest=np.array([2.0, 5.0])) == [2**-24, 0]
    array([ True,  True])
    """
    fine = np.frexp(deviation)[1] - 1 - GRID_BITS
    coarse = np.frexp(largest)[1] - 51
    return np.where(deviation > 0, np.ldexp(1.0, np.maximum(fine, coarse)), 0.0)


def add_noise_on_grid(x: Floats, noise: Floats, grid: Floats) -> Floats:
    """Return x + noise, both (columns, rows), as whole numbers of each column's grid steps."""
    steps = np.where(grid > 0, grid, 1.0)[:, None]
    per_step = 1.0 / steps
    on_grid = (np.rint(x * per_step) + np.rint(noise * per_step)) * steps
    return np.where(grid[:, None] > 0, on_grid, x)  # a constant column stays as it is
