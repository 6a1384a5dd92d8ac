"""Rows that belong together: whether several rows of a table are of one person, or firm, or visit.

columns of some rows ── find_units ──> which columns name units, and what that gives away

_look    what of a row is looked at: all columns, dropped ones too, and the key's beginning
_find    which column, or columns together, name units
_groups  how much rows of one value agree: intraclass correlations, and what chance does
_named   columns that are called like identifiers
_hidden  what a copy of all rows of a unit leaves hidden
_remembered  what a ledger keeps, to see whether rows that come belong to units that are there
"""

from cornerwave.units._find import (
    WAYS_OUT,
    Agreeing,
    Looked,
    Unit,
    find_meetings,
    find_units,
)
from cornerwave.units._hidden import left_of_mean, left_of_value
from cornerwave.units._look import UnitColumns
from cornerwave.units._named import names_a_thing
from cornerwave.units._remembered import UnitRows

__all__ = [
    "WAYS_OUT",
    "Agreeing",
    "Looked",
    "Unit",
    "UnitColumns",
    "UnitRows",
    "find_meetings",
    "find_units",
    "left_of_mean",
    "left_of_value",
    "names_a_thing",
]
