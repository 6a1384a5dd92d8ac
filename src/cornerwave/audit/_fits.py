"""Estimates that are fitted to some rows and scored in others, so that chance recovers nothing.

    ridge     a linear estimate; its penalty by generalised cross-validation in the rows fitted
    encode    the mean of the target among rows that show the same value, shrunk (Robbins 1956)
    boost     gradient boosting of trees
    refine    a linear estimate once more inside cells: of a tree over squared errors, or of the
              values of a column, whichever promises most in the rows fitted. Weights of each of
              many values are shrunk towards those of all, by one penalty

Rows are split at random into FOLDS parts: the estimates of one part rest on the others. Matrices
are (coordinates, rows).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from cornerwave.arrays import Flags, Floats, Ints
from cornerwave.passes import one_thread

FOLDS = 4
PENALTIES = 10.0 ** np.arange(-9, 3)
"""Penalties that are tried, as shares of the rows fitted."""

MOST_LEAVES, LEAST_LEAF, LEAVES_PER_TABLE = 16, 100, 30
"""A tree has at most so many leaves, of so many rows, and of one in so many of all rows."""

FEW_TO_LEARN = FOLDS * LEAST_LEAF
"""With fewer rows there are neither trees nor cells."""

SHRUNK = 10.0 ** np.arange(0, 5.1, 0.5)
"""Penalties of the weights of many values, in rows: so many of a value count for half."""

LOCAL_COORDINATES = 16
"""So many coordinates, those closest to the target, are fitted once more inside cells."""

FEWEST_BOOSTED, BOOSTED_ROWS = 300, 20_000
"""Boosting learns from at least so many rows, and at most."""


def split(rows: int) -> Ints:
    """Return the part, 0 to FOLDS - 1, that each row is in: at random, the same every time."""
    return np.random.default_rng([rows, FOLDS]).permutation(np.arange(rows) % FOLDS)


def standard(rows: Floats) -> Floats:
    """Return rows (d, n) that vary, centred and of variance 1, missing values at the mean."""
    missing = np.isnan(rows)
    # first as distances from the least: those of a constant are 0, and its mean may be rounded
    least = np.where(missing, np.inf, rows).min(axis=1, keepdims=True, initial=np.inf)
    above = np.where(missing, 0.0, rows - np.where(np.isinf(least), 0.0, least))
    count = np.maximum((~missing).sum(axis=1, keepdims=True), 1)
    away = np.where(missing, 0.0, above - above.sum(axis=1, keepdims=True) / count)
    # mean square 1: inner products over n are correlations
    size = np.sqrt((away**2).mean(axis=1, keepdims=True))
    vary = size[:, 0] > 0
    return np.asarray(away[vary] / size[vary])


def ridge(D: Floats, T: Floats, part: Ints) -> Floats:
    """Return linear estimates (k, n) of T from D, which is standard."""
    estimates = np.empty_like(T)
    sums = [_FitSums.of(D[:, part == f], T[:, part == f]) for f in range(FOLDS)]
    for f in range(FOLDS):
        fit = reduce(add, [sums[g] for g in range(FOLDS) if g != f]).solve()
        estimates[:, part == f] = fit.of(D[:, part == f])
    return estimates


@dataclass(frozen=True)
class LinearFit:
    """Weights (k, d) and constants (k,), and the mean squared error (k,) that they promise."""

    weights: Floats
    start: Floats
    error: Floats

    def of(self, D: Floats) -> Floats:
        """Return the estimates (k, n) from D (d, n)."""
        return np.asarray(self.weights @ D + self.start[:, None])


@dataclass(frozen=True)
class _FitSums:
    """Sums of products of some rows: n, of D, of T, of DD', of DT', of TT by coordinate."""

    n: float
    d: Floats
    t: Floats
    DD: Floats
    DT: Floats
    TT: Floats

    @classmethod
    def of(cls, D: Floats, T: Floats) -> "_FitSums":
        return cls(
            float(D.shape[1]), D.sum(axis=1), T.sum(axis=1), D @ D.T, D @ T.T, (T**2).sum(axis=1)
        )

    def __add__(self, other: "_FitSums") -> "_FitSums":
        names = ("n", "d", "t", "DD", "DT", "TT")
        return _FitSums(*(getattr(self, name) + getattr(other, name) for name in names))

    def solve(self) -> LinearFit:
        """Return the linear estimate, its penalty by generalised cross-validation."""
        n, d, t, DD, DT, TT = self.n, self.d, self.t, self.DD, self.DT, self.TT
        # along the axes U of DD', a penalty c shrinks each weight by values / (values + c)
        values, U = np.linalg.eigh(DD - np.outer(d, d) / n)
        # centred cross products along the axes
        b = U.T @ (DT - np.outer(d, t) / n)
        values = np.maximum(values, 0.0)
        squares = np.maximum(TT - t**2 / n, 0.0)
        penalties = PENALTIES * n
        shrink = 1 / (values + penalties[:, None])  # (penalties, d)
        # effective parameters, and 1 for the constant
        spent = 1 + (values * shrink).sum(axis=1)
        explained = (shrink * (2 - values * shrink)) @ b**2  # (penalties, k)
        left = np.maximum(squares - explained, 0.0) / n
        # GCV: error in the rows fitted / (1 - parameters spent / n)^2
        promised = left / np.maximum(1 - spent / n, 1e-3)[:, None] ** 2
        best = promised.argmin(axis=0)
        W = (U @ (shrink[best].T * b)).T
        return LinearFit(W, (t - W @ d) / n, promised[best, np.arange(len(best))])


def encode(codes: Any, T: Floats, part: Ints, inner: Flags | None = None) -> Floats:
    """Return the shrunken mean (k, n) of T among the rows of other parts with the same code.

    With `inner`, only these rows are learned from, those outside from all of them.
    """
    used = np.ones(len(codes), dtype=bool) if inner is None else inner
    count = int(codes.max(initial=0)) + 1
    # sums by part and code at once; rows outside have a part of their own
    place = np.where(used, part, FOLDS) * count + codes
    room = (FOLDS + 1) * count
    n = np.bincount(place, minlength=room).reshape(-1, count)
    n[FOLDS] = 0
    encoded = np.empty_like(T)
    for c, row in enumerate(T):
        centre = float(row[used].mean()) if used.any() else 0.0
        away = row - centre
        sums = np.bincount(place, away, room).reshape(-1, count)
        sums[FOLDS] = 0.0  # rows outside are estimated from all that is learned
        weight = _weight(n.sum(axis=0), sums.sum(axis=0), float((away[used] ** 2).sum()))
        # the other parts' sum over their rows, shrunk to the centre by `weight` rows
        means = (sums.sum(axis=0) - sums) / np.maximum(n.sum(axis=0) - n + weight, 1e-12)
        encoded[c] = centre + means.ravel()[place]
    return encoded


def _weight(n: Ints, sums: Floats, squares: float) -> float:
    """Return how many rows the mean of all counts for: variance within over between groups.

    Infinity where groups differ no more than chance: in a balanced panel each value occurs once in
    a group, and the rows fitted would reveal which one is left.
    """
    used = n > 0
    n, sums = n[used].astype(np.float64), sums[used]
    rows, groups = float(n.sum()), len(n)
    if rows <= groups or groups < 2:
        return math.inf
    between = float((sums**2 / n).sum())
    within = max(squares - between, 0.0) / (rows - groups)
    # n_0 of one-way random effects with unequal groups
    size = (rows - float((n**2).sum()) / rows) / (groups - 1)
    # method of moments: E MSB = within + n_0 Var(groups)
    spread = (between / (groups - 1) - within) / size
    return min(within / spread, rows) if spread > 0 else math.inf


def boost(numbers: Floats, codes: Sequence[Any], t: Floats, present: Flags, part: Ints) -> Floats:
    """Return an estimate (n,) of t by boosting on numbers (m, n) and on the values of `codes`.

    Each code enters by the mean of t among the rows learned from that show it, and these rows by
    the mean among others of them: a mean that knows the row itself would give it away. Rows that
    `t` is not `present` in are estimated too.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor

    estimates = np.full(len(t), float(t[present].mean()))
    for f in np.unique(part):
        learned, wanted = (part != f) & present, part == f
        if learned.sum() < FEWEST_BOOSTED:
            continue
        means = [encode(code, t[None], part, learned) for code in codes]
        features = np.vstack([numbers, *means]).T
        rows = np.flatnonzero(learned)
        # evenly spread rows: time does not grow with the table
        rows = rows[:: -(-len(rows) // BOOSTED_ROWS)]
        model = HistGradientBoostingRegressor(
            max_iter=40, learning_rate=0.25, max_leaf_nodes=16, early_stopping=False
        )
        with one_thread():  # small trees: several threads wait for each other
            estimates[wanted] = model.fit(features[rows], t[rows]).predict(features[wanted])
    return estimates


def grow(numbers: Floats, T: Floats, present: Flags, part: Ints) -> Floats:
    """Return estimates (k, n) of T by one tree on numbers (m, n) for all coordinates."""
    from sklearn.tree import DecisionTreeRegressor

    estimates = np.repeat(T[:, present].mean(axis=1, keepdims=True), T.shape[1], axis=1)
    if not len(numbers):
        return estimates
    points = np.ascontiguousarray(numbers.T, dtype=np.float32)
    for f in range(FOLDS):
        learned = (part != f) & present
        # a hundredth of the rows in each leaf
        tree = DecisionTreeRegressor(
            min_samples_leaf=max(int(learned.sum()) // LEAST_LEAF, 10), random_state=0
        )
        fitted = tree.fit(points[learned], T.T[learned]).predict(points[part == f])
        estimates[:, part == f] = fitted.reshape(-1, len(T)).T
    return estimates


def refine(
    E: Floats,
    D: Floats,
    T: Floats,
    part: Ints,
    cells: Sequence[Sequence[Ints]],
    many: Sequence[tuple[Ints, Ints]] = (),
) -> Floats:
    """Return estimates (k, n) of T, fitted to E and D once more inside cells.

    `cells[f]` are ways to divide the rows, for the estimates of part f; `many` are ways into many
    cells, and the coordinates of D that matter there. Where none of them promises a smaller error
    than E, it remains as it is.
    """
    refined, rest, again = E.copy(), T - E, standard(E)
    for f in range(FOLDS):
        learned = part != f
        # coordinates that correlate with what E leaves
        close = np.abs(D[:, learned] @ rest[:, learned].T).max(axis=1, initial=0.0)
        chosen = np.argsort(-close, kind="stable")[:LOCAL_COORDINATES]
        local = np.vstack([again, D[chosen]])
        best = float((rest[:, learned] ** 2).sum())
        for way in cells[f]:
            fits, promised = _in_cells(local, rest, way, learned)
            if promised < best:
                best = promised
                refined[:, ~learned] = E[:, ~learned]
                for cell, fit in fits.items():
                    rows = (way == cell) & ~learned
                    refined[:, rows] += fit.of(local[:, rows])
        for way, which in many:
            W, promised = _shrunk(local := np.vstack([again, D[which]]), rest, way, learned)
            if promised < best:
                best = promised
                ones = np.vstack([np.ones(len(way)), local])[:, ~learned]
                more = np.einsum("nik,in->kn", W[way[~learned]], ones, optimize=True)
                refined[:, ~learned] = E[:, ~learned] + more
    return refined


def _shrunk(local: Floats, rest: Floats, cells: Ints, learned: Flags) -> tuple[Floats, float]:
    """Return weights (cells, 1 + d, k), the constant first, and the sum of squares they promise.

    All cells have one penalty, by generalised cross-validation over all of them.
    """
    rows = np.flatnonzero(learned)
    rows = rows[np.argsort(cells[rows], kind="stable")]
    L, R = np.vstack([np.ones(len(rows)), local[:, rows]]), rest[:, rows]
    ends = np.searchsorted(cells[rows], np.arange(int(cells.max()) + 2))
    pairs = list(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True))
    # each cell's normal equations along their own axes: there a penalty is one division
    values, U = np.linalg.eigh(np.array([L[:, a:b] @ L[:, a:b].T for a, b in pairs]))
    values = np.maximum(values, 0.0)
    b = U.transpose(0, 2, 1) @ np.array([L[:, a:b] @ R[:, a:b].T for a, b in pairs])
    squares, n, tried = float((R**2).sum()), len(rows), []
    for penalty in SHRUNK:
        shrink = 1 / (values + penalty)
        left = squares - float(((shrink * (2 - values * shrink))[..., None] * b**2).sum())
        spent = float((values * shrink).sum())
        tried.append((max(left, 0.0) / max(1 - spent / n, 1e-3) ** 2, penalty))
    promised, penalty = min(tried)
    return U @ (b / (values + penalty)[..., None]), promised


def _in_cells(
    local: Floats, rest: Floats, cells: Ints, learned: Flags
) -> tuple[dict[int, LinearFit], float]:
    """Return the fits of those cells where they help, and the sum of squares of all cells then."""
    fits, promised = {}, 0.0
    for cell in np.unique(cells).tolist():
        rows = (cells == cell) & learned
        left = float((rest[:, rows] ** 2).sum())
        if (n := int(rows.sum())) >= LEAST_LEAF // 2:
            fit = _FitSums.of(local[:, rows], rest[:, rows]).solve()
            if (after := float(fit.error.sum()) * n) < left:
                fits[cell], left = fit, after
        promised += left
    return fits, promised


def leaves(free: Floats, squares: Floats, part: Ints) -> list[Ints]:
    """Return the leaf of a tree over squared errors that each row is in, for each part."""
    from sklearn.tree import DecisionTreeRegressor

    if not len(free) or len(squares) < FEW_TO_LEARN:
        return [np.zeros(len(squares), dtype=np.int64)] * FOLDS
    least = max(LEAST_LEAF, len(squares) // LEAVES_PER_TABLE)
    tree = DecisionTreeRegressor(max_leaf_nodes=MOST_LEAVES, min_samples_leaf=least, random_state=0)
    points = np.ascontiguousarray(free.T, dtype=np.float32)
    return [
        np.asarray(tree.fit(points[part != f], squares[part != f]).apply(points), dtype=np.int64)
        for f in range(FOLDS)
    ]
