"""The grid that copies lie on, so that their low bits tell nothing (Mironov 2012).

    copy = (rint(x / g) + rint(w / g)) g,   g a power of two, about 2^-24 of the deviation

The value in steps is whole, so rounding the noise rounds their sum: a copy on the grid
is a function of the raw copy of the table on the grid. g is the same for every level.
"""

from typing import Any

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.keyed import strict, widest_vectors
from cornerwave.noise._shape import (
    TILE_ROWS,
    add_shaped,
    begin_shaped,
    four_terms,
    four_tiles,
    tile_of,
    write_around_cache,
)

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
def add_on_grid(
    x: Any, factor: Any, white: Any, grid: Any, out: Any, start: int, around: bool
) -> None:
    """Fill out[:, start:] with x + factor @ white, both as whole numbers of grid steps.

    x, out: (columns, all rows); white: (columns, rows of a block). A column with grid 0
    is constant and stays as it is. `around`: out is too large for the cache.
    """
    columns, rows = white.shape
    done = 4 if columns >= 4 and grid[:4].min() > 0.0 else 0
    apart = np.empty((columns, min(rows, TILE_ROWS) if around else 0))
    for first in range(0, rows, TILE_ROWS):
        last = min(first + TILE_ROWS, rows)
        # what leaves the cache at once is made beside it, one tile after another in one place
        made, tile = (apart, (first, last, -first)) if around else (out, (first, last, start))
        if done:
            _step_four_onto(x, start, factor, white, grid, tile, made)
        for i in range(done, columns):
            begin_shaped(factor, white, i, tile, made)
        add_shaped(factor, white, tile, made)
        for i in range(done, columns):
            step_onto(tile_of(x, i, (first, last, start)), grid[i], tile_of(made, i, tile))
        if around:
            write_around_cache(made, tile, out, start + first)


@strict
def _step_four_onto(
    x: Any, start: int, factor: Any, white: Any, grid: Any, tile: Any, out: Any
) -> None:
    """Shape and add the first four columns, which have four terms at most, in one loop."""
    widest_vectors()
    (a3, wa), (b3, wb), (c3, wc), (d3, wd) = four_terms(factor, white, 3, 0, tile)
    a0, a1, a2 = factor[0, 0], factor[1, 0], factor[2, 0]
    b1, b2, c2 = factor[1, 1], factor[2, 1], factor[2, 2]
    x0, x1, x2, x3 = four_tiles(x, 0, (tile[0], tile[1], start))
    o0, o1, o2, o3 = four_tiles(out, 0, tile)
    s0, s1, s2, s3 = grid[0], grid[1], grid[2], grid[3]
    p0, p1, p2, p3 = 1.0 / s0, 1.0 / s1, 1.0 / s2, 1.0 / s3
    for row in range(o0.shape[0]):
        a, b, c, d = wa[row], wb[row], wc[row], wd[row]
        o0[row] = (np.rint(x0[row] * p0) + np.rint(a0 * a * p0)) * s0
        o1[row] = (np.rint(x1[row] * p1) + np.rint((a1 * a + b1 * b) * p1)) * s1
        o2[row] = (np.rint(x2[row] * p2) + np.rint((a2 * a + b2 * b + c2 * c) * p2)) * s2
        o3[row] = (np.rint(x3[row] * p3) + np.rint((a3 * a + b3 * b + c3 * c + d3 * d) * p3)) * s3


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
