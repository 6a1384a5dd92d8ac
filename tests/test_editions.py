"""Appended batches: the rows that are there keep their noise, and what does not fit is refused."""

import re
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from cornerwave.editions import Spread
from cornerwave.errors import (
    AlreadyRegistered,
    ColumnError,
    CornerwaveError,
    DatasetClosed,
    Drifted,
    LedgerDamaged,
    NoSuchEdition,
    SourceChanged,
    SourceError,
    VaultError,
)
from cornerwave.reuse import TableMarks, grown
from cornerwave.vault import Vault
from tests.conftest import make_people, survey_of

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))]
KEYS = {"by position": {"drop": ["id"]}, "by key": {"key": "id"}}


def people(rows: int, seed: int, start: int = 0) -> pa.Table:
    """Some people; their ids begin at `start`."""
    ids = pa.array([f"p{start + row}" for row in range(rows)])
    sex = pa.array(np.random.default_rng(seed).choice(["f", "m"], rows))
    return make_people(rows, seed).set_column(0, "id", ids).append_column("sex", sex)


FIRST, SECOND, THIRD = people(300, 1), people(200, 2, 300), people(50, 3, 500)


@pytest.fixture(params=KEYS)
def dataset(request, vault):
    return vault.register("people", FIRST, **KEYS[request.param], few_rows=True)


class TestAppend:
    def test_rows_keep_their_noise_bit_for_bit(self, dataset):
        one = dataset.release(to="ann", privacy=0.5).to_arrow()
        dataset.append(SECOND)
        two = dataset.release(to="ann", privacy=0.5).to_arrow()
        dataset.append(THIRD)
        three = dataset.release(to="bob", privacy=0.5).to_arrow()
        assert (two.num_rows, three.num_rows) == (500, 550)
        assert two.slice(0, 300).equals(one)
        assert three.slice(0, 500).equals(two)
        # and new rows have noise of their own
        noise = np.array(three["wage"].slice(300, 200)) - np.array(SECOND["wage"])
        old = np.array(one["wage"].slice(0, 200)) - np.array(FIRST["wage"].slice(0, 200))
        assert abs(np.corrcoef(noise, old)[0, 1]) < 5 / np.sqrt(200)

    def test_an_edition_or_a_batch_alone(self, dataset):
        one = dataset.release(to="ann", privacy=0.5).to_arrow()
        dataset.append(SECOND)
        dataset.append(THIRD)
        whole = dataset.release(to="ann", privacy=0.5).to_arrow()
        for choice, expected in (
            ({"edition": 1}, one),
            ({"edition": 2}, whole.slice(0, 500)),
            ({"batch": 1}, one),
            ({"batch": 2}, whole.slice(300, 200)),
            ({"batch": 3}, whole.slice(500, 50)),
        ):
            copy = dataset.release(to="eve", privacy=0.5, **choice)
            assert copy.to_arrow().equals(expected), choice
        held = {(h.spec.edition, h.spec.batch) for h in dataset.holdings if h.recipient == "eve"}
        assert held == {(1, None), (2, None), (1, 1), (2, 2), (3, 3)}
        for choice in ({"edition": 4}, {"edition": 0}, {"batch": 0}):
            with pytest.raises(NoSuchEdition, match="there are 1 to 3"):
                dataset.release(to="eve", privacy=0.5, **choice)
        with pytest.raises(NoSuchEdition, match="not both"):
            dataset.release(to="eve", privacy=0.5, edition=1, batch=1)

    def test_the_copies_of_a_ledger_are_made_again(self, vault, tmp_path):
        for name, table in (("a", FIRST), ("b", SECOND)):
            papq.write_table(table, tmp_path / f"{name}.parquet")
        dataset = vault.register("people", tmp_path / "a.parquet", key="id", few_rows=True)
        first = dataset.release(to="ann", privacy=0.5).write(tmp_path / "1.parquet").read_bytes()
        dataset.append(tmp_path / "b.parquet")
        second = dataset.release(to="ann", privacy=0.5).write(tmp_path / "2.parquet").read_bytes()
        third = dataset.release(to="ann", privacy=0.5, batch=2).write(tmp_path / "3.parquet")
        again = Vault.open(vault.path).dataset("people").again("ann")
        made = [copy.write(tmp_path / f"again{n}.parquet") for n, (copy, _) in enumerate(again)]
        assert [path.read_bytes() for path in made] == [first, second, third.read_bytes()]

    def test_all_rows_in_one_file_are_the_same_table(self, vault, tmp_path):
        dataset = vault.register("people", FIRST, drop=["id"], few_rows=True)
        dataset.append(SECOND)
        copy = dataset.release(to="ann", privacy=0.5).to_arrow()
        for source in ([FIRST, SECOND], pa.concat_tables([FIRST, SECOND])):
            moved = vault.dataset("people", source=source)
            assert moved.release(to="bob", privacy=0.5).to_arrow().equals(copy)
        with pytest.raises(SourceError, match="2 parts"):
            vault.dataset("people", source=[FIRST, SECOND, THIRD])
        swapped = vault.dataset("people", source=[SECOND, FIRST])
        with pytest.raises(SourceChanged):
            swapped.release(to="bob", privacy=0.5).to_arrow()

    def test_a_changed_batch_is_refused(self, vault, tmp_path):
        dataset = vault.register("people", FIRST, drop=["id"], few_rows=True)
        papq.write_table(SECOND, tmp_path / "b.parquet")
        dataset.append(tmp_path / "b.parquet")
        wage = pa.array(np.array(SECOND["wage"]) + 1e-6)
        papq.write_table(SECOND.set_column(2, "wage", wage), tmp_path / "b.parquet")
        with pytest.raises(SourceChanged, match="value differs"):
            vault.dataset("people", source=None).release(to="a", privacy=0.5, batch=2).to_arrow()

    def test_batches_in_other_forms_of_text(self, vault, tmp_path):
        dataset = vault.register("people", FIRST, key="id", few_rows=True)
        encoded = SECOND.set_column(4, "sex", SECOND["sex"].dictionary_encode())
        papq.write_table(encoded, tmp_path / "b.parquet")
        dataset.append(tmp_path / "b.parquet")
        pa.csv.write_csv(THIRD, tmp_path / "c.csv")
        dataset.append(tmp_path / "c.csv")
        assert dataset.release(to="ann", privacy=0.5).to_arrow().num_rows == 550

    def test_shuffled_copies_contain_the_same_rows(self, vault):
        dataset = vault.register("people", FIRST, key="id", shuffle=True, few_rows=True)
        one = dataset.release(to="ann", privacy=0.5).to_arrow()
        dataset.append(SECOND)
        two = dataset.release(to="ann", privacy=0.5).to_arrow()
        kept = two.filter(pa.compute.is_in(two["id"], one["id"]))
        assert kept.sort_by("id").equals(one.sort_by("id"))

    def test_the_table_is_put_into_the_order_of_shuffled_copies(self, vault, tmp_path):
        """Of the edition that they show."""
        dataset = vault.register("people", FIRST, key="id", shuffle=True, few_rows=True)
        dataset.append(SECOND)
        for edition in (1, 2):
            copy = dataset.release(to="ann", noise=1.0, edition=edition).to_arrow()
            dataset.write_in_copies_order(tmp_path / "table.arrow", edition=edition)
            with pa.OSFile(str(tmp_path / "table.arrow")) as file:
                table = pa.ipc.open_file(file).read_all()
            assert table.column("id").equals(copy.column("id"))
        assert table.num_rows == 500

    def test_a_stream_of_batches_is_kept_where_asked(self, vault, tmp_path):
        dataset = vault.register("people", FIRST, drop=["id"], few_rows=True)
        stream = iter(SECOND.to_batches(max_chunksize=80))
        editions = dataset.append_all(stream, folder=tmp_path / "kept")
        assert [edition.rows for edition in editions] == [380, 460, 500]
        assert len(list((tmp_path / "kept").iterdir())) == 3
        again = vault.dataset("people", source=[FIRST, *sorted((tmp_path / "kept").iterdir())])
        assert again.release(to="ann", privacy=0.5).to_arrow().num_rows == 500

    def test_metadata_says_which_rows(self, dataset, tmp_path):
        dataset.append(SECOND)
        path = dataset.release(to="ann", privacy=0.5, batch=2).write(tmp_path / "c.arrow")
        metadata = pa.ipc.open_file(path).schema.metadata[b"cornerwave"].decode()
        assert '"edition": 2' in metadata
        assert '"batch": 2' in metadata


class TestRefusals:
    @pytest.mark.parametrize("table", [SECOND, SECOND.take(pa.array(np.arange(200)[::-1]))])
    def test_the_same_batch_again(self, dataset, table, untouched):
        dataset.append(SECOND)
        with untouched(), pytest.raises(AlreadyRegistered, match="already, as edition 2"):
            dataset.append(table)

    def test_rows_of_the_registered_table(self, dataset, untouched):
        with untouched(), pytest.raises((AlreadyRegistered, ColumnError), match="already"):
            dataset.append(FIRST.slice(100))

    def test_a_key_that_was_there(self, vault, untouched):
        dataset = vault.register("people", FIRST, key="id", few_rows=True)
        dataset.append(SECOND)
        for start, repeats in ((299, 50), (499, 1)):
            with untouched(), pytest.raises(ColumnError, match=f"{repeats} rows have keys"):
                dataset.append(people(50, 9, start))
        dataset.append(people(50, 9, 500))

    def test_values_of_another_dataset(self, vault, dataset, untouched):
        vault.register("others", SECOND.drop_columns("sex"), drop=["id"], few_rows=True)
        with untouched(), pytest.raises(AlreadyRegistered, match="'others'"):
            dataset.append(SECOND)

    def test_appended_values_cannot_be_registered_elsewhere(self, vault, dataset, untouched):
        dataset.append(SECOND)
        with untouched(), pytest.raises(AlreadyRegistered, match="'people'"):
            vault.register("others", SECOND, drop=["id"], few_rows=True)

    def test_another_schema(self, dataset, untouched):
        for change, says in (
            (SECOND.drop_columns("wage"), "'wage' is missing"),
            (SECOND.append_column("x", pa.array(np.arange(200))), "'x' was not registered"),
            (SECOND.set_column(1, "age", SECOND["age"].cast("float64")), "'age' is of type"),
            (SECOND.slice(0, 0), "no rows"),
        ):
            with untouched(), pytest.raises(SourceError, match=says):
                dataset.append(change)

    def test_what_the_frozen_noise_does_not_fit(self, dataset, untouched):
        random = np.random.default_rng(5)
        wage, age = np.array(SECOND["wage"]), np.array(SECOND["age"])
        gaps = pa.array(wage, mask=random.random(200) < 0.1)
        for column, values, says in (
            ("wage", 3 * wage, r"copies at privacy 0\.50?1? would hide"),
            ("wage", gaps, "missing values"),
            ("wage", wage + 1e30, "too far from zero"),
            ("sex", np.where(age > 40, "f", "x"), "values that were not there"),
        ):
            place = SECOND.schema.get_field_index(column)
            changed = SECOND.set_column(place, column, pa.array(values))
            with untouched(), pytest.raises(SourceError, match=says):
                dataset.append(changed)

    def test_frequencies_that_draws_no_longer_hide(self, vault, untouched):
        """Where most draws are 'a', any other value that a copy shows is likely to be true."""

        def table(rows: int, rare: float) -> pa.Table:
            town = random.choice(list("abcde"), rows, p=[1 - 4 * rare, *[rare] * 4])
            return pa.table({"town": town, "x": random.normal(size=rows)})

        random = np.random.default_rng(4)
        dataset = vault.register("x", table(1000, 0.01), few_rows=True)
        dataset.append(table(300, 0.01))
        with untouched(), pytest.raises(Drifted, match="frequencies of 'town'"):
            dataset.append(table(300, 0.2))

    def test_a_relation_between_columns_that_no_longer_holds(self, vault, untouched):
        """Noise along the relation hides nothing across it."""
        random = np.random.default_rng(6)

        def table(rows: int, slip: float) -> pa.Table:
            a, b = random.normal(size=(2, rows))
            return pa.table({"a": a, "b": b, "sum": a + b + slip * random.normal(size=rows)})

        with pytest.warns(UserWarning, match="linear"):
            dataset = vault.register("sums", table(500, 0.0), few_rows=True)
        dataset.append(table(500, 0.0))
        with untouched(), pytest.raises(Drifted, match="linear combination"):
            dataset.append(table(500, 0.01))

    @pytest.mark.parametrize("seed", SEEDS)
    @pytest.mark.parametrize("rows", [1, 2, 60, 500, 4000])
    def test_a_category_that_tells_more_than_it_did(self, vault, untouched, seed, rows):
        """Each column by itself is as it was: only what they tell of each other changed."""
        random = np.random.default_rng(seed)

        def table(rows: int, told: float) -> pa.Table:
            x, own, other = random.normal(size=(3, rows))
            seen = np.where(random.random((2, rows)) < told, x, [own, other])
            one, two = np.digitize(seen, [-1, 0, 1]).astype("U1")
            return pa.table({"x": x, "one": one, "two": two})

        dataset = vault.register("x", table(4000, 0.2), few_rows=True)
        made = dataset.append(table(rows, 0.2))
        if rows >= 500:  # few rows may show it by chance
            assert made.drift.hidden["x"] > 0.4
            with untouched(), pytest.raises(Drifted, match="columns of other kinds"):
                dataset.append(table(rows, 1.0))

    def test_a_constant_that_varies(self, vault, untouched):
        random = np.random.default_rng(8)
        with pytest.warns(UserWarning, match="constant"):
            dataset = vault.register(
                "x", pa.table({"x": random.normal(size=99), "c": [1.0] * 99}), few_rows=True
            )
        with untouched(), pytest.raises(Drifted, match="'c' was constant"):
            dataset.append(pa.table({"x": random.normal(size=2), "c": [1.0, 2.0]}))

    @pytest.mark.parametrize("seed", SEEDS)
    def test_a_few_rows_like_the_others_are_accepted(self, vault, seed):
        """Whatever their variance and their order happen to be."""
        random = np.random.default_rng(seed)

        def table(rows: int) -> pa.Table:
            x = random.normal(size=rows)
            return pa.table({"x": x, "sign": np.where(x + random.normal(size=rows) > 0, "+", "-")})

        dataset = vault.register("x", table(2000), few_rows=True)
        for rows in (1, 2, 2, 3, 3, 5, 5, 8, 8, 13):
            dataset.append(table(rows))
        assert dataset.rows == 2050

    def test_drift_in_many_small_batches_adds_up(self, vault):
        random = np.random.default_rng(10)
        dataset = vault.register("x", pa.table({"x": random.normal(size=2000)}), few_rows=True)
        even = np.array([NormalDist(0, 1.25).inv_cdf((k + 0.5) / 20) for k in range(20)])
        batches = (pa.table({"x": random.permutation(even) + 1e-4 * k}) for k in range(60))
        with pytest.raises(Drifted, match="copies at privacy"):
            dataset.append_all(batches)
        assert len(dataset.editions) > 9  # no single batch shows it

    @pytest.mark.parametrize("seed", SEEDS)
    def test_honest_batches_of_any_size_pass(self, vault, seed):
        random = np.random.default_rng(seed)

        def table(rows: int) -> pa.Table:
            wage = np.exp(random.normal(10, 1, rows))  # long-tailed
            return pa.table({"wage": wage, "age": random.normal(40, 9, rows)})

        dataset = vault.register("x", table(5000), few_rows=True)
        for rows in (1, 2, 10, 100, 3000):
            dataset.append(table(rows))

    def test_a_closed_dataset(self, dataset, untouched):
        dataset.close()
        with untouched(), pytest.raises(DatasetClosed):
            dataset.append(SECOND)

    def test_no_message_shows_a_cell(self, dataset):
        canary = SECOND.set_column(4, "sex", pa.array(["canary"] * 200))
        with pytest.raises(CornerwaveError) as found:
            dataset.append(canary)
        assert "canary" not in str(found.value)


class TestVault:
    def test_two_at_once(self, vault, dataset):
        other = Vault.open(vault.path).dataset("people", source=FIRST)
        dataset.append(SECOND)
        with pytest.raises(VaultError, match="concurrently"):
            other.append(THIRD)
        Vault.open(vault.path).dataset("people").append(THIRD)
        assert [each.rows for each in vault.dataset("people").editions] == [300, 500, 550]

    def test_a_lost_file_of_keys_is_made_again(self, vault, untouched):
        dataset = vault.register("people", FIRST, key="id", few_rows=True)
        dataset.append(SECOND)
        files = list((vault.path / "keys").iterdir())
        before = {path: path.read_bytes() for path in files}
        assert len(files) == 2
        assert {len(b) // 8 for b in before.values()} == {203, 303}  # 8 bytes a row, 24 a block
        for path in files:
            path.unlink()
        with pytest.raises(ColumnError, match="50 rows have keys"):
            dataset.append(people(50, 9, 450))
        assert {path: path.read_bytes() for path in files} == before

    def test_an_edited_file_of_keys_is_noticed(self, vault):
        dataset = vault.register("people", FIRST, key="id", few_rows=True)
        [path] = (vault.path / "keys").iterdir()
        good = path.read_bytes()
        for place in (0, 800, len(good) - 1):
            path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
            with pytest.raises(LedgerDamaged, match="keys"):
                dataset.append(SECOND)
        path.write_bytes(good)
        dataset.append(SECOND)

    def test_an_older_mark_beside_the_chain_is_noticed(self, vault, dataset):
        import sqlite3

        dataset.append(SECOND)
        with sqlite3.connect(vault.path / "ledger.db") as outside:
            old = outside.execute("SELECT * FROM cornerwave_attachment").fetchall()
        dataset.append(THIRD)
        with sqlite3.connect(vault.path / "ledger.db") as outside:
            outside.execute("DELETE FROM cornerwave_attachment")
            outside.executemany("INSERT INTO cornerwave_attachment VALUES (?, ?, ?, ?)", old)
        with pytest.raises(LedgerDamaged, match="beside it"):
            dataset.append(people(50, 4, 900))

    def test_unregistering_removes_all_of_it(self, vault):
        dataset = vault.register("people", FIRST, key="id", few_rows=True)
        dataset.append(SECOND)
        vault.unregister("people")
        assert list((vault.path / "keys").iterdir()) == []
        vault.register("people", SECOND, key="id", few_rows=True)

    def test_nothing_of_the_batch_is_in_the_vault(self, vault):
        dataset = vault.register("people", FIRST, key="id", few_rows=True)
        dataset.append(SECOND)
        content = b"".join(p.read_bytes() for p in vault.path.rglob("*") if p.is_file())
        assert not re.search(rb"p3\d\d\b", content)


def test_marks_grow_as_if_all_rows_had_come_at_once(vault):
    secret = vault._key
    whole = pa.concat_tables([FIRST, SECOND, THIRD])
    surveyor, of_all = survey_of(whole, secret, key="id")
    _, part = survey_of(FIRST, secret, key="id")
    marks = surveyor.marks(part)
    for table in (SECOND, THIRD):
        marks = grown(marks, survey_of(table, secret, key="id")[1].marks)
    at_once = surveyor.marks(of_all)
    for one, two in zip(marks.columns, at_once.columns, strict=True):
        assert one.rows == two.rows
        assert None in (one.total, two.total) or one.total == two.total
        if one.values is not None and two.values is not None:
            assert one.values.below == two.values.below
            for name in ("ones", "twos", "more"):
                np.testing.assert_array_equal(getattr(one.values, name), getattr(two.values, name))
    assert TableMarks.from_json(marks.to_json()).to_json() == marks.to_json()


def test_spreads_add_up():
    random = np.random.default_rng(3)
    X = random.normal(size=(100, 3)) @ random.normal(size=(3, 3)) + 5
    parts = [Spread(len(x), x.mean(0), np.cov(x.T)) for x in (X[:30], X[30:95], X[95:])]
    total = parts[0] + parts[1] + parts[2]
    np.testing.assert_allclose(total.covariance, np.cov(X.T))
    np.testing.assert_allclose(total.mean, X.mean(0))
    again = Spread.read(total.to_bytes(), 3)
    assert replace(again, mean=0, covariance=0) == replace(total, mean=0, covariance=0)
    np.testing.assert_array_equal(again.covariance, total.covariance)
