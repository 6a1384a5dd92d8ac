"""Is the noise of numbers what a copy's noise must be? One function per family of checks.

With D_i = Y_i - X, the noise of copy i at level v_i, NUMBER_FAMILIES states what must hold.
Most families compare along the axes of K, where honest noise is white. Given X their
statistics are normal, exactly or nearly so, for any distribution of X.

To add a check, write a function (evidence, alpha) -> Checks and register it below.
"""

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.audit._chance import Check, Family, chi_square_limit, sure_limit, t_limit, z_limit
from cornerwave.audit._coalitions import Alone, measure_alone
from cornerwave.audit._numbers import NumberEvidence
from cornerwave.audit._row_checks import dependence, digits, fit, repeats, untouched
from cornerwave.audit._rows import SAME
from cornerwave.audit._single_rows import inliers, lengths, row_wave, sums
from cornerwave.audit._steps import Watched
from cornerwave.audit._sums import Statistics

# --------------------------------------------------------------------------------------------------
# Does a copy hide what it states?
#
# A copy that states privacy p promises that the best linear estimate from all of it leaves
# at least the share p of every column hidden. For numbers alone, honest noise v K leaves
#
#     v / (1 + v)    of each column, with a standard error of   v sqrt((4 v + 2) / T) / (1 + v)^2
#
# for any distribution of X: given X, chance is in the noise only. With missing values the
# complete rows are a sample too, and their error is measured, from group to group. Estimates
# are fitted to other rows than they are tested on: they err, if at all, to the copy's favour.
#
# What numbers, categories, kept columns and gaps reveal together is judged in _whole, on some of
# the rows: this check is the sharper one for numbers, since it sees all of them.


def promise(evidence: NumberEvidence, alpha: float) -> Iterator[Check]:
    """Compare what each copy alone leaves hidden of each number with what it states."""
    statistics = evidence.attacked
    known = [(i, p) for i, p in enumerate(evidence.privacy) if p is not None]
    if statistics.complete != evidence.complete:
        known = []  # rows were completed: what they hide is judged in _whole, as the files have it
    if evidence.read.aligned.whole is not None:
        known = []  # one row of each person is a sample: judged in _whole and _linked
    each = alpha / max(len(known) * statistics.columns, 1)
    for i, stated in known:
        left = measure_alone(statistics, i)
        limit = z_limit(2 * each)
        if statistics.complete < statistics.rows:
            limit = t_limit(2 * each, left.groups - 1)
        score = (stated - left.hidden) / np.maximum(_error(evidence, stated, left), 1e-300)
        at = int(score.argmax())
        note = (
            f"states that {stated:.3f} of {evidence.columns[at]} stays hidden, "
            f"but {left.hidden[at]:.3f} does"
        )
        yield Check.of((i,), max(float(score[at]), 0.0), limit, note)


def _error(evidence: NumberEvidence, stated: float, left: Alone) -> Floats:
    """Return the standard error of the hidden shares, (N,)."""
    statistics, v = evidence.attacked, stated / (1 - stated)
    by_noise = v * np.sqrt((4 * v + 2) / statistics.complete) / (1 + v) ** 2
    if statistics.complete == statistics.rows:
        return np.full(statistics.columns, by_noise)
    return np.asarray(np.maximum(left.error, by_noise))


OUT_OF_SPAN = 1e-6
"""More noise than this share in directions that K does not have is more than arithmetic leaves."""


def mean(evidence: NumberEvidence, alpha: float) -> Iterator[Check]:
    """Compare the mean noise along each axis, and of each column, with 0."""
    statistics = evidence.found
    T, N, M = statistics.complete, statistics.columns, statistics.copies
    limit = t_limit(alpha / (M * (N + statistics.whitening.shape[1])), T - 1)
    for i in range(M):
        variances = np.diag(statistics.covariance)[(1 + i) * N : (2 + i) * N]
        along = statistics.noise_means[i] @ statistics.whitening
        white = _scaled(along, np.diag(statistics.whitened[1 + i, 1 + i]), T)
        plain = _scaled(statistics.noise_means[i], variances, T)
        at = int(np.abs(plain).argmax())
        bias = statistics.noise_means[i, at] / np.sqrt(statistics.variance[at])
        note = f"{evidence.columns[at]} is off by {bias:+.2g} standard deviations on average"
        yield Check.of((i,), float(np.abs([*white, *plain]).max()), limit, note)


def independence(evidence: NumberEvidence, alpha: float) -> Iterator[Check]:
    """Compare each correlation of noise and X with 0, and the noise along X as a whole."""
    statistics = evidence.found
    T, rank = statistics.complete, statistics.whitening.shape[1]
    limit = t_limit(alpha / (statistics.copies * (rank * rank + 1)), T - 2)
    truth = np.diag(statistics.whitened[0, 0])
    for i in range(statistics.copies):
        cross, variances = statistics.whitened[0, 1 + i], np.diag(statistics.whitened[1 + i, 1 + i])
        each = _t_of(_ratio(cross, np.sqrt(np.outer(truth, variances))), T)
        # A little shrinkage in every direction shows in the trace before it shows in any entry.
        pooled = np.trace(cross) / np.sqrt(max(float((truth * variances).sum()), 1e-300))
        worst = float(np.abs([*each.ravel(), pooled * np.sqrt(T)]).max())
        slope = float(np.trace(cross) / max(truth.sum(), 1e-300))
        note = f"the noise depends on the value: {slope:+.2g} times its distance from the mean"
        yield Check.of((i,), worst, limit, note)


def size(evidence: NumberEvidence, alpha: float) -> Iterator[Check]:
    """Compare the correlation of noise size and X with 0, for each step of the path."""
    watched = evidence.watched
    limit = t_limit(alpha / max(watched.sizes.size, 1), max(watched.size_rows - 2, 1))
    features = [*evidence.names, "the distance from the mean"]
    for k in _moving(watched):
        scores = np.abs(_t_of(watched.sizes[k], watched.size_rows))
        note = f"the size of the noise depends on {features[int(scores.argmax())]}"
        yield Check.of(_step(watched, k), float(scores.max()), limit, note)


def shape(evidence: NumberEvidence, alpha: float) -> Iterator[Check]:
    """Compare the covariance of each copy's noise with a multiple of K."""
    statistics = evidence.found
    T, rank, M = statistics.complete, statistics.whitening.shape[1], statistics.copies
    limit = z_limit(alpha / 2 / (M * max(rank * (rank + 1) // 2, 1)))
    upper = np.triu_indices(rank, 1)
    for i in evidence.fine:
        if statistics.noise[i] == 0:
            continue
        white = statistics.whitened[1 + i, 1 + i]
        raw, clean = np.diag(white), np.diag(white - statistics.rounding[i])
        # Fisher's z of each correlation, and the log of each variance, over their deviations.
        tilt = _ratio(white - statistics.rounding[i], np.sqrt(np.outer(raw, raw)))[upper]
        # rounding adds to the error of a variance, and not to the variance
        part = _ratio(clean, raw)
        stretch = part * np.log(np.maximum(clean, 1e-300) / clean.mean()) / np.sqrt(2.0)
        scores = np.abs([*np.arctanh(np.clip(tilt, -1 + 1e-12, 1 - 1e-12)), *stretch])
        worst = float(scores.max(initial=0.0)) * np.sqrt(T)
        lean = float(np.maximum(clean, 0).max() / max(clean.min(), 1e-300))
        note = f"not shaped like the table: {lean:.3g} times as much along one axis as another"
        outside, by_chance = _out_of_span(evidence, i, alpha / 2 / M)
        if outside > OUT_OF_SPAN + by_chance:
            note = f"{outside:.2g} of its variance lies where the table has none; a filter finds it"
            worst = float("inf")
        yield Check.of((i,), worst, limit, note)


def corner_wave(evidence: NumberEvidence, alpha: float) -> Iterator[Check]:
    """Compare the noise of each copy with the step to each noisier one."""
    statistics = evidence.found
    T, N, rank = statistics.complete, statistics.columns, statistics.whitening.shape[1]
    by_noise = sorted(evidence.fine, key=lambda i: (statistics.noise[i], i))
    pairs = [p for p in combinations(by_noise, 2) if tuple(sorted(p)) not in evidence.alike]
    limit = z_limit(alpha / max(len(pairs) * (1 if N == 1 else 1 + N), 1))
    for i, j in pairs:
        if statistics.noise[i] == 0:
            continue
        plain = _step_correlations(statistics, i, j) if N > 1 else np.zeros(0)
        # Pooled over the axes: the trace of Cov(D_i, D_j - D_i), which has rank T terms.
        pooled = (statistics.across[i, j] - statistics.across[i, i]) / _spread(statistics, i, j)
        scores = [_fisher(pooled, rank * T), *(_fisher(float(r), T) for r in plain)]
        step = statistics.across[j, j] + statistics.across[i, i] - 2 * statistics.across[i, j]
        worst = max(map(abs, scores)) if step > SAME * statistics.noise[i] else 0.0
        yield Check.of((i, j), worst, limit, _pair_note(evidence, i, j, np.abs(plain)))


def level(evidence: NumberEvidence, alpha: float) -> Iterator[Check]:
    """Compare each copy's noise with what its metadata states."""
    statistics = evidence.found
    known = [(i, v) for i in evidence.fine if (v := evidence.noise[i]) is not None]
    limit = z_limit(alpha / max(len(known), 1))
    for i, noise in known:
        score = float(np.log(max(statistics.noise[i], 1e-300) / noise)) / _log_error(statistics, i)
        note = f"states noise {noise:.6g}, has {statistics.noise[i]:.4g}"
        yield Check.of((i,), abs(score), limit, note)


def outliers(evidence: NumberEvidence, alpha: float) -> Iterator[Check]:
    """Compare the largest distance of a row with the largest of as many Gaussian rows."""
    statistics, watched = evidence.found, evidence.watched
    each = alpha / statistics.copies / max(statistics.complete, 1)
    for k in _moving(watched):
        distance, limit = np.sqrt([watched.reach[k], chi_square_limit(each, watched.rank[k])])
        note = (
            f"a row is {distance:.1f} deviations off, the limit is {limit:.1f}: "
            "rows were swapped or edited, or the copy is of another source"
        )
        yield Check.of(_step(watched, k), float(distance), float(limit), note)


def copies(evidence: NumberEvidence, alpha: float) -> Iterator[Check]:
    """Name duplicate copies, and copies that differ in a few rows only."""
    for pair, differ in evidence.alike.items():
        if differ == 0:
            yield Check(pair, 0.0, 0.0, True, "the same copy twice")
        else:
            note = f"the same copy except for {differ:,} rows: edited, or of another source"
            yield Check(pair, float(differ), 0.0, False, note)


def noise(evidence: NumberEvidence, alpha: float) -> Iterator[Check]:
    """Name the copies that are the source itself."""
    for i in np.flatnonzero(evidence.found.noise == 0):
        yield Check((int(i),), 0.0, 0.0, False, "has no noise: it is the source")


NUMBER_FAMILIES: tuple[Family[NumberEvidence], ...] = (
    Family("mean", "E D_i = 0", mean),
    Family("independence", "Cov(X, D_i) = 0, each entry and the trace", independence),
    Family("size", "the size of the noise does not depend on X", size),
    Family("shape", "Cov(D_i) = v_i K", shape),
    Family("corner wave", "Cov(D_i, D_j - D_i) = 0 for v_i < v_j", corner_wave),
    Family("level", "v_i is the noise that the metadata states", level),
    Family("outliers", "no row is further from its source than Gaussian noise reaches", outliers),
    Family("promise", "the copy hides the share of each number that it states", promise),
    Family("fit", "noise and steps are normal in every direction", fit),
    Family("dependence", "X, the noise before a step and the step are unrelated", dependence),
    Family("digits", "digits below the noise are unrelated to X", digits),
    Family("repeats", "no two rows have the same noise", repeats),
    Family("untouched", "no row and no cell is left without noise", untouched),
    Family("inliers", "no more rows have little noise than Gaussian rows do", inliers),
    Family("row wave", "in every row a step is unrelated to the noise before it", row_wave),
    Family("lengths", "no two rows have noise of the same length", lengths),
    Family("sums", "no row has the sum of two others' noise", sums),
    Family("copies", "copies that agree in most rows agree in all", copies, by_chance=False),
    Family("noise", "the copy has noise", noise, by_chance=False),
)


FAMILIES_IN_TIME = tuple(
    family
    for family in NUMBER_FAMILIES
    if family.name in ("digits", "repeats", "untouched", "copies", "noise")
)
"""Those that do not take the noise of all rows to have one covariance: a person's noise that is a
curve in time has another at each time."""


def _moving(watched: Watched) -> list[int]:
    """Return the steps of the path that have any noise."""
    return [k for k, rank in enumerate(watched.rank) if rank > 0]


def _step(watched: Watched, k: int) -> tuple[int, ...]:
    return watched.order[max(k - 1, 0) : k + 1]


def _scaled(values: Floats, variance: Floats, count: int) -> Floats:
    return _ratio(values, np.sqrt(variance / max(count, 1)))


def _ratio(values: Floats, by: Floats) -> Floats:
    return np.divide(values, by, out=np.zeros_like(np.asarray(values)), where=np.asarray(by) > 0)


def _t_of(correlation: Floats, count: int) -> Floats:
    """Return t = r sqrt((n - 2) / (1 - r^2))."""
    r = np.clip(correlation, -1 + 1e-12, 1 - 1e-12)
    return np.asarray(r * np.sqrt(max(count - 2, 1) / (1 - r * r)))


def _fisher(correlation: float, count: int) -> float:
    """Return Fisher's artanh(r) sqrt(n - 3)."""
    r = min(max(correlation, -1 + 1e-12), 1 - 1e-12)
    return float(np.arctanh(r) * np.sqrt(max(count - 3, 1)))


def _log_error(statistics: Statistics, i: int) -> float:
    """Return the standard deviation of the log of a copy's measured noise."""
    white = statistics.whitened[1 + i, 1 + i]
    clean = max(float(np.trace(white - statistics.rounding[i])), 1e-300)
    return float(np.sqrt(2 / statistics.complete) * np.linalg.norm(white) / clean)


def _out_of_span(evidence: NumberEvidence, i: int, alpha: float) -> tuple[float, float]:
    """Return the share of the noise's variance in directions that K does not have, without what
    rounding puts there, and how far chance takes it.
    """
    statistics = evidence.found
    N, unit = (
        statistics.columns,
        np.sqrt(np.where(statistics.variance > 0, statistics.variance, 1.0)),
    )
    here = slice((1 + i) * N, (2 + i) * N)
    noise = statistics.covariance[here, here] / np.outer(unit, unit)
    axes = np.linalg.qr(
        statistics.shape / np.outer(unit, unit) @ (statistics.axes * unit[:, None])
    )[0]
    outside = np.eye(N) - axes @ axes.T
    rounded, by_chance = 0.0, 0.0
    if (statistics.steps[i] > 0).any():
        # one square per row, none larger than the largest: Bernstein's bound of their mean
        squares = ((outside / unit @ _rounding_errors(evidence, i)) ** 2).sum(axis=0)
        rows, z = min(len(squares), statistics.complete), sure_limit(alpha)
        rounded = float(squares.mean())
        spread = float(squares.std()) * np.sqrt(1 / len(squares) + 1 / statistics.complete)
        by_chance = z * spread + z**2 * float(squares.max(initial=0.0)) / 3 / max(rows, 1)
    whole = max(float(np.trace(noise)), 1e-300)
    return (float(np.trace(outside @ noise)) - rounded) / whole, by_chance / whole


def _rounding_errors(evidence: NumberEvidence, i: int) -> Floats:
    """Return what rounding does to honest noise of copy i, drawn anew for the kept rows, (N, n).

    Where a column follows from others, its rounding error depends on theirs: 2 x is rounded up
    where x is half way. So it is tried, and not taken to be step^2 / 12 in every direction.
    """
    statistics, X = evidence.found, evidence.rows.source
    random = np.random.default_rng([evidence.rows.count, i])
    values, vectors = np.linalg.eigh(statistics.definite)
    root = vectors * np.sqrt(statistics.noise[i] * np.maximum(values, 0.0))
    shown = X + root @ random.standard_normal(X.shape)
    steps, shown = statistics.steps[i][:, None], shown - evidence.origins[i][:, None]
    return np.where(steps > 0, np.rint(_ratio(shown, steps + 0 * shown)) * steps - shown, 0.0)


def _spread(statistics: Statistics, i: int, j: int) -> float:
    """Return the size of Cov(D_i, D_j - D_i) that would make a correlation of 1."""
    rank = max(statistics.whitening.shape[1], 1)
    raw = statistics.across + np.diag(np.trace(statistics.rounding, axis1=1, axis2=2)) / rank
    step = raw[j, j] + raw[i, i] - 2 * raw[i, j]
    return float(np.sqrt(max(raw[i, i] * step, 1e-300)))


def _step_correlations(statistics: Statistics, i: int, j: int) -> Floats:
    """Return the correlation of D_i and D_j - D_i in each column, without rounding."""
    N, C = statistics.columns, statistics.covariance
    one, other = (1 + i) * N + np.arange(N), (1 + j) * N + np.arange(N)
    variance, cross = C[one, one], C[one, other]
    step = C[other, other] + variance - 2 * cross
    clean = variance - statistics.steps[i] ** 2 / 12
    return _ratio(cross - clean, np.sqrt(np.maximum(variance * step, 0.0)))


def _pair_note(evidence: NumberEvidence, i: int, j: int, plain: Floats) -> str:
    statistics = evidence.found
    ratio = statistics.across[i, j] / max(statistics.noise[i], 1e-300)
    apart = abs(np.log(max(statistics.noise[j], 1e-300) / statistics.noise[i]))
    if apart < 6 * _log_error(statistics, i) and ratio < 0.99:
        return f"the same level with different noise: they share {ratio:.3g} of it and average out"
    where = f", most of all in {evidence.columns[int(np.argmax(plain))]}" if plain.size else ""
    return f"share {ratio:.4g} of the smaller noise instead of 1{where}"
