"""Persons with several rows: samples of them, their noise, their histories, and editions."""

from dataclasses import replace
from functools import cache
from hashlib import sha256
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from cornerwave import engines
from cornerwave.arrays import LARGEST_WORD
from cornerwave.columns import Scale
from cornerwave.editions import AllPersons
from cornerwave.engines.local import make_copies
from cornerwave.errors import ColumnError, CornerwaveWarning, Drifted, SourceChanged
from cornerwave.keyed import BlockFunction, expand, room_for
from cornerwave.ledger import Key
from cornerwave.levels import COPIED, Level
from cornerwave.noise import (
    EventClock,
    PersonHistoryReader,
    PersonNoise,
    PersonReader,
    Reading,
    WhiteStreams,
    coefficients,
    lattice_index,
    lattice_path,
    ln_1_plus,
    position_ids,
)
from cornerwave.privacy import Hidden
from cornerwave.sources import Source, open_source
from cornerwave.spine import histories as histories_module
from cornerwave.spine import person_sample, person_values
from cornerwave.spine.continued import Tail
from cornerwave.spine.frozen import Frozen
from cornerwave.spine.histories import Histories, HistoryRows
from cornerwave.spine.person_sample import PersonSample, unit_limit
from cornerwave.spine.person_values import PersonValues, SeenConstant
from cornerwave.spine.recipe import Recipe
from cornerwave.vault import Vault
from tests.conftest import decide, freeze_table, survey_of
from tests.panels import panel, persons_of, with_column, with_gaps
from tests.test_recipe import Collected, copies, recipe_of
from tests.twins import corner_wave_matrix

KEY, KEY2 = Key.unsafe_from_seed(5), Key.unsafe_from_seed(2)
ALPHA = 1e-6


def numbers(table, *names):
    return np.array([table[name].to_numpy() for name in names])


def released(vault, table, *, noise=1.0, name="people", **choices):
    choices = {"unit": "patient", "keep_order": True, "few_rows": True, **choices}
    dataset = vault.register(name, table, **choices)
    return dataset, dataset.release(to="a", noise=noise, raw=True).to_arrow()


# --- The sample of persons -----------------------------------------------------------------------


def sample_of(units, rows, most, **below):
    """A sample whose numbers and cells are functions of the row."""
    values = (units * np.uint64(31) + rows).astype(np.float64)
    return PersonSample.of(units, rows, [values, -values], [rows], most, **below)


def same(one, two):
    fields = ("units", "rows", "counts", "numbers", "cells", "limit")
    return all(np.array_equal(getattr(one, f), getattr(two, f)) for f in fields)


def naive_sample(units, rows, most, most_rows):
    """(unit, row, count) of the units with the smallest hashes that fit, all at once."""
    found, room = [], most
    for unit in np.unique(units):
        own = np.sort(rows[units == unit])
        kept = own[:most_rows]
        room -= len(kept)
        if room < 0 and found:
            break
        found += [(int(unit), int(row), len(own)) for row in kept]
    return found


@pytest.mark.parametrize("most", [3, 40, 10_000])
@settings(max_examples=40, deadline=None, derandomize=True, phases=[Phase.generate])
@given(data=st.data())
def test_samples_add_up_to_the_bit_in_any_parts_and_order(most, data):
    sizes = data.draw(st.lists(st.integers(1, 12) | st.just(30), min_size=1, max_size=25))
    seed = data.draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    names = rng.choice(1 << 40, len(sizes), replace=False).astype(np.uint64)
    units = np.repeat(names, sizes)
    rows = rng.choice(1 << 40, len(units), replace=False).astype(np.uint64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(person_sample, "MOST_ROWS", 8)
        whole = sample_of(units, rows, most)
        found = list(
            zip(*(x.tolist() for x in (whole.units, whole.rows, whole.counts)), strict=True)
        )
        assert found == naive_sample(units, rows, most, 8)
        part = rng.integers(0, data.draw(st.integers(1, 6)), len(units))
        parts = [sample_of(units[part == p], rows[part == p], most) for p in np.unique(part)]
        while len(parts) > 1:
            a, b = rng.choice(len(parts), 2, replace=False)
            both = parts[a] + parts[b]
            parts = [each for i, each in enumerate(parts) if i not in (a, b)] + [both]
    assert same(parts[0], whole)


@pytest.mark.parametrize("most", [3, 40, 10_000])
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None, derandomize=True, phases=[Phase.generate])
def test_rows_above_the_limit_are_not_missed(most, seed):
    """Blocks know what was found when they began, not what others find meanwhile."""
    rng = np.random.default_rng(seed)
    units = rng.choice(rng.choice(1 << 40, 20, replace=False), 200).astype(np.uint64)
    rows = rng.choice(1 << 40, len(units), replace=False).astype(np.uint64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(person_sample, "MOST_ROWS", 8)
        whole, totals = sample_of(units, rows, most), [None]
        for own in np.array_split(np.arange(len(units)), 5):
            known = totals[rng.integers(len(totals))]
            limit = unit_limit(units[own], most, known)
            some = own[units[own] <= limit]
            part = sample_of(units[some], rows[some], most, below=limit)
            totals.append(part if totals[-1] is None else totals[-1] + part)
        assert same(totals[-1], whole)
        if whole.limit < LARGEST_WORD:  # one unit less would be missed
            assert unit_limit(units, most, None) == whole.limit
            fewer = units < whole.units[-1]
            assert not same(sample_of(units[fewer], rows[fewer], most), whole)


def test_rows_with_one_hash_are_sampled_as_they_are():
    units = np.array([5, 2, 5, 2, 5], dtype=np.uint64)
    sample = PersonSample.of(units, np.zeros(5, dtype=np.uint64), [np.arange(5.0)], [], 9)
    assert sample.numbers.tolist() == [[1.0, 3.0, 0.0, 2.0, 4.0]]


def test_a_unit_of_another_part_that_fits_is_not_left_out():
    """One part has units 1 and 3, of which 3 does not fit; unit 2 of another part does."""
    units = np.repeat(np.array([1, 2, 3], dtype=np.uint64), [5, 1, 5])
    rows = np.arange(11, dtype=np.uint64)
    parts = [sample_of(units[own], rows[own], 8) for own in (units != 2, units == 2)]
    assert same(parts[0] + parts[1], sample_of(units, rows, 8))


def test_a_survey_in_any_blocks_samples_the_same_persons():
    table = panel(80, np.arange(1, 81) % 11 + 1)
    surveyor, survey = survey_of(table, KEY, unit="patient", keep_order=True)
    ids = position_ids(0, table.num_rows).copy()
    total, at = None, 0
    for rows in (1, 7, 100, table.num_rows - 108):
        part = surveyor.of(ids[at : at + rows], table.slice(at, rows), np.arange(at, at + rows))
        total, at = part if total is None else part + total, at + rows
    assert same(total.persons, survey.persons)


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_values_of_persons_add_up_and_no_change_is_missed(seed):
    rng = np.random.default_rng(seed)
    of = rng.integers(0, 20, 200)
    ids = position_ids(1 << 40, 20).copy()[of]
    values = np.array([of * 1.5, of * 2.0, rng.normal(size=200)])
    values[0, rng.random(200) < 0.2] = np.nan
    several = np.bincount(of)[of] > 1
    values[1, rng.choice(np.flatnonzero(several))] += 1.0  # one row of one person
    whole = PersonValues.of("abc", ids, values, bytes(32))
    cut = np.sort(rng.integers(0, 201, 3))
    pieces = np.split(rng.permutation(200), cut)
    total = sum(
        (PersonValues.of("abc", ids[p], values[:, p], bytes(32)) for p in pieces[1:]),
        start=PersonValues.of("abc", ids[pieces[0]], values[:, pieces[0]], bytes(32)),
    )
    assert total.varying == whole.varying
    assert whole.varying == {"b", "c"}
    np.testing.assert_array_equal(total.units, whole.units)
    np.testing.assert_array_equal(total.values[0], whole.values[0])


@given(seed=st.integers(0, 2**32 - 1), most=st.sampled_from([0, 30, 1 << 22]))
@settings(max_examples=30, deadline=None)
def test_constants_seen_by_the_way_are_those_of_a_look_of_its_own(seed, most):
    """Whatever is known of rows before; or they are not known, where there is no room for them."""
    rng = np.random.default_rng(seed)
    of = np.sort(rng.integers(0, 20, 200)) if seed % 2 else rng.integers(0, 20, 200)
    ids = position_ids(1 << 40, 20).copy()[of]
    values = np.array([of * 1.5, of * 2.0, rng.normal(size=200), of * 3.0])
    values[0, rng.random(200) < 0.2] = np.nan
    values[1, rng.choice(np.flatnonzero(np.bincount(of)[of] > 1))] += 1.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(person_values, "MOST_VALUES", most)
        seen = [SeenConstant.nothing("abcd")]
        for rows in np.split(np.arange(200), np.sort(rng.integers(0, 201, 3))):
            known = seen[rng.integers(len(seen))]
            seen.append(seen[-1] + known.of("abcd", ids[rows], values[:, rows], bytes(32)))
        found = seen[-1].only(["a", "d"])
    assert seen[-1].only(["a", "b"]) is None
    assert seen[-1].only(["c"]) is None
    whole = PersonValues.of(("a", "d"), ids, values[[0, 3]], bytes(32))
    assert (found is None) == (most < 40)
    if found is not None:
        assert (found.columns, found.varying) == (whole.columns, frozenset())
        np.testing.assert_array_equal(found.units, whole.units)
        np.testing.assert_array_equal(found.values, whole.values)


def test_what_a_ledger_keeps_of_constants_holds_no_value():
    """Equal values of two columns have other hashes, too, and so have those of another key."""
    heights = np.random.default_rng(2).normal(170, 10, 50)
    ids, twice = position_ids(0, 50).copy(), np.array([heights, heights])
    kept = PersonValues.of(["a", "b"], ids, twice, bytes(32))
    other = PersonValues.of(["a", "b"], ids, twice, bytes(range(32)))
    assert not np.isin(kept.values[0], kept.values[1]).any()
    assert not np.isin(kept.values, other.values).any()
    content = kept.to_bytes()
    assert not any(height.tobytes() in content for height in heights)
    np.testing.assert_array_equal(PersonValues.read(content).values, kept.values)


# --- Noise ---------------------------------------------------------------------------------------

BETWEEN = np.array([[4.0, 1.0, 0.5], [1.0, 9.0, -2.0], [0.5, -2.0, 6.0]])
WITHIN = np.array([[0.0, 0.0, 0.0], [0.0, 2.0, 0.5], [0.0, 0.5, 3.0]])
"""The first column is constant in each person."""


def noise_of(between=BETWEEN, within=WITHIN):
    return PersonNoise.of(between, within, between + within)


def read(levels, ids, units, noise, key=bytes(32), rows=64):
    """W of each level (levels, columns, rows), ascending, read in blocks."""
    reading = Reading(lattice_path(), [lattice_index(v) for v in levels])
    reader = PersonReader(reading, key, expand(key, "persons"), noise=noise, rows=rows)
    out = np.empty((len(levels), len(noise.shape), len(ids)))
    places = {lattice_index(v): i for i, v in enumerate(levels)}
    for start in range(0, len(ids), rows):
        some = slice(start, start + rows)
        for index, W in reader.noise(ids[some], units[some], None):
            out[places[index], :, some] = W
    return out


def test_the_noise_of_persons_is_that_of_the_formula():
    """The naive twin: all white streams of persons and of rows, times their factors."""
    noise, levels = noise_of(), [Level.of(privacy=p).noise for p in (0.333, 0.5, 0.8)]
    ids = position_ids(0, 90).copy()
    units = position_ids(1000, 90).copy()[np.arange(90) // 4]
    W = read(levels, ids, units, noise)
    path = lattice_path()
    entered, weights = [step.noise for step in path], coefficients(path)
    for level, found in zip(levels, W, strict=True):
        parts = []
        for key, of in ((bytes(32), ids), (expand(bytes(32), "persons"), units)):
            streams = WhiteStreams(key, entered, columns=3, rows=90)
            streams.place(of)
            white = np.array([streams.normals(v).copy() for v in entered])
            parts.append(np.tensordot(weights[entered.index(level)], white, 1))
        twin = noise.row[0] @ parts[0] + noise.person[0] @ parts[1]
        np.testing.assert_allclose(found, twin, atol=1e-11)


def test_covariance_over_levels_and_rows_is_exact():
    """Cov(W_i(u), W_j(v)) = min(u, v) (B + delta_ij R), from the coefficients of white noise."""
    noise, path = noise_of(), lattice_path()
    chosen = [lattice_index(Level.of(privacy=p).noise) for p in (0.1, 0.5, 0.801, 0.999)]
    A = coefficients(path)[chosen]  # a level as a sum of white streams
    levels = np.array([path[index].noise for index in chosen])
    lowest = corner_wave_matrix(levels)
    np.testing.assert_allclose(A @ A.T, lowest, rtol=1e-9)
    A = A[:, A.any(axis=0)]  # the streams that some of these levels read
    B, R = (factor @ factor.T for factor in (noise.person[0], noise.row[0]))
    np.testing.assert_allclose(B, BETWEEN, atol=1e-12)
    np.testing.assert_allclose(R, WITHIN, atol=1e-12)
    # two rows of a person: columns of (P_u, P_i, P_j) streams
    zero = np.zeros_like(A)
    one = np.kron(np.hstack([A, zero, zero]), np.eye(3)) @ _factors(noise, A.shape[1], 0)
    two = np.kron(np.hstack([A, zero, zero]), np.eye(3)) @ _factors(noise, A.shape[1], 1)
    np.testing.assert_allclose(one @ one.T, np.kron(lowest, B + R), rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(one @ two.T, np.kron(lowest, B), rtol=1e-8, atol=1e-9)


def _factors(noise, streams, row):
    """The map of white numbers (person, row 0, row 1) to the noise of a row, stream by stream."""
    blocks = [np.kron(np.eye(streams), noise.person[0]), np.zeros((3 * streams, 3 * streams))]
    blocks.append(np.zeros((3 * streams, 3 * streams)))
    blocks[1 + row] = np.kron(np.eye(streams), noise.row[0])
    rest = np.zeros((2 * 3 * streams, 3 * 3 * streams))
    return np.vstack([np.hstack(blocks), rest])


def test_covariance_over_persons_is_that_of_the_formula_sampled():
    """Moments over 20,000 persons of two rows, at two levels; by-row noise is told apart."""
    noise, persons = noise_of(), 20_000
    levels = [Level.of(privacy=p).noise for p in (0.5, 0.8)]
    ids = position_ids(0, 2 * persons).copy()
    units = position_ids(10**9, persons).copy()[np.arange(2 * persons) // 2]
    W = read(levels, ids, units, noise, rows=4096)
    first, second = W[:, :, ::2].reshape(6, -1), W[:, :, 1::2].reshape(6, -1)
    lowest = corner_wave_matrix(np.array(levels))
    expected = {
        "same": (first @ first.T / persons, np.kron(lowest, BETWEEN + WITHIN)),
        "other": (first @ second.T / persons, np.kron(lowest, BETWEEN)),
    }
    size = np.sqrt(np.diag(np.kron(lowest, BETWEEN + WITHIN)))
    # a mean product of normals has the variance (1 + rho^2) / n; 72 comparisons
    bound = 5.6 * np.sqrt(2 / persons)
    for found, wanted in expected.values():
        assert np.abs((found - wanted) / np.outer(size, size)).max() < bound
    by_row = read(levels, ids, ids, noise, rows=4096)
    apart = by_row[:, :, ::2].reshape(6, -1) @ by_row[:, :, 1::2].reshape(6, -1).T / persons
    assert np.abs((apart - expected["other"][1]) / np.outer(size, size)).max() > 10 * bound


@pytest.mark.parametrize("rows", [1, 3, 64])
def test_noise_does_not_depend_on_blocks_or_on_the_order_of_rows(rows):
    noise, ids = noise_of(), position_ids(0, 120).copy()
    units = position_ids(1000, 120).copy()[np.arange(120) % 17]
    whole = read([1.0], ids, units, noise, rows=128)
    np.testing.assert_array_equal(read([1.0], ids, units, noise, rows=rows), whole)
    order = np.random.default_rng(0).permutation(120)
    mixed = read([1.0], ids[order], units[order], noise, rows=rows)
    np.testing.assert_array_equal(mixed, whole[:, :, order])


def test_a_column_that_is_constant_has_no_noise_by_row_whatever_the_others_are():
    """The zeros are exact, so that noise is the same to the bit: 200 random covariances."""
    for seed in range(200):
        rng = np.random.default_rng(seed)
        columns = int(rng.integers(2, 9))
        factors = rng.normal(size=(2, columns, columns)) * 10.0 ** rng.integers(-6, 7, (columns, 1))
        between, within = (f @ f.T for f in factors)
        constant = rng.random(columns) < 0.4
        within[constant], within[:, constant] = 0.0, 0.0
        least = (between + within) * rng.uniform(0.5, 2.0)
        noise = PersonNoise.of(between, within, least)
        assert not noise.row[0][constant].any()
        assert (np.diag(noise.row[0])[~constant] > 0).all() or columns == constant.sum()
        scale = np.sqrt(np.diag(noise.shape))
        gap = np.linalg.eigvalsh((noise.shape - least) / np.outer(scale, scale))
        assert gap.min() > -1e-9


def test_constants_have_one_noise_whatever_threads_blocks_order_and_shuffle(vault, tmp_path):
    table = panel(60, np.arange(60) % 7 + 1)
    keyed = table.append_column("visit", pa.array([f"v{n}" for n in range(table.num_rows)]))
    order = np.random.default_rng(1).permutation(table.num_rows)
    dataset, copy = released(vault, keyed, key="visit")
    other = Vault.create(tmp_path / "other", key_file=vault.path / "key")
    again, mixed = released(other, keyed.take(pa.array(order)), key="visit")
    assert again.id == dataset.id
    assert mixed.sort_by("visit").equals(copy.sort_by("visit"))
    for each in (copy, mixed):
        noisy, of = each["height"].to_numpy(), persons_of(each)
        assert len(np.unique(noisy)) == len(np.unique(of)) == 60
        assert all(np.ptp(noisy[of == person]) == 0 for person in range(60))
    third = Vault.create(tmp_path / "third", key_file=vault.path / "key")
    _, shuffled = released(third, keyed, key="visit", keep_order=False, shuffle=True)
    noisy, of = shuffled["height"].to_numpy(), persons_of(shuffled)
    assert all(np.ptp(noisy[of == person]) == 0 for person in range(60))
    assert len(np.unique(copy["weight"].to_numpy())) == table.num_rows


def test_the_threads_and_the_size_of_groups_change_no_bit(at_a_time):
    table = panel(300, 5)
    frozen = freeze_table(table, KEY, unit="patient", keep_order=True)
    found = []
    for cells, threads in ((None, 1), (1 << 12, 3)):
        if cells:
            at_a_time(GROUP_CELLS=cells)
        found.append(made(table, frozen, [1.0], threads=threads)[0])
    assert found[0].to_pylist() == found[1].to_pylist()


def made(table, frozen, noise, key=KEY, **options):
    """Copies of a table, with the histories of its persons."""
    recipe, outputs = recipe_of(frozen, noise, key), [Collected() for _ in noise]
    recipe.row_secrets = type(recipe.row_secrets).of(key.derive)
    source = open_source(table)
    if recipe.needs_histories:
        ends, secrets = [table.num_rows], recipe.row_secrets
        rows = engines.history_rows(source, frozen, secrets, ends, frozen.fingerprint)
        recipe.histories = Histories.of(rows, frozen.categories, recipe.noise_secrets.missing)
    make_copies(source, recipe, outputs, **options)
    return [output.table for output in outputs]


def read_in_turn(*tables):
    """A source that is another table at each reading; it notes which columns were read."""
    given, columns = iter(tables), []

    def batches(names):
        columns.append(set(names))
        return next(given).select(list(names)).to_batches()

    return Source(tables[0].schema, batches), columns


def changed_for_persons(table):
    """The table with another sex, another unit, another order in time, a row less, and no rows."""
    sex, unit, day = (table[name].to_pylist() for name in ("sex", "patient", "day"))
    yield with_column(table, "sex", pa.array(["m" if sex[0] == "f" else "f", *sex[1:]]))
    yield with_column(table, "patient", pa.array([unit[-1], *unit[1:]]))
    yield with_column(table, "day", pa.array([day[1], day[0], *day[2:]]))
    yield table.slice(1)
    yield table.slice(0, 0)


@pytest.mark.parametrize("how", [{"keep_order": True}, {"key": "id", "shuffle": True}])
def test_a_table_that_is_another_one_while_histories_are_taken_is_refused(vault, how, monkeypatch):
    """Histories are taken from few columns, before a pass that looks at all of them writes."""
    table = with_column(panel(), "day", pa.array(np.arange(300.0) % 7))
    table = with_column(table, "id", pa.array(np.arange(300)))
    drop = {} if "key" in how else {"drop": ["id"]}
    vault.register("people", table, unit="patient", time="day", few_rows=True, **how, **drop)

    def copied(*tables):
        source, columns = read_in_turn(*tables)
        release = vault.dataset("people", source=source).release(to="a", noise=4.0)
        return release.to_arrow(), columns

    expected, read = copied(table, table)
    assert read[0] == {"patient", "sex", "stage", "day"} | ({"id"} if "key" in how else set())
    assert read[1] > read[0]
    for other in changed_for_persons(table):
        for turns in ((other, table), (table, other)):
            with pytest.raises(SourceChanged, match="not the registered table"):
                copied(*turns)
    # what is not taken may change in between: nothing comes of it
    weight = pa.array(table["weight"].to_numpy() + 1)
    assert copied(with_column(table, "weight", weight), table)[0].equals(expected)
    # negative control: unless the two are compared, others come in the place of persons
    monkeypatch.setattr(Recipe, "histories_taken", property(lambda _: None, lambda *_: None), False)
    sex = ["m" if cell == "f" else "f" for cell in table["sex"].to_pylist()]
    assert copied(with_column(table, "sex", pa.array(sex)), table)[0]["sex"] != expected["sex"]


def test_what_is_frozen_of_persons_comes_back_bit_for_bit():
    frozen = freeze_table(panel(), KEY, unit="patient", keep_order=True)
    again = Frozen.from_json(frozen.to_json())
    assert again.to_json() == frozen.to_json()
    assert again.identity() == frozen.identity()
    for name in ("knots", "person", "within", "row", "shape"):
        one, two = getattr(again.persons, name), getattr(frozen.persons, name)
        assert one.tobytes() == two.tobytes()
    assert again.persons.named(frozen.schema.perturbed) == ["height"]
    assert (
        "persons"
        not in freeze_table(
            panel().drop(["patient"]), KEY, independent_rows=True, keep_order=True
        ).to_json()
    )


# --- Histories -----------------------------------------------------------------------------------

SECRET = bytes(range(32))


def history_rows(units, editions, codes):
    """Rows of persons, by the places at which they came."""
    places = np.arange(len(units), dtype=np.uint64)
    ids = position_ids(1 << 30, int(units.max()) + 1).copy()[units]
    order = places.astype(np.float64)
    return HistoryRows(((places, ids, editions, order, np.atleast_2d(codes).copy()),))


@cache
def no_categories(rows=1, values=5):
    frozen = freeze_table(
        panel(values * 30, 2), KEY, unit="patient", keep_order=True, drop=["height", "weight"]
    )
    return frozen.categories[1:] * rows


def histories_of(units, editions, codes):
    found = history_rows(units, editions, codes)
    return Histories.of(found, no_categories(len(np.atleast_2d(codes))), SECRET)


def donors_of(histories, noise=(0.25, 1.0, 4.0)):
    return histories.exchanged(noise, SECRET).donors


def persons_with_a_row(persons):
    """Histories of persons who have one row each."""
    return histories_of(np.arange(persons), np.zeros(persons, int), np.zeros(persons, np.int32))


def shown_by(histories, noise):
    """Whose history each person shows at some levels, themselves included."""
    donors = donors_of(histories, noise)
    return np.where(donors < 0, np.arange(donors.shape[1]), donors)


def drawn_anew(persons, noise):
    """The control: each event replaces a person by a permutation of all, as the table has them."""
    rng = np.random.default_rng(3)
    times = np.cumsum(rng.exponential(2, (persons, 40)), axis=1)
    donors = np.array([rng.permutation(persons) for _ in range(40)])
    events = [(times <= np.log1p(level)).sum(axis=1) for level in noise]
    own = np.arange(persons)
    return np.array([np.where(had > 0, donors[had - 1, own], own) for had in events])


def test_persons_exchange_histories_in_their_class():
    """Persons of one size are a class; sizes that few persons have share one."""
    sizes = np.concatenate([np.full(70, 3), np.full(45, 4), np.full(5, 6), [37], np.full(30, 1)])
    units = np.repeat(np.arange(len(sizes)), sizes)
    found = histories_of(units, np.zeros(len(units), int), np.zeros(len(units), np.int32))
    own = np.diff(np.append(found.starts, len(units)))
    # the ids of persons ascend as they came
    assert (own == sizes).all()
    shown = shown_by(found, [3.0, 999.0])
    for donors in shown:
        for size in (1, 3):  # many have as many rows: so has each donor
            assert (own[donors[own == size]] == size).all()
    assert (shown[0] != shown[1]).any()
    [longest] = np.flatnonzero(own == 37)
    assert len(found.partners.of(longest)) >= histories_module.LEAST


def test_exchanges_are_those_of_the_definition():
    """A plain loop over events in their order, that begins with everybody's own history."""
    persons, noise = 300, [4.0, 0.25, 99.0]
    found = persons_with_a_row(persons)
    horizons = ln_1_plus(noise)
    who, number, when = EventClock(SECRET).times(found.units, max(horizons))
    events = sorted(zip(when * 1.75, who, number, strict=True))
    expected, changes = np.empty((3, persons), int), np.zeros((3, persons), int)
    for level, horizon in enumerate(horizons):
        shown = list(range(persons))
        for time, u, event in events:
            if time <= horizon:
                secret = expand(SECRET, "partners", int(event).to_bytes(4, "little"))
                block = np.ascontiguousarray(found.units[[u]])
                word = int(BlockFunction(secret)(block, room_for(1))[0])
                w = (u + 1 + word // 4 % (persons - 1)) % persons  # another one of all
                assert w != u
                shown[u], old = shown[w], shown[u]
                changes[level, u] += 1
                if word % 4:  # three of four are swaps
                    shown[w] = old
                    changes[level, w] += 1
        expected[level] = shown
    made = found.exchanged(noise, SECRET)
    assert np.array_equal(made.changes, changes)
    assert np.array_equal(made.donors, np.where(changes == 0, -1, expected))


def test_persons_keep_their_history_as_often_as_a_level_states():
    persons = 40_000
    levels = np.array([0.25, 1.0, 4.0])
    donors = donors_of(persons_with_a_row(persons), levels.tolist())
    kept = (donors < 0).mean(axis=1)
    q = 1 / np.sqrt(1 + levels)
    # swaps change two at once: the variance of their number is at most twice that of a draw each
    assert np.abs(kept - q).max() < 5 * np.sqrt(2 * 0.25 / persons)  # 3 comparisons, 6e-7 each
    # who is replaced at a level is replaced at any higher one
    assert ((donors[0] >= 0) <= (donors[1] >= 0)).all()
    assert ((donors[1] >= 0) <= (donors[2] >= 0)).all()
    # of n persons with a value n show it, give or take sqrt(C ln(1+v) n (1 - n / all))
    has = np.random.default_rng(5).random((200, persons)) < 0.3
    shown = has[:, np.where(donors[2] < 0, np.arange(persons), donors[2])].sum(axis=1)
    spread = np.mean((shown - has.sum(axis=1)) ** 2) / (persons * 0.3 * 0.7)
    # 200 squares of normal numbers of one common draw: within a half but for one time in 10^5
    assert spread == pytest.approx(COPIED * np.log(5), rel=0.5)


def test_noisier_copies_show_no_history_that_a_better_one_does_not():
    """Nor do they reveal which ones are true, to somebody who counts where each is shown."""
    persons, noise = 60_000, [1.0, 4.0, 19.0]

    def gain(shown):
        """By how many standard errors the best copy is right more often where others add one."""
        best = shown[0]
        once = np.bincount(best, minlength=persons)[best] == 1
        new = np.zeros(persons, int)
        for worse in shown[1:]:
            new += np.bincount(worse[worse != best], minlength=persons)
        more, right = new[best] > 0, best == np.arange(persons)
        shares = [right[once & each] for each in (more, ~more)]
        error = np.sqrt(sum(each.var() / len(each) for each in shares))
        return abs(shares[0].mean() - shares[1].mean()) / error

    shown = shown_by(persons_with_a_row(persons), noise)
    for worse in shown[1:]:
        assert set(worse) <= set(shown[0])
    assert gain(shown) < 5  # 6e-7
    # negative control: events that draw from the table, each history once
    control = drawn_anew(persons, noise)
    assert not set(control[1]) <= set(control[0])
    assert gain(control) > 20


def growing(seed=0):
    """Rows of three editions: old persons with more rows or none, new ones, few and many, gaps."""
    rng = np.random.default_rng(seed)
    units, editions = [], []
    for edition, (first, last) in enumerate([(0, 80), (0, 120), (0, 125)]):
        came = np.repeat(np.arange(first, last), rng.integers(0, 4, last - first))
        units.append(came)
        editions.append(np.full(len(came), edition))
    units, editions = np.concatenate(units), np.concatenate(editions)
    codes = rng.integers(0, 5, (2, len(units))).astype(np.int32)
    codes[rng.random(codes.shape) < 0.3] = -1
    return units, editions, codes


def replaced(rows, edition, *, level=1):
    """The codes of the rows of an edition, and whether each row has a donor."""
    units, editions, codes = (each[..., rows[1] <= edition] for each in rows)
    found = histories_of(units, editions, codes)
    donors = donors_of(found)[level]
    ids = np.column_stack([np.arange(len(units)), np.zeros(len(units))]).astype(np.uint64)
    [tail] = found.tails(donors[None], SECRET)
    return found.replaced(ids, codes, donors, tail), found


@pytest.mark.parametrize("seed", range(6))
def test_no_cell_changes_when_editions_come(seed):
    """A cell that changed would show that its person was replaced."""
    rows = growing(seed)
    for edition in (0, 1):
        before, _ = replaced(rows, edition)
        after, _ = replaced(rows, edition + 1)
        np.testing.assert_array_equal(before, after[:, : before.shape[1]])


def test_the_control_reads_donors_up_to_their_last_row_and_cells_change(monkeypatch):
    real = Histories.replaced

    def all_rows(self, ids, own, donors, _):
        # as if all rows of a person had come at once
        once = replace(self, stamps=self.stamps // self.editions, editions=1)
        return real(once, ids, own, donors, *once.tails(donors[None], SECRET))

    monkeypatch.setattr(Histories, "replaced", all_rows)
    changed = 0
    for seed in range(6):
        rows = growing(seed)
        before, after = (replaced(rows, edition, level=2)[0] for edition in (0, 1))
        changed += np.count_nonzero(before != after[:, : before.shape[1]])
    assert changed > 0


def long_histories(seed=0, persons=60):
    """60 to 200 rows each: a sex that stays, a diagnosis that changes, a stage that rises."""
    rng = np.random.default_rng(seed)
    units = np.repeat(np.arange(persons), rng.integers(60, 201, persons))
    is_first = np.append(True, units[1:] != units[:-1])
    diagnosis, stage = np.empty((2, len(units)), dtype=np.int32)
    for row, first in enumerate(is_first):
        anew = first or rng.random() < 0.15
        diagnosis[row] = rng.integers(0, 5) if anew else diagnosis[row - 1]
        stage[row] = 0 if first else min(4, stage[row - 1] + (rng.random() < 0.02))
    codes = np.stack([rng.integers(0, 2, persons)[units], diagnosis, stage]).astype(np.int32)
    return units, np.zeros(len(units), int), codes


def ends_of(codes, units):
    """For how many rows each person's last value has been there."""
    runs = np.append(True, (codes[1:] != codes[:-1]) | (units[1:] != units[:-1]))
    begins = np.flatnonzero(runs)
    last = np.append(units[1:] != units[:-1], True)
    return np.flatnonzero(last) - begins[np.cumsum(runs)[last] - 1] + 1


def test_histories_that_outgrow_their_donors_go_on_like_any_other():
    """Of 60 persons with 60 rows or more, a third would end in one value of their donor's."""
    units, editions, codes = long_histories()
    found = histories_of(units, editions, codes)
    ids = np.column_stack([np.arange(len(units)), np.zeros(len(units))]).astype(np.uint64)
    shown, constant, expected = [], [], ends_of(codes[1], units)
    for key in range(8):
        # at such a level hardly anybody shows their own
        [donors] = found.exchanged([1e6], bytes([key]) * 32).donors
        donors = np.where(donors < 0, np.arange(len(donors)), donors)
        [tail] = found.tails(donors[None], SECRET)
        nothing = Tail(tail.places[:0], tail.sources[:0])
        for tails, each in ((shown, tail), (constant, nothing)):
            tails.append(found.replaced(ids, codes, donors, each))
        # all rows beyond the donor's are replaced by rows of others, in a state that was there
        person = np.searchsorted(found.starts, np.arange(len(units)), side="right") - 1
        assert (person[tail.places] != person[tail.sources]).all()
        sizes = np.bincount(person)
        assert len(tail.places) == np.maximum(sizes - sizes[donors], 0).sum()
    assert len(tail.places) > 0.04 * len(units)
    for made_ in shown:  # what persons keep has no seam, and nothing falls
        same = units[1:] == units[:-1]
        assert (made_[0, 1:] == made_[0, :-1])[same].all()
        assert (np.diff(made_[2])[same] >= 0).all()
    mean, control = (np.mean([ends_of(m[1], units) for m in each]) for each in (shown, constant))
    # a run of the same value lasts 8 rows on average: 480 of them, five standard errors
    assert mean == pytest.approx(expected.mean(), abs=5)
    assert control > expected.mean() + 8


def test_gaps_of_a_person_stay_and_those_of_a_donor_are_filled():
    rows = growing(3)
    made_, _ = replaced(rows, 2, level=2)
    np.testing.assert_array_equal(made_ == -1, rows[2] == -1)
    assert (made_ != rows[2]).mean() > 0.2


def test_all_categories_of_a_person_are_replaced_by_those_of_one_other(vault):
    """Groups of columns together and hidden gaps are parts of the history."""
    table = panel(400, 4)
    number = pa.array([str(n) for n in persons_of(table)])
    whose = pa.array([f"{n}" for n in persons_of(table) // 2])
    table = with_gaps(with_column(table, "town", whose), "town")
    table = with_column(table, "who", number).drop(["height", "weight"])
    choices = {"together": [("sex", "stage")], "hide_missing": ["town"]}
    _, copy = released(vault, table, noise=4.0, categorical=["who", "town"], **choices)
    of = persons_of(table)
    donor = np.array([int(n) for n in copy["who"].to_pylist()])
    first = np.searchsorted(of, np.arange(400))
    assert all(len(set(donor[of == person])) == 1 for person in range(400))
    at = first[donor] + np.arange(table.num_rows) - first[of]
    for name in ("sex", "stage", "town"):
        wanted = np.array(table[name].to_pylist(), dtype=object)[at]
        assert copy[name].to_pylist() == wanted.tolist(), name
    assert copy["town"].null_count > 0
    assert 0.4 < (donor != of).mean() < 0.7  # 1 - 1/sqrt(5) = .55, and few are their own donor


def test_a_value_that_one_person_alone_has_identifies_them_in_however_many_rows(vault):
    table = panel(100, 10)
    names = pa.array([f"name {n}" for n in persons_of(table)])
    named = with_column(table, "name", names)
    with pytest.raises(ColumnError, match="'name': 100 of 100 values are held by one person alone"):
        released(vault, named)
    assert not vault.datasets()
    released(vault, named, categorical=["name"])  # the owner's decision
    # negative control: by rows, each value is held by ten, and nobody would have been asked
    tallied = survey_of(named, KEY, unit="patient", keep_order=True)[1].tallies[("name",)]
    assert set(tallied.values()) == {10}


def test_a_minimum_count_is_one_of_persons(vault):
    """A town of one person is pooled, in however many rows; one of ten persons is not."""
    table = panel(100, 10)
    of = persons_of(table)
    towns = pa.array([f"alone {u}" if u < 5 else f"town {u % 9}" for u in of])
    _, copy = released(vault, with_column(table, "town", towns), min_count=3)
    assert set(copy["town"].to_pylist()) == {"(other)", *(f"town {n}" for n in range(9))}


def test_values_that_vary_in_a_person_are_pooled_by_how_many_persons_hold_them(vault):
    """150 minutes, drawn anew in each of 30 rows of 100 persons: about 18 persons hold each.

    If persons counted as rows over the rows that a person has, it would be less than one.
    """
    table = panel(100, 30)
    minutes = np.random.default_rng(5).integers(0, 150, table.num_rows)
    held = [f"{minute // 60}:{minute % 60:02d}" for minute in minutes]
    _, copy = released(vault, with_column(table, "left", pa.array(held)), min_count=5)
    assert set(copy["left"].to_pylist()) == set(held)


def test_holders_add_up_in_any_parts():
    table = panel(30, 6)
    table = with_column(table, "town", pa.array([f"{u // 2}" for u in persons_of(table)]))
    surveyor, survey = survey_of(table, KEY, unit="patient", keep_order=True)
    ids = position_ids(0, table.num_rows).copy()
    parts = [
        surveyor.of(ids[at : at + 37], table.slice(at, 37), np.arange(at, min(at + 37, 180)))
        for at in range(0, 180, 37)
    ]
    total = parts[2] + parts[0] + (parts[4] + parts[1]) + parts[3]
    assert total.holders == survey.holders
    assert {len(set(words)) for words in survey.holders[("town",)].values()} == {2}


@pytest.mark.parametrize("by", ["time", "number", "text", "nothing"])
def test_histories_are_in_the_order_of_time_or_key_whatever_that_of_the_file(vault, by):
    """Else a stage that only rises would fall in the rows of those who were replaced."""
    table = panel(200, 8).drop(["height", "sex"])
    visit = pa.array(np.arange(1600) % 8)
    table = with_column(table, "visit", visit)
    rises = pa.array([f"R{n // 3}" for n in np.array(visit) + persons_of(table) % 4])
    table = with_column(table, "stage", rises)
    rows = np.arange(1600)
    keys = {"number": rows, "text": [f"V{n}" for n in rows], "nothing": words_of(rows)}
    table = with_column(table, "row", pa.array(keys.get(by, rows)))
    mixed = table.take(pa.array(np.random.default_rng(2).permutation(1600)))
    choices = {"time": "visit"} if by == "time" else {}
    _, copy = released(vault, mixed, noise=4.0, key="row", keep=["visit"], **choices)
    copy = copy.sort_by([("patient", "ascending"), ("visit", "ascending")])
    stage = np.array([int(cell[1:]) for cell in copy["stage"].to_pylist()]).reshape(200, 8)
    falls = (np.diff(stage, axis=1) < 0).any(axis=1).mean()
    assert falls > 0.4 if by == "nothing" else falls == 0


@pytest.mark.filterwarnings("ignore:'visit' is released unchanged")
@pytest.mark.parametrize("shuffled", [True, False])
def test_without_a_key_histories_are_in_the_order_of_the_file_unless_it_is_shuffled(
    vault, shuffled
):
    """Else donors would show the place of a row, and what goes with it, whatever the noise."""
    table = panel(200, 8).drop(["height", "sex"])
    visit = np.arange(1600) % 8
    table = with_column(table, "visit", pa.array(visit))
    rises = pa.array([f"R{n // 3}" for n in visit + persons_of(table) % 4])
    table = with_column(table, "stage", rises)
    order = {"keep_order": not shuffled, "shuffle": shuffled}
    _, copy = released(vault, table, noise=4.0, keep=["visit"], **order)
    copy = copy.sort_by([("patient", "ascending"), ("visit", "ascending")])
    stage = np.array([int(cell[1:]) for cell in copy["stage"].to_pylist()]).reshape(200, 8)
    falls = (np.diff(stage, axis=1) < 0).any(axis=1).mean()
    assert falls > 0.4 if shuffled else falls == 0


def words_of(rows):
    """Keys without a number, in no order."""
    return ["".join(chr(97 + int(d)) for d in f"{n * 7919 % 10007:05d}") for n in rows.tolist()]


@pytest.mark.parametrize("ordered", [True, False])
def test_a_stage_that_advances_by_row_is_hidden_from_who_knows_places(vault, monkeypatch, ordered):
    """1 to 40 rows each, in the order of the key; the adversary counts, and has code of its own."""
    if not ordered:  # the negative control: rows of a donor in any order, and places that count not
        for room in ("rows", "survey"):
            monkeypatch.setattr(f"cornerwave.spine.{room}.shows_order", lambda _: False)
    rng, persons, stages = np.random.default_rng(3), 1000, 12
    counts = np.clip(np.round(rng.lognormal(1.5, 1.0, persons)), 1, 40).astype(int)
    person, n = np.repeat(np.arange(persons), counts), counts.sum()
    place = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)
    begins = 3 * rng.choice(4, persons, p=[0.4, 0.3, 0.2, 0.1])[person]
    stage = (begins + place) % stages
    table = pa.table(
        {"row": np.arange(n), "patient": person, "stage": np.array(list("abcdefghijkl"))[stage]}
    )
    choices = {"unit": "patient", "key": "row", "keep_order": True}
    dataset = vault.register("stages", table, **choices)
    assert dataset.frozen.hidden.highest > 0.5
    copy = dataset.release(to="a", privacy=0.5).to_arrow()
    shown = np.array([ord(cell) - 97 for cell in copy["stage"].to_pylist()])
    # who was replaced by rows in another order does not advance by one
    starts = (shown - place) % stages
    odd = np.repeat(np.maximum.reduceat(starts, np.flatnonzero(place == 0)), counts) != starts
    odd = np.repeat(np.logical_or.reduceat(odd, np.flatnonzero(place == 0)), counts)
    chance = np.empty((n, stages))
    for half in (0, 1):
        learns, rest = person % 2 == half, person % 2 != half
        often = np.full((stages, 2, stages), 0.5)
        np.add.at(often, (starts[learns], odd[learns].astype(int), begins[learns]), 1)
        often /= often.sum(axis=2, keepdims=True)
        chance[rest] = often[starts[rest], odd[rest].astype(int)]
    each = ((np.eye(stages)[begins] - chance) ** 2).sum(axis=1)
    variance = 1 - (np.bincount(stage) / n) @ (np.bincount(stage) / n)
    left = each.mean() / variance
    of_persons = np.add.reduceat(each - each.mean(), np.flatnonzero(place == 0))
    error = np.sqrt((of_persons**2).sum()) / n / variance  # rows of a person are one look
    assert left > 0.95 * 0.5 - 4 * error if ordered else left < 0.95 * 0.5 - 4 * error


def test_a_gap_in_a_constant_column_leaves_what_is_hidden(vault):
    """Once a gap counted as a change of height, and nothing could be promised of it."""
    table = with_gaps(panel(300, 6), "height")
    dataset, copy = released(vault, table)
    assert dataset.frozen.hidden.at(Level(1.0))["height"] > 0.49
    gaps = np.array([cell is None for cell in table["height"].to_pylist()])
    assert [cell is None for cell in copy["height"].to_pylist()] == gaps.tolist()
    noisy, of = copy["height"].to_numpy(), persons_of(table)
    assert max(np.ptp(noisy[(of == u) & ~gaps]) for u in range(300) if (~gaps[of == u]).any()) == 0


@pytest.mark.parametrize(("spread", "raised"), [(3.0, True), (0.3, False)])
def test_a_kept_flag_that_reveals_how_much_rows_vary_raises_the_noise(vault, spread, raised):
    rng, persons = np.random.default_rng(3), 2000
    of = np.repeat(np.arange(persons), 6)
    flag = (rng.random(persons) < 0.1)[of]
    x = rng.normal(size=persons)[of] + np.where(flag, spread, 0.3) * rng.normal(size=len(of))
    table = pa.table({"patient": of.astype(str), "flag": flag.astype(int), "x": x})
    dataset = vault.register("x", table, unit="patient", keep_order=True, keep=["flag"])
    noise = dataset.frozen.hidden.level_of(500).noise
    assert noise > 4 if raised else noise < 1.1


# --- Constants, editions, updates ----------------------------------------------------------------


@pytest.mark.slow
def test_a_column_that_changes_in_one_of_200_000_persons_has_noise_by_row(vault):
    persons = 200_000
    table = panel(persons, 2).drop(["sex", "stage", "weight"])
    height = table["height"].to_numpy().copy()
    height[-1] += 5.0
    dataset, copy = released(vault, with_column(table, "height", pa.array(height)))
    assert dataset.frozen.persons.named(["height"]) == []
    noisy = copy["height"].to_numpy()
    assert (noisy[::2] != noisy[1::2]).all()
    # negative control: without the change no row has noise by itself
    other, same_ = released(vault, table, name="other", unrelated=["people"])
    assert other.frozen.persons.named(["height"]) == ["height"]
    assert (same_["height"].to_numpy()[::2] == same_["height"].to_numpy()[1::2]).all()


def months(count=3, persons=60):
    """Months of the same persons, the later with 30 new ones each."""
    first = panel(persons, 3)
    later = [
        pa.concat_tables([panel(persons, 2, visit=3 * m), panel(30, 3, first=1000 * m, seed=m)])
        for m in range(1, count)
    ]
    return [first, *later]


def appended(vault, tables, **choices):
    choices = {"unit": "patient", "keep_order": True, "few_rows": True, **choices}
    dataset = vault.register("people", tables[0], **choices)
    for table in tables[1:]:
        dataset.append(table)
    return vault.dataset("people", source=tables)


def test_months_of_a_person_have_the_noise_of_the_person(vault):
    tables = months()
    dataset = appended(vault, tables)
    copy = dataset.release(to="a", noise=1.0, raw=True).to_arrow()
    whole = pa.concat_tables(tables)
    noise, of = (copy["height"].to_numpy() - whole["height"].to_numpy()), persons_of(whole)
    # heights lie on the same grid, so that the noise does but for its rounding
    assert max(np.ptp(copy["height"].to_numpy()[of == u]) for u in range(120)) == 0
    assert np.std(noise) > 5
    assert len(set(copy["patient"].to_pylist())) == 120


def slow_costs(persons=600, rows=12, past=0.9):
    """A cost that follows its past, row after row of each person, and a height."""
    rng = np.random.default_rng(8)
    fresh, cost = rng.normal(size=(persons, rows)), np.empty((persons, rows))
    cost[:, 0] = fresh[:, 0]
    for t in range(1, rows):
        cost[:, t] = past * cost[:, t - 1] + np.sqrt(1 - past**2) * fresh[:, t]
    units = np.repeat([f"P{u}" for u in range(persons)], rows)
    height = np.repeat(rng.normal(170, 10, persons), rows)
    return pa.table({"patient": units, "height": height, "cost": cost.ravel()})


def in_parts(table, *sizes, rows=12):
    place = np.arange(table.num_rows) % rows
    ends = np.cumsum([0, *sizes])
    return [table.filter(pa.array((place >= a) & (place < b))) for a, b in pairwise(ends)]


def test_persons_who_grow_take_more_noise_and_older_editions_stay(vault, tmp_path):
    tables = in_parts(slow_costs(), 3, 9)
    dataset, _ = released(vault, tables[0])
    first = dataset.release(to="b", privacy=0.5)
    first.write(tmp_path / "first.csv")
    with pytest.warns(CornerwaveWarning, match="persons have more rows now.*'cost'"):
        edition = dataset.append(tables[1])
    assert set(edition.drift.persons) == {"cost"}
    assert any("cost: persons have more rows" in each for each in edition.drift.sentences())
    dataset = vault.dataset("people", source=tables)
    now = dataset.release(to="c", privacy=0.5)
    assert now.level.noise > 1.3 * first.level.noise
    assert dataset.privacy_of(first.level) < 0.45
    # copies of the first edition are made again as they were, with what they stated
    [(again, _), *_] = dataset.again("b")
    again.write(tmp_path / "again.csv")
    for name in ("first.csv", "first.csv.meta.json"):
        other = name.replace("first", "again")
        assert (tmp_path / other).read_bytes() == (tmp_path / name).read_bytes()


def test_persons_who_stay_alike_take_no_more_noise(vault):
    tables = in_parts(slow_costs(past=0.0), 3, 9)
    dataset, _ = released(vault, tables[0])
    before = dataset.frozen.hidden
    assert dataset.append(tables[1]).drift.persons == {}
    assert dataset.frozen.hidden == before


def test_persons_who_would_take_far_more_noise_are_refused(vault):
    """Within three rows nothing changes but by a trifle; later everything does."""
    tables = in_parts(slow_costs(past=0.999), 3, 9)
    later = tables[1].to_pandas()
    later["cost"] = np.random.default_rng(0).permutation(later["cost"])
    dataset, _ = released(vault, tables[0])
    with pytest.raises(Drifted, match="persons have more rows now"):
        dataset.append(later)
    assert len(dataset.editions) == 1


def test_what_a_ledger_keeps_of_persons_comes_back_and_holds_no_value():
    table = with_gaps(panel(400, 6), "weight")
    surveyor, survey = survey_of(table, KEY, unit="patient", few_rows=True, keep_order=True)
    kept = AllPersons.of(survey, surveyor.schema)
    content = kept.to_bytes()
    again = AllPersons.read(content)
    assert again.to_bytes() == content
    np.testing.assert_array_equal(again.sample.numbers, kept.sample.numbers)
    cells = [cell for cell in table["weight"].to_pylist() if cell is not None]
    assert not np.isin(again.sample.numbers, cells).any()


def test_a_batch_alone_is_those_rows_of_the_whole_and_older_editions_stay(vault):
    tables = months()
    dataset = appended(vault, tables)
    whole = dataset.release(to="a", noise=1.0, raw=True).to_arrow()
    sizes = [table.num_rows for table in tables]
    batch = dataset.release(to="b", noise=1.0, batch=2, raw=True).to_arrow()
    assert batch.equals(whole.slice(sizes[0], sizes[1]))
    older = dataset.release(to="c", noise=1.0, edition=2, raw=True).to_arrow()
    assert older.equals(whole.slice(0, sizes[0] + sizes[1]))


def test_a_release_again_is_byte_for_byte_the_same(vault, tmp_path):
    dataset = appended(vault, months())
    one = dataset.release(to="a", privacy=0.5).write(tmp_path / "one.csv")
    two = dataset.release(to="a", privacy=0.5).write(tmp_path / "two.csv")
    assert one.read_bytes() == two.read_bytes()


def test_a_constant_that_changes_in_a_batch_is_refused(vault):
    first, second, _ = months()
    dataset = appended(vault, [first])
    height = second["height"].to_numpy().copy()
    height[3] += 1.0
    with pytest.raises(ColumnError, match="'height': so far the same in all rows of a person"):
        dataset.append(with_column(second, "height", pa.array(height)))
    assert len(dataset.editions) == 1
    dataset.append(second)


def numbered(table, **columns):
    """A table with a key, and other values in some columns."""
    table = table.add_column(0, "id", pa.array(np.arange(table.num_rows)))
    for name, values in columns.items():
        place = table.column_names.index(name)
        table = table.set_column(place, name, pa.array(values))
    return table


def left_of(wanted, seen, half):
    """The share of something that a linear estimate leaves, of persons it was not fitted on."""
    A, left = np.column_stack([np.ones(len(seen)), seen]), np.empty(len(wanted))
    for k in (0, 1):
        weights = np.linalg.lstsq(A[half != k], wanted[half != k], rcond=None)[0]
        left[half == k] = wanted[half == k] - A[half == k] @ weights
    return (left**2).mean() / wanted.var()


@pytest.mark.parametrize("alike", [True, False], ids=["persons", "rows"])
def test_an_update_hides_what_changed_of_persons(vault, monkeypatch, alike):
    """All rows of a person change by the same, or each by its own: copies of both editions."""
    persons, rows = 3000, 5
    of, rng = np.repeat(np.arange(persons), rows), np.random.default_rng(5)
    table = numbered(slow_costs(persons, rows, past=0.5))
    more = rng.normal(size=persons)[of] if alike else rng.normal(size=len(of))
    cost = table["cost"].to_numpy()
    later = cost + 0.35 * more
    changed = numbered(slow_costs(persons, rows, past=0.5), cost=later)
    dataset, before = released(vault, table, key="id")
    edition = dataset.update(changed, old=table)
    assert 0.5 < edition.changes.hides["change"] < 0.65
    dataset = vault.dataset("people", source=changed)

    def left(wanted):
        after = dataset.release(to="b", noise=1.0, raw=True).to_arrow()
        np.testing.assert_array_equal(before["height"].to_numpy(), after["height"].to_numpy())
        seen = np.array([before["cost"].to_numpy(), after["cost"].to_numpy()])
        means = np.repeat(seen.reshape(2, persons, rows).mean(axis=2), rows, axis=1)
        beside = np.roll(seen.reshape(2, persons, rows), 1, axis=2).reshape(2, -1)
        half = rng.integers(0, 2, persons)[of]
        return left_of(wanted, np.vstack([seen, means, beside]).T, half)

    mean = np.repeat(more.reshape(persons, rows).mean(axis=1), rows)
    between = more - np.roll(more.reshape(persons, rows), 1, axis=1).ravel()
    asked = mean if alike else between
    assert left(asked) > 0.475
    assert min(left(cost), left(later)) > 0.475
    # negative control: fresh noise of rows alone, or of persons alone
    make = PersonHistoryReader.__init__

    def only_one(self, *args, **named):
        make(self, *args, **named)
        readers = self._shared[0] if alike else self._later
        readers.update({e: SimpleNamespace(white=nothing(r.white)) for e, r in readers.items()})

    monkeypatch.setattr(PersonHistoryReader, "__init__", only_one)
    assert left(asked) < 0.35


def nothing(white):
    """A path that is 0 at all levels."""
    return lambda ids: ((index, 0 * path) for index, path in white(ids))


def test_rows_that_did_not_change_keep_their_noise_and_those_that_came_have_their_person_s(vault):
    table = numbered(slow_costs(300, 5, past=0.5))
    cost = table["cost"].to_numpy().copy()
    cost[::7] += 1.0
    changed = numbered(slow_costs(300, 5, past=0.5), cost=cost)
    gone = changed.filter(pa.array(np.arange(1500) % 11 != 3))
    more = gone.slice(0, 2).set_column(0, "id", pa.array([5000, 5001]))
    new = pa.concat_tables([gone, more.set_column(3, "cost", pa.array([0.3, -0.2]))])
    dataset, before = released(vault, table, key="id")
    edition = dataset.update(new, old=table)
    assert (edition.changes.came, edition.changes.went) == (2, 137)
    after = vault.dataset("people", source=new).release(to="b", noise=1.0, raw=True).to_arrow()
    old = {k: (h, c) for k, h, c in zip(*before.select(KEYED).to_pydict().values(), strict=True)}
    stayed = set(np.flatnonzero(np.arange(1500) % 7).tolist())
    heights = {}
    for place, (key, height, cost) in enumerate(
        zip(*after.select(KEYED).to_pydict().values(), strict=True)
    ):
        number = int(new["id"][place].as_py())
        heights.setdefault(new["patient"][place].as_py(), set()).add(height)
        if number < 1500:
            assert old[key][0] == height
            assert (old[key][1] == cost) == (number in stayed)
    assert all(len(each) == 1 for each in heights.values())


KEYED = ["id", "height", "cost"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"height": lambda values: values + 1.0}, "'height': so far the same in all rows"),
        ({"patient": lambda values: np.roll(values, 1)}, "'patient' changed in"),
    ],
)
def test_an_update_refuses_the_part_that_cannot_be_hidden(vault, change, message):
    table = numbered(slow_costs(100, 5))
    [(name, how)] = change.items()
    other = numbered(slow_costs(100, 5), **{name: how(table[name].to_numpy())})
    dataset, _ = released(vault, table, key="id")
    with pytest.raises(ColumnError, match=message):
        dataset.update(other, old=table)
    assert len(dataset.editions) == 1


def test_donors_come_from_the_registered_rows_alone(vault):
    """Also those of rows that a batch's release does not write."""
    tables = months(2)
    dataset = appended(vault, tables)
    dataset.release(to="a", noise=1.0, batch=2).to_arrow()
    sex = ["m" if cell == "f" else "f" for cell in tables[0]["sex"].to_pylist()]
    edited = with_column(tables[0], "sex", pa.array(sex))
    dataset = vault.dataset("people", source=[edited, tables[1]])
    with pytest.raises(SourceChanged, match="not the registered table"):
        dataset.release(to="b", noise=1.0, batch=2).to_arrow()
    # negative control: numbers of the batch alone would not have shown it
    numbers_only = Vault.create(vault.path.parent / "numbers")
    plain = [table.drop(["sex", "stage"]) for table in tables]
    appended(numbers_only, plain)
    moved = with_column(plain[0], "weight", pa.array(plain[0]["weight"].to_numpy() + 1))
    again = numbers_only.dataset("people", source=[moved, plain[1]])
    assert again.release(to="b", noise=1.0, batch=2).to_arrow().num_rows == plain[1].num_rows


# --- Golden vectors ------------------------------------------------------------------------------

GOLDEN = [
    [
        "0x1.be8f200000000p-2",
        "0x1.aba249e000000p+6",
        "-0x1.ca27c00000000p+0",
        "0x1.6870aba000000p+6",
        "0x1.be8f200000000p-2",
        "0x1.f4a942e000000p+6",
        "-0x1.3ed3d00000000p+2",
        "0x1.45db8ec000000p+6",
        "-0x1.ca27c00000000p+0",
        "nan",
        "0x1.664c280000000p+1",
        "0x1.755df94000000p+6",
    ],
    [
        "0x1.2636940000000p+2",
        "0x1.bbeb1c2000000p+6",
        "0x1.afa2140000000p+1",
        "0x1.3c5c4c4000000p+6",
        "0x1.2636940000000p+2",
        "0x1.cb6fd28000000p+6",
        "-0x1.258deb0000000p+2",
        "0x1.4b95338000000p+6",
        "0x1.afa2140000000p+1",
        "nan",
        "0x1.ba43160000000p+1",
        "0x1.421f546000000p+6",
    ],
]
GOLDEN_HISTORIES = "b55ba60db990f4de6a5607e1779e95eee8cceeec337569420e9447278ed2d4cd"


def test_golden_copy_of_persons():
    """Format 1 for ever: if this fails, copies released before can not be made again."""
    table = pa.table(
        {
            "who": ["a", "b", "a", "c", "b", None],
            "x": [1.0, 2.5, 1.0, -3.0, 2.5, 0.125],
            "y": [100.0, 90.5, 120.25, 80.0, None, 99.0],
        }
    )
    noise = PersonNoise(
        knots=np.zeros(1),
        person=np.array([[[4.0, 0.0], [-2.0, 5.0]]]),
        within=np.array([[[0.0, 0.0], [0.0, 49.0]]]),
        row=np.array([[[0.0, 0.0], [0.0, 7.0]]]),
        shape=np.array([[16.0, -8.0], [-8.0, 78.0]]),
        constant=(0,),
    )
    frozen = Frozen(
        schema=decide(table.schema, unit="who", keep_order=True),
        source_types=table.schema,
        rows=6,
        scales=(Scale(), Scale()),
        mean=np.array([1.0, 97.5]),
        covariance=noise.shape,
        excess=np.zeros((2, 2)),
        factor=np.array([[4.0, 0.0], [-2.0, 8.602325267042627]]),
        grid=np.array([2.0**-22, 2.0**-21]),
        categories=(),
        missing=("y",),
        fingerprint="",
        draws=None,
        hidden=Hidden({}, tuple(range(1, 1000)), {}),
        persons=noise,
    )
    frozen = replace(frozen, fingerprint=str(survey_of(table, KEY2, unit="who")[1].fingerprint))
    near, far = copies(table, frozen, [0.25, 1.0])
    hexes = [[float(v).hex() for v in numbers(t, "x", "y").T.ravel()] for t in (near, far)]
    assert hexes == GOLDEN


def test_golden_histories():
    """Who replaces whom is as much a part of a copy as its noise."""
    units, editions, codes = growing(0)
    made_ = [replaced((units, editions, codes), edition)[0] for edition in range(3)]
    donors = [donors_of(replaced((units, editions, codes), edition)[1]) for edition in range(3)]
    content = b"".join(np.ascontiguousarray(x, dtype="<i8").tobytes() for x in (*made_, *donors))
    assert sha256(content).hexdigest() == GOLDEN_HISTORIES
