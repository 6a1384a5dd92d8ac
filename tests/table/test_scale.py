from pathlib import Path
from statistics import NormalDist

import numpy as np
import pyarrow.parquet as papq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cornerwave
from cornerwave.columns import KNOTS, Scale, Thinned, rank_scale
from cornerwave.columns import _scale as module
from cornerwave.columns._scale import ROWS_PER_KNOT
from cornerwave.errors import ColumnError
from cornerwave.moments import Moments
from tests.processor import same_lines_of

LOG = Scale("log1p")
PEOPLE = Path(cornerwave.__file__).parent / "data" / "people.parquet"

REPORT = """
import hashlib
import numpy as np
from cornerwave.columns import Scale, rank_scale
x = np.random.default_rng(0).lognormal(3, 4, 30011)
for scale in (Scale("log1p"), rank_scale(x, "c")):
    t = scale.forward(x, "c")
    back = scale.backward(t * 1.5 - 2)
    print(hashlib.sha256(t.tobytes()).hexdigest(), hashlib.sha256(back.tobytes()).hexdigest())
"""


def floats(values):
    return np.array(values, dtype=float)


# --- its own scale, and log1p ---------------------------------------------------------------


def test_its_own_scale_changes_nothing():
    x = floats([-1e300, np.nan, 5.0])
    assert Scale().forward(x, "c") is x
    assert Scale().backward(x) is x


@given(st.lists(st.floats(-0.999999, 1e300), min_size=1, max_size=30))
@settings(deadline=None)
def test_log1p_is_near_the_library_and_comes_back(values):
    x = floats(values)
    t = LOG.forward(x, "c")
    assert np.abs(t - np.log1p(x)).max() < 1e-10
    back = LOG.backward(t)
    assert (np.abs(back - x) <= 1e-9 * (1 + np.abs(x))).all()


@given(st.lists(st.floats(-690, 690), min_size=1, max_size=30))
@settings(deadline=None)
def test_the_way_back_is_near_the_library(values):
    t = floats(values)
    assert (np.abs(LOG.backward(t) - np.expm1(t)) <= 1e-13 * (1 + np.exp(t))).all()


@pytest.mark.parametrize("decades", [(-12, 0), (0, 8), (8, 300)])
def test_log1p_is_monotone(decades):
    x = np.concatenate([np.logspace(*decades, 20_001), 2.0 ** np.arange(-30, 31)])
    x = np.sort(np.concatenate([x, np.nextafter(x, np.inf), np.nextafter(x, 0)]))
    assert (np.diff(LOG.forward(x, "c")) >= -1e-13 * np.log1p(x[1:])).all()
    t = np.linspace(-30, 690, 100_001)
    assert (np.diff(LOG.backward(t)) > 0).all()


def test_far_out_the_way_back_stays_finite():
    found = LOG.backward(floats([1e9, 701.0, 700.0, -1e9, np.nan]))
    assert np.isfinite(found[:4]).all()
    assert found[0] == found[1] == found[2]
    assert found[3] == -1.0
    assert np.isnan(found[4])


def test_zero_and_missing_stay():
    t = LOG.forward(floats([0.0, np.nan]), "c")
    assert t[0] == 0.0
    assert np.isnan(t[1])


def test_log1p_needs_values_above_minus_one():
    LOG.forward(floats([np.nextafter(-1.0, 0)]), "c")
    for bad in (-1.0, -37.125):
        with pytest.raises(ColumnError, match="'c': log1p needs values above -1; use rank") as e:
            LOG.forward(floats([1.0, bad]), "c")
        assert "37" not in str(e.value)


# --- rank -----------------------------------------------------------------------------------


def test_the_knots_are_averages_of_equal_shares_at_normal_scores():
    x = np.random.default_rng(0).permutation(np.arange(255.0 * ROWS_PER_KNOT))
    scale = rank_scale(x, "c")
    assert len(scale.knots) == KNOTS
    means = np.arange(255.0 * ROWS_PER_KNOT).reshape(KNOTS, -1).mean(axis=1)
    scores = [round(NormalDist().inv_cdf((k + 0.5) / KNOTS), 12) for k in range(KNOTS)]
    assert np.array_equal(scale.knots, np.stack([means, scores], axis=1))


@given(st.integers(0, 2**32), st.integers(3 * ROWS_PER_KNOT, 3000))
@settings(deadline=None, max_examples=40)
def test_no_cell_stands_in_a_knot(seed, rows):
    x = np.random.default_rng(seed).lognormal(0, 3, rows)
    knots = {value for value, _ in rank_scale(x, "c").knots}
    assert not knots & set(x.tolist())
    assert x.min() < min(knots)
    assert max(knots) < x.max()


@given(
    st.lists(st.sampled_from([0.0, 0.1, 0.3, -7.7, 1e6, np.nan]), min_size=150, max_size=600),
    st.booleans(),
)
@settings(deadline=None, max_examples=60)
def test_ties_are_in_order_and_come_back(values, weighted):
    """Equal values have one knot value: their mean in floating point may be beside them."""
    x = floats(values)
    weights = np.random.default_rng(1).exponential(size=len(x)) if weighted else None
    try:
        scale = rank_scale(x, "c", weights)
    except ColumnError:
        return
    means = [value for value, _ in scale.knots]
    assert means == sorted(means)
    t = scale.forward(x, "c")
    assert (np.isnan(t) == np.isnan(x)).all()
    order = np.argsort(x[~np.isnan(x)], kind="stable")
    assert (np.diff(t[~np.isnan(x)][order]) >= 0).all()


FUNCTIONS = {
    "the value": lambda x: x,
    "its logarithm": np.log1p,
    "whether it is zero": lambda x: (x == 0) * 1.0,
    "whether it is high": lambda x: (x > np.quantile(x, 0.9)) * 1.0,
}


@pytest.mark.parametrize("noise", [1 / 3, 1.0, 4.0])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_any_function_of_a_value_stays_hidden_from_any_estimate(name, noise):
    """Ties are spread over their ranks; without that, zeros are recognised."""
    rng, rows, cells = np.random.default_rng(5), 200_000, 400
    x = np.where(rng.random(rows) < 0.8, 0.0, rng.lognormal(10, 1.2, rows))
    wanted = FUNCTIONS[name](x)
    W = np.sqrt(noise) * rng.normal(size=rows)

    def left(draws):
        t = rank_scale(x, "c").forward(x, "c", draws)
        # the mean of all rows with nearly the same copy: no estimate from it is better
        place = np.argsort(np.argsort(t + np.std(t) * W)) * cells // rows
        means = np.bincount(place, wanted) / np.bincount(place)
        return 1 - (np.var(means[place]) / np.var(wanted) - cells / rows)

    promised = noise / (1 + noise)
    tolerance = 5 * np.sqrt(cells) / rows + 0.01  # of the means of cells, and of 255 knots
    assert left(lambda _: rng.random(rows)) > promised - tolerance
    if name == "whether it is zero" and noise <= 1:
        assert left(None) < promised - 5 * tolerance


def test_a_third_of_zeros():
    rng = np.random.default_rng(0)
    x = np.where(rng.random(10_000) < 0.36, 0.0, rng.lognormal(10, 1, 10_000))
    scale = rank_scale(x, "c")
    t = scale.forward(x, "c")
    zero = t[x == 0]
    assert (zero == zero[0]).all()
    # the middle one of the ranks that the zeros span
    spanned = [score for value, score in scale.knots if value == 0.0]
    assert zero[0] == pytest.approx(np.median(spanned), abs=1e-12)
    spread = scale.forward(x, "c", lambda _: rng.random(len(x)))
    assert (spread[x > 0] == t[x > 0]).all()
    assert spanned[0] <= spread[x == 0].min() < spread[x == 0].max() <= spanned[-1] + 0.02
    next_value = min(value for value, _ in scale.knots if value > 0)
    assert (scale.backward(zero) <= module.RISE * next_value).all()
    share = (x[x > 0] - scale.backward(t[x > 0])) / x[x > 0]
    assert np.median(np.abs(share)) < 1e-9  # lines go both ways


@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, 1e300])
@pytest.mark.parametrize("rows", [150, 1000, 1005, 2551])
def test_a_constant_column_has_no_ranks(value, rows):
    with pytest.raises(ColumnError, match="'c': constant, or nearly so; rank cannot order it"):
        rank_scale(np.full(rows, value), "c")


@pytest.mark.parametrize("rows", [0, 1, 149])
def test_a_few_values_have_no_ranks(rows):
    sample = np.concatenate([np.arange(float(rows)), np.full(50, np.nan)])
    with pytest.raises(ColumnError, match="'c': rank needs at least 150 values"):
        rank_scale(sample, "c")
    assert len(rank_scale(np.arange(150.0), "c").knots) == 3


def test_rank_goes_both_ways_and_ends_at_the_outermost_knots():
    x = np.random.default_rng(1).lognormal(0, 2, 5000)
    scale = rank_scale(x, "c")
    values, scores = np.array(scale.knots).T
    within = x[(x > scale.ends[0]) & (x < scale.ends[1])]
    assert len(x) - len(within) == 2 * ROWS_PER_KNOT  # the outermost of 100 shares at each end
    assert np.allclose(scale.backward(scale.forward(within, "c")), within, rtol=1e-9)
    assert scale.forward(floats([-1e9, 1e9]), "c").tolist() == [scores[0], scores[-1]]
    beyond = scale.backward(scores[-1] + np.arange(3.0)) - values[-1]
    slope = (values[-1] - values[-2]) / (scores[-1] - scores[-2])
    assert beyond == pytest.approx(module.RISE * slope * np.arange(3.0), rel=1e-6)
    assert np.isnan(scale.forward(floats([np.nan]), "c"))[0]
    # so that the mean of a column is what it was
    back = scale.backward(scale.forward(x, "c"))
    assert back.mean() == pytest.approx(x.mean(), rel=1e-6)
    grid = np.linspace(-4, 4, 10_001)
    assert (np.diff(scale.backward(grid)) >= 0).all()
    assert (np.diff(scale.forward(np.sort(x), "c")) >= 0).all()


@pytest.mark.parametrize("zeros", [0.0, 0.36])
def test_no_two_scores_become_one_value(zeros):
    """At the grid's resolution, within the knots and beyond."""
    rng = np.random.default_rng(0)
    x = np.where(rng.random(10_000) < zeros, 0.0, rng.lognormal(10, 1, 10_000))
    scale = rank_scale(x, "c")
    for centre in (-40.0, -3.0, -1.0, 0.0, 2.0, 3.0, 40.0):
        near = centre + np.arange(1000) * 2.0**-24
        assert (np.diff(scale.backward(near)) > 0).all()
    # the negative control: lines through the knots alone are level where values repeat
    values, scores = np.array(scale.knots).T
    assert (np.diff(np.interp(3.0 + np.arange(9.0), scores, values)) == 0).all()


def test_on_the_rank_scale_a_column_is_nearly_normal():
    x = np.random.default_rng(1).lognormal(0, 2, 50_000)
    t = rank_scale(x, "c").forward(x, "c")
    assert abs(t.mean()) < 0.02
    assert abs(t.std() - 1) < 0.03


# --- knots that are not exact ------------------------------------------------------------------


def drawn_knots(x, times):
    """The knots of a column with other weights each time, and how many there are."""
    rng = np.random.default_rng(0)
    scales = [rank_scale(x, "c", rng.exponential(size=len(x))) for _ in range(times)]
    return [(np.array([value for value, _ in own.knots]), len(own.knots)) for own in scales]


def resampled_knots(x, knots, times):
    """The naive twin: exact knots of as many rows, drawn from them with replacement."""
    rng = np.random.default_rng(1)
    drawn = np.sort(rng.choice(x, (times, len(x))), axis=1)
    return np.stack([part.mean(axis=1) for part in np.array_split(drawn, knots, axis=1)], axis=1)


@pytest.mark.parametrize(("rows", "knots"), [(300, 3), (6000, 40)])
def test_knots_vary_by_their_own_standard_error(rows, knots):
    """As those of other tables of the same people would, and about the same means."""
    rng, times = np.random.default_rng(3), 300
    x = np.sort(rng.lognormal(0, 1, rows))
    found = np.array(
        [
            module._weighted_means(x, rng.exponential(size=rows), knots, coarse=False)
            for _ in range(times)
        ]
    )
    twin = resampled_knots(x, knots, times)
    ratio = found.std(axis=0) / twin.std(axis=0)
    # a deviation of n draws is off by 1 / sqrt(2 n); that of heavy tails by twice as much
    assert (np.abs(np.log(ratio)) < 6 * 2 / np.sqrt(2 * times)).all()
    assert (np.abs(found.mean(axis=0) - twin.mean(axis=0)) < 0.5 * twin.std(axis=0)).all()


def test_the_mean_of_weighted_knots_has_the_standard_error_of_the_mean():
    x = np.random.default_rng(4).gamma(2, 1, 2000)
    means = np.array([knots.mean() for knots, _ in drawn_knots(x, 300)])
    expected = x.std() / np.sqrt(len(x))
    assert np.std(means) == pytest.approx(expected, rel=6 / np.sqrt(600))
    assert means.mean() == pytest.approx(x.mean(), abs=6 * expected / np.sqrt(300))


def test_weighted_knots_stay_in_order_and_shared_values_as_they_are():
    rng = np.random.default_rng(5)
    x = np.where(
        rng.random(3000) < 0.4, 0.1, np.where(rng.random(3000) < 0.5, 7.0, 9 + rng.random(3000))
    )
    found = [knots for knots, _ in drawn_knots(x, 50)]
    assert all((np.diff(knots) >= 0).all() for knots in found)
    shares = [np.mean(knots == 0.1) for knots in found]
    assert 0.3 < min(shares) < max(shares) < 0.45
    # how many knots have the value is as uncertain as how many rows do
    assert len({int((knots == 0.1).sum()) for knots in found}) > 1


@pytest.mark.parametrize("rows", [150, 300, 1000, 13_000])
def test_a_knot_holds_at_least_50_rows(rows):
    """The rows that move a knot when they move: by the definition, one row after the other."""
    x, weights = np.arange(float(rows)), np.random.default_rng(rows).exponential(size=rows)
    knots = np.array([value for value, _ in rank_scale(x, "c", weights).knots])
    high = np.cumsum(weights) / weights.sum() * len(knots)
    low = np.append(0.0, high[:-1])
    inside = [
        np.clip(np.minimum(high, k + 1) - np.maximum(low, k), 0, 1) for k in range(len(knots))
    ]
    assert min(np.count_nonzero(own > 1e-9) for own in inside) >= (50 if rows > 150 else 45)
    np.testing.assert_allclose(knots, [np.average(x, weights=own) for own in inside], rtol=1e-9)


def test_the_number_of_coarse_knots_hardly_says_how_many_values_there_are():
    x = np.arange(20_000.0)
    weights = np.random.default_rng(6).exponential(size=20_000)

    def knots(n):
        return len(rank_scale(x[:n], "c", weights[:n], coarse=True).knots)

    assert {knots(n) for n in range(11_000, 20_000, 1000)} == {128}
    assert knots(150) == 2


# --- a sample of a table of unknown length ----------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_the_sample_does_not_depend_on_the_chunks(monkeypatch, size):
    monkeypatch.setattr(module, "SAMPLE", 50)
    sample = Thinned(2)
    x = np.arange(1000.0)
    for start in range(0, 1000, size):
        part = x[start : start + size]
        sample.add([part, -part])
    found = sample.column(0)
    assert np.array_equal(sample.column(1), -found)
    assert np.array_equal(found, x[:: int(found[1])])  # evenly spread, from the first row on
    assert 25 <= len(found) <= 64


def test_a_short_table_is_taken_whole():
    sample = Thinned(1)
    sample.add([np.arange(5.0)])
    sample.add([np.arange(5.0, 9.0)])
    assert sample.column(0).tolist() == list(range(9))


# --- the same bits everywhere -----------------------------------------------------------------


def test_bit_identical_on_all_processors():
    assert len(same_lines_of(REPORT)) == 2


# --- what it is for -----------------------------------------------------------------------------


def exposed(t, noise):
    """Rows farther out than the largest that a normal column of this many rows would have."""
    moments = Moments.of(t[:, None])
    bound = NormalDist().inv_cdf(1 - 0.5 / len(t))
    reach = bound * float(moments.deviation[0]) * (1 + noise) ** 0.5
    return int((np.abs(t - moments.mean[0]) > reach).sum())


@pytest.mark.parametrize("noise", [0.1, 1.0])
def test_the_tail_of_wages_is_exposed_on_its_own_scale_and_not_on_the_others(noise):
    wage = papq.read_table(PEOPLE).column("wage").to_numpy().astype(float)
    own = exposed(wage, noise)
    assert own > 20
    assert exposed(LOG.forward(wage, "wage"), noise) <= own // 20
    assert exposed(rank_scale(wage, "wage").forward(wage, "wage"), noise) == 0
