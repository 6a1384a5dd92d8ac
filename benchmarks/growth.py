"""How processor time grows with recipients, copies, editions and columns, through public calls.

    python benchmarks/growth.py                     everything, up to 100,000 of each
    python benchmarks/growth.py --most 10000        a smaller grid, for shared machines
    python benchmarks/growth.py release console     some parts: release, coalition, service,
                                                    console, report, ranges, editions, wide

Each line has the processor time of one call (all threads, the least of several) at every size,
and the exponent: the slope of log time over log size between the two largest sizes measured.
What takes longer than LONGEST at a size is not measured at the next one. Ledgers are
filled by the product's own batch calls, which are not measured.
"""

import argparse
import math
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq

from cornerwave.access import Grant, Recipient, Request, Sharing
from cornerwave.inspection import inspect
from cornerwave.ledger import Record, now, written
from cornerwave.levels import Level
from cornerwave.report import write_report
from cornerwave.server import application, first_link
from cornerwave.sources import open_source
from cornerwave.spec import CopySpec
from cornerwave.vault import Dataset, Vault

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it prefers another HTTP library
    from starlette.testclient import TestClient

SIZES = (1, 1_000, 10_000, 100_000)
EDITIONS = (1, 10, 50, 365)
COLUMNS = (10, 100, 1_000)
LONGEST = 60.0
"""Seconds: what takes longer is not tried at a larger size."""
REPEATS = 3
LEVELS = 200
"""So many levels are held: recipients share them."""
HERE = "http://127.0.0.1:8000"
PASSWORD = "a password for benchmarks"

Works = Mapping[str, Callable[[], object]]


@dataclass
class Growth:
    """Processor times of calls by size."""

    most: int
    found: dict[str, dict[int, float]] = field(default_factory=dict)

    def sizes(self, of: tuple[int, ...] = SIZES) -> list[int]:
        return [size for size in of if size <= self.most]

    def measure(self, size: int, works: Works) -> None:
        for what, work in works.items():
            times = self.found.setdefault(what, {})
            if max(times.values(), default=0.0) <= LONGEST:
                times[size] = least(work)

    def show(self) -> None:
        for what, times in self.found.items():
            cells = "  ".join(f"{size:>7,}: {_seconds(took):>8}" for size, took in times.items())
            print(f"{what:<44} {cells}  exponent {exponent(times):>5}", flush=True)
        self.found.clear()


def least(work: Callable[[], object]) -> float:
    """Return the least processor time of some runs, of one if it takes long."""
    times: list[float] = []
    while len(times) < REPEATS and sum(times) < LONGEST / 10:
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)


def exponent(times: Mapping[int, float]) -> str:
    if len(times) < 2:
        return "-"
    (small, before), (large, after) = list(times.items())[-2:]
    return f"{math.log(after / before) / math.log(large / small):.2f}"


def _seconds(took: float) -> str:
    return f"{took * 1e3:.1f} ms" if took < 1 else f"{took:.2f} s"


# --- a vault with many recipients ---------------------------------------------------------


def small_table(rows: int = 600) -> pa.Table:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2, rows))
    return pa.table({"a": X[0], "b": X[0] + X[1], "city": rng.choice(["Ulm", "Bonn"], rows)})


@dataclass(frozen=True)
class Filled:
    """A vault whose one dataset is held by `size` recipients, who have grants and ask for more."""

    vault: Vault
    dataset: Dataset
    size: int

    def held_by(self, number: int) -> str:
        return f"recipient {number}"


@contextmanager
def filled(size: int) -> Iterator[Filled]:
    """Make such a vault: holdings in one call, what the service keeps in one transaction."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        papq.write_table(small_table(), folder / "table.parquet")
        vault = Vault.create(folder / "vault")
        dataset = vault.register("table", folder / "table.parquet")
        made = Filled(vault, dataset, size)
        levels = np.linspace(0.2, 0.9, min(size, LEVELS)).round(3)
        known = [Level.of(privacy=float(share)).on_lattice() for share in levels]
        specs = [CopySpec(level, format="parquet") for level in known]
        dataset.hold([(made.held_by(n), specs[n % len(specs)]) for n in range(size)])
        _fill_records(made, specs)
        yield made


def _fill_records(made: Filled, specs: list[CopySpec]) -> None:
    at = written(now())
    ends = written(now() + timedelta(days=90))
    with made.vault.under("owner").records.together() as records:
        for n in range(made.size):
            who, id = made.held_by(n), f"{n:012x}"
            token = {"mac": "0" * 64, "expires": ends, "revoked": None}
            records.put(Recipient(who, at).record())
            records.put(Grant(id, made.dataset.id, who, specs[n % len(specs)], at).record())
            records.put(Record("token", id, who, at, token))
            records.put(Request(id, made.dataset.id, "table", who, 0.4, "a study", at).record())
            records.note(f"granted table to {who}")  # as each grant in the console


# --- by recipients ------------------------------------------------------------------------


def by_recipients(growth: Growth, works: Callable[[Filled], Works]) -> None:
    for size in growth.sizes():
        with filled(size) as made:
            growth.measure(size, works(made))
    growth.show()


def release(growth: Growth) -> None:
    def works(made: Filled) -> Works:
        numbers = count()
        of = made.dataset
        return {
            "Dataset.release": lambda: of.release(to=f"new {next(numbers)}", noise=1.0).to_arrow()
        }

    by_recipients(growth, works)


def coalition(growth: Growth) -> None:
    def works(made: Filled) -> Works:
        everybody = [made.held_by(n) for n in range(made.size)]
        return {
            "coalition of everybody": lambda: made.dataset.coalition(everybody),
            "coalition of three": lambda: made.dataset.coalition(everybody[:3]),
        }

    by_recipients(growth, works)


def report(growth: Growth) -> None:
    def works(made: Filled) -> Works:
        page = made.vault.path.parent / "report.html"
        return {"report": lambda: write_report(made.dataset, page, force=True)}

    by_recipients(growth, works)


# --- the service --------------------------------------------------------------------------


@contextmanager
def served(made: Filled) -> Iterator[tuple[TestClient, TestClient]]:
    """Serve a vault; give a browser that the owner is signed in with, and a recipient's client."""
    app = application(made.vault, cache_bytes=10**9)
    browser, client = (
        TestClient(
            app,
            base_url=HERE,
            headers={"sec-fetch-site": "same-origin"},
            follow_redirects=False,
            client=("127.0.0.1", 50_000),
        )
        for _ in range(2)
    )
    with browser:
        link = first_link(made.vault, HERE)
        assert link is not None
        [secret] = parse_qs(urlsplit(link).query)["link"]
        fields = {"link": secret, "password": PASSWORD, "again": PASSWORD}
        assert browser.post("/console/welcome", data=fields).status_code == 303
        token = Sharing(made.vault).new_token(made.held_by(0), days=30)
        client.headers["authorization"] = f"Bearer {token}"
        yield browser, client


def get(client: TestClient, path: str) -> Callable[[], object]:
    def work() -> None:
        answer = client.get(path)
        assert answer.status_code < 400, answer.text

    return work


def post(client: TestClient, path: str, fields: Mapping[str, str]) -> Callable[[], object]:
    def work() -> None:
        answer = client.post(path, data=dict(fields))
        assert answer.status_code in (200, 303), answer.text

    return work


def by_recipients_served(
    growth: Growth, works: Callable[[Filled, TestClient, TestClient], Works]
) -> None:
    for size in growth.sizes():
        with filled(size) as made, served(made) as (browser, client):
            growth.measure(size, works(made, browser, client))
    growth.show()


def service(growth: Growth) -> None:
    """What recipients ask of the service, and what owners do there, and in Python."""

    def works(made: Filled, browser: TestClient, client: TestClient) -> Works:
        who, numbers, sharing = made.held_by(made.size // 2), count(), Sharing(made.vault)
        granting = f"/console/datasets/{made.dataset.id}/grant"
        return {
            "GET /v1/datasets": get(client, "/v1/datasets"),
            "GET /v1/requests": get(client, "/v1/requests"),
            "GET /v1/datasets/table/copy": get(client, "/v1/datasets/table/copy"),
            "POST grant": post(browser, granting, {"recipient": who, "privacy": "0.5"}),
            "POST token": post(browser, "/console/recipient/token", {"name": who, "days": "30"}),
            "Sharing.add": lambda: sharing.add(f"new {next(numbers)}"),
        }

    by_recipients_served(growth, works)


def console(growth: Growth) -> None:
    def works(made: Filled, browser: TestClient, _: TestClient) -> Works:
        of = f"/console/datasets/{made.dataset.id}"
        return {
            "console: recipients": get(browser, "/console/recipients"),
            "console: a recipient": get(browser, "/console/recipient?name=recipient%200"),
            "console: first page": get(browser, "/console"),
            "console: a dataset (requests, grants)": get(browser, of),
            "console: collusion explorer": get(browser, f"{of}/explore"),
        }

    by_recipients_served(growth, works)


def ranges(growth: Growth) -> None:
    """A few bytes of a copy, by how many files are in the cache."""
    for size in growth.sizes():
        with filled(1) as made:
            cache = made.vault.path / "cache"
            cache.mkdir()
            for n in range(size):
                (cache / f"{n:040x}.parquet").write_bytes(b"0" * 16)
            with served(made) as (_, client):
                client.headers["range"] = "bytes=0-99"
                work = get(client, "/v1/datasets/table/copy")
                work()  # makes the copy
                [copy] = [path for path in cache.glob("*.parquet") if path.stat().st_size > 16]
                works: Works = {
                    "range request by cached files": work,
                    "the same, of a copy that is made for it": partial(_anew, copy, work),
                }
                growth.measure(size, works)
    growth.show()


def _anew(copy: Path, work: Callable[[], object]) -> None:
    copy.unlink()
    work()


def editions(growth: Growth) -> None:
    """A whole release after so many daily appends, or updates, of a table with a key."""
    for what, grow in (("appends", _append), ("updates", _update)):
        with tempfile.TemporaryDirectory() as name:
            folder, done = Path(name), 0
            vault = Vault.create(folder / "vault")
            papq.write_table(_keyed(0, 20_000), folder / "0.parquet")
            dataset = vault.register("table", folder / "0.parquet", key="id")
            for size in growth.sizes(EDITIONS if what == "appends" else EDITIONS[:-1]):
                while done < size:
                    done += 1
                    grow(dataset, folder, done)
                work = partial(_whole, vault.dataset("table"), folder / "copy.parquet")
                growth.measure(size, {f"release after daily {what}": work})
        growth.show()


def _whole(dataset: Dataset, place: Path) -> None:
    dataset.release(to="partner", privacy=0.5).write(place, force=True)


def _keyed(first: int, rows: int, *, changed: int = 0) -> pa.Table:
    rng = np.random.default_rng(first)
    X = rng.normal(size=(4, rows))
    if changed:
        X[0, :: max(1, rows // 100)] += np.random.default_rng(changed).normal(size=100) / 5
    return pa.table({"id": np.arange(first, first + rows), **{f"c{i}": X[i] for i in range(4)}})


def _append(dataset: Dataset, folder: Path, number: int) -> None:
    papq.write_table(_keyed(20_000 + 100 * number, 100), folder / f"{number}.parquet")
    dataset.append(folder / f"{number}.parquet")


def _update(dataset: Dataset, folder: Path, number: int) -> None:
    papq.write_table(_keyed(0, 20_000, changed=number), folder / f"u{number}.parquet")
    dataset.update(folder / f"u{number}.parquet")


def wide(growth: Growth) -> None:
    """Register and inspect 100,000 rows of many columns, each in a process of its own."""
    rows = min(100_000, growth.most)
    for what in ("register", "inspect"):
        memory: dict[int, float] = {}
        for columns in COLUMNS:
            with tempfile.TemporaryDirectory() as name:
                path = Path(name) / "table.parquet"
                rng = np.random.default_rng(2)
                factors = rng.normal(size=(rows, 5))
                papq.write_table(
                    pa.table(
                        {
                            f"c{i}": factors @ rng.normal(size=5) + rng.normal(size=rows)
                            for i in range(columns)
                        }
                    ),
                    path,
                )
                command = [sys.executable, __file__, f"_{what}", str(path)]
                out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                took, memory[columns] = map(float, out.split())
                growth.found.setdefault(f"{what}, by columns", {})[columns] = took
        growth.show()
        for columns, peak in memory.items():
            print(f"{what}, {columns:,} columns, peak memory: {peak:,.0f} MB", flush=True)


def _alone(what: str, path: Path) -> None:
    began = time.process_time()
    if what == "_register":
        Vault.create(path.parent / "vault").register("table", path)
    else:
        inspect(open_source(path))
    took = time.process_time() - began
    print(took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


PARTS = (release, coalition, service, console, report, ranges, editions, wide)


def main() -> None:
    if len(sys.argv) == 3 and sys.argv[1].startswith("_"):
        _alone(sys.argv[1], Path(sys.argv[2]))
        return
    names = [part.__name__ for part in PARTS]
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("parts", nargs="*", choices=[[], *names], metavar="PART", help=str(names))
    parser.add_argument("--most", type=int, default=SIZES[-1], help="the largest size")
    asked = parser.parse_args()
    for part in PARTS:
        if not asked.parts or part.__name__ in asked.parts:
            part(Growth(asked.most))


if __name__ == "__main__":
    main()
