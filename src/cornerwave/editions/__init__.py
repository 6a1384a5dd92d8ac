"""Editions of a table that changes.

Edition 1 is the registered table. Each batch that is appended makes the next edition, the table so
far; so does each new state of the whole table. What registration fixed stays.

    Edition, Portion       which rows, and where they lie            (_numbered)
    hidden_of_changing     what copies of several editions hide of rows that changed    (_numbered)
    measure_drift, Drift   how far new rows drifted from the first edition              (_drift)
    Spread                 how their numbers spread, held against the noise             (_drift)
    Moves, check_moves     how well old values of categories tell the new ones          (_moves)
"""

from cornerwave.editions._drift import Drift, Ranges, Spread, measure_drift
from cornerwave.editions._moves import Moves, accepted_moves, check_moves
from cornerwave.editions._numbered import (
    APPENDED,
    REGISTERED,
    TOLD,
    UPDATED,
    Edition,
    Portion,
    check_columns,
    hidden_after,
    hidden_of_changing,
    next_edition,
    portion,
    updated_edition,
)

__all__ = [
    "APPENDED",
    "REGISTERED",
    "TOLD",
    "UPDATED",
    "Drift",
    "Edition",
    "Moves",
    "Portion",
    "Ranges",
    "Spread",
    "accepted_moves",
    "check_columns",
    "check_moves",
    "hidden_after",
    "hidden_of_changing",
    "measure_drift",
    "next_edition",
    "portion",
    "updated_edition",
]
