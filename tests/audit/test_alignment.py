"""Rows belong together by position or by key; what does not fit is refused in one line."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from cornerwave.audit import audit
from cornerwave.audit._alignment import BLOCK_ROWS, Aligned
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
    with pytest.raises(SourceError, match="50 rows have a value in every shared column"):
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
