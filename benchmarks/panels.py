"""Real panels from end to end, without a hand, and what an outsider recovers from their copies.

    python benchmarks/panels.py FILE.csv ...      tables that a package of data has, as CSV

Each is inspected, registered by the draft as it is, released at 0.5 and 0.8, audited, reported,
and asked by a recipient. Then an attack that shares nothing with the product (NumPy: ridge
regression, fitted to four fifths of the persons and tried on the others) estimates each value, mean
and change of each number and of the indicators of each category from

    the row, the person's means, how many rows there are, kept columns and gaps
    with a time also: three rows before and after, and the time; then numbers count less what it
    does to everybody

and the least share that is left of what the copy states is printed.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pacsv

from cornerwave.miner import Copy
from cornerwave.vault import Vault

Floats = npt.NDArray[np.float64]
COMMAND = Path(sys.executable).with_name("cornerwave")
FOLDS, PENALTY, MOST_INDICATORS, FEWEST = 5, 3.0, 6, 100
"""Indicators of a category, and cells (of one in a hundred of a flag) to say anything."""


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command."""
    return subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True)


def walk(table: Path, folder: Path) -> dict[str, object]:
    """Return what each step of a walk gave; it ends with the first that fails."""
    vault, draft = folder / "vault", folder / "draft.toml"
    found: dict[str, object] = {"panel": table.stem}
    copies = [folder / f"p{privacy}.csv" for privacy in (5, 8)]
    at = ("--vault", vault)
    steps: list[tuple[str, tuple[object, ...]]] = [
        ("init", ("init", *at)),
        ("inspect", ("inspect", table, "--out", draft)),
        ("register", ("register", "panel", table, "--schema", draft, *at)),
        ("levels", ("levels", "panel", "--json", *at)),
        *(
            ("release", ("release", "panel", "--to", f"r{p}", "--privacy", p, "--out", c, *at))
            for p, c in zip((0.5, 0.8), copies, strict=True)
        ),
        ("audit", ("audit", table, *copies, "--json", *at)),
        ("report", ("report", "panel", "--out", folder / "report.html", *at)),
    ]
    for name, arguments in steps:
        done = command(*arguments)
        if name == "audit" and done.stdout.lstrip().startswith("{"):
            audit = json.loads(done.stdout[done.stdout.index("{") :])
            found["audit"] = audit["verdict"]
        elif name == "audit":  # of fewer than 100 persons it says nothing
            found["audit"] = done.stderr.strip()[-300:]
        elif done.returncode:
            return found | {"failed": f"{name}: {(done.stderr or done.stdout).strip()[:300]}"}
    found["miner"] = ask(copies[0])
    for copy in copies:
        found[copy.stem] = attacked(vault, table, copy)
    return found


def ask(path: Path) -> str:
    """Ask a recipient's questions; return what went wrong, or how far a mean's error goes."""
    copy = Copy.open(path)
    stated = json.loads(Path(f"{path}.meta.json").read_text())
    numbers = [n for n, about in stated["columns"].items() if about["role"] == "perturbed"]
    if len(numbers) < 2:
        return "no two numbers"
    copy.mean(numbers[:2])
    copy.covariance(numbers[:2])
    line = copy.regression(numbers[0], on=numbers[1:2])
    return f"{line.coefficients.value.size} coefficients"


@dataclass(frozen=True)
class Rows:
    """Rows of persons, sorted by person and by time: where each begins, and its place."""

    order: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]
    of: npt.NDArray[np.int64]
    place: npt.NDArray[np.int64]

    @classmethod
    def by(cls, unit: npt.NDArray[np.int64], time: Floats) -> "Rows":
        order = np.lexsort((time, unit))
        begins = np.append(True, unit[order][1:] != unit[order][:-1])
        first, of = np.flatnonzero(begins), np.cumsum(begins) - 1
        return cls(order, first, of, np.arange(len(of)) - first[of])

    @property
    def sizes(self) -> Floats:
        sizes = np.diff(np.append(self.first, len(self.of)))[self.of]
        return np.asarray(sizes.astype(np.float64))

    def mean(self, X: Floats) -> Floats:
        return np.asarray(
            np.add.reduceat(X, self.first, axis=0)[self.of] / self.sizes.reshape(-1, 1)
        )

    def shifted(self, X: Floats, by: int) -> Floats:
        inside = (self.place + by >= 0) & (self.place + by < self.sizes)
        at = np.clip(np.arange(len(self.of)) + by, 0, len(self.of) - 1)
        return np.where(inside[:, None], X[at], 0.0)

    def following(self) -> npt.NDArray[np.int64]:
        """The next row of the person, of the last one the one before."""
        last = self.place == self.sizes - 1
        return np.where(
            last,
            np.maximum(np.arange(len(self.of)) - 1, self.first[self.of]),
            np.arange(len(self.of)) + 1,
        )


def coordinates(table: pa.Table, name: str, role: str) -> Floats:
    """Return numbers with NaN for gaps, or indicators of frequent values (rows, k)."""
    cells = table[name].to_pylist()
    if role == "perturbed":
        return np.array([np.nan if c is None else float(c) for c in cells])[:, None]
    text = np.array(["" if c is None else str(c) for c in cells])
    values, counts = np.unique(text, return_counts=True)
    frequent = values[np.argsort(-counts)][:MOST_INDICATORS]
    return np.asarray((text[:, None] == frequent[None]).astype(np.float64))


def filled(X: Floats) -> Floats:
    """Return the columns that vary about their means, 0 in gaps, of variance 1."""
    X = np.where(np.isnan(X), np.nanmean(np.where(np.isnan(X).all(axis=0), 0.0, X), axis=0), X)
    X = X - X.mean(axis=0)
    size = X.std(axis=0)
    return np.asarray(X[:, size > 1e-12] / size[size > 1e-12])


def share_left(wanted: Floats, D: Floats, fold: npt.NDArray[np.int64]) -> Floats:
    """Return what a ridge regression leaves of each row's square, over the mean of these."""
    wanted = (wanted - wanted.mean()) / wanted.std()
    left = np.empty(len(wanted))
    for k in range(FOLDS):
        fit, held = fold != k, fold == k
        centre, level = D[fit].mean(axis=0), wanted[fit].mean()
        A = D[fit] - centre
        weights = np.linalg.solve(
            A.T @ A + PENALTY * np.eye(A.shape[1]), A.T @ (wanted[fit] - level)
        )
        left[held] = (wanted[held] - level - (D[held] - centre) @ weights) ** 2
    return left


def less_time(x: Floats, dummies: Floats, rows: Rows) -> Floats:
    """Return a number less what times do to all, by least squares within persons."""
    apart = dummies - rows.mean(dummies)
    effect = np.linalg.lstsq(apart, x - rows.mean(x[:, None])[:, 0], rcond=1e-9)[0]
    return np.asarray(x - dummies @ effect)


def attacked(vault: Path, source: Path, copy: Path) -> str:
    """Return the least share that an outsider leaves of what a copy states, and of what."""
    stated = json.loads(Path(f"{copy}.meta.json").read_text())
    place = copy.with_suffix(".arrow")
    Vault.open(vault).dataset("panel", source=str(source)).write_in_copies_order(place)
    truth = pa.ipc.open_file(place).read_all()
    shown = pacsv.read_csv(copy)
    worst = min(shares(truth, shown, stated), default=(np.nan, "", 0.0, 0.0))
    share, what, hidden, error = worst
    return (
        f"noise {stated['noise']:.2f}; {share:.3f} of stated: {hidden:.3f} (+-{error:.3f}) {what}"
    )


def shares(
    truth: pa.Table, shown: pa.Table, stated: dict[str, Any]
) -> Iterator[tuple[float, str, float, float]]:
    """Yield what is left over what is stated, and of which column and function of it."""
    unit, time = stated["unit"], stated.get("time")
    about = {n: c for n, c in stated["columns"].items() if c.get("hidden") is not None}
    codes = np.unique(np.array([str(v) for v in truth[unit].to_pylist()]), return_inverse=True)[1]
    when: Floats = np.zeros(len(codes)) if time is None else ranks(truth[time])
    noisy = {
        n: coordinates(shown, n, c["role"]) for n, c in about.items() if n in shown.schema.names
    }
    gaps = [np.isnan(each[:, :1]).astype(float) for each in noisy.values()]
    kept = [n for n, c in stated["columns"].items() if c["role"] == "kept"]
    free = [coordinates(shown, n, "kept") for n in kept]
    for ordered in (False, True) if time is not None else (False,):
        if not ordered and time in kept:
            continue
        rows = Rows.by(codes, when if ordered else np.zeros(len(codes)))
        Y = filled(np.hstack([*noisy.values(), *gaps, *free])[rows.order])
        few = 1 / rows.sizes[:, None]
        parts = [Y, rows.mean(Y), Y * few, rows.mean(Y) * few, few, np.log(few)]
        dummies = np.zeros((len(codes), 0))
        if ordered:
            own = filled(np.hstack(list(noisy.values()))[rows.order])
            parts += [rows.shifted(own, by) for by in (-3, -2, -1, 1, 2, 3)]
            bins = np.unique(when, return_inverse=True)[1]
            bins = bins if bins.max() < 48 else (np.argsort(np.argsort(when)) * 24 // len(when))
            dummies = (bins[:, None] == np.arange(1, bins.max() + 1)).astype(float)[rows.order]
            parts.append(dummies)
        D = filled(np.hstack(parts))
        following = rows.following()
        changes = filled(np.hstack([D[:, : 2 * Y.shape[1]], D[following][:, : Y.shape[1]]]))
        changes = filled(np.hstack([changes, D[:, 2 * Y.shape[1] :]]))
        fold = np.random.default_rng(0).integers(0, FOLDS, len(rows.first))[rows.of]
        for name, column in about.items():
            if name not in noisy or (ordered and name == time):
                continue
            X = coordinates(truth, name, column["role"])[rows.order]
            for kind, wanted, features in targets(X, D, changes, rows, dummies, column["role"]):
                held = np.isfinite(wanted).all(axis=1)
                if held.sum() < FEWEST:
                    continue
                own = wanted[held][:, wanted[held].var(axis=0) > 1e-9 * np.nanvar(X)]
                left, variance = np.zeros(held.sum()), float(own.var(axis=0).sum())
                for each in own.T:
                    left += share_left(each, features[held], fold[held]) * each.var()
                if variance:
                    hidden = float(left.mean()) / variance
                    by_person = np.bincount(rows.of[held], left / variance - hidden)
                    error = float(np.sqrt((by_person**2).sum())) / held.sum()
                    order = " in time" * ordered
                    yield hidden / column["hidden"], f"{kind} of {name}{order}", hidden, error


def targets(
    X: Floats, D: Floats, changes: Floats, rows: Rows, dummies: Floats, role: str
) -> Iterator[tuple[str, Floats, Floats]]:
    """Yield values, means and changes, with what they are estimated from."""
    if dummies.shape[1] and role == "perturbed":
        gaps = np.isnan(X)
        X = less_time(np.where(gaps, np.nanmean(X), X)[:, 0], dummies, rows)[:, None]
        X = np.where(gaps, np.nan, X)
    yield "value", X, D
    held = np.isfinite(X)
    mean = rows.mean(np.where(held, X, 0.0)) / np.where(
        held.any(axis=0), np.maximum(rows.mean(held.astype(float)), 1e-12), 1.0
    )
    yield "mean", np.where(rows.mean(held.astype(float)) > 0, mean, np.nan), D
    alone = (rows.sizes == 1)[:, None]
    yield "change", np.where(alone, np.nan, X[rows.following()] - X), changes


def ranks(times: pa.ChunkedArray) -> Floats:
    """Return the ranks of times; missing ones first."""
    values = times.to_pylist()
    held = {value: k for k, value in enumerate(sorted({v for v in values if v is not None}))}
    return np.array([held.get(value, -1) for value in values], dtype=float)


def main() -> None:
    """Walk the tables that are named."""
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            began = process_time()
            print(
                json.dumps(walk(Path(name), Path(folder))),
                f"{process_time() - began:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
