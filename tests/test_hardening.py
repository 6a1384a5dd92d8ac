"""What was once possible: each test is an attack, or a fault, that must not come back."""

import json
import os
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from cornerwave import algorithms
from cornerwave import moments as _exact
from cornerwave.errors import ColumnError, SourceChanged, SourceError, VaultError
from cornerwave.moments import Moments
from cornerwave.spine.frozen import Frozen
from cornerwave.vault import Vault

ROWS = 600


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def numbers(table, name):
    return table.column(name).to_numpy()


class TestNoise:
    def test_a_small_difference_of_large_columns_is_hidden(self, vault, rng):
        # two timestamps over two years, and what is between them: a hundred seconds
        start, duration = rng.uniform(0, 6e7, 20_000).round(), rng.exponential(100, 20_000).round()
        calls = vault.register("calls", pa.table({"start": start, "end": start + duration}))
        copy = calls.release(to="ann", privacy=0.9).to_arrow()
        shown = numbers(copy, "end") - numbers(copy, "start")
        hidden = 1 - np.corrcoef(shown, duration)[0, 1] ** 2
        assert hidden == pytest.approx(0.9, abs=0.02)

    def test_values_too_far_from_zero_for_their_noise_are_refused(self, vault, rng):
        far = pa.table({"x": 1e16 + 8.0 * rng.integers(0, 3, ROWS)})
        with pytest.raises(ColumnError, match="far from zero"):
            vault.register("far", far)
        with pytest.raises(SourceError, match="far from zero"):
            algorithms.parallel(numbers(far, "x"), noise=[0.1])

    @pytest.mark.parametrize("size", [1e-150, 1e-170])
    def test_a_variance_that_underflows_is_refused(self, vault, rng, size):
        x = size * rng.normal(size=ROWS)
        with pytest.raises(ColumnError, match="vanishes"):
            vault.register("tiny", pa.table({"x": x}))
        with pytest.raises(SourceError, match="vanishes"):
            algorithms.parallel(x, noise=[1.0])

    def test_a_negative_variance_is_refused(self, rng):
        with pytest.raises(SourceError, match="negative"):
            algorithms.parallel(rng.normal(size=ROWS), noise=[1.0], covariance=-1.0)

    def test_sums_of_many_rows_do_not_overflow(self, monkeypatch):
        # 2^24 rows of this would be 2^64: more than a word holds
        X = np.full((1 << 15, 1), 2.0**20 - 1)
        X[::2] -= 2
        whole = Moments.of(X)
        monkeypatch.setattr(_exact, "MOST_ROWS", 1 << 10)
        parts = Moments.of(X)
        assert parts.covariance.tobytes() == whole.covariance.tobytes()
        assert _exact.MOST_ROWS << 40 < 1 << 63

    @pytest.mark.slow
    def test_sums_of_sixteen_million_rows_do_not_overflow(self):
        X = np.full((1 << 24, 1), 2.0**20 - 1)
        X[::2] -= 2
        assert Moments.of(X).covariance[0, 0] == pytest.approx(1.0)

    def test_a_dataset_of_another_noise_format_is_not_released(self, vault, rng):
        dataset = vault.register("x", pa.table({"x": rng.normal(size=ROWS)}))
        kept = json.loads(dataset.frozen.to_json())
        kept["noise_format"] += 1
        with pytest.raises(VaultError, match="noise of format 2"):
            Frozen.from_json(json.dumps(kept))


class TestColumnsReleasedUnchanged:
    def test_what_lies_under_missing_values_stays_secret(self, vault, rng, tmp_path):
        secret, missing = np.arange(ROWS) + 777_000_000, np.arange(ROWS) % 3 == 0
        kept = pd.arrays.IntegerArray(secret.copy(), missing)
        frame = pd.DataFrame({"x": rng.normal(size=ROWS), "kept": kept})
        release = vault.register("t", frame, keep=["kept"]).release(to="ann", privacy=0.5)
        with pa.memory_map(str(release.write(tmp_path / "copy.arrow"))) as file:
            for copy in (pa.ipc.open_file(file).read_all(), release.to_arrow()):
                column = copy.column("kept").combine_chunks()
                below = np.frombuffer(column.buffers()[1], dtype=np.int64)[:ROWS]
                assert column.null_count == missing.sum()
                assert not np.isin(below, secret[missing]).any()

    def test_rows_that_are_not_in_the_table_stay_secret(self, vault, rng, tmp_path):
        texts = [f"the text of row number {row}" for row in range(2 * ROWS)]
        table = pa.table(
            {"x": rng.normal(size=2 * ROWS), "kept": pa.array(texts, pa.string_view())}
        )
        dataset = vault.register("t", table.slice(0, ROWS), keep=["kept"])
        copy = dataset.release(to="ann", privacy=0.5).to_arrow()
        assert copy.column("kept").to_pylist() == texts[:ROWS]
        held = b"".join(
            bytes(buffer) for buffer in copy.column("kept").chunk(0).buffers() if buffer
        )
        assert texts[0].encode() in held
        assert texts[-1].encode() not in held

    @pytest.mark.parametrize("ending", ["arrow", "parquet", "csv"])
    def test_bytes_do_not_depend_on_how_the_source_is_cut(self, vault, rng, tmp_path, ending):
        table = pa.table({"x": rng.normal(size=ROWS), "kept": ["a", "b"] * (ROWS // 2)})
        cut = pa.concat_tables([table.slice(0, 77), table.slice(77)])
        vault.register("t", table, keep=["kept"])
        files = [
            vault.dataset("t", source=source)
            .release(to="ann", privacy=0.5)
            .write(tmp_path / f"{number}.{ending}")
            .read_bytes()
            for number, source in enumerate((table, cut))
        ]
        assert files[0] == files[1]


class TestRegistration:
    @pytest.mark.slow
    def test_one_table_has_one_id_in_every_process(self, tmp_path):
        # a missing value and the text 'None' are equally frequent: which of them is pooled?
        Vault.create(tmp_path / "v")
        script = (
            "import sys, pyarrow as pa; from cornerwave.vault import Vault\n"
            "vault = Vault.create(sys.argv[1], key_file=sys.argv[2])\n"
            "cells = ['z'] * 2 + ['None'] * 6 + [None] * 6 + ['b'] * 30\n"
            "table = pa.table({'c': cells, 'x': [float(i) for i in range(44)]})\n"
            "choices = {'hide_missing': ['c'], 'min_count': 5, 'keep_order': True}\n"
            "print(vault.register('t', table, few_rows=True, **choices).id)\n"
        )
        ids = {
            subprocess.run(
                [sys.executable, "-c", script, tmp_path / seed, tmp_path / "v" / "key"],
                env={**os.environ, "PYTHONHASHSEED": seed},
                check=True,
                capture_output=True,
            ).stdout
            for seed in ("1", "2", "3", "5")
        }
        assert len(ids) == 1

    def test_a_missing_key_hides_in_no_dictionary(self, vault):
        values = pa.array([None, *map(str, range(1, ROWS))])
        key = pa.DictionaryArray.from_arrays(pa.array(range(ROWS)), values)
        with pytest.raises(ColumnError, match="1 missing"):
            vault.register("t", pa.table({"key": key, "x": np.arange(ROWS)}), key="key")

    def test_a_dictionary_of_floats_is_no_key(self, vault):
        key = pa.array(np.arange(ROWS) / 2).dictionary_encode()
        with pytest.raises(ColumnError, match="a key must be"):
            vault.register("t", pa.table({"key": key, "x": np.arange(ROWS)}), key="key")

    @pytest.mark.parametrize("type_", [pa.string(), pa.bool_(), pa.null(), pa.list_(pa.int64())])
    def test_a_source_without_its_numbers_is_refused(self, vault, rng, tmp_path, type_):
        table = pa.table({"x": rng.normal(size=ROWS), "i": rng.integers(0, 9, ROWS)})
        vault.register("t", table)
        other = table.set_column(1, "i", pa.nulls(ROWS, type_))
        with pytest.raises(SourceChanged, match="no longer holds numbers"):
            vault.dataset("t", source=other).release(to="ann", privacy=0.5)
        assert not list(tmp_path.glob("*.csv"))


class TestVaultPlaces:
    @pytest.mark.parametrize(
        "address",
        [
            "",
            "ledger.db",
            "postgresql:/me:s3cret@host/d",
            "me:s3cret@host/d",
            "postgresql://me:s3@cret@host/d",
            "postgresql://me:s3cret@host/d?plugin=x",
        ],
    )
    def test_what_is_no_address_is_refused_and_not_shown(self, tmp_path, address):
        with pytest.raises(VaultError, match="not the address") as refusal:
            Vault.create(tmp_path / "v", ledger=address)
        assert "cret" not in str(refusal.value)
        assert not (tmp_path / "v").exists()

    def test_a_damaged_address_is_refused_and_not_shown(self, tmp_path):
        Vault.create(tmp_path / "v")
        (tmp_path / "v" / "ledger.url").write_text("postgresql:/me:s3cret@host/d\n")
        with pytest.raises(VaultError, match="not the address") as refusal:
            Vault.open(tmp_path / "v")
        assert "s3cret" not in str(refusal.value)

    def test_without_a_ledger_no_key_is_left(self, tmp_path):
        pytest.importorskip("psycopg")
        nowhere = f"postgresql://me@/d?host={tmp_path}"
        with pytest.raises(VaultError, match="no connection"):
            Vault.create(tmp_path / "v", ledger=nowhere)
        Vault.create(tmp_path / "v")  # nothing is in the way


def test_no_warning_is_lost(vault, rng):
    """A column that follows from others to the last bit still warns."""
    a, b = rng.integers(0, 1000, (2, ROWS))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        vault.register("t", pa.table({"a": a, "b": b, "c": 3 * a - b}))
    assert any("linear function" in str(warning.message) for warning in found)
