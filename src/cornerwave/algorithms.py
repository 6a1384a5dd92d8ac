"""The paper's three algorithms by name, over arrays in memory, for researchers.

    parallel    Algorithm 1: all copies at once
    sequential  Algorithm 2: upwards, one copy at a time
    on_demand   Algorithm 3: any new levels in any order, given existing copies

Each adds W(v) ~ N(0, v K) to X so that Cov(W(u), W(v)) = min(u, v) K, whatever the
distribution of X. They read one path in three orders, so with one seed the first
two give the same copies. Without a seed the noise comes from a fresh secret key
that nobody keeps. To release a real table use a vault: it remembers.

Copies lie on a grid of about 2^-24 of each column's deviation, X as well before the noise
is added: the low bits of a float would reveal which of some candidate values it came from.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any, NamedTuple, TypeVar

import numpy as np

from cornerwave import _core, sizes
from cornerwave.arrays import Floats
from cornerwave.errors import LevelError, SourceError
from cornerwave.keyed import KEY_BYTES
from cornerwave.levels import checked_noise
from cornerwave.moments import Moments, ends_of
from cornerwave.noise import (
    COARSEST,
    WhiteStreams,
    factor,
    grid_of,
    over_blocks,
    steps,
)

Learned = TypeVar("Learned")


def corner_wave(noise: Sequence[float] | Floats) -> Floats:
    """Return the M x M covariance of the copies' noise, in units of K: min(u, v).

    >>> corner_wave([1, 4]).tolist()
    [[1.0, 1.0], [1.0, 4.0]]
    """
    levels = np.array([checked_noise(level) for level in noise])
    return np.asarray(np.minimum.outer(levels, levels))


def is_corner_wave(matrix: Any, *, tolerance: float = 1e-9) -> bool:
    """Say whether a covariance has the corner-wave property, in any order of its levels.

    `tolerance` is relative to the larger of the two levels of an entry.

    >>> is_corner_wave([[4, 1], [1, 1]]), is_corner_wave([[1, 0], [0, 4]])
    (True, False)
    """
    matrix = np.asarray(matrix, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        return False
    levels = np.diag(matrix)
    if not (np.isfinite(matrix).all() and (levels > 0).all()):
        return False
    apart = np.abs(matrix - np.minimum.outer(levels, levels))
    return bool((apart <= tolerance * np.maximum.outer(levels, levels)).all())


def parallel(
    X: Any,
    *,
    noise: Sequence[float] | Floats,
    covariance: Any = None,
    unsafe_seed: int | None = None,
    threads: int | None = None,
) -> list[Floats]:
    """Return one copy of X for each noise, in the order given (Algorithm 1).

    X: (T, N), or (T,) for one column; `covariance`: K, by default the sample
    covariance of X. A noise given twice is the same copy twice. Raises LevelError
    for a noise that is not positive, SourceError for an X that is not finite.

    >>> X = np.array([[1.0, 2.0], [3.0, 5.0], [2.0, 2.0]])
    >>> [copy.shape for copy in parallel(X, noise=[1.0, 0.5])]
    [(3, 2), (3, 2)]
    """
    table = _Table.of(X, covariance, threads)
    ascending = sorted({checked_noise(level) for level in noise})
    copies = _insert(table, {}, ascending, _key(unsafe_seed), threads)
    return [copies[float(level)] for level in noise]


def sequential(
    X: Any,
    *,
    noise: Sequence[float] | Floats,
    covariance: Any = None,
    unsafe_seed: int | None = None,
    threads: int | None = None,
) -> Iterator[Floats]:
    """Yield one copy of X after another, each the last one plus fresh noise (Algorithm 2).

    Keeps nothing but the copy it yielded last, which is therefore read-only. `noise`
    must ascend; `on_demand` takes any order.

    >>> X = np.array([1.0, 3.0, 2.0])
    >>> one, two = sequential(X, noise=[0.5, 1.0], unsafe_seed=1)
    >>> np.array_equal(two, parallel(X, noise=[0.5, 1.0], unsafe_seed=1)[1])
    True
    """
    levels = [checked_noise(level) for level in noise]
    if any(after <= before for before, after in pairwise(levels)):
        raise LevelError("sequential needs noise in ascending order; on_demand takes any order")
    return _climb(_Table.of(X, covariance, threads), levels, _key(unsafe_seed), threads)


def _climb(
    table: "_Table", levels: list[float], key: bytes, threads: int | None
) -> Iterator[Floats]:
    reached: dict[float, Floats] = {}
    for level in levels:
        reached = _insert(table, reached, [level], key, threads)
        reached[level].flags.writeable = False
        yield reached[level]


def on_demand(
    X: Any,
    *,
    noise: Sequence[float] | Floats,
    given: Mapping[float, Any] | None = None,
    covariance: Any = None,
    unsafe_seed: int | None = None,
    threads: int | None = None,
) -> list[Floats]:
    """Return new copies of X at any levels, given existing copies (Algorithm 3).

    `given` maps the noise of each existing copy to the copy. The new ones are drawn
    given these, so that all together have the corner-wave property; the existing
    ones must have it among themselves. A noise that is given comes back unchanged.

    >>> X = np.array([1.0, 3.0, 2.0])
    >>> first, last = parallel(X, noise=[0.5, 2.0])
    >>> [between] = on_demand(X, noise=[1.0], given={0.5: first, 2.0: last})
    >>> between.shape
    (3,)
    """
    table = _Table.of(X, covariance, threads)
    known = {checked_noise(level): table.checked(copy) for level, copy in (given or {}).items()}
    wanted = [checked_noise(level) for level in noise]
    new = sorted(set(wanted) - set(known))
    copies = known | _insert(table, known, new, _key(unsafe_seed), threads)
    return [copies[level] for level in wanted]


def _insert(
    table: "_Table",
    given: Mapping[float, Floats],
    new: Sequence[float],
    key: bytes,
    threads: int | None,
) -> dict[float, Floats]:
    """Return copies at new levels, each drawn given its neighbours among all before it.

    With a, b the copies below and above, Y = X + weight (Y_a - X) + weight (Y_b - X) + fresh L z,
    X and the rest each rounded to the grid. Ascending levels are the quickest: the copy below
    is still in the cache.
    """
    # one step for each level: between which copies it lies, and with what weights
    path = steps([*given, *new])
    rows, columns = table.rows.shape
    copies = np.empty((len(new), columns, rows))
    around = copies.nbytes > sizes.CACHE_BYTES

    def work(worker: _Worker, part: slice) -> None:
        streams, x = worker.streams, np.array(table.rows[part].T, order="C")
        _core.round_to_grid(x, table.grid)  # x is never a view of what was given
        made = worker.blocks[:, : x.size].reshape(2, *x.shape)
        placed = [columns_of(_rows_of(copy)[part]) for copy in given.values()]
        # new levels ascend: of the new copies, only the last one is read again
        placed += [made[index % 2] for index in range(len(new))]
        placed.append(x)  # W(0) = 0: index ORIGIN
        streams.place(streams.positions(part.start, x.shape[1]))
        for index, step in enumerate(path[len(given) :], len(given)):
            # Y = X + w_a (Y_a - X) + w_b (Y_b - X) + w L z: a bridge between its neighbours
            _core.add_between(
                x,
                step.weight_below,
                placed[step.below],
                step.weight_above,
                placed[step.above],
                step.weight_fresh * table.lower,
                *streams.words(step.noise),
                table.grid,
                placed[index],
                copies[index - len(given)],
                part.start,
                around,
            )

    def worker(block_rows: int) -> _Worker:
        streams = WhiteStreams(key, new, columns=columns, rows=block_rows)
        return _Worker(streams, np.empty((2, columns * block_rows)))

    over_blocks(worker, work, rows=rows, columns=columns, threads=threads)
    return {level: table.shaped(copy.T) for level, copy in zip(new, copies, strict=True)}


class _Worker(NamedTuple):
    """What a thread needs: white noise, and room for the copy that it makes and the last one."""

    streams: WhiteStreams
    blocks: Floats


def _key(unsafe_seed: int | None) -> bytes:
    if unsafe_seed is None:
        return secrets.token_bytes(KEY_BYTES)
    return hashlib.sha256(b"cornerwave unsafe seed %d" % unsafe_seed).digest()


@dataclass(frozen=True)
class _Table:
    """X as rows (T, N), with the factor of its K and its grid; `flat` if it came as (T,)."""

    rows: Floats
    lower: Floats
    grid: Floats
    flat: bool

    @classmethod
    def of(cls, X: Any, covariance: Any, threads: int | None) -> "_Table":
        X = np.asarray(X, dtype=np.float64)
        if X.ndim not in (1, 2) or X.size == 0:
            raise SourceError(f"X must be a table of shape (T, N) or (T,), not {X.shape}")
        rows = _rows_of(X)
        largest = reduce(np.maximum, _of_parts(largest_of, rows, threads))
        if not np.isfinite(largest).all():
            raise SourceError("X holds infinite or missing values; remove those rows first")
        if covariance is None:
            if len(rows) < 2:
                raise SourceError("the covariance of X needs at least 2 rows; or give covariance=")
            moments = moments_of(rows, threads)
            if moments.vanishing.any():
                raise SourceError("the variance of X vanishes in floating point; multiply X")
            covariance = moments.covariance
        # K = L L': white noise z becomes L z, of covariance K
        shape = factor(np.atleast_2d(covariance))
        if len(shape.lower) != rows.shape[1]:
            raise SourceError(f"covariance has {len(shape.lower)} columns, X {rows.shape[1]}")
        shape.warn([str(i) for i in range(rows.shape[1])])
        deviation = np.sqrt(np.square(shape.lower).sum(axis=1))
        grid = grid_of(deviation=deviation, largest=largest)
        if (grid > COARSEST * deviation).any():
            raise SourceError("X lies so far from zero that its noise is lost; subtract a constant")
        return cls(rows, shape.lower, grid, X.ndim == 1)

    def checked(self, copy: Any) -> Floats:
        """Return a given copy as an array; raise SourceError if its shape is not that of X."""
        array: Floats = np.asarray(copy, dtype=np.float64)
        if _rows_of(array).shape != self.rows.shape:
            raise SourceError(f"a given copy has shape {array.shape}, X has {self.rows.shape}")
        return array

    def shaped(self, rows: Floats) -> Floats:
        """Return (T, N) rows in the shape that X came in."""
        return rows[:, 0] if self.flat else rows


def _rows_of(X: Floats) -> Floats:
    return X[:, None] if X.ndim == 1 else X


def _of_parts(
    learn: Callable[[Floats], Learned], rows: Floats, threads: int | None
) -> list[Learned]:
    """Return what is learned from parts of the rows, in any order."""
    part_rows = max(sizes.LEARNED_ROWS, sizes.LEARNED_CELLS // rows.shape[1])
    if len(rows) <= part_rows:
        return [learn(rows)]
    learned: list[Learned] = []
    over_blocks(
        lambda _rows: learned,
        lambda learned, part: learned.append(learn(rows[part])),
        rows=len(rows),
        columns=rows.shape[1],
        threads=threads,
        block_rows=part_rows,
    )
    return learned


def moments_of(rows: Floats, threads: int | None = None) -> Moments:
    """Return the moments of (T, N) rows, in threads: they are exact for any parts."""
    # digits of columns are quicker to cut
    parts = _of_parts(lambda part: Moments.of_columns(columns_of(part)), rows, threads)
    return reduce(add, parts)


def largest_of(rows: Floats) -> Floats:
    """Return the largest |x| of each column of (T, N) rows; not finite if one is not."""
    lowest, highest, gaps = ends_of(columns_of(rows))
    return np.full(len(lowest), np.nan) if gaps else np.maximum(np.abs(lowest), np.abs(highest))


def columns_of(rows: Floats) -> Floats:
    """Return (T, N) rows as contiguous columns (N, T)."""
    return np.ascontiguousarray(rows.T)
