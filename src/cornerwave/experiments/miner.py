"""Beyond the paper: what a miner computes from a copy, beside noise that ignores K.

    Y = X + Z,  Cov(Z) = v K:          Cov(Y) = (1 + v) K: same correlations, coefficients, axes
    Cov(Z) = v diag(K):                correlations shrink by 1 + v; coefficients and axes turn

Means are unbiased under both. The miner divides covariances by 1 + v, which it is told.
"""

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from cornerwave.algorithms import parallel
from cornerwave.arrays import Floats
from cornerwave.attack import PerColumn
from cornerwave.experiments.fig4 import interval
from cornerwave.experiments.result import Columns, Drawing, Result
from cornerwave.experiments.setting import Setting
from cornerwave.experiments.statement import Statement
from cornerwave.experiments.style import FOURTH, OURS, figure
from cornerwave.experiments.tables import cancer

NOISE = (0.1, 0.25, 0.5, 1.0, 2.0)
SCHEMES = {"ours": ("ours", OURS, "o"), "per-column": ("noise per column", FOURTH, "s")}
LOSSES = {
    "means": "error of the means\n(standard deviations)",
    "covariances": "error of the covariances\n(relative)",
    "regression": "error of the coefficients\n(relative)",
    "axis": "angle of the first\nprincipal axis (degrees)",
}


@dataclass(frozen=True, eq=False)
class Losses:
    """Losses (seeds, levels) by what is computed and by scheme."""

    of: dict[tuple[str, str], Floats]


def losses(X: Floats, copy: Floats, noise: float) -> dict[str, float]:
    """Return how far each computation on a copy (T, N) is from the one on X."""
    K, K_Y = np.cov(X.T), np.cov(copy.T) / (1 + noise)
    deviation = np.sqrt(np.diag(K))
    return {
        "means": float(np.sqrt((((copy.mean(0) - X.mean(0)) / deviation) ** 2).mean())),
        "covariances": _relative(K_Y, K),
        "regression": _relative(_coefficients(K_Y), _coefficients(K)),
        "axis": _angle(_first_axis(K_Y), _first_axis(K)),
    }


def _relative(found: Floats, truth: Floats) -> float:
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


def _coefficients(K: Floats) -> Floats:
    """Return the regression of the first column on the others."""
    return np.asarray(np.linalg.solve(K[1:, 1:], K[1:, 0]))


def _first_axis(K: Floats) -> Floats:
    return np.asarray(np.linalg.eigh(K)[1][:, -1])


def _angle(one: Floats, other: Floats) -> float:
    return float(np.degrees(np.arccos(np.clip(abs(one @ other), 0.0, 1.0))))


def measure(X: Floats, *, seeds: int, seed: int) -> Losses:
    """Return the losses on copies of X by both schemes, at every level."""
    found: dict[tuple[str, str], list[list[float]]] = {}
    for repeat in range(seeds):
        unsafe_seed = 1000 * seed + repeat
        copies = {
            "ours": parallel(X, noise=NOISE, unsafe_seed=unsafe_seed),
            "per-column": PerColumn().copies(X, noise=NOISE, unsafe_seed=unsafe_seed),
        }
        for scheme, made in copies.items():
            levels = [losses(X, copy, v) for copy, v in zip(made, NOISE, strict=True)]
            for what in LOSSES:
                found.setdefault((what, scheme), []).append([level[what] for level in levels])
    return Losses({key: np.array(rows) for key, rows in found.items()})


def state(measured: Losses) -> tuple[Statement, ...]:
    """Judge that noise shaped like K costs a miner less, at the highest noise."""
    statements = []
    for what, name in (
        ("covariances", "covariances"),
        ("regression", "regression coefficients"),
        ("axis", "the first principal axis"),
    ):
        (ours, margin), (theirs, their_margin) = (
            tuple(float(x[-1]) for x in interval(measured.of[what, scheme])) for scheme in SCHEMES
        )
        unit = "°" if what == "axis" else ""
        statements.append(
            Statement.judged(
                source="Beyond the paper",
                claim=f"Noise shaped like K costs a miner less of {name} than noise of the same "
                "size per column.",
                holds=ours + margin < theirs - their_margin,
                measured=f"loss at noise {NOISE[-1]:g}: {ours:.3f} ± {margin:.3f}{unit}, per "
                f"column {theirs:.3f} ± {their_margin:.3f}{unit}",
            )
        )
    return tuple(statements)


def draw(measured: Losses) -> Figure:
    """Draw each loss against the noise."""
    drawn = figure(height=4.6)
    panels = drawn.subplots(2, 2, sharex=True).ravel()
    for axes, (what, label) in zip(panels, LOSSES.items(), strict=True):
        for scheme, (name, colour, mark) in SCHEMES.items():
            mean, margin = interval(measured.of[what, scheme])
            axes.errorbar(
                NOISE, mean, yerr=margin, color=colour, marker=mark, markersize=4, label=name
            )
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
    for axes in panels[2:]:
        axes.set_xlabel("noise v")
    handles, labels = panels[0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=2)
    return drawn


def columns_of(measured: Losses) -> Columns:
    """Return means and intervals as columns."""
    numbers: dict[str, list[float]] = {"noise": list(NOISE)}
    for (what, scheme), rows in measured.of.items():
        mean, margin = interval(rows)
        numbers[f"{what}_{scheme}"] = mean.tolist()
        numbers[f"{what}_{scheme}_margin"] = margin.tolist()
    return numbers


def run(setting: Setting) -> Result:
    """Measure, state and draw, on the breast cancer table."""
    measured = measure(cancer().rows, seeds=setting.effort.miner_seeds, seed=setting.seed)
    caption = (
        "What a miner loses on the breast cancer table, against the noise: mean over "
        f"{setting.effort.miner_seeds} copies with 95% intervals. Regression: clump thickness on "
        "the other attributes."
    )
    drawing = Drawing("beyond-miner", caption, lambda: draw(measured))
    text = (
        "Noise proportional to K only scales the covariance. What is left of the loss is the "
        "finite number of rows. Per column, with the same variances, correlations shrink."
    )
    numbers = {"beyond-miner": columns_of(measured)}
    return Result("What a miner computes", text, state(measured), (drawing,), numbers)
