import warnings
from collections import Counter
from dataclasses import fields, is_dataclass
from functools import reduce
from operator import add

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cornerwave.columns import Scale
from cornerwave.engines import local
from cornerwave.errors import ColumnError, SingularCovariance, SourceError
from cornerwave.ledger import Key
from cornerwave.moments import Moments
from cornerwave.noise import position_ids
from cornerwave.sources import open_source
from cornerwave.spine.freeze import freeze
from cornerwave.spine.rows import RowSecrets, row_ids
from cornerwave.spine.sample import Sample, rank_draws, row_hashes
from cornerwave.spine.survey import Surveyor, no_rows
from tests.conftest import decide, freeze_table, make_people

KEY = Key.unsafe_from_seed(1)


def frozen_of(table, secret=KEY, **roles):
    return freeze_table(table, secret, **roles)


def test_moments_are_those_of_the_whole_table(people):
    frozen = frozen_of(people, drop=["id"])
    X = np.column_stack([people[name].to_numpy() for name in ("age", "wage", "height")])
    np.testing.assert_allclose(frozen.covariance, Moments.of(X).covariance, rtol=1e-12)
    np.testing.assert_allclose(frozen.mean, np.nanmean(X, axis=0), rtol=1e-12)
    assert frozen.rows == people.num_rows


def test_progress_counts_every_row_once():
    seen = Counter()
    source = open_source(pa.table({"x": np.arange(2**20 + 5.0)}))
    secrets = RowSecrets.of(KEY.derive)
    schema = decide(source.schema, keep_order=True)
    local.survey_table(source, schema, secrets, progress=lambda rows: seen.update(n=rows))
    assert seen["n"] == 2**20 + 5


def test_the_fingerprint_sees_one_cell_and_the_order(people):
    def fingerprint(table):
        return frozen_of(table, drop=["id"]).fingerprint

    rows = list(range(people.num_rows))
    rows[3], rows[200] = rows[200], rows[3]
    wage = people["wage"].to_pylist()
    wage[17] = np.nextafter(wage[17], 1e9)
    edited = people.set_column(2, "wage", pa.array(wage))
    assert fingerprint(people) == fingerprint(make_people(300))
    assert len({fingerprint(t) for t in (people, people.take(rows), edited)}) == 3


def test_with_a_key_column_the_fingerprint_is_free_of_the_order(people):
    def fingerprint(table):
        return frozen_of(table, key="id").fingerprint

    assert fingerprint(people.take(list(reversed(range(300))))) == fingerprint(people)
    # The same values with two keys exchanged are another table.
    ids = people["id"].to_pylist()
    ids[0], ids[1] = ids[1], ids[0]
    assert fingerprint(people.set_column(0, "id", [ids])) != fingerprint(people)


def test_the_fingerprint_hangs_on_the_key(people):
    one, two = (frozen_of(people, Key.generate(), drop=["id"]) for _ in range(2))
    assert one.fingerprint != two.fingerprint


def test_constant_columns_warn_by_name():
    table = pa.table({"x": [1.0, 2.0, 4.0], "flat": [0.1] * 3})
    with pytest.warns(SingularCovariance, match="column flat: constant"):
        frozen_of(table)


def test_collinear_columns_warn_by_name():
    x = np.array([1.0, 2.0, 4.0, 9.0])
    with pytest.warns(SingularCovariance, match="column twice: a linear function"):
        frozen_of(pa.table({"x": x, "twice": 2 * x}))


@pytest.mark.parametrize("rows", [0, 1])
def test_fewer_than_two_rows_are_refused(rows):
    with pytest.raises(SourceError, match=f"at least 2 rows to be perturbed; it has {rows}"):
        frozen_of(pa.table({"x": np.arange(float(rows))}))


def test_a_column_of_fewer_than_two_values_is_refused():
    table = pa.table({"x": [1.0, 2.0, 3.0], "y": [None, 5.0, None]})
    with pytest.raises(ColumnError, match="'y' has fewer than 2 values"):
        frozen_of(table)


class TestKeys:
    def measured(self, ids):
        table = pa.table({"id": ids, "x": np.arange(float(len(ids)))})
        return frozen_of(table, key="id", keep_order=True)

    def test_repeated_keys_are_counted_and_not_shown(self):
        with pytest.raises(ColumnError, match="'id' is not unique: 2 rows repeat a key") as refusal:
            self.measured(["secret-a", "b", "secret-a", "secret-a"])
        assert "secret" not in str(refusal.value)

    @pytest.mark.parametrize("ids", [[1, None, 3], ["a", "b", None]])
    def test_missing_keys_are_refused(self, ids):
        with pytest.raises(ColumnError, match="'id' has 1 missing values"):
            self.measured(ids)

    @pytest.mark.parametrize("at_once", [1, 2, 7, 1000])
    def test_repeats_are_found_however_few_ids_fit_into_memory(self, at_a_time, at_once):
        at_a_time(IDS_AT_ONCE=at_once, IDS_IN_MEMORY=at_once)
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


def mixed(rows, seed=0):
    """Numbers of all sizes with gaps, a category, a kept column, a key."""
    rng = np.random.default_rng(seed)
    large = rng.standard_normal(rows) * 10.0 ** rng.integers(-12, 12, rows)
    return pa.table(
        {
            "id": np.arange(rows),
            "large": large,
            "cents": np.round(rng.normal(50, 20, rows), 2),
            "gappy": pa.array(rng.exponential(3.0, rows), mask=rng.random(rows) < 0.2),
            "city": rng.choice(["a", "b", "c"], rows),
            "kept": rng.integers(0, 5, rows),
        }
    )


def surveyor_of(table, **choices):
    scales = (Scale(), Scale(), Scale("log1p"))
    schema = decide(table.schema, **choices)
    return Surveyor(schema, scales, RowSecrets.of(KEY.derive))


def same_bits(one, two):
    """Whether two values hold the same arrays, to the bit, however deep."""
    if isinstance(one, np.ndarray):
        return one.dtype == two.dtype and one.shape == two.shape and one.tobytes() == two.tobytes()
    if isinstance(one, tuple):
        return len(one) == len(two) and all(map(same_bits, one, two))
    if is_dataclass(one):
        return all(same_bits(getattr(one, f.name), getattr(two, f.name)) for f in fields(one))
    return one == two


CHOICES = {"key": "id", "keep": ("kept",), "hide_missing": ("gappy",)}


@given(
    st.integers(2, 400),
    st.lists(st.integers(0, 400), max_size=6),
    st.randoms(use_true_random=False),
)
@settings(deadline=None, max_examples=40)
def test_any_partition_in_any_order_gives_the_same_bits(rows, cuts, random):
    """The merge law: what is frozen does not depend on parts, their order or their grouping."""
    table = mixed(rows)
    surveyor = surveyor_of(table, **CHOICES)
    ids = row_ids(0, table, surveyor.schema, surveyor.secrets)
    whole = surveyor.of(ids, table, np.arange(rows))
    order = np.array(random.sample(range(rows), rows))
    parts = [
        surveyor.of(ids[chosen], table.take(chosen), chosen)
        for chosen in np.split(order, sorted(cut for cut in cuts if cut < rows))
    ]
    parts.append(no_rows(surveyor))
    while len(parts) > 1:  # add them up as any tree
        one = parts.pop(random.randrange(len(parts)))
        two = parts.pop(random.randrange(len(parts)))
        parts.append(one + two)
    [total] = parts
    assert total.moments.covariance.tobytes() == whole.moments.covariance.tobytes()
    assert total.moments.mean.tobytes() == whole.moments.mean.tobytes()
    assert total.whole.covariance.tobytes() == whole.whole.covariance.tobytes()
    assert str(total.fingerprint) == str(whole.fingerprint)
    assert surveyor.marks(total).to_json() == surveyor.marks(whole).to_json()
    assert same_bits(total.marks, whole.marks)
    assert total.tallies == whole.tallies
    for name in ("sample", "joint"):
        one, two = (getattr(each, name).ordered for each in (total, whole))
        assert one.numbers.tobytes() == two.numbers.tobytes()
        assert one.cells.tobytes() == two.cells.tobytes()
    if rows > 20:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one, two = (freeze(surveyor, each, table.schema) for each in (whole, total))
        assert one.identity() == two.identity()


@pytest.fixture
def _few_are_sampled(monkeypatch):
    monkeypatch.setattr("cornerwave.spine.survey.SAMPLE_ROWS", 200)
    monkeypatch.setattr(Surveyor, "joint_rows", 300)


@pytest.mark.usefixtures("_few_are_sampled")
@pytest.mark.parametrize("cuts", [[4000], [1, 300, 301, 900, 5000], [4000, 4500]])
def test_what_is_known_already_may_be_left_out(cuts):
    """Rows surveyed beside those before them add up to the same, and keep less by themselves."""
    table = mixed(6000)
    surveyor = surveyor_of(table, **CHOICES)
    ids = row_ids(0, table, surveyor.schema, surveyor.secrets)
    places = np.split(np.arange(len(table)), cuts)
    plain = [surveyor.of(ids[own], table.take(own), own) for own in places]
    total, beside = no_rows(surveyor), []
    for own in places:
        beside.append(surveyor.of(ids[own], table.take(own), own, total))
        total = total + beside[-1]
    whole = reduce(add, plain)
    assert surveyor.marks(total).to_json() == surveyor.marks(whole).to_json()
    assert same_bits(total.marks, whole.marks)
    for name in ("sample", "joint"):
        one, two = (getattr(each, name).ordered for each in (total, whole))
        assert same_bits(one, two)
        less, more = (getattr(parts[-1], name).limit for parts in (beside, plain))
        assert less < more
    # the negative control: without those before, such a part is not the survey of its rows
    assert not same_bits(beside[-1].marks, plain[-1].marks)


@pytest.mark.usefixtures("_few_are_sampled")
def test_a_known_number_of_rows_only_leaves_out_what_does_not_matter():
    """Samples are the same to the bit, and never much larger than they will be."""
    table = mixed(6000)
    surveyor = surveyor_of(table, **CHOICES)
    ids = row_ids(0, table, surveyor.schema, surveyor.secrets)

    def surveyed(rows):
        total, most = no_rows(surveyor, rows), 0
        for own in np.split(np.arange(6000), 20):
            total = total + surveyor.of(ids[own], table.take(own), own, total.without_rows())
            most = max(most, sum(len(part.hashes) for part in total.joint.parts))
        return total.trimmed(), most

    (known, few), (unknown, many) = surveyed(6000), surveyed(None)
    for name in ("sample", "joint", "units"):
        one, two = (getattr(each, name).ordered for each in (known, unknown))
        assert same_bits(one, two)
    assert len(known.joint.ordered.hashes) == 300
    assert few <= many


def test_plain_sums_depend_on_the_partition():
    """The negative control: what the exact sums are for."""
    x = mixed(400)["large"].to_numpy()
    rng = np.random.default_rng(1)
    found = {float(np.sum(rng.permutation(x) ** 2)).hex() for _ in range(20)}
    assert len(found) > 1
    assert (
        len({Moments.of(rng.permutation(x)[:, None]).covariance.tobytes() for _ in range(20)}) == 1
    )


def test_a_sample_is_chosen_by_key_and_not_by_position():
    ids = np.column_stack([np.arange(1000), np.zeros(1000)]).astype(np.uint64)
    values, cells = np.arange(1000.0)[None], np.arange(1000, dtype=np.uint64)[None]

    def sample(rows, secret=bytes(32)):
        hashes = row_hashes(ids[rows], secret)
        return Sample.of(hashes, values[:, rows], cells[:, rows], most=50)

    one = sample(slice(0, 1000)).ordered
    both = (sample(slice(700, 1000)) + sample(slice(0, 700))).ordered
    assert np.array_equal(both.numbers, one.numbers)
    assert np.array_equal(both.cells, one.numbers.astype(np.uint64))
    assert one.numbers.shape == (1, 50)
    other = sample(slice(0, 1000), b"x" * 32).ordered
    assert len(set(other.numbers[0]) & set(one.numbers[0])) < 20
    # evenly from the whole: the mean of 50 of 0..999 within 5 standard errors
    assert abs(one.numbers.mean() - 499.5) < 5 * 288.7 / np.sqrt(50)


def test_rank_draws_depend_on_row_and_column_alone_and_are_uniform():
    """Uniform on (0, 1], by Kolmogorov-Smirnov; a column of its own has draws of its own."""
    n, alpha, columns = 50_000, 1e-6, ("a", "b", "")
    secrets, ids = RowSecrets.of(KEY.derive), position_ids(0, n)
    draws = rank_draws(secrets, ids)
    order = np.random.default_rng(1).permutation(n)
    bound = np.sqrt(np.log(2 * len(columns) / alpha) / (2 * n))  # Massart's, for each column
    even = np.arange(1, n + 1) / n
    for column in columns:
        u = draws(column)
        assert u.min() > 0
        assert u.max() <= 1
        assert np.abs(np.sort(u) - even).max() < bound + 1 / n
        shuffled = rank_draws(secrets, ids[order])(column)
        np.testing.assert_array_equal(shuffled, u[order])  # in any order, in any part
        np.testing.assert_array_equal(rank_draws(secrets, ids[:100])(column), u[:100])
    limit = np.sqrt(2 * np.log(2 / alpha) / n)  # of the correlation of independent draws
    assert abs(np.corrcoef(draws("a"), draws("b"))[0, 1]) < limit
    other = rank_draws(RowSecrets.of(Key.unsafe_from_seed(2).derive), ids)
    assert abs(np.corrcoef(draws("a"), other("a"))[0, 1]) < limit
    assert np.abs(np.sort(draws("a") ** 2) - even).max() > bound + 1 / n  # the control
