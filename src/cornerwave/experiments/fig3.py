"""Histograms and cumulative histograms of the estimation error (the paper's Figure 3)."""

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from cornerwave.arrays import Floats
from cornerwave.attack import Llse
from cornerwave.experiments.requests import Requests, asked
from cornerwave.experiments.result import Columns, Drawing, Result
from cornerwave.experiments.setting import Setting
from cornerwave.experiments.statement import Statement, bound
from cornerwave.experiments.style import figure
from cornerwave.experiments.tables import Table
from cornerwave.moments import Moments

COPIES = (5, 10, 20, 30)
BINS = 80
SHOWN = 0.97
"""The share of errors that the axes show."""

SHADES = {
    "ours": ("#9ecae1", "#4a98c9", "#1764ab", "#08306b"),
    "independent": ("#fdbe85", "#fd8d3c", "#d94701", "#7f2704"),
}


@dataclass(frozen=True, eq=False)
class Errors:
    """Absolute errors (T, N) by scheme and number of copies; the least noise by the latter."""

    of: dict[tuple[str, int], Floats]
    least_noise: dict[int, float]

    @property
    def copies(self) -> list[int]:
        """The numbers of copies at hand, ascending."""
        return sorted(self.least_noise)


def measure(X: Floats, requests: Requests) -> Errors:
    """Return |Xhat - X| for the best linear estimate under perfect knowledge."""
    moments = Moments.of(X)
    counts = [m for m in COPIES if m <= len(requests.noise)]
    of = {}
    for m in counts:
        for scheme, copies, across in (
            ("ours", requests.ours, requests.across_ours),
            ("independent", requests.independent, requests.across_independent),
        ):
            llse = Llse.of(moments.mean, moments.covariance, across=across[:m, :m])
            of[scheme, m] = np.abs(llse.estimate(copies[:m]) - X)
    return Errors(of, {m: float(requests.noise[:m].min()) for m in counts})


def state(errors: Errors) -> tuple[Statement, ...]:
    """Judge the paper's three observations, column by column."""
    return (_slower(errors), _identical(errors), _nearer(errors))


def _slower(errors: Errors) -> Statement:
    leads = {m: _lead(errors.of["independent", m], errors.of["ours", m]) for m in errors.copies}
    medians = [
        f"M = {m}: {_medians(errors.of['ours', m])} against {_medians(errors.of['independent', m])}"
        for m in errors.copies
    ]
    rows = len(next(iter(errors.of.values())))
    return Statement.judged(
        source="Experiment 1, Figure 3",
        claim="The cumulative histogram of our scheme reaches 1 much more slowly than that of "
        "independent noise.",
        holds=all(lead > bound(len(leads)) / np.sqrt(rows) for lead in leads.values()),
        measured="median error, ours against independent: " + "; ".join(medians),
    )


def _lead(faster: Floats, slower: Floats) -> float:
    """Return by how much one cumulative histogram is above the other, at the other's median."""
    at = np.median(slower, axis=0)
    return float(((faster <= at).mean(axis=0) - 0.5).min())


def _medians(errors: Floats) -> str:
    return " and ".join(f"{median:.3g}" for median in np.median(errors, axis=0))


def _identical(errors: Errors) -> Statement:
    first, last = errors.copies[0], errors.copies[-1]
    apart = _distance(errors.of["ours", first], errors.of["ours", last])
    others = _distance(errors.of["independent", first], errors.of["independent", last])
    same_noise = errors.least_noise[first] == errors.least_noise[last]
    return Statement.judged(
        source="Experiment 1, Figure 3",
        claim="As copies are added, the cumulative histograms of our scheme stay almost the same.",
        holds=apart < 0.1 and apart < others / 2,
        measured=f"largest distance between M = {first} and M = {last}: {apart:.3f}; independent "
        f"noise: {others:.3f}",
        remark=""
        if same_noise
        else "They move when a less noisy copy arrives, and only then: the least noise was "
        + ", ".join(f"{v:.3f} at M = {m}" for m, v in errors.least_noise.items())
        + ".",
    )


def _nearer(errors: Errors) -> Statement:
    medians = np.array([np.median(errors.of["independent", m], axis=0) for m in errors.copies])
    return Statement.judged(
        source="Experiment 1, Figure 3",
        claim="As copies are added, the cumulative histograms of independent noise approach the "
        "vertical axis.",
        holds=bool((np.diff(medians, axis=0) < 0).all()),
        measured="median error at M = "
        + ", ".join(map(str, errors.copies))
        + ": "
        + ", ".join(" and ".join(f"{value:.3g}" for value in row) for row in medians),
    )


def _distance(one: Floats, other: Floats) -> float:
    """Return the largest distance between two cumulative histograms, over all columns."""
    return max(_kolmogorov(a, b) for a, b in zip(one.T, other.T, strict=True))


def _kolmogorov(one: Floats, other: Floats) -> float:
    points = np.concatenate([one, other])
    below = [np.searchsorted(np.sort(x), points, side="right") / len(x) for x in (one, other)]
    return float(np.abs(below[0] - below[1]).max())


def histograms(table: Table, errors: Errors) -> Columns:
    """Return the share and the cumulative share of rows by error, for every panel."""
    numbers: dict[str, list[object]] = {
        key: [] for key in ("column", "scheme", "copies", "error", "share", "cumulative")
    }
    for column, name in enumerate(table.columns):
        edges = _edges(errors, column)
        for (scheme, m), values in errors.of.items():
            counts, _ = np.histogram(values[:, column], bins=edges)
            share = counts / len(values)
            numbers["column"] += [name] * BINS
            numbers["scheme"] += [scheme] * BINS
            numbers["copies"] += [m] * BINS
            numbers["error"] += edges[1:].tolist()
            numbers["share"] += share.tolist()
            numbers["cumulative"] += np.cumsum(share).tolist()
    return numbers


def _edges(errors: Errors, column: int) -> Floats:
    largest = max(np.quantile(e[:, column], SHOWN) for e in errors.of.values())
    return np.linspace(0, largest, BINS + 1)


def draw(table: Table, numbers: Columns, counts: list[int]) -> Figure:
    """Draw histograms above cumulative histograms, one column of panels per attribute."""
    drawn = figure(height=5.2)
    panels = drawn.subplots(2, len(table.columns), squeeze=False, sharex="col")
    select = {key: np.array(numbers[key]) for key in numbers}
    for i, name in enumerate(table.columns):
        for scheme, shades in SHADES.items():
            for m, shade in zip(counts, shades, strict=False):
                here = (
                    (select["column"] == name)
                    & (select["scheme"] == scheme)
                    & (select["copies"] == m)
                )
                error = select["error"][here]
                middle = error - error[0] / 2
                label = f"{scheme}, M = {m}"
                style = {"color": shade, "linewidth": 1.3, "label": label}
                style["linestyle"] = "-" if scheme == "ours" else (0, (4, 1.2))
                panels[0, i].plot(middle, 100 * select["share"][here], **style)
                cumulative = [0.0, *select["cumulative"][here]]
                panels[1, i].plot([0.0, *error], cumulative, **style)
        panels[0, i].set_title(name)
        panels[0, i].set_ylim(bottom=0)
        panels[1, i].set_xlabel(f"estimation error: {table.label(i)}")
        panels[1, i].set_ylim(0, 1.02)
        panels[1, i].set_xlim(left=0)
    panels[0, 0].set_ylabel("rows (% per bin)")
    panels[1, 0].set_ylabel("cumulative share of rows")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    order = [
        j
        for pair in zip(range(len(counts)), range(len(counts), 2 * len(counts)), strict=True)
        for j in pair
    ]
    drawn.legend(
        [handles[j] for j in order],
        [labels[j] for j in order],
        loc="outside lower center",
        ncols=len(counts),
    )
    return drawn


def run(setting: Setting) -> Result:
    """Measure, state and draw."""
    errors = measure(setting.table.rows, asked(setting))
    numbers = histograms(setting.table, errors)
    caption = (
        "Absolute error of the best linear estimate, row by row: histograms above, cumulative "
        "below. Darker lines pool more copies; broken lines are independent noise. "
        "Our lines coincide wherever the least noise is the same."
    )
    drawing = Drawing("fig3", caption, lambda: draw(setting.table, numbers, errors.copies))
    text = "The same copies as before, under perfect knowledge."
    title = "Figure 3: distribution of the estimation error"
    return Result(title, text, state(errors), (drawing,), {"fig3": numbers})
