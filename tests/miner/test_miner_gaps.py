"""Copies that a vault released of tables with gaps: missing, hidden, pooled, drawn together."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from miner_world import agrees, coverage, covers

from cornerwave import Vault
from cornerwave.miner import Copy, Estimates, find_labels
from cornerwave.miner._estimates import column_blocks
from cornerwave.miner._means import GroupSums, group_means
from cornerwave.miner._shares import count_labels, two_way

ROWS = 80_000
COMMON = 5
MIN_COUNT = 8
"""More rows than a rare value has (0.4 on average), fewer than any pair (20)."""

# registering says which columns show what is missing
pytestmark = pytest.mark.filterwarnings("ignore::cornerwave.errors.CornerwaveWarning")


def _columns(rows: int, seed: int) -> dict[str, np.ndarray]:
    """Codes of -1 and NaN are missing, the more often the greater another column is."""
    rng = np.random.default_rng(seed)
    a = rng.choice(3, rows, p=[0.5, 0.3, 0.2])
    b = np.where(rng.random(rows) < 0.2, a, rng.integers(0, 3, rows))
    x = 2.0 * a + rng.normal(size=rows) * (1 + a)
    rare = COMMON + rng.integers(0, rows // 4, rows)
    many = np.where(rng.random(rows) < 0.9, (a + rng.integers(0, 3, rows)) % COMMON, rare)
    gone = rng.random(rows) < 0.1 + 0.35 * a
    lost = rng.random(rows) < 0.1 * b + 0.1 * (x > 2) + 0.6 * (a == 2)
    return {
        "a": a,
        "b": np.where(gone, -1, b),
        "x": np.where(lost, np.nan, x),
        "even": np.where(lost, -1, b),
        "hidden": np.where(gone, -1, a),
        "many": many,
        "left": b,
        "right": np.where(gone, -1, a),
    }


def _released(columns: dict[str, np.ndarray], folder: Path) -> Copy:
    texts = {
        name: pa.array(codes.astype(str), mask=codes < 0)
        for name, codes in columns.items()
        if name not in ("x", "many")
    }
    table = pa.table(
        {"x": pa.array(columns["x"], from_pandas=True), "many": columns["many"], **texts}
    )
    dataset = Vault.create(folder / "vault").register(
        "t",
        table,
        categorical=["many"],
        uniform=["even", "many"],
        hide_missing=["hidden"],
        together=[["left", "right"]],
        min_count=MIN_COUNT,
    )
    return Copy.open(dataset.release(to="partner", noise=1.0).write(folder / "copy.parquet"))


def _pooled(many: np.ndarray) -> np.ndarray:
    return np.minimum(many, COMMON)  # the pool, which leaves as missing, is the last label


def _shares(codes: np.ndarray, labels: int) -> np.ndarray:
    return np.bincount(codes[codes >= 0], minlength=labels) / (codes >= 0).sum()


def _pairs(one: np.ndarray, other: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    both = (one >= 0) & (other >= 0)
    counts = np.bincount(one[both] * shape[1] + other[both], minlength=shape[0] * shape[1])
    return counts.reshape(shape) / both.sum()


def _means(x: np.ndarray, codes: np.ndarray, labels: int) -> np.ndarray:
    return np.array([np.nanmean(x[codes == label]) for label in range(labels)])


def _asked(copy: Copy, t: dict[str, np.ndarray]) -> list[tuple[Estimates, np.ndarray]]:
    """Every kind of question with the table's own answer; a hidden gap is the last label."""
    gap_last = {name: np.where(t[name] < 0, 3, t[name]) for name in ("hidden", "right")}
    many = _pooled(t["many"])
    return [
        (copy.mean(["x"], of="table"), np.nanmean(t["x"])),
        (copy.frequencies("b", of="table"), _shares(t["b"], 3)),
        (copy.frequencies("even", of="table"), _shares(t["even"], 3)),
        (copy.frequencies("hidden", of="table"), _shares(gap_last["hidden"], 4)),
        (copy.frequencies("many", of="table"), _shares(many, COMMON + 1)),
        (copy.frequencies("right", of="table"), _shares(gap_last["right"], 4)),
        (copy.two_way("a", "b", of="table"), _pairs(t["a"], t["b"], (3, 3))),
        (copy.two_way("b", "even", of="table"), _pairs(t["b"], t["even"], (3, 3))),
        (copy.two_way("b", "many", of="table"), _pairs(t["b"], many, (3, COMMON + 1))),
        (copy.two_way("left", "right", of="table"), _pairs(t["left"], gap_last["right"], (3, 4))),
        (copy.group_means("x", by="a", of="table"), _means(t["x"], t["a"], 3)),
        (copy.group_means("x", by="b", of="table"), _means(t["x"], t["b"], 3)),
        (copy.group_means("x", by="even", of="table"), _means(t["x"], t["even"], 3)),
        (copy.group_means("x", by="many", of="table"), _means(t["x"], many, COMMON + 1)),
    ]


@pytest.fixture(scope="module")
def table() -> dict[str, np.ndarray]:
    return _columns(ROWS, seed=1)


@pytest.fixture(scope="module")
def copy(table: dict[str, np.ndarray], tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return _released(table, tmp_path_factory.mktemp("gaps"))


def test_gaps_do_not_bias_what_is_told(copy: Copy, table: dict[str, np.ndarray]) -> None:
    for place, (found, truth) in enumerate(_asked(copy, table)):
        assert agrees(found, truth), place


def test_pi_from_the_rows_at_hand_would_be_biased(copy: Copy, table: dict[str, np.ndarray]) -> None:
    a, b = copy.columns["a"], copy.columns["b"]
    counts, labels, _ = count_labels(copy.source, [a, b])
    naive = two_way(counts, (labels[0], labels[1]), (a, b), "table")
    assert not agrees(naive, _pairs(table["a"], table["b"], (3, 3)))
    x, found = copy.columns["x"], find_labels(copy.source, [a])
    sums = GroupSums.of(column_blocks(copy.source, [x, a], found), x, a, 3)
    at_hand = replace(sums, whole=sums.count)
    naive = group_means(at_hand, ("0", "1", "2"), x, a, "table")
    assert not agrees(naive, _means(table["x"], table["a"], 3))


def test_leaving_the_pool_out_would_be_biased(copy: Copy, table: dict[str, np.ndarray]) -> None:
    shown = replace(copy.columns["many"], hides_missing=False)
    naive = replace(copy, columns={"many": shown}).frequencies("many", of="table")
    many = table["many"][table["many"] < COMMON]
    assert not agrees(naive, _shares(many, COMMON))


@pytest.mark.slow
def test_intervals_cover_in_copies_with_gaps(tmp_path: Path) -> None:
    tables = 200

    def one(seed: int) -> tuple[Estimates, np.ndarray]:
        t = _columns(3000, seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        asked = _asked(_released(t, folder), t)
        value = np.concatenate([found.value.ravel() for found, _ in asked])
        error = np.concatenate([found.standard_error.ravel() for found, _ in asked])
        return Estimates(((),), value, error), np.concatenate(
            [np.ravel(truth) for _, truth in asked]
        )

    shares = coverage(one, tables)
    assert covers(shares, tables), shares


def _texts() -> pa.Table:
    rng = np.random.default_rng(3)
    code = rng.choice(np.array(["01234", "1234", "", "nan"]), 400)
    return pa.table(
        {"code": pa.array(code, mask=rng.random(400) < 0.2), "n": rng.integers(0, 9, 400)}
    )


def test_a_csv_tells_the_same_as_a_parquet_file(tmp_path: Path) -> None:
    dataset = Vault.create(tmp_path / "vault").register("t", _texts(), categorical=["n"])
    release = dataset.release(to="partner", noise=1.0)
    told = [Copy.open(release.write(tmp_path / f"c.{end}")) for end in ("parquet", "csv", "csv.gz")]
    for name in ("code", "n"):
        whole, *others = [copy.frequencies(name) for copy in told]
        for other in others:
            assert other.labels == whole.labels
            assert np.array_equal(other.value, whole.value)
    assert told[1].frequencies("code").labels == (("", "01234", "1234", "nan"),)


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_text_of_any_width_tells_the_same(type_):
    """Pooled text has a name of its own beside missing values; a view of text is text too."""
    rng = np.random.default_rng(0)
    cells = rng.choice(["a", "b", "(other)"], 2000, p=[0.5, 0.3, 0.2])
    column = pa.array(cells, mask=rng.random(2000) < 0.1)
    told = {"role": "category", "missing": "shown", "base": "marginal", "pooled": True}
    metadata = {"noise": 1.0, "columns": {"c": told}}
    found = Copy.open(pa.table({"c": column.cast(type_)}), metadata=metadata).frequencies("c")
    plain = Copy.open(pa.table({"c": column}), metadata=metadata).frequencies("c")
    assert list(found.labels[0]) == ["(other)", "a", "b"]
    assert found.value.tolist() == plain.value.tolist()
