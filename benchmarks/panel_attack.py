"""What an outsider who knows which rows belong together recovers from a copy of a panel.

It shares nothing with the product but files: ridge regression in NumPy, fitted to four fifths of
the persons and tried on the others, estimates each value, mean and change of each number and of the
indicators of each category from

    the row, the person's means, how many rows there are, kept columns and gaps
    with a time also: three rows before and after, and the time; then numbers count less what it
    does to everybody

Of several penalties that which recovers most counts: with few persons weights fit chance. A column
on the scale of ranks is estimated as normal scores of its ranks, of the table's and of the copy's.

    left = sum_i e_i^2 / sum_i x_i^2          e_i what the regression leaves of x_i less its mean
    error^2 = sum_u (sum_i of u (e_i^2 - left x_i^2))^2 / (sum_i x_i^2)^2        over persons u

Of many such shares of few persons the least is low by chance. So a share counts as too low if it
lies below 0.95 of what is declared by more than ALPHA of all of them together allows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
FOLDS, MOST_INDICATORS, FEWEST = 5, 12, 100
"""Indicators of a category, and cells (of one in a hundred of a flag) to say anything."""
PENALTIES = (3.0, 30.0, 300.0)
ALPHA, HELD = 0.01, 0.95


@dataclass(frozen=True)
class Share:
    """What is left of some function of a column, over what is declared, with its error."""

    of_declared: float
    error: float
    left: float
    what: str


@dataclass(frozen=True)
class Rows:
    """Rows of persons, sorted by person and by time: where each begins, and its place."""

    order: Ints
    first: Ints
    of: Ints
    place: Ints

    @classmethod
    def by(cls, unit: Ints, time: Floats) -> "Rows":
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

    def following(self) -> Ints:
        """The next row of the person, of the last one the one before."""
        last = self.place == self.sizes - 1
        return np.where(
            last,
            np.maximum(np.arange(len(self.of)) - 1, self.first[self.of]),
            np.arange(len(self.of)) + 1,
        )


def too_low(shares: Sequence[Share]) -> list[Share]:
    """Return what lies below what is declared, beyond chance."""
    beyond = NormalDist().inv_cdf(1 - ALPHA / max(1, len(shares)))
    return [each for each in shares if each.of_declared + beyond * each.error < HELD]


def coordinates(table: pa.Table, name: str, about: Mapping[str, Any]) -> Floats:
    """Return numbers, or indicators of frequent values (rows, k); NaN for gaps that are shown."""
    cells = table[name].to_pylist()
    if about["role"] == "perturbed":
        x = np.array([np.nan if c is None else _number(c) for c in cells])
        return (scores(x) if about.get("transform") == "rank" else x)[:, None]
    text = np.array(["" if c is None else str(c) for c in cells])
    values, counts = np.unique(text, return_counts=True)
    frequent = values[np.argsort(-counts)][:MOST_INDICATORS]
    held = (text[:, None] == frequent[None]).astype(np.float64)
    if about.get("missing") == "shown":
        held[text == ""] = np.nan
        held = held[:, frequent != ""]
    return np.asarray(held)


def _number(cell: Any) -> float:
    if isinstance(cell, int | float):
        return float(cell)
    return float(np.datetime64(cell, "s").astype(np.int64))


def scores(x: Floats) -> Floats:
    """Return normal scores of ranks: of values that rows share, of the middle of theirs."""
    known, out = np.isfinite(x), np.full(len(x), np.nan)
    place, count = np.unique(x[known], return_inverse=True, return_counts=True)[1:]
    middle = (np.cumsum(count) - count / 2) / max(1, known.sum())
    quantile = np.vectorize(NormalDist().inv_cdf, otypes=[float])
    out[known] = quantile(middle)[place] if len(middle) else 0.0
    return out


def filled(X: Floats) -> Floats:
    """Return the columns that vary about their means, 0 in gaps, of variance 1."""
    X = np.where(np.isnan(X), np.nanmean(np.where(np.isnan(X).all(axis=0), 0.0, X), axis=0), X)
    X = X - X.mean(axis=0)
    size = X.std(axis=0)
    return np.asarray(X[:, size > 1e-12] / size[size > 1e-12])


class Regressions:
    """Ridge regressions on some features, cross-fitted over persons."""

    def __init__(self, features: Floats, fold: Ints) -> None:
        self._features, self._fold = features, fold
        self._solved: dict[bytes, list[tuple[Ints, Ints, Floats, Floats, Floats]]] = {}

    def squares_left(self, wanted: Floats, held: npt.NDArray[np.bool_]) -> Floats:
        """Return the squares that the best penalty leaves of some rows' values (rows, k)."""
        left = np.empty((len(PENALTIES), int(held.sum()), wanted.shape[1]))
        place = np.cumsum(held) - 1
        for fit, tried, centre, values, vectors in self._folds(held):
            level = wanted[fit].mean(axis=0)
            A, test = self._features[fit] - centre, self._features[tried] - centre
            b = vectors.T @ (A.T @ (wanted[fit] - level))
            for k, penalty in enumerate(PENALTIES):
                weights = vectors @ (b / (values + penalty)[:, None])
                left[k, place[tried]] = (wanted[tried] - level - test @ weights) ** 2
        return np.asarray(left[left.sum(axis=(1, 2)).argmin()])

    def _folds(
        self, held: npt.NDArray[np.bool_]
    ) -> list[tuple[Ints, Ints, Floats, Floats, Floats]]:
        """Return, of each fold, rows to fit and to try, and A'A = V diag(values) V'."""
        name = held.tobytes()
        if name not in self._solved:
            self._solved[name] = []
            for k in range(FOLDS):
                fit, tried = (
                    np.flatnonzero(held & at) for at in (self._fold != k, self._fold == k)
                )
                centre = self._features[fit].mean(axis=0)
                A = self._features[fit] - centre
                values, vectors = np.linalg.eigh(A.T @ A)
                self._solved[name].append((fit, tried, centre, np.maximum(values, 0.0), vectors))
        return self._solved[name]


def less_time(x: Floats, dummies: Floats, rows: Rows) -> Floats:
    """Return a number less what times do to all, by least squares within persons."""
    apart = dummies - rows.mean(dummies)
    effect = np.linalg.lstsq(apart, x - rows.mean(x[:, None])[:, 0], rcond=1e-9)[0]
    return np.asarray(x - dummies @ effect)


def regressions(
    parts: Sequence[Floats], seen: int, rows: Rows, fold: Ints
) -> tuple[Regressions, Regressions]:
    """Return those of rows and of changes, given features of which the first are what is seen."""
    D = filled(np.hstack(parts))
    changes = filled(np.hstack([D[:, : 2 * seen], D[rows.following()][:, :seen]]))
    changes = filled(np.hstack([changes, D[:, 2 * seen :]]))
    return Regressions(D, fold), Regressions(changes, fold)


def shares(truth: pa.Table, shown: pa.Table, stated: Mapping[str, Any]) -> Iterator[Share]:
    """Yield what is left over the privacy of a copy, of each column and function of it."""
    unit, time, declared = stated["unit"], stated.get("time"), float(stated["privacy"])
    about = {n: c for n, c in stated["columns"].items() if c.get("hidden") is not None}
    codes = np.unique(np.array([str(v) for v in truth[unit].to_pylist()]), return_inverse=True)[1]
    when: Floats = np.zeros(len(codes)) if time is None else ranks(truth[time])
    noisy = {n: coordinates(shown, n, c) for n, c in about.items() if n in shown.schema.names}
    gaps = [np.isnan(each[:, :1]).astype(float) for each in noisy.values()]
    kept = [n for n, c in stated["columns"].items() if c["role"] == "kept"]
    free = [coordinates(shown, n, {"role": "kept"}) for n in kept]
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
        places = (rows.place[:, None] == np.arange(24)).astype(float) if ordered else dummies
        fold = np.random.default_rng(0).integers(0, FOLDS, len(rows.first))[rows.of]
        by = {
            role: regressions([*parts, known], Y.shape[1], rows, fold)
            for role, known in (("perturbed", dummies), ("category", places))
        }
        for name, column in about.items():
            if name not in noisy or (ordered and name == time):
                continue
            X = coordinates(truth, name, column)[rows.order]
            for kind, wanted in targets(X, rows, dummies, column["role"]):
                known = np.asarray(np.isfinite(wanted).all(axis=1))
                if known.sum() < FEWEST:
                    continue
                by_row, by_change = by.get(column["role"], by["category"])
                fits = by_change if kind == "change" else by_row
                own = wanted[:, wanted[known].var(axis=0) > 1e-9 * np.nanvar(X)]
                left = fits.squares_left(own, known).sum(axis=1)
                all_ = ((own[known] - own[known].mean(axis=0)) ** 2).sum(axis=1)
                if total := float(all_.sum()):
                    hidden = float(left.sum()) / total
                    by_person = np.bincount(rows.of[known], left - hidden * all_)
                    error = float(np.sqrt((by_person**2).sum())) / total
                    what = f"{kind} of {name}{' in time' * ordered}"
                    yield Share(hidden / declared, error / declared, hidden, what)


def targets(X: Floats, rows: Rows, dummies: Floats, role: str) -> Iterator[tuple[str, Floats]]:
    """Yield values, means and changes."""
    if dummies.shape[1] and role == "perturbed":
        gaps = np.isnan(X)
        X = less_time(np.where(gaps, np.nanmean(X), X)[:, 0], dummies, rows)[:, None]
        X = np.where(gaps, np.nan, X)
    yield "value", X
    held = np.isfinite(X)
    mean = rows.mean(np.where(held, X, 0.0)) / np.where(
        held.any(axis=0), np.maximum(rows.mean(held.astype(float)), 1e-12), 1.0
    )
    yield "mean", np.where(rows.mean(held.astype(float)) > 0, mean, np.nan)
    alone = (rows.sizes == 1)[:, None]
    yield "change", np.where(alone, np.nan, X[rows.following()] - X)


def ranks(times: pa.ChunkedArray) -> Floats:
    """Return the ranks of times; missing ones first."""
    values = times.to_pylist()
    held = {value: k for k, value in enumerate(sorted({v for v in values if v is not None}))}
    return np.array([held.get(value, -1) for value in values], dtype=float)
