"""What copies hide of each column: from all of their columns together, and from what they show.

    _revealed    what stands in a copy without noise reveals, by any function of it
    _joint       what all columns together leave hidden at each level
    _hidden      that, as it is recorded and put into words
    _neighbours  what the order of the rows reveals, near and far (_distant)
    _same_order  and that of rows of several editions
    _units, _groups, _look    which rows belong to one person, and what that reveals
    _coalition   what some recipients can recover together, exactly

In: sampled rows, levels. Out: shares of each column's variance. Nothing here needs a key.
"""

from cornerwave.privacy._coalition import (
    OF_HISTORY,
    Coalition,
    Law,
    Looks,
    guess,
    hidden_in_history,
    hidden_shares,
    history_functions,
    independent_level,
)
from cornerwave.privacy._distant import DistantRows, Ties
from cornerwave.privacy._groups import left_of_mean, left_of_value
from cornerwave.privacy._hidden import (
    GAPS_OF,
    PLACES,
    Hidden,
    JointShares,
    Remedy,
    done,
    part_of,
    telling,
    unreachable,
)
from cornerwave.privacy._joint import (
    NUMBERS,
    Coordinate,
    JointSample,
    close_pairs,
    hidden_at,
    indicators,
    measure_hidden,
    semidefinite,
)
from cornerwave.privacy._look import UnitColumns, UnitRows
from cornerwave.privacy._named import names_a_thing
from cornerwave.privacy._neighbours import (
    ALPHA,
    CELLS,
    MATTERS,
    RUN,
    RowOrder,
    Told,
    left_hidden,
)
from cornerwave.privacy._revealed import MOST_VALUES, OpenColumn, group_means, reveal, standardised
from cornerwave.privacy._same_order import FIRST, FirstRows
from cornerwave.privacy._units import WAYS_OUT, Looked, Unit, find_units

__all__ = [
    "ALPHA",
    "CELLS",
    "FIRST",
    "GAPS_OF",
    "MATTERS",
    "MOST_VALUES",
    "NUMBERS",
    "OF_HISTORY",
    "PLACES",
    "RUN",
    "WAYS_OUT",
    "Coalition",
    "Coordinate",
    "DistantRows",
    "FirstRows",
    "Hidden",
    "JointSample",
    "JointShares",
    "Law",
    "Looked",
    "Looks",
    "OpenColumn",
    "Remedy",
    "RowOrder",
    "Ties",
    "Told",
    "Unit",
    "UnitColumns",
    "UnitRows",
    "close_pairs",
    "done",
    "find_units",
    "group_means",
    "guess",
    "hidden_at",
    "hidden_in_history",
    "hidden_shares",
    "history_functions",
    "independent_level",
    "indicators",
    "left_hidden",
    "left_of_mean",
    "left_of_value",
    "measure_hidden",
    "names_a_thing",
    "part_of",
    "reveal",
    "semidefinite",
    "standardised",
    "telling",
    "unreachable",
]
