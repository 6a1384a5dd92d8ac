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

from cornerwave.experiments._complexity import shortest
from cornerwave.experiments._drawing import Drawing
from cornerwave.experiments._fig1 import PAPER
from cornerwave.experiments._input_table import InputTable, people, table_of
from cornerwave.experiments._part import Columns, Effort, Result, Setting, Statement, Verdict
from cornerwave.experiments._run import PARTS, chosen, duration, reproduce

__all__ = [
    "PAPER",
    "PARTS",
    "Columns",
    "Drawing",
    "Effort",
    "InputTable",
    "Result",
    "Setting",
    "Statement",
    "Verdict",
    "chosen",
    "duration",
    "people",
    "reproduce",
    "shortest",
    "table_of",
]
