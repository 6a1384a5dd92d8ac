"""Tables that change: what the noise of a changed row becomes in the next edition.

    W_e = A W_{e-1} + H Z_{e-1} + B P_e   in the columns that changed, W_{e-1} in the others

Changes, changed_cells  what an edition changed, over all changed rows; parts add up
Transition              A, H and B, frozen with an edition: `transitions` from its changes,
                        `exact_transition` from second moments that are known (SecondMoments),
                        `returning_transitions` for values that come back
kinds_of                which cells of rows changed -> by which of the edition's rules
ChangedRows, Past       which rows each edition changed, and by which rules
HistoryReader           key, row, the editions that changed it -> its noise at the wanted levels
add_noise_on_grid       values and their noise -> a copy on its grid
noise_across            the covariance of a row's noise across editions, exactly;
                        drifting_history, personal_history: of values that it may have
"""

from cornerwave.history._across import Rules, drifting_history, noise_across, personal_history
from cornerwave.history._carried import HistoryReader, add_noise_on_grid, edition_key
from cornerwave.history._changed_rows import ChangedRows, Past
from cornerwave.history._changes import Changes, changed_cells
from cornerwave.history._transition import (
    SecondMoments,
    Transition,
    exact_transition,
    kinds_of,
    returning_transitions,
    transitions,
)

__all__ = [
    "ChangedRows",
    "Changes",
    "HistoryReader",
    "Past",
    "Rules",
    "SecondMoments",
    "Transition",
    "add_noise_on_grid",
    "changed_cells",
    "drifting_history",
    "edition_key",
    "exact_transition",
    "kinds_of",
    "noise_across",
    "personal_history",
    "returning_transitions",
    "transitions",
]
