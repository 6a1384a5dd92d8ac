"""Average normalised estimation error against the number of copies (the paper's Figure 2).

    ours           v_min / (1 + v_min)             Theorem 4
    independent    (1 + sum 1/v_i)^-1              Theorem 3

Copies are asked for one by one; after each, the adversary estimates from all so far.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cornerwave.arrays import Floats
from cornerwave.attack import PAPER_SAMPLES, combination, sample_rows, sample_size
from cornerwave.experiments.joint import Joint, Sample, spread_of_error
from cornerwave.experiments.requests import Requests, asked
from cornerwave.experiments.result import Columns, Drawing, Result
from cornerwave.experiments.setting import Setting
from cornerwave.experiments.statement import Statement, bound
from cornerwave.experiments.style import GREY, INDEPENDENT, OURS, figure
from cornerwave.experiments.tables import Table

LINES = {100: ":", 200: "-.", 300: "--"}
"""How a curve is drawn whose adversary measured the moments on so many N^2 rows."""


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


def measure(
    X: Floats, copies: Sequence[Floats], *, noise: Floats, across: Floats, draws: int, seed: int
) -> Curves:
    """Return the curves of copies of X (T, N) whose noise the adversary takes to be `across`."""
    joint, counts = Joint.of(X, copies), range(1, len(copies) + 1)
    least = [int(noise[:m].argmin()) for m in counts]
    sampled, structured = {}, {}
    for per_entry in PAPER_SAMPLES:
        size = sample_size(X.shape[1], per_entry=per_entry)
        positions = [
            sample_rows(len(X), size=size, unsafe_seed=1000 * seed + draw) for draw in range(draws)
        ]
        samples = [Sample.of(copies, rows) for rows in positions]
        sampled[per_entry] = _averaged(
            [[joint.sampled(sample, noise[:m]) for m in counts] for sample in samples]
        )
        structured[per_entry] = _averaged(
            [[joint.structured(sample, across[:m, :m]) for m in counts] for sample in samples]
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


def _averaged(errors: list[list[Floats]]) -> Floats:
    return np.asarray(np.mean(errors, axis=0))


def state_ours(curves: Curves) -> tuple[Statement, ...]:
    """Judge what the paper says about its own scheme."""
    apart, strays = _strays(curves, curves.least_noise / (1 + curves.least_noise))
    gain = float((curves.least - curves.hindsight).max())
    free = _free_gain(curves)
    return (
        Statement.judged(
            source="Experiment 1, Theorem 4",
            claim="With the corner wave, the error from all copies equals v_min / (1 + v_min).",
            holds=strays <= bound(curves.perfect.size),
            measured=_strayed(apart, strays, curves),
        ),
        Statement.judged(
            source="Experiment 1",
            claim="Using all copies is no better than using the least noisy one: the curves "
            "overlap.",
            holds=gain <= free and bool(np.abs(curves.perfect - curves.least).max() < 1e-9),
            measured="largest distance between the curves "
            f"{np.abs(curves.perfect - curves.least).max():.1e}; even the linear estimate fitted "
            f"to the truth in hindsight gains {gain:.5f} (fitting alone explains {free:.5f})",
        ),
        _drops_statement(curves),
    )


def _strays(curves: Curves, expected: Floats) -> tuple[float, float]:
    """Return the largest difference from theory, as it is and in standard deviations."""
    apart = np.abs(curves.perfect - expected[:, None]).max(axis=1)
    spread = [
        spread_of_error(combination(across).weights, across, rows=curves.rows)
        for across in (curves.across[:m, :m] for m in range(1, len(curves.noise) + 1))
    ]
    return float(apart.max()), float((apart / np.array(spread)).max())


def _strayed(apart: float, strays: float, curves: Curves) -> str:
    allowed = bound(curves.perfect.size)
    return (
        f"largest difference {apart:.4f}; in standard deviations of the sampling {strays:.1f}, "
        f"where {allowed:.1f} are allowed over {curves.perfect.size} comparisons"
    )


def _free_gain(curves: Curves) -> float:
    """Return what a fit of m N coefficients to T rows gains by chance: at most about m N / T."""
    copies, columns = curves.perfect.shape
    fitted = (copies * columns + 1) / curves.rows
    return float(fitted + bound(copies * columns) * np.sqrt(2 * fitted / curves.rows))


def _drops_statement(curves: Curves) -> Statement:
    change = np.diff(curves.perfect, axis=0)
    new_least = np.diff(curves.least_noise) < 0
    still = float(np.abs(change[~new_least]).max(initial=0.0))
    return Statement.judged(
        source="Experiment 1",
        claim="The error drops only when a copy arrives that is less noisy than all before.",
        holds=still < 1e-9 and bool((change[new_least] < 0).all()),
        measured=f"{int(new_least.sum())} drops, each at a new least noise; largest change at any "
        f"other copy {still:.1e}",
    )


def state_independent(curves: Curves) -> tuple[Statement, ...]:
    """Judge what the paper says about independent noise under perfect knowledge."""
    apart, strays = _strays(curves, 1 / (1 + np.cumsum(1 / curves.noise)))
    falls = bool((np.diff(curves.perfect, axis=0) < 0).all())
    start, end = curves.perfect[0].mean(), curves.perfect[-1].mean()
    return (
        Statement.judged(
            source="Experiment 1, Theorem 3",
            claim="With independent noise, the error from all copies equals (1 + sum 1/v)^-1.",
            holds=strays <= bound(curves.perfect.size),
            measured=_strayed(apart, strays, curves),
        ),
        Statement.judged(
            source="Experiment 1",
            claim="With independent noise and perfect knowledge, the error falls with every copy, "
            "and falls dramatically.",
            holds=falls and end < start / 5,
            measured=f"from {start:.3f} with 1 copy to {end:.4f} with {len(curves.noise)}",
        ),
    )


def state_partial(curves: Curves) -> tuple[Statement, ...]:
    """Judge what the paper says about adversaries who measure the moments on samples."""
    few, many = min(PAPER_SAMPLES), max(PAPER_SAMPLES)
    at, least, end = _turn(curves.sampled[few])
    structured = curves.structured[few]
    better = [
        bool((curves.sampled[b] < curves.sampled[a] + 1e-3)[len(curves.noise) // 2 :].all())
        for a, b in pairwise(PAPER_SAMPLES)
    ]
    last = ", ".join(f"{n} N²: {curves.sampled[n][-1].mean():.3f}" for n in PAPER_SAMPLES)
    return (
        Statement.judged(
            source="Experiment 1",
            claim="When the moments are measured on samples, the curve for independent noise "
            "flattens and even rises with many copies.",
            holds=at < len(curves.noise) and end > least,
            measured=f"{few} N² rows: least {least:.3f} at M = {at}, {end:.3f} at "
            f"M = {len(curves.noise)} (mean over columns)",
            remark="True of an adversary who measures the covariance of the stacked copies. One "
            "who knows that noise is shaped like the table needs no covariance, only the mean: "
            f"on as many rows its error falls to {structured[-1].mean():.4f}, against "
            f"{curves.perfect[-1].mean():.4f} under perfect knowledge. Few samples are no "
            "protection.",
        ),
        Statement.judged(
            source="Experiment 1",
            claim="More samples make a better attack.",
            holds=all(better),
            measured=f"error with all copies: {last}; "
            f"least at M = {_turn(curves.sampled[many])[0]} with {many} N² rows",
        ),
    )


def _turn(errors: Floats) -> tuple[int, float, float]:
    """Return where a curve is lowest, how low, and where it ends; the mean over columns."""
    mean = errors.mean(axis=1)
    return int(mean.argmin()) + 1, float(mean.min()), float(mean[-1])


def state_range(curves: Curves) -> Statement:
    """Judge the range of the paper's normalised error, which divides by N twice."""
    columns = curves.perfect.shape[1]
    return Statement.judged(
        source="Metrics of Experiment 1",
        claim="The normalised error, distortion over the trace of K, lies between 0 and 1.",
        holds=bool((curves.perfect >= 0).all() and (curves.perfect <= 1).all()),
        measured=f"per column, between {curves.perfect.min():.4f} and {curves.perfect.max():.4f}",
        remark="The distortion is a mean over columns and the trace a sum, so for N columns "
        f"together the ratio is at most 1/N ({1 / columns:g} here). Column by column, as the "
        "paper draws it and we do, it is at most 1.",
    )


def draw(table: Table, ours: Curves, independent: Curves) -> Figure:
    """Draw a panel of curves per column, and the requested noise below."""
    columns = len(table.columns)
    drawn = figure(height=4.9)
    panels = drawn.subplots(
        2, columns, squeeze=False, sharex=True, sharey="row", height_ratios=(4.2, 1)
    )
    for i in range(columns):
        _draw_curves(panels[0, i], ours, independent, i)
        panels[0, i].set_title(table.columns[i])
        _draw_noise(panels[1, i], ours.noise)
    panels[0, 0].set_ylabel("estimation error\n(share of the variance)")
    panels[1, 0].set_ylabel("noise v")
    panels[0, 0].set_ylim(bottom=0)
    _legend(drawn, panels[0, 0])
    return drawn


def _legend(drawn: Figure, axes: Axes) -> None:
    """Put both schemes' curves for the same knowledge one above the other."""
    handles, labels = axes.get_legend_handles_labels()
    kinds = len(LINES) + 1
    order = [i for kind in range(kinds) for i in (kind, kind + kinds)] + [2 * kinds]
    drawn.legend(
        [handles[i] for i in order],
        [labels[i] for i in order],
        loc="outside lower center",
        ncols=kinds + 1,
        columnspacing=1.1,
        handlelength=1.9,
        fontsize=8,
    )


def _draw_curves(axes: Axes, ours: Curves, independent: Curves, column: int) -> None:
    copies = np.arange(1, len(ours.noise) + 1)
    for curves, colour, name in (
        (ours, OURS, "ours"),
        (independent, INDEPENDENT, "indep."),
    ):
        axes.plot(copies, curves.perfect[:, column], color=colour, label=f"{name}, known")
        for per_entry, line in LINES.items():
            axes.plot(
                copies,
                curves.sampled[per_entry][:, column],
                line,
                color=colour,
                linewidth=1.1,
                label=f"{name}, {per_entry} $N^2$",
            )
    axes.plot(
        copies,
        ours.least[:, column],
        "o",
        markersize=4,
        markerfacecolor="white",
        markeredgecolor=OURS,
        label="ours, least noisy",
    )


def _draw_noise(axes: Axes, noise: Floats) -> None:
    copies = np.arange(1, len(noise) + 1)
    axes.vlines(copies, 0, noise, color=GREY, linewidth=1)
    axes.plot(copies, noise, "o", color=GREY, markersize=2.5)
    axes.set(xlabel="number of copies M", ylim=(0, 1.1), xlim=(0, len(noise) + 1))


def columns_of(table: Table, curves: dict[str, Curves]) -> Columns:
    """Return every curve as columns of one table."""
    numbers: dict[str, list[float]] = {
        "copies": list(range(1, len(next(iter(curves.values())).noise) + 1))
    }
    for scheme, curve in curves.items():
        numbers["noise"] = curve.noise.tolist()
        families = {"perfect": curve.perfect, "least": curve.least, "hindsight": curve.hindsight}
        families |= {f"sampled_{n}": errors for n, errors in curve.sampled.items()}
        families |= {f"structured_{n}": errors for n, errors in curve.structured.items()}
        for family, errors in families.items():
            for name, values in zip(table.columns, errors.T, strict=True):
                numbers[f"{scheme}_{family}_{name}"] = values.tolist()
    return numbers


def both(setting: Setting, requests: Requests) -> tuple[Curves, Curves]:
    """Return the curves of our copies and of independent ones."""
    X, effort = setting.table.rows, setting.effort
    ours, independent = (
        measure(
            X,
            copies,
            noise=requests.noise,
            across=across,
            draws=effort.sample_draws,
            seed=setting.seed,
        )
        for copies, across in (
            (requests.ours, requests.across_ours),
            (requests.independent, requests.across_independent),
        )
    )
    return ours, independent


def run(setting: Setting) -> Result:
    """Measure, state and draw."""
    ours, independent = both(setting, asked(setting))
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
    drawing = Drawing("fig2", caption, lambda: draw(setting.table, ours, independent))
    text = (
        f"{setting.effort.copies} copies are asked for one by one, at noise drawn uniformly from "
        "[0.25, 1], and generated on demand."
    )
    numbers = {"fig2": columns_of(setting.table, {"ours": ours, "independent": independent})}
    title = "Figure 2: estimation error against the number of copies"
    return Result(title, text, statements, (drawing,), numbers)
