"""What a copy shows without noise, F, as an adversary uses it: to smooth the noise away.

    kept numbers, the order of a key and of the rows       moving averages, nearest neighbours
    kept values, parts of them, patterns of gaps, and      means of rows that show the same
    two or three columns together

Noise is independent from row to row, so a mean over m other rows has 1/m of it. Each mean leaves
out the row itself: how well it predicts the copy's own value then shows what it is worth, and a
recipient needs no truth to put the best ones together.
"""

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, count
from typing import Any

import numpy as np

from cornerwave.arrays import Flags, Floats, Ints
from cornerwave.audit._fits import LEAST_LEAF, ridge, split, standard
from cornerwave.audit._groupings import binned, choose, crosses, parts_of_numbers, parts_of_texts

MOVING_WINDOWS = (5, 15, 51, 151)
"""Rows in a moving average."""

NEIGHBOURS = (8, 32, 128)
NEAR_COLUMNS = 3
"""Nearest neighbours are looked for in up to so many kept numbers at a time."""

MOST_FEW, FEW_VALUES = 4, 16
"""So many columns of so few values are taken for cells."""

MANY_VALUES, ROWS_PER_VALUE = 256, 20
"""Columns of so many values are cells too, if they show in so many rows each, on average."""

CROSSED_BINS, FINE_BINS, BINNED_VALUES, MOST_SUMMED = 8, 64, 100, 5
"""Numbers of more values are crossed in eight parts; trends are known in 64; sums and differences
of so many numbers are tried."""

GAPS, EVERY = "which cells are missing", "all columns without noise together"
"""The names of the pattern of a row's gaps, and of all codes together."""


@dataclass(frozen=True)
class NoiseFree:
    """What some rows show without noise, by name: `numbers` (n,), NaN for missing; `codes`, from 0
    on; `orders`, the place of each row in an order; `gaps` (g, n), where cells are missing;
    `crossed`, codes of several columns together.
    """

    rows: int
    numbers: Mapping[str, Floats]
    codes: Mapping[str, Ints]
    orders: Mapping[str, Ints]
    gaps: Floats
    crossed: Mapping[str, Ints] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        rows: int,
        *,
        numbers: Mapping[str, Floats],
        values: Mapping[str, tuple[Sequence[Any], Any]],
        orders: Mapping[str, Ints],
        gaps: Flags,
        alike: Mapping[str, Ints] | None = None,
    ) -> "NoiseFree":
        """Take kept numbers, kept values as (distinct values, codes), orders, gaps (N, n), and
        rows that belong together by their places.
        """
        codes: dict[str, Ints] = {}
        order = dict(orders)
        for name, row in numbers.items():
            levels, places = np.unique(row, return_inverse=True)
            # values that repeat are groups too; a continuous number is not
            if len(levels) <= rows / 2:
                codes[name] = places.astype(np.int64)
        for name, (distinct, code) in values.items():
            # 0 is missing
            codes[name] = np.asarray(code, dtype=np.int64) + 1
            # many distinct values: their order may reveal more than their groups
            if len(distinct) > max(rows / 20, FEW_VALUES):
                order[name] = _order_of(distinct, code)
        seen = gaps[gaps.any(axis=1) & ~gaps.all(axis=1)]
        # columns with the same gaps count once
        _, first = np.unique(seen, axis=0, return_index=True)
        flags = seen[np.sort(first)].astype(np.float64)
        if len(flags) > 1:
            codes[GAPS] = np.unique(flags, axis=1, return_inverse=True)[1].astype(np.int64)
        return cls(rows, numbers, {**codes, **(alike or {})}, order, flags)

    def with_parts(
        self,
        truths: Floats,
        *,
        values: Mapping[str, tuple[Sequence[Any], Any]],
        units: Mapping[str, str],
    ) -> "NoiseFree":
        """Return it with the parts of its columns in which rows agree in `truths` (d, n), standard;
        then with columns that do so in twos and threes.
        """
        parts = [
            part
            for name, (distinct, code) in values.items()
            if len(distinct) > FEW_VALUES
            for part in parts_of_texts(name, distinct, code)
        ]
        for name, row in self.numbers.items():
            if len(np.unique(row)) > FEW_VALUES:
                parts += parts_of_numbers(name, row, units.get(name))
        summed = dict(_sums_of(self.numbers))
        sums = [(name, binned(row, FINE_BINS)) for name, row in summed.items()]
        # parts must explain what the columns themselves do not
        known = [*self._single, *(binned(row, FINE_BINS) for row in self.numbers.values())]
        codes, orders = dict(self.codes), dict(self.orders)
        for k in choose([code for _, code in (*parts, *sums)], known, truths):
            name, code = (*parts, *sums)[k]
            if k < len(parts):
                codes[_fresh(name, codes)] = code
            else:
                orders[name] = np.unique(summed[name], return_inverse=True)[1].astype(np.int64)
        return replace(self, codes=codes, orders=orders)._with_crosses(truths)

    def _with_crosses(self, truths: Floats) -> "NoiseFree":
        coarse = {name: code for name, code in self.codes.items() if _repeats(code)}
        for name, row in self.numbers.items():
            if len(np.unique(row)) > BINNED_VALUES:
                coarse[_fresh(name, coarse)] = binned(row, CROSSED_BINS)
        ways = list(crosses(list(coarse.values())))
        names = list(coarse)
        known = [*coarse.values(), *(binned(row, FINE_BINS) for row in self.numbers.values())]
        chosen = [ways[k] for k in choose([code for _, code in ways], known, truths)]
        return replace(
            self, crossed={" with ".join(names[k] for k in which): c for which, c in chosen}
        )

    def __bool__(self) -> bool:
        return bool(self.numbers or self.codes or self.orders or len(self.gaps))

    @cached_property
    def features(self) -> Floats:
        """All that has an order, (m, n), for trees: NaN is missing."""
        ordered = [*self.numbers.values(), *(o.astype(np.float64) for o in self.orders.values())]
        return np.vstack([np.empty((0, self.rows)), *ordered, self.gaps])

    @cached_property
    def straight(self) -> Floats:
        """Kept numbers and gaps, standard, for linear estimates."""
        return standard(np.vstack([np.empty((0, self.rows)), *self.numbers.values(), self.gaps]))

    @cached_property
    def groups(self) -> dict[str, Ints]:
        """The codes of every kept column and part, of some together, and of all together."""
        single = {name: code for name, code in self.codes.items() if _repeats(code)}
        every = _crossed(list(single.values())) if len(single) > 2 else None
        together = {EVERY: every} if every is not None and _repeats(every) else {}
        return {**single, **self.crossed, **together}

    @property
    def _single(self) -> list[Ints]:
        return [code for code in self.codes.values() if _repeats(code)]

    @cached_property
    def many(self) -> dict[str, Ints]:
        """The codes whose values may each have weights of their own, shrunk to those of all."""
        flags = {name: code for name, code in self.groups.items() if name != EVERY}
        values = {name: int((np.bincount(code) > 0).sum()) for name, code in flags.items()}
        # fewer rows per value cannot fit weights of their own, even shrunk
        most = min(MANY_VALUES, self.rows // ROWS_PER_VALUE)
        return {name: code for name, code in flags.items() if 2 <= values[name] <= most}

    @cached_property
    def few(self) -> dict[str, Ints]:
        """The codes of columns of few values, each in enough rows for a fit of its own."""
        flags = {f"gap {g + 1}": row.astype(np.int64) for g, row in enumerate(self.gaps)}
        codes = {**self.codes, **flags}
        counts = {name: np.bincount(code) for name, code in codes.items()}
        used = [
            name
            for name, n in counts.items()
            if 2 <= (n > 0).sum() <= FEW_VALUES and np.sort(n)[-2] >= LEAST_LEAF
        ]
        return {name: codes[name] for name in used[:MOST_FEW]}

    def smooth(self, values: Floats) -> Floats:
        """Return the mean of other rows that are alike by F, of values (k, n) in standard form,
        put together so that it predicts them best, (k, n).
        """
        part = split(self.rows)
        smoothed = np.zeros_like(values)
        # stacking: each mean leaves out the row, so its error there is honest
        for c, row in enumerate(values):
            means = standard(np.array([*self._means(row)]).reshape(-1, self.rows))
            if len(means):
                smoothed[c] = ridge(means, row[None], part)[0]
        return smoothed

    def _means(self, row: Floats) -> Iterator[Floats]:
        for order in self.lines.values():
            yield from moving(row, order)
        for near in self.near.values():
            yield from nearest(row, near)
        for code in self.groups.values():
            yield _grouped(row, code)

    @cached_property
    def lines(self) -> dict[str, Ints]:
        """What sorts the rows: by each order, and by each kept number; equal ones at random, since
        their order in the file may be one that the owner chose to show.
        """
        # ties are sorted in this order
        mixed = np.random.default_rng(self.rows).permutation(self.rows)
        ways = {**self.orders, **self.numbers}
        return {name: mixed[np.argsort(way[mixed], kind="stable")] for name, way in ways.items()}

    @cached_property
    def near(self) -> dict[str, Ints]:
        """The nearest other rows (n, k) in kept numbers, two and three at a time."""
        sizes = range(2, NEAR_COLUMNS + 1)
        vary = {
            name: scaled[0]
            for name, row in self.numbers.items()
            if len(scaled := standard(row[None]))
        }
        sets = [together for size in sizes for together in combinations(vary, size)][:MOST_FEW]
        return {
            " with ".join(together): _neighbours(np.array([vary[name] for name in together]))
            for together in sets
        }


def follows(row: Floats) -> float:
    """Return how well the rows around each predict its standard value, in deviations of chance."""
    means = moving(row, np.arange(len(row)))
    return max(float(row @ mean) / float(np.linalg.norm(mean) + 1e-300) for mean in means)


def _neighbours(numbers: Floats) -> Ints:
    from scipy.spatial import cKDTree

    points = numbers.T
    most = min(NEIGHBOURS[-1], len(points) - 1)
    _, near = cKDTree(points).query(points, k=most + 1, workers=-1)
    return np.asarray(near, dtype=np.int64)


def moving(row: Floats, order: Ints) -> Iterator[Floats]:
    """Yield moving averages of a row of values in an order, each without the value itself."""
    n, values = len(row), row[order]
    # window sums as differences of cumulated ones, less the value itself
    sums = np.concatenate([[0.0], np.cumsum(values)])
    for window in MOVING_WINDOWS:
        low = np.maximum(np.arange(n) - window // 2, 0)
        high = np.minimum(np.arange(n) + window // 2 + 1, n)
        averages = np.empty(n)
        averages[order] = (sums[high] - sums[low] - values) / np.maximum(high - low - 1, 1)
        yield averages


def nearest(row: Floats, near: Ints) -> Iterator[Floats]:
    """Yield the means of the nearest rows, without the row itself."""
    other = near != np.arange(len(row))[:, None]
    # cumulated over neighbours: every k of NEIGHBOURS is one look-up
    sums, count = np.cumsum(np.where(other, row[near], 0.0), axis=1), np.cumsum(other, axis=1)
    for k in NEIGHBOURS:
        last = min(k, near.shape[1] - 1)
        yield sums[:, last] / np.maximum(count[:, last], 1)


def _grouped(row: Floats, code: Ints) -> Floats:
    """Return the mean of the other rows of a group, shrunk where there are few."""
    n, sums = np.bincount(code), np.bincount(code, row)
    many = n > 1
    # variance within groups, and between: their ratio is how many rows the overall mean counts for
    within = float((row**2).sum() - (sums[many] ** 2 / n[many]).sum())
    within /= max(float((n[many] - 1).sum()), 1.0)
    between = max(float((row**2).mean()) - within, 1e-3)
    # empirical Bayes, mean of the others = (sum - own) / (n - 1 + within / between)
    weight = max(within, 0.0) / between
    return np.asarray((sums[code] - row) / (n[code] - 1 + weight + 1e-9))


def _crossed(codes: Sequence[Ints]) -> Ints:
    """Return one code for each combination of values."""
    crossed = codes[0]
    for code in codes[1:]:
        # numbered anew at each step, so that products stay small
        crossed = np.unique(crossed * (code.max() + 1) + code, return_inverse=True)[1]
    return np.asarray(crossed, dtype=np.int64)


def _order_of(distinct: Sequence[Any], code: Any) -> Ints:
    """Return the place of each row in the order of its value, read as people do."""
    order = sorted(range(len(distinct)), key=lambda k: _readable(distinct[k]))
    places = np.empty(len(distinct) + 1, dtype=np.int64)
    places[order] = np.arange(len(distinct))
    # code -1 picks the last entry
    places[-1] = -1  # a missing value comes first
    return np.asarray(places[code])


def _readable(value: Any) -> list[tuple[bool, Any]]:
    """Return what a value is sorted by: numbers in a text by their size."""
    parts = re.split(r"(\d+)", str(value))
    return [(part.isdigit(), int(part) if part.isdigit() else part) for part in parts]


def _repeats(code: Ints) -> bool:
    return bool((np.bincount(code) > 1).sum() > 1)


def _fresh(name: str, used: Container[str]) -> str:
    """Return a name that is not used yet."""
    names = (name if k == 1 else f"{name} ({k})" for k in count(1))
    return next(unused for unused in names if unused not in used)


def _sums_of(numbers: Mapping[str, Floats]) -> Iterator[tuple[str, Floats]]:
    """Yield differences and sums of two numbers."""
    for (first, a), (second, b) in combinations(list(numbers.items())[:MOST_SUMMED], 2):
        yield f"difference of {first} and {second}", a - b
        yield f"sum of {first} and {second}", a + b
