from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from cornerwave import register
from cornerwave.errors import ColumnError, SingularCovariance, SourceError
from cornerwave.moments import Moments
from cornerwave.register import measure
from cornerwave.table.read import open_source
from cornerwave.vault import Key
from tests.conftest import decide, make_people

KEY = Key.unsafe_from_seed(1)


def registered(table, *, key=KEY, secret=bytes(32), progress=lambda rows: None, **roles):
    source = open_source(table)
    schema = decide(source.schema, **roles)
    return measure(source, schema, key=key, mark_secret=secret, progress=progress)


def test_moments_are_those_of_the_whole_table(people):
    frozen = registered(people, drop=["id"]).frozen
    X = np.column_stack([people[name].to_numpy() for name in ("age", "wage", "height")])
    np.testing.assert_allclose(frozen.covariance, Moments.of(X).covariance, rtol=1e-12)
    np.testing.assert_allclose(frozen.mean, np.nanmean(X, axis=0), rtol=1e-12)
    assert frozen.rows == people.num_rows


def test_progress_counts_every_row_once():
    seen = Counter()
    registered(pa.table({"x": np.arange(2**20 + 5.0)}), progress=lambda rows: seen.update(n=rows))
    assert seen["n"] == 2**20 + 5


def test_the_fingerprint_sees_one_cell_and_the_order(people):
    def fingerprint(table):
        return registered(table, drop=["id"]).frozen.fingerprint

    rows = list(range(people.num_rows))
    rows[3], rows[200] = rows[200], rows[3]
    wage = people["wage"].to_pylist()
    wage[17] = np.nextafter(wage[17], 1e9)
    edited = people.set_column(2, "wage", pa.array(wage))
    assert fingerprint(people) == fingerprint(make_people(300))
    assert len({fingerprint(t) for t in (people, people.take(rows), edited)}) == 3


def test_with_a_key_column_the_fingerprint_is_free_of_the_order(people):
    def fingerprint(table):
        source = open_source(table)
        schema = decide(source.schema, key="id")
        found = measure(source, schema, key=KEY, mark_secret=bytes(32))
        return found.frozen.fingerprint

    assert fingerprint(people.take(list(reversed(range(300))))) == fingerprint(people)
    # The same values with two keys exchanged are another table.
    ids = people["id"].to_pylist()
    ids[0], ids[1] = ids[1], ids[0]
    assert fingerprint(people.set_column(0, "id", [ids])) != fingerprint(people)


def test_the_fingerprint_hangs_on_the_key(people):
    one, two = (registered(people, key=Key.generate(), drop=["id"]).frozen for _ in range(2))
    assert one.fingerprint != two.fingerprint


def test_marks_know_values_in_any_order_under_any_name(people):
    marks = dict(registered(people, drop=["id"]).marks)
    shuffled = people.take(np.random.default_rng(1).permutation(300)).rename_columns(
        ["id", "a", "b", "c"]
    )
    assert set(dict(registered(shuffled, drop=["id"]).marks)) == set(marks)
    assert set(dict(registered(people, secret=bytes(31) + b"x", drop=["id"]).marks)).isdisjoint(
        marks
    )


def test_constant_columns_warn_by_name_and_leave_no_mark():
    table = pa.table({"x": [1.0, 2.0, 4.0], "flat": [0.1] * 3})
    with pytest.warns(SingularCovariance, match="column flat: constant"):
        found = registered(table)
    assert [column for _, column in found.marks] == ["x"]


def test_collinear_columns_warn_by_name():
    x = np.array([1.0, 2.0, 4.0, 9.0])
    with pytest.warns(SingularCovariance, match="column twice: a linear function"):
        registered(pa.table({"x": x, "twice": 2 * x}))


@pytest.mark.parametrize("rows", [0, 1])
def test_fewer_than_two_rows_are_refused(rows):
    with pytest.raises(SourceError, match=f"at least 2 rows to be perturbed, this has {rows}"):
        registered(pa.table({"x": np.arange(float(rows))}))


def test_a_column_of_fewer_than_two_values_is_refused():
    table = pa.table({"x": [1.0, 2.0, 3.0], "y": [None, 5.0, None]})
    with pytest.raises(ColumnError, match="'y' has fewer than 2 values"):
        registered(table)


class TestKeys:
    def measured(self, ids):
        table = pa.table({"id": ids, "x": np.arange(float(len(ids)))})
        source = open_source(table)
        schema = decide(source.schema, key="id")
        return measure(source, schema, key=KEY, mark_secret=bytes(32))

    def test_repeated_keys_are_counted_and_not_shown(self):
        with pytest.raises(ColumnError, match="'id' is not unique: 2 rows repeat a key") as refusal:
            self.measured(["secret-a", "b", "secret-a", "secret-a"])
        assert "secret" not in str(refusal.value)

    @pytest.mark.parametrize("ids", [[1, None, 3], ["a", "b", None]])
    def test_missing_keys_are_refused(self, ids):
        with pytest.raises(ColumnError, match="'id' has 1 missing values"):
            self.measured(ids)

    @pytest.mark.parametrize("at_once", [1, 2, 7, 1000])
    def test_repeats_are_found_however_few_ids_fit_into_memory(self, monkeypatch, at_once):
        monkeypatch.setattr(register, "IDS_IN_MEMORY", at_once)
        self.measured(list(range(100)))
        with pytest.raises(ColumnError, match="1 rows repeat"):
            self.measured([*range(99), 0])

    def test_keys_far_apart_in_the_table_are_compared(self):
        rows = 2**20 + 10
        ids = np.arange(rows)
        self.measured(ids)
        ids[-1] = ids[0]
        with pytest.raises(ColumnError, match="1 rows repeat"):
            self.measured(ids)
