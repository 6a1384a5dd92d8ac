"""Sixteen processes release from one vault at once; all copies lie on one path."""

import multiprocessing
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from cornerwave.errors import AlreadyRegistered
from cornerwave.vault import Vault

PROCESSES = 16
ROWS = 4000


@pytest.fixture(scope="module")
def processes():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["cornerwave.vault._vault"])
    return context


def release_some(folder: Path, number: int, barrier) -> None:
    choose = random.Random(number)
    barrier.wait()
    dataset = Vault.open(folder / ".cornerwave").dataset("x")
    for turn in range(2):
        privacy = choose.choice([0.2, 0.333, 0.5, choose.randrange(100, 800) / 1000])
        path = folder / f"{number}-{turn}-{privacy!r}.parquet"
        dataset.release(to=f"r{number}", privacy=privacy, raw=True).write(path, threads=1)


def register_it(folder: Path, number: int, barrier, results) -> None:
    barrier.wait()
    try:
        Vault.open(folder / ".cornerwave").register(f"x{number}", folder / "x.parquet")
        results.put("registered")
    except AlreadyRegistered:
        results.put("refused")


def write_there(folder: Path, number: int, barrier) -> None:
    barrier.wait()
    dataset = Vault.open(folder / ".cornerwave").dataset("x")
    for _ in range(5):
        release = dataset.release(to=f"r{number}", noise=1.0)
        release.write(folder / "same.csv", force=True, threads=1)


@pytest.fixture
def folder(tmp_path, ledger_place):
    random_x = np.random.default_rng(4).standard_normal((ROWS, 2))
    table = pa.table({"a": random_x[:, 0], "b": random_x[:, 0] + random_x[:, 1]})
    pa.parquet.write_table(table, tmp_path / "x.parquet")
    url = ledger_place if isinstance(ledger_place, str) else None
    Vault.create(tmp_path / ".cornerwave", ledger=url)
    return tmp_path


def run(processes, count, work, *arguments):
    barrier = processes.Barrier(count)
    running = [
        processes.Process(target=work, args=(arguments[0], number, barrier, *arguments[1:]))
        for number in range(count)
    ]
    for process in running:
        process.start()
    for process in running:
        process.join()
    assert [process.exitcode for process in running] == [0] * count


@pytest.mark.slow
def test_all_copies_lie_on_one_path(processes, folder, counted):
    dataset = Vault.open(folder / ".cornerwave").register("x", folder / "x.parquet")
    run(processes, PROCESSES, release_some, folder)
    made = {path: float(path.stem.split("-", 2)[2]) for path in folder.glob("*-*.parquet")}
    assert len(made) >= PROCESSES
    assert {(h.recipient, h.spec.level.privacy) for h in dataset.holdings} == {
        (f"r{path.stem.split('-')[0]}", level) for path, level in made.items()
    }
    # Each copy, made again by one process, is the copy that was written.
    levels = sorted(set(made.values()))
    again = {p: dataset.release(to="me", privacy=p, raw=True).to_arrow() for p in levels}
    for path, level in made.items():
        assert pa.parquet.read_table(path).equals(again[level])
    # And their noise is the corner wave's.
    X = columns(pa.parquet.read_table(folder / "x.parquet"))
    W = np.hstack([columns(again[p]) - X for p in levels])
    noise = [p / (1 - p) for p in levels]
    assert not strays(W, np.kron(np.minimum.outer(noise, noise), dataset.frozen.covariance))
    assert strays(W, np.kron(np.diag(noise), dataset.frozen.covariance))
    counted("races")


ALPHA_SIGMAS = 8.0  # two-sided 1e-15 per entry, for at most 72 x 72 of them


def columns(table):
    return np.column_stack([table["a"].to_numpy(), table["b"].to_numpy()])


def strays(sample, promised):
    variances = np.diag(promised)
    spread = np.sqrt((np.outer(variances, variances) + promised**2) / len(sample))
    return bool((abs(sample.T @ sample / len(sample) - promised) > ALPHA_SIGMAS * spread).any())


def test_one_of_many_registrations_of_a_table_wins(processes, folder, counted):
    results = processes.Queue()
    run(processes, 4, register_it, folder, results)
    assert sorted(results.get() for _ in range(4)) == ["refused"] * 3 + ["registered"]
    counted("races")


@pytest.mark.slow
def test_writers_to_one_place_do_not_disturb_each_other(processes, folder, counted):
    dataset = Vault.open(folder / ".cornerwave").register("x", folder / "x.parquet")
    run(processes, 4, write_there, folder)
    right = dataset.release(to="r0", noise=1.0).write(folder / "right.csv")
    assert (folder / "same.csv").read_bytes() == right.read_bytes()
    assert not list(folder.glob(".*.part"))
    counted("races")
