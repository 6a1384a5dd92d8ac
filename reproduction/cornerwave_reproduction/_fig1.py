"""The data: Table 2 (mean and variance of the attributes) and Figure 1 (their distribution)."""

import numpy as np
from matplotlib.figure import Figure

from cornerwave.arrays import Floats
from cornerwave.moments import Moments
from cornerwave_reproduction._drawing import OURS, Drawing, figure
from cornerwave_reproduction._input_table import InputTable
from cornerwave_reproduction._part import Columns, Result, Setting, Statement, stacked

PAPER = {"age": ("Age", 50.06, 303.03), "wage": ("Income", 16.57, 219.92)}
"""Our column: the paper's attribute, its mean and its variance."""

SAME = 0.01
"""Statistics within this share of each other count as the same."""

BINS, TAIL = 60, 0.995
"""Bins per column; the share of the rows that the axis shows."""

Histogram = dict[str, list[float]]


def statistics(table: InputTable) -> Columns:
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


def compare(numbers: Columns) -> tuple[Statement, ...]:
    """Compare with the paper's statistics, where a column takes the place of one of its own."""
    rows = zip(numbers["column"], numbers["mean"], numbers["variance"], strict=True)
    return tuple(_compare(*row) for row in rows if row[0] in PAPER)


def _compare(name: str, mean: float, variance: float) -> Statement:
    theirs, their_mean, their_variance = PAPER[name]
    return Statement.judged(
        source="Table of statistics",
        claim=f"{theirs} has mean {their_mean} and variance {their_variance}.",
        holds=abs(mean / their_mean - 1) < SAME and abs(variance / their_variance - 1) < SAME,
        measured=f"{name}: mean {mean:.2f}, variance {variance:.2f}",
        remark="Different people: CENSUS is not public. The errors below are shares of the "
        "variance, so they remain comparable.",
    )


def run_table2(setting: Setting) -> Result:
    """Measure the statistics; compare them if the table is ours."""
    table, numbers = setting.table, statistics(setting.table)
    ours = table.name == "people"
    text = f"{len(table.rows):,} rows. {table.note}"
    if ours:
        text += (
            "Age and wage of the first 100,000 people aged 16 or more in a public table derived "
            "from the Current Population Survey take the place of the paper's CENSUS (Age, "
            "Income), which is not public. Wages are in thousands of dollars."
        )
    statements = compare(numbers) if ours else ()
    return Result("Table 2: statistics of the data", text, statements, numbers={"table2": numbers})


def histogram(values: Floats) -> Histogram:
    """Return left and right edge of each bin, and its share of the rows."""
    counts, edges = np.histogram(values, bins=_edges(values))
    return {
        "left": edges[:-1].tolist(),
        "right": edges[1:].tolist(),
        "share": (counts / len(values)).tolist(),
    }


def _edges(values: Floats) -> Floats:
    """Return bins up to the tail; whole numbers of a small range get one bin each."""
    low, high = values.min(), np.quantile(values, TAIL)
    if (values == np.rint(values)).all() and high - low < 2 * BINS:
        return np.arange(low - 0.5, high + 1)
    return np.linspace(low, high, BINS + 1)


def draw(table: InputTable, histograms: list[Histogram]) -> Figure:
    """Draw one histogram per column."""
    drawn = figure(height=2.6)
    panels = drawn.subplots(1, len(table.columns), squeeze=False)[0]
    for i, (bins, axes) in enumerate(zip(histograms, panels, strict=True)):
        left, right, share = (np.array(bins[key]) for key in ("left", "right", "share"))
        axes.bar(left, 100 * share, width=right - left, align="edge", color=OURS, linewidth=0)
        axes.set(xlabel=table.label(i), ylabel="rows (%)")
        axes.grid(axis="x", visible=False)
        note = _note(table.rows[:, i], shown=float(share.sum()))
        axes.text(0.98, 0.95, note, ha="right", va="top", transform=axes.transAxes)
    return drawn


def _note(values: Floats, *, shown: float) -> str:
    """Return what the bars do not show: how many values are zero or beyond the axis."""
    lines = []
    if (zeros := (values == 0).mean()) > 0.05:
        lines.append(f"{100 * zeros:.0f} % are zero")
    if 1 - shown > 0.0005:
        lines.append(f"{100 * (1 - shown):.1f} % lie further right")
    return "\n".join(lines)


def run(setting: Setting) -> Result:
    """Measure and draw the distributions."""
    table = setting.table
    histograms = [histogram(values) for values in table.rows.T]
    drawing = Drawing(
        "fig1", "Distribution of the original values.", lambda: draw(table, histograms)
    )
    numbers = stacked(
        {"column": name, **bins} for name, bins in zip(table.columns, histograms, strict=True)
    )
    text = (
        "The paper makes no claim about these distributions. The estimates below use mean and "
        "covariance only, whatever the distribution."
    )
    return Result("Figure 1: distribution of the values", text, (), (drawing,), {"fig1": numbers})
