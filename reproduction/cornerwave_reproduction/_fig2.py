"""Average normalised estimation error against the number of copies (Figure 2).

    ours           v_min / (1 + v_min)             Theorem 4
    independent    (1 + sum 1/v_i)^-1              Theorem 3

Copies are requested one by one; after each, the adversary estimates from all so far.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cornerwave.arrays import Floats
from cornerwave.attack import PAPER_SAMPLES, sample_rows, sample_size
from cornerwave_reproduction._drawing import (
    GREY,
    HOLLOW,
    INDEPENDENT,
    OURS,
    Drawing,
    figure,
    legend,
)
from cornerwave_reproduction._input_table import InputTable
from cornerwave_reproduction._part import Columns, Result, Setting, Statement, bound
from cornerwave_reproduction._requests import (
    Issued,
    Joint,
    Requests,
    StackedMoments,
    requested,
    spread_of_error,
)

SOURCE = "Experiment 1"
EXACT = 1e-9
"""Equal curves are equal to rounding, because the estimates are: every copy but the least
noisy has weight 0. The grid on which copies lie does not matter here."""

LINES = {100: ":", 200: "-.", 300: "--"}
"""The line style of an adversary who samples so many N^2 rows."""


@dataclass(frozen=True, eq=False)
class Curves:
    """Errors of one scheme, (M, N) each: row m - 1 is for the first m copies."""

    noise: Floats
    across: Floats
    rows: int
    perfect: Floats
    least: Floats
    hindsight: Floats
    sampled: dict[int, Floats]
    structured: dict[int, Floats]

    @property
    def least_noise(self) -> Floats:
        """The least noise among the first m copies, (M,)."""
        return np.minimum.accumulate(self.noise)

    @property
    def families(self) -> dict[str, Floats]:
        """Every curve by its name in the numbers."""
        named = {"perfect": self.perfect, "least": self.least, "hindsight": self.hindsight}
        for kind, curves in (("sampled", self.sampled), ("structured", self.structured)):
            named |= {f"{kind}_{per_entry}": errors for per_entry, errors in curves.items()}
        return named


def measure(setting: Setting, requests: Requests) -> dict[str, Curves]:
    """Return the curves of both schemes."""
    return {
        name: _curves(setting, issued, requests.noise) for name, issued in requests.schemes.items()
    }


def _curves(setting: Setting, issued: Issued, noise: Floats) -> Curves:
    X, across = setting.table.rows, issued.across
    joint, counts = Joint.of(X, issued.copies), range(1, len(noise) + 1)
    least = [int(noise[:m].argmin()) for m in counts]
    sampled, structured = {}, {}
    for per_entry in PAPER_SAMPLES:
        samples = _samples(setting, issued, per_entry)
        sampled[per_entry] = np.mean(
            [[joint.sampled(sample, noise[:m]) for m in counts] for sample in samples], axis=0
        )
        structured[per_entry] = np.mean(
            [[joint.structured(sample, across[:m, :m]) for m in counts] for sample in samples],
            axis=0,
        )
    return Curves(
        noise=noise,
        across=across,
        rows=len(X),
        perfect=np.array([joint.perfect(across[:m, :m]) for m in counts]),
        least=np.array([joint.alone(i, float(noise[i])) for i in least]),
        hindsight=np.array([joint.hindsight(m) for m in counts]),
        sampled=sampled,
        structured=structured,
    )


def _samples(setting: Setting, issued: Issued, per_entry: int) -> list[StackedMoments]:
    """Measure all copies on some of the rows, in several draws of rows."""
    rows, columns = setting.table.rows.shape
    size = sample_size(columns, per_entry=per_entry)
    drawn = [
        sample_rows(rows, size=size, unsafe_seed=1000 * setting.seed + draw)
        for draw in range(setting.effort.sample_draws)
    ]
    return [StackedMoments.of([copy[at] for copy in issued.copies]) for at in drawn]


def state_ours(curves: Curves) -> tuple[Statement, ...]:
    """Judge what the paper says about its own scheme."""
    theory = curves.least_noise / (1 + curves.least_noise)
    claim = "With the corner wave, the error from all copies equals v_min / (1 + v_min)."
    return (
        _follows(curves, theory, theorem="Theorem 4", claim=claim),
        _no_gain(curves),
        _drops(curves),
    )


def state_independent(curves: Curves) -> tuple[Statement, ...]:
    """Judge what the paper says about independent noise under perfect knowledge."""
    theory = 1 / (1 + np.cumsum(1 / curves.noise))
    claim = "With independent noise, the error from all copies equals (1 + sum 1/v)^-1."
    start, end = curves.perfect[0].mean(), curves.perfect[-1].mean()
    return (
        _follows(curves, theory, theorem="Theorem 3", claim=claim),
        Statement.judged(
            source=SOURCE,
            claim="With independent noise and perfect knowledge, the error falls with every copy, "
            "and falls dramatically.",
            holds=bool((np.diff(curves.perfect, axis=0) < 0).all() and end < start / 5),
            measured=f"from {start:.3f} with 1 copy to {end:.4f} with {len(curves.noise)}",
        ),
    )


def _follows(curves: Curves, theory: Floats, *, theorem: str, claim: str) -> Statement:
    """Compare the error under perfect knowledge with a theorem, for every m and column."""
    apart = np.abs(curves.perfect - theory[:, None]).max(axis=1)
    spread = [
        spread_of_error(curves.across[:m, :m], rows=curves.rows)
        for m in range(1, len(curves.noise) + 1)
    ]
    off, comparisons = float((apart / np.array(spread)).max()), curves.perfect.size
    allowed = bound(comparisons)
    return Statement.judged(
        source=f"{SOURCE}, {theorem}",
        claim=claim,
        holds=off <= allowed,
        measured=f"largest difference {apart.max():.4f}, which is {off:.1f} standard deviations of "
        f"the sampling; {allowed:.1f} are allowed over {comparisons} comparisons",
    )


def _no_gain(curves: Curves) -> Statement:
    apart = float(np.abs(curves.perfect - curves.least).max())
    gain = float((curves.least - curves.hindsight).max())
    # A fit of p coefficients to T rows explains about p / T of the variance by chance.
    copies, columns = curves.perfect.shape
    fitted = (copies * columns + 1) / curves.rows
    chance = float(fitted + bound(copies * columns) * np.sqrt(2 * fitted / curves.rows))
    return Statement.judged(
        source=SOURCE,
        claim="All copies together are no better than the least noisy one: the curves overlap.",
        holds=gain <= chance and apart < EXACT,
        measured=f"largest distance between the curves {apart:.1e}; even the linear estimate "
        f"fitted to the truth in hindsight gains only {gain:.5f} ({chance:.5f} is possible by "
        "chance)",
    )


def _drops(curves: Curves) -> Statement:
    change = np.diff(curves.perfect, axis=0)
    new_least = np.diff(curves.least_noise) < 0
    still = float(np.abs(change[~new_least]).max(initial=0.0))
    return Statement.judged(
        source=SOURCE,
        claim="The error drops only when a copy arrives that is less noisy than all before.",
        holds=still < EXACT and bool((change[new_least] < 0).all()),
        measured=f"{int(new_least.sum())} drops, each at a new least noise; largest change at any "
        f"other copy {still:.1e}",
    )


def state_partial(curves: Curves) -> tuple[Statement, ...]:
    """Judge what the paper says about adversaries who measure the moments on samples."""
    few, many = min(PAPER_SAMPLES), max(PAPER_SAMPLES)
    copies, means = len(curves.noise), {n: e.mean(axis=1) for n, e in curves.sampled.items()}
    turn = int(means[few].argmin()) + 1
    # Where few copies are pooled, the samples hardly matter: compare the second half.
    better = [
        bool((curves.sampled[b] < curves.sampled[a] + 1e-3)[copies // 2 :].all())
        for a, b in pairwise(PAPER_SAMPLES)
    ]
    return (
        Statement.judged(
            source=SOURCE,
            claim="When the moments are measured on samples, the curve for independent noise "
            "flattens and even rises with many copies.",
            holds=turn < copies and means[few][-1] > means[few].min(),
            measured=f"{few} N² rows: lowest {means[few].min():.3f} at M = {turn}, "
            f"{means[few][-1]:.3f} at M = {copies} (mean over columns)",
            remark="True for an adversary who measures the covariance of the stacked copies. One "
            "who knows that the noise is shaped like the table needs only the mean: from the same "
            f"rows its error falls to {curves.structured[few][-1].mean():.4f}, against "
            f"{curves.perfect[-1].mean():.4f} under perfect knowledge. Few samples are no "
            "protection.",
        ),
        Statement.judged(
            source=SOURCE,
            claim="More samples make a better attack.",
            holds=all(better),
            measured="error with all copies: "
            + ", ".join(f"{n} N²: {means[n][-1]:.3f}" for n in PAPER_SAMPLES)
            + f"; lowest at M = {int(means[many].argmin()) + 1} with {many} N² rows",
        ),
    )


def state_range(curves: Curves) -> Statement:
    """Judge the range of the paper's normalised error, which divides by N twice."""
    columns = curves.perfect.shape[1]
    return Statement.judged(
        source="Metrics of Experiment 1",
        claim="The normalised error, distortion over the trace of K, lies between 0 and 1.",
        holds=bool((curves.perfect >= 0).all() and (curves.perfect <= 1).all()),
        measured=f"per column, between {curves.perfect.min():.4f} and {curves.perfect.max():.4f}",
        remark="The distortion is a mean over columns and the trace a sum, so for N columns "
        f"together the ratio is at most 1/N (here {1 / columns:g}). Column by column, as the "
        "paper and we draw it, it is at most 1.",
    )


def draw(table: InputTable, curves: Mapping[str, Curves]) -> Figure:
    """Draw a panel of curves per column, and the requested noise below."""
    drawn = figure(height=4.9)
    panels = drawn.subplots(
        2, len(table.columns), squeeze=False, sharex=True, sharey="row", height_ratios=(4.2, 1)
    )
    for i, name in enumerate(table.columns):
        _draw_curves(panels[0, i], curves, i)
        panels[0, i].set_title(name)
        _draw_noise(panels[1, i], curves["ours"].noise)
    panels[0, 0].set_ylabel("estimation error\n(share of the variance)")
    panels[1, 0].set_ylabel("noise v")
    panels[0, 0].set_ylim(bottom=0)
    lines = len(LINES) + 1
    style = {"columnspacing": 1.1, "handlelength": 1.9, "fontsize": 8}
    legend(drawn, panels[0, 0], ncols=lines + 1, pairs=lines, **style)
    return drawn


def _draw_curves(axes: Axes, curves: Mapping[str, Curves], column: int) -> None:
    ours, names = curves["ours"], {"ours": ("ours", OURS), "independent": ("indep.", INDEPENDENT)}
    copies = np.arange(1, len(ours.noise) + 1)
    for scheme, (name, colour) in names.items():
        errors = curves[scheme]
        axes.plot(copies, errors.perfect[:, column], color=colour, label=f"{name}, known")
        for n, line in LINES.items():
            sampled, label = errors.sampled[n][:, column], f"{name}, {n} $N^2$"
            axes.plot(copies, sampled, line, color=colour, linewidth=1.1, label=label)
    axes.plot(copies, ours.least[:, column], "o", label="ours, least noisy", **HOLLOW)


def _draw_noise(axes: Axes, noise: Floats) -> None:
    copies = np.arange(1, len(noise) + 1)
    axes.vlines(copies, 0, noise, color=GREY, linewidth=1)
    axes.plot(copies, noise, "o", color=GREY, markersize=2.5)
    axes.set(xlabel="number of copies M", ylim=(0, 1.1), xlim=(0, len(noise) + 1))


def columns_of(table: InputTable, curves: Mapping[str, Curves]) -> Columns:
    """Return every curve as columns of one table."""
    noise = curves["ours"].noise.tolist()
    numbers: dict[str, list[float]] = {"copies": list(range(1, len(noise) + 1)), "noise": noise}
    for scheme, curve in curves.items():
        for family, errors in curve.families.items():
            numbers |= table.named(f"{scheme}_{family}", errors)
    return numbers


def run(setting: Setting) -> Result:
    """Measure, state and draw."""
    curves = measure(setting, requested(setting))
    ours, independent = curves["ours"], curves["independent"]
    statements = (
        *state_independent(independent),
        *state_ours(ours),
        *state_partial(independent),
        state_range(ours),
    )
    caption = (
        "Average normalised estimation error against the number of copies that the adversary "
        "pools. Solid: the moments are known. Broken: they are measured on 100, 200 or 300 N² "
        f"rows (means of {setting.effort.sample_draws} draws). Circles: ours, from the least "
        "noisy copy alone. Below: the noise of each request."
    )
    drawing = Drawing("fig2", caption, lambda: draw(setting.table, curves))
    text = (
        f"{setting.effort.copies} copies are requested one by one, at noise drawn uniformly from "
        "[0.25, 1], and generated on demand."
    )
    numbers = {"fig2": columns_of(setting.table, curves)}
    title = "Figure 2: estimation error against the number of copies"
    return Result(title, text, statements, (drawing,), numbers)
