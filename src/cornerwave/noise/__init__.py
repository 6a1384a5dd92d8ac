"""The noise of rows: numbers read one path, categories refresh.

steps, ancestors     levels -> how each is reached on the path
WhiteStreams         key, level, row -> white noise
Reading, Reader      both -> noise of some rows at the wanted levels
grid_of              the grid that copies lie on; _core shapes noise and adds it
PersonNoise, PersonReader    noise of persons with several rows
Refresher, refresh   categories: events at keyed times, each a fresh draw
MovedRows, MovedCells    categories that changed, and what copies show
CategoryMoves        how cells of a category moved, by what they were before
factor, noise_shape  a factor of K, singular or not
Transition, Rules, HistoryReader, ChangedRows    rows that changed: their noise in the next edition
"""

from cornerwave.noise._carried import (
    HistoryReader,
    PersonHistoryReader,
    Rules,
    drifting_history,
    for_persons,
    for_rows,
    noise_across,
    personal_history,
)
from cornerwave.noise._changed_rows import ChangedRows, Past
from cornerwave.noise._factor import (
    COARSEST,
    GRID_BITS,
    SWEEPS,
    add_noise_on_grid,
    factor,
    grid_of,
    noise_shape,
)
from cornerwave.noise._moved_cells import MovedCells, MovedRows, moves_key
from cornerwave.noise._moves_of_cells import (
    LEAST,
    CategoryMoves,
    last_states,
    other_values,
)
from cornerwave.noise._person_noise import (
    PersonNoise,
    PersonReader,
    covering,
    divided,
    hat_matrix,
    nearest_knots,
    without,
)
from cornerwave.noise._reading import Reader, Reading, available_threads, over_blocks, rows_of_block
from cornerwave.noise._refresh import (
    MISSING,
    EventClock,
    Refresher,
    RefreshRoom,
    ln_1_plus,
    refresh,
    thresholds,
)
from cornerwave.noise._stream import (
    NOISE_FORMAT,
    ORIGIN,
    Step,
    WhiteStreams,
    ancestors,
    coefficients,
    lattice_index,
    lattice_path,
    level_nearby,
    position_ids,
    steps,
)
from cornerwave.noise._transition import (
    Changes,
    SecondMoments,
    Transition,
    changed_cells,
    exact_transition,
    kinds_of,
    returning_transitions,
    transitions,
)

__all__ = [
    "COARSEST",
    "GRID_BITS",
    "LEAST",
    "MISSING",
    "NOISE_FORMAT",
    "ORIGIN",
    "SWEEPS",
    "CategoryMoves",
    "ChangedRows",
    "Changes",
    "EventClock",
    "HistoryReader",
    "MovedCells",
    "MovedRows",
    "Past",
    "PersonHistoryReader",
    "PersonNoise",
    "PersonReader",
    "Reader",
    "Reading",
    "RefreshRoom",
    "Refresher",
    "Rules",
    "SecondMoments",
    "Step",
    "Transition",
    "WhiteStreams",
    "add_noise_on_grid",
    "ancestors",
    "available_threads",
    "changed_cells",
    "coefficients",
    "covering",
    "divided",
    "drifting_history",
    "exact_transition",
    "factor",
    "for_persons",
    "for_rows",
    "grid_of",
    "hat_matrix",
    "kinds_of",
    "last_states",
    "lattice_index",
    "lattice_path",
    "level_nearby",
    "ln_1_plus",
    "moves_key",
    "nearest_knots",
    "noise_across",
    "noise_shape",
    "other_values",
    "over_blocks",
    "personal_history",
    "position_ids",
    "refresh",
    "returning_transitions",
    "rows_of_block",
    "steps",
    "thresholds",
    "transitions",
    "without",
]
