"""Regressions of coordinates on F, scored on rows that they have not seen.

In stages, each of what the stages before leave: smooth in each column of F; along weighted sums of
its numbers; pairs of columns in bins; means of rare values, of whole rows of F and of three or four
columns; boosted trees. A stage counts for a coordinate only if it leaves less by GAIN standard
errors. What is left estimates Z - E[Z | F] from above.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import sqrt

import numpy as np

from cornerwave.arrays import Floats, Ints
from cornerwave.passes import one_thread
from cornerwave.privacy._anova import FOLDS, GroupMeans, within
from cornerwave.privacy._open_columns import (
    MOST_KNOTS,
    MOST_VALUES,
    TAIL,
    OpenColumn,
    all_values,
    hats,
    standardised,
)

MOST_TERMS = 320
"""Coefficients of one fit: a table with many columns in F has fewer knots and values for each."""
GAIN = 3.5
"""Standard errors by which a fit must leave less on rows that it has not seen."""
RIDGES = (1e-4, 1e-2, 1.0)
"""Penalties, in rows: the best of them for each coordinate."""
PAIRED = 6
"""Columns that are fitted in pairs, threes and fours: those that reveal most."""
MOST_PAIRS, PAIR_BINS = 4, 12
"""Pairs of columns that are fitted, in so many bins each."""
MOST_SETS, SET_COMPARISONS = 3, 256
"""Sets of three and four columns whose means are fitted, and how many are compared at most."""
DIRECTIONS = 2
"""Sums of numbers of F with weights, along which a coordinate bends most."""
BOOST_LEAST = 5000
"""Fewer rows are not boosted: trees learn little of them, and remedies are tried on fewer."""
LOOKED, BOOST_LOOK, LOOK_TREES, LOOK_GAIN = 24, 1 << 13, 15, 2.0
"""Coordinates that get a first look, its rows and trees, and standard errors of what it gains."""
BOOSTED, TREES = 3, 80
"""Coordinates that are boosted, the most promising ones, and the trees of each."""


def residuals(
    Z: Floats,
    features: Sequence[OpenColumn],
    *,
    strongest: Sequence[OpenColumn],
    sets: Sequence[OpenColumn],
) -> Floats:
    """Return what fits of F leave of each coordinate, on rows that a fit has not seen.

    `strongest` are the features, those first that reveal most by themselves; `sets` are three and
    four of them as one.
    """
    folds = np.arange(Z.shape[1]) % FOLDS  # rows come in the order of their hashes
    each = max(1, MOST_TERMS // len(features))
    smooth = np.concatenate([feature.terms(each) for feature in strongest])[:MOST_TERMS]
    left = _ridge(Z, smooth, folds)
    waves = _less_waves(Z, features, folds)
    less = np.nanmean(waves**2, axis=1) < np.nanmean(left**2, axis=1)
    if less.any():
        left[less] = _ridge(waves[less], smooth, folds)
    for terms in _pairs(left, strongest[:PAIRED]):
        left = _ridge(left, terms, folds)
    for group in (*features, all_values(features)):
        if group.values > MOST_VALUES:
            left = _less_means(left, group.codes, folds)
    gains = np.array([within(left, s.codes, comparisons=SET_COMPARISONS).sum() for s in sets])
    for i in np.argsort(-gains, kind="stable")[:MOST_SETS].tolist():
        if gains[i] > 0:
            left = _less_means(left, sets[i].codes, folds)
    boosted = len(features) > 1 and Z.shape[1] >= BOOST_LEAST
    return _less_boosted(left, features, folds) if boosted else left


def _ridge(Z: Floats, X: Floats, folds: Ints) -> Floats:
    """Return what ridge regressions on X leave of Z, on rows of other folds; Z if that is less.

    Where Z is missing it counts as what the fit predicts, in two rounds.
    """
    X = X[X.std(axis=1) > 0]
    if not len(X):
        return Z
    X = (X - X.mean(axis=1, keepdims=True)) / X.std(axis=1, keepdims=True)
    present, filled = ~np.isnan(Z), np.nan_to_num(Z)
    rounds = 1 if present.all() else 2
    for _ in range(rounds):
        fits = _cross_fitted(filled, X, folds)
        errors = np.array([np.where(present, Z - fit, 0.0) for fit in fits])
        best = (errors**2).sum(axis=2).argmin(axis=0)
        fit = fits[best, np.arange(len(Z))]
        filled = np.where(present, Z, fit)
    return _better(Z, Z - fit)


def _cross_fitted(Z: Floats, X: Floats, folds: Ints) -> Floats:
    """Return fits (ridges, coordinates, rows), each row's by the rows of other folds."""
    fits = np.empty((len(RIDGES), *Z.shape))
    parts = [np.flatnonzero(folds == fold) for fold in range(FOLDS)]
    grams = [X[:, rows] @ X[:, rows].T for rows in parts]
    sides = [X[:, rows] @ Z[:, rows].T for rows in parts]
    for fold, rows in enumerate(parts):
        # X X' and X Z' of the other folds; one decomposition serves all ridges
        gram = sum(grams[:fold] + grams[fold + 1 :], np.zeros_like(grams[0]))
        side = sum(sides[:fold] + sides[fold + 1 :], np.zeros_like(sides[0]))
        spectrum, axes = np.linalg.eigh(gram)
        turned, ahead = axes.T @ side, axes.T @ X[:, rows]
        for i, ridge in enumerate(RIDGES):
            # at least one row, so that terms of rounding size do not decide
            penalty = 1.0 + ridge * len(X) + np.maximum(spectrum, 0.0) * ridge**2
            shrunk = turned / (np.maximum(spectrum, 0.0) + penalty)[:, None]
            fits[i][:, rows] = shrunk.T @ ahead
    return fits


def _better(before: Floats, after: Floats) -> Floats:
    """Return what a fit leaves of each coordinate, where it leaves less by more than chance."""
    gain = before**2 - after**2
    count = np.maximum((~np.isnan(gain)).sum(axis=1), 1)
    mean = np.nansum(gain, axis=1) / count
    error = np.sqrt(np.nansum((gain - mean[:, None]) ** 2, axis=1)) / count
    return np.where((mean > GAIN * error)[:, None], after, before)


def _less_means(Z: Floats, codes: Ints, folds: Ints) -> Floats:
    """Return Z less the mean of its group, by the rows of other folds; Z where that is less."""
    return _better(Z, Z - GroupMeans.of(Z, codes, folds).means)


def _less_waves(Z: Floats, features: Sequence[OpenColumn], folds: Ints) -> Floats:
    """Return what smooth functions of weighted sums of the numbers of F leave.

    Weights are the slopes of a coordinate, and the directions in which it bends most:
    eigenvectors of E[z x x'] with the largest size (principal Hessian directions).
    """
    numbers = [f.numbers for f in features if f.numbers is not None and f.values > MOST_KNOTS]
    if len(numbers) < 2:
        return Z
    x = np.nan_to_num(standardised(np.array(numbers[:PAIRED])))
    x = np.clip(x, -TAIL, TAIL)
    # whitened, as E[z x x'] names directions only where x has the covariance 1
    spectrum, axes = np.linalg.eigh(x @ x.T / x.shape[1])
    x = (axes[:, spectrum > 1e-6] / np.sqrt(spectrum[spectrum > 1e-6])).T @ x
    after = Z.copy()
    for i, z in enumerate(np.nan_to_num(Z)):
        bends, turned = np.linalg.eigh((x * z) @ x.T / x.shape[1])
        most = np.argsort(-np.abs(bends), kind="stable")[:DIRECTIONS]
        weights = np.column_stack([x @ z, turned[:, most]])
        terms = [np.array(hats(sums, 2 * MOST_KNOTS)) for sums in weights.T @ x]
        after[i] = _ridge(Z[i : i + 1], np.concatenate(terms), folds)[0]
    return after


def _pairs(left: Floats, features: Sequence[OpenColumn]) -> Iterator[Floats]:
    """Yield the indicators of both bins of the pairs that the residuals depend on most."""
    pairs = [
        OpenColumn("", a.binned(PAIR_BINS) * (PAIR_BINS + 1) + b.binned(PAIR_BINS))
        for a, b in combinations(features, 2)
    ]
    gains = [float(within(left, pair.codes).sum()) for pair in pairs]
    for i in np.argsort(-np.array(gains), kind="stable")[:MOST_PAIRS].tolist():
        if gains[i] > 0:
            yield pairs[i].terms(PAIR_BINS**2)


def _less_boosted(left: Floats, features: Sequence[OpenColumn], folds: Ints) -> Floats:
    """Return what boosted trees over all of F leave of some coordinates, on rows of other folds.

    Those of which few trees over few rows seem to predict something.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor

    kinds = [each.numbers is None or each.values <= MOST_KNOTS for each in features]
    X = np.column_stack(
        [
            f.binned(MOST_VALUES) if kind or f.numbers is None else f.numbers
            for f, kind in zip(features, kinds, strict=True)
        ]
    ).astype(np.float32)

    def less_trees(row: Floats, fit: Ints, score: Ints, trees: int) -> Floats:
        """Return a coordinate less what trees that are grown on some rows predict of others."""
        fit = fit[~np.isnan(row[fit])]
        model = HistGradientBoostingRegressor(
            max_iter=trees,
            learning_rate=0.15,
            min_samples_leaf=20,
            early_stopping=False,
            categorical_features=kinds,
            random_state=0,
        )
        with one_thread():  # several would wait for each other on a busy machine
            return np.asarray(row[score] - model.fit(X[fit], row[fit]).predict(X[score]))

    rows = np.arange(left.shape[1])
    some, others = rows[: min(BOOST_LOOK, len(rows) // 2)], rows[-BOOST_LOOK:][-(len(rows) // 2) :]
    looks = []
    for row in left[:LOOKED]:
        gain = row[others] ** 2 - less_trees(row, some, others, LOOK_TREES) ** 2
        error = float(np.nanstd(gain)) / sqrt(int(np.count_nonzero(~np.isnan(gain))) or 1)
        looks.append(float(np.nanmean(gain)) / max(error, 1e-300))
    after = left.copy()
    for i in np.argsort(-np.array(looks), kind="stable")[:BOOSTED].tolist():
        if looks[i] > LOOK_GAIN:
            for half in (0, 1):
                score = rows[folds % 2 == half]
                after[i, score] = less_trees(left[i], rows[folds % 2 != half], score, TREES)
    return _better(left, after)
