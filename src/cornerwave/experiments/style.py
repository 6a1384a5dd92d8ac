"""How figures look: for print and screen, and for readers who see colours differently."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

# The palette of Okabe and Ito.
OURS, INDEPENDENT, THIRD, FOURTH, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#666666"

SETTINGS: dict[Any, Any] = {
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "svg.hashsalt": "cornerwave",
    "savefig.dpi": 200,
}
FILE_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
}
"""Nothing in a file that differs from one run to the next."""


@contextmanager
def styled() -> Iterator[None]:
    """Draw and write figures in one style."""
    with mpl.rc_context(SETTINGS), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def figure(*, width: float = 7.2, height: float) -> Figure:
    """Return an empty figure of a size in inches, its parts kept apart."""
    return Figure(figsize=(width, height), layout="constrained")
