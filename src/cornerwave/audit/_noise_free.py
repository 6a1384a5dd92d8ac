"""What stands in a copy without noise, F, as an adversary uses it: to smooth the noise away.

    kept numbers, the order of a key and of the rows       moving averages, nearest neighbours
    kept values, prefixes of a key, patterns of gaps       means of rows that show the same

Noise is independent from row to row, so a mean over m other rows has 1/m of it. Each mean leaves
out the row itself: how well it predicts the copy's own value then says what it is worth, and a
recipient needs no truth to put the best ones together.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from cornerwave.arrays import Flags, Floats, Ints
from cornerwave.audit._fits import LEAST_LEAF, ridge, split, standard

WINDOWS = (5, 15, 51, 151)
"""Rows in a moving average."""

NEIGHBOURS = (8, 32, 128)
NEAR_COLUMNS = 3
"""Nearest neighbours are looked for in up to so many kept numbers at a time."""

MOST_PAIRS, MOST_PREFIXES, MOST_FEW = 10, 8, 4
"""So many pairs of kept columns are crossed, prefixes of a key tried, and columns of few values
taken for cells."""

FEW_VALUES = 16
GAPS = "which cells are missing"
"""The name of the pattern of a row's gaps among codes."""

SEPARATOR = re.compile(r"[^0-9A-Za-z]+")


@dataclass(frozen=True)
class NoiseFree:
    """What some rows show without noise, by name: `numbers` (n,), NaN for missing; `codes`, from 0
    on; `orders`, the place of each row in an order; `gaps` (g, n), where cells are missing.
    """

    rows: int
    numbers: Mapping[str, Floats]
    codes: Mapping[str, Ints]
    orders: Mapping[str, Ints]
    gaps: Floats

    @classmethod
    def of(
        cls,
        rows: int,
        *,
        numbers: Mapping[str, Floats],
        values: Mapping[str, tuple[Sequence[Any], Any]],
        orders: Mapping[str, Ints],
        gaps: Flags,
    ) -> "NoiseFree":
        """Take kept numbers, kept values as (distinct values, codes), orders, and gaps (N, n)."""
        codes: dict[str, Ints] = {}
        order = dict(orders)
        for name, row in numbers.items():
            found, places = np.unique(row, return_inverse=True)
            if len(found) <= rows / 2:
                codes[name] = places.astype(np.int64)
        for name, (distinct, code) in values.items():
            codes[name] = np.asarray(code, dtype=np.int64) + 1
            if len(distinct) > max(rows / 20, FEW_VALUES):
                order[name] = _order_of(distinct, code)
                codes |= {f"{name} ({n})": own for n, own in enumerate(_prefixes(distinct, code))}
        seen = gaps[gaps.any(axis=1) & ~gaps.all(axis=1)]
        _, first = np.unique(seen, axis=0, return_index=True)
        flags = seen[np.sort(first)].astype(np.float64)
        if len(flags) > 1:
            codes[GAPS] = np.unique(flags, axis=1, return_inverse=True)[1].astype(np.int64)
        return cls(rows, numbers, codes, order, flags)

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
    def groups(self) -> list[Ints]:
        """The codes of every kept column, of pairs of them, and of all together."""
        single = [code for code in self.codes.values() if self._repeats(code)]
        pairs = [_crossed(pair) for pair in list(combinations(single, 2))[:MOST_PAIRS]]
        every = [_crossed(single)] if len(single) > 2 else []
        return [*single, *filter(self._repeats, [*pairs, *every])]

    def _repeats(self, code: Ints) -> bool:
        return bool((np.bincount(code) > 1).sum() > 1)

    @cached_property
    def few(self) -> list[Ints]:
        """The codes of columns of few values, each in enough rows for a fit of its own."""
        flags = [row.astype(np.int64) for row in self.gaps]
        counts = [(code, np.bincount(code)) for code in (*self.codes.values(), *flags)]
        used = [
            code
            for code, n in counts
            if 2 <= (n > 0).sum() <= FEW_VALUES and np.sort(n)[-2] >= LEAST_LEAF
        ]
        return used[:MOST_FEW]

    def smooth(self, values: Floats) -> Floats:
        """Return the mean of other rows that F says are alike, of values (k, n) in standard form,
        put together so that it predicts them best, (k, n).
        """
        part = split(self.rows)
        found = np.zeros_like(values)
        for c, row in enumerate(values):
            means = standard(np.array([*self._means(row)]).reshape(-1, self.rows))
            if len(means):
                found[c] = ridge(means, row[None], part)[0]
        return found

    def _means(self, row: Floats) -> Iterator[Floats]:
        for order in self._lines:
            yield from _moving(row, order)
        for near in self._near:
            yield from _nearest(row, near)
        for code in self.groups:
            yield _grouped(row, code)

    @cached_property
    def _lines(self) -> list[Ints]:
        """What sorts the rows: by each order, and by each kept number."""
        ways = [*self.orders.values(), *self.numbers.values()]
        return [np.argsort(way, kind="stable") for way in ways]

    @cached_property
    def _near(self) -> list[Ints]:
        """The nearest other rows (n, k) in kept numbers, two and three at a time."""
        numbers = standard(np.array([*self.numbers.values()]).reshape(-1, self.rows))
        sizes = range(2, NEAR_COLUMNS + 1)
        sets = [list(s) for size in sizes for s in combinations(range(len(numbers)), size)]
        return [_neighbours(numbers[chosen]) for chosen in sets[:MOST_FEW]]


def follows(row: Floats) -> float:
    """Return how well the rows around each predict its standard value, in deviations of chance."""
    means = _moving(row, np.arange(len(row)))
    return max(float(row @ mean) / float(np.linalg.norm(mean) + 1e-300) for mean in means)


def _neighbours(numbers: Floats) -> Ints:
    from scipy.spatial import cKDTree

    points = numbers.T
    most = min(NEIGHBOURS[-1], len(points) - 1)
    _, near = cKDTree(points).query(points, k=most + 1, workers=-1)
    return np.asarray(near, dtype=np.int64)


def _moving(row: Floats, order: Ints) -> Iterator[Floats]:
    """Yield moving averages of a row of values in an order, each without the value itself."""
    n, values = len(row), row[order]
    sums = np.concatenate([[0.0], np.cumsum(values)])
    for window in WINDOWS:
        low = np.maximum(np.arange(n) - window // 2, 0)
        high = np.minimum(np.arange(n) + window // 2 + 1, n)
        found = np.empty(n)
        found[order] = (sums[high] - sums[low] - values) / np.maximum(high - low - 1, 1)
        yield found


def _nearest(row: Floats, near: Ints) -> Iterator[Floats]:
    """Yield the means of the nearest rows, without the row itself."""
    other = near != np.arange(len(row))[:, None]
    sums, count = np.cumsum(np.where(other, row[near], 0.0), axis=1), np.cumsum(other, axis=1)
    for k in NEIGHBOURS:
        last = min(k, near.shape[1] - 1)
        yield sums[:, last] / np.maximum(count[:, last], 1)


def _grouped(row: Floats, code: Ints) -> Floats:
    """Return the mean of the other rows of a group, shrunk where there are few."""
    n, sums = np.bincount(code), np.bincount(code, row)
    many = n > 1
    within = float((row**2).sum() - (sums[many] ** 2 / n[many]).sum())
    within /= max(float((n[many] - 1).sum()), 1.0)
    between = max(float((row**2).mean()) - within, 1e-3)
    weight = max(within, 0.0) / between
    return np.asarray((sums[code] - row) / (n[code] - 1 + weight + 1e-9))


def _crossed(codes: Sequence[Ints]) -> Ints:
    """Return one code for each combination of values."""
    found = codes[0]
    for code in codes[1:]:
        found = np.unique(found * (code.max() + 1) + code, return_inverse=True)[1]
    return np.asarray(found, dtype=np.int64)


def _order_of(distinct: Sequence[Any], code: Any) -> Ints:
    """Return the place of each row in the order of its value, read as people do."""
    order = sorted(range(len(distinct)), key=lambda k: _readable(distinct[k]))
    places = np.empty(len(distinct) + 1, dtype=np.int64)
    places[order] = np.arange(len(distinct))
    places[-1] = -1  # a missing value comes first
    return np.asarray(places[code])


def _readable(value: Any) -> list[tuple[bool, Any]]:
    """Return what a value is sorted by: numbers in a text by their size."""
    parts = re.split(r"(\d+)", str(value))
    return [(part.isdigit(), int(part) if part.isdigit() else part) for part in parts]


def _prefixes(distinct: Sequence[Any], code: Any) -> Iterator[Ints]:
    """Yield codes of the beginnings of texts, up to each separator and of each length."""
    texts = [str(value) for value in distinct]
    cuts = [["".join(p) for p in _parts(text)] for text in texts]
    deepest = max(map(len, cuts), default=0)
    ways = [[own[min(k, len(own) - 1)] if own else "" for own in cuts] for k in range(deepest)]
    ways += [[text[:k] for text in texts] for k in range(1, max(map(len, texts), default=0))]
    seen: set[int] = set()
    for way in ways:
        names = {name: place for place, name in enumerate(dict.fromkeys(way), start=1)}
        fresh = 1 < len(names) <= len(texts) / 1.5 and len(names) not in seen
        if fresh and len(seen) < MOST_PREFIXES:
            seen.add(len(names))
            numbers = np.array([*(names[name] for name in way), 0], dtype=np.int64)
            yield numbers[code]


def _parts(text: str) -> Iterator[str]:
    """Yield the beginnings of a text before each separator."""
    for found in SEPARATOR.finditer(text):
        yield text[: found.start()]
