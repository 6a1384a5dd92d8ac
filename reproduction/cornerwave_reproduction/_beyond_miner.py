"""Beyond the paper: what a miner computes from a copy, compared with noise that ignores K.

    Y = X + Z,  Cov(Z) = v K:          Cov(Y) = (1 + v) K: same correlations, coefficients, axes
    Cov(Z) = v diag(K):                correlations shrink by 1 + v; coefficients and axes turn

Means are unbiased under both. The miner knows v and divides covariances by 1 + v.
"""

import numpy as np
from matplotlib.figure import Figure

from cornerwave.algorithms import parallel
from cornerwave.arrays import Floats
from cornerwave_reproduction._drawing import FOURTH, OURS, Drawing, figure, legend
from cornerwave_reproduction._input_table import cancer
from cornerwave_reproduction._part import Columns, Result, Setting, Statement, interval
from cornerwave_reproduction._schemes import PerColumn

NOISE = (0.1, 0.25, 0.5, 1.0, 2.0)
SCHEMES = {"ours": ("ours", OURS, "o"), "per-column": ("noise per column", FOURTH, "s")}
LOSSES = {
    "means": "error of the means\n(standard deviations)",
    "covariances": "error of the covariances\n(relative)",
    "regression": "error of the coefficients\n(relative)",
    "axis": "angle of the first\nprincipal axis (degrees)",
}


JUDGED = {
    "covariances": "covariances",
    "regression": "regression coefficients",
    "axis": "the first principal axis",
}
Losses = dict[tuple[str, str], Floats]
"""Losses (seeds, levels) by what is computed and by scheme."""


def losses(X: Floats, copy: Floats, noise: float) -> dict[str, float]:
    """Return how far each computation on a copy (T, N) is from the one on X."""
    # Right for noise shaped like K; per column it is right for the variances only.
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
    return {key: np.array(rows) for key, rows in found.items()}


def state(measured: Losses) -> tuple[Statement, ...]:
    """Judge that noise shaped like K costs a miner less, at the highest noise."""
    return tuple(_costs_less(measured, what) for what in JUDGED)


def _costs_less(measured: Losses, what: str) -> Statement:
    (ours, margin), (theirs, their_margin) = (
        tuple(float(x[-1]) for x in interval(measured[what, scheme])) for scheme in SCHEMES
    )
    unit = "°" if what == "axis" else ""
    return Statement.judged(
        source="Beyond the paper",
        claim=f"Noise shaped like K distorts {JUDGED[what]} less than noise of the same size per "
        "column.",
        holds=ours + margin < theirs - their_margin,
        measured=f"error at noise {NOISE[-1]:g}: {ours:.3f} ± {margin:.3f}{unit}, per column "
        f"{theirs:.3f} ± {their_margin:.3f}{unit}",
    )


def draw(measured: Losses) -> Figure:
    """Draw each loss against the noise."""
    drawn = figure(height=4.6)
    panels = drawn.subplots(2, 2, sharex=True).ravel()
    for axes, (what, label) in zip(panels, LOSSES.items(), strict=True):
        for scheme, (name, colour, mark) in SCHEMES.items():
            mean, margin = interval(measured[what, scheme])
            axes.errorbar(
                NOISE, mean, yerr=margin, color=colour, marker=mark, markersize=4, label=name
            )
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
    for axes in panels[2:]:
        axes.set_xlabel("noise v")
    legend(drawn, panels[0], ncols=len(SCHEMES))
    return drawn


def columns_of(measured: Losses) -> Columns:
    """Return means and intervals as columns."""
    numbers: dict[str, list[float]] = {"noise": list(NOISE)}
    for (what, scheme), rows in measured.items():
        mean, margin = interval(rows)
        numbers[f"{what}_{scheme}"] = mean.tolist()
        numbers[f"{what}_{scheme}_margin"] = margin.tolist()
    return numbers


def run(setting: Setting) -> Result:
    """Measure, state and draw, on the breast cancer table."""
    measured = measure(cancer().rows, seeds=setting.effort.miner_seeds, seed=setting.seed)
    caption = (
        "Errors of a miner on the breast cancer table, against the noise: mean over "
        f"{setting.effort.miner_seeds} copies with 95% intervals. Regression: clump thickness on "
        "the other attributes."
    )
    drawing = Drawing("beyond-miner", caption, lambda: draw(measured))
    text = (
        "Noise proportional to K only scales the covariance: the remaining error comes from the "
        "finite number of rows. Noise per column, with the same variances, shrinks correlations."
    )
    numbers = {"beyond-miner": columns_of(measured)}
    return Result("What a miner computes", text, state(measured), (drawing,), numbers)
