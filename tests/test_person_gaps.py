"""Hidden gaps of persons: what stands in one fits the person's rows, and nobody can tell it."""

from functools import reduce
from itertools import pairwise
from operator import add
from secrets import token_hex

import numpy as np
import pyarrow as pa
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from cornerwave.errors import ColumnError
from cornerwave.spine import person_gaps
from cornerwave.spine.missing import Draws, fill_missing
from cornerwave.spine.person_gaps import FoundGaps
from cornerwave.vault import Vault
from tests.panels import persons_of
from tests.scores import z_bound

NUMBERS = ["height", "weight", "pressure"]
SECRET = bytes(range(32))
BETWEEN = np.array([[100.0, 50.0, 20.0], [50.0, 125.0, 50.0], [20.0, 50.0, 56.0]])
WITHIN = np.array([[0.0, 0.0, 0.0], [0.0, 16.0, 6.0], [0.0, 6.0, 28.0]])
MEAN = np.array([170.0, 80.0, 120.0])
HIDDEN = ["height", "weight"]


def normal_panel(persons, rows, seed=0):
    """x = mean + b + r with the covariances above: height is constant in each person."""
    rng = np.random.default_rng(seed)
    of = np.repeat(np.arange(persons), rows)
    b = rng.multivariate_normal(np.zeros(3), BETWEEN, persons)[of]
    x = (MEAN + b + rng.multivariate_normal(np.zeros(3), WITHIN, len(of))).T
    x[0] = (MEAN[0] + b[:, 0]).T
    return x, of


def gaps_in(of, seed=1, share=0.2):
    """Gaps here and there, and in all rows of every tenth person; of height and weight."""
    rng = np.random.default_rng(seed)
    gaps = rng.random((3, len(of))) < share
    gaps |= (rng.random((3, of.max() + 1)) < 0.1)[:, of]
    gaps[2] = False
    return gaps


def as_table(x, of, gaps=None):
    gaps = np.zeros(x.shape, bool) if gaps is None else gaps
    columns = {n: pa.array(v, mask=g) for n, v, g in zip(NUMBERS, x, gaps, strict=True)}
    return pa.table({"patient": [f"P{u:05d}" for u in of], **columns})


def registered(folder, tables, **choices):
    vault = Vault.create(folder / token_hex(8))
    choices = {"unit": "patient", "hide_missing": HIDDEN, "keep_order": True, **choices}
    dataset = vault.register("people", tables[0], few_rows=True, **choices)
    for table in tables[1:]:
        dataset.append(table)
    return vault.dataset("people", source=tables)


def arrays(copy):
    return np.stack([copy[name].to_numpy() for name in NUMBERS])


def draws_of(x, of, dataset):
    """The true distribution as the draws of a dataset with this schema."""
    frozen = dataset.frozen
    draws = Draws(MEAN, BETWEEN + WITHIN, {}, BETWEEN, WITHIN, (0,))
    return frozen.schema, draws


def ids_of(numbers):
    words = np.asarray(numbers, dtype=np.uint64)
    # far apart, and not in order
    return np.column_stack([words * np.uint64(0x9E3779B97F4A7C15), words])


def found(x, of, rows, schema, draws, editions=None):
    editions = np.zeros(len(rows), dtype=np.int64) if editions is None else editions
    return FoundGaps.of(ids_of(rows + 7), ids_of(of[rows]), editions, x[:, rows], schema, draws)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A dataset for its schema."""
    x, of = normal_panel(60, 5)
    return registered(tmp_path_factory.mktemp("gaps"), [as_table(x, of, gaps_in(of))])


def filled(x, of, gaps, dataset):
    schema, draws = draws_of(x, of, dataset)
    given, every = np.where(gaps, np.nan, x), np.arange(len(of))
    made = found(given, of, every, schema, draws).filled(schema, draws, SECRET)
    return made.put(given, ids_of(every + 7), schema)


# --- What stands in a gap ------------------------------------------------------------------------


def test_a_draw_has_the_mean_and_the_variance_of_the_normal_distribution(small, monkeypatch):
    """The naive twin: all cells of a person as one vector, of which some are known."""
    x, of = normal_panel(40, 4, seed=3)
    gaps = np.zeros(x.shape, bool)
    gaps[0] = of % 4 == 0  # every fourth person has no height, the others miss one weight
    gaps[1, ::4] = ~gaps[0, ::4]
    given = np.where(gaps, np.nan, x)
    schema, draws = draws_of(x, of, small)
    sizes = dict.fromkeys((0.0, 1.0))
    for size in sizes:
        monkeypatch.setattr(
            person_gaps, "_white", lambda ids, n, _, s=size: np.full((n, len(ids)), s)
        )
        sizes[size] = found(given, of, np.arange(160), schema, draws).filled(schema, draws, SECRET)
    middle, away = (s.put(given, ids_of(np.arange(160) + 7), schema) for s in sizes.values())
    for u in range(40):
        rows = np.flatnonzero(of == u)
        V = np.kron(np.ones((4, 4)), BETWEEN) + np.kron(np.eye(4), WITHIN)
        own, gone = given[:, rows].T.ravel() - np.tile(MEAN, 4), gaps[:, rows].T.ravel()
        A = np.linalg.solve(
            V[np.ix_(~gone, ~gone)] + 1e-9 * np.eye((~gone).sum()), V[np.ix_(~gone, gone)]
        ).T
        left = V[np.ix_(gone, gone)] - A @ V[np.ix_(~gone, gone)]
        got = middle[:, rows].T.ravel()[gone] - np.tile(MEAN, 4)[gone]
        heights = np.tile([True, False, False], 4)[gone]
        if u % 4:
            np.testing.assert_allclose(got, A @ own[~gone], atol=1e-4)
            spread = (away - middle)[:, rows].T.ravel()[gone]
            # z_u = z_i = 1: C (a + sqrt(1 - a^2)), between C and sqrt(2) C
            assert 0.999 < spread[0] / np.sqrt(left[0, 0]) < 1.42
        else:  # of height alone: weight then follows the height that was drawn
            np.testing.assert_allclose(got[heights], (A @ own[~gone])[heights], atol=1e-4)
            spread = (away - middle)[:, rows].T.ravel()[gone][heights]
            np.testing.assert_allclose(
                spread, np.sqrt(left[heights][:, heights].diagonal()), atol=1e-3
            )


def covariances(x, of):
    """B and R, from all pairs of neighbouring rows of a person."""
    pairs = np.flatnonzero(of[1:] == of[:-1])
    one, two = x[:, pairs], x[:, pairs + 1]
    within = np.cov(one - two) / 2
    return np.cov(x) - within, within


def test_rows_with_draws_vary_between_and_within_persons_as_complete_ones(small):
    """ALPHA as in z_bound, for 12 covariances: their errors are those of 3,000 persons."""
    x, of = normal_panel(3000, 6, seed=5)
    gaps = gaps_in(of, share=0.3)
    found_, wanted = covariances(filled(x, of, gaps, small), of), (BETWEEN, WITHIN)
    for got, true in zip(found_, wanted, strict=True):
        total = np.sqrt(np.outer(np.diag(BETWEEN + WITHIN), np.diag(BETWEEN + WITHIN)))
        assert (np.abs(got - true) < z_bound(12) * total * np.sqrt(2 / 3000)).all()
    # negative control: draws that follow their row alone, as of a table without a unit
    schema, draws = draws_of(x, of, small)
    by_row = fill_missing(
        np.where(gaps, np.nan, x), ids_of(np.arange(len(of))), schema, draws, SECRET
    )
    _, within = covariances(by_row, of)
    assert within[0, 0] > 10
    assert within[1, 1] > 1.5 * WITHIN[1, 1]


def test_draws_are_the_same_whatever_parts_a_table_comes_in(small):
    x, of = normal_panel(50, 6, seed=2)
    x = np.where(gaps_in(of), np.nan, x)
    schema, draws = draws_of(x, of, small)
    order = np.random.default_rng(0).permutation(len(of))
    parts = [found(x, of, order[a:b], schema, draws) for a, b in pairwise([0, 7, 90, 91, 200, 300])]
    one = found(x, of, np.arange(len(of)), schema, draws).filled(schema, draws, SECRET)
    for some in (parts, parts[::-1]):
        other = reduce(add, some).filled(schema, draws, SECRET)
        assert one.x.tobytes() == other.x.tobytes()
        assert one.words.tobytes() == other.words.tobytes()


def test_a_draw_does_not_depend_on_rows_that_come_later(small):
    x, of = normal_panel(50, 6, seed=2)
    x = np.where(gaps_in(of), np.nan, x)
    schema, draws = draws_of(x, of, small)
    edition = (np.arange(len(of)) % 6 >= 3).astype(np.int64)
    first = np.flatnonzero(edition == 0)
    before = found(x, of, first, schema, draws).filled(schema, draws, SECRET)
    every = np.arange(len(of))
    after = found(x, of, every, schema, draws, edition).filled(schema, draws, SECRET)
    ids = ids_of(first + 7)
    kept = np.isnan(x[1, first]) | ~np.isnan(x[0, first])  # a height may come later: refused
    one, two = (each.put(x[:, first], ids, schema) for each in (before, after))
    np.testing.assert_array_equal(one[1:], two[1:])
    # negative control: had all come at once, draws would follow the other rows
    at_once = found(x, of, every, schema, draws).filled(schema, draws, SECRET)
    assert (at_once.put(x[:, first], ids, schema)[1] != one[1]).any()
    assert kept.any()


# --- Copies --------------------------------------------------------------------------------------


def test_a_constant_column_has_one_value_in_all_rows_of_a_person(tmp_path):
    x, of = normal_panel(300, 5)
    gaps = gaps_in(of)
    dataset = registered(tmp_path, [as_table(x, of, gaps)])
    noisy = arrays(dataset.release(to="a", noise=1.0, raw=True).to_arrow())
    assert not np.isnan(noisy).any()
    assert max(np.ptp(noisy[0, of == u]) for u in range(300)) == 0
    assert dataset.frozen.persons.named(NUMBERS) == ["height"]
    assert dataset.frozen.hidden.level_of(500).noise < 1.2
    assert dataset.frozen.missing == ()
    # who has no height gets one that fits: of 30 persons, what noise adds to 100 is another 100
    nobody = np.array([gaps[0, of == u].all() for u in range(300)])
    drawn = noisy[0, ::5][nobody] - MEAN[0]
    assert np.abs(drawn).max() < 5 * np.sqrt(200)


def test_a_gap_in_a_total_of_two_columns_is_filled_with_their_sum(tmp_path):
    """Little noise hides what lies across the plane of a total: a draw lies as near as the rest."""
    rng = np.random.default_rng(1)
    of = np.repeat(np.arange(300), 5)
    a, b = rng.normal(0, 3, (2, 300))[:, of] + rng.normal(size=(2, 1500))
    gaps = rng.random(1500) < 0.2
    names = dict(zip(NUMBERS, (a, b, a + b), strict=True))
    table = pa.table({"patient": of.astype(str), **names})
    table = table.set_column(3, "pressure", pa.array(a + b, mask=gaps))
    dataset = registered(tmp_path, [table], hide_missing=["pressure"])
    noisy = arrays(dataset.release(to="a", noise=1.0, raw=True).to_arrow())
    off = np.abs(noisy[2] - noisy[0] - noisy[1])
    # the deviation of 300 has an error of 4 %; drawn by itself the gap would be 10 times as far
    assert off[gaps].std() < (1 + z_bound(1) / np.sqrt(2 * gaps.sum())) * off[~gaps].std()
    assert off[gaps].std() < 0.2 * np.std(a + b)


def test_appended_rows_leave_the_draws_that_are_there(tmp_path):
    x, of = normal_panel(400, 6, seed=4)
    gaps = gaps_in(of, share=0.1)
    gaps[0] = (of % 9 == 0) | (gaps[0] & (np.arange(len(of)) % 6 != 0))
    table, late = as_table(x, of, gaps), np.arange(len(of)) % 6 >= 4
    tables = [table.filter(pa.array(~late)), table.filter(pa.array(late))]
    whole = registered(tmp_path, tables)
    first, both = (
        whole.release(to=f"e{e}", noise=1.0, raw=True, edition=e).to_arrow() for e in (1, 2)
    )
    assert both.slice(0, first.num_rows).equals(first)
    noisy, who = arrays(both), persons_of(pa.concat_tables(tables))
    assert max(np.ptp(noisy[0, who == u]) for u in range(400)) == 0


def test_a_value_that_comes_where_a_draw_stands_is_refused(tmp_path):
    x, of = normal_panel(60, 6, seed=4)
    gaps = np.zeros(x.shape, bool)
    late = np.arange(len(of)) % 6 >= 4
    gaps[0] = (of < 3) & ~late
    table = as_table(x, of, gaps)
    tables = [table.filter(pa.array(~late)), table.filter(pa.array(late))]
    with pytest.raises(ColumnError, match="'height': new rows have a value for 3 persons who had"):
        registered(tmp_path, tables)
    # negative control: with gaps that copies show, there is nothing to reveal
    assert len(registered(tmp_path, tables, hide_missing=["weight"]).editions) == 2


def test_what_does_not_go_with_hidden_gaps_of_persons_is_refused(tmp_path):
    x, of = normal_panel(60, 6)
    table = as_table(x, of, gaps_in(of)).append_column("row", pa.array(range(len(of))))
    dataset = registered(tmp_path, [table], key="row")
    with pytest.raises(ColumnError, match="hides which values of 'height', 'weight' are missing"):
        dataset.update(table.set_column(3, "pressure", pa.array(x[2] + 1.0)))
    town = table.append_column("town", pa.array(of // 3))
    with pytest.raises(ColumnError, match="'weight': hide_missing does not go with two units"):
        registered(tmp_path, [town], unit=["town", "patient"], hide_missing=["weight"])
    parents = pa.table({"patient": [f"P{u:05d}" for u in range(60)], "risk": np.arange(60.0)})
    with pytest.raises(ColumnError, match="'weight' in table 'visits': hide_missing does not go"):
        Vault.create(tmp_path / "linked").register_linked(
            "x", {"parents": parents, "visits": table}, unit="patient", hide_missing=["weight"]
        )


# --- Attacks, from the files of copies ------------------------------------------------------------


def person_means(X, of):
    return (np.array([np.bincount(of, column) for column in X]) / np.bincount(of))[:, of]


def left(wanted, features, half, known):
    """What a linear estimate leaves of some rows, fitted on the others' persons."""
    A, out = np.vstack([np.ones(features.shape[1]), features]).T, 0.0
    for k in (0, 1):
        fit, tried = known & (half != k), known & (half == k)
        weights = np.linalg.lstsq(A[fit], wanted[fit], rcond=None)[0]
        out += ((wanted[tried] - A[tried] @ weights) ** 2).sum()
    return out / known.sum() / wanted[known].var()


def recognised(noisy, of, gaps):
    """AUC of boosting that looks for gaps: a row, its person's means, how far it is from both."""
    means = person_means(noisy, of)
    near = np.where(
        np.append(of[1:] == of[:-1], False), np.arange(len(of)) + 1, np.arange(len(of)) - 1
    )
    seen = np.vstack(
        [noisy, means, np.abs(noisy - means), noisy[:, near], np.abs(noisy - noisy[:, near])]
    )
    half = np.random.default_rng(0).integers(0, 2, of.max() + 1)[of]
    scores = np.empty(len(of))
    for k in (0, 1):
        model = HistGradientBoostingClassifier(max_iter=100, random_state=0)
        model.fit(seen.T[half != k], gaps[half != k])
        scores[half == k] = model.predict_proba(seen.T[half == k])[:, 1]
    return roc_auc_score(gaps, scores)


@pytest.mark.slow
def test_values_means_and_changes_stay_hidden_and_gaps_too(tmp_path):
    """All rows that have the value, at declared 0.5; shares of 4,000 persons err by 0.008."""
    x, of = normal_panel(4000, 8)
    gaps = gaps_in(of)
    dataset = registered(tmp_path, [as_table(x, of, gaps)])
    assert dataset.frozen.hidden.level_of(500).noise < 1.1
    noisy = arrays(dataset.release(to="a", privacy=0.5, raw=True).to_arrow())
    half = np.random.default_rng(1).integers(0, 2, 4000)[of]
    follows = np.flatnonzero(of[1:] == of[:-1])
    seen = np.vstack([noisy, person_means(noisy, of)])
    pairs = np.vstack([seen[:, follows], noisy[:, follows + 1]])
    for i, gone in enumerate(gaps):
        assert left(x[i], seen, half, ~gone) > 0.475
        many = np.maximum(np.bincount(of, ~gone), 1)
        mean = (np.bincount(of, np.where(gone, 0.0, x[i])) / many)[of]
        assert left(mean, seen, half, (np.bincount(of, ~gone) > 0)[of]) > 0.475
        if i:
            change = x[i, follows + 1] - x[i, follows]
            known = ~gone[follows] & ~gone[follows + 1]
            assert left(change, pairs, half[follows], known) > 0.475
    for i in (0, 1):
        assert recognised(noisy, of, gaps[i]) < 0.53


@pytest.mark.slow
def test_draws_that_follow_their_row_alone_are_recognised(tmp_path, monkeypatch):
    """Negative control of the test above, by the same estimator."""

    def by_row(self, schema, draws, secret):
        rows = reduce(add, self.rows)
        order = np.argsort(rows.ids[:, 0] ^ rows.ids[:, 1])
        x = fill_missing(rows.x, rows.ids, schema, draws, secret)[:, order]
        return person_gaps.FilledGaps((rows.ids[:, 0] ^ rows.ids[:, 1])[order], x)

    x, of = normal_panel(4000, 8)
    gaps = gaps_in(of)
    dataset = registered(tmp_path, [as_table(x, of, gaps)])
    monkeypatch.setattr(FoundGaps, "filled", by_row)
    noisy = arrays(dataset.release(to="a", privacy=0.5, raw=True).to_arrow())
    assert recognised(noisy, of, gaps[0]) > 0.7
    assert recognised(noisy, of, gaps[1]) > 0.55
