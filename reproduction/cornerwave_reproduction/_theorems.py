"""Every theorem of the paper as a check that a wrong scheme fails.

Most are algebra and are checked exactly, for many random levels and covariances.
Independence is also measured on copies. Each check takes the covariance across
copies (or the copies) as an argument, so that the tests can pass a wrong one.
"""

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from scipy.stats import multivariate_normal

from cornerwave.algorithms import corner_wave, sequential
from cornerwave.arrays import Floats
from cornerwave.attack import Llse, combination
from cornerwave.noise import coefficients, steps
from cornerwave_reproduction._complexity import operations
from cornerwave_reproduction._part import Result, Setting, Statement, bound

Across = Callable[[list[float]], Floats]
"""Levels -> covariance of the copies' noise, in units of K."""

EXACT = 1e-8
"""The rounding of matrix algebra; nothing that is held to it is computed from copies."""

TRIALS = 40


def random_levels(rng: np.random.Generator, count: int) -> list[float]:
    """Return ascending levels, none too close to the next for floating point."""
    return [float(level) for level in np.cumsum(rng.uniform(0.05, 1.0, count))]


def random_covariance(rng: np.random.Generator, columns: int) -> Floats:
    """Return a random covariance of full rank."""
    mixing = rng.normal(size=(columns, columns))
    return np.asarray(mixing @ mixing.T + 0.1 * np.eye(columns))


def _worst(trial: Callable[[], float]) -> float:
    return max(trial() for _ in range(TRIALS))


def _gain(across: Floats) -> float:
    """Return by how much all copies beat the best single one, as a share of the variance."""
    best, pooled = float(np.diag(across).min()), combination(across).noise
    return best / (1 + best) - pooled / (1 + pooled)


def _general_error(across: Floats, K: Floats) -> Floats:
    """Return the error by the full matrix formula, which does not use the structure."""
    return Llse.general(np.zeros(len(K)), K, noise=np.kron(across, K)).error


def _apart(one: Floats, other: Floats) -> float:
    """Return the largest difference, relative to the largest entry."""
    return float(np.abs(one - other).max() / np.abs(other).max())


def independence(rng: np.random.Generator, across: Across = corner_wave) -> Statement:
    """Theorem 1: Z1 and Z2 - Z1 are independent exactly when Cov(Z1, Z2) = Var(Z1)."""
    # Jointly Gaussian noises are independent exactly when they are uncorrelated.
    worst, other = 0.0, np.inf
    for _ in range(TRIALS):
        low, high = random_levels(rng, 2)
        noise = across([low, high])
        worst = max(worst, abs(noise[0, 1] - noise[0, 0]) / low)
        wrong = rng.uniform(0.1, 0.9) * np.sqrt(low * high)  # any other possible covariance
        other = min(other, abs(wrong - low) / low)
    return Statement.judged(
        source="Theorem 1",
        claim="Z1 and Z2 - Z1 are independent if and only if Z1 and Z2 are jointly Gaussian with "
        "covariance [v1 v1; v1 v2].",
        holds=worst < EXACT and other > EXACT,
        measured=f"largest |Cov(Z1, Z2 - Z1)| / v1 over {TRIALS} pairs {worst:.1e}; for as many "
        f"other covariances at least {other:.1e}",
    )


def sufficiency(rng: np.random.Generator, across: Across = corner_wave) -> Statement:
    """Theorem 2: then the second copy adds nothing to the first."""
    worst = _worst(lambda: _gain(across(random_levels(rng, 2))))
    return Statement.judged(
        source="Theorem 2",
        claim="If Z1 and Z2 - Z1 are independent, both copies together reveal no more than the "
        "less noisy one.",
        holds=worst < EXACT,
        measured=f"largest gain of the pair over {TRIALS} pairs {worst:.1e}",
    )


def independent_noise(
    rng: np.random.Generator, across: Across = lambda noise: np.diag(noise)
) -> Statement:
    """Theorem 3: independent noise leaves (1 + sum 1/v)^-1 K."""
    worst, falling = 0.0, True
    for _ in range(TRIALS):
        noise, K = random_levels(rng, 6), random_covariance(rng, 3)
        errors = [_general_error(across(noise[:m]), K) for m in range(1, 7)]
        theory = [K / (1 + sum(1 / v for v in noise[:m])) for m in range(1, 7)]
        worst = max(worst, *(_apart(e, t) for e, t in zip(errors, theory, strict=True)))
        falling &= bool((np.diff([np.diag(e) for e in errors], axis=0) < 0).all())
    return Statement.judged(
        source="Theorem 3",
        claim="With independent noise the errors are the diagonal of (1 + sum 1/v)^-1 K, and fall "
        "as copies are added.",
        holds=worst < EXACT and falling,
        measured=f"largest relative difference over {TRIALS} tables of 3 columns {worst:.1e}; "
        f"every added copy lowers every error: {'yes' if falling else 'no'}",
    )


def corner_wave_property(rng: np.random.Generator, across: Across = corner_wave) -> Statement:
    """Theorem 4: the corner wave leaves v_1 / (1 + v_1) K."""

    def trial() -> float:
        noise, K = random_levels(rng, 6), random_covariance(rng, 3)
        return _apart(_general_error(across(noise), K), noise[0] / (1 + noise[0]) * K)

    worst = _worst(trial)
    return Statement.judged(
        source="Theorem 4",
        claim="If the noise of all copies is jointly Gaussian with the corner-wave covariance, all "
        "copies together leave the error v1 / (1 + v1) K, as does the least noisy one alone.",
        holds=worst < EXACT,
        measured=f"largest relative difference over {TRIALS} tables of 3 columns and 6 copies "
        f"{worst:.1e}",
        remark="The paper proves it for linear estimates. It holds for every estimate, because the "
        "noisier copies are the least noisy one plus noise that is independent of X; see the "
        "nonlinear attacks below.",
    )


def subsets(rng: np.random.Generator, across: Across = corner_wave) -> Statement:
    """Corollary 1: every subset of the copies reaches the goal as well."""
    noise = random_levels(rng, 8)
    rng.shuffle(noise)
    whole = across(noise)
    chosen = [list(c) for size in range(1, 9) for c in combinations(range(8), size)]
    worst = max(_gain(whole[np.ix_(c, c)]) for c in chosen)
    # A counterexample to the wording: Y2 and Y3 are Y1 plus independent noise of variance 1.
    star = np.full((3, 3), 0.5) + np.diag([0.0, 1.0, 1.0])
    return Statement.judged(
        source="Corollary 1",
        claim="If a set of copies reaches the privacy goal, so does every subset.",
        holds=worst < EXACT,
        measured=f"largest gain among the {len(chosen)} subsets of 8 copies {worst:.1e}",
        remark="True for the corner wave, but not for every scheme that reaches the goal on the "
        "whole set: two copies that add independent noise to a third reveal no more than the third "
        f"(gain {_gain(star):.1e}), but pooled without it they gain {_gain(star[1:, 1:]):.3f}.",
    )


def increments(copies: Sequence[Floats], X: Floats, noise: Sequence[float]) -> Statement:
    """Theorem 5: increments are independent; measured on copies of X (T,), levels ascending."""
    waves = np.column_stack([copy - X for copy in copies])
    size = np.diff(np.asarray(noise), prepend=0.0)
    white = np.diff(waves, axis=1, prepend=0.0) / np.sqrt(size * X.var(ddof=1))
    # Independent increments are uncorrelated, and so are their squares (variance 2 each). The
    # grid of the copies, 2^-24 of a deviation, is far below the sampling error of either.
    pairs = list(combinations(range(len(noise)), 2))
    found = [
        z[:, i] @ z[:, j] / np.sqrt(len(X))
        for z in (white, (white**2 - 1) / np.sqrt(2))
        for i, j in pairs
    ]
    worst, allowed = float(np.abs(found).max()), bound(len(found))
    exact = np.asarray(np.linalg.cholesky(corner_wave(noise)), dtype=np.float64)
    algebra = _apart(exact, np.tril(np.ones_like(exact)) * np.sqrt(size))
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
        noise = random_levels(rng, count)
        inverse = tridiagonal(noise)
        worst = max(worst, float(np.abs(inverse @ across(noise) - np.eye(count)).max()))
        sums = max(sums, float(np.abs(inverse.sum(axis=1)[1:]).max()))
    return Statement.judged(
        source="Proof of Theorem 4",
        claim="The inverse of the corner wave has three diagonals, in closed form; all its rows "
        "but the first sum to zero.",
        holds=worst < EXACT and sums < EXACT,
        measured=f"M = 2 to 30: product with the corner wave differs from 1 by {worst:.1e}, row "
        f"sums from 0 by {sums:.1e}",
    )


def kronecker(rng: np.random.Generator, factor: Callable[[Any, Any], Any] = np.kron) -> Statement:
    """Lemma 1: a factor of Sigma (x) K is the product of the factors."""
    worst = vec = 0.0
    for _ in range(TRIALS):
        across, K = corner_wave(random_levels(rng, 5)), random_covariance(rng, 3)
        left, right = np.linalg.cholesky(across), np.linalg.cholesky(K)
        whole = np.linalg.cholesky(np.kron(across, K))
        worst = max(worst, _apart(factor(left, right), whole))
        # vec(B W A') = (A (x) B) vec(W): the large factor need not be formed.
        white = rng.normal(size=(3, 5))
        shaped = (right @ white @ left.T).ravel(order="F")
        vec = max(vec, _apart(shaped, whole @ white.ravel(order="F")))
    return Statement.judged(
        source="Lemma 1",
        claim="Noise with covariance Sigma ⊗ K can be made from the factors of the two small "
        "matrices, in P³ + Q³ operations instead of P³Q³.",
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

    def trial() -> float:
        noise = random_levels(rng, 9)
        rng.shuffle(noise)
        mean, spread = matrix_formula(noise, 5)
        # Row i: level i as a combination of white noises, one per level in order of arrival.
        rows = coefficients(steps(noise))
        ours, fresh = rows[5:, :5] @ np.linalg.inv(rows[:5, :5]), rows[5:, 5:]
        return max(_apart(ours, mean), _apart(fresh @ fresh.T, spread))

    worst = _worst(trial)
    return Statement.judged(
        source="Algorithm 3",
        claim="New noise given existing noise z of covariance K_old is Gaussian with mean "
        "C K_old^-1 z and covariance K_new - C K_old^-1 C', where C is their cross-covariance.",
        holds=worst < EXACT,
        measured=f"nearest-neighbour weights against the matrix formula, {TRIALS} orders of 9 "
        f"levels: differ by {worst:.1e}, relative",
        remark="The mean needs at most two of the existing copies, the nearest below and above, "
        "and no matrix.",
    )


def density(rng: np.random.Generator) -> Statement:
    """Algorithm 1 writes the density of N M values with the constant for M."""
    copies, columns = 4, 3
    K_z = np.kron(corner_wave(random_levels(rng, copies)), random_covariance(rng, columns))
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


def run(setting: Setting) -> Result:
    """Check every theorem."""
    rng = np.random.default_rng([setting.seed, 7])
    X, noise = setting.table.rows[:, -1], random_levels(rng, 6)
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
        operations(rng.permutation(random_levels(rng, 1000)).tolist()),
    )
    text = "Checked as algebra on random levels and covariances, unless stated otherwise."
    return Result("The theorems", text, statements)
