"""How time and memory grow (Theorems 6 to 8), measured side by side in one process.

The paper states for one row: time N^3 + M N^2 (Algorithms 1 and 2) or M^3 + N^3 (3),
memory M + N^2, N^2 and M^2 + N^2. K is factored once for all T rows, so that each further
row costs M N^2.
"""

import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cornerwave.algorithms import on_demand, parallel, sequential
from cornerwave.arrays import Floats
from cornerwave.noise import Step, steps
from cornerwave_reproduction._part import Columns, Setting, Statement
from cornerwave_reproduction._requests import HIGHEST, LOWEST

ALGORITHMS = {"parallel": parallel, "sequential": sequential, "on demand": on_demand}

Work = Callable[[], object]


def shortest(
    works: Sequence[Work],
    *,
    repeats: int,
    clock: Callable[[], float] = time.process_time,
    before: Work = lambda: None,
) -> list[float]:
    """Return the shortest time of each work in seconds; what is done `before` does not count.

    They run in turns, there and back, so that none always comes after the same other, whose
    threads may still be busy. CPU time excludes other programs, but adds up threads; the
    shortest run is the one that was disturbed least.
    """
    times = [float("inf")] * len(works)
    turns = list(enumerate(works))
    for _ in range(repeats):
        for i, work in turns:
            before()
            start = clock()
            work()
            times[i] = min(times[i], clock() - start)
        turns.reverse()
    return times


def peak_bytes(work: Work) -> int:
    """Return the most memory that was allocated at once while `work` ran."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def growth(size: Sequence[float], cost: Sequence[float]) -> float:
    """Return the exponent of the power law that fits the costs best.

    >>> round(growth([1, 2, 4], [3, 12, 48]), 6)
    2.0
    """
    return float(np.polyfit(np.log(size), np.log(cost), 1)[0])


@dataclass(frozen=True)
class Timing:
    """Seconds of each way to make copies, for each number of copies."""

    copies: Sequence[int]
    seconds: Mapping[str, list[float]]

    def growth(self, way: str) -> float:
        """Return the exponent of one way."""
        return growth(self.copies, self.seconds[way])

    @property
    def columns(self) -> Columns:
        """The times as columns."""
        return {"copies": self.copies, **self.seconds}


def timed(
    copies: Sequence[int], ways: Callable[[int], Mapping[str, Work]], *, repeats: int
) -> Timing:
    """Time all ways in turns, for each number of copies."""
    seconds: dict[str, list[float]] = {}
    for count in copies:
        works = ways(count)
        for way, time_ in zip(works, shortest([*works.values()], repeats=repeats), strict=True):
            seconds.setdefault(way, []).append(time_)
    return Timing(copies, seconds)


def operations(noise: list[float]) -> Statement:
    """Count the products of copies that reading levels in any order takes (Theorems 6 to 8)."""
    counts = (10, 100, len(noise))
    used = {m: sum(_products(step) for step in steps(noise[:m])) for m in counts}
    return Statement.judged(
        source="Theorems 6 to 8",
        claim="M copies of one row take N³ + M N² operations in parallel or in sequence, and "
        "M³ + N³ on demand.",
        holds=all(total <= 3 * m for m, total in used.items()),
        measured="nonzero weights, per row and column, for M = "
        + ", ".join(f"{m}: {total}" for m, total in used.items()),
        remark="The bound for on demand is far from tight: each new copy takes at most three "
        "products, so N³ + M N² suffices there too. (Its proof writes an NM × NM matrix in O(NM) "
        "time, which is impossible; nothing depends on it.)",
    )


def _products(step: Step) -> int:
    return int(np.count_nonzero((step.weight_below, step.weight_above, step.weight_fresh)))


@dataclass(frozen=True)
class Scaling:
    """Seconds by rows and by columns; bytes beyond the copies by their number."""

    rows: tuple[int, ...]
    row_seconds: list[float]
    columns: tuple[int, ...]
    column_seconds: list[float]
    copies: tuple[int, ...]
    working_bytes: dict[str, list[int]]

    def numbers(self) -> dict[str, Columns]:
        """Return the measurements as files of columns."""
        return {
            "fig5-rows": {"rows": self.rows, "seconds": self.row_seconds},
            "fig5-columns": {"columns": self.columns, "seconds": self.column_seconds},
            "fig5-memory": {"copies": self.copies, **self.working_bytes},
        }


def measure(setting: Setting) -> Scaling:
    """Time on-demand generation over rows and columns; measure the memory of all algorithms."""
    effort, rng = setting.effort, np.random.default_rng([setting.seed, 6])
    rows = tuple(int(effort.timed_rows * f) for f in (0.5, 1, 2, 4))
    columns, copies = (8, 16, 32, 64), (4, 8, 16, 32)
    noise = rng.uniform(LOWEST, HIGHEST, 16)
    tall = [rng.standard_normal(size) for size in rows]
    wide = [rng.standard_normal((effort.timed_rows // 10, n)) for n in columns]
    by_rows = shortest([_demand(X, noise) for X in tall], repeats=effort.timed_repeats)
    by_columns = shortest([_demand(X, noise[:4]) for X in wide], repeats=effort.timed_repeats)
    working = {
        name: [_working_bytes(name, effort.timed_rows, m, rng) for m in copies]
        for name in ALGORITHMS
    }
    return Scaling(rows, by_rows, columns, by_columns, copies, working)


def _demand(X: Floats, noise: Floats) -> Work:
    K, levels = np.cov(X.T), noise.tolist()  # K is factored anew in each call: N^3, once per T
    return lambda: on_demand(X, noise=levels, covariance=K, unsafe_seed=0, threads=1)


def _working_bytes(algorithm: str, rows: int, copies: int, rng: np.random.Generator) -> int:
    """Return the most bytes that an algorithm allocates, beyond the copies that it returns."""
    x, noise = rng.standard_normal(rows), np.sort(rng.uniform(LOWEST, HIGHEST, copies)).tolist()

    def make() -> None:
        made = ALGORITHMS[algorithm](x, noise=noise, covariance=np.eye(1), unsafe_seed=0, threads=1)
        for _copy in made:  # `sequential` makes one at a time and keeps only the last
            pass

    returned = 0 if algorithm == "sequential" else 8 * rows * copies
    return max(peak_bytes(make) - returned, 1)


def state(scaling: Scaling) -> Iterator[Statement]:
    """Judge the complexity claims: time in T and in N, memory in M."""
    by_rows = growth(scaling.rows, scaling.row_seconds)
    yield Statement.judged(
        source="Experiment 2, complexity",
        claim="For T rows together the time grows linearly in T.",
        holds=0.75 < by_rows < 1.25,
        measured=f"fitted exponent {by_rows:.2f} for T = {scaling.rows[0]:,} to "
        f"{scaling.rows[-1]:,}",
    )
    by_columns = growth(scaling.columns, scaling.column_seconds)
    yield Statement.judged(
        source="Theorems 6 to 8",
        claim="For N columns the time per row grows at most like N², once K is factored.",
        holds=by_columns < 2.2,
        measured=f"fitted exponent {by_columns:.2f} for N = {scaling.columns[0]} to "
        f"{scaling.columns[-1]}",
    )
    ratios = {name: found[-1] / found[0] for name, found in scaling.working_bytes.items()}
    yield Statement.judged(
        source="Theorems 6 to 8",
        claim="Beyond the copies themselves, memory is at most M + N² (Algorithm 1), N² (2) and "
        "M² + N² (3) per row.",
        holds=all(ratio < 1.5 for ratio in ratios.values()),
        measured=f"{scaling.copies[-1] // scaling.copies[0]} times the copies need "
        + ", ".join(f"{ratio:.2f} ({name})" for name, ratio in ratios.items())
        + " times the working memory",
    )
