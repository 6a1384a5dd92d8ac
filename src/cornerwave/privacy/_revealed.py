"""What stands in a copy without noise, F, reveals of each column, whatever function of it is taken.

F are kept columns, a key that is released as it is, and visible gaps. Of a coordinate Z_j of the
columns that get noise, the best estimate from F alone, E[Z_j | F], recovers the share

    R^2_j(F) = Var(E[Z_j | F]) / Var(Z_j)

No single estimator finds it for every dependence, so it is the largest of three, each of which
estimates a part of it from above chance alone:

    fit         smooth in each column of F, then in pairs, then by means of rare values, of three
                and four columns and of whole rows of F, and by boosted trees: regressions of what
                is left, scored on rows they have not seen
    groups      1 - MSW / Var over rows that share a value, two to four or all (ANOVA)
    neighbours  1 - E(Z_i - Z_i')^2 / 2 Var over rows next to each other in 1, 2 or 3 columns

The last two are held against chance. What the fit leaves is then shrunk to what the largest
leaves. Where noise-free columns decide how columns vary together, an estimate may use other
coefficients there: `cells` are the parts of F in which the residuals vary most differently.

A column of F counts also by its parts, such as the end of a text or the weekday of a date: those
that reveal something of the coordinates, or of how they vary, which the column does not.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import log, sqrt

import numpy as np

from cornerwave.arrays import Flags, Floats, Ints

FOLDS = 4
MOST_KNOTS = 16
"""Where a smooth function of one number may bend."""
MOST_VALUES = 64
"""Values of one column that have a coefficient of their own; those of fewer than LEAST_ROWS rows
have none. Rarer ones are told apart by `groups`, and by means of their rows."""
LEAST_ROWS = 5
MOST_TERMS = 320
"""Coefficients of one fit: a table with many columns in F has fewer knots and values for each."""
FIT_ROWS = 1 << 15
"""Rows that fits and cells are made of; groups are looked for among all sampled ones."""
LEAST_FIT = 200
"""Fewer rows are too few for a fit: groups and neighbours alone count."""
GAIN = 3.5
"""Standard errors by which a fit must leave less on rows that it has not seen."""
RIDGES = (1e-4, 1e-2, 1.0)
"""Penalties, in rows: the best of them for each coordinate."""
MOST_PAIRS, PAIR_BINS, PAIRED = 4, 12, 6
"""Pairs of columns that are fitted together, in so many bins each, of so many columns."""
NEAR = 5
"""Numbers of F in which rows may be neighbours: those that reveal most."""
SCALES = (1 / 8, 1 / 2, 1.0, 2.0, 8.0, 32.0)
"""Rows, on average, of the blocks along a number in which rows may agree."""
ALPHA = 1e-5
"""The chance that groups or neighbours of a table are taken for what they are not."""
SETS = {3: 13, 4: 5}
"""So many columns are taken together, of PAIRED ones, each in so many bins: of numbers 12 and 4
bands, with a cut at the median, and where they are missing."""
MOST_SETS = 3
"""Sets of which the means are fitted."""
LEAVES, LEAST_LEAF, LEAF_ROWS = 64, 100, 10
"""Cells: how many, the least rows of one, and of these for each coordinate."""
CELL_VALUES = 256
"""Values of a column by which cells are told apart."""
MOST_PARTS = 3
"""Parts of a column that count."""
LOOK_CELLS, LEAST_LOOK = 1 << 20, 1 << 12
"""Cells of the coordinates and products that parts are held against, and the least rows."""
BOOST_LEAST = 5000
"""Fewer rows are not boosted: trees learn little of them, and remedies are tried on fewer."""
LOOKED, BOOST_LOOK, LOOK_TREES, LOOK_GAIN = 24, 1 << 13, 15, 2.0
"""Coordinates that get a first look, its rows and trees, and standard errors of what it gains."""
BOOSTED, TREES = 3, 80
"""Coordinates that are boosted, the most promising ones, and the trees of each."""
DIRECTIONS = 2
"""Sums of numbers of F with weights, along which a coordinate bends most."""
TAIL = 9.0
"""Squares beyond this many times their mean count as this when cells are chosen."""


@dataclass(frozen=True)
class OpenColumn:
    """One column of F over the sampled rows: its values as codes, and as numbers if it has some.

    Missing is a value like others; its number is NaN. A part of one column, or what two have
    between them, is `of` these.
    """

    name: str
    codes: Ints
    numbers: Floats | None = None
    of: tuple[str, ...] = ()

    @classmethod
    def coded(cls, name: str, cells: Floats | Ints, numbers: Floats | None = None) -> "OpenColumn":
        """Return a column by what tells its cells apart."""
        codes = np.unique(np.asarray(cells), return_inverse=True)[1]
        return cls(name, np.asarray(codes).ravel(), numbers)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it shows something of."""
        return self.of or (self.name,)

    @property
    def values(self) -> int:
        """How many values it has."""
        return int(self.codes.max(initial=-1)) + 1

    def first(self, rows: int) -> "OpenColumn":
        """Return its first rows."""
        if rows >= len(self.codes):
            return self
        numbers = None if self.numbers is None else self.numbers[:rows]
        return replace(OpenColumn.coded(self.name, self.codes[:rows], numbers), of=self.of)

    def banded(self, bands: int) -> Ints:
        """Return a number in bands of as many rows each; missing is one of its own."""
        assert self.numbers is not None
        known = ~np.isnan(self.numbers)
        ends = np.quantile(self.numbers[known], np.arange(1, bands) / bands)
        return np.where(known, np.searchsorted(ends, self.numbers, side="right"), bands)

    def binned(self, bins: int) -> Ints:
        """Return its values in bins: equal parts of a number, the most frequent of others."""
        if self.values <= bins:
            return self.codes
        if self.numbers is not None:
            return self.banded(bins - 1)
        counts = np.bincount(self.codes)
        place = np.minimum(np.argsort(np.argsort(-counts, kind="stable")), bins - 1)
        return np.asarray(place[self.codes])

    def terms(self, most: int) -> Floats:
        """Return the columns of a fit (terms, rows): hats over a number, indicators of values."""
        rows: list[Floats] = []
        smooth = self.numbers is not None and self.values > min(MOST_KNOTS, most)
        if self.numbers is not None and smooth:
            rows += _hats(self.numbers, min(MOST_KNOTS, most))
            if self.values > MOST_VALUES:  # a number, and not a code that happens to be one
                return np.array(rows)
        counts = np.bincount(self.codes)
        frequent = np.argsort(-counts, kind="stable")[: min(MOST_VALUES, most)]
        rows += [
            (self.codes == code).astype(np.float64)
            for code in frequent.tolist()
            if LEAST_ROWS <= counts[code] < len(self.codes)
        ]
        return np.array(rows).reshape(len(rows), len(self.codes))


def _hats(numbers: Floats, most: int) -> list[Floats]:
    """Return functions that are linear between `most` quantiles, and where a number is missing."""
    known = ~np.isnan(numbers)
    knots = np.unique(np.quantile(numbers[known], np.linspace(0, 1, max(most, 2))))
    filled = np.where(known, numbers, knots[0])
    hats = [np.where(known, np.interp(filled, knots, at), 0.0) for at in np.eye(len(knots))[1:]]
    # beside its own size, which tells what happens beyond the last quantiles
    scale = max(float(np.abs(knots).max()), 1e-300)
    hats.append(np.where(known, filled / scale, 0.0))
    return hats if known.all() else [*hats, (~known).astype(np.float64)]


@dataclass(frozen=True)
class Residuals:
    """What F reveals of coordinates: shares R^2 (coordinates), and what it leaves of them.

    `residuals` (coordinates, rows) have the mean square 1 - shares, in units of each coordinate's
    deviation, NaN where it is missing; `cells` are the cell of each row, for each of two halves of
    the rows the cells that the other half chose; `alone` (features, coordinates) is what each
    column of F reveals by itself, `together` what several do.
    """

    shares: Floats
    residuals: Floats
    cells: Ints
    alone: Floats
    together: Mapping[tuple[str, ...], Floats] = field(default_factory=dict)


def reveal(Z: Floats, features: Sequence[OpenColumn], rows: int | None = None) -> Residuals:
    """Return what F reveals of coordinates (coordinates, sampled rows), NaN where missing.

    `rows` is how many rows the table has, if they are not all here.
    """
    rate = 1.0 if rows is None else Z.shape[1] / max(rows, Z.shape[1])
    Z = standardised(Z)
    features = [each for each in features if each.values > 1]
    if not features or not len(Z):
        nothing = np.zeros(len(Z))
        return Residuals(nothing, Z, np.zeros(Z.shape[1], dtype=np.int64), np.zeros((0, len(Z))))
    alone = np.array([_alone(Z, each, rate) for each in features])
    beyond, together = _beyond(Z, features, alone, rate)
    known = np.maximum(alone.max(axis=0), beyond)
    rate *= min(1.0, FIT_ROWS / Z.shape[1])
    Z = standardised(Z[:, :FIT_ROWS])
    features = [each.first(FIT_ROWS) for each in features]
    sets = list(_sets(_first_of(features, alone)))
    left = _fit(Z, features, alone, sets) if Z.shape[1] >= LEAST_FIT else Z.copy()
    fitted = np.nan_to_num(np.nanmean(left**2, axis=1), nan=1.0)
    best = np.minimum(fitted, 1 - known)
    left /= np.sqrt(np.maximum(fitted, 1e-300))[:, None]
    best = np.minimum(best, fitted * (1 - _beyond(left, features, alone, rate)[0]))
    for columns, group in sets:
        own, found = (within(each, group.codes, comparisons=256) for each in (Z, left))
        best = np.minimum(best, np.minimum(1 - own, fitted * (1 - found)))
        if own.any():
            together[columns] = np.maximum(own, together.get(columns, 0.0))
    best = np.clip(best, 0.0, 1.0)
    left *= np.sqrt(best)[:, None]
    return Residuals(1 - best, left, _cells(left, features), alone, together)


def standardised(Z: Floats) -> Floats:
    """Return coordinates with mean 0 and variance 1."""
    mean = np.nanmean(Z, axis=1, keepdims=True)
    size = np.nanstd(Z, axis=1, keepdims=True)
    return np.asarray((Z - mean) / np.where(size > 0, size, 1.0))


# ---- parts of columns -------------------------------------------------------------------


def telling(Z: Floats, features: Sequence[OpenColumn]) -> list[OpenColumn]:
    """Return the columns of F, and of their parts those that reveal what the columns do not.

    Held against coordinates, their squares and products: what the bins of the columns leave of
    these, then what the best part leaves.
    """
    features = [each for each in features if each.values > 1]
    whole = {each.name: each for each in features if not each.of}
    if len(whole) == len(features) or not len(Z):
        return features
    left = standardised(Z[:, :FIT_ROWS])
    signals = np.concatenate([left, _signals(np.nan_to_num(left))])
    signals = standardised(signals[:, : max(LEAST_LOOK, LOOK_CELLS // len(signals))])
    rows, found = signals.shape[1], [*whole.values()]
    for of in dict.fromkeys(each.of for each in features if each.of):
        parts = [each for each in features if each.of == of]
        rest = signals
        for name in of:
            if name in whole:
                rest = _less_own(rest, whole[name].first(rows).binned(MOST_VALUES))
        found += _best_parts(rest, parts, comparisons=64 * len(features))
    return found


def _best_parts(
    left: Floats, parts: Sequence[OpenColumn], *, comparisons: int
) -> Iterator[OpenColumn]:
    """Yield the parts that explain most of some signals, each of what those before it leave."""
    rows = left.shape[1]
    groups = {i: _part_codes(each.first(rows)) for i, each in enumerate(parts)}
    for _ in range(MOST_PARTS):
        gains = {
            i: max(float(within(left, c, comparisons=comparisons).sum()) for c in codes)
            for i, codes in groups.items()
        }
        groups = {i: codes for i, codes in groups.items() if gains[i] > 0}
        if not groups:
            return
        best = max(groups, key=lambda i: gains[i])
        yield parts[best]
        left = _less_own(left, groups.pop(best)[-1])


def _part_codes(part: OpenColumn) -> list[Ints]:
    """Return the groups that rows of a part are in: by its values, and of a number in bins."""
    smooth = part.numbers is not None and part.values > MOST_VALUES
    return [part.codes, part.binned(MOST_VALUES)] if smooth else [part.codes]


def _less_own(signals: Floats, codes: Ints) -> Floats:
    """Return signals less the mean of each row's group."""
    place = np.asarray(np.unique(codes, return_inverse=True)[1]).ravel()
    sums, _, size = _sums(signals, place)
    return standardised(signals - (sums / np.maximum(size, 1.0))[:, place])


# ---- groups and neighbours --------------------------------------------------------------


def _alone(Z: Floats, feature: OpenColumn, rate: float) -> Floats:
    """Return what one column reveals of each coordinate: by its values, in bins, by neighbours."""
    bins = feature.binned(MOST_VALUES)
    found = np.maximum(within(Z, feature.codes, rate), within(Z, bins, 1.0))
    if feature.numbers is not None and feature.values > MOST_VALUES:
        found = np.maximum(found, _next_to(Z, [feature.numbers]))
        for block in _blocks(feature.numbers):
            found = np.maximum(found, within(Z, block, rate))
    return found


def _blocks(numbers: Floats) -> Iterator[Ints]:
    """Yield rows in blocks along a number, each of as many rows on average as a scale says.

    In a sample of a large table, neighbours can be far apart: then the blocks of less than one
    row find those that are not.
    """
    known = ~np.isnan(numbers)
    low, high = float(numbers[known].min()), float(numbers[known].max())
    place = np.where(known, (numbers - low) / max(high - low, 1e-300), -1.0)
    for scale in SCALES:
        blocks = np.floor(place * (len(numbers) / scale)).astype(np.int64)
        yield np.asarray(np.unique(blocks, return_inverse=True)[1]).ravel()


def _beyond(
    Z: Floats, features: Sequence[OpenColumn], alone: Floats, rate: float
) -> tuple[Floats, dict[tuple[str, ...], Floats]]:
    """Return what rows with two or all values in common, or near in 2 or 3 numbers, reveal.

    And what each set of columns does that reveals something.
    """
    first = _first_of(features, alone)
    sets: dict[tuple[str, ...], Floats] = {}
    groups = [[each] for each in first] + [[*pair] for pair in combinations(first, 2)]
    for group in (*groups, features):
        names = tuple(dict.fromkeys(each.name for each in group))
        sets[names] = within(Z, _together(group).codes, rate)
    order = np.argsort(-alone.sum(axis=1), kind="stable").tolist()
    near = [f for i in order if (f := features[i]).numbers is not None][:NEAR]
    for number in (1, 2, 3):
        for chosen in combinations(near[: NEAR + 1 - number], number):
            names = tuple(dict.fromkeys(each.name for each in chosen))
            found = _next_to(Z, [each.numbers for each in chosen if each.numbers is not None])
            sets[names] = np.maximum(sets.get(names, 0.0), found)
    most = np.max([*sets.values()], axis=0)
    return most, {names: found for names, found in sets.items() if len(names) > 1 and found.any()}


def _first_of(features: Sequence[OpenColumn], alone: Floats) -> list[OpenColumn]:
    """Return the columns that reveal most by themselves."""
    order = np.argsort(-alone.sum(axis=1), kind="stable")
    return [features[i] for i in order[:PAIRED].tolist()]


def _sets(features: Sequence[OpenColumn]) -> Iterator[tuple[tuple[str, ...], OpenColumn]]:
    """Yield three and four columns together, in bins, by their names."""
    for number, bins in SETS.items():
        coarse = [OpenColumn.coded(each.name, each.binned(bins)) for each in features]
        for chosen in combinations(coarse, number):
            yield tuple(dict.fromkeys(each.name for each in chosen)), _together(chosen)


def _together(features: Sequence[OpenColumn]) -> OpenColumn:
    """Return several columns as one: rows have a value in common that have all of theirs."""
    codes = features[0].codes
    for each in features[1:]:
        codes = np.unique(codes * each.values + each.codes, return_inverse=True)[1].ravel()
    return OpenColumn("+".join(each.name for each in features), codes)


def within(Z: Floats, codes: Ints, rate: float = 1.0, *, comparisons: int = 64) -> Floats:
    """Return the share of each coordinate that is known with the group, 1 - MSW / Var; 0 if chance.

    Z has the variance 1. Rows that are alone in their group say nothing; of a sample, most of
    them have company in the table. Under chance, SSB / Var is about chi-square with G - 1 degrees
    of freedom, which exceeds d + 2 sqrt(d u) + 2 u with probability exp(-u) at most (Laurent and
    Massart); heavy tails raise its variance by the excess kurtosis times sum 1/n_g - G^2/n.
    """
    company = np.bincount(codes, minlength=1)[codes] > 1
    if np.count_nonzero(company) < 2 * LEAST_ROWS:
        return np.zeros(len(Z))
    here = Z[:, company]
    sums, squares, size = _sums(here, codes[company])
    n, G = size.sum(axis=1), np.count_nonzero(size, axis=1)
    mean_square = (sums**2 / np.maximum(size, 1.0)).sum(axis=1)
    SSW = np.maximum(squares - mean_square, 0.0)
    SSB = np.maximum(mean_square - sums.sum(axis=1) ** 2 / np.maximum(n, 1.0), 0.0)
    # chance: how large SSB may be, in units of the variance of these rows
    variance = np.maximum((SSW + SSB) / np.maximum(n - 1, 1.0), 1e-300)
    kurtosis = np.maximum(np.nanmean(np.square(np.square(Z)), axis=1) - 3.0, 0.0)
    uneven = np.maximum(
        (1 / np.where(size > 0, size, np.inf)).sum(axis=1) - G**2 / np.maximum(n, 1), 0
    )
    u, freedom = log(comparisons * len(Z) / ALPHA), np.maximum(G - 1, 1)
    limit = freedom + 2 * np.sqrt(u * (freedom + kurtosis * uneven / 2)) + 2 * u
    real = (n > G) & (G > 1) & (SSB / variance > limit)
    present = np.maximum((~np.isnan(Z)).sum(axis=1), 1)
    share = np.clip(1 - SSW / np.maximum(n - G, 1.0), 0.0, 1.0)
    return np.where(real, share * np.minimum(1.0, n / present / rate), 0.0)


def _sums(Z: Floats, codes: Ints) -> tuple[Floats, Floats, Floats]:
    """Return sums and counts over each group (rows of Z, groups), and the sum of all squares."""
    few = codes.max(initial=0) < 1 << 16
    order = np.argsort(codes.astype(np.uint16) if few else codes, kind="stable")
    codes, Z = codes[order], Z[:, order]
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    missing = np.isnan(Z)
    size = np.broadcast_to(np.diff(starts, append=len(codes)), (len(Z), len(starts)))
    if missing.any():
        Z = np.where(missing, 0.0, Z)
        size = size - np.add.reduceat(missing, starts, axis=1, dtype=np.int64)
    sums = np.add.reduceat(Z, starts, axis=1)
    return sums, (Z**2).sum(axis=1), size.astype(np.float64)


def _next_to(Z: Floats, numbers: Sequence[Floats]) -> Floats:
    """Return 1 - E(Z_i - Z_i')^2 / 2 Var over rows that are next to each other in some numbers.

    Slices along the first number, slices of these along the second, and sorted by the last. It
    counts if it exceeds so many standard errors as chance does with probability ALPHA.
    """
    order = _near_order(numbers)
    if len(order) < 2 * LEAST_ROWS:
        return np.zeros(len(Z))
    squares = np.diff(Z[:, order], axis=1) ** 2 / 2
    count = np.maximum((~np.isnan(squares)).sum(axis=1), 1)
    mean = np.nansum(squares, axis=1) / count
    # neighbouring differences share a row: half of them are independent
    error = np.sqrt(np.nansum((squares - mean[:, None]) ** 2, axis=1) / count / (count / 2))
    z = sqrt(2 * log(64 * len(Z) / ALPHA))
    return np.where(1 - mean > z * error, np.clip(1 - mean, 0.0, 1.0), 0.0)


def _near_order(numbers: Sequence[Floats]) -> Ints:
    """Return the rows that have all of some numbers, each beside one that is near in all."""
    rows = np.flatnonzero(~np.any([np.isnan(each) for each in numbers], axis=0))
    slices = max(1, round(len(rows) ** (1 / len(numbers))))
    place = np.zeros(len(rows), dtype=np.int64)
    for each in numbers[:-1]:
        order = np.lexsort((each[rows], place))
        rank = np.empty(len(rows), dtype=np.int64)
        rank[order] = np.arange(len(rows))
        starts = np.searchsorted(place[order], place)
        size = np.bincount(place, minlength=1)[place]
        place = place * slices + (rank - starts) * slices // size
        place = np.unique(place, return_inverse=True)[1].ravel()
    return np.asarray(rows[np.lexsort((numbers[-1][rows], place))])


# ---- the fit ------------------------------------------------------------------------------


def _fit(
    Z: Floats,
    features: Sequence[OpenColumn],
    alone: Floats,
    sets: Sequence[tuple[tuple[str, ...], OpenColumn]],
) -> Floats:
    """Return what fits of F leave of each coordinate, on rows that a fit has not seen."""
    folds = np.arange(Z.shape[1]) % FOLDS  # rows come in the order of their hashes
    each = max(1, MOST_TERMS // len(features))
    order = np.argsort(-alone.sum(axis=1), kind="stable")
    terms = [features[i].terms(each) for i in order.tolist()]
    smooth = np.concatenate(terms)[:MOST_TERMS]
    left = _ridge(Z, smooth, folds)
    waves = _less_waves(Z, features, folds)
    less = np.nanmean(waves**2, axis=1) < np.nanmean(left**2, axis=1)
    if less.any():
        left[less] = _ridge(waves[less], smooth, folds)
    for stage in _pairs(left, [features[i] for i in order[:PAIRED].tolist()]):
        left = _ridge(left, stage, folds)
    for group in (*features, _together(features)):
        if group.values > MOST_VALUES:
            left = _less_means(left, group.codes, folds)
    gains = np.array([within(left, group.codes, comparisons=256).sum() for _, group in sets])
    for i in np.argsort(-gains, kind="stable")[:MOST_SETS].tolist():
        if gains[i] > 0:
            left = _less_means(left, sets[i][1].codes, folds)
    boosted = len(features) > 1 and Z.shape[1] >= BOOST_LEAST
    return _less_boosted(left, features, folds) if boosted else left


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
    spectrum, axes = np.linalg.eigh(x @ x.T / x.shape[1])
    x = (axes[:, spectrum > 1e-6] / np.sqrt(spectrum[spectrum > 1e-6])).T @ x
    after = Z.copy()
    for i, z in enumerate(np.nan_to_num(Z)):
        bends, turned = np.linalg.eigh((x * z) @ x.T / x.shape[1])
        most = np.argsort(-np.abs(bends), kind="stable")[:DIRECTIONS]
        weights = np.column_stack([x @ z, turned[:, most]])
        terms = [np.array(_hats(sums, 2 * MOST_KNOTS)) for sums in weights.T @ x]
        after[i] = _ridge(Z[i : i + 1], np.concatenate(terms), folds)[0]
    return after


def _less_boosted(left: Floats, features: Sequence[OpenColumn], folds: Ints) -> Floats:
    """Return what boosted trees over all of F leave of some coordinates, on rows of other folds.

    Those of which few trees over few rows seem to find something.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor
    from threadpoolctl import threadpool_limits

    kinds = [each.numbers is None or each.values <= MOST_KNOTS for each in features]
    X = np.column_stack(
        [
            f.binned(MOST_VALUES) if kind or f.numbers is None else f.numbers
            for f, kind in zip(features, kinds, strict=True)
        ]
    ).astype(np.float32)

    def gained(row: Floats, fit: Ints, score: Ints, trees: int) -> Floats:
        """Return a coordinate less what trees that are grown on some rows say of others."""
        fit = fit[~np.isnan(row[fit])]
        model = HistGradientBoostingRegressor(
            max_iter=trees,
            learning_rate=0.15,
            min_samples_leaf=20,
            early_stopping=False,
            categorical_features=kinds,
            random_state=0,
        )
        with threadpool_limits(limits=1):  # several would wait for each other on a busy machine
            return np.asarray(row[score] - model.fit(X[fit], row[fit]).predict(X[score]))

    rows = np.arange(left.shape[1])
    some, others = rows[: min(BOOST_LOOK, len(rows) // 2)], rows[-BOOST_LOOK:][-(len(rows) // 2) :]
    looks = []
    for row in left[:LOOKED]:
        gain = row[others] ** 2 - gained(row, some, others, LOOK_TREES) ** 2
        error = float(np.nanstd(gain)) / sqrt(int(np.count_nonzero(~np.isnan(gain))) or 1)
        looks.append(float(np.nanmean(gain)) / max(error, 1e-300))
    after = left.copy()
    for i in np.argsort(-np.array(looks), kind="stable")[:BOOSTED].tolist():
        if looks[i] > LOOK_GAIN:
            for half in (0, 1):
                score = rows[folds % 2 == half]
                after[i, score] = gained(left[i], rows[folds % 2 != half], score, TREES)
    return _better(left, after)


def _pairs(left: Floats, features: Sequence[OpenColumn]) -> Iterator[Floats]:
    """Yield the indicators of both bins of the pairs that the residuals depend on most."""
    pairs = [
        OpenColumn("", a.binned(PAIR_BINS) * (PAIR_BINS + 1) + b.binned(PAIR_BINS))
        for a, b in combinations(features, 2)
    ]
    gains = [float(within(left, pair.codes).sum()) for pair in pairs]
    for i in np.argsort(-np.array(gains), kind="stable")[:MOST_PAIRS].tolist():
        if gains[i] > 0:
            yield replace(pairs[i], numbers=None).terms(PAIR_BINS**2)


def _ridge(Z: Floats, X: Floats, folds: Ints) -> Floats:
    """Return what ridge regressions on X leave of Z, on rows of other folds; Z if that is less.

    Where Z is missing it counts as what the fit says of it, in two rounds.
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


def _better(before: Floats, after: Floats) -> Floats:
    """Return what a fit leaves of each coordinate, where it leaves less by more than chance."""
    gain = before**2 - after**2
    count = np.maximum((~np.isnan(gain)).sum(axis=1), 1)
    mean = np.nansum(gain, axis=1) / count
    error = np.sqrt(np.nansum((gain - mean[:, None]) ** 2, axis=1)) / count
    return np.where((mean > GAIN * error)[:, None], after, before)


def _cross_fitted(Z: Floats, X: Floats, folds: Ints) -> Floats:
    """Return fits (ridges, coordinates, rows), each row's by the rows of other folds."""
    fits = np.empty((len(RIDGES), *Z.shape))
    own = [np.flatnonzero(folds == fold) for fold in range(FOLDS)]
    grams = [X[:, rows] @ X[:, rows].T for rows in own]
    sides = [X[:, rows] @ Z[:, rows].T for rows in own]
    for fold, rows in enumerate(own):
        gram = sum(grams[:fold] + grams[fold + 1 :], np.zeros_like(grams[0]))
        side = sum(sides[:fold] + sides[fold + 1 :], np.zeros_like(sides[0]))
        spectrum, axes = np.linalg.eigh(gram)
        turned, ahead = axes.T @ side, axes.T @ X[:, rows]
        for i, ridge in enumerate(RIDGES):
            penalty = 1.0 + ridge * len(X) + np.maximum(spectrum, 0.0) * ridge**2
            shrunk = turned / (np.maximum(spectrum, 0.0) + penalty)[:, None]
            fits[i][:, rows] = shrunk.T @ ahead
    return fits


def _less_means(Z: Floats, codes: Ints, folds: Ints) -> Floats:
    """Return Z less the mean of its group, by the rows of other folds; Z where that is less."""
    return _better(Z, Z - group_means(Z, codes, folds)[0])


def group_means(Z: Floats, codes: Ints, folds: Ints | None = None) -> tuple[Floats, Floats]:
    """Return the mean of each row's group by the rows of other folds, and the share between groups.

    A mean of n rows is shrunk by n b / (n b + 1 - b), b that share; 0 where it is chance.
    """
    folds = np.arange(Z.shape[1]) % FOLDS if folds is None else folds
    spread = np.nanstd(Z, axis=1, keepdims=True)
    between = within(Z / np.where(spread > 0, spread, 1.0), codes)
    means, groups, both = np.zeros_like(Z), int(codes.max()) + 1, codes * FOLDS + folds
    for row, mean, b in zip(Z, means, between.tolist(), strict=True):
        if not b:
            continue
        sums, counts = (
            np.bincount(both, each, groups * FOLDS).reshape(groups, FOLDS)
            for each in (np.nan_to_num(row), (~np.isnan(row)).astype(np.float64))
        )
        others, n = (each.sum(axis=1, keepdims=True) - each for each in (sums, counts))
        mean[:] = (others * b / np.maximum(n * b + 1 - b, 1e-9)).ravel()[both]
    return means, between


# ---- cells ----------------------------------------------------------------------------------


def _cells(left: Floats, features: Sequence[OpenColumn]) -> Ints:
    """Return the cell of each row: even rows by a tree grown on odd ones, and the other way round.

    The tree splits bins of one column of F where squares and products of residuals differ most.
    """
    n = left.shape[1]
    least = max(LEAST_LEAF, LEAF_ROWS * len(left)) // 2
    coarse = [each for each in features if each.values <= MOST_VALUES]
    bins = np.array(
        [
            *(each.binned(_cell_bins(each)) for each in features),
            *([_together(coarse).binned(CELL_VALUES)] if len(coarse) > 1 else []),
        ]
    )
    signs = _signals(np.nan_to_num(left))
    cells = np.zeros(n, dtype=np.int64)
    for half in (0, 1):
        grow, other = np.arange(half, n, 2), np.arange(1 - half, n, 2)
        cells[other] = _tree(signs[:, grow], bins[:, grow], bins[:, other], least) + half * LEAVES
    return cells


def _cell_bins(feature: OpenColumn) -> int:
    """Return in how many bins a column may tell cells apart: a number in few."""
    smooth = feature.numbers is not None and feature.values > CELL_VALUES
    return MOST_KNOTS if smooth else CELL_VALUES


def _signals(left: Floats) -> Floats:
    """Return squares and products of residuals, without their tails, in units of their spread."""
    pairs = list(combinations(range(len(left)), 2))
    step = max(1, len(pairs) // 64)
    both = [left[a] * left[b] for a, b in pairs[::step][:64]]
    signals = np.array([*(left**2), *both])
    signals = np.clip(signals, -TAIL, TAIL)
    spread = signals.std(axis=1, keepdims=True)
    return np.asarray(
        (signals - signals.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1)
    )


def _tree(signals: Floats, bins: Ints, apply: Ints, least: int) -> Ints:
    """Return the leaf of each column of `apply`, by a tree grown on signals over bins.

    Of all leaves the one is split whose best split explains most of the signals.
    """
    leaf, where = np.zeros(bins.shape[1], dtype=np.int64), np.zeros(apply.shape[1], dtype=np.int64)
    splits = {0: _best_split(signals, bins, leaf == 0, least)}
    for new in range(1, LEAVES):
        at = max(splits, key=lambda node: splits[node][0])
        gain, column, values = splits[at]
        if gain <= 0:
            break
        for codes, found in ((bins, leaf), (apply, where)):
            found[(found == at) & np.isin(codes[column], values)] = new
        for node in (at, new):
            splits[node] = _best_split(signals, bins, leaf == node, least)
    return where


def _best_split(signals: Floats, bins: Ints, rows: Flags, least: int) -> tuple[float, int, Ints]:
    """Return the gain, column and bins of the split that explains most; no gain if chance.

    For each signal, bins sorted by its mean are cut in two (which is best for it).
    """
    some, best = signals[:, rows], (0.0, 0, np.zeros(0, dtype=np.int64))
    n = some.shape[1]
    if n < 2 * least:
        return best
    some = some - some.mean(axis=1, keepdims=True)
    for column, codes in enumerate(bins[:, rows]):
        values, place = np.unique(codes, return_inverse=True)
        # bins that are sorted by one signal explain of it what all of them do by chance, at most
        d, u = len(some) + len(values), log(1 / ALPHA)
        chance = d + 2 * sqrt(d * u) + 2 * u
        sums, counts = _sums(some, place.ravel())[0], np.bincount(place.ravel())
        strongest = np.argsort(-(sums**2 / counts).sum(axis=1), kind="stable")[:4]
        for key in (np.arange(len(values)), *(sums[s] / counts for s in strongest.tolist())):
            order = np.argsort(key, kind="stable")
            left, total = np.cumsum(sums[:, order], axis=1), np.cumsum(counts[order])
            fits = (total >= least) & (n - total >= least)
            gains = (left**2).sum(axis=0) * (1 / total + 1 / np.maximum(n - total, 1)) - chance
            gains = np.where(fits, gains, 0.0)
            cut = int(gains.argmax())
            if gains[cut] > best[0]:
                best = (float(gains[cut]), column, values[order[: cut + 1]])
    return best
