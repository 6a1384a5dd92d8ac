"""The paper's evaluation, reproduced on real data, with a verdict for each statement.

    InputTable -> Setting -> one module per figure -> Result -> reproduce (figures, numbers, page)

    _fig1                       the data: Table 2 and Figure 1
    _case_study, _theorems      the case study and every theorem, exactly
    _fig2, _fig3                what a coalition recovers (_requests: its copies and errors)
    _fig4                       accuracy of classifiers on copies
    _fig5, _complexity          time and memory
    _beyond_attacks, _cost, _miner     beyond the paper

A part measures, states and draws: measure() returns plain numbers, state() judges them,
draw() shows them. Seeds are for experiments only; no release uses one.
Needs the extra `cornerwave[experiments]`.
"""

from cornerwave_reproduction._complexity import shortest
from cornerwave_reproduction._input_table import InputTable, people, table_of
from cornerwave_reproduction._part import Effort, Setting, Verdict
from cornerwave_reproduction._reproduction_page import Figure, reproduction_document
from cornerwave_reproduction._run import PARTS, chosen, duration, reproduce
from cornerwave_reproduction._schemes import (
    SCHEMES,
    Independent,
    MersenneTwister,
    Ours,
    PerColumn,
    Scaled,
    Scheme,
    SinglePrecision,
)
from cornerwave_reproduction._slips import average, read_float_bits, solve_scaled, undo_resort
from cornerwave_reproduction._twister import strip_twister

__all__ = [
    "PARTS",
    "SCHEMES",
    "Effort",
    "Figure",
    "Independent",
    "InputTable",
    "MersenneTwister",
    "Ours",
    "PerColumn",
    "Scaled",
    "Scheme",
    "Setting",
    "SinglePrecision",
    "Verdict",
    "average",
    "chosen",
    "duration",
    "people",
    "read_float_bits",
    "reproduce",
    "reproduction_document",
    "shortest",
    "solve_scaled",
    "strip_twister",
    "table_of",
    "undo_resort",
]
