import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cornerwave.errors import SingularCovariance, SourceError
from cornerwave.moments import Moments
from cornerwave.noise import factor
from tests import twins
from tests.processor import same_lines_of

LARGE = st.integers(-(2**44), 2**44)
VALUES = st.floats(-1e6, 1e6, allow_subnormal=False)
TABLES = hnp.arrays(
    float, st.tuples(st.integers(1, 40), st.integers(1, 4)), elements=VALUES | st.just(np.nan)
)


def merged(parts):
    total = Moments.of(parts[0])
    for part in parts[1:]:
        total = total + Moments.of(part)
    return total


def assert_same_moments(moments, X):
    mean, covariance = twins.two_pass_moments(X)
    size = np.nanmax(np.abs(X), initial=1.0)
    assert np.abs(moments.mean - mean).max() <= 1e-13 * size
    assert np.abs(moments.covariance - covariance).max() <= 1e-12 * size**2
    assert moments.rows == len(X)
    assert (moments.present == (~np.isnan(X)).sum(axis=0)).all()
    largest = np.where(np.isnan(X), 0, np.abs(X)).max(axis=0, initial=0)
    assert (moments.largest == largest).all()


@given(TABLES, st.data())
@settings(deadline=None)
def test_merging_any_split_equals_two_passes(X, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(X)), max_size=5)))
    assert_same_moments(merged(np.split(X, cuts)), X)


@given(
    hnp.arrays(np.int64, st.tuples(st.integers(2, 20), st.just(3)), elements=LARGE),
    st.integers(0, 19),
)
@settings(deadline=None)
def test_the_covariance_is_the_exact_one_rounded_once(whole, cut):
    X, rows = whole * 2.0**-30, len(whole)
    exact = [[Fraction(int(x), 2**30) for x in column] for column in whole.T]
    means = [sum(column) / rows for column in exact]
    K = [
        [
            float(sum((x - m) * (y - n) for x, y in zip(a, b, strict=True)) / (rows - 1))
            for b, n in zip(exact, means, strict=True)
        ]
        for a, m in zip(exact, means, strict=True)
    ]
    assert merged(np.split(X, [cut])).covariance.tolist() == K


def sums_of_digits(most):
    return hnp.arrays(np.int64, (9, 2, 2), elements=st.integers(-most, most))


@given(
    st.integers(2, 2**39),
    hnp.arrays(np.int64, (3, 2, 2), elements=st.integers(-(2**60), 2**60)),
    sums_of_digits(2**48) | sums_of_digits(1),
    sums_of_digits(2**62) | sums_of_digits(1),
)
@settings(deadline=None)
def test_sums_of_any_size_are_rounded_once(rows, sums, high, low):
    """As those over many rows: each goes beyond its place, and quotients may be tiny."""
    count, ends = np.full((2, 2), rows), np.zeros(2)
    products = [limb.reshape(3, 3, 2, 2) for limb in (high, low)]
    found = Moments(rows, np.full(2, 2), count, sums, *products, ends, ends)
    totals = [
        [sum(int(sums[d, i, j]) << 22 * (2 - d) for d in range(3)) for j in (0, 1)] for i in (0, 1)
    ]
    for i, j in ((0, 0), (1, 0), (1, 1)):
        both = sum(
            ((int(products[0][d, e, i, j]) << 32) + int(products[1][d, e, i, j]))
            << 22 * (4 - d - e)
            for d in range(3)
            for e in range(3)
        )
        exact = Fraction(rows * both - totals[i][j] * totals[j][i], rows * (rows - 1))
        assert found.covariance[i, j] == found.covariance[j, i] == float(exact)
    assert found.mean.tolist() == [float(Fraction(totals[i][i], rows)) for i in (0, 1)]


@given(TABLES)
@settings(deadline=None, max_examples=30)
def test_nothing_added_changes_nothing(X):
    nothing = Moments.of(np.empty((0, X.shape[1])))
    for total in (nothing + Moments.of(X), Moments.of(X) + nothing):
        assert np.array_equal(total.covariance, Moments.of(X).covariance)
        assert np.array_equal(total.mean, Moments.of(X).mean)
    assert Moments.of(X).covariance.shape == (X.shape[1], X.shape[1])


@pytest.mark.parametrize("parts", [1, 2, 100])
def test_far_from_zero_nothing_is_lost(parts):
    deviation = np.random.default_rng(0).standard_normal((20_000, 3)) @ np.diag([1, 2, 0.5])
    X = 1e9 + deviation
    exact = twins.two_pass_moments(X - 1e9)[1]
    found = merged(np.array_split(X, parts))
    assert np.abs(found.covariance - exact).max() < 1e-7  # a double at 1e9 has that many digits
    # the textbook's one pass fails the same test
    naive = (X.T @ X - len(X) * np.outer(X.mean(axis=0), X.mean(axis=0))) / (len(X) - 1)
    assert np.abs(naive - exact).max() > 1e-3


@pytest.mark.parametrize("columns", [1, 4, 50])
@pytest.mark.parametrize("gaps", [False, True])
def test_the_layout_of_a_table_and_its_parts_do_not_matter(columns, gaps):
    """By loops and by BLAS, by columns and by rows, whole and in parts of any size: the same bits.

    Sizes grow over the rows, so that the first digit of a part is not that of the whole.
    """
    rng = np.random.default_rng(5)
    X = rng.standard_normal((5000, columns)) * 2.0 ** np.linspace(-40, 40, 5000)[:, None]
    X[rng.random(X.shape) < (0.1 if gaps else 0.0)] = np.nan
    whole = Moments.of(X)
    others = [Moments.of(np.asfortranarray(X)), Moments.of(np.repeat(X, 2, axis=1)[:, ::2])]
    others += [merged(np.array_split(X, parts)) for parts in (2, 7)]
    others.append(merged(np.array_split(rng.permutation(X), 3)))
    for other in others:
        assert other.covariance.tobytes() == whole.covariance.tobytes()
        assert other.mean.tobytes() == whole.mean.tobytes()
    if not gaps:
        naive = {np.cov(x.T).tobytes() for x in (X, X[::-1])}
        assert columns == 1 or len(naive) == 2  # the negative control


REPORT = """
import numpy as np
from cornerwave.moments import Moments
for columns in (3, 50):
    X = np.random.default_rng(columns).standard_normal((3000, columns)) * 1e3
    print(Moments.of(X).covariance.tobytes().hex()[:4000])
"""


def test_bit_identical_on_all_processors():
    """Sums of whole numbers may be reordered and fused: another processor's are the same."""
    assert len(same_lines_of(REPORT)) == 2


def test_missing_values_are_left_out_pair_by_pair():
    X = np.array([[1, 2, np.nan], [3, np.nan, 5], [5, 1, 2], [np.nan, 7, 1], [2, 2, 2.0]])
    assert_same_moments(Moments.of(X), X)
    complete = X[~np.isnan(X).any(axis=1)]
    assert not np.allclose(Moments.of(X).covariance, np.cov(complete.T))


def test_columns_that_never_meet_have_covariance_zero():
    X = np.array([[1.0, np.nan], [2.0, np.nan], [np.nan, 5.0], [np.nan, 9.0]])
    assert Moments.of(X).covariance.tolist() == [[0.5, 0.0], [0.0, 8.0]]


def test_a_column_without_a_value():
    found = merged([np.array([[1.0, np.nan]]), np.array([[2.0, np.nan]])])
    assert found.mean.tolist() == [1.5, 0.0]
    assert found.present.tolist() == [2, 0]
    assert found.covariance.tolist() == [[0.5, 0.0], [0.0, 0.0]]


def test_covariance_is_exactly_symmetric():
    X = np.random.default_rng(1).standard_normal((999, 6)) ** 3
    K = merged(np.array_split(X, 7)).covariance
    assert np.array_equal(K, K.T)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinite_values_are_refused(value):
    with pytest.raises(SourceError, match="infinite"):
        Moments.of([[1.0], [value]])


@given(st.floats(-1e12, 1e12), st.lists(st.integers(1, 30), min_size=1, max_size=5))
@settings(deadline=None)
def test_a_constant_column_is_seen_as_constant_to_the_bit(value, sizes):
    total = merged([np.full((size, 1), value) for size in sizes])
    assert total.covariance[0, 0] == 0
    assert total.deviation[0] == 0


# --- the factor -------------------------------------------------------------------------


@given(
    hnp.arrays(
        int, st.tuples(st.integers(3, 12), st.integers(1, 5)), elements=st.integers(-999, 999)
    )
)
@settings(deadline=None)
def test_the_factor_gives_the_covariance_back(X):
    K = np.atleast_2d(np.cov(X.T))
    found = factor(K)
    scale = np.sqrt(np.outer(np.diag(K), np.diag(K))) + 1e-300
    assert (np.abs(found.lower @ found.lower.T - K) / scale).max() < 1e-4
    assert np.array_equal(found.lower, np.tril(found.lower))
    # variances to rounding: they say how private a column is
    assert np.allclose((found.lower**2).sum(axis=1), np.diag(K), rtol=1e-9)


def test_the_factor_of_a_regular_matrix_is_that_of_cholesky():
    A = np.random.default_rng(2).standard_normal((50, 6)) * [1e-6, 1, 1e6, 3, 1e3, 0.1]
    K = np.cov(A.T)
    found = factor(K)
    scale = np.sqrt(np.diag(K))[:, None]
    assert np.abs((found.lower - np.linalg.cholesky(K)) / scale).max() < 1e-12
    assert found.constant == found.dependent == ()


def test_constant_and_collinear_columns():
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((2, 1000))
    X = np.column_stack([a, np.full(1000, 7.0), b, 2 * a - 3 * b, -5 * a + 1])
    K = Moments.of(X).covariance
    found = factor(K)
    assert found.constant == (1,)
    assert found.dependent == (3, 4)
    assert np.allclose(found.lower @ found.lower.T, K, rtol=1e-9, atol=1e-9)
    # the noise of a dependent column is the same function of the others' noise
    noise = found.lower @ rng.standard_normal((5, 100))
    assert np.allclose(noise[3], 2 * noise[0] - 3 * noise[2], atol=1e-6)
    assert np.allclose(noise[4], -5 * noise[0], atol=1e-6)
    assert (noise[1] == 0).all()
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(K)


def not_semidefinite():
    """Three columns that never stand together, each pair as close as rows allow."""
    rng = np.random.default_rng(4)
    parts = []
    for i, j, sign in ((0, 1, 1), (1, 2, 1), (0, 2, -1)):
        part = np.full((500, 3), np.nan)
        part[:, i] = rng.standard_normal(500)
        part[:, j] = sign * part[:, i]
        parts.append(part)
    return np.concatenate(parts)


@pytest.mark.parametrize("extra", [[], [7.0]], ids=["alone", "beside a constant column"])
def test_a_covariance_that_missing_values_made_impossible(extra):
    X = not_semidefinite()
    X = np.column_stack([X, *(np.full(len(X), value) for value in extra)])
    K = Moments.of(X).covariance
    assert np.linalg.eigvalsh(K).min() < -0.1
    found = factor(K)
    shape = found.lower @ found.lower.T
    assert found.constant == ((3,) if extra else ())
    # at least K in every direction, and no more than its largest eigenvalue anywhere
    assert np.linalg.eigvalsh(shape - K).min() > -1e-9
    assert np.linalg.eigvalsh(shape).max() < 1.01 * np.abs(np.linalg.eigvalsh(K)).max()


def test_warnings_name_the_columns():
    found = factor(np.array([[1.0, 0, 1, 1], [0, 0, 0, 0], [1, 0, 1, 1], [1, 0, 1, 1]]))
    with pytest.warns(SingularCovariance) as caught:
        found.warn(["age", "planet", "years", "annees"])
    constant, dependent = (str(warning.message) for warning in caught)
    assert constant.startswith("column planet: constant")
    assert dependent.startswith("columns years, annees: a linear function")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        factor(np.eye(2)).warn(["a", "b"])


@pytest.mark.parametrize("K", [[[np.nan]], [[np.inf]]])
def test_what_overflows_is_refused(K):
    with pytest.raises(SourceError, match="overflows"):
        factor(K)


@pytest.mark.parametrize("K", [[1.0], [[1.0, 0.0]], 3.0])
def test_what_is_not_square_is_refused(K):
    with pytest.raises(SourceError, match="square"):
        factor(K)


@pytest.mark.parametrize("value", [1e200, -1e200, 1e141])
def test_squares_that_would_overflow_are_refused_by_name(value):
    X = np.array([[1.0, 2.0], [np.nan, value], [2.0, 3.0]])
    with pytest.raises(SourceError, match="column 2 of the numbers holds values beyond 1e"):
        Moments.of(X)
    with pytest.raises(SourceError, match="column wage holds values beyond 1e"):
        Moments.of(X, ["age", "wage"])
    factor(Moments.of(X / value * 1e140).covariance)


def test_odd_names_are_quoted_in_warnings():
    with pytest.warns(
        SingularCovariance, match=r"columns 'new\\nline', 'a,b', '', plain: "
    ) as told:
        factor(np.zeros((4, 4))).warn(["new\nline", "a,b", "", "plain"])
    assert len(str(told[0].message).splitlines()) == 1
