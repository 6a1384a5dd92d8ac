"""Every theorem of the paper as a check that a wrong scheme fails.

Most are algebra and are checked exactly, for many random levels and covariances.
Independence is also measured on copies. Each check takes the covariance across
copies (or the copies) as an argument: the tests hand it a wrong one.
"""

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from cornerwave.algorithms import corner_wave, sequential
from cornerwave.arrays import Floats
from cornerwave.attack import Llse, combination
from cornerwave.experiments.result import Result
from cornerwave.experiments.setting import Setting
from cornerwave.experiments.statement import Statement, bound
from cornerwave.noise import coefficients, steps

Across = Callable[[list[float]], Floats]
"""Levels in, covariance of the copies' noise out, in units of K."""

EXACT = 1e-8
TRIALS = 40


def levels(rng: np.random.Generator, count: int) -> list[float]:
    """Return ascending levels that are not too close to tell apart in floats."""
    return [float(level) for level in np.cumsum(rng.uniform(0.05, 1.0, count))]


def covariance(rng: np.random.Generator, columns: int) -> Floats:
    """Return a random covariance of full rank."""
    mixing = rng.normal(size=(columns, columns))
    return np.asarray(mixing @ mixing.T + 0.1 * np.eye(columns))


def hidden(across: Floats) -> float:
    """Return the share of variance that all copies together leave hidden."""
    noise = combination(across).noise
    return noise / (1 + noise)


def independence(rng: np.random.Generator, across: Across = corner_wave) -> Statement:
    """Theorem 1: Z1 and Z2 - Z1 are independent exactly when Cov(Z1, Z2) = Var(Z1)."""
    worst, other = 0.0, np.inf
    for _ in range(TRIALS):
        low, high = levels(rng, 2)
        noise = across([low, high])
        worst = max(worst, abs(noise[0, 1] - noise[0, 0]) / low)
        wrong = rng.uniform(0.1, 0.9) * np.sqrt(low * high)  # a covariance that may be, but is not
        other = min(other, abs(wrong - low) / low)
    return Statement.judged(
        source="Theorem 1",
        claim="Two noises Z1 and Z2 are such that Z1 and Z2 - Z1 are independent if and only if "
        "they are jointly Gaussian with covariance [v1 v1; v1 v2].",
        holds=worst < EXACT and other > EXACT,
        measured=f"largest |Cov(Z1, Z2 - Z1)| / v1 over {TRIALS} pairs {worst:.1e}; for as many "
        f"other covariances at least {other:.1e}",
    )


def sufficiency(rng: np.random.Generator, across: Across = corner_wave) -> Statement:
    """Theorem 2: then the second copy adds nothing to the first."""
    gains = [_gain(across(levels(rng, 2))) for _ in range(TRIALS)]
    return Statement.judged(
        source="Theorem 2",
        claim="If Z1 and Z2 - Z1 are independent, both copies together are worth the less noisy.",
        holds=max(gains) < EXACT,
        measured=f"largest gain of the pair over {TRIALS} pairs {max(gains):.1e}",
    )


def _gain(across: Floats) -> float:
    """Return by how much all copies beat the best single one."""
    best = np.diag(across).min()
    return float(best / (1 + best)) - hidden(across)


def independent_noise(
    rng: np.random.Generator, across: Across = lambda noise: np.diag(noise)
) -> Statement:
    """Theorem 3: independent noise leaves (1 + sum 1/v)^-1 K."""
    worst, falling = 0.0, True
    for _ in range(TRIALS):
        noise, K = levels(rng, 6), covariance(rng, 3)
        errors = [_general_error(across(noise[:m]), K) for m in range(1, 7)]
        expected = [K / (1 + sum(1 / v for v in noise[:m])) for m in range(1, 7)]
        worst = max(worst, *(_apart(e, x) for e, x in zip(errors, expected, strict=True)))
        diagonals = np.array([np.diag(e) for e in errors])
        falling &= bool((np.diff(diagonals, axis=0) < 0).all())
    return Statement.judged(
        source="Theorem 3",
        claim="With independent noise the errors are the diagonal of (1 + sum 1/v)^-1 K, and fall "
        "as copies are added.",
        holds=worst < EXACT and falling,
        measured=f"largest relative difference over {TRIALS} tables of 3 columns {worst:.1e}; "
        f"every added copy lowers every error: {'yes' if falling else 'no'}",
    )


def _general_error(across: Floats, K: Floats) -> Floats:
    """Return the error by the full matrix formula, which knows of no structure."""
    return Llse.general(np.zeros(len(K)), K, noise=np.kron(across, K)).error


def _apart(one: Floats, other: Floats) -> float:
    return float(np.abs(one - other).max() / np.abs(other).max())


def corner_wave_property(rng: np.random.Generator, across: Across = corner_wave) -> Statement:
    """Theorem 4: the corner wave leaves v_1 / (1 + v_1) K."""
    worst = 0.0
    for _ in range(TRIALS):
        noise, K = levels(rng, 6), covariance(rng, 3)
        expected = noise[0] / (1 + noise[0]) * K
        worst = max(worst, _apart(_general_error(across(noise), K), expected))
    return Statement.judged(
        source="Theorem 4",
        claim="If the noise of all copies is jointly Gaussian with the corner-wave covariance, all "
        "copies together leave v1 / (1 + v1) K, as the least noisy alone.",
        holds=worst < EXACT,
        measured=f"largest relative difference over {TRIALS} tables of 3 columns and 6 copies "
        f"{worst:.1e}",
        remark="The paper proves it for linear estimates. It holds for every estimate, since the "
        "noisier copies are the least noisy one plus noise that knows nothing of X; see the "
        "nonlinear attacks below.",
    )


def subsets(rng: np.random.Generator, across: Across = corner_wave) -> Statement:
    """Corollary 1: every subset of the copies reaches the goal as well."""
    noise = levels(rng, 8)
    rng.shuffle(noise)
    whole = across(noise)
    chosen = [list(c) for size in range(1, 9) for c in combinations(range(8), size)]
    worst = max(_gain(whole[np.ix_(c, c)]) for c in chosen)
    star = np.full((3, 3), 0.5) + np.diag([0.0, 1.0, 1.0])
    return Statement.judged(
        source="Corollary 1",
        claim="If a set of copies reaches the privacy goal, so does every subset.",
        holds=worst < EXACT,
        measured=f"largest gain among the {len(chosen)} subsets of 8 copies {worst:.1e}",
        remark="True of the corner wave. Were the goal asked of the whole set only, it would not "
        "pass on: two copies made of a third by independent further noise add nothing to it "
        f"(gain {_gain(star):.1e}), but pooled without it they gain {_gain(star[1:, 1:]):.3f}.",
    )


def increments(copies: Sequence[Floats], X: Floats, noise: Sequence[float]) -> Statement:
    """Theorem 5: increments are independent; measured on copies of X (T,), levels ascending."""
    waves = np.column_stack([copy - X for copy in copies])
    steps_ = np.diff(waves, axis=1, prepend=0.0)
    size = np.diff(np.asarray(noise), prepend=0.0) * X.var(ddof=1)
    white = steps_ / np.sqrt(size)
    pairs = list(combinations(range(len(noise)), 2))
    found = [white[:, i] @ white[:, j] / np.sqrt(len(X)) for i, j in pairs]
    squares = (white**2 - 1) / np.sqrt(2)
    found += [squares[:, i] @ squares[:, j] / np.sqrt(len(X)) for i, j in pairs]
    worst, allowed = float(np.abs(found).max()), bound(len(found))
    exact = np.asarray(np.linalg.cholesky(corner_wave(noise)), dtype=np.float64)
    algebra = _apart(exact, np.tril(np.ones_like(exact)) * np.sqrt(np.diff(noise, prepend=0.0)))
    return Statement.judged(
        source="Theorem 5",
        claim="The noise is a corner wave if and only if Z1 and the increments Z2 - Z1, Z3 - Z2, "
        "... are independent.",
        holds=worst <= allowed and algebra < EXACT,
        measured=f"correlations of {len(pairs)} pairs of increments and of their squares, over "
        f"{len(X):,} rows: at most {worst:.1f} standard deviations from 0 ({allowed:.1f} are "
        f"allowed); the factor U diag(V) of Algorithm 1 differs by {algebra:.1e}",
    )


def tridiagonal(noise: Sequence[float]) -> Floats:
    """Return the paper's explicit inverse of the corner wave, for ascending levels."""
    v = np.asarray(noise)
    c = v[0] / np.diff(v)
    inverse = np.diag([c[0] * v[1] / v[0], *(c[:-1] + c[1:]), c[-1]])
    inverse -= np.diag(c, 1) + np.diag(c, -1)
    return np.asarray(inverse / v[0])


def explicit_inverse(rng: np.random.Generator, across: Across = corner_wave) -> Statement:
    """The appendix gives the inverse of the corner wave: three diagonals."""
    worst = sums = 0.0
    for count in range(2, 31):
        noise = levels(rng, count)
        inverse = tridiagonal(noise)
        worst = max(worst, float(np.abs(inverse @ across(noise) - np.eye(count)).max()))
        sums = max(sums, float(np.abs(inverse.sum(axis=1)[1:]).max()))
    return Statement.judged(
        source="Proof of Theorem 4",
        claim="The inverse of the corner wave has three diagonals, in closed form; its rows sum to "
        "zero but for the first.",
        holds=worst < EXACT and sums < EXACT,
        measured=f"M = 2 to 30: product with the corner wave differs from 1 by {worst:.1e}, row "
        f"sums from 0 by {sums:.1e}",
    )


def kronecker(rng: np.random.Generator, factor: Callable[[Any, Any], Any] = np.kron) -> Statement:
    """Lemma 1: a factor of Sigma (x) K is the product of the factors."""
    worst = vec = 0.0
    for _ in range(TRIALS):
        across, K = corner_wave(levels(rng, 5)), covariance(rng, 3)
        left, right = np.linalg.cholesky(across), np.linalg.cholesky(K)
        whole = np.linalg.cholesky(np.kron(across, K))
        worst = max(worst, _apart(factor(left, right), whole))
        white = rng.normal(size=(3, 5))
        shaped = (right @ white @ left.T).ravel(order="F")
        vec = max(vec, _apart(shaped, whole @ white.ravel(order="F")))
    return Statement.judged(
        source="Lemma 1",
        claim="Noise with covariance Sigma ⊗ K is made from the two small factors, so that a "
        "factor of the large matrix is never needed: P³ + Q³ instead of P³Q³.",
        holds=worst < EXACT and vec < EXACT,
        measured=f"over {TRIALS} pairs, factors differ by {worst:.1e} and noise by {vec:.1e}, "
        "relative",
    )


def matrix_formula(noise: Sequence[float], existing: int) -> tuple[Floats, Floats]:
    """Return the paper's mean operator and covariance of new noise given existing noise."""
    whole = corner_wave(list(noise))
    old, cross = whole[:existing, :existing], whole[existing:, :existing]
    mean = np.asarray(np.linalg.solve(old, cross.T).T, dtype=np.float64)
    return mean, whole[existing:, existing:] - mean @ cross.T


def on_demand_formula(rng: np.random.Generator) -> Statement:
    """Algorithm 3: our two neighbours give the paper's conditional mean and covariance."""
    worst = 0.0
    for _ in range(TRIALS):
        noise = levels(rng, 9)
        rng.shuffle(noise)
        mean, spread = matrix_formula(noise, 5)
        rows = coefficients(steps(noise))
        ours_mean = rows[5:, :5] @ np.linalg.inv(rows[:5, :5])
        fresh = rows[5:, 5:]
        worst = max(worst, _apart(ours_mean, mean), _apart(fresh @ fresh.T, spread))
    return Statement.judged(
        source="Algorithm 3",
        claim="New noise given existing noise z of covariance K_old is Gaussian with mean "
        "C K_old^-1 z and covariance K_new - C K_old^-1 C', where C is what they shall share.",
        holds=worst < EXACT,
        measured=f"nearest-neighbour weights against the matrix formula, {TRIALS} orders of 9 "
        f"levels: differ by {worst:.1e}, relative",
        remark="The mean needs at most two of the existing copies, the nearest below and above, "
        "and no matrix.",
    )


def density(rng: np.random.Generator) -> Statement:
    """Algorithm 1 writes the density of N M values with the constant for M."""
    from scipy.stats import multivariate_normal

    copies, columns = 4, 3
    K_z = np.kron(corner_wave(levels(rng, copies)), covariance(rng, columns))
    v = rng.multivariate_normal(np.zeros(len(K_z)), K_z)
    log_rest = -(np.linalg.slogdet(K_z)[1] + v @ np.linalg.solve(K_z, v)) / 2
    printed = log_rest - copies / 2 * np.log(2 * np.pi)
    ratio = float(np.exp(multivariate_normal(cov=K_z).logpdf(v) - printed))
    return Statement.judged(
        source="Algorithm 1, density",
        claim="The joint density of the noise has the constant (2π)^(M/2).",
        holds=abs(ratio - 1) < EXACT,
        measured=f"for M = {copies}, N = {columns} the true density is {ratio:.1e} times that",
        remark="A slip for N > 1: the vector has N M entries, so the constant is (2π)^(NM/2). "
        "No algorithm uses it.",
    )


def operations(rng: np.random.Generator) -> Statement:
    """Theorems 6 to 8: how many products of copies each row and level takes."""
    counts = (10, 100, 1000)
    used = [_products(rng.permutation(levels(rng, m)).tolist()) for m in counts]
    most = max(total / m for total, m in zip(used, counts, strict=True))
    return Statement.judged(
        source="Theorems 6 to 8",
        claim="M copies of one row take N³ + M N² operations at once or in sequence, and M³ + N³ "
        "on demand.",
        holds=most <= 3,
        measured="weights that are not zero, per row and column, for M = "
        + ", ".join(f"{m}: {total}" for m, total in zip(counts, used, strict=True)),
        remark="The bound for on demand is far from tight: at most three products for each new "
        "copy, so N³ + M N² there as well. (Its proof writes an NM × NM matrix in O(NM) time, "
        "which no algorithm can; nothing rests on it.)",
    )


def _products(noise: list[float]) -> int:
    return sum(
        sum(weight != 0 for weight in (s.weight_below, s.weight_above, s.weight_fresh))
        for s in steps(noise)
    )


def run(setting: Setting) -> Result:
    """Check every theorem."""
    rng = np.random.default_rng([setting.seed, 7])
    X, noise = setting.table.rows[:, -1], levels(rng, 6)
    copies = list(sequential(X, noise=noise, unsafe_seed=setting.seed))
    statements = (
        independence(rng),
        sufficiency(rng),
        independent_noise(rng),
        corner_wave_property(rng),
        subsets(rng),
        explicit_inverse(rng),
        increments(copies, X, noise),
        kronecker(rng),
        density(rng),
        on_demand_formula(rng),
        operations(rng),
    )
    text = "Checked as algebra on random levels and covariances, unless the row says otherwise."
    return Result("The theorems", text, statements)
