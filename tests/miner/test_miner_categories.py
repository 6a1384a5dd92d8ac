import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from miner_world import agrees, coverage, covers, noisy, refresh

from cornerwave.errors import ColumnError
from cornerwave.miner import Copy, CopyColumn, Estimates
from cornerwave.miner._shares import Refresh, frequencies, two_way

FIRST = np.array([0.5, 0.3, 0.2])
SECOND_GIVEN_FIRST = np.array([[0.7, 0.3], [0.4, 0.6], [0.1, 0.9]])
JOINT = FIRST[:, None] * SECOND_GIVEN_FIRST
GROUP_MEANS = np.array([1.0, 2.0, 5.0])
BASES = ["marginal", "uniform"]

laws = st.lists(st.floats(0.01, 1.0), min_size=2, max_size=6).map(lambda w: np.array(w) / sum(w))
retentions = st.floats(0.05, 1.0)


def _table(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    a = rng.choice(3, rows, p=FIRST)
    b = (rng.random(rows) > SECOND_GIVEN_FIRST[a, 0]).astype(int)
    x = GROUP_MEANS[a] + rng.normal(size=rows) * (1 + a)
    return a, b, x


def _copy(table: tuple[np.ndarray, ...], *, noise: float, base: str, seed: int) -> Copy:
    a, b, x = table
    rng = np.random.default_rng(10_000 + seed)
    q = (1 + noise) ** -0.5
    columns = {
        "a": refresh(a, retention=q, base=base, categories=3, rng=rng).astype(str),
        "b": refresh(b, retention=q, base=base, categories=2, rng=rng).astype(str),
        "x": noisy(x, noise=noise, seed=seed),
    }
    said = {
        "a": {"role": "category", "base": base, "categories": 3},
        "b": {"role": "category", "base": base, "categories": 2},
        "x": {"role": "perturbed"},
    }
    return Copy.open(pa.table(columns), metadata={"noise": noise, "columns": said})


def _shares(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.bincount(a * 2 + b, minlength=6).reshape(3, 2) / len(a)


def _group_means(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.array([x[a == i].mean() for i in range(3)])


def _raw(estimates: Estimates, value: np.ndarray) -> Estimates:
    return Estimates(estimates.labels, value, estimates.standard_error)


@given(law=laws, base=laws, q=retentions)
def test_undo_inverts_the_refresh(law: np.ndarray, base: np.ndarray, q: float) -> None:
    law, base = np.resize(law, len(base)) / np.resize(law, len(base)).sum(), base
    undone = Refresh(q, base, is_estimated=False).undo(q * law + (1 - q) * base)
    assert np.allclose(undone, law)


@given(law=laws, base=laws, function=laws, q=retentions)
def test_expected_is_the_transpose_of_the_refresh(law, base, function, q) -> None:
    law, function = np.resize(law, len(base)), np.resize(function, len(base))
    law = law / law.sum()
    given_original = Refresh(q, base, is_estimated=False).expected(function)
    assert given_original @ law == pytest.approx(function @ (q * law + (1 - q) * base))


@given(
    weights=st.lists(st.floats(0.01, 1.0), min_size=6, max_size=6),
    q=st.tuples(retentions, retentions),
    base=st.sampled_from(BASES),
)
def test_two_way_inverts_the_law_of_the_copy(weights, q, base) -> None:
    P = np.array(weights).reshape(3, 2) / sum(weights)
    (q1, q2), (row, column) = q, (P.sum(axis=1), P.sum(axis=0))
    pi, rho = (row, column) if base == "marginal" else (np.full(3, 1 / 3), np.full(2, 1 / 2))
    in_copy = (
        q1 * q2 * P
        + q1 * (1 - q2) * np.outer(row, rho)
        + (1 - q1) * q2 * np.outer(pi, column)
        + (1 - q1) * (1 - q2) * np.outer(pi, rho)
    )
    columns = (
        CopyColumn("a", False, retention=q1, base=base, categories=3),
        CopyColumn("b", False, retention=q2, base=base, categories=2),
    )
    found = two_way(in_copy * 1e6, ((0, 1, 2), (0, 1)), columns, "table")
    assert np.allclose(found.value, P)


@given(law=laws, q=retentions, base=st.sampled_from(BASES))
def test_standard_errors_are_the_multinomial_algebra(law, q, base) -> None:
    """Given the table: (T^-1 diag(P') T^-1' - diag(P)) / n, and p P(1-P) / n if marginal."""
    m, rows = len(law), 1000.0
    pi = law if base == "marginal" else np.full(m, 1 / m)
    T = q * np.eye(m) + (1 - q) * np.outer(pi, np.ones(m))
    if base == "marginal":
        exact = (1 - q**2) * law * (1 - law)
    else:
        inverse = np.linalg.inv(T)
        exact = np.diag(inverse @ np.diag(T @ law) @ inverse.T) - law
    column = CopyColumn("a", False, retention=q, base=base, categories=m)
    labels = tuple(range(m))
    table = frequencies(rows * (T @ law), labels, column, "table")
    population = frequencies(rows * (T @ law), labels, column, "population")
    assert np.allclose(rows * table.standard_error**2, exact, atol=1e-7)
    assert np.allclose(rows * population.standard_error**2, exact + law * (1 - law), atol=1e-7)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("noise", [0.25, 4.0])
def test_shares_pairs_and_groups_of_a_known_table(base: str, noise: float) -> None:
    a, b, x = table = _table(200_000, seed=1)
    copy = _copy(table, noise=noise, base=base, seed=2)
    shares, pairs = copy.frequencies("a", of="table"), copy.two_way("a", "b", of="table")
    means = copy.group_means("x", by="a", of="table")
    assert agrees(shares, np.bincount(a) / len(a))
    assert agrees(copy.frequencies("a"), FIRST)
    assert agrees(pairs, _shares(a, b))
    assert agrees(copy.two_way("a", "b"), JOINT)
    assert agrees(means, _group_means(a, x))
    assert agrees(copy.group_means("x", by="a"), GROUP_MEANS)
    assert pairs.labels == (("0", "1", "2"), ("0", "1"))
    # what the copy shows, taken at its word
    blind = _blind(copy)
    assert not agrees(_raw(pairs, blind.two_way("a", "b").value), _shares(a, b))
    assert not agrees(_raw(means, blind.group_means("x", by="a").value), _group_means(a, x))
    if base == "uniform":
        assert not agrees(_raw(shares, blind.frequencies("a").value), np.bincount(a) / len(a))


def _blind(copy: Copy) -> Copy:
    """The same copy, read as if its categories had been kept."""
    batches = list(copy.source.batches(["a", "b", "x"]))
    said = {"a": {"role": "kept"}, "b": {"role": "kept"}}
    metadata = {"noise": copy.level.noise, "columns": said}
    return Copy.open(pa.Table.from_batches(batches), metadata=metadata)


@pytest.mark.slow
@pytest.mark.parametrize("of", ["table", pytest.param("population", marks=pytest.mark.slow)])
@pytest.mark.parametrize("base", ["marginal", pytest.param("uniform", marks=pytest.mark.slow)])
def test_intervals_cover(base: str, of: str) -> None:
    tables, noise = 300, 1.0
    is_table = of == "table"

    def one(seed: int) -> tuple[Estimates, np.ndarray]:
        a, b, x = table = _table(800, seed)
        copy = _copy(table, noise=noise, base=base, seed=seed)
        found = [
            copy.frequencies("a", of=of),
            copy.two_way("a", "b", of=of),
            copy.group_means("x", by="a", of=of),
        ]
        truth = [
            np.bincount(a, minlength=3) / len(a) if is_table else FIRST,
            _shares(a, b) if is_table else JOINT,
            _group_means(a, x) if is_table else GROUP_MEANS,
        ]
        value = np.concatenate([part.value.ravel() for part in found])
        error = np.concatenate([part.standard_error.ravel() for part in found])
        return Estimates(((),), value, error), np.concatenate([part.ravel() for part in truth])

    assert covers(coverage(one, tables), tables)


def test_columns_refreshed_together_keep_their_association() -> None:
    a, b, _ = _table(100_000, seed=3)
    codes = refresh(
        np.column_stack([a, b]),
        retention=0.5,
        base="marginal",
        categories=0,
        rng=np.random.default_rng(4),
    ).astype(str)
    said = {"role": "category", "base": "marginal", "together": ["a", "b"]}
    apart = {"role": "category", "base": "marginal"}
    table = pa.table({"a": codes[:, 0], "b": codes[:, 1]})

    def pairs(column: dict[str, object]) -> Estimates:
        metadata = {"noise": 3.0, "columns": {"a": column, "b": column}}
        return Copy.open(table, metadata=metadata).two_way("a", "b", of="table")

    assert agrees(pairs(said), _shares(a, b))
    assert not agrees(pairs(apart), _shares(a, b))


def test_together_and_uniform_draws_from_the_combinations_that_occur() -> None:
    P = np.array([[0.5, 0.0], [0.2, 0.3]])
    group = {"retention": 0.6, "base": "uniform", "categories": 3}
    columns = tuple(CopyColumn(name, False, together=("a", "b"), **group) for name in "ab")
    in_copy = 0.6 * P + 0.4 / 3 * (P > 0)
    found = two_way(in_copy * 1e6, ((0, 1), (0, 1)), columns, "table")
    assert np.allclose(found.value, P)
    with pytest.raises(ColumnError, match="uniform combinations"):
        frequencies(in_copy.sum(axis=1), (0, 1), columns[0], "table")


def test_missing_categories_are_left_out_or_a_category_of_their_own() -> None:
    table = pa.table({"a": ["u", None, "v", "u"]})
    shown = Copy.open(table, noise=1.0).frequencies("a")
    assert shown.labels == (("u", "v"),)
    assert shown["u"].value == pytest.approx(2 / 3)
    hidden = {"a": {"role": "category", "missing": "hidden"}}
    found = Copy.open(table, metadata={"noise": 1.0, "columns": hidden}).frequencies("a")
    assert found.labels == (("u", "v", None),)
    assert found[None].value == pytest.approx(1 / 4)


def test_uniform_categories_must_be_counted() -> None:
    said = {"a": {"role": "category", "base": "uniform"}}
    copy = Copy.open(pa.table({"a": ["u", "v"]}), metadata={"noise": 1.0, "columns": said})
    with pytest.raises(ColumnError, match="over how many values"):
        copy.frequencies("a")


def test_dictionaries_booleans_and_declared_integers_are_categories() -> None:
    table = pa.table(
        {
            "d": pa.array(["u", "v", "u"]).dictionary_encode(),
            "t": [True, False, True],
            "i": [7, 8, 7],
        }
    )
    copy = Copy.open(table, metadata={"noise": 1.0, "columns": {"i": {"role": "category"}}})
    assert copy.frequencies("d").labels == (("u", "v"),)
    assert copy.frequencies("t")[True].value == pytest.approx(2 / 3)
    assert copy.frequencies("i")[7].value == pytest.approx(2 / 3)
