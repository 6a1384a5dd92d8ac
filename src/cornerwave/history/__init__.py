"""Tables that change: what the noise of a changed row becomes in the next edition.

Changes                 what an edition changed, over all changed rows; parts add up
Transition, transition  the frozen numbers of an edition, from its changes
exact_transition        the same from covariances that are known, not measured
HistoryReader           key, row, the editions that changed it -> its noise at the wanted levels
add_noise_on_grid       values and their noise -> a copy on its grid
noise_across            the covariance of a row's noise across editions, exactly

    W_e = carry W_{e-1} + fresh P_e   in the columns that changed, W_{e-1} in the others
"""

from cornerwave.history._across import noise_across
from cornerwave.history._carried import HistoryReader, add_noise_on_grid, edition_key
from cornerwave.history._changes import Changes
from cornerwave.history._transition import Transition, exact_transition, transition

__all__ = [
    "Changes",
    "HistoryReader",
    "Transition",
    "add_noise_on_grid",
    "edition_key",
    "exact_transition",
    "noise_across",
    "transition",
]
