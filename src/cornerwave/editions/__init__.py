"""Editions of a table that changes.

Edition 1 is the registered table. Each batch that is appended makes the next edition, the table so
far; so does each new state of the whole table. What registration fixed stays.

    Edition, Portion       which rows, and where they lie                               (_edition)
    measure_drift, Drift   how far new rows drifted from the first edition              (_drift)
    Spread                 how their numbers spread, compared with the noise            (_drift)
    AllPersons             what copies hide of persons with rows of all editions     (_all_persons)
    AllRows                what columns without noise reveal in rows of all editions    (_all_rows)
    pooled, changing       what copies of several editions hide of rows that changed    (_changes)
    Moves, check_moves     how well old values of categories predict the new ones       (_changes)
"""

from cornerwave.editions._all_persons import AllPersons, RowsReplaced
from cornerwave.editions._all_rows import AllRows, shows_something
from cornerwave.editions._changes import (
    MOVED,
    Moves,
    accepted_moves,
    changing,
    check_moves,
    hidden_after,
    moved_of,
    moved_of_persons,
    moving,
    pooled,
)
from cornerwave.editions._drift import (
    Ranges,
    Spread,
    check_all_persons,
    check_all_rows,
    measure_drift,
)
from cornerwave.editions._edition import (
    APPENDED,
    REGISTERED,
    UPDATED,
    Drift,
    Edition,
    Moved,
    Portion,
    RowChanges,
    check_columns,
    editions_table,
    next_edition,
    portion,
    updated_edition,
)

__all__ = [
    "APPENDED",
    "MOVED",
    "REGISTERED",
    "UPDATED",
    "AllPersons",
    "AllRows",
    "Drift",
    "Edition",
    "Moved",
    "Moves",
    "Portion",
    "Ranges",
    "RowChanges",
    "RowsReplaced",
    "Spread",
    "accepted_moves",
    "changing",
    "check_all_persons",
    "check_all_rows",
    "check_columns",
    "check_moves",
    "editions_table",
    "hidden_after",
    "measure_drift",
    "moved_of",
    "moved_of_persons",
    "moving",
    "next_edition",
    "pooled",
    "portion",
    "shows_something",
    "updated_edition",
]
