"""Linear regression on a copy: the original's coefficients, with standard errors.

Numbers only: b = K_ff^-1 K_fz, and the copy's covariance is (1 + v) K, so the factor
cancels. Noise shaped like K leaves coefficients unchanged; independent noise per column
would shrink them.

Categories enter as indicators d of all labels but the first, the reference. With retention
q the copy's covariances are those of the original times

    number, number  1 + v      number, indicator  q      indicators of two columns  q_A q_B

(1 for two columns drawn together from their own joint distribution), and within a column
Cov = diag(P) - P P' with P from `_shares`. Undo each factor, then solve C_ff b = C_fz.

Standard errors. Let psi = f (z - b'f) be the original's influence, V its variance, and u
the same from the copy's rows with each product scaled as above. Given the original row,
E[u_j] = (1 - p_j) psi_j with p_j = v/(1+v) for a perturbed predictor of a perturbed target
and 0 otherwise, because K is the table's own and moves with it. So

    n Cov(C b | table) = Var(u) - (1 - p_j) V_jk (1 - p_k),      population: plus V

For numbers only, V is exact (by fourth cumulants), so the residual's variance may depend on
the predictors. With categories V is s^2 C, as in ordinary regression.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.choices import MARGINAL
from cornerwave.errors import ColumnError
from cornerwave.miner._covariance import gather, growth, unrounded, warn_of_coarse
from cornerwave.miner._estimates import ColumnLabels, Estimates, Of, column_blocks
from cornerwave.miner._metadata import CopyColumn
from cornerwave.miner._shares import Refresh
from cornerwave.moments import Moments
from cornerwave.sources import Source

INTERCEPT = "(intercept)"

COLLINEAR = 1e-10
"""Features with a smaller eigenvalue of their correlations determine no coefficients."""


@dataclass(frozen=True)
class Feature:
    """A column of the design: a number, or the indicator of a category's label."""

    column: CopyColumn
    label: object = None
    code: int = 0

    @property
    def name(self) -> str:
        """The name of its coefficient."""
        return self.column.name if self.column.is_number else f"{self.column.name}={self.label}"


@dataclass(frozen=True)
class Regression:
    """A fitted regression; the first of the `coefficients` is the intercept.

    `r_squared` and `residual_variance` are the explained share and the rest of the target's
    variance in the original; `rows` counts the rows used.

    >>> from cornerwave.miner import Copy
    >>> Y = np.array([[0.0, 1.0], [1.0, 3.0], [2.0, 5.0], [3.0, 7.0]])
    >>> line = Copy.open(Y, noise=1.0, names=["age", "wage"]).regression("wage", on=["age"])
    >>> line.coefficients.labels, line.coefficients.value.round(6).tolist(), line.r_squared
    ((('(intercept)', 'age'),), [1.0, 2.0], 1.0)
    """

    target: str
    coefficients: Estimates
    r_squared: float
    residual_variance: float
    rows: int


@dataclass(frozen=True)
class _Fit:
    """The solved equations; `scale` turns the copy's covariances into the original's, C."""

    features: Sequence[Feature]
    moments: Moments
    mean: Floats
    C: Floats
    scale: Floats
    slopes: Floats

    @property
    def columns(self) -> list[CopyColumn]:
        return [feature.column for feature in self.features]

    @property
    def residual_variance(self) -> float:
        return max(float(self.C[-1, -1] - self.slopes @ self.C[:-1, -1]), 0.0)

    @property
    def r_squared(self) -> float:
        total = float(self.C[-1, -1])
        return 1 - self.residual_variance / total if total > 0 else 0.0


def design(columns: Sequence[CopyColumn], labels: ColumnLabels) -> list[Feature]:
    """Return the features of these columns; a category's first label is the reference."""
    features: list[Feature] = []
    for column in columns:
        if column.is_number:
            features.append(Feature(column))
            continue
        known = labels[column.name].to_pylist()
        if len(known) < 2:
            raise ColumnError(f"{column.name!r}: a predictor needs at least two categories")
        features += [Feature(column, label, code) for code, label in enumerate(known) if code]
    return features


def feature_blocks(
    source: Source, features: Sequence[Feature], labels: ColumnLabels
) -> Iterator[Floats]:
    """Yield blocks (rows, features) of the rows in which no column is missing."""
    columns = list({feature.column.name: feature.column for feature in features}.values())
    for block in column_blocks(source, columns, labels):
        values = []
        for feature in features:
            cells = block[feature.column.name]
            if not feature.column.is_number:
                cells = np.where(cells < 0, np.nan, cells == feature.code)
            values.append(cells)
        rows = np.column_stack(values)
        yield rows[~np.isnan(rows).any(axis=1)]


@np.errstate(over="ignore", invalid="ignore")  # of numbers beyond floating point nothing is known
def regress(
    blocks: Callable[[], Iterator[Floats]], features: Sequence[Feature], of: Of
) -> Regression:
    """Fit the last feature on the others; `blocks` yields rows (., features), none missing.

    Raises ColumnError if the predictors are linearly dependent.
    """
    fit = _solve(gather(blocks(), [feature.name for feature in features]), features)
    spread = _spread(fit, _influence_variance(blocks(), fit), of)
    intercept = fit.mean[-1] - fit.slopes @ fit.mean[:-1]
    names = (INTERCEPT, *(feature.name for feature in features[:-1]))
    coefficients = Estimates.of(
        (names,), np.concatenate([[intercept], fit.slopes]), np.diag(spread) / fit.moments.rows
    )
    return Regression(
        features[-1].name, coefficients, fit.r_squared, fit.residual_variance, fit.moments.rows
    )


def _spread(fit: _Fit, inner: Floats, of: Of) -> Floats:
    """Return n Cov(coefficients), the intercept first: a sandwich of C^-1 around Cov(C b)."""
    V = _original(inner, fit)
    noise = np.array([column.noise for column in fit.columns])
    privacy = noise / (1 + noise) * (noise[-1] > 0)
    keeps = np.append(1.0, 1 - privacy[:-1])
    S = _semidefinite(inner - V * np.outer(keeps, keeps))
    if of == "population":
        S = S + _semidefinite(V)
    back = np.linalg.inv(fit.C[:-1, :-1])
    outer = np.zeros_like(S)
    outer[0, 0], outer[0, 1:], outer[1:, 1:] = 1.0, -fit.mean[:-1] @ back, back
    return np.asarray(outer @ S @ outer.T)


def _solve(moments: Moments, features: Sequence[Feature]) -> _Fit:
    scale = scales(features)
    mean = moments.mean.copy()
    columns = [feature.column for feature in features]
    warn_of_coarse(moments.covariance, columns, moments.rows)
    C = unrounded(moments.covariance, columns) * scale
    for members in _by_column(features):
        refresh = Refresh.of(features[members[0]].column, _with_rest(mean[members]))
        mean[members] = refresh.undo(_with_rest(mean[members]))[:-1]
        C[np.ix_(members, members)] = np.diag(mean[members]) - np.outer(
            mean[members], mean[members]
        )
    _check_rank(C[:-1, :-1])
    slopes = np.asarray(np.linalg.solve(C[:-1, :-1], C[:-1, -1]), dtype=np.float64)
    return _Fit(features, moments, mean, C, scale, slopes)


def scales(features: Sequence[Feature]) -> Floats:
    """Return the factors that turn the copy's covariances into the original's."""
    columns = [feature.column for feature in features]
    q = np.array([column.retention for column in columns])
    scale = 1 / np.outer(q, q) / growth(columns)
    for i, one in enumerate(columns):
        for j, other in enumerate(columns):
            # drawn from their own joint distribution; Refresh refuses any other joint draw
            if other.name in one.together and other.name != one.name:
                scale[i, j] = 1.0
    return np.asarray(scale)


def _influence_variance(blocks: Iterator[Floats], fit: _Fit) -> Floats:
    """Return Var(u) over the copy's rows, the intercept first."""
    moments = Moments.of(np.empty((0, len(fit.features))))
    for block in blocks:
        moments = moments + Moments.of(_influence(block, fit))
    return moments.covariance


def _influence(block: Floats, fit: _Fit) -> Floats:
    """Return u (rows, 1 + predictors): of the mean residual, then of C_fz - C_ff b."""
    centred = block - fit.moments.mean
    weights = np.append(-fit.slopes, 1.0)
    u = centred * (centred @ (fit.scale * weights[:, None]))
    alone = centred.copy()
    for members in _by_column(fit.features):
        column = fit.features[members[0]].column
        if column.base != MARGINAL:
            alone[:, members] /= column.retention
        within = fit.scale[np.ix_(members, members)] * weights[members][:, None]
        u[:, members] -= centred[:, members] * (centred[:, members] @ within)
        # within a column use the derivative of diag(P) - P P' along d, times b
        P, b, d = fit.mean[members], weights[members], alone[:, members]
        u[:, members] += d * b - d * (P @ b) - np.outer(d @ b, P)
    return np.column_stack([alone @ weights, u[:, :-1]])


def _original(inner: Floats, fit: _Fit) -> Floats:
    """Return V, the variance of psi in the original, the intercept first."""
    left = fit.residual_variance
    V = np.zeros_like(inner)
    V[0, 0], V[1:, 1:] = left, left * fit.C[:-1, :-1]
    if not all(column.noise for column in fit.columns):
        return V
    # with e = z - b'f: E[f f' e^2] = k + s^2 C, in the copy k + (1+v)^2 s^2 C, with the same
    # fourth cumulant k; inner is the copy's divided by (1+v)^2
    grown = float(growth(fit.columns)[0, 0])
    V[1:, 1:] = inner[1:, 1:] * grown**2 - (grown**2 - 1) * V[1:, 1:]
    V[0, 1:] = V[1:, 0] = inner[0, 1:] * grown
    return V


def _by_column(features: Sequence[Feature]) -> list[list[int]]:
    """Return the positions of the indicators of each category column."""
    places: dict[str, list[int]] = {}
    for place, feature in enumerate(features):
        if not feature.column.is_number:
            places.setdefault(feature.column.name, []).append(place)
    return list(places.values())


def _with_rest(shares: Floats) -> Floats:
    return np.append(shares, 1 - shares.sum())


def _semidefinite(matrix: Floats) -> Floats:
    """Return the matrix with eigenvalues that sampling error made negative set to 0."""
    size = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    size = np.where(size > 0, size, 1.0)
    # on the correlation scale, so that no unit of a column decides what is small
    values, vectors = np.linalg.eigh(matrix / np.outer(size, size))
    clipped = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return np.asarray(clipped * np.outer(size, size))


def _check_rank(C: Floats) -> None:
    size = np.sqrt(np.maximum(np.diag(C), 0.0))
    if not (size > 0).all() or np.linalg.eigvalsh(C / np.outer(size, size))[0] <= COLLINEAR:
        raise ColumnError(
            "the predictors are linearly dependent: one is constant or follows from the others, or "
            "the copy is too small or too noisy; leave some out"
        )
