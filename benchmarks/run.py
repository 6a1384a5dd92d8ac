"""Speed and memory, as ratios against a baseline measured side by side in one run.

Each figure is the best of several alternating runs of both sides: machines are shared
and noisy, and the best run is the one that was disturbed least.

    python benchmarks/run.py            everything
    python benchmarks/run.py memory     one part: start, arrays, wide, group, moments, rows,
                                        register, demand, paper, files, csv, encoding, mixed,
                                        memory, audit, ledger, commands, spark, editions,
                                        persons
"""

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import duckdb
import numpy as np
import polars
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as papq
from cornerwave_reproduction import shortest

from cornerwave import audit as audits
from cornerwave.algorithms import moments_of, on_demand, parallel
from cornerwave.choices import ChoiceArguments, Choices
from cornerwave.columns import Scale, decide
from cornerwave.ledger import Key
from cornerwave.levels import Level
from cornerwave.noise import ancestors, lattice_index, lattice_path
from cornerwave.outputs import CopyFile, parquet_settings
from cornerwave.sources import open_source
from cornerwave.spec import CopySpec
from cornerwave.spine.rows import Group, RowSecrets, group_rows, row_ids
from cornerwave.spine.survey import Surveyor
from cornerwave.vault import Dataset, Vault, write_all

REPEATS = 7
LEVELS = {"low": Level(0.25), "middle": Level(1.0), "high": Level(4.0)}


def best(*works: Callable[[], object], repeats: int = REPEATS) -> list[float]:
    """Return the shortest time of each work by the wall clock, run in turns.

    What others wrote is on the disk before: our copies wait for their bytes to be there, and
    would wait for those of others, who do not.
    """
    return shortest(works, repeats=repeats, clock=time.perf_counter, before=os.sync)


def show(what: str, value: str, target: str) -> None:
    print(f"{what:<66} {value:>10}   {target}", flush=True)


def numpy_copies(
    X: np.ndarray, K: np.ndarray, noise: np.ndarray, rng: np.random.Generator
) -> list[np.ndarray]:
    """Copies with independent noise, as NumPy's users write them."""
    L = np.linalg.cholesky(K)
    return [X + np.sqrt(v) * (rng.standard_normal(X.shape) @ L.T) for v in noise]


def arrays() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1_000_000, 4)) @ rng.normal(size=(4, 4))
    K, noise = np.cov(X.T), np.linspace(0.25, 1.0, 10)
    parallel(X[:100], noise=noise)
    theirs, user, two, one = best(
        lambda: numpy_copies(X, K, noise, rng),
        lambda: parallel(X, noise=noise),
        lambda: parallel(X, noise=noise, covariance=K, threads=2),
        lambda: parallel(X, noise=noise, covariance=K, threads=1),
    )
    for what, ours, target in (
        ("as a user calls it", user, ">= 5"),
        ("K given, 2 threads", two, ">= 6"),
        ("K given, 1 thread", one, ">= 3.5"),
    ):
        show(f"10 copies of 1e6 x 4, {what}, NumPy's time / ours", f"{theirs / ours:.2f}", target)


def wide() -> None:
    """Tables of 64 and 256 columns, one thread each: NumPy's product is BLAS's."""
    rng, noise = np.random.default_rng(6), np.linspace(0.25, 1.0, 3)
    for columns, rows in ((64, 50_000), (256, 10_000)):
        X = rng.normal(size=(rows, columns)) @ rng.normal(size=(columns, columns))
        K = np.cov(X.T)
        parallel(X[:100], noise=noise, covariance=K)
        theirs, ours = shortest(
            (
                partial(numpy_copies, X, K, noise, rng),
                partial(parallel, X, noise=noise, covariance=K, threads=1),
            ),
            repeats=REPEATS,
            clock=time.process_time,
        )
        show(
            f"3 copies of {rows:,} x {columns}, CPU time, NumPy's / ours",
            f"{theirs / ours:.2f}",
            ">= 1",
        )


def group() -> None:
    """What one thread does to one group of rows, beside what the memory itself takes."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(1 << 18, 4)) @ rng.normal(size=(4, 4))
    table = pa.table({name: X[:, i] for i, name in enumerate("abcd")})
    cells = {
        name: rng.integers(0, size, 1 << 17).astype(str)
        for name, size in (("sex", 2), ("region", 8), ("trade", 40), ("district", 400))
    }
    with tempfile.TemporaryDirectory() as folder:
        vault = Vault.create(Path(folder) / "vault")
        tenths = [CopySpec(Level.of(privacy=k / 10)) for k in range(1, 10)]
        perturb = _group_work(vault, table, [*tenths, CopySpec(Level.of(privacy=0.55))])
        refresh = _group_work(
            vault,
            pa.table({"z": rng.normal(size=1 << 17), **cells}),
            [CopySpec(Level.of(privacy=0.5))],
        )
        there = np.empty_like(X)
        works = {
            "10 levels of 4 columns, ns a value": (perturb.numbers, 10 * X.size, "<= 4.5"),
            "a category cell at privacy 0.5, ns": (refresh.cells, 4 << 17, "<= 15.5"),
            "limit: memcpy, ns a value": (lambda: np.copyto(there, X), X.size, ""),
            "limit: first touch, ns a value": (lambda: np.empty(1 << 25).fill(0), 1 << 25, ""),
        }
        times = shortest(
            [work for work, _, _ in works.values()], repeats=3 * REPEATS, clock=time.thread_time
        )
    for (what, (_, size, target)), took in zip(works.items(), times, strict=True):
        show(what, f"{1e9 * took / size:.2f}", target)


def _group_work(vault: Vault, table: pa.Table, wanted: list[CopySpec]) -> SimpleNamespace:
    """Return what a recipe does to the numbers and to the categories of all rows of a table."""
    dataset = vault.register(f"{table.num_columns} columns", table)
    recipe, schema = dataset.recipe(wanted), dataset.frozen.schema
    secrets = recipe.row_secrets
    rows = Group.of(row_ids(0, table, schema, secrets), table, schema, secrets)
    return SimpleNamespace(
        numbers=lambda: recipe.perturbed(rows), cells=lambda: recipe.refreshed(rows)
    )


def moments() -> None:
    """Exact mean and K, as `parallel` computes them, against np.cov, at several widths and in
    both layouts."""
    for columns in (4, 16, 64, 256):
        rows = 4_000_000 // columns
        X = np.random.default_rng(6).normal(size=(rows, columns))
        for what, table in (("rows", X), ("columns", np.asfortranarray(X))):
            theirs, ours = best(
                partial(np.cov, table, rowvar=False), partial(_mean_and_k, table), repeats=5
            )
            name = f"mean and K of {rows:g} x {columns} by {what}, ours / np.cov"
            show(name, f"{ours / theirs:.2f}", "<= 1")


def _mean_and_k(X: np.ndarray) -> object:
    found = moments_of(X)
    return found.mean, found.covariance


def rows() -> None:
    """Nanoseconds a value, on one thread, to recognise rows and values again."""
    X = np.random.default_rng(7).normal(size=(1 << 18, 4))
    table = pa.table({name: X[:, i] for i, name in enumerate("abcd")})
    schema, secrets = decide(table.schema, Choices()), RowSecrets.of(Key.generate().derive)
    surveyor = Surveyor(schema, (Scale(None),) * 4, secrets)
    ids, places = row_ids(0, table, schema, secrets), np.arange(len(X))
    group, copy = Group.of(ids, table, schema, secrets), np.empty_like(X)
    copying, fingerprint, marks = best(
        lambda: np.copyto(copy, X),
        lambda: group.fingerprint(secrets),
        lambda: surveyor._learned(group, places),
        repeats=25,
    )
    for what, took, target in (
        ("copying 8 bytes", copying, ""),
        ("fingerprint", fingerprint, ""),
        ("fingerprint and marks", fingerprint + marks, "<= 2"),
    ):
        show(f"{what}, 4 columns, ns a value", f"{took / X.size * 1e9:.2f}", target)


def register() -> None:
    """Registering a Parquet file of 1e7 rows against reading it; wide tables in little memory."""
    for what, make, target in (("", make_table, 3), (" + 4 categories", make_mixed, 5)):
        with tempfile.TemporaryDirectory() as name:
            folder, number = Path(name), count()
            make(folder / "source.parquet", 10_000_000)
            theirs, ours = best(
                lambda: papq.read_table(folder / "source.parquet"),  # noqa: B023
                lambda: Vault.create(folder / f"vault{next(number)}").register(  # noqa: B023
                    "bench",
                    folder / "source.parquet",  # noqa: B023
                ),
                repeats=3,
            )
        show(
            f"register 1e7 x 4{what}, ours / pyarrow's read", f"{ours / theirs:.2f}", f"<= {target}"
        )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        X = np.random.default_rng(8).normal(size=(100_000, 256))
        papq.write_table(pa.table({f"x{i}": x for i, x in enumerate(X.T)}), folder / "wide.parquet")
        # from a process that holds little: the peak of a child is at least that of its parent
        code = (
            "import resource, subprocess as s, sys\n"
            "for given in ('init', 'register bench wide.parquet'):\n"
            "    s.run([sys.executable, '-m', 'cornerwave', *given.split()], check=True)\n"
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
        )
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    peak = int(done.stdout.splitlines()[-1]) / 1024
    show("peak memory of registering 1e5 x 256, MB", f"{peak:.0f}", "<= 700")


def demand() -> None:
    """One more copy: given its neighbours, and from the key alone through the vault."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(1_000_000, 4)) @ rng.normal(size=(4, 4))
    K, noise = np.cov(X.T), [0.5]
    given = dict(zip((0.25, 1.0), parallel(X, noise=[0.25, 1.0]), strict=True))
    with tempfile.TemporaryDirectory() as folder:
        vault = Vault.create(Path(folder) / "vault")
        table = pa.table({name: X[:, i] for i, name in enumerate("abcd")})
        dataset = vault.register("bench", table)
        tenth, thousandth = (dataset.release(to="r", privacy=p) for p in (0.7, 0.345))
        tenth.to_arrow()
        theirs, ours, near, far = best(
            lambda: numpy_copies(X, K, np.array(noise), rng),
            lambda: on_demand(X, noise=noise, given=given, covariance=K),
            tenth.to_arrow,
            thousandth.to_arrow,
        )
    show("one copy given its neighbours, ours / NumPy's", f"{ours / theirs:.2f}", "<= 1")
    for what, release, time_ in (("tenth", tenth, near), ("thousandth", thousandth, far)):
        depth = len(ancestors(lattice_path(), [lattice_index(release.level.noise)]))
        show(
            f"one copy at a {what} from the key alone ({depth} streams, checked), ours / NumPy's",
            f"{time_ / theirs:.2f}",
            "<= 1" if what == "tenth" else "<= 2",
        )


def paper() -> None:
    rng = np.random.default_rng(3)
    X, noise = rng.normal(size=(100_000, 1)), rng.uniform(0.25, 1.0, 30)
    K = np.cov(X.T).reshape(1, 1)
    given = dict(zip(noise[:7], parallel(X, noise=noise[:7]), strict=True))
    on_demand(X, noise=noise[7:], given=given)
    theirs, ours = best(
        lambda: numpy_copies(X, K, noise[7:], rng),
        lambda: on_demand(X, noise=noise[7:], given=given, covariance=K),
        repeats=5 * REPEATS,
    )
    show("M=30, L=7: 23 copies of 1e5 x 1, NumPy's time / ours", f"{theirs / ours:.2f}", ">= 3")


def peak_memory() -> int:
    """Return the peak of this process in bytes; getrusage would tell the parent's if larger."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(re.findall(r"VmHWM:\s+(\d+)", status)[0])


def make_table(path: Path, rows: int, piece: int = 1_000_000) -> None:
    """Write a Parquet file of four correlated columns, piece by piece."""
    rng = np.random.default_rng(4)
    mixing = rng.normal(size=(4, 4))
    schema = pa.schema([(name, pa.float64()) for name in "abcd"])
    with papq.ParquetWriter(path, schema, **parquet_settings(schema)) as writer:
        for start in range(0, rows, piece):
            X = rng.normal(size=(min(piece, rows - start), 4)) @ mixing + 100.0
            writer.write_table(pa.table({name: X[:, i] for i, name in enumerate("abcd")}))


def release_three(folder: Path, threads: int | None = None) -> None:
    dataset = Vault.open(folder / "vault").dataset("bench")
    releases = dataset.release_many(LEVELS)
    paths = [folder / f"{release.recipient}.parquet" for release in releases]
    write_all(list(zip(releases, paths, strict=True)), force=True, threads=threads)


def copy_plainly(source: Path, folder: Path) -> None:
    """Write three copies of a file as a user of pyarrow does."""
    for name in LEVELS:
        papq.write_table(
            papq.read_table(source), folder / f"plain-{name}.parquet", compression="zstd"
        )


def write_plain(table: pa.Table, folder: Path) -> None:
    """Write a table in memory three times, with the settings of our copies."""
    for name in LEVELS:
        papq.write_table(
            table,
            folder / f"plain-{name}.parquet",
            row_group_size=1 << 18,
            **parquet_settings(table.schema),
        )


def files() -> None:
    """Releases of 1e7 x 4 from Parquet beside plain copies of the file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, plain = folder / "source.parquet", folder / "plain.parquet"
        make_table(source, 10_000_000)
        dataset = Vault.create(folder / "vault").register("bench", source)
        table = papq.read_table(source)
        one = dataset.release(to="one", privacy=0.5)
        three, plain_three, settings_three, ours, theirs, arrows = best(
            lambda: release_three(folder),
            lambda: copy_plainly(source, folder),
            lambda: write_plain(table, folder),
            lambda: one.write(folder / "one.parquet", force=True),
            lambda: polars.read_parquet(source).write_parquet(plain, compression="zstd"),
            lambda: papq.write_table(papq.read_table(source), plain, compression="zstd"),
            repeats=5,
        )
        show("one copy, ours / polars' read and write", f"{ours / theirs:.2f}", "<= 1.7")
        show("one copy, ours / pyarrow's read and write", f"{ours / arrows:.2f}", "")
        query = f"COPY '{source}' TO '{plain}' (FORMAT parquet, COMPRESSION zstd)"
        [theirs] = best(lambda: duckdb.sql(query), repeats=3)
        show("one copy, ours / DuckDB's COPY", f"{ours / theirs:.2f}", "")
        for what, took, target in (
            ("three plain copies of the file", plain_three, "<= 0.8"),
            ("writes from memory with our settings", settings_three, ""),
        ):
            show(f"3 levels, ours / pyarrow's {what}", f"{three / took:.2f}", target)


def csv() -> None:
    """A copy as CSV beside polars, and the types of a CSV beside reading it as text."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, plain = folder / "source.parquet", folder / "plain.csv"
        make_table(source, 2_000_000)
        dataset = Vault.create(folder / "vault").register("bench", source)
        release = dataset.release(to="one", privacy=0.5)
        copy = release.write(folder / "copy.csv")
        texts = dict.fromkeys("abcd", pa.string())
        ours, theirs, arrows, guess, read = best(
            lambda: release.write(copy, force=True),
            lambda: polars.read_parquet(source).write_csv(plain),
            lambda: pacsv.write_csv(papq.read_table(source), plain),
            lambda: open_source(copy),
            lambda: pacsv.read_csv(copy, convert_options=pacsv.ConvertOptions(column_types=texts)),
            repeats=5,
        )
        show("Parquet to CSV, ours / polars' read and write", f"{ours / theirs:.2f}", "<= 1.3")
        show("Parquet to CSV, ours / pyarrow's read and write", f"{ours / arrows:.2f}", "")
        show("types of a CSV, ours / pyarrow's reading as text", f"{guess / read:.2f}", "")


def encoding() -> None:
    """A group of rows as it is written, in processor time: little depends on other processes."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "source.parquet"
        make_table(path, 1 << 18)
        dataset = Vault.create(Path(name) / "vault").register("bench", path)
        release = dataset.release(to="one", privacy=0.5)
        table, metadata = release.to_arrow(), dataset.recipe([release.spec]).metadata(release.spec)
    frame = polars.DataFrame(table)
    copies = {
        ending: CopyFile(Path(tempfile.gettempdir()) / f"bench.{ending}", table.schema, metadata)
        for ending in ("parquet", "csv")
    }
    for copy in copies.values():
        copy.open()
    works = (
        lambda: copies["parquet"].encode(table),
        lambda: frame.write_parquet(io.BytesIO(), compression="zstd"),
        lambda: papq.write_table(table, io.BytesIO(), compression="zstd"),
        lambda: copies["csv"].encode(table),
        lambda: frame.write_csv(io.BytesIO()),
        lambda: pacsv.write_csv(table, io.BytesIO()),
    )
    found = shortest(works, repeats=REPEATS, clock=time.process_time)
    for copy in copies.values():
        copy.discard()
    for what, (ours, polar, arrow) in (("Parquet", found[:3]), ("CSV", found[3:])):
        show(f"encoding {what}, processor time, ours / polars'", f"{ours / polar:.2f}", "")
        show(f"encoding {what}, processor time, ours / pyarrow's", f"{ours / arrow:.2f}", "")


def make_mixed(path: Path, rows: int, piece: int = 1_000_000) -> None:
    """Write a Parquet file of four numeric and four category columns, piece by piece."""
    rng = np.random.default_rng(5)
    mixing = rng.normal(size=(4, 4))
    kinds = {"sex": 2, "region": 8, "trade": 40, "district": 400}
    schema = pa.schema(
        [(name, pa.float64()) for name in "abcd"] + [(name, pa.string()) for name in kinds]
    )
    with papq.ParquetWriter(path, schema, **parquet_settings(schema)) as writer:
        for start in range(0, rows, piece):
            count = min(piece, rows - start)
            X = rng.normal(size=(count, 4)) @ mixing + 100.0
            columns = {name: pa.array(X[:, i]) for i, name in enumerate("abcd")}
            for name, values in kinds.items():
                texts = pa.array([f"{name} {value}" for value in range(values)])
                codes = np.minimum(rng.geometric(min(0.5, 3 / values), count) - 1, values - 1)
                columns[name] = texts.take(pa.array(codes))
            writer.write_table(pa.table(columns))


def mixed() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_mixed(folder / "source.parquet", 10_000_000)
        dataset = Vault.create(folder / "vault").register("bench", folder / "source.parquet")
        table = papq.read_table(folder / "source.parquet")
        release = dataset.release(to="somebody", privacy=0.5)
        source, plain = folder / "source.parquet", folder / "plain.parquet"
        theirs, copied, ours = best(
            lambda: papq.write_table(
                table,
                plain,
                row_group_size=group_rows(dataset.frozen.schema),
                **parquet_settings(table.schema),
            ),
            lambda: papq.write_table(papq.read_table(source), plain, compression="zstd"),
            lambda: release.write(folder / "copy.parquet", force=True),
            repeats=3,
        )
        what = "Parquet to Parquet, 1e7 x (4 numbers + 4 categories), ours / pyarrow's"
        show(f"{what} write", f"{ours / theirs:.2f}", "<= 1.5")
        show(f"{what} read and write", f"{ours / copied:.2f}", "")


def memory() -> None:
    """Release in fresh processes: their peak memory and time at 1e7 and at 4e7 rows."""
    for what, make in (("4 numbers", make_table), ("4 numbers + 4 categories", make_mixed)):
        found = {}
        for rows in (10_000_000, 40_000_000):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                make(folder / "source.parquet", rows)
                Vault.create(folder / "vault").register("bench", folder / "source.parquet")
                runs = [_in_process("_release", folder) for _ in range(3)]
                found[rows] = tuple(map(min, zip(*runs, strict=True)))
        (small_time, small), (large_time, large) = found.values()
        show(f"{what}, 3 levels, peak memory at 1e7 rows, MB", f"{small / 1e6:.0f}", "< 1000")
        show(f"{what}, 3 levels, peak memory at 4e7 rows, MB", f"{large / 1e6:.0f}", "< 1000")
        show(f"{what}, peak memory, 4e7 / 1e7 rows", f"{large / small:.2f}", "<= 1.10")
        show(f"{what}, time, 4e7 / 1e7 rows", f"{large_time / small_time:.2f}", "<= 4.2")


def _in_process(part: str, folder: Path) -> tuple[float, float]:
    command = [sys.executable, __file__, part, str(folder)]
    seconds, peak = subprocess.run(
        command, check=True, capture_output=True, text=True
    ).stdout.split()
    return float(seconds), float(peak)


def read_four(folder: Path) -> None:
    for name in ("source", *LEVELS):
        papq.read_table(folder / f"{name}.parquet")


def audit_three(folder: Path) -> None:
    copies = [folder / f"{name}.parquet" for name in LEVELS]
    assert audits.audit(folder / "source.parquet", copies).clean


def audit() -> None:
    """Audit three copies of 1e7 x 4 in fresh processes, against reading the four files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_table(folder / "source.parquet", 10_000_000)
        Vault.create(folder / "vault").register("bench", folder / "source.parquet")
        release_three(folder)
        runs = [(*_in_process("_read", folder), *_in_process("_audit", folder)) for _ in range(5)]
    read, _, took, peak = (min(found) for found in zip(*runs, strict=True))
    show("audit of 3 copies of 1e7 x 4, time / pyarrow's reads", f"{took / read:.2f}", "<= 3")
    show("peak memory of that audit, MB", f"{peak / 1e6:.0f}", "< 1000")


def ledger() -> None:
    """One more release of a dataset that 100,000 hold against one that nobody holds, as called."""
    X, numbers = np.random.default_rng(3).normal(size=(2, 100)), count()
    table = pa.table({"a": X[0], "b": X[1]})

    def release(dataset: Dataset) -> None:
        dataset.release(to=f"new {next(numbers)}", noise=1.0).to_arrow()

    with tempfile.TemporaryDirectory() as name:
        empty, full = (
            Vault.create(Path(name) / vault).register("bench", table) for vault in ("empty", "full")
        )
        spec = CopySpec(Level.of(noise=1.0), format="csv")
        full.hold([(f"recipient {n}", spec) for n in range(100_000)])
        theirs, ours = best(lambda: release(empty), lambda: release(full), repeats=5)
        [listed] = best(lambda: full.holdings, repeats=3)
    show("one more release, of a dataset that 1e5 hold / none", f"{ours / theirs:.2f}", "<= 1.2")
    show("listing and checking 1e5 holdings, seconds", f"{listed:.2f}", "")


def commands() -> None:
    """A copy and a registration of 1e7 x 4 as commands, beside polars in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_table(folder / "source.parquet", 10_000_000)
        read = "import polars; table = polars.read_parquet('source.parquet')"
        copy = f"{read}; table.write_parquet('plain.parquet', compression='zstd')"

        def run(*arguments: str) -> None:
            command = [sys.executable, *arguments]
            subprocess.run(command, cwd=folder, check=True, capture_output=True)

        def register() -> None:
            shutil.rmtree(folder / ".cornerwave", ignore_errors=True)
            run("-m", "cornerwave", "init")
            began = time.perf_counter()
            run("-m", "cornerwave", "register", "bench", "source.parquet")
            registered.append(time.perf_counter() - began)

        registered: list[float] = []
        release = "-m cornerwave release bench --to one --privacy 0.5 --out one.parquet --force"
        _, reading = best(register, lambda: run("-c", read), repeats=5)
        ours, polar = best(lambda: run(*release.split()), lambda: run("-c", copy), repeats=5)
    show("a copy on the command line / polars' in a process", f"{ours / polar:.2f}", "<= 1.2")
    show("`register` of it / reading it in a process", f"{min(registered) / reading:.2f}", "<= 2.0")


def start() -> None:
    """How long commands take to start: warm, with empty caches, eight at once."""
    # In a process of its own: the peak memory of a child is at least that of the process it leaves.
    subprocess.run([sys.executable, Path(__file__).with_name("starting.py")], check=True)


def spark() -> None:
    """Register and release on Spark, against Spark's plain copy."""
    import on_spark

    on_spark.spark(show)


def editions() -> None:
    """Appending 1e5 rows to 1e7 beside releasing them, and comparing editions beside reading."""
    rng, rows = np.random.default_rng(12), 10_000_000
    X = rng.normal(size=(rows, 4)) @ rng.normal(size=(4, 4)) + 100.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        papq.write_table(_keyed(X), folder / "old.parquet")
        for choices in ({"drop": ["id"]}, {"key": "id"}):
            vault = Vault.create(folder / f"vault {len(list(folder.iterdir()))}")
            dataset = vault.register("bench", folder / "old.parquet", **choices)
            _grow(dataset, folder, "by key" if "key" in choices else "by position")
        X[::100, 0] += rng.normal(size=rows // 100) * X[:, 0].std() / 4
        for what, order in (("same order", None), ("shuffled", rng.permutation(rows))):
            new = _keyed(X) if order is None else _keyed(X).take(pa.array(order))
            papq.write_table(new, folder / "new.parquet")
            _update(folder, what)


def _keyed(X: np.ndarray, first: int = 0) -> pa.Table:
    ids = (np.arange(first, first + len(X)) * 7919) % (1 << 40)
    return pa.table({"id": ids, **{name: X[:, i] for i, name in enumerate("abcd")}})


def _grow(dataset: Dataset, folder: Path, what: str) -> None:
    rng, numbers, some = np.random.default_rng(13), count(2), 100_000
    spread = np.linalg.cholesky(dataset.frozen.covariance)
    for number in range(2, 3 + REPEATS):
        X = dataset.frozen.mean + rng.normal(size=(some, 4)) @ spread.T
        papq.write_table(_keyed(X, 10_000_000 + number * some), folder / f"{number}.parquet")
    show(
        f"append 1e5 x 4 to 1e7, {what}, ours / a release of the 1e5",
        _both_ratios(
            lambda: dataset.append(folder / f"{next(numbers)}.parquet"),
            lambda: dataset.release(to="r", privacy=0.5, batch=2).write(
                folder / "copy.parquet", force=True
            ),
        ),
        "<= 1.5",
    )


def _both_ratios(ours: Callable[[], object], other: Callable[[], object], repeats: int = 7) -> str:
    """Return the ratio by the wall clock and, in brackets, that of processor time, in one run."""
    wall, processor = [], []
    for _ in range(repeats):
        for work in (ours, other):
            began = time.perf_counter(), time.process_time()
            work()
            wall.append(time.perf_counter() - began[0])
            processor.append(time.process_time() - began[1])
    found = [min(times[::2]) / min(times[1::2]) for times in (wall, processor)]
    return f"{found[0]:.2f} ({found[1]:.2f})"


def _update(folder: Path, what: str) -> None:
    old, new, made = folder / "old.parquet", folder / "new.parquet", []
    for number in range(3):
        vault = Vault.create(folder / f"{what} {number}")
        made.append(vault.register("bench", old, key="id"))
    ratio = _both_ratios(
        lambda: made.pop().update(new),
        lambda: [papq.read_table(path) for path in (old, new)],
        repeats=3,
    )
    show(f"update of 1e7 x 4, 1 % changed, {what}, ours / reading both", ratio, "<= 3")


def make_persons(path: Path, persons: int = 100_000, rows: int = 10) -> None:
    """Write a Parquet file of six numbers, one constant in each person, and two categories."""
    rng = np.random.default_rng(9)
    of = np.repeat(np.arange(persons), rows)
    levels, n = rng.normal(size=(6, persons)), persons * rows
    names = pa.array([f"person {u}" for u in range(persons)])
    columns = {"person": names.take(pa.array(of)), "a": pa.array(levels[0, of])}
    for name, own in zip("bcdef", levels[1:], strict=True):
        columns[name] = pa.array(own[of] + rng.normal(size=n))
    for name, codes in (("sex", rng.integers(0, 2, persons)[of]), ("kind", rng.integers(0, 5, n))):
        columns[name] = pa.array([f"{name} {code}" for code in range(5)]).take(pa.array(codes))
    papq.write_table(pa.table(columns), path, row_group_size=1 << 17)


UNIT: ChoiceArguments = {"unit": "person", "keep_order": True}
NO_UNIT: ChoiceArguments = {"drop": ["person"], "independent_rows": True, "keep_order": True}


def persons() -> None:
    """Register and release 1e5 persons of 10 rows, with their unit and without it."""
    with tempfile.TemporaryDirectory() as name:
        folder, numbers = Path(name), count()
        source = folder / "source.parquet"
        make_persons(source)

        def registered(choices: ChoiceArguments) -> Dataset:
            vault = Vault.create(folder / f"vault {next(numbers)}")
            return vault.register("bench", source, **choices)

        ratio = _both_ratios(lambda: registered(UNIT), lambda: registered(NO_UNIT))
        show("register of 1e6 x 8, 1e5 persons, with / without the unit", ratio, "<= 1.5")
        with_unit, without = (
            registered(choices).release(to="r", privacy=0.5) for choices in (UNIT, NO_UNIT)
        )
        ratio = _both_ratios(
            lambda: with_unit.write(folder / "a.parquet", force=True),
            lambda: without.write(folder / "b.parquet", force=True),
        )
        show("release of it at 0.5, with / without the unit", ratio, "<= 1.6")
        for what, unit in (("with", "unit"), ("without", "no unit")):
            (folder / unit).mkdir()
            peaks = [_in_process(f"_{verb} {unit}", folder)[1] for verb in ("register", "release")]
            shown = "; ".join(f"{peak / 1e6:.0f}" for peak in peaks)
            show(f"peak memory of register; of release {what} the unit, MB", shown, "")


def risks() -> None:
    """What it takes to measure at registration how often rows and persons are found."""
    from cornerwave.risks import LinkageCurve
    from cornerwave.spine import at_risk

    measure, numbers, rng = at_risk.measure_linkage_of, count(), np.random.default_rng(14)

    def normal(rows: int, columns: int) -> pa.Table:
        return pa.table({f"x{i}": x for i, x in enumerate(rng.normal(size=(columns, rows)))})

    towns = pa.array([f"t{k}" for k in rng.integers(0, 20, 50_000)])
    tables = {
        "2e3 x 10": normal(2_000, 10),
        "2e4 x 32": normal(20_000, 32),
        "5e4 x 8 with 3 categories": normal(50_000, 8)
        .append_column("a", towns)
        .append_column("b", towns.take(pa.array(rng.permutation(50_000))))
        .append_column("c", towns.take(pa.array(rng.permutation(50_000)))),
        "1e6 x 8": normal(1_000_000, 8),
    }
    for what, table in tables.items():
        with tempfile.TemporaryDirectory() as name:
            source = Path(name) / "source.parquet"
            papq.write_table(table, source)

            def registered(of: Callable[..., LinkageCurve]) -> None:
                at_risk.measure_linkage_of = of
                Vault.create(f"{name}/vault {next(numbers)}").register("bench", source)  # noqa: B023

            ratio = _both_ratios(
                lambda: registered(measure),
                lambda: registered(lambda *_: LinkageCurve()),
            )
        at_risk.measure_linkage_of = measure
        show(f"register of {what}, with / without measuring linkage", ratio, "<= 1.3")


def register_persons(folder: Path, unit: str) -> None:
    choices = UNIT if unit == "unit" else NO_UNIT
    vault = Vault.create(folder / unit / "vault")
    vault.register("bench", folder / "source.parquet", **choices)


def release_persons(folder: Path, unit: str) -> None:
    release = Vault.open(folder / unit / "vault").dataset("bench").release(to="r", privacy=0.5)
    release.write(folder / unit / "copy.parquet")


PARTS = {
    "start": start,
    "arrays": arrays,
    "wide": wide,
    "group": group,
    "moments": moments,
    "rows": rows,
    "register": register,
    "demand": demand,
    "paper": paper,
    "files": files,
    "csv": csv,
    "encoding": encoding,
    "mixed": mixed,
    "memory": memory,
    "audit": audit,
    "ledger": ledger,
    "commands": commands,
    "spark": spark,
    "editions": editions,
    "persons": persons,
    "risks": risks,
}

if __name__ == "__main__":
    inside: dict[str, Callable[[Path], None]] = {
        "_release": release_three,
        "_read": read_four,
        "_audit": audit_three,
        **{
            f"_register {unit}": partial(register_persons, unit=unit)
            for unit in ("unit", "no unit")
        },
        **{f"_release {unit}": partial(release_persons, unit=unit) for unit in ("unit", "no unit")},
    }
    if sys.argv[1:2] and sys.argv[1] in inside:
        work = inside[sys.argv[1]]
        began = time.perf_counter()
        work(Path(sys.argv[2]))
        took = time.perf_counter() - began
        print(took, peak_memory())
    else:
        for part in sys.argv[1:] or PARTS:
            PARTS[part]()
