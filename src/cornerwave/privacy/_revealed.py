"""What stands in a copy without noise, F, reveals of each column, whatever function of it is taken.

Of a coordinate Z_j of the columns that get noise, the best estimate from F alone, E[Z_j | F],
recovers the share

    R^2_j(F) = Var(E[Z_j | F]) / Var(Z_j)

No single estimator approaches it for every dependence, so it is the largest of three, each of which
estimates a part of it from above chance alone:

    fit         what regressions leave on rows that they have not seen      (_regressions)
    groups      1 - MSW / Var over rows that share a value, two to four or all     (_anova)
    neighbours  1 - E(Z_i - Z_i')^2 / 2 Var over rows next to each other in 1, 2 or 3 columns

What the fit leaves is then shrunk to what the largest leaves. A column of F counts also by its
parts, such as the end of a text or the weekday of a date: those that reveal something of the
coordinates, or of how they vary, which the column does not.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from cornerwave.arrays import Floats, Ints
from cornerwave.privacy._anova import less_means, next_to, revealed_alone, within
from cornerwave.privacy._open_columns import (
    MOST_VALUES,
    OpenColumn,
    all_values,
    second_moments,
    standardised,
)
from cornerwave.privacy._regressions import PAIRED, SET_COMPARISONS, residuals
from cornerwave.privacy._variance_cells import cell_bins

FIT_ROWS = 1 << 15
"""Rows that fits and cells are made of; groups are looked for among all sampled ones."""
LEAST_FIT = 200
"""Fewer rows are too few for a fit: groups and neighbours alone count."""
NEAR = 5
"""Numbers of F in which rows may be neighbours: those that reveal most."""
SETS = {3: 13, 4: 5}
"""So many columns are taken together, each in so many bins: of numbers 12 and 4 bands, with a cut
at the median, and where they are missing."""
MOST_PARTS = 3
"""Parts of a column that count."""
LOOK_CELLS, LEAST_LOOK = 1 << 20, 1 << 12
"""Cells of the coordinates and products that parts are compared with, and the least rows."""
PART_COMPARISONS = 64
"""Comparisons for each part, to divide the probability of an alarm by."""


@dataclass(frozen=True)
class Residuals:
    """What F reveals of coordinates: shares R^2 (coordinates), and what it leaves of them.

    `residuals` (coordinates, rows) have the mean square 1 - shares, in units of each coordinate's
    deviation, NaN where it is missing; `bins` (columns of F, rows) are what cells can be made of;
    `alone` (features, coordinates) is what each column of F reveals by itself, `together` what
    several do, by their names.
    """

    shares: Floats
    residuals: Floats
    bins: Ints
    alone: Floats
    together: Mapping[tuple[str, ...], Floats] = field(default_factory=dict)


def reveal(Z: Floats, features: Sequence[OpenColumn], rows: int | None = None) -> Residuals:
    """Return what F reveals of coordinates (coordinates, sampled rows), NaN where missing.

    `rows` is how many rows the table has, if they are not all here.
    """
    # the share of the table's rows that are here: groups are so many times larger in the table
    rate = 1.0 if rows is None else Z.shape[1] / max(rows, Z.shape[1])
    Z = standardised(Z)
    features = [each for each in features if each.values > 1]
    if not features or not len(Z):
        none = np.zeros((0, Z.shape[1]), dtype=np.int64)
        return Residuals(np.zeros(len(Z)), Z, none, np.zeros((0, len(Z))))
    # groups and neighbours, in all sampled rows
    alone = np.array([revealed_alone(Z, each, rate) for each in features])
    order = np.argsort(-alone.sum(axis=1), kind="stable").tolist()
    together = _revealed_by_several(Z, features, order, rate)
    known = np.max([*alone, *together.values()], axis=0)
    # the fit, in some of them
    rate *= min(1.0, FIT_ROWS / Z.shape[1])
    Z = standardised(Z[:, :FIT_ROWS])
    features = [each.first(FIT_ROWS) for each in features]
    strongest = [features[i] for i in order]
    sets = list(_sets(strongest[:PAIRED]))
    enough = Z.shape[1] >= LEAST_FIT
    left = residuals(Z, features, strongest=strongest, sets=sets) if enough else Z.copy()
    fitted = np.nan_to_num(np.nanmean(left**2, axis=1), nan=1.0)
    # R^2(F) is the largest of all estimates of it, so 1 - R^2 the least
    best = np.minimum(fitted, 1 - known)
    # groups and neighbours once more, of what the fit leaves: 1 - R^2 is a product then
    left /= np.sqrt(np.maximum(fitted, 1e-300))[:, None]
    beyond = _revealed_by_several(left, features, order, rate)
    best = np.minimum(best, fitted * (1 - np.max([*beyond.values()], axis=0)))
    for each in sets:
        of_all, of_rest = (within(z, each.codes, comparisons=SET_COMPARISONS) for z in (Z, left))
        best = np.minimum(best, np.minimum(1 - of_all, fitted * (1 - of_rest)))
        together[each.of] = np.maximum(of_all, together.get(each.of, 0.0))
    best = np.clip(best, 0.0, 1.0)
    # residuals with the mean square 1 - R^2, whichever estimate gave it
    left *= np.sqrt(best)[:, None]
    several = {
        names: shares for names, shares in together.items() if len(names) > 1 and shares.any()
    }
    return Residuals(1 - best, left, cell_bins(features), alone, several)


def _revealed_by_several(
    Z: Floats, features: Sequence[OpenColumn], order: Sequence[int], rate: float
) -> dict[tuple[str, ...], Floats]:
    """Return what rows with two or all values in common, or near in 1 to 3 numbers, reveal.

    `order` sorts the features by what they reveal by themselves.
    """
    strongest = [features[i] for i in order]
    first, near = strongest[:PAIRED], [f for f in strongest if f.numbers is not None][:NEAR]
    shares: dict[tuple[str, ...], Floats] = {}
    for group in (*([f] for f in first), *combinations(first, 2), features):
        shared = all_values(group)
        shares[shared.of] = within(Z, shared.codes, rate)
    for number in (1, 2, 3):
        for chosen in combinations(near[: NEAR + 1 - number], number):
            names = tuple(dict.fromkeys(each.name for each in chosen))
            by_neighbours = next_to(
                Z, [each.numbers for each in chosen if each.numbers is not None]
            )
            shares[names] = np.maximum(shares.get(names, 0.0), by_neighbours)
    return shares


def _sets(features: Sequence[OpenColumn]) -> Iterator[OpenColumn]:
    """Yield three and four columns as one, in bins."""
    for number, bins in SETS.items():
        coarse = [OpenColumn.coded(each.name, each.binned(bins)) for each in features]
        for chosen in combinations(coarse, number):
            yield all_values(chosen)


def with_revealing_parts(Z: Floats, features: Sequence[OpenColumn]) -> list[OpenColumn]:
    """Return the columns of F, and of their parts those that reveal what the columns do not.

    Compared with coordinates, their squares and products: what the bins of the columns leave of
    these, then what the best part leaves.
    """
    features = [each for each in features if each.values > 1]
    whole = {each.name: each for each in features if each.kind != "part"}
    if len(whole) == len(features) or not len(Z):
        return features
    left = standardised(Z[:, :FIT_ROWS])
    signals = np.concatenate([left, second_moments(np.nan_to_num(left))])
    signals = standardised(signals[:, : max(LEAST_LOOK, LOOK_CELLS // len(signals))])
    rows, chosen = signals.shape[1], [*whole.values()]
    for of in dict.fromkeys(each.of for each in features if each.kind == "part"):
        parts = [each for each in features if each.of == of]
        rest = signals
        for name in of:
            if name in whole:
                bins = whole[name].first(rows).binned(MOST_VALUES)
                rest = standardised(less_means(rest, bins))
        chosen += _best_parts(rest, parts, comparisons=PART_COMPARISONS * len(features))
    return chosen


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
        left = standardised(less_means(left, groups.pop(best)[-1]))


def _part_codes(part: OpenColumn) -> list[Ints]:
    """Return the groups that rows of a part are in: by its values, and of a number in bins."""
    smooth = part.numbers is not None and part.values > MOST_VALUES
    return [part.codes, part.binned(MOST_VALUES)] if smooth else [part.codes]
