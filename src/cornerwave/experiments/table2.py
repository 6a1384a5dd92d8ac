"""Mean and variance of the attributes, beside the paper's table of statistics."""

import numpy as np

from cornerwave.experiments.result import Columns, Result
from cornerwave.experiments.setting import Setting
from cornerwave.experiments.statement import Statement
from cornerwave.experiments.tables import Table
from cornerwave.moments import Moments

PAPER = {"age": ("Age", 50.06, 303.03), "wage": ("Income", 16.57, 219.92)}
"""Our column: the paper's attribute, its mean and its variance."""

SAME = 0.01
"""Statistics within this share of each other are the same."""


def measure(table: Table) -> Columns:
    """Return mean, variance, skew and share of zeros of each column."""
    moments, rows = Moments.of(table.rows), table.rows
    away = (rows - moments.mean) / moments.deviation
    return {
        "column": table.columns,
        "unit": table.units,
        "mean": moments.mean.tolist(),
        "variance": np.diag(moments.covariance).tolist(),
        "skew": (away**3).mean(axis=0).tolist(),
        "zeros": (rows == 0).mean(axis=0).tolist(),
    }


def state(numbers: Columns) -> tuple[Statement, ...]:
    """Compare with the paper's statistics, where the column stands in for one of its own."""
    statements = []
    rows = zip(numbers["column"], numbers["mean"], numbers["variance"], strict=True)
    for name, mean, variance in rows:
        if name in PAPER:
            theirs, their_mean, their_variance = PAPER[name]
            same = abs(mean / their_mean - 1) < SAME and abs(variance / their_variance - 1) < SAME
            statements.append(
                Statement.judged(
                    source="Table of statistics",
                    claim=f"{theirs} has mean {their_mean} and variance {their_variance}.",
                    holds=same,
                    measured=f"{name}: mean {mean:.2f}, variance {variance:.2f}",
                    remark="Other people: CENSUS is not public. Errors below are shares of the "
                    "variance, so they can be compared all the same.",
                )
            )
    return tuple(statements)


def run(setting: Setting) -> Result:
    """Measure and compare."""
    table, numbers = setting.table, measure(setting.table)
    text = f"{len(table.rows):,} rows. {table.note}"
    if table.name == "people":
        text += (
            "Age and wage of the first 100,000 people of 16 or more in a public table derived "
            "from the Current Population Survey stand in for the paper's CENSUS (Age, Income), "
            "which is not public. Wages are in thousands of dollars."
        )
    statements = () if table.name != "people" else state(numbers)
    return Result("Table 2: statistics of the data", text, statements, numbers={"table2": numbers})
