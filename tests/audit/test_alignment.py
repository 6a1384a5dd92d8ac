"""Rows belong together by position or by key; what does not fit is refused in one line."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from cornerwave.audit import BLOCK_ROWS, Aligned, attack_copies, audit
from cornerwave.errors import ColumnError, SourceError
from tests.audit.releases import frame, gaussian, ours


def keyed(X: np.ndarray, keys: list[str]) -> pa.Table:
    return frame(X).append_column("id", pa.array(keys))


def test_blocks_hold_the_same_rows_across_their_borders() -> None:
    X = np.arange(BLOCK_ROWS + 10.0)[:, None]
    blocks = list(Aligned.of(frame(X), [frame(X + 0.5)]).blocks())
    assert [source.shape[1] for source, _ in blocks] == [BLOCK_ROWS, 10]
    assert all((copy - source == 0.5).all() for source, copy in blocks)


def test_copies_in_another_order_are_aligned_by_key() -> None:
    X = gaussian(1000)
    keys = [f"k{i}" for i in range(1000)]
    order = np.random.default_rng(1).permutation(1000)
    copies = ours(X, [0.5, 1.0])
    shuffled = keyed(copies[1][order], [keys[i] for i in order])
    found = audit(keyed(X, keys), [keyed(copies[0], keys), shuffled], key="id")
    assert found.clean
    assert found.sorted_copies == ("frame 2",)
    assert not audit(keyed(X, keys), [keyed(copies[0], keys), shuffled]).clean


def test_integer_and_text_keys_are_the_same_keys() -> None:
    X = gaussian(200)
    [copy] = ours(X, [1.0])
    source = frame(X).append_column("id", pa.array(range(200)))
    other = keyed(copy[::-1], [str(i) for i in range(200)][::-1])
    assert audit(source, [other], key="id").clean


def test_what_is_refused() -> None:
    X = gaussian(300)
    keys = [str(i) for i in range(300)]
    with pytest.raises(SourceError, match="ends after 299 rows"):
        audit(frame(X), [frame(X[1:])])
    with pytest.raises(ColumnError, match="share no column of numbers"):
        audit(frame(X), [frame(X).rename_columns(["a", "b", "c"])])
    with pytest.raises(ColumnError, match="has no column 'id'"):
        audit(keyed(X, keys), [frame(X)], key="id")
    with pytest.raises(SourceError, match="same keys"):
        audit(keyed(X, keys), [keyed(X, [*keys[1:], "new"])], key="id")
    with pytest.raises(ColumnError, match="duplicate or missing"):
        audit(keyed(X, keys), [keyed(X, [*keys[1:], "5"])], key="id")
    with pytest.raises(SourceError, match="source has 50 rows; an audit needs at least 100"):
        audit(frame(X[:50]), [frame(X[:50])])
    gaps = np.where(np.arange(300)[:, None] < 250, np.nan, X)
    with pytest.raises(SourceError, match="50 rows have a number to compare"):
        audit(frame(gaps), [frame(gaps)])
    with pytest.raises(SourceError, match="infinite"):
        audit(frame(X), [frame(np.where(X > 51, np.inf, X))])


def test_copies_are_called_by_their_files(tmp_path: Path) -> None:
    paths = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        paths.append(tmp_path / folder / "copy.parquet")
        papq.write_table(frame(gaussian(10)), paths[-1])
    aligned = Aligned.of(frame(gaussian(10)), [*paths, paths[0]])
    assert aligned.names == ("a/copy.parquet (1)", "b/copy.parquet", "a/copy.parquet (2)")


def logs(rows: int = 400) -> tuple[pa.Table, pa.Table]:
    """A source with many zeros and a copy of it on the log1p scale, one cell exactly -1."""
    rng = np.random.default_rng(3)
    x = np.where(rng.random(rows) < 0.5, 0.0, rng.lognormal(8, 1, rows))
    y = np.expm1(np.log1p(x) + rng.normal(0, 9, rows))
    y[7] = -1.0
    said = {"noise": 4.0, "columns": {"x": {"role": "perturbed", "transform": "log1p"}}}
    told = {b"cornerwave": json.dumps(said).encode()}
    return pa.table({"x": x}), pa.table({"x": y}).replace_schema_metadata(told)


def test_a_cell_of_a_log1p_copy_may_be_minus_one(tmp_path: Path) -> None:
    source, copy = logs()
    papq.write_table(copy, tmp_path / "copy.parquet")
    aligned = Aligned.of(source, [tmp_path / "copy.parquet"])
    [[_, logarithms]] = aligned.blocks()
    assert np.isfinite(logarithms).all()
    assert -37 < logarithms[0, 7] < -36
    assert audit(source, [tmp_path / "copy.parquet"]).rows == 400
    assert attack_copies([tmp_path / "copy.parquet"], truth=source).rows == 400


def test_a_stated_logarithm_of_values_below_minus_one_is_refused(tmp_path: Path) -> None:
    source, copy = logs()
    papq.write_table(copy, tmp_path / "copy.parquet")
    shifted = pa.table({"x": source["x"].to_numpy() - 5.0})
    with pytest.raises(ColumnError, match=r"'x' holds values below -1, but a copy states"):
        audit(shifted, [tmp_path / "copy.parquet"])


@pytest.mark.parametrize("size", [1e72, 1e155, 1e300])
def test_values_too_large_are_refused(size: float) -> None:
    X = gaussian(200)
    for attacked in (audit, lambda s, c: attack_copies(c, truth=s, noise=[1.0])):
        with pytest.raises(ColumnError, match=r"values beyond 1e\+70, too large to be compared"):
            attacked(frame(X * size), [frame(X * size)])


@pytest.mark.parametrize("size", [1e68, 1e-70])
def test_values_large_and_small_are_audited(size: float) -> None:
    X = gaussian(1000)
    found = audit(frame(X * size), [frame(Y * size) for Y in ours(X, [0.5, 1.0])])
    assert found.clean


def test_values_too_far_apart_are_refused() -> None:
    X = gaussian(200)
    with pytest.raises(SourceError, match="too large or too far apart to be compared"):
        audit(frame(X * 1e-130), [frame(X * 1e60)])


def test_a_key_without_text_is_refused() -> None:
    tables = [
        pa.table({"x": np.arange(200.0), "k": pa.array([[i] for i in ids])})
        for ids in (range(200), range(200, 0, -1))
    ]
    with pytest.raises(ColumnError, match=r"cannot be aligned by 'k', a column of type list"):
        audit(tables[0], [tables[1]], key="k")


@pytest.mark.parametrize("empty", [0, 1])
def test_a_table_without_rows_cannot_be_aligned(empty: int) -> None:
    tables = [keyed(gaussian(200), [f"k{i}" for i in range(200)])] * 2
    tables[empty] = tables[empty].slice(0, 0)
    with pytest.raises(SourceError, match=r"no rows|not copies of the same rows"):
        audit(tables[0], [tables[1]], key="id")
