"""The noise of rows: numbers read one path, categories refresh.

steps, ancestors     levels -> how each is reached on the path
WhiteStreams         key, level, row -> white noise; fill_tile makes it of random words
Reading, Reader      both -> noise of some rows at the wanted levels
add_shaped           factor and white noise -> noise shaped like K, in one order of sums;
                     shape_white does so for all rows of a block
add_on_grid          values and noise -> a copy on its grid
Memory               where copies are made, used again; large ones go there around the cache
Refresher, refresh   categories: events at keyed times, each a fresh draw
"""

from cornerwave.noise._grid import (
    COARSEST,
    GRID_BITS,
    add_on_grid,
    grid_of,
    round_to_grid,
    step_onto,
)
from cornerwave.noise._memory import CACHE_BYTES, Memory, write_around_cache
from cornerwave.noise._path import (
    ORIGIN,
    Step,
    ancestors,
    coefficients,
    lattice_index,
    lattice_path,
    steps,
)
from cornerwave.noise._reading import Reader, Reading, available_threads, over_blocks, rows_of_block
from cornerwave.noise._refresh import MISSING, Refresher, RefreshRoom, refresh, thresholds
from cornerwave.noise._shape import (
    TILE_ROWS,
    add_shaped,
    four_terms,
    four_tiles,
    shape_white,
    tile_of,
)
from cornerwave.noise._stream import NOISE_FORMAT, WhiteStreams, fill_tile, position_ids

__all__ = [
    "CACHE_BYTES",
    "COARSEST",
    "GRID_BITS",
    "MISSING",
    "NOISE_FORMAT",
    "ORIGIN",
    "TILE_ROWS",
    "Memory",
    "Reader",
    "Reading",
    "RefreshRoom",
    "Refresher",
    "Step",
    "WhiteStreams",
    "add_on_grid",
    "add_shaped",
    "ancestors",
    "available_threads",
    "coefficients",
    "fill_tile",
    "four_terms",
    "four_tiles",
    "grid_of",
    "lattice_index",
    "lattice_path",
    "over_blocks",
    "position_ids",
    "refresh",
    "round_to_grid",
    "rows_of_block",
    "shape_white",
    "step_onto",
    "steps",
    "thresholds",
    "tile_of",
    "write_around_cache",
]
