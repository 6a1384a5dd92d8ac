"""Figure 5 and the cost of matrices: the verdicts, and that every way makes correct copies."""

import numpy as np
from cornerwave_reproduction import Verdict, _beyond_cost, _complexity, _fig5
from cornerwave_reproduction._complexity import growth, peak_bytes

COPIES = (6, 10, 14, 18, 22, 26, 30)


def timing(ours, independent=lambda m: 1e-2 * m):
    laws = {"given": ours, "regenerating": ours, "independent": independent}
    seconds = {
        f"{way}_{share}": [law(m) for m in COPIES]
        for share in _fig5.SHARES
        for way, law in laws.items()
    }
    return _complexity.Timing(COPIES, seconds)


def test_linear_times_hold_and_cubic_ones_do_not():
    fast, linear, near = _fig5.state(timing(lambda m: 1e-3 * m))
    assert fast.verdict is linear.verdict is Verdict.HOLDS
    assert near.verdict is Verdict.REMARK
    slow = _fig5.state(timing(lambda m: 1e-4 * m**3))
    assert {statement.verdict for statement in slow} == {Verdict.FAILS}


def test_complexity_is_judged_by_its_exponent():
    sizes = (1, 2, 4, 8)
    flat = {name: [100, 100, 101, 100] for name in _complexity.ALGORITHMS}
    good = _complexity.Scaling(sizes, [1, 2, 4, 8], sizes, [1, 4, 16, 64], sizes, flat)
    assert {s.verdict for s in _complexity.state(good)} == {Verdict.HOLDS}
    grows = {**flat, "on demand": [100, 200, 400, 800]}
    bad = _complexity.Scaling(sizes, [1, 4, 16, 64], sizes, [1, 8, 64, 512], sizes, grows)
    assert {s.verdict for s in _complexity.state(bad)} == {Verdict.FAILS}


def test_matrices_must_be_slower_and_ours_linear():
    sizes = (10, 20, 40)
    linear, square = [float(m) for m in sizes], [float(m * m) for m in sizes]
    good = _complexity.Timing(sizes, {"ours": linear, "matrices": square})
    bad = _complexity.Timing(sizes, {"ours": square, "matrices": linear})
    assert _beyond_cost.state(good, good)[0].verdict is Verdict.REMARK
    assert _beyond_cost.state(good, bad)[0].verdict is Verdict.FAILS


def test_regenerated_copies_are_one_path():
    x, noise = np.random.default_rng(1).normal(size=40_000), np.array([0.8, 0.3, 0.5])
    some, every = (_fig5.regenerated(x, noise, wanted) for wanted in (range(1, 3), range(3)))
    np.testing.assert_array_equal(some, every[1:])
    expected = np.minimum.outer(noise, noise)
    np.testing.assert_allclose(np.cov(every - x) / x.var(), expected, atol=0.03)


def test_the_papers_matrices_give_the_same_distribution():
    rng = np.random.default_rng(2)
    x, noise = rng.normal(size=40_000), np.array([0.8, 0.3, 0.5, 1.0])
    existing = _fig5.regenerated(x, noise[:2], range(2)) - x
    new = _beyond_cost.by_matrices(x, existing, noise, rng) - x
    found = np.cov(np.vstack([existing, new])) / x.var()
    np.testing.assert_allclose(found, np.minimum.outer(noise, noise), atol=0.03)


def test_memory_and_exponents_are_measured():
    assert peak_bytes(lambda: np.zeros(100_000)) >= 800_000
    assert round(growth([1, 10, 100], [2, 20, 200]), 6) == 1.0
