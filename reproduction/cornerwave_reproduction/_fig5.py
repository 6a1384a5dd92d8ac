"""Runtime of on-demand generation (Figure 5), and the complexity claims.

Of M copies in total, L exist; the others are generated on demand, in three ways:

    given          from the existing copies, as in the paper (`algorithms.on_demand`)
    regenerating   from the key and the levels alone, as a release does: nothing is stored
    independent    fresh noise for each copy, from NumPy's generator

All run on one thread, in turns, in the same process.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from cornerwave.algorithms import on_demand, parallel
from cornerwave.arrays import Floats
from cornerwave.noise import Reader, Reading, position_ids, steps
from cornerwave_reproduction import _complexity
from cornerwave_reproduction._complexity import Timing, Work, shortest, timed
from cornerwave_reproduction._drawing import INDEPENDENT, OURS, THIRD, Drawing, figure, legend
from cornerwave_reproduction._part import Result, Setting, Statement
from cornerwave_reproduction._requests import HIGHEST, LOWEST
from cornerwave_reproduction._schemes import Independent

SOURCE = "Experiment 2"
SHARES = {"M/4": (0.25, "-"), "M/2": (0.5, "--"), "3M/4": (0.75, ":")}
"""How many of the M copies exist, L, and the line style."""

WAYS = {
    "given": ("ours", OURS),
    "regenerating": ("ours, from the key", THIRD),
    "independent": ("NumPy, indep.", INDEPENDENT),
}
MATLAB_SECONDS = 0.37
"""The paper's time for 23 copies (M = 30, L = 7), on its machine."""

BLOCK_ROWS = 1 << 14


def ways(x: Floats, noise: Floats, *, seed: int) -> dict[str, Work]:
    """Return every way to make the copies of x (T,) that do not exist yet, for every L."""
    K, X, works = np.array([[x.var(ddof=1)]]), x[:, None], dict[str, Work]()
    for share, (part, _) in SHARES.items():
        existing = int(part * len(noise))
        new, wanted = noise[existing:].tolist(), range(existing, len(noise))
        copies = parallel(x, noise=noise[:existing].tolist(), covariance=K, unsafe_seed=seed)
        given = dict(zip(noise[:existing].tolist(), copies, strict=True))
        demand = partial(on_demand, given=given, covariance=K, unsafe_seed=seed, threads=1)
        works[f"given_{share}"] = partial(demand, x, noise=new)
        works[f"regenerating_{share}"] = partial(regenerated, x, noise, wanted)
        works[f"independent_{share}"] = partial(
            Independent().copies, X, noise=new, unsafe_seed=seed
        )
    return works


def regenerated(x: Floats, noise: Floats, wanted: range) -> Floats:
    """Return the wanted copies of x (T,) from a key and the levels in order."""
    reading = Reading(steps(noise.tolist()), list(wanted))
    reader = Reader(reading, bytes(32), columns=1, rows=BLOCK_ROWS)
    deviation = x.std(ddof=1)  # the factor of K for one column
    copies = np.empty((len(wanted), len(x)))
    for start in range(0, len(x), BLOCK_ROWS):
        part = slice(start, min(start + BLOCK_ROWS, len(x)))
        ids = position_ids(part.start, part.stop - part.start)
        for index, white in reader.white(ids):
            copies[index - wanted.start, part] = x[part] + deviation * white[0]
    return copies


def measure(setting: Setting) -> Timing:
    """Time every way at every M and L."""
    effort, rng = setting.effort, np.random.default_rng([setting.seed, 5])
    x = np.resize(setting.table.rows[:, -1], effort.timed_rows)
    totals = range(6, effort.copies + 1, 4)

    def works(total: int) -> dict[str, Work]:
        setting.tick(0.5 / len(totals))
        return ways(x, rng.uniform(LOWEST, HIGHEST, total), seed=setting.seed)

    return timed(totals, works, repeats=effort.timed_repeats)


def state(timing: Timing) -> Iterator[Statement]:
    """Judge what the paper says about its runtimes."""
    last = timing.copies[-1]
    given, again, numpy_ = (timing.seconds[f"{way}_M/4"][-1] for way in WAYS)
    yield Statement.judged(
        source=SOURCE,
        claim=f"On-demand generation is fast: 23 copies of 100,000 rows (M = 30, L = 7) take "
        f"{MATLAB_SECONDS} s.",
        holds=given < MATLAB_SECONDS,
        measured=f"{last - last // 4} copies (M = {last}): {1000 * given:.1f} ms given the others, "
        f"{1000 * again:.1f} ms from the key alone (CPU time of one thread of this machine)",
    )
    powers = {share: timing.growth(f"given_{share}") for share in SHARES}
    yield Statement.judged(
        source=SOURCE,
        claim="The runtime grows about linearly in M, far below the bound of M³.",
        holds=max(powers.values()) < 1.6,
        measured="fitted exponents "
        + ", ".join(f"{power:.2f} (L = {share})" for share, power in powers.items()),
    )
    yield Statement.judged(
        source=SOURCE,
        claim="On-demand generation is only marginally slower than independent noise.",
        holds=given < 1.5 * numpy_,
        measured=f"ours takes {given / numpy_:.2f} of NumPy's time given the other copies, "
        f"{again / numpy_:.2f} from the key alone (M = {last}, L = M/4)",
        remark="Here ours is the faster one, because its generator is." if given < numpy_ else "",
    )


def draw(timing: Timing) -> Figure:
    """Draw the runtimes against M: a colour for each way, a line for each L."""
    drawn = figure(height=4.6)
    axes = drawn.subplots()
    for way, (name, colour) in WAYS.items():
        for share, (_, line) in SHARES.items():
            times = 1000 * np.array(timing.seconds[f"{way}_{share}"])
            axes.plot(timing.copies, times, line, color=colour, label=f"{name}, L = {share}")
    axes.set(xlabel="total number of copies M", ylabel="CPU time for the M - L new copies (ms)")
    axes.set_ylim(bottom=0)
    axes.set_xlim(timing.copies[0] - 1, timing.copies[-1] + 1)
    legend(drawn, axes, ncols=len(WAYS))
    return drawn


def run(setting: Setting) -> Result:
    """Measure, state and draw; the numbers depend on the machine."""
    # The first call of each way compiles or loads it, which is not part of its runtime.
    shortest([*ways(np.arange(100.0), np.linspace(0.1, 1.0, 4), seed=0).values()], repeats=1)
    timing, scaling = measure(setting), _complexity.measure(setting)
    caption = (
        f"Time to generate M - L copies of {setting.effort.timed_rows:,} rows of one column when "
        f"L exist, in CPU time of one thread; shortest of {setting.effort.timed_repeats} runs."
    )
    drawing = Drawing("fig5", caption, lambda: draw(timing))
    text = (
        "Times depend on the machine and differ from run to run, whatever the seed. "
        "All ways ran in turns in one process."
    )
    statements = (*state(timing), *_complexity.state(scaling))
    numbers = {"fig5": timing.columns, **scaling.numbers()}
    return Result("Figure 5: runtime and complexity", text, statements, (drawing,), numbers)
