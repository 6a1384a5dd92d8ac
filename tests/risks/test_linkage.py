"""How often rows are found: what registration predicts, beside an attack with code of its own."""

import numpy as np
import pyarrow as pa
import pytest

from cornerwave.attack import KnownCells, RowsAtRisk, measure_linkage
from cornerwave.levels import LATTICE, Level
from cornerwave.risks import MEASURED, LinkageCurve
from cornerwave.vault import Vault
from tests.risks.linker import found, normal_rows

# A share found in n rows by chance has the standard error sqrt(p (1 - p) / n); z for one failure
# in 10^4 over both sides of every comparison here.
Z = 4.0


def at_risk(X, *, count=None, cells=(), covariance=None, shown=None):
    """Rows of a table as they are at risk; S is K."""
    K = np.cov(X.T).reshape(X.shape[1], X.shape[1]) if covariance is None else covariance
    none = np.zeros(len(X), dtype=np.int64)
    return RowsAtRisk(
        names=tuple(f"c{i}" for i in range(X.shape[1])),
        known=X.T,
        exact=X.T,
        mean=X.mean(axis=0),
        covariance=K,
        shape=K,
        cells=tuple(cells),
        shown=none if shown is None else shown,
        count=count or len(X),
    )


def measure_linkage_of(rows, noise):
    return measure_linkage([rows], noise)


def within(predicted, hits):
    """Whether a share of hits is what was predicted, but for chance in both."""
    share = hits.mean()
    error = np.sqrt(max(predicted.linked * (1 - predicted.linked), 1e-4) / hits.size)
    margin = Z * np.hypot(error, (predicted.high - predicted.low) / (2 * 1.96))
    return abs(share - predicted.linked) <= margin + 0.05 * predicted.linked


# --- figures that are known -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "weighed", "alone"), [(8, 0.027, 0.005), (16, 0.205, 0.06), (32, 0.765, 0.41)]
)
def test_independent_columns_at_privacy_half(columns, weighed, alone):
    # of 20,000 persons, extrapolated from 4,000; found by direct attacks on all of them
    X = np.random.default_rng(columns).normal(size=(4000, columns))
    [figures] = measure_linkage_of(at_risk(X, count=20_000), [1.0])
    # known rows are 128, each with 128 copies: a relative error of 10 % covers three deviations
    assert figures.linked == pytest.approx(weighed, rel=0.1)
    assert figures.by_likelihood == pytest.approx(alone, rel=0.25)


@pytest.mark.parametrize("correlation", [0.0, 0.6])
def test_a_sample_predicts_what_all_rows_show(correlation):
    X = normal_rows(np.random.default_rng(1), 8000, 10, correlation)
    every = measure_linkage_of(at_risk(X), [0.5, 1.0, 4.0])
    some = measure_linkage_of(at_risk(X[:1500], count=8000), [0.5, 1.0, 4.0])
    for one, other in zip(every, some, strict=True):
        error = np.hypot(one.high - one.low, other.high - other.low) / 2 / 1.96
        assert abs(other.linked - one.linked) < Z * error + 0.1 * one.linked


# --- the attack, with code of its own -------------------------------------------------------------


def mixed(rng, rows=900):
    """Correlated numbers with two categories, one of which tells much about them."""
    X = normal_rows(rng, rows, 5, 0.5)
    grade = np.searchsorted(np.quantile(X[:, 0], [0.3, 0.6, 0.9]), X[:, 0] + rng.normal(size=rows))
    return X, [grade, rng.choice(6, rows, p=[0.4, 0.3, 0.15, 0.1, 0.03, 0.02])]


@pytest.mark.parametrize("noise", [0.25, 1.0, 4.0])
def test_predicted_is_what_an_attack_finds_in_simulated_copies(noise):
    rng = np.random.default_rng(3)
    X, codes = mixed(rng)
    shares = [np.bincount(c) / len(c) for c in codes]
    cells = [
        KnownCells(f"g{i}", c, p, p) for i, (c, p) in enumerate(zip(codes, shares, strict=True))
    ]
    [predicted] = measure_linkage_of(at_risk(X, cells=cells), [noise])
    K, q, hits = np.cov(X.T), 1 / np.sqrt(1 + noise), []
    for _ in range(4):
        Y = X + np.sqrt(noise) * rng.multivariate_normal(np.zeros(5), K, len(X))
        shown = [
            np.where(rng.random(len(X)) < q, c, rng.choice(len(p), len(X), p=p))
            for c, p in zip(codes, shares, strict=True)
        ]
        hits.append(found(X, Y, K, noise, list(zip(codes, shown, strict=True))))
    assert within(predicted, np.array(hits))


def test_as_if_columns_were_independent_is_wrong_where_they_are_not():
    X = normal_rows(np.random.default_rng(4), 2000, 12, 0.8)
    K = np.cov(X.T)
    [right] = measure_linkage_of(at_risk(X), [1.0])
    # noise of each column's own, as large: what averages it recovers the common part
    apart = np.diag(np.diag(K))
    [wrong] = measure_linkage_of(at_risk(X, covariance=apart), [1.0])
    rng = np.random.default_rng(5)
    hits = [
        found(X, X + rng.multivariate_normal(np.zeros(12), K, len(X)), K, 1.0) for _ in range(2)
    ]
    assert within(right, np.array(hits))
    assert not within(wrong, np.array(hits))


def test_copies_with_noise_of_their_own_link_more_together_and_ours_do_not():
    rng = np.random.default_rng(6)
    X = normal_rows(rng, 1500, 10)
    K, draw = np.cov(X.T), lambda: rng.multivariate_normal(np.zeros(10), np.cov(X.T), len(X))
    one, other = (X + 2 * draw() for _ in range(2))
    alone = found(X, one, K, 4.0).mean()
    pooled = found(X, (one + other) / 2, K, 2.0).mean()
    margin = Z * np.sqrt(2 * pooled * (1 - pooled) / len(X))
    assert pooled > alone + margin
    # one path: the noisier copy is the better one, and noise that has nothing to do with the row
    better = X + 2 * draw()
    noisier = better + draw()
    best = found(X, better, K, 4.0).mean()
    mean = found(X, (better + noisier) / 2, K, 4.25).mean()
    assert mean <= best + Z * np.sqrt(2 * best * (1 - best) / len(X))


@pytest.mark.parametrize("privacy", [0.3, 0.6])
def test_predicted_at_registration_is_what_is_found_in_a_released_copy(tmp_path, privacy):
    rng = np.random.default_rng(7)
    X, codes = mixed(rng)
    columns = {f"c{i}": column for i, column in enumerate(X.T)}
    columns |= {f"g{i}": [f"v{k}" for k in c] for i, c in enumerate(codes)}
    dataset = Vault.create(tmp_path / "v").register("t", pa.table(columns))
    level = Level.of(privacy=privacy)
    copy = dataset.release(to="a", noise=level.noise, raw=True).to_arrow()
    Y = np.array([np.asarray(copy.column(f"c{i}")) for i in range(5)]).T
    shown = [
        np.array([int(value[1:]) for value in copy.column(f"g{i}").to_pylist()]) for i in range(2)
    ]
    hits = found(X, Y, np.cov(X.T), level.noise, list(zip(codes, shown, strict=True)))
    predicted = dataset.risks_at(level).linkage
    assert within(predicted, hits)
    assert predicted.by_likelihood <= predicted.linked <= predicted.among_ten
    assert predicted.low <= predicted.linked <= predicted.high <= 1
    assert predicted.linked <= predicted.worst


# --- what is shown without noise ------------------------------------------------------------------


def test_kept_columns_are_found_by_their_values():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(1000, 2))
    # half of the rows alone in what they show, the others all alike
    alone = np.where(np.arange(1000) % 2, np.arange(1000), 0)
    [figures] = measure_linkage_of(at_risk(X, shown=alone), [9.0])
    assert figures.linked == pytest.approx(0.5, abs=0.02)
    assert figures.standing_out == pytest.approx(0.5, abs=0.02)
    assert figures.worst == 1.0


def test_rows_that_are_the_same_are_found_as_often_as_chance_has_it():
    X, c = np.empty((600, 0)), np.arange(600) % 60
    cells = [KnownCells("g", c, np.full(60, 1 / 60), np.full(60, 1 / 60))]
    [figures] = measure_linkage_of(at_risk(X, cells=cells, covariance=np.empty((0, 0))), [1e-3])
    # 10 rows each: hardly a cell is refreshed; of 60 groups, each with one order, the better of two
    # attacks: the least of 10 even draws has a deviation of 0.08
    assert figures.linked == pytest.approx(1 / 10, abs=4 * 0.08 / np.sqrt(60))


def test_few_rows_are_not_measured():
    X = np.random.default_rng(0).normal(size=(10, 2))
    assert measure_linkage_of(at_risk(X), [1.0]) == []
    assert LinkageCurve.of([]).at(Level(1.0)) is None


# --- every level ----------------------------------------------------------------------------------


def test_a_level_is_chosen_by_what_it_links():
    X = np.random.default_rng(9).normal(size=(1200, 12))
    curve = LinkageCurve.of(measure_linkage_of(at_risk(X), [LATTICE[k - 1] for k in MEASURED]))
    shares = [curve.at(Level.of(privacy=k / 20)).linked for k in range(1, 20)]
    assert shares == sorted(shares, reverse=True)
    assert LinkageCurve.from_json(curve.to_json()) == curve
    for most in (0.2, 0.05, 0.01):
        level = curve.level_of(most)
        [figures] = measure_linkage_of(at_risk(X), [level.noise])
        assert figures.linked <= most < curve.at(Level(LATTICE[level.thousandths - 6])).high
    assert curve.level_of(1e-9) is None
