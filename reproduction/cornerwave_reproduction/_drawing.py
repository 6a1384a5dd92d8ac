"""How figures look and how they are written: for print and screen, in colour-blind-safe colours."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# The palette of Okabe and Ito.
OURS, INDEPENDENT, THIRD, FOURTH, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#666666"
HOLLOW: Any = {"markersize": 4.5, "markerfacecolor": "white", "markeredgecolor": OURS}

STYLE: dict[Any, Any] = {
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
"""Kinds of file, without the metadata that would differ from one run to the next."""


@dataclass(frozen=True)
class Drawing:
    """A figure by its file name and caption; drawn when it is written."""

    name: str
    caption: str
    draw: Callable[[], Figure] = field(repr=False)

    def files(self) -> dict[str, bytes]:
        """Return the figure as a file of each kind."""
        files = {}
        with mpl.rc_context(STYLE), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            drawn = self.draw()
            for kind, metadata in FILE_METADATA.items():
                content = BytesIO()
                drawn.savefig(content, format=kind, metadata=metadata)
                files[kind] = content.getvalue()
                drawn.set_layout_engine("none")  # the layout is computed once, for all kinds
        return files


def figure(*, height: float) -> Figure:
    """Return an empty figure, `height` in inches, whose parts do not overlap."""
    return Figure(figsize=(7.2, height), layout="constrained")


def legend(drawn: Figure, axes: Axes, *, ncols: int, pairs: int = 0, **style: Any) -> None:
    """Put the entries of one panel below all panels; entry i is above entry i + pairs."""
    handles, labels = axes.get_legend_handles_labels()
    order = [entry for i in range(pairs) for entry in (i, i + pairs)]
    order += range(2 * pairs, len(handles))
    drawn.legend(
        [handles[i] for i in order],
        [labels[i] for i in order],
        loc="outside lower center",
        ncols=ncols,
        **style,
    )
