"""Histograms and cumulative histograms of the estimation error (Figure 3)."""

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import ks_2samp

from cornerwave.arrays import Floats
from cornerwave.attack import Llse
from cornerwave.moments import Moments
from cornerwave_reproduction._drawing import Drawing, figure, legend
from cornerwave_reproduction._input_table import InputTable
from cornerwave_reproduction._part import Columns, Result, Setting, Statement, bound, stacked
from cornerwave_reproduction._requests import Requests, requested

SOURCE = "Experiment 1, Figure 3"
COPIES = (5, 10, 20, 30)
BINS = 80
SHOWN = 0.97
"""The share of errors that the axes show."""

SHADES = {
    "ours": ("#9ecae1", "#4a98c9", "#1764ab", "#08306b"),
    "independent": ("#fdbe85", "#fd8d3c", "#d94701", "#7f2704"),
}
LINES = {"ours": "-", "independent": (0, (4, 1.2))}

Histograms = dict[tuple[str, str, int], dict[str, list[float]]]
"""By column, scheme and number of copies: upper edges of the bins, shares, cumulative shares."""


@dataclass(frozen=True, eq=False)
class Errors:
    """Absolute errors (T, N) by scheme and number of copies; the least noise by the latter."""

    of: dict[tuple[str, int], Floats]
    least_noise: dict[int, float]

    @property
    def copies(self) -> list[int]:
        """The numbers of copies that were pooled, ascending."""
        return sorted(self.least_noise)

    def medians(self, scheme: str) -> Floats:
        """Return the median error for each number of copies and column, (counts, N)."""
        return np.array([np.median(self.of[scheme, m], axis=0) for m in self.copies])


def measure(X: Floats, requests: Requests) -> Errors:
    """Return |Xhat - X| for the best linear estimate under perfect knowledge."""
    moments = Moments.of(X)
    counts = [m for m in COPIES if m <= len(requests.noise)]
    of = {}
    for m in counts:
        for scheme, issued in requests.schemes.items():
            pooled = issued.first(m)
            llse = Llse.of(moments.mean, moments.covariance, across=pooled.across)
            of[scheme, m] = np.abs(llse.estimate(pooled.copies) - X)
    return Errors(of, {m: float(requests.noise[:m].min()) for m in counts})


def state(errors: Errors) -> tuple[Statement, ...]:
    """Judge the paper's three observations, column by column."""
    return (_slower(errors), _identical(errors), _nearer(errors))


def _slower(errors: Errors) -> Statement:
    leads = [_lead(errors.of["independent", m], errors.of["ours", m]) for m in errors.copies]
    rows = len(next(iter(errors.of.values())))
    medians = zip(errors.copies, errors.medians("ours"), errors.medians("independent"), strict=True)
    return Statement.judged(
        source=SOURCE,
        claim="The cumulative histogram of our scheme reaches 1 much more slowly than that of "
        "independent noise.",
        # Both shares are of T rows and have a deviation of at most 1 / (2 sqrt T) each.
        holds=min(leads) > bound(len(leads)) / np.sqrt(rows),
        measured="median error, ours against independent: "
        + "; ".join(f"M = {m}: {_shown(a)} against {_shown(b)}" for m, a, b in medians),
    )


def _lead(faster: Floats, slower: Floats) -> float:
    """Return by how much one cumulative histogram exceeds another at the other's median."""
    at = np.median(slower, axis=0)
    return float(((faster <= at).mean(axis=0) - 0.5).min())


def _shown(columns: Floats) -> str:
    return " and ".join(f"{value:.3g}" for value in columns)


def _identical(errors: Errors) -> Statement:
    first, last = errors.copies[0], errors.copies[-1]
    ours, others = (
        _distance(errors.of[scheme, first], errors.of[scheme, last])
        for scheme in ("ours", "independent")
    )
    noise = ", ".join(f"{v:.3f} at M = {m}" for m, v in errors.least_noise.items())
    moved = errors.least_noise[first] != errors.least_noise[last]
    return Statement.judged(
        source=SOURCE,
        claim="As copies are added, the cumulative histograms of our scheme stay almost the same.",
        holds=ours < 0.1 and ours < others / 2,
        measured=f"largest distance between M = {first} and M = {last}: {ours:.3f}; independent "
        f"noise: {others:.3f}",
        remark="They move only when a less noisy copy arrives: the least noise was " + noise + "."
        if moved
        else "",
    )


def _distance(one: Floats, other: Floats) -> float:
    """Return the largest distance between two cumulative histograms, over all columns."""
    return float(ks_2samp(one, other, method="asymp").statistic.max())


def _nearer(errors: Errors) -> Statement:
    medians = errors.medians("independent")
    return Statement.judged(
        source=SOURCE,
        claim="As copies are added, the cumulative histograms of independent noise approach the "
        "vertical axis.",
        holds=bool((np.diff(medians, axis=0) < 0).all()),
        measured=f"median error at M = {', '.join(map(str, errors.copies))}: "
        + ", ".join(map(_shown, medians)),
    )


def histograms(table: InputTable, errors: Errors) -> Histograms:
    """Return the share and the cumulative share of rows by error, for every line drawn."""
    found = {}
    for column, name in enumerate(table.columns):
        largest = max(np.quantile(e[:, column], SHOWN) for e in errors.of.values())
        edges = np.linspace(0, largest, BINS + 1)
        for (scheme, m), values in errors.of.items():
            share = np.histogram(values[:, column], bins=edges)[0] / len(values)
            found[name, scheme, m] = {
                "error": edges[1:].tolist(),
                "share": share.tolist(),
                "cumulative": np.cumsum(share).tolist(),
            }
    return found


def draw(table: InputTable, found: Histograms) -> Figure:
    """Draw histograms above cumulative histograms, one column of panels per attribute."""
    drawn = figure(height=5.2)
    panels = drawn.subplots(2, len(table.columns), squeeze=False, sharex="col")
    counts = sorted({m for _, _, m in found})
    for i, name in enumerate(table.columns):
        upper, lower = panels[:, i]
        for scheme, shades in SHADES.items():
            for m, shade in zip(counts, shades, strict=False):
                bins, style = found[name, scheme, m], {"color": shade, "linewidth": 1.3}
                style |= {"linestyle": LINES[scheme], "label": f"{scheme}, M = {m}"}
                error = np.array(bins["error"])
                middle = error - error[0] / 2
                upper.plot(middle, 100 * np.array(bins["share"]), **style)
                lower.plot([0.0, *error], [0.0, *bins["cumulative"]], **style)
        upper.set_title(name)
        upper.set_ylim(bottom=0)
        lower.set(xlabel=f"estimation error: {table.label(i)}", ylim=(0, 1.02))
        lower.set_xlim(left=0)
    panels[0, 0].set_ylabel("rows (% per bin)")
    panels[1, 0].set_ylabel("cumulative share of rows")
    legend(drawn, panels[0, 0], ncols=len(counts), pairs=len(counts))
    return drawn


def columns_of(found: Histograms) -> Columns:
    """Return all histograms as one table."""
    return stacked(
        {"column": column, "scheme": scheme, "copies": m, **bins}
        for (column, scheme, m), bins in found.items()
    )


def run(setting: Setting) -> Result:
    """Measure, state and draw."""
    errors = measure(setting.table.rows, requested(setting))
    found = histograms(setting.table, errors)
    caption = (
        "Absolute error of the best linear estimate, row by row: histograms above, cumulative "
        "histograms below. Darker lines pool more copies; broken lines are independent noise. "
        "Our lines coincide wherever the least noise is the same."
    )
    drawing = Drawing("fig3", caption, lambda: draw(setting.table, found))
    text = "The same copies as in Figure 2, under perfect knowledge."
    title = "Figure 3: distribution of the estimation error"
    return Result(title, text, state(errors), (drawing,), {"fig3": columns_of(found)})
