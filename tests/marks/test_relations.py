"""A table that is computed from another is recognised; one that is merely like it is not."""

import numpy as np
import pyarrow as pa
import pytest

from cornerwave.errors import AlreadyRegistered, NoSuchDataset
from cornerwave.ledger import Key
from cornerwave.reuse import TableMarks, grown, related, repeated
from cornerwave.vault import Vault
from tests.conftest import survey_of
from tests.marks.test_repeats import marks_of

ROWS = 600


def patients(rng, rows=ROWS):
    """A key, two measurements that hang together, a bill with a long tail, whole years."""
    ids = [f"p{number:05}" for number in rng.permutation(10 * rows)[:rows]]
    systolic = rng.normal(130, 15, rows)
    return pa.table(
        {
            "id": ids,
            "systolic": systolic,
            "diastolic": 0.5 * systolic + rng.normal(15, 8, rows),
            "bill": rng.lognormal(7, 1, rows),
            "age": rng.integers(18, 90, rows),
        }
    )


def column(table, name):
    return table.column(name).to_numpy().astype(np.float64)


def beside(table, **columns):
    """Columns beside the key of a table."""
    return pa.table({"id": table.column("id"), **columns})


# --- computed from it -------------------------------------------------------------------


def sum_and_difference(table, rng):
    a, b = column(table, "systolic"), column(table, "diastolic")
    return beside(table, total=a + b, pulse=a - b)


def other_units(table, rng):
    return beside(table, kpa=column(table, "systolic") * 0.133322)


def rounded_units(table, rng):
    return beside(table, kpa=np.round(column(table, "systolic") * 0.133322, 1))


def logarithm(table, rng):
    return beside(table, log_bill=np.log(column(table, "bill")))


def descending_ranks(table, rng):
    return beside(table, place=np.argsort(np.argsort(-column(table, "bill"))).astype(float))


def a_sum_among_others(table, rng):
    total = column(table, "systolic") + column(table, "age")
    return beside(
        table, x=rng.normal(0, 1, len(total)), score=total, y=rng.normal(0, 1, len(total))
    )


def hidden_in_new_columns(table, rng):
    """No column is a function of the other table's, but their difference is."""
    z = 30 * rng.normal(0, 1, table.num_rows)
    return beside(table, masked=column(table, "systolic") + z, mask=z)


COMPUTED = {
    each.__name__: each
    for each in (
        sum_and_difference,
        other_units,
        rounded_units,
        logarithm,
        descending_ranks,
        a_sum_among_others,
        hidden_in_new_columns,
    )
}


# --- merely like it ---------------------------------------------------------------------


def others(table, rng):
    return patients(rng, table.num_rows).set_column(0, "id", table.column("id"))


def correlated(rho):
    def change(table, rng):
        a = column(table, "systolic")
        noise = np.sqrt(1 / rho**2 - 1) * a.std() * rng.normal(0, 1, len(a))
        return beside(table, again=a + noise)

    return change


def sums_with_noise(table, rng):
    a, b = column(table, "systolic"), column(table, "diastolic")
    e = 0.1 * a.std() * rng.normal(0, 1, (2, len(a)))
    return beside(table, total=a + b + e[0], pulse=a - b + e[1])


def the_same_outlier(table, rng):
    """Both have their largest value in one row, where all that they have in common is."""
    x = rng.normal(0, 1, table.num_rows)
    x[np.argmax(column(table, "bill"))] = 1e6
    return beside(table, x=x)


LIKE = {
    "others": others,
    "correlated .95": correlated(0.95),
    "correlated .99": correlated(0.99),
    "sums with noise": sums_with_noise,
    "the same outlier": the_same_outlier,
}

WAYS = {
    "by key, shuffled": ({"key": "id"}, lambda t, rng: t.take(rng.permutation(t.num_rows))),
    "by key, half of the rows": (
        {"key": "id"},
        lambda t, rng: t.take(rng.permutation(t.num_rows)[: t.num_rows // 2]),
    ),
    "by position": ({"drop": ["id"]}, lambda t, rng: t),
    "by position, the first half": ({"drop": ["id"]}, lambda t, rng: t.slice(0, t.num_rows // 2)),
}


def found(change, way, rows=ROWS, seed=0):
    rng, key = np.random.default_rng([rows, seed]), Key.generate()
    table = patients(rng, rows)
    choices, arranged = WAYS[way]
    new = arranged(change(table, rng), rng)
    return related(marks_of(new, key, choices), marks_of(table, key, choices))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("change", COMPUTED.values(), ids=COMPUTED.keys())
@pytest.mark.first(10)
def test_what_is_computed_from_a_table_is_recognised(change, way):
    assert found(change, way)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("change", LIKE.values(), ids=LIKE.keys())
def test_what_is_merely_like_it_is_not(change, way):
    assert found(change, way) is None


@pytest.mark.parametrize("rows", [ROWS, 20_000])
def test_no_value_of_these_is_the_same(rows):
    """Else the marks of values would do."""
    rng, key = np.random.default_rng(rows), Key.generate()
    table = patients(rng, rows)
    old = marks_of(table, key, {"key": "id"})
    for change in COMPUTED.values():
        assert repeated(marks_of(change(table, rng), key, {"key": "id"}), old) is None


@pytest.mark.slow
@pytest.mark.parametrize("rows", [100, 1000])
def test_in_many_tables(rows):
    for way in WAYS if rows > 300 else ("by key, shuffled", "by position"):
        for seed in range(20):
            assert all(found(change, way, rows, seed) for change in COMPUTED.values())
            assert not any(found(change, way, rows, seed) for change in LIKE.values())


def test_columns_that_follow_the_order_of_their_rows_are_not_related():
    """Sorted, in the course of time, numbered: by position, and by keys that are row numbers."""
    rng, rows = np.random.default_rng(7), 500

    def table():
        time = np.linspace(0, 1, rows)
        return pa.table(
            {
                "id": np.arange(rows),
                "sorted": np.sort(rng.lognormal(0, 1, rows)),
                "trend": np.exp(3 * time) + 0.01 * rng.normal(0, 1, rows).cumsum(),
                "number": np.repeat(np.arange(rows // 2), 2) * 7 + 100,
                "square": time**2,
            }
        )

    for choices in ({"drop": ["id"]}, {"key": "id"}):
        key = Key.generate()
        two = [marks_of(table(), key, choices | {"keep_order": True}) for _ in range(2)]
        assert related(*two) is None


def test_what_copies_of_both_show_is_no_matter():
    rng, key = np.random.default_rng(8), Key.generate()
    table = patients(rng)
    kept = {"key": "id", "keep": ["bill"]}
    new = others(table, rng).set_column(3, "bill", [2 * column(table, "bill")])
    assert related(marks_of(new, key, kept), marks_of(table, key, kept)) is None
    assert related(marks_of(new, key, {"key": "id"}), marks_of(table, key, kept))
    assert related(marks_of(new, key, kept), marks_of(table, key, {"key": "id"}))


def test_rows_that_were_appended_count_too():
    rng, key = np.random.default_rng(9), Key.generate()
    table = patients(rng, 900)
    first, batch = table.slice(0, 100), table.slice(100)
    _, survey = survey_of(batch, key, key="id")
    marks = grown(marks_of(first, key, {"key": "id"}), survey.marks)
    marks = TableMarks.from_json(marks.to_json())
    new = marks_of(sum_and_difference(batch, rng), key, {"key": "id"})
    assert related(new, marks)
    assert related(new, marks_of(first, key, {"key": "id"})) is None


class TestThroughTheVault:
    @pytest.fixture
    def table(self, vault):
        table = patients(np.random.default_rng(11))
        vault.register("first", table, key="id", few_rows=True)
        return table

    def register(self, vault, change, table, **choices):
        new = change(table, np.random.default_rng(12))
        return vault.register("second", new, key="id", **choices, few_rows=True)

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            (sum_and_difference, r"a combination of 'total', 'pulse' is one of 'systolic', 'dia"),
            (
                other_units,
                r"'kpa' is a function of 'systolic' of dataset 'first'.* drop the column",
            ),
            (logarithm, r"'log_bill' is a function of 'bill' of dataset 'first'.*average"),
        ],
    )
    def test_it_is_refused_with_what_to_do(self, vault, table, change, says):
        with pytest.raises(AlreadyRegistered, match=says) as refused:
            self.register(vault, change, table)
        assert refused.value.use == ("unrelated",)
        assert [dataset.name for dataset in vault.datasets()] == ["first"]

    @pytest.mark.parametrize("change", LIKE.values(), ids=LIKE.keys())
    def test_what_is_merely_like_it_is_registered(self, vault, table, change):
        self.register(vault, change, table)

    def test_an_owner_may_declare_a_dataset_unrelated(self, vault, table):
        made = self.register(vault, other_units, table, unrelated=["first"])
        assert made.entry.unrelated == (vault.dataset("first").id,)
        again = Vault.open(vault.path).dataset("second")
        assert again.entry.unrelated == made.entry.unrelated
        # what is declared is no part of the dataset, whose noise is the same without it
        vault.unregister("second")
        vault.unregister("first")
        assert self.register(vault, other_units, table).id == made.id

    def test_rows_that_come_later_are_not_compared_either(self, vault, table):
        more = patients(np.random.default_rng(13), 300)
        more = more.set_column(0, "id", [[f"q{number}" for number in range(300)]])
        made = self.register(vault, other_units, table, unrelated=["first"])
        vault.dataset("first", source=table).append(more)
        batch = other_units(more, None)
        assert made.append(batch).number == 2
        # negative control: another dataset that has these rows is compared
        vault.unregister("second")
        with pytest.raises(AlreadyRegistered, match="function of 'systolic' of dataset 'first'"):
            vault.register("third", batch, key="id", few_rows=True)

    def test_a_dataset_that_is_not_there_cannot_be_unrelated(self, vault, table):
        with pytest.raises(NoSuchDataset, match=r"'frist'.*did you mean 'first'"):
            self.register(vault, other_units, table, unrelated="frist")
