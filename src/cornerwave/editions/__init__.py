"""Editions of a table that changes.

Edition 1 is the registered table. Each batch that is appended makes the next edition, the table so
far; so does each new state of the whole table. What registration fixed stays.

    Edition, Portion       which rows, and where they lie            (_numbered)
    hidden_of_changing     what copies of several editions hide of rows that changed    (_numbered)
    measure_drift, Drift   how far new rows drifted from the first edition              (_drift)
    Spread                 how their numbers spread, held against the noise             (_drift)
    AllRows                what columns without noise reveal in rows of all editions    (_all_rows)
    Moves, check_moves     how well old values of categories tell the new ones          (_moves)
"""

from cornerwave.editions._all_rows import AllRows, shows_something
from cornerwave.editions._drift import Drift, Ranges, Spread, check_all_rows, measure_drift
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
    "AllRows",
    "Drift",
    "Edition",
    "Moves",
    "Portion",
    "Ranges",
    "Spread",
    "accepted_moves",
    "check_all_rows",
    "check_columns",
    "check_moves",
    "hidden_after",
    "hidden_of_changing",
    "measure_drift",
    "next_edition",
    "portion",
    "shows_something",
    "updated_edition",
]
