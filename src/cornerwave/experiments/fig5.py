"""Runtime of on-demand generation (the paper's Figure 5), and its complexity claims.

Of M copies in total, L exist; the others are generated on demand, in three ways:

    given          from the existing copies, as the paper does (`algorithms.on_demand`)
    regenerating   from the key and the levels alone, as a release does: nothing is stored
    independent    NumPy's generator, fresh noise for each copy

All run on one thread, in turns, in the same process.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from cornerwave.algorithms import on_demand, parallel, sequential
from cornerwave.arrays import Floats
from cornerwave.attack import Independent
from cornerwave.experiments.clock import growth, peak_bytes, shortest, straightness
from cornerwave.experiments.requests import HIGHEST, LOWEST
from cornerwave.experiments.result import Columns, Drawing, Result
from cornerwave.experiments.setting import Setting
from cornerwave.experiments.statement import Statement
from cornerwave.experiments.style import INDEPENDENT, OURS, THIRD, figure
from cornerwave.noise import Reader, Reading, position_ids, steps

SHARES = {"M/4": 0.25, "M/2": 0.5, "3M/4": 0.75}
WAYS = {"given": OURS, "regenerating": THIRD, "independent": INDEPENDENT}
LINES = {"M/4": "-", "M/2": "--", "3M/4": ":"}
MATLAB_SECONDS = 0.37
"""The paper's time for 23 copies (M = 30, L = 7), on its machine."""

BLOCK_ROWS = 1 << 14


@dataclass(frozen=True)
class Timing:
    """Seconds by total number of copies, share that exists, and way."""

    copies: tuple[int, ...]
    seconds: dict[tuple[str, str], list[float]]

    def new(self, share: str) -> list[int]:
        """Return how many copies were generated, for each total."""
        return [m - int(SHARES[share] * m) for m in self.copies]


@dataclass(frozen=True)
class Scaling:
    """Seconds by rows and by columns; bytes beyond the copies by their number."""

    rows: tuple[int, ...]
    row_seconds: list[float]
    columns: tuple[int, ...]
    column_seconds: list[float]
    copies: tuple[int, ...]
    working_bytes: dict[str, list[int]]


def ways(x: Floats, noise: Floats, existing: int, *, seed: int) -> dict[str, Callable[[], object]]:
    """Return the three ways to make the copies of x (T,) that do not exist yet."""
    old, new = noise[:existing].tolist(), noise[existing:].tolist()
    given = dict(zip(old, parallel(x, noise=old, unsafe_seed=seed), strict=True)) if old else {}
    K, X = np.array([[x.var(ddof=1)]]), x[:, None]
    return {
        "given": lambda: on_demand(
            x, noise=new, given=given, covariance=K, unsafe_seed=seed, threads=1
        ),
        "regenerating": lambda: regenerated(x, noise, range(existing, len(noise))),
        "independent": lambda: Independent().copies(X, noise=new, unsafe_seed=seed),
    }


def regenerated(x: Floats, noise: Floats, wanted: range) -> Floats:
    """Return the wanted copies of x (T,) from a key and the levels in order."""
    reading = Reading(steps(noise.tolist()), list(wanted))
    reader = Reader(reading, bytes(32), columns=1, rows=BLOCK_ROWS)
    deviation = x.std(ddof=1)
    copies = np.empty((len(wanted), len(x)))
    for start in range(0, len(x), BLOCK_ROWS):
        part = slice(start, min(start + BLOCK_ROWS, len(x)))
        ids = position_ids(part.start, part.stop - part.start)
        for index, white in reader.white(ids):
            copies[index - wanted.start, part] = x[part] + deviation * white[0]
    return copies


def measure_time(setting: Setting) -> Timing:
    """Time every way at every M and L."""
    effort, rng = setting.effort, np.random.default_rng([setting.seed, 5])
    x = np.resize(setting.table.rows[:, -1], effort.timed_rows)
    totals = tuple(range(6, effort.copies + 1, 4))
    seconds: dict[tuple[str, str], list[float]] = {}
    for total in totals:
        noise = rng.uniform(LOWEST, HIGHEST, total)
        for share, part in SHARES.items():
            works = ways(x, noise, int(part * total), seed=setting.seed)
            times = shortest(list(works.values()), repeats=effort.timed_repeats)
            for way, time in zip(works, times, strict=True):
                seconds.setdefault((share, way), []).append(time)
        setting.tick(0.5 / len(totals))
    return Timing(totals, seconds)


def measure_scaling(setting: Setting) -> Scaling:
    """Time on-demand generation over rows and columns, and weigh all three algorithms."""
    effort, rng = setting.effort, np.random.default_rng([setting.seed, 6])
    rows = tuple(int(effort.timed_rows * f) for f in (0.5, 1, 2, 4))
    columns, copies = (8, 16, 32, 64), (4, 8, 16, 32)
    noise = rng.uniform(LOWEST, HIGHEST, 16)
    tables = [rng.standard_normal(size) for size in rows]
    wide = [rng.standard_normal((effort.timed_rows // 10, n)) for n in columns]
    by_rows = shortest([_demanded(X, noise) for X in tables], repeats=effort.timed_repeats)
    by_columns = shortest([_demanded(X, noise[:4]) for X in wide], repeats=effort.timed_repeats)
    working = {
        name: [_working(name, effort.timed_rows, m, rng) for m in copies] for name in ALGORITHMS
    }
    return Scaling(rows, by_rows, columns, by_columns, copies, working)


def _demanded(X: Floats, noise: Floats) -> Callable[[], object]:
    covariance = np.cov(X.T)
    return lambda: on_demand(
        X, noise=noise.tolist(), covariance=covariance, unsafe_seed=0, threads=1
    )


ALGORITHMS = ("parallel", "sequential", "on demand")


def _working(algorithm: str, rows: int, copies: int, rng: np.random.Generator) -> int:
    """Return the bytes an algorithm takes at most, beyond the copies that it hands over."""
    x, noise = rng.standard_normal(rows), np.sort(rng.uniform(LOWEST, HIGHEST, copies)).tolist()
    K = np.array([[1.0]])
    if algorithm == "sequential":

        def climb() -> None:
            for _copy in sequential(x, noise=noise, covariance=K, unsafe_seed=0, threads=1):
                pass

        return peak_bytes(climb)
    make = parallel if algorithm == "parallel" else on_demand
    peak = peak_bytes(lambda: make(x, noise=noise, covariance=K, unsafe_seed=0, threads=1))
    return max(peak - 8 * rows * copies, 1)


def state_time(timing: Timing) -> tuple[Statement, ...]:
    """Judge what the paper says about its runtimes."""
    last = timing.copies[-1]
    ours, numpy_ = (timing.seconds["M/4", way][-1] for way in ("given", "independent"))
    again = timing.seconds["M/4", "regenerating"][-1]
    powers = [growth(timing.copies, timing.seconds[share, "given"]) for share in SHARES]
    straight = [straightness(timing.copies, timing.seconds[share, "given"]) for share in SHARES]
    new = timing.new("M/4")[-1]
    return (
        Statement.judged(
            source="Experiment 2",
            claim=f"On-demand generation is fast: 23 copies of 100,000 rows (M = 30, L = 7) take "
            f"{MATLAB_SECONDS} s.",
            holds=ours < MATLAB_SECONDS,
            measured=f"{new} copies (M = {last}): {1000 * ours:.1f} ms given the others, "
            f"{1000 * again:.1f} ms from the key alone (CPU time of one thread of this machine)",
        ),
        Statement.judged(
            source="Experiment 2",
            claim="The runtime grows about linearly in M, far below the bound of M³.",
            holds=all(power < 1.6 for power in powers) and float(np.mean(straight)) > 0.8,
            measured="fitted exponents "
            + ", ".join(f"{p:.2f} (L = {s})" for s, p in zip(SHARES, powers, strict=True))
            + f"; straight lines explain {np.mean(straight):.0%} of the spread on average",
        ),
        Statement.judged(
            source="Experiment 2",
            claim="On-demand generation is only marginally slower than independent noise.",
            holds=ours < 1.5 * numpy_,
            measured=f"ours takes {ours / numpy_:.2f} of NumPy's time given the other copies, "
            f"{again / numpy_:.2f} from the key alone (M = {last}, L = M/4)",
            remark="The order is reversed here: ours is faster, since its generator is."
            if ours < numpy_
            else "",
        ),
    )


def state_scaling(scaling: Scaling) -> tuple[Statement, ...]:
    """Judge the complexity claims: time in T and in N, memory in M."""
    by_rows = growth(scaling.rows, scaling.row_seconds)
    by_columns = growth(scaling.columns, scaling.column_seconds)
    ratios = {name: b[-1] / b[0] for name, b in scaling.working_bytes.items()}
    times = scaling.copies[-1] // scaling.copies[0]
    return (
        Statement.judged(
            source="Experiment 2, complexity",
            claim="For T rows together the time grows linearly in T.",
            holds=0.75 < by_rows < 1.25,
            measured=f"fitted exponent {by_rows:.2f} for T = {scaling.rows[0]:,} to "
            f"{scaling.rows[-1]:,}",
        ),
        Statement.judged(
            source="Theorems 6 to 8",
            claim="For N columns the time per row grows at most like N², once K is factored.",
            holds=by_columns < 2.2,
            measured=f"fitted exponent {by_columns:.2f} for N = {scaling.columns[0]} to "
            f"{scaling.columns[-1]}",
        ),
        Statement.judged(
            source="Theorems 6 to 8",
            claim="Beyond the copies themselves, memory is at most M + N² (Algorithm 1), N² "
            "(2) and M² + N² (3) per row.",
            holds=all(ratio < 1.5 for ratio in ratios.values()),
            measured=f"{times} times the copies need "
            + ", ".join(f"{ratio:.2f} ({name})" for name, ratio in ratios.items())
            + " times the working memory",
        ),
    )


def draw(timing: Timing) -> Figure:
    """Draw the runtimes against M: a colour for each way, a line for each L."""
    drawn = figure(height=4.6)
    axes = drawn.subplots()
    for way, colour in WAYS.items():
        for share, line in LINES.items():
            times = 1000 * np.array(timing.seconds[share, way])
            axes.plot(timing.copies, times, line, color=colour, label=f"{_name(way)}, L = {share}")
    axes.set(xlabel="total number of copies M", ylabel="CPU time for the M - L new copies (ms)")
    axes.set_ylim(bottom=0)
    axes.set_xlim(timing.copies[0] - 1, timing.copies[-1] + 1)
    handles, labels = axes.get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=len(WAYS))
    return drawn


def _name(way: str) -> str:
    return {"given": "ours", "regenerating": "ours, from the key", "independent": "NumPy, indep."}[
        way
    ]


def columns_of(timing: Timing) -> Columns:
    """Return the times in seconds as columns."""
    times = {f"{way}_{share}": seconds for (share, way), seconds in timing.seconds.items()}
    return {"copies": timing.copies, **times}


def run(setting: Setting) -> Result:
    """Measure, state and draw; the numbers depend on the machine."""
    shortest([*ways(np.arange(100.0), np.array([1.0, 0.5, 0.7]), 1, seed=0).values()], repeats=1)
    timing, scaling = measure_time(setting), measure_scaling(setting)
    caption = (
        f"Time to generate M - L copies of {setting.effort.timed_rows:,} rows of one column when "
        f"L exist, in CPU time of one thread; shortest of {setting.effort.timed_repeats} runs."
    )
    drawing = Drawing("fig5", caption, lambda: draw(timing))
    text = (
        "Times depend on the machine and differ from run to run; the seed does not fix them. "
        "All ways ran in turns in one process."
    )
    statements = (*state_time(timing), *state_scaling(scaling))
    numbers = {
        "fig5": columns_of(timing),
        "fig5-rows": {"rows": scaling.rows, "seconds": scaling.row_seconds},
        "fig5-columns": {"columns": scaling.columns, "seconds": scaling.column_seconds},
        "fig5-memory": {"copies": scaling.copies, **scaling.working_bytes},
    }
    return Result("Figure 5: runtime and complexity", text, statements, (drawing,), numbers)
