"""Is this noise what a copy's noise must be? Each check is a test that names its limit.

    mean           E D_i = 0
    independence   Cov(X, D_i) = 0, element by element and along X itself
    size           the size of the noise does not follow X
    shape          Cov(D_i) = v_i K
    corner wave    Cov(D_i, D_j - D_i) = 0 for v_i < v_j: all columns together, and each
    level          v_i is what the copy's metadata states
    outliers       no row lies further from its source than Gaussian noise reaches
    copies         the same copy twice is one copy, if every row is the same
    noise          there is some

All but the last are compared along the axes of K, where honest noise is white. Given
X their statistics are exactly normal, or as good as, whatever X looks like.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.audit.chance import chi_square_limit, share, t_limit, z_limit
from cornerwave.audit.statistics import Statistics
from cornerwave.audit.watch import Watched

COARSE = 1.0
"""A step above this share of the noise's own size leaves nothing that could be judged."""

SAME = 1e-12
"""Copies whose difference has less than this share of the noise are one copy, retyped."""

OUT_OF_SPAN = 1e-6
"""Noise in directions that K does not have, as a share of it: more is not rounding."""


@dataclass(frozen=True)
class Check:
    """One check of one copy or pair: the worst of its comparisons against its limit.

    `value` and `limit` are in standard deviations of what chance would do; `passed`
    is False for a fault. `note` says in words what was found.
    """

    name: str
    copies: tuple[int, ...]
    value: float
    limit: float
    passed: bool
    note: str


def check_all(
    found: Statistics,
    watched: Watched,
    stated: Sequence[float | None],
    names: Sequence[str],
    used: Sequence[int],
) -> list[Check]:
    """Return every check of every copy and pair.

    `watched` knows all columns by `names`, `found` only those in `used`.
    """
    columns = [names[n] for n in used]
    alike = list(copies_alike(found, watched))
    same = {check.copies for check in alike}
    coarse = coarse_copies(found)
    return [
        *means(found, columns),
        *independence(found),
        *sizes(watched, names),
        *shapes(found, coarse),
        *corner_waves(found, coarse, same, columns),
        *levels(found, coarse, stated),
        *outliers(found, watched),
        *alike,
        *bare(found),
    ]


def coarse_copies(found: Statistics) -> set[int]:
    """Return the copies rounded to steps larger than their noise."""
    size = np.sqrt(np.maximum(found.noise, 0.0))[:, None] * np.sqrt(found.variance)
    return {int(i) for i in np.flatnonzero((found.steps > COARSE * size).any(axis=1))}


def means(found: Statistics, columns: Sequence[str]) -> Iterator[Check]:
    """Compare the mean noise along each axis, and of each column, with 0."""
    T, N, M = found.complete, found.columns, found.copies
    limit = t_limit(share(M * (N + found.whitening.shape[1])), T - 1)
    for i in range(M):
        own = np.diag(found.covariance)[(1 + i) * N : (2 + i) * N]
        along = found.noise_means[i] @ found.whitening
        white = _scaled(along, np.diag(found.whitened[1 + i, 1 + i]), T)
        plain = _scaled(found.noise_means[i], own, T)
        worst = float(np.abs([*white, *plain]).max())
        at = int(np.abs(plain).argmax())
        bias = found.noise_means[i, at] / np.sqrt(found.variance[at])
        note = f"{columns[at]} is off by {bias:+.2g} standard deviations on average"
        yield _verdict("mean", (i,), worst, limit, note)


def independence(found: Statistics) -> Iterator[Check]:
    """Compare each correlation of noise with X with 0, and the noise along X as a whole."""
    T, rank = found.complete, found.whitening.shape[1]
    limit = t_limit(share(found.copies * (rank * rank + 1)), T - 2)
    truth = np.diag(found.whitened[0, 0])
    for i in range(found.copies):
        cross, own = found.whitened[0, 1 + i], np.diag(found.whitened[1 + i, 1 + i])
        each = _t_of(_ratio(cross, np.sqrt(np.outer(truth, own))), T)
        pooled = np.trace(cross) / np.sqrt(max(float((truth * own).sum()), 1e-300))
        worst = float(np.abs([*each.ravel(), pooled * np.sqrt(T)]).max())
        slope = float(np.trace(cross) / max(truth.sum(), 1e-300))
        note = f"the noise follows the table: {slope:+.2g} of a value's distance from the mean"
        yield _verdict("independence", (i,), worst, limit, note)


def sizes(watched: Watched, names: Sequence[str]) -> Iterator[Check]:
    """Compare the correlation of noise size and X with 0, for each step of the path."""
    limit = t_limit(share(watched.sizes.size), max(watched.size_rows - 2, 1))
    features = [*names, "the distance from the mean"]
    for k, rank in enumerate(watched.rank):
        if rank == 0:
            continue
        scores = _t_of(watched.sizes[k], watched.size_rows)
        at = int(np.abs(scores).argmax())
        note = f"the size of the noise follows {features[at]}: it is not one noise for all rows"
        yield _verdict("size", _step(watched, k), float(np.abs(scores).max()), limit, note)


def shapes(found: Statistics, coarse: set[int]) -> Iterator[Check]:
    """Compare the covariance of each copy's noise with a multiple of K."""
    T, rank, M = found.complete, found.whitening.shape[1], found.copies
    limit = z_limit(share(M * (rank * (rank + 1) // 2)))
    upper = np.triu_indices(rank, 1)
    for i in sorted(set(range(M)) - coarse):
        if found.noise[i] == 0:
            continue
        white = found.whitened[1 + i, 1 + i]
        raw, clean = np.diag(white), np.diag(white - found.rounding[i])
        tilt = _ratio(white - found.rounding[i], np.sqrt(np.outer(raw, raw)))[upper]
        stretch = np.log(np.maximum(clean, 1e-300) / clean.mean()) / np.sqrt(2.0)
        scores = np.abs([*np.arctanh(np.clip(tilt, -1 + 1e-12, 1 - 1e-12)), *stretch])
        worst = float(scores.max(initial=0.0)) * np.sqrt(T)
        lean = float(np.maximum(clean, 0).max() / max(clean.min(), 1e-300))
        note = f"not shaped like the table: {lean:.3g} times as much along one axis as another"
        if (outside := _out_of_span(found, i)) > OUT_OF_SPAN:
            note = f"{outside:.2g} of its variance lies where the table has none: it filters out"
            worst = float("inf")
        yield _verdict("shape", (i,), worst, limit, note)


def corner_waves(
    found: Statistics, coarse: set[int], same: set[tuple[int, ...]], columns: Sequence[str]
) -> Iterator[Check]:
    """Compare the noise of each copy with the step to each noisier one."""
    T, N, rank = found.complete, found.columns, found.whitening.shape[1]
    by_noise = sorted(set(range(found.copies)) - coarse, key=lambda i: (found.noise[i], i))
    pairs = [p for p in combinations(by_noise, 2) if tuple(sorted(p)) not in same]
    per_pair = 1 if N == 1 else 1 + N
    limit = z_limit(share(len(pairs) * per_pair))
    for i, j in pairs:
        if found.noise[i] == 0:
            continue
        plain = _step_correlations(found, i, j) if N > 1 else np.zeros(0)
        step = found.across[j, j] + found.across[i, i] - 2 * found.across[i, j]
        pooled = (found.across[i, j] - found.across[i, i]) / _spread(found, i, j)
        scores = [_fisher(pooled, rank * T), *(_fisher(float(r), T) for r in plain)]
        note = _pair_note(found, i, j, [abs(float(r)) for r in plain], columns)
        worst = max(abs(score) for score in scores)
        yield _verdict(
            "corner wave", (i, j), worst if step > SAME * found.noise[i] else 0.0, limit, note
        )


def levels(found: Statistics, coarse: set[int], stated: Sequence[float | None]) -> Iterator[Check]:
    """Compare each copy's noise with what its metadata states."""
    known = [(i, v) for i, v in enumerate(stated) if v is not None and i not in coarse]
    limit = z_limit(share(len(known)))
    error = np.sqrt(2 / (found.whitening.shape[1] * found.complete))
    for i, noise in known:
        score = float(np.log(max(found.noise[i], 1e-300) / noise)) / error
        note = f"states noise {noise:.6g}, has {found.noise[i]:.4g}"
        yield _verdict("level", (i,), abs(score), limit, note)


def outliers(found: Statistics, watched: Watched) -> Iterator[Check]:
    """Compare the row that lies furthest from its source with the furthest of so many."""
    alpha = share(found.copies) / max(found.complete, 1)
    for k, rank in enumerate(watched.rank):
        if rank == 0:
            continue
        distance, limit = np.sqrt([watched.reach[k], chi_square_limit(alpha, rank)])
        note = (
            f"a row lies {distance:.1f} deviations off, chance reaches {limit:.1f}: "
            "rows changed places, or the copy is of another source"
        )
        yield _verdict("outliers", _step(watched, k), float(distance), float(limit), note)


def copies_alike(found: Statistics, watched: Watched) -> Iterator[Check]:
    """Say which copies are one copy, and which ought to be but are not."""
    for (i, j), rows in sorted(watched.same.items()):
        if (found.steps[[i, j]] > 0).any() and rows < found.complete:
            continue
        differ = found.complete - rows
        if differ == 0:
            yield Check("copies", (i, j), 0.0, 0.0, True, "the same copy twice")
        else:
            note = f"the same copy but for {differ:,} rows: edited, or of another source"
            yield Check("copies", (i, j), float(differ), 0.0, False, note)


def bare(found: Statistics) -> Iterator[Check]:
    """Name the copies that are the source itself."""
    for i in np.flatnonzero(found.noise == 0):
        yield Check("noise", (int(i),), 0.0, 0.0, False, "has no noise: it is the source")


def _verdict(name: str, copies: tuple[int, ...], value: float, limit: float, note: str) -> Check:
    passed = bool(value <= limit)
    return Check(name, copies, value, limit, passed, "" if passed else note)


def _step(watched: Watched, k: int) -> tuple[int, ...]:
    return watched.order[max(k - 1, 0) : k + 1] if k else (watched.order[0],)


def _scaled(values: Floats, variance: Floats, count: int) -> Floats:
    return _ratio(values, np.sqrt(variance / max(count, 1)))


def _ratio(values: Floats, by: Floats) -> Floats:
    return np.divide(values, by, out=np.zeros_like(np.asarray(values)), where=np.asarray(by) > 0)


def _t_of(correlation: Floats, count: int) -> Floats:
    r = np.clip(correlation, -1 + 1e-12, 1 - 1e-12)
    return np.asarray(r * np.sqrt(max(count - 2, 1) / (1 - r * r)))


def _fisher(correlation: float, count: int) -> float:
    r = min(max(correlation, -1 + 1e-12), 1 - 1e-12)
    return float(np.arctanh(r) * np.sqrt(max(count - 3, 1)))


def _out_of_span(found: Statistics, i: int) -> float:
    """Return the share of the noise's variance in directions that K does not have."""
    N, unit = found.columns, np.sqrt(np.where(found.variance > 0, found.variance, 1.0))
    here = slice((1 + i) * N, (2 + i) * N)
    noise = found.covariance[here, here] / np.outer(unit, unit) - np.diag(
        found.steps[i] ** 2 / 12 / unit**2
    )
    axes = np.linalg.qr(found.K / np.outer(unit, unit) @ (found.whitening * unit[:, None]))[0]
    outside = np.eye(N) - axes @ axes.T
    return float(np.trace(outside @ noise) / max(np.trace(noise), 1e-300))


def _spread(found: Statistics, i: int, j: int) -> float:
    """Return the size of Cov(D_i, D_j - D_i) that would make a correlation of 1."""
    rank = max(found.whitening.shape[1], 1)
    raw = found.across + np.diag(np.trace(found.rounding, axis1=1, axis2=2)) / rank
    step = raw[j, j] + raw[i, i] - 2 * raw[i, j]
    return float(np.sqrt(max(raw[i, i] * step, 1e-300)))


def _step_correlations(found: Statistics, i: int, j: int) -> Floats:
    """Return the correlation of D_i and D_j - D_i in each column, rounding taken off."""
    N, C = found.columns, found.covariance
    one, other = (1 + i) * N + np.arange(N), (1 + j) * N + np.arange(N)
    own, cross = C[one, one], C[one, other]
    step = C[other, other] + own - 2 * cross
    clean = own - found.steps[i] ** 2 / 12
    return _ratio(cross - clean, np.sqrt(np.maximum(own * step, 0.0)))


def _pair_note(
    found: Statistics, i: int, j: int, plain: list[float], columns: Sequence[str]
) -> str:
    ratio = found.across[i, j] / max(found.noise[i], 1e-300)
    error = np.sqrt(2 / (found.whitening.shape[1] * found.complete))
    if abs(np.log(max(found.noise[j], 1e-300) / found.noise[i])) < 6 * error and ratio < 0.99:
        return f"the same level with other noise: they share {ratio:.3g} of it and average out"
    where = f", most of all in {columns[int(np.argmax(plain))]}" if plain else ""
    return f"share {ratio:.4g} of the lesser noise instead of 1{where}"
