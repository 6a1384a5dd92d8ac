"""New editions of a whole table: what did not change keeps its noise, what did is hidden."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from cornerwave.audit import audit
from cornerwave.documents import page as as_page
from cornerwave.engines import differences
from cornerwave.errors import (
    AlreadyRegistered,
    ColumnError,
    Drifted,
    LedgerDamaged,
    NoSuchEdition,
    SourceChanged,
    SourceError,
    VaultError,
)
from cornerwave.levels import Privacy
from cornerwave.miner import Copy
from cornerwave.noise import ChangedRows, Transition
from cornerwave.outlook import levels_document, outlooks
from cornerwave.report import write_report
from cornerwave.spine.rows import Group, row_ids
from cornerwave.vault import Vault, _updates
from tests.tables import KEY_AS_IS
from tests.test_editions import people

ROWS = 2000
FIRST = people(ROWS, 1)
MOVED = np.arange(0, ROWS, 10)


def changed(table: pa.Table, rows=MOVED, seed: int = 1, size: float = 200.0) -> pa.Table:
    """The table with other wages in some rows."""
    wage = np.array(table["wage"]).copy()
    wage[rows] += np.round(np.random.default_rng(seed).normal(0, size, len(rows)), 2)
    return table.set_column(2, "wage", pa.array(wage))


def shuffled(table: pa.Table, seed: int = 0) -> pa.Table:
    return table.take(pa.array(np.random.default_rng(seed).permutation(table.num_rows)))


SECOND = pa.concat_tables([changed(FIRST).slice(0, 100), changed(FIRST).slice(150)])
SECOND = pa.concat_tables([SECOND, people(40, 5, 5000)])


@pytest.fixture
def dataset(vault):
    return vault.register("people", FIRST, **KEY_AS_IS)


def noise(copy: pa.Table, table: pa.Table, column: str = "wage") -> dict[str, float]:
    """The noise of each row by its key."""
    values = dict(zip(table["id"].to_pylist(), table[column].to_pylist(), strict=True))
    shown = zip(copy["id"].to_pylist(), copy[column].to_pylist(), strict=True)
    return {key: value - values[key] for key, value in shown if value is not None}


class TestUpdate:
    @pytest.mark.parametrize("how", ["in order", "shuffled", "in a file"])
    def test_what_came_went_and_changed(self, dataset, how, at_a_time):
        new = SECOND if how == "in order" else shuffled(SECOND)
        if how == "in a file":
            at_a_time(BUCKET_ROWS=0, BUCKET_BYTES=0)
        before = dataset.release(to="ann", privacy=0.5).to_arrow()
        edition = dataset.update(new)
        counts = edition.changes
        moved = {f"p{row}" for row in MOVED if not 100 <= row < 150}
        assert (counts.came, counts.went, counts.changed) == (40, 50, len(moved))
        assert counts.columns == {"wage": len(moved)}
        after = dataset.release(to="ann", privacy=0.5).to_arrow()
        assert after["id"].to_pylist() == new["id"].to_pylist()
        one, two = noise(before, FIRST), noise(after, new)
        both = one.keys() & two.keys()
        # bit for bit: the values shown are those shown before
        shown = [
            dict(zip(c["id"].to_pylist(), c["wage"].to_pylist(), strict=True))
            for c in (before, after)
        ]
        assert all((shown[0][key] == shown[1][key]) == (key not in moved) for key in both)
        assert all(abs(one[key] - two[key]) > 1e-6 for key in moved)
        assert before.num_rows == ROWS

    def test_columns_that_did_not_change_keep_their_noise(self, dataset):
        before = dataset.release(to="ann", privacy=0.5).to_arrow()
        dataset.update(changed(FIRST))
        after = dataset.release(to="ann", privacy=0.5).to_arrow()
        for name in ("id", "age", "height", "sex"):
            assert after[name].equals(before[name]), name

    def test_a_category_that_changes_back_gives_the_old_answer(self, dataset):
        other = {"f": "m", "m": "f"}
        sex = [other[s] if row % 2 else s for row, s in enumerate(FIRST["sex"].to_pylist())]
        there = FIRST.set_column(4, "sex", pa.array(sex))
        copies = [dataset.release(to="ann", privacy=0.5).to_arrow()]
        for table in (there, FIRST):
            dataset.update(table)
            copies.append(dataset.release(to="ann", privacy=0.5).to_arrow())
        assert copies[0].equals(copies[2])
        assert copies[0]["sex"].slice(0, 1).equals(copies[1]["sex"].slice(0, 1))
        assert not copies[0]["sex"].equals(copies[1]["sex"])

    def test_every_edition_can_be_made_again(self, vault, tmp_path):
        tables = [FIRST, changed(FIRST), changed(changed(FIRST), MOVED[::2], 2)]
        for number, table in enumerate(tables, 1):
            papq.write_table(table, tmp_path / f"{number}.parquet")
        dataset = vault.register("people", tmp_path / "1.parquet", key="id")
        made = [dataset.release(to="ann", privacy=0.5).write(tmp_path / "c1.parquet")]
        for number in (2, 3):
            dataset.update(tmp_path / f"{number}.parquet")
            made.append(
                dataset.release(to="ann", privacy=0.5).write(tmp_path / f"c{number}.parquet")
            )
        again = Vault.open(vault.path).dataset("people").again("ann")
        for number, (copy, _) in enumerate(again):
            path = copy.write(tmp_path / f"again{number}.parquet")
            assert path.read_bytes() == made[number].read_bytes()

    def test_the_noise_is_that_of_the_rows_whatever_their_order(self, vault, at_a_time):
        """Also in a new ledger, and with rows that waited in a file, in many buckets."""
        shown = []
        for new in (SECOND, shuffled(SECOND)):
            dataset = vault.register("people", FIRST, key="id")
            dataset.update(new)
            shown.append(dataset.release(to="ann", privacy=0.5).to_arrow().sort_by("id"))
            (vault.path / "ledger.db").unlink()
            vault = Vault.create(vault.path, new_ledger=True)
            at_a_time(BUCKET_ROWS=0, BUCKET_BYTES=0)
        assert shown[0].equals(shown[1])

    def test_changes_stay_hidden_in_copies(self, dataset):
        """The adversary knows which rows changed and regresses the change on all copies."""
        rows = np.arange(ROWS)
        new = changed(FIRST, rows, seed=3, size=150.0)
        one = np.array(dataset.release(to="ann", privacy=0.5).to_arrow()["wage"], dtype=float)
        dataset.update(new)
        two = np.array(dataset.release(to="ann", privacy=0.5).to_arrow()["wage"], dtype=float)
        truth = np.array(new["wage"]) - np.array(FIRST["wage"])
        ours, reused = (
            1 - np.corrcoef(truth, copy - one)[0, 1] ** 2 for copy in (two, one + truth)
        )
        allowed = 5 * 2 / np.sqrt(ROWS)  # five standard errors of a squared correlation
        assert ours > 0.45 - allowed
        assert reused < 1e-9  # the same noise: the change is exposed exactly

    def test_rows_that_only_went(self, dataset):
        edition = dataset.update(FIRST.slice(0, ROWS - 5))
        assert edition.changes.went == 5
        assert edition.changes.changed == 0
        assert dataset.release(to="ann", privacy=0.5).to_arrow().num_rows == ROWS - 5

    def test_append_and_update_follow_each_other(self, dataset):
        dataset.append(people(60, 7, 7000))
        whole = pa.concat_tables([FIRST, people(60, 7, 7000)])
        two = dataset.release(to="ann", privacy=0.5).to_arrow()
        dataset.update(changed(whole))
        three = dataset.release(to="ann", privacy=0.5).to_arrow()
        dataset.append(people(60, 8, 8000))
        four = dataset.release(to="ann", privacy=0.5).to_arrow()
        assert [e.rows for e in dataset.editions] == [ROWS, ROWS + 60, ROWS + 60, ROWS + 120]
        assert four.slice(0, ROWS + 60).equals(three)
        assert three["age"].equals(two["age"])
        batch = dataset.release(to="ann", privacy=0.5, batch=4).to_arrow()
        assert batch.equals(four.slice(ROWS + 60))
        with pytest.raises(NoSuchEdition, match="which has no batch; name it"):
            dataset.release(to="ann", privacy=0.5, batch=3)

    def test_a_value_that_was_missing_gets_other_noise(self, dataset):
        height = FIRST["height"].to_pylist()
        gone = FIRST.set_column(3, "height", pa.array([None] * 100 + height[100:], pa.float64()))
        back = [h if h is None else h + 1.0 for h in height[:100]] + height[100:]
        new = FIRST.set_column(3, "height", pa.array(back))
        one = noise(dataset.release(to="ann", privacy=0.5).to_arrow(), FIRST, "height")
        dataset.update(gone)
        dataset.update(new)
        three = noise(dataset.release(to="ann", privacy=0.5).to_arrow(), new, "height")
        seen = [f"p{row}" for row in range(100) if height[row] is not None]
        assert all(abs(one[key] - three[key]) > 1e-6 for key in seen)

    def test_hidden_gaps_are_filled_in_by_draws_that_do_not_tell_on_others(self, vault):
        """A draw follows the row's other numbers: where these change, its noise is renewed."""
        dataset = vault.register("people", FIRST, key="id", hide_missing=["height"])
        one = dataset.release(to="ann", privacy=0.5, raw=True).to_arrow()
        dataset.update(changed(FIRST))
        two = dataset.release(to="ann", privacy=0.5, raw=True).to_arrow()
        gaps = [r for r in MOVED.tolist() if FIRST["height"][r].as_py() is None]
        moved = np.array(two["height"])[gaps] - np.array(one["height"])[gaps]
        wage = np.array(changed(FIRST)["wage"])[gaps] - np.array(FIRST["wage"])[gaps]
        assert len(gaps) >= 5
        assert abs(np.corrcoef(moved, wage)[0, 1]) < 0.999999


class TestReturns:
    """Rows that went and come back, with the same values or with others."""

    GONE = np.arange(0, ROWS, 2)

    @pytest.fixture
    def copies(self, dataset):
        """Wages of the rows before and after they were gone, and the copies at privacy 0.5."""
        same, other = self.GONE[::2], self.GONE[1::2]
        wage = np.array(FIRST["wage"]).copy()
        wage[other] = np.random.default_rng(6).permutation(wage[other])
        there = np.setdiff1d(np.arange(ROWS), self.GONE)
        back = FIRST.set_column(2, "wage", pa.array(wage))
        one = dataset.release(to="ann", privacy=0.5, raw=True).to_arrow()
        dataset.update(FIRST.take(pa.array(there)))
        self.edition = dataset.update(back)
        two = dataset.release(to="ann", privacy=0.5, raw=True).to_arrow()
        values = np.array([FIRST["wage"], wage])
        return values, np.array([one["wage"], two["wage"]]), same, other

    def test_counts(self, copies):
        changes = self.edition.changes
        assert (changes.came, changes.returned, changes.went) == (1000, 1000, 0)
        assert changes.changed == 0
        assert self.edition.keys.count == 0  # none that was not known

    def test_the_same_values_cannot_be_averaged(self, copies):
        values, shown, same, _ = copies
        noise = (shown - values)[:, same]
        fresh = np.array([noise[0], np.roll(noise[0], 1)])
        left = []
        for pair in (noise, fresh):
            S = np.cov(pair)
            left.append(1 / np.linalg.inv(S).sum() / S[0, 0])  # by the best weighted mean
        # 0.95 and 0.5 of the first copy's noise; 0.82 hides 0.45. Five standard errors of a
        # squared correlation are 0.1 for the one and 0.22 for the other
        assert left[0] > 0.82
        assert left[1] < 0.82

    def test_other_values_are_not_exposed(self, copies):
        values, shown, _, other = copies
        change = np.diff(values[:, other], axis=0)[0]
        hidden = [
            1 - np.corrcoef(change, seen)[0, 1] ** 2
            for seen in (np.diff(shown[:, other], axis=0)[0], change)  # the last: noise reused
        ]
        assert hidden[0] > 0.45 - 5 * 2 / np.sqrt(len(other))
        assert hidden[1] < 1e-9

    def test_rows_that_stayed_keep_their_noise(self, copies):
        _, shown, _, _ = copies
        stayed = np.setdiff1d(np.arange(ROWS), self.GONE)
        assert np.array_equal(shown[0, stayed], shown[1, stayed])

    def test_keys_are_known_from_the_tables_alone(self, vault, tmp_path):
        """The files of keys are made again: rows that came back belong to their first edition."""
        third = pa.concat_tables([SECOND, FIRST.slice(100, 50), people(9, 9, 9000)])
        tables = [FIRST, SECOND, third]
        for number, table in enumerate(tables):
            papq.write_table(table, tmp_path / f"{number}.parquet")
        dataset = vault.register("people", tmp_path / "0.parquet", key="id")
        dataset.update(tmp_path / "1.parquet")
        assert dataset.update(tmp_path / "2.parquet").changes.returned == 50
        files = {path: path.read_bytes() for path in (vault.path / "keys").iterdir()}
        for path in files:
            path.unlink()
        with pytest.raises(ColumnError, match="40 rows have keys"):
            dataset.append(people(40, 7, 5000))
        assert {path: path.read_bytes() for path in (vault.path / "keys").iterdir()} == files

    def test_a_batch_cannot_bring_them_back(self, dataset, untouched):
        dataset.update(SECOND)
        with untouched(), pytest.raises(ColumnError, match=r"50 rows have keys .* come back"):
            dataset.append(FIRST.slice(100, 50))


class TestReaders:
    """What recipients, auditors and coalitions know of editions."""

    def test_a_miner_allows_for_the_noise_of_changed_rows(self, vault):
        """Every row changed: the noise of the last edition is more than the first one's."""
        random, rows = np.random.default_rng(4), 20_000
        ids, x = [f"p{row}" for row in range(rows)], random.normal(size=rows)
        tables = [pa.table({"id": ids, "x": x, "y": random.normal(size=rows)})]
        for _ in range(3):
            x = 0.5 * x + np.sqrt(0.75) * random.normal(size=rows)
            tables.append(pa.table({"id": ids, "x": x, "y": tables[0]["y"]}))
        dataset = vault.register("x", tables[0], key="id")
        for table in tables[1:]:
            dataset.update(table)
        copy = dataset.release(to="ann", privacy=0.5, raw=True)
        excess = copy.dataset.recipe([], copy.rows).frozen.excess
        assert excess[0, 0] > 0.2  # or this would show nothing
        shown = copy.to_arrow()
        metadata = {
            "noise": 1.0,
            "edition": 4,
            "columns": {
                "id": {"role": "key"},
                "y": {"role": "perturbed"},
                "x": {"role": "perturbed", "excess": {"x": excess[0, 0]}},
            },
        }
        found = Copy.open(shown, metadata=metadata)
        right = found.covariance()["x", "x"]
        without = Copy.open(shown, noise=1.0, metadata={}).covariance()["x", "x"]
        true = float(np.var(x))
        assert (
            abs(right.value - true) < 5 * right.standard_error + 0.02
        )  # and a step of what is stated
        assert abs(without.value - true) > 0.1
        assert found.edition == 4

    def test_a_coalition_of_editions(self, dataset):
        dataset.release(to="ann", privacy=0.5).to_arrow()
        assert dataset.coalition(["ann"]).changing == {}
        dataset.update(changed(FIRST, np.arange(ROWS), size=150.0))
        dataset.release(to="bob", privacy=0.5).to_arrow()
        dataset.release(to="eve", privacy=0.8).to_arrow()
        alone, both = (dataset.coalition(who) for who in (["bob"], ["ann", "bob", "eve"]))
        assert both.joint_privacy == both.best_privacy  # of a constant value
        assert set(both.changing) == {"value", "mean", "change"}
        assert min(both.changing.values()) >= 0.45
        assert both.changing["change"] < alone.changing["change"]

    def test_rows_that_change_in_other_columns_each_time(self, dataset):
        """No history is assumed in which a value changes while its noise does not."""
        dataset.update(changed(FIRST, np.arange(ROWS), size=150.0))
        heights = enumerate(FIRST["height"].to_pylist())
        height = [h if h is None else h + row % 7 for row, h in heights]
        now = changed(FIRST, np.arange(ROWS), size=150.0)
        dataset.update(now.set_column(3, "height", pa.array(height)))
        found = dataset.changing(dataset.level_of(Privacy(0.5)))
        assert min(found.values()) >= 0.45

    def test_levels_and_reports_name_editions(self, dataset, tmp_path):
        dataset.release(to="ann", privacy=0.5).to_arrow()
        first = levels_document("people", outlooks(dataset.frozen), editions=dataset.editions)
        assert "Editions" not in as_page(first)
        dataset.append(people(60, 7, 7000))
        dataset.update(changed(pa.concat_tables([FIRST, people(60, 7, 7000)])))
        dataset.release(to="bob", privacy=0.7).to_arrow()
        found = outlooks(dataset.frozen)
        left = [dataset.changing(each.level) for each in found]
        page = as_page(levels_document("people", found, editions=dataset.editions, changing=left))
        for word in ("edition 3", "Editions", "appended", "updated", "any change"):
            assert word in page
        assert [each["value"] for each in left] == sorted(each["value"] for each in left)
        report = write_report(dataset, tmp_path / "r.html").read_text()
        for word in ("edition 3", "Editions", "appended", "any change", ">edition<"):
            assert word in report
        external = write_report(dataset, tmp_path / "e.html", external=True).read_text()
        assert "edition 3" in external
        assert "appended" not in external  # what came and changed is for the owner

    @pytest.mark.slow
    def test_an_audit_takes_one_edition(self, dataset, tmp_path):
        papq.write_table(FIRST, tmp_path / "first.parquet")
        papq.write_table(changed(FIRST), tmp_path / "second.parquet")
        one = dataset.release(to="ann", privacy=0.5).write(tmp_path / "1.parquet")
        dataset.update(changed(FIRST))
        two = dataset.release(to="bob", privacy=0.5).write(tmp_path / "2.parquet")
        three = dataset.release(to="eve", privacy=0.8).write(tmp_path / "3.parquet")
        with pytest.raises(SourceError, match="copies of editions 1, 2"):
            audit(tmp_path / "first.parquet", [one, two], key="id")
        assert audit(tmp_path / "second.parquet", [two, three], key="id").sound


class TestRefusals:
    def test_without_a_key(self, vault, untouched):
        dataset = vault.register("people", FIRST, drop=["id"])
        with untouched(), pytest.raises(ColumnError, match="no key column"):
            dataset.update(SECOND)

    def test_the_same_table_again(self, dataset, untouched):
        for table in (FIRST, shuffled(FIRST)):
            with untouched(), pytest.raises(AlreadyRegistered, match=r"edition 1 .* already"):
                dataset.update(table)
        dataset.update(SECOND)
        with untouched(), pytest.raises(AlreadyRegistered, match=r"edition 2 .* already"):
            dataset.update(SECOND)

    def test_an_old_edition_as_source(self, dataset, untouched):
        dataset.update(SECOND)
        for old, says in ((FIRST, "it is edition 1"), (changed(SECOND, MOVED[:3]), "differs")):
            with untouched(), pytest.raises(SourceChanged, match=says):
                dataset.update(changed(SECOND, MOVED[:50], seed=9), old=old)
        dataset.update(changed(SECOND, MOVED[:50], seed=9), old=shuffled(SECOND))

    def test_the_new_table_in_place_of_the_old(self, vault, tmp_path):
        papq.write_table(FIRST, tmp_path / "people.parquet")
        dataset = vault.register("people", tmp_path / "people.parquet", key="id")
        papq.write_table(SECOND, tmp_path / "people.parquet")
        with pytest.raises(SourceChanged, match="name its place"):
            dataset.update(tmp_path / "people.parquet")
        dataset.update(tmp_path / "people.parquet", old=FIRST)
        assert dataset.release(to="a", privacy=0.5).to_arrow().num_rows == SECOND.num_rows

    @pytest.mark.parametrize("mixed", [False, True])
    @pytest.mark.parametrize("values", ["equal", "other", "those of before"])
    @pytest.mark.parametrize("row", [7, 10, -1], ids=["stayed", "changed", "came"])
    @pytest.mark.first(4)
    def test_a_key_twice(self, dataset, untouched, mixed, values, row):
        again = SECOND.slice(row % SECOND.num_rows, 1)
        if values == "other":
            again = changed(again, np.array([0]), seed=3)
        if values == "those of before":
            again = FIRST.slice(row % ROWS, 1).set_column(0, "id", again["id"])
        twice = pa.concat_tables([SECOND, again])
        twice = shuffled(twice) if mixed else twice
        with untouched(), pytest.raises(ColumnError, match=r"not unique"):
            dataset.update(twice)

    def test_a_key_that_comes_back_is_there_once(self, dataset, untouched):
        gone = FIRST.slice(120, 1)  # in the first edition alone
        dataset.update(SECOND)
        with untouched(), pytest.raises(ColumnError, match="not unique"):
            dataset.update(pa.concat_tables([SECOND, gone, gone]))
        assert dataset.update(pa.concat_tables([SECOND, gone])).changes.returned == 1

    @pytest.mark.parametrize("which", ["old", "new"])
    @pytest.mark.parametrize("how", ["a value", "more rows", "fewer rows"])
    def test_a_table_that_changes_while_it_is_read(
        self, vault, untouched, tmp_path_factory, monkeypatch, which, how
    ):
        tables = tmp_path_factory.mktemp("tables")
        for name, table in (("old", FIRST), ("new", SECOND)):
            papq.write_table(table, tables / f"{name}.parquet")
        dataset = vault.register("people", tables / "old.parquet", key="id")
        compare = _updates.compare

        def compare_and_change(*args):
            found, table = compare(*args), {"old": FIRST, "new": SECOND}[which]
            others = {
                "a value": changed(table, MOVED[:1], seed=8),
                "more rows": pa.concat_tables([table, people(1, 9, 8000)]),
                "fewer rows": table.slice(0, 10),
            }
            papq.write_table(others[how], tables / f"{which}.parquet")
            return found

        monkeypatch.setattr(_updates, "compare", compare_and_change)
        with untouched(), pytest.raises(SourceChanged, match="while it was read"):
            dataset.update(tables / "new.parquet")

    def test_another_schema_and_drift(self, dataset, untouched):
        place = SECOND.schema.get_field_index("sex")
        strange = SECOND.set_column(place, "sex", pa.array(["x"] * SECOND.num_rows))
        far = changed(SECOND, np.arange(SECOND.num_rows), size=5000.0)
        for table, error, says in (
            (SECOND.drop_columns("wage"), SourceError, "missing"),
            (strange, Drifted, "not there at registration"),
            (far, Drifted, "would hide"),
        ):
            with untouched(), pytest.raises(error, match=says):
                dataset.update(table)

    def test_two_at_once(self, vault, dataset):
        other = Vault.open(vault.path).dataset("people", source=FIRST)
        dataset.update(SECOND)
        with pytest.raises(VaultError, match="concurrently"):
            other.update(changed(FIRST, seed=4))
        assert len(vault.dataset("people").editions) == 2

    @pytest.mark.parametrize("what", ["DELETE FROM", "UPDATE"])
    def test_lost_or_edited_changes_are_noticed_before_a_release(
        self, vault, dataset, tmp_path, what
    ):
        import sqlite3

        dataset.release(to="ann", privacy=0.5, edition=1).to_arrow()
        dataset.update(SECOND)
        statement = {
            "DELETE FROM": "DELETE FROM cornerwave_attachment WHERE name = 'changes:2'",
            "UPDATE": "UPDATE cornerwave_attachment SET content = x'00' WHERE name = 'changes:2'",
        }[what]
        with sqlite3.connect(vault.path / "ledger.db") as outside:
            outside.execute(statement)
        opened = vault.dataset("people", source=SECOND)
        with pytest.raises(LedgerDamaged, match="changes of edition 2"):
            opened.release(to="ann", privacy=0.6).write(tmp_path / "copy.parquet")
        assert not (tmp_path / "copy.parquet").exists()
        assert len(opened.holdings) == 1


def test_changed_rows_are_kept_as_they_are():
    random = np.random.default_rng(2)
    cells = random.random((11, 50)) < 0.3
    carry = random.normal(size=(2, 11))
    rule = Transition((0, 2), carry, carry, fresh=np.eye(2), remainder=np.eye(2))
    back = random.random(50) < 0.2
    hashes = random.integers(0, 2**64, 50, dtype=np.uint64)
    rows = ChangedRows.of(hashes, cells, [rule], back=back, returning=[rule, rule])
    again = ChangedRows.read(rows.to_bytes())
    np.testing.assert_array_equal(again.hashes, rows.hashes)
    np.testing.assert_array_equal(again.cells, rows.cells)
    np.testing.assert_array_equal(again.kinds, rows.kinds)
    np.testing.assert_array_equal(again.back, back[np.argsort(hashes)])
    assert (again.kinds[again.back & again.cells.any(axis=0)] >= 1).all()
    np.testing.assert_array_equal(again.rules[0].carry, rule.carry)
    assert (np.diff(rows.hashes.astype(object)) > 0).all()
    rules = len(json.dumps([rule.to_json()] * 3))
    assert len(rows.to_bytes()) < 50 * 10 + rules + 100  # 8 bytes a row, and a bit a column


@pytest.mark.parametrize("at_once", [-1, 100, 1 << 18])  # -1: also the last bucket ends a part
@pytest.mark.parametrize("held", [0, 1 << 16, 1 << 28])
@pytest.mark.parametrize("order", ["the same", "shuffled", "odd ones later"])
@pytest.mark.first(6)
def test_all_differences_are_found_in_any_order(vault, at_a_time, tmp_path, at_once, held, order):
    """Against the rows themselves, taken by their places."""
    from cornerwave.engines import BatchSurveyor, batch_order
    from cornerwave.sources import open_source
    from cornerwave.spine.rows import RowSecrets

    # groups of 1,024 rows
    at_a_time(GROUP_CELLS=1, BUCKET_BYTES=held, BUCKET_ROWS=1000, CHANGED_ROWS=at_once)
    frozen = vault.register("people", FIRST, key="id").frozen
    schema = frozen.schema
    secrets = RowSecrets.of(vault._key.derive)
    big, random = people(5000, 3), np.random.default_rng(1)
    rows = random.permutation(5000)[:4900]
    if order != "shuffled":
        rows = np.sort(rows)
    if order == "odd ones later":
        rows = np.concatenate([rows[::2], rows[1::2]])
    moved = np.arange(0, 4900, 7)
    new = pa.concat_tables([changed(big.take(pa.array(rows)), moved), people(30, 8, 9000)])
    old, after = open_source(big), open_source(new)
    compared = differences.compare(old, after, schema, secrets, tmp_path, batch_order(schema))
    gone = np.setdiff1d(np.arange(5000), rows)
    assert np.flatnonzero(compared.alone[0].rows).tolist() == sorted([*gone, *rows[moved]])
    assert np.flatnonzero(compared.alone[1].rows).tolist() == [*moved, *range(4900, 4930)]
    surveyor, seen = BatchSurveyor(schema, frozen.scales, secrets), []
    with differences.DifferingRows(surveyor, tmp_path) as rows_that_differ:
        rows_that_differ.read_old(old, compared.alone[0])
        surveys = rows_that_differ.survey_new(after, compared.alone[1], seen.append)
        found = list(rows_that_differ.joined())
    assert [each.moments.rows for each in surveys] == [len(moved), 30]
    assert sum(len(each) for each in seen) == len(moved) + 30
    assert sum(len(each.went) for each in found) == len(gone)
    every = {
        name: words_by_id(*(getattr(each, name) for each in found))
        for name in ("old", "new", "came")
    }
    truth = {
        name: words_by_id(row_words(table, schema, secrets))
        for name, table in (
            ("old", big.take(pa.array(rows[moved]))),
            ("new", new.take(pa.array(moved))),
            ("came", people(30, 8, 9000)),
        )
    }
    assert every == truth
    for each in found:
        np.testing.assert_array_equal(each.old.ids, each.new.ids)


def row_words(table, schema, secrets):
    group = Group.of(row_ids(0, table, schema, secrets), table, schema, secrets)
    group.recognised(secrets)
    return differences.RowWords(group.ids, group.words)


def words_by_id(*some) -> dict[tuple, list]:
    return {
        tuple(id_): words
        for rows in some
        for id_, words in zip(rows.ids.tolist(), rows.words.T.tolist(), strict=True)
    }
