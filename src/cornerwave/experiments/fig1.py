"""Distribution of the values (the paper's Figure 1)."""

import numpy as np
from matplotlib.figure import Figure

from cornerwave.experiments.result import Columns, Drawing, Result
from cornerwave.experiments.setting import Setting
from cornerwave.experiments.style import OURS, figure
from cornerwave.experiments.tables import Table

BINS, TAIL = 60, 0.995
"""Bins per column; the share of the rows that the axis shows."""


def measure(table: Table) -> Columns:
    """Return each column's histogram: left and right edge of a bin, and its share of rows."""
    names: list[str] = []
    left: list[float] = []
    right: list[float] = []
    share: list[float] = []
    for name, values in zip(table.columns, table.rows.T, strict=True):
        counts, edges = np.histogram(values, bins=_edges(values))
        names += [name] * len(counts)
        left += edges[:-1].tolist()
        right += edges[1:].tolist()
        share += (counts / len(values)).tolist()
    return {"column": names, "left": left, "right": right, "share": share}


def _edges(values: np.ndarray) -> np.ndarray:
    """Return bins up to the tail; whole numbers of a small range get one bin each."""
    low, high = values.min(), np.quantile(values, TAIL)
    if (values == np.rint(values)).all() and high - low < 2 * BINS:
        return np.arange(low - 0.5, high + 1)
    return np.linspace(low, high, BINS + 1)


def draw(table: Table, numbers: Columns) -> Figure:
    """Draw one histogram per column."""
    drawn = figure(height=2.6)
    panels = drawn.subplots(1, len(table.columns), squeeze=False)[0]
    names = np.array(numbers["column"])
    for i, (name, axes) in enumerate(zip(table.columns, panels, strict=True)):
        left, right, share = (
            np.array(numbers[key])[names == name] for key in ("left", "right", "share")
        )
        axes.bar(left, 100 * share, width=right - left, align="edge", color=OURS, linewidth=0)
        axes.set(xlabel=table.label(i), ylabel="rows (%)")
        axes.grid(axis="x", visible=False)
        note = _note(table.rows[:, i], shown=float(share.sum()))
        axes.text(0.98, 0.95, note, ha="right", va="top", transform=axes.transAxes)
    return drawn


def _note(values: np.ndarray, *, shown: float) -> str:
    """Return what the bars do not tell: values at zero, values beyond the axis."""
    lines = []
    if (zeros := (values == 0).mean()) > 0.05:
        lines.append(f"{100 * zeros:.0f} % are zero")
    if 1 - shown > 0.0005:
        lines.append(f"{100 * (1 - shown):.1f} % lie further right")
    return "\n".join(lines)


def run(setting: Setting) -> Result:
    """Measure and draw."""
    table, numbers = setting.table, measure(setting.table)
    caption = "How the original values are distributed."
    drawing = Drawing("fig1", caption, lambda: draw(table, numbers))
    text = (
        "The paper shows its attributes without a claim about them. The estimates below need "
        "no particular distribution: only mean and covariance enter."
    )
    return Result("Figure 1: distribution of the values", text, (), (drawing,), {"fig1": numbers})
