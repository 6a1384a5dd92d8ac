"""How long a command takes with a tiny table: warm, and where nothing is cached yet.

warm        each command, after it has run once
cold        the first `register` and `release` after installing: no bytecode, no compiled code
read-only   the same where nothing can be kept, as in a container: each time anew
eight       eight first releases at once, until the last has ended
worker      what a Spark worker imports, without Spark

Each figure is the best of several runs in processes of their own, by the wall clock.
"""

import os
import subprocess
import sys
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np

RELEASE = "release tiny --to cyd --privacy 0.5 --out cyd.parquet --force"
WARM = {
    "ledger": ("ledger tiny", "<= 0.35"),
    "coalition": ("coalition tiny ann bob", "<= 0.35"),
    "levels": ("levels tiny", "<= 0.35"),
    "release": (RELEASE, "<= 0.5; 130 MB"),
    "register": ("register tiny tiny.csv", ""),
    "inspect": ("inspect tiny.csv", ""),
    "audit": ("audit tiny.csv tiny-ann.parquet tiny-bob.parquet", ""),
}
WORKER = "import cornerwave.engines._on_worker"
"""What a task on a worker of Spark loads before its first row; Spark starts Python anew for it."""
NUMBERS = count()


class Run(NamedTuple):
    """One run of a command, or the best of several."""

    seconds: float
    processor: float
    megabytes: float


def start() -> None:
    """Show how long commands take to start."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _prepare(folder)
        numpy = min(_timed(["-c", "import numpy"], folder)[0] for _ in range(7))
        ours = min(_timed(["-m", "cornerwave", "--help"], folder)[0] for _ in range(7))
        show("cornerwave --help, ours / python -c 'import numpy'", f"{ours / numpy:.2f}", "<= 2")
        for command, (given, target) in WARM.items():
            _show(f"{command}, warm", _best(given, folder, {}, repeats=7), target)
        for command in ("register", "release"):
            given = WARM[command][0]
            first = [_command(given, folder, _empty(folder)) for _ in range(3)]
            _show(f"first {command}", _least(first), "as warm")
            nothing = {**_empty(folder), "PYTHONDONTWRITEBYTECODE": "1", "HOME": "/nowhere"}
            _show(f"{command}, read-only", _best(given, folder, nothing, repeats=3), "as warm")
        show("eight first releases at once, seconds", f"{_eight(folder):.2f}", "")
        worker = [_timed(["-c", WORKER], folder, _empty(folder)) for _ in range(3)]
        _show("what a Spark worker imports, first time", _least(worker), "")
        _show("the same, warm", _least([_timed(["-c", WORKER], folder) for _ in range(3)]), "")


def _prepare(folder: Path) -> None:
    """Register a table of 600 rows, and release it to two recipients."""
    random = np.random.default_rng(1)
    numbers, towns = random.normal(size=(600, 2)), random.choice(["x", "y", "z"], size=600)
    lines = [f"{a:.4f},{b:.4f},{town}" for (a, b), town in zip(numbers, towns, strict=True)]
    (folder / "tiny.csv").write_text("\n".join(["wage,age,town", *lines, ""]), encoding="utf-8")
    for given in ("init", "register tiny tiny.csv"):
        _command(given, folder)
    _command("release tiny --to ann --privacy 0.3 --to bob --privacy 0.6 --out .", folder)


def _empty(folder: Path) -> dict[str, str]:
    """Return settings by which all that is cached goes to a new, empty folder."""
    cache = folder / f"cache{next(NUMBERS)}"
    return {"PYTHONPYCACHEPREFIX": str(cache / "bytecode")}


def _eight(folder: Path) -> float:
    """Return how long eight releases take that start at once and share empty caches."""
    environment, began = {**os.environ, **_empty(folder)}, time.perf_counter()
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "cornerwave", *RELEASE.replace("cyd", f"r{n}").split()],
            cwd=folder,
            env=environment,
            stderr=subprocess.DEVNULL,
        )
        for n in range(8)
    ]
    assert [process.wait() for process in running] == [0] * 8
    return time.perf_counter() - began


def _best(given: str, folder: Path, settings: dict[str, str], *, repeats: int) -> Run:
    return _least([_command(given, folder, settings) for _ in range(repeats)])


def _least(runs: list[Run]) -> Run:
    return Run(*(min(figures) for figures in zip(*runs, strict=True)))


def _command(given: str, folder: Path, settings: dict[str, str] | None = None) -> Run:
    return _timed(["-m", "cornerwave", *given.split()], folder, settings)


def _timed(given: list[str], folder: Path, settings: dict[str, str] | None = None) -> Run:
    """Run Python in a process of its own, as users have it: with bytecode, if that can be kept."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *given],
        cwd=folder,
        env={**kept, **(settings or {})},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    took = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)  # it has been waited for
    assert process.returncode == 0, given
    return Run(took, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def show(what: str, value: str, target: str) -> None:
    print(f"{what:<50} {value:>26}   {target}", flush=True)


def _show(what: str, run: Run, target: str) -> None:
    figures = f"{run.seconds:.2f} ({run.processor:.2f}) {run.megabytes:.0f}"
    show(f"{what}, seconds (processor), MB", figures, target)


if __name__ == "__main__":
    start()
