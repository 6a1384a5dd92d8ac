"""What copies hide of each column: from all of their columns together, and from what they show.

    _open_columns   what a copy shows without noise, F: columns, gaps, parts
    _revealed       what F reveals, by any function of it: _anova, _regressions, _variance_cells
    _whole_copy     what all columns together leave hidden at each level: THE FORMULA
    _joint          that, measured from sampled rows (_joint_sample, _computed)
    _hidden         that, as it is recorded and put into words
    _row_order      what the order of the rows reveals, near and far (_distant_rows, _ties)
    _edition_order  and that of rows of several editions
    _persons        what they leave of a person with several rows
    _units          which rows are one person's, and what that reveals (_unit, _groups, _unit_rows)
    _declared_unit  whether a declared unit is the right one
    _coalition      what some recipients can recover together, exactly (_coalition_document)

In: sampled rows, levels. Out: shares of each column's variance. Nothing here needs a key.
To measure one more way in which F reveals: a function in `_anova` or `_regressions`, and its line
in `_revealed.reveal`.
"""

from cornerwave.privacy._anova import GroupMeans
from cornerwave.privacy._beside import Beside
from cornerwave.privacy._coalition import (
    OF_HISTORY,
    REPEATED,
    CategoryDistribution,
    Coalition,
    Moving,
    guess,
    hidden_in_history,
    hidden_shares,
    history_functions,
    independent_level,
)
from cornerwave.privacy._coalition_document import (
    coalition_document,
    coalition_parts,
    coalition_verdict,
)
from cornerwave.privacy._computed import sum_alone
from cornerwave.privacy._declared_unit import as_nested, find_above, find_better
from cornerwave.privacy._distant_rows import DistantRows
from cornerwave.privacy._edition_order import FIRST, FirstRows
from cornerwave.privacy._groups import left_of_mean, left_of_value
from cornerwave.privacy._hidden import (
    PLACES,
    Hidden,
    JointShares,
    MostRevealing,
    Remedy,
    unreachable,
)
from cornerwave.privacy._joint import (
    close_pairs,
    hidden_at,
    lowered,
    measure_hidden,
    shares_of_persons,
)
from cornerwave.privacy._joint_sample import (
    NUMBERS,
    Computed,
    Coordinate,
    JointSample,
    indicators,
    semidefinite,
)
from cornerwave.privacy._open_columns import (
    LEAST_HOLDERS,
    MOST_VALUES,
    OpenColumn,
    Shown,
    standardised,
)
from cornerwave.privacy._persons import PersonRows, hidden_of_persons
from cornerwave.privacy._revealed import reveal
from cornerwave.privacy._row_order import (
    ALPHA,
    MATTERS,
    RUN,
    RevealedByOrder,
    RowOrder,
    left_hidden,
)
from cornerwave.privacy._ties import Ties
from cornerwave.privacy._unit import LEAST_PERSONS, Looked, Unit, names_a_thing
from cornerwave.privacy._unit_rows import UnitColumns, UnitRows
from cornerwave.privacy._units import find_units

__all__ = [
    "ALPHA",
    "FIRST",
    "LEAST_HOLDERS",
    "LEAST_PERSONS",
    "MATTERS",
    "MOST_VALUES",
    "NUMBERS",
    "OF_HISTORY",
    "PLACES",
    "REPEATED",
    "RUN",
    "Beside",
    "CategoryDistribution",
    "Coalition",
    "Computed",
    "Coordinate",
    "DistantRows",
    "FirstRows",
    "GroupMeans",
    "Hidden",
    "JointSample",
    "JointShares",
    "Looked",
    "MostRevealing",
    "Moving",
    "OpenColumn",
    "PersonRows",
    "Remedy",
    "RevealedByOrder",
    "RowOrder",
    "Shown",
    "Ties",
    "Unit",
    "UnitColumns",
    "UnitRows",
    "as_nested",
    "close_pairs",
    "coalition_document",
    "coalition_parts",
    "coalition_verdict",
    "find_above",
    "find_better",
    "find_units",
    "guess",
    "hidden_at",
    "hidden_in_history",
    "hidden_of_persons",
    "hidden_shares",
    "history_functions",
    "independent_level",
    "indicators",
    "left_hidden",
    "left_of_mean",
    "left_of_value",
    "lowered",
    "measure_hidden",
    "names_a_thing",
    "reveal",
    "semidefinite",
    "shares_of_persons",
    "standardised",
    "sum_alone",
    "unreachable",
]
