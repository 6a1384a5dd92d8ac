"""Figure 5 and the cost of matrices: what is judged, and that the ways make true copies."""

import numpy as np

from cornerwave.experiments import cost, fig5
from cornerwave.experiments.clock import growth, peak_bytes
from cornerwave.experiments.statement import Verdict

COPIES = (6, 10, 14, 18, 22, 26, 30)


def timing(ours, independent=lambda m: 1e-2 * m):
    laws = {"given": ours, "regenerating": ours, "independent": independent}
    seconds = {
        (share, way): [law(m) for m in COPIES] for share in fig5.SHARES for way, law in laws.items()
    }
    return fig5.Timing(COPIES, seconds)


def test_linear_times_hold_and_cubic_ones_do_not():
    fast, linear, near = fig5.state_time(timing(lambda m: 1e-3 * m))
    assert fast.verdict is linear.verdict is Verdict.HOLDS
    assert near.verdict is Verdict.REMARK
    slow = fig5.state_time(timing(lambda m: 1e-4 * m**3))
    assert {statement.verdict for statement in slow} == {Verdict.FAILS}


def test_complexity_is_judged_by_its_exponent():
    sizes = (1, 2, 4, 8)
    flat = {name: [100, 100, 101, 100] for name in fig5.ALGORITHMS}
    good = fig5.Scaling(sizes, [1, 2, 4, 8], sizes, [1, 4, 16, 64], sizes, flat)
    assert {s.verdict for s in fig5.state_scaling(good)} == {Verdict.HOLDS}
    grows = {**flat, "on demand": [100, 200, 400, 800]}
    bad = fig5.Scaling(sizes, [1, 4, 16, 64], sizes, [1, 8, 64, 512], sizes, grows)
    assert {s.verdict for s in fig5.state_scaling(bad)} == {Verdict.FAILS}


def test_regenerated_copies_are_one_path():
    x, noise = np.random.default_rng(1).normal(size=40_000), np.array([0.8, 0.3, 0.5])
    some, every = (fig5.regenerated(x, noise, wanted) for wanted in (range(1, 3), range(3)))
    np.testing.assert_array_equal(some, every[1:])
    expected = np.minimum.outer(noise, noise)
    np.testing.assert_allclose(np.cov(every - x) / x.var(), expected, atol=0.03)


def test_the_papers_matrices_make_the_same_law():
    rng = np.random.default_rng(2)
    x, noise = rng.normal(size=40_000), np.array([0.8, 0.3, 0.5, 1.0])
    existing = fig5.regenerated(x, noise[:2], range(2)) - x
    new = cost.by_matrices(x, existing, noise, rng) - x
    found = np.cov(np.vstack([existing, new])) / x.var()
    np.testing.assert_allclose(found, np.minimum.outer(noise, noise), atol=0.03)


def test_clock_weighs_and_fits():
    assert peak_bytes(lambda: np.zeros(100_000)) >= 800_000
    assert round(growth([1, 10, 100], [2, 20, 200]), 6) == 1.0
