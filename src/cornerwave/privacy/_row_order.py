"""What the order of the rows reveals: how well its neighbours in a file predict a row.

Let r(k) be the correlation of a column with itself k rows further on: of the ranks of
numbers, so that one record far out neither feigns an order nor hides one, and for a
category (P(equal) - s) / (1 - s) with s = sum of pi^2. Noise is independent from row to
row. So the best linear smoother of a copy at noise v, over the row itself and rings of its
neighbours, whose covariance R = U diag(S) U' follows from r, leaves

    hidden(v) = sum over i of U_0i^2 v S_i / (S_i + v)  <=  v / (1 + v)    equal if all r are 0

What neighbours reveal is the largest difference between the two at any privacy. The smoother
sees 512 rows to either side; one that knows more may do better. If neighbours reveal little, rows
at any other distance are looked at, and rows in mirrored places (see `_distant_rows`).

A correlation that chance explains counts as none. In a random order sums of products of
centred terms are martingales: Bernstein's inequality bounds them, for ALPHA divided by all
columns and lags. Its second term, for rare values, falls away where values spread evenly.
Lags that chance explains one by one are tested once more together.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.arrays import Floats, Ints
from cornerwave.columns import Encoded, one_chunk, to_floats
from cornerwave.passes import in_threads
from cornerwave.privacy._distant_rows import DistantRows
from cornerwave.privacy._groups import EVEN, category_spread
from cornerwave.privacy._ties import Ties

ALPHA = 1e-6
"""The probability that a table in random order is reported to be revealed by its order."""

MATTERS = 0.005
"""Neighbours that reveal more than this share of a column's variance matter."""

LITTLE = 0.05
"""If neighbours reveal no more than this of any column, rows far apart may reveal more."""

LAGS = (*range(1, 33), 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
REACHES = (2, 4, 8, 16, 32, 128, 1024)
"""Lags up to each of these are also taken together: a slow trend is weak in each of them."""
SHORTEST = 4
"""Lags of at most one in so many rows of a table are looked at."""

RUN = 4096
"""Rows of a large table are kept in runs of so many neighbours, spread evenly over it."""

NEAR_CELLS, LEAST_NEAR = 1 << 21, 1 << 14
"""So many cells of a table are kept, but at least so many rows."""
SENT = 16
"""A machine sends one in so many of these cells where nobody knows how many parts there are."""

NEIGHBOURS = "a row's neighbours"
PRIVACIES = (*(k / 20 for k in range(1, 20)), 0.97, 0.98, 0.99)


@dataclass(frozen=True)
class RevealedByOrder:
    """At this privacy, neighbours, or rows elsewhere, leave only the share `hidden` of a column."""

    column: str
    privacy: float
    hidden: float
    where: str = NEIGHBOURS

    @classmethod
    def at_most(cls, column: str, hidden: Floats, where: str = NEIGHBOURS) -> "RevealedByOrder":
        """Return it at the privacy of PRIVACIES at which most is revealed."""
        privacies = np.array(PRIVACIES)
        most = int(np.argmax(privacies - hidden))
        return cls(column, float(privacies[most]), float(hidden[most]), where)

    @property
    def share(self) -> float:
        """The share of the column's variance that neighbours reveal beyond the copy of the row."""
        return self.privacy - self.hidden

    def __str__(self) -> str:
        return (
            f"at privacy {self.privacy:g} {self.where} leave {self.hidden:.3f} of "
            f"{self.column!r} hidden"
        )


class RowOrder:
    """Some runs of a table's rows, from which to measure what their order reveals; parts add up."""

    def __init__(
        self,
        columns: Sequence[str],
        *,
        rows: int | None = None,
        cells: int = NEAR_CELLS,
        distant: Sequence[str] | None = None,
    ) -> None:
        """`rows` is how many the whole table has, if that is known before the first is seen:
        then the runs that are kept of some of its parts are those kept of the whole.

        Of the columns in `distant`, by default all, rows far apart are compared too."""
        self._columns = list(dict.fromkeys(columns))
        count = max(1, len(self._columns))
        self._most = max(LEAST_NEAR, cells // count)
        self._sent = self._most if rows is not None else max(LEAST_NEAR, cells // SENT // count)
        self._stride, self._rows = 1, 0
        while rows is not None and _kept(rows, self._stride) > self._most:
            self._stride *= 2
        self._parts: list[tuple[int, pa.Table]] = []
        self._distant = DistantRows(self._columns if distant is None else distant, rows=rows)

    def passing(self, groups: Iterable[tuple[int, pa.Table]]) -> Iterator[tuple[int, pa.Table]]:
        """Yield the groups of a table as they are, in order, looking at each."""
        for start, table in groups:
            self.add(start, table)
            yield start, table

    def add(self, start: int, table: pa.Table) -> None:
        """Look at the rows of a table that begin at `start`."""
        self._take(self.of(start, table))

    def of(self, start: int, table: pa.Table) -> "RowOrder":
        """Return what is kept, beside these rows, of those of a table that begin at `start`."""
        part = copy(self)
        part._parts, part._rows, part._distant = [], 0, self._distant.none()
        part._keep(self._runs(start, table))
        part._distant.take(self._distant.of(start, table))
        return part

    def __add__(self, other: "RowOrder") -> "RowOrder":
        total = self._copied()
        total._take(other)
        return total

    def trimmed(self) -> "RowOrder":
        """Return fewer runs, if they are some of unknown many parts, to be sent."""
        trimmed = self._copied()
        trimmed._thin(self._sent)
        return trimmed

    def _copied(self) -> "RowOrder":
        """Return the same rows, apart from what is taken later."""
        twin = copy(self)
        twin._parts, twin._distant = list(self._parts), self._distant.copied()
        return twin

    def _take(self, other: "RowOrder") -> None:
        self._distant.take(other._distant.parts)
        self._keep([run for start, rows in other._parts for run in self._runs(start, rows)])
        self._thin(self._most)

    def _thin(self, most: int) -> None:
        """Keep every other run until there are at most so many rows."""
        while self._rows > most:
            self._stride, self._rows = 2 * self._stride, 0
            parts, self._parts = self._parts, []
            for part in parts:
                self._keep(self._runs(*part))

    def _keep(self, runs: Iterable[tuple[int, pa.Table]]) -> None:
        for start, run in runs:
            self._parts.append((start, run))
            self._rows += run.num_rows

    def _runs(self, start: int, table: pa.Table) -> list[tuple[int, pa.Table]]:
        """Return the runs of a table that stand at multiples of the stride so far."""
        if not self._columns:
            return []
        table = table.select(self._columns)
        if self._stride == 1:
            return [(start, table)]
        stop, whole, runs = start + table.num_rows, RUN * self._stride, []
        for first in range(start // whole * whole, stop, whole):
            here, there = max(first, start), min(first + RUN, stop)
            if here < there:
                run = table.slice(here - start, there - here)
                # copied, or all rows of the table would stay in memory with it
                runs.append((here, _copied(run) if len(run) < len(table) else run))
        return runs

    def revealed(
        self,
        numbers: Sequence[str],
        categories: Sequence[str],
        *,
        hide_missing: Sequence[str] = (),
        sorted_by: str | None = None,
    ) -> list[RevealedByOrder]:
        """Return the columns that their neighbours reveal, most first.

        Neighbours are those in the file or, if it is to be `sorted_by` a column, those in
        that order. A missing category is one more value if it is in `hide_missing`.
        """
        if not self._rows:
            return []
        positions = np.concatenate([np.arange(at, at + len(part)) for at, part in self._parts])
        table = pa.concat_tables([part for _, part in self._parts])
        if sorted_by is not None:
            positions, table = np.arange(self._rows), _sorted(table, sorted_by)
        asked: list[tuple[str, bool | None]] = [(name, None) for name in numbers]
        asked += [(name, name in hide_missing) for name in categories]
        pairs = _Pairs(positions)
        with in_threads(lambda each: _signal(table, *each), asked, None) as signals:  # by column
            pairs_of = zip((name for name, _ in asked), signals, strict=True)
            known = [(name, signal) for name, signal in pairs_of if signal is not None]
        # Bonferroni: over all columns, lags, and lags taken together
        alpha = ALPHA / max(1, len(known) * (len(pairs.lags) + len(REACHES)))
        with in_threads(lambda each: _revealed_by_near(*each, pairs, alpha), known, None) as near:
            revealed = list(near)
        if sorted_by is None and all(each.share <= LITTLE for each in revealed):
            ties = self._distant.found(numbers, categories, hide_missing=hide_missing, alpha=ALPHA)
            revealed += [
                revealed_from_afar(self._distant, name, ties_of) for name, ties_of in ties.items()
            ]
        most = {each.column: each for each in sorted(revealed, key=lambda t: t.share)}
        return sorted((t for t in most.values() if t.share > MATTERS), key=lambda t: -t.share)


def revealed_from_afar(rows: DistantRows, name: str, ties: Ties) -> RevealedByOrder:
    """Return what rows far apart, or in mirrored places, reveal of a column."""
    return RevealedByOrder.at_most(name, rows.left_hidden(ties, np.array(PRIVACIES)), ties.where)


def _kept(rows: int, stride: int) -> int:
    """Return how many of so many rows stand in runs at multiples of a stride."""
    whole, rest = divmod(rows, RUN * stride)
    return whole * RUN + min(rest, RUN)


def _copied(table: pa.Table) -> pa.Table:
    return table.take(pa.array(np.arange(table.num_rows)))


def _column(table: pa.Table, name: str) -> pa.Array:
    return one_chunk(table.column(name))


def _sorted(table: pa.Table, name: str) -> pa.Table:
    """Return the rows by a column; those that are equal in it in random order."""
    mixed = np.random.default_rng(0).permutation(table.num_rows)
    column = _column(table, name).take(pa.array(mixed))
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return table.take(pa.array(mixed[pc.sort_indices(column).to_numpy()]))


def _signal(table: pa.Table, name: str, hides_missing: bool | None) -> "_Scores | _Codes | None":
    """Return a column as what correlates, None if it is constant; numbers hide no missing ones."""
    if hides_missing is None:
        return _of_number(_column(table, name), name)
    return _of_category(_column(table, name), name, hides_missing=hides_missing)


class _Pairs:
    """The pairs of rows that lie k apart, for each lag k; rows between runs are no pairs.

    Runs of rows are set apart by more than the largest lag, so that no pair reaches over.
    """

    def __init__(self, positions: Ints) -> None:
        most = min(len(positions) // SHORTEST, RUN // 2)
        self.lags = np.array([lag for lag in LAGS if lag <= most], dtype=np.int64)
        ends = np.flatnonzero(np.diff(positions) != 1) + 1
        self._lengths = np.diff([0, *ends, len(positions)])
        runs = np.repeat(np.arange(len(self._lengths)), self._lengths)
        self._places = np.arange(len(positions)) + runs * max(LAGS)

    def set_apart(self, values: Any, between: Any) -> Any:
        """Return values with something between the runs."""
        apart = np.full(self._places[-1] + 1, between, dtype=values.dtype)
        apart[self._places] = values
        return apart

    def count(self, lag: int) -> int:
        """Return how many pairs there are."""
        return int(np.maximum(self._lengths - lag, 0).sum())


@dataclass(frozen=True)
class _Scores:
    """A column of numbers as ranks of mean 0 and variance 1; 0 where missing.

    `spread` is the deviation of a product of two rows, `largest` its largest size in these.
    """

    values: Floats
    present: Any
    spread: float
    largest: float

    def apart(self, pairs: _Pairs) -> "_Scores":
        """Return the same column with its runs set apart."""
        present = None if self.present is None else pairs.set_apart(self.present, False)
        return replace(self, values=pairs.set_apart(self.values, 0.0), present=present)

    def correlation(self, pairs: _Pairs, lag: int) -> tuple[float, int]:
        """Return the correlation over all pairs, and how many there are."""
        first, second = self.values[:-lag], self.values[lag:]
        total, count = _product(first, second), pairs.count(lag)
        if self.whole:
            return total / max(1, count), count
        here, there = self.present[:-lag], self.present[lag:]
        size = _product(first**2, there) * _product(second**2, here)
        return total / math.sqrt(max(size, 1e-300)), int((here & there).sum())

    @property
    def whole(self) -> bool:
        """Whether no value is missing."""
        return self.present is None

    def sorted_by_chance(self) -> float:
        """Return how probable it is that values in random order are sorted; 1 if these are not."""
        values = self.values if self.present is None else self.values[self.present]
        steps = np.diff(values)
        if (steps > 0).any() and (steps < 0).any():
            return 1.0
        firsts = np.flatnonzero(np.append(True, steps != 0))
        return _share(math.log(2), np.diff(firsts, append=len(values)))


@dataclass(frozen=True)
class _Codes:
    """A category as codes, -1 where missing and not hidden; `alike` is s = sum of pi^2."""

    values: Ints
    alike: float
    spread: float
    largest: float
    whole: bool

    def apart(self, pairs: _Pairs) -> "_Codes":
        """Return the same column with its runs set apart."""
        return replace(self, values=pairs.set_apart(self.values, -1))

    def correlation(self, pairs: _Pairs, lag: int) -> tuple[float, int]:
        """Return (P(equal) - s) / (1 - s) over all pairs, and how many there are."""
        first, second = self.values[:-lag], self.values[lag:]
        known = first >= 0
        equal = int(np.count_nonzero((first == second) & known))
        both = pairs.count(lag) if self.whole else int(np.count_nonzero((second >= 0) & known))
        return (equal / max(1, both) - self.alike) / (1 - self.alike), both

    def sorted_by_chance(self) -> float:
        """Return how probable it is that equal codes stand together; 1 if these do not."""
        values = self.values[self.values >= 0]
        firsts = np.flatnonzero(np.append(True, np.diff(values) != 0))
        counts = np.bincount(values)
        distinct = int(np.count_nonzero(counts))
        return 1.0 if len(firsts) > distinct else _share(math.lgamma(distinct + 1), counts)


def _product(one: Any, two: Any) -> float:
    """Return the sum of products, in one thread: those of BLAS would wait for each other."""
    return float(np.einsum("i,i", one, two))


def _share(log_orders: float, counts: Ints) -> float:
    """Return the share of e^log_orders among all orders of values that occur `counts` times."""
    # n! / (n_1! n_2! ...) orders, by logarithms of the gamma function
    every = math.lgamma(int(counts.sum()) + 1) - sum(math.lgamma(n + 1) for n in counts.tolist())
    return math.exp(min(0.0, log_orders - every))


def _of_number(column: pa.Array, name: str) -> _Scores | None:
    """Return the ranks of a column, equal values in the middle of theirs; None if constant."""
    if pa.types.is_integer(column.type):  # ranks need no more than doubles have
        column = column.cast(pa.float64(), safe=False)
    values = to_floats(column, name)
    present = ~np.isnan(values)
    ranks = _middle_ranks(values[present])
    if not len(ranks) or ranks.min() == ranks.max():
        return None
    ranks = (ranks - ranks.mean()) / ranks.std()
    scores = np.zeros(len(values))
    scores[present] = ranks
    return _Scores(scores, None if present.all() else present, 1.0, float((ranks**2).max()))


def _middle_ranks(values: Floats) -> Floats:
    """Return the rank of each value, equal ones in the middle of theirs."""
    order = np.argsort(values)
    ascending = values[order]
    firsts = np.flatnonzero(np.append(True, ascending[1:] != ascending[:-1])[: len(values)])
    counts = np.diff(firsts, append=len(values))
    ranks = np.empty(len(values))
    ranks[order] = np.repeat(firsts + counts / 2, counts)
    return ranks


def _of_category(column: pa.Array, name: str, *, hides_missing: bool) -> _Codes | None:
    codes = Encoded.of_category(column, name).codes + (1 if hides_missing else 0)
    counts = np.bincount(codes[codes >= 0])
    pi = counts[counts > 0] / max(1, counts.sum())
    if len(pi) < 2:
        return None
    alike, (spread, largest) = float((pi**2).sum()), category_spread(pi)
    whole = bool((codes >= 0).all())
    return _Codes(codes.astype(np.int32), alike, spread / (1 - alike), largest, whole)


def _revealed_by_near(
    name: str, signal: _Scores | _Codes | None, pairs: _Pairs, alpha: float
) -> RevealedByOrder:
    """Return what neighbours reveal of a column by the lags that chance does not explain."""
    assert signal is not None, "a constant column reveals nothing"
    by_chance, signal = signal.sorted_by_chance(), signal.apart(pairs)
    correlations = [signal.correlation(pairs, int(lag)) for lag in pairs.lags]
    limits = np.array([_by_chance(signal, count, alpha) for _, count in correlations])
    r, counts = np.array(correlations).reshape(-1, 2).T
    sure = np.where((np.abs(r) > limits) | (by_chance < alpha), r, 0.0)
    for reach in REACHES:
        rest = (pairs.lags <= reach) & (sure == 0.0)
        if rest.any() and abs(r[rest].mean()) > _together_by_chance(signal, counts[rest], alpha):
            sure[rest] = r[rest].mean()  # weak in each lag, and sure in all of them
    hidden = left_hidden(pairs.lags, np.clip(sure, -1.0, 1.0), np.array(PRIVACIES))
    return RevealedByOrder.at_most(name, hidden)


def _by_chance(signal: _Scores | _Codes, pairs: int, alpha: float) -> float:
    """Return the correlation that so many pairs in random order exceed with probability alpha.

    Bernstein: for evenly spread values P(|r| > x) is at most 2 exp(-x^2 pairs / 2). So some 35
    rows are the fewest in which an order can be seen, unless they are sorted.
    """
    if not pairs:
        return math.inf
    z2 = 2 * math.log(2 / alpha)
    rare = z2 * max(signal.largest - EVEN, 0.0) / (3 * pairs)
    return signal.spread * (math.sqrt(z2 / pairs) + rare)


def _together_by_chance(signal: _Scores | _Codes, pairs: Floats, alpha: float) -> float:
    """Return what the mean correlation over several lags exceeds with probability alpha.

    A quadratic form x'Ax of white noise exceeds 2 |A|_F sqrt(u) + 2 |A| u with probability
    exp(-u) (Laurent and Massart). Here |A|_F^2 is half the number of pairs, and |A| the
    number of lags.
    """
    z2, rows = 2 * math.log(2 / alpha), max(1.0, float(pairs.mean()))
    rare = z2 * max(signal.largest - EVEN, 0.0) / (3 * rows)
    return signal.spread * (math.sqrt(z2 / max(1.0, float(pairs.sum()))) + z2 / rows + rare)


def left_hidden(lags: Ints, correlations: Floats, privacy: Floats) -> Floats:
    """Return the share that the best smoother leaves hidden at each privacy.

    >>> hidden = left_hidden(np.arange(1, 65), 0.9 ** np.arange(1, 65), np.array([0.5, 0.9]))
    >>> np.round(hidden, 2).tolist()
    [0.22, 0.57]
    """
    noise = privacy / (1 - privacy)
    if not np.any(correlations):
        return np.asarray(privacy)
    rings = _rings(lags)
    rows = np.arange(rings.shape[1])
    r = np.interp(rows, [0, *lags], [1.0, *correlations])  # two rows on: as the next, if unknown
    # R = U diag(S) U' over the row itself and its rings
    spectrum, axes = np.linalg.eigh(rings @ r[np.abs(rows[:, None] - rows)] @ rings.T)
    spectrum = np.maximum(spectrum, 0.0)  # some correlations counted as none
    # hidden(v) = sum over i of U_0i^2 v S_i / (S_i + v), with the row's variance put to 1
    weights = axes[0] ** 2 / float(axes[0] ** 2 @ spectrum)
    return np.array([float(weights @ (v * spectrum / (spectrum + v))) for v in noise])


def _rings(lags: Ints) -> Floats:
    """Return the row itself and rings of rows around it, as orthonormal vectors over rows.

    They reach half as far as the lags, so that the distance of any two rows is one of them.
    """
    reach = max(1, int(lags[-1]) // 2)
    away = np.abs(np.arange(-reach, reach + 1))
    ends = [0, *(lag for lag in lags if lag < reach), reach]
    which = np.searchsorted(ends, away)
    rings = (which == np.arange(len(ends))[:, None]).astype(np.float64)
    return np.asarray(rings / np.sqrt(rings.sum(axis=1, keepdims=True)))
