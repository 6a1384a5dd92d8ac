"""Beyond the paper: on-demand generation without its matrices.

The paper's formula inverts an L x L matrix and factors one of M - L (M^3), and weighs
every existing copy for every new one (T M^2). The path is Markov, so two neighbours do.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

from cornerwave.algorithms import on_demand, parallel
from cornerwave.arrays import Floats
from cornerwave.experiments.clock import growth, shortest
from cornerwave.experiments.requests import HIGHEST, LOWEST
from cornerwave.experiments.result import Drawing, Result
from cornerwave.experiments.setting import Setting
from cornerwave.experiments.statement import Statement
from cornerwave.experiments.style import FOURTH, OURS, figure
from cornerwave.experiments.theorems import matrix_formula
from cornerwave.noise import steps


@dataclass(frozen=True)
class Costs:
    """Seconds by number of copies: to plan, and to make half of them for `rows` rows."""

    planned: tuple[int, ...]
    planning: dict[str, list[float]]
    made: tuple[int, ...]
    making: dict[str, list[float]]
    rows: int


def by_matrices(x: Floats, existing: Floats, noise: Floats, rng: np.random.Generator) -> Floats:
    """Return new copies of x (T,) by the paper's formula; `existing` is (L, T) of noise."""
    mean, spread = matrix_formula(noise.tolist(), len(existing))
    white = rng.standard_normal((len(spread), len(x)))
    fresh = np.linalg.cholesky(spread) @ (x.std(ddof=1) * white)
    return np.asarray(x + mean @ existing + fresh)


def measure(setting: Setting) -> Costs:
    """Time both formulas as the number of copies grows; half of them exist."""
    effort, rng = setting.effort, np.random.default_rng([setting.seed, 10])
    planned = _doubling(25, effort.largest_matrix)
    made = _doubling(10, max(10, effort.largest_matrix // 5))
    rows = effort.timed_rows // 5
    planning: dict[str, list[float]] = {"ours": [], "matrices": []}
    making: dict[str, list[float]] = {"ours": [], "matrices": []}
    for m in planned:
        noise = rng.uniform(LOWEST, HIGHEST, m)
        times = shortest(_plans(noise), repeats=effort.timed_repeats)
        for name, time in zip(planning, times, strict=True):
            planning[name].append(time)
    for m in made:
        times = _making(rng.uniform(LOWEST, HIGHEST, m), rows, effort.timed_repeats, rng)
        for name, time in zip(making, times, strict=True):
            making[name].append(time)
    return Costs(planned, planning, made, making, rows)


def _doubling(start: int, most: int) -> tuple[int, ...]:
    return tuple(start * 2**i for i in range(20) if start * 2**i <= max(most, 2 * start))


def _plans(noise: Floats) -> list[Callable[[], object]]:
    half = len(noise) // 2
    return [
        lambda: steps(noise.tolist()),
        lambda: np.linalg.cholesky(matrix_formula(noise.tolist(), half)[1]),
    ]


def _making(noise: Floats, rows: int, repeats: int, rng: np.random.Generator) -> list[float]:
    half, x = len(noise) // 2, rng.standard_normal(rows)
    old, new, K = noise[:half].tolist(), noise[half:].tolist(), np.array([[1.0]])
    copies = parallel(x, noise=old, covariance=K, unsafe_seed=0)
    given = dict(zip(old, copies, strict=True))
    existing = np.array(copies) - x
    return shortest(
        [
            lambda: on_demand(x, noise=new, given=given, covariance=K, unsafe_seed=0, threads=1),
            lambda: by_matrices(x, existing, noise, rng),
        ],
        repeats=repeats,
    )


def state(costs: Costs) -> tuple[Statement, ...]:
    """Judge that the cost of a new copy does not grow with those before it."""
    making = {name: growth(costs.made, times) for name, times in costs.making.items()}
    plans = {name: growth(costs.planned, times) for name, times in costs.planning.items()}
    ratio = costs.making["matrices"][-1] / costs.making["ours"][-1]
    return (
        Statement.judged(
            source="Beyond the paper",
            claim="On demand, reading the nearest neighbours costs time linear in M where the "
            "paper's matrices cost M² per row and M³ to plan.",
            holds=making["ours"] < 1.4 and ratio > 1,
            measured=f"exponents: per row {making['ours']:.2f} (ours), {making['matrices']:.2f} "
            f"(matrices); planning {plans['ours']:.2f} and {plans['matrices']:.2f}. At "
            f"M = {costs.made[-1]} the matrices take {ratio:.1f} times as long",
            remark="At these sizes the matrices are still below their exponents, since their "
            "products run at full speed while their overhead is small; up to some 200 levels "
            "planning with them is no slower.",
        ),
    )


def draw(costs: Costs) -> Figure:
    """Draw planning and making against the number of copies, on logarithmic axes."""
    drawn = figure(height=3.2)
    panels = drawn.subplots(1, 2)
    names = {
        "ours": ("ours: nearest neighbours", OURS, "o"),
        "matrices": ("the paper's matrices", FOURTH, "s"),
    }
    for axes, copies, times, title in (
        (panels[0], costs.planned, costs.planning, "planning"),
        (panels[1], costs.made, costs.making, f"making M/2 copies of {costs.rows:,} rows"),
    ):
        for key, (label, colour, mark) in names.items():
            milliseconds = 1000 * np.array(times[key])
            axes.loglog(copies, milliseconds, mark + "-", color=colour, markersize=4, label=label)
        axes.set(title=title, xlabel="number of copies M", ylabel="CPU time (ms)")
        axes.set_xticks(copies, [str(m) for m in copies])
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 3)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda time, _: f"{time:g}"))
        axes.minorticks_off()
    panels[0].legend(loc="upper left")
    return drawn


def run(setting: Setting) -> Result:
    """Measure, state and draw; the numbers depend on the machine."""
    costs = measure(setting)
    caption = "CPU time of one thread to plan and to make the second half of M copies on demand."
    drawing = Drawing("beyond-cost", caption, lambda: draw(costs))
    numbers = {
        "beyond-planning": {"copies": costs.planned, **costs.planning},
        "beyond-making": {"copies": costs.made, **costs.making},
    }
    text = "Times depend on the machine; the seed does not fix them."
    return Result("On demand without matrices", text, state(costs), (drawing,), numbers)
