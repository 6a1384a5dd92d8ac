"""Spark's engine against Spark's own plain copy, on one machine: Java starts once for all of it."""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq

from cornerwave.levels import Level
from cornerwave.vault import Dataset, Vault, write_all_spark

ROWS, PIECE = int(os.environ.get("ROWS", 20_000_000)), 1_000_000
REPEATS = int(os.environ.get("REPEATS", 2))
LEVELS = {"low": Level(0.25), "middle": Level(1.0), "high": Level(4.0)}


def make_source(path: Path) -> None:
    """Write a key and four numbers, a row group for each million rows."""
    random = np.random.default_rng(5)
    mixing, writer = random.normal(size=(4, 4)), None
    for start in range(0, ROWS, PIECE):
        rows = min(PIECE, ROWS - start)
        X = random.normal(size=(rows, 4)) @ mixing
        columns = {"id": np.arange(start, start + rows), **dict(zip("abcd", X.T, strict=True))}
        table = pa.table(columns)
        writer = writer or papq.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=rows)
    assert writer is not None
    writer.close()


def processor_time(pid: int) -> float:
    """Return the processor seconds of a process and of those that it started."""
    parents: dict[int, int] = {}
    ticks: dict[int, float] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = status.read_text().rpartition(")")[2].split()
            own = int(status.parent.name)
            parents[own], ticks[own] = int(fields[1]), sum(map(int, fields[11:15]))
    total = 0.0
    for own, spent in ticks.items():
        above: int | None = own
        while above is not None and above != pid:
            above = parents.get(above)
        total += spent if above == pid else 0.0
    return total / os.sysconf("SC_CLK_TCK")


def alternating(*works: Callable[[], object]) -> list[tuple[float, float]]:
    """Return the shortest wall time of each work, and the least processor time, run in turns."""
    found = [(np.inf, np.inf)] * len(works)
    for _ in range(REPEATS):
        for n, work in enumerate(works):
            wall, spent = time.perf_counter(), processor_time(os.getpid())
            work()
            wall, spent = time.perf_counter() - wall, processor_time(os.getpid()) - spent
            found[n] = (min(found[n][0], wall), min(found[n][1], spent))
    return found


def spark(show: Callable[[str, str, str], None]) -> None:
    """Register and release 2e7 x (key + 4), against Spark's plain copy of it."""
    from cornerwave.engines.spark import connected

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_SUBMIT_ARGS"] = "--driver-memory 3g pyspark-shell"  # all of Spark is in it
    with tempfile.TemporaryDirectory() as name, connected("local[2]") as session:
        session.sparkContext.setLogLevel("ERROR")
        folder = Path(name)
        source = folder / "source.parquet"
        make_source(source)
        frame = session.read.parquet(str(source))
        here = Vault.create(folder / "vault").register("b", source, key="id", spark=session)
        there = Vault.open(folder / "vault").dataset("b", source=frame)

        def plain(copies: int) -> None:
            for n in range(copies):
                frame.write.mode("overwrite").parquet(str(folder / f"plain{n}"))

        def ours(dataset: Dataset, levels: dict[str, Level]) -> None:
            made = [(r, folder / r.recipient) for r in dataset.release_many(levels)]
            write_all_spark(made, spark=session, force=True)

        def register(what: Any) -> None:
            vault = tempfile.mkdtemp(dir=folder)
            Vault.create(Path(vault) / "v").register("b", what, key="id", spark=session)

        one = {"low": LEVELS["low"]}
        works = (
            lambda: plain(1),
            lambda: ours(here, one),
            lambda: ours(there, one),
            lambda: plain(3),
            lambda: ours(here, LEVELS),
            lambda: ours(there, LEVELS),
            lambda: register(source),
            lambda: register(frame),
        )
        copy, parquet, framed, three, parquet3, framed3, known, known_frame = alternating(*works)
    size = f"Spark, {ROWS:.0e} x (key + 4)"
    for what, (wall, spent), (base, base_spent), target in (
        ("one level from Parquet / plain copy", parquet, copy, "<= 1.0"),
        ("one level from a frame / plain copy", framed, copy, "<= 1.5"),
        ("three levels from Parquet / three copies", parquet3, three, "<= 0.6"),
        ("three levels from a frame / three copies", framed3, three, "<= 0.6"),
        ("register from Parquet / plain copy", known, copy, "<= 2"),
        ("register from a frame / plain copy", known_frame, copy, "<= 2"),
    ):
        show(
            f"{size}: {what}",
            f"{wall / base:.2f}",
            f"{target} (processor {spent / base_spent:.2f})",
        )
    show(f"{size}: plain copy, seconds, processor seconds", f"{copy[0]:.0f}; {copy[1]:.0f}", "")
