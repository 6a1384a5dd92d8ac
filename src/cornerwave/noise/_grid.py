"""The grid that copies lie on, so that their low bits tell nothing (Mironov 2012).

    copy = (rint(x / g) + rint(w / g)) g,   g a power of two, about 2^-24 of the deviation

The value in steps is whole, so rounding the noise rounds their sum: a copy on the grid
is a function of the raw copy of the table on the grid. g is the same for every level.
"""

from typing import Any

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.keyed import strict, widest_vectors
from cornerwave.noise._shape import TILE_ROWS, add_shaped, begin_shaped, tile_of

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


@strict
def round_to_grid(x: Any, grid: Any) -> None:
    """Round columns x (N, rows) to their grids, in place; a constant column has none."""
    for i in range(x.shape[0]):
        if grid[i] > 0.0:
            per_step = 1.0 / grid[i]
            for row in range(x.shape[1]):
                x[i, row] = np.rint(x[i, row] * per_step) * grid[i]


@strict
def add_on_grid(x: Any, factor: Any, white: Any, grid: Any, out: Any, start: int) -> None:
    """Fill out[:, start:] with x + factor @ white, both as whole numbers of grid steps.

    x, out: (columns, all rows); white: (columns, rows of a block). A column with grid 0
    is constant and stays as it is.
    """
    rows = white.shape[1]
    for first in range(0, rows, TILE_ROWS):
        tile = (first, min(first + TILE_ROWS, rows), start)
        for i in range(white.shape[0]):
            begin_shaped(factor, white, i, tile, out)
        add_shaped(factor, white, tile, out)
        for i in range(white.shape[0]):
            step_onto(tile_of(x, i, tile), grid[i], tile_of(out, i, tile))


@strict
def step_onto(x: Any, step: float, out: Any) -> None:
    """Add a column's values to its noise, both as whole numbers of steps."""
    widest_vectors()
    if step == 0.0:
        for row in range(out.shape[0]):
            out[row] = x[row]
    else:
        per_step = 1.0 / step
        for row in range(out.shape[0]):
            out[row] = (np.rint(x[row] * per_step) + np.rint(out[row] * per_step)) * step
