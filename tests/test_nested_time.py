"""Persons in households with a time: curves of both, and what copies leave of them."""

import numpy as np
import pyarrow as pa
import pytest

from cornerwave.audit import audit
from cornerwave.errors import ColumnError
from cornerwave.ledger import Key
from cornerwave.levels import Level
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
from cornerwave.privacy import hidden_of_persons
from cornerwave.privacy._nested import Nested
from cornerwave.privacy._nested_noise import NestedNoise
from cornerwave.spine import person_curves
from cornerwave.spine.coordinates import sampled_persons
from cornerwave.spine.frozen import Frozen
from cornerwave.vault import Vault
from tests.conftest import freeze_table, survey_of
from tests.panels import with_column

KEY = Key.unsafe_from_seed(5)
CHOICES = {"unit": ["household", "person"], "time": "when", "drop": ["when"], "keep_order": True}
NAMES, TIMES = ("income", "rooms", "height"), 6


def drifting(rng, count, times, rho=0.9):
    """Series of variance 1 of which each value follows the last one."""
    z = rng.normal(size=(count, times))
    for at in range(1, times):
        z[:, at] = rho * z[:, at - 1] + np.sqrt(1 - rho**2) * z[:, at]
    return z


def households(count=150, seed=0, *, persons=2, times=TIMES, unequal=False, trend=0.0):
    """Incomes drift, in households and in persons; rooms and heights are constant.

    Each household has as many `persons`, seen at all times; if they are `unequal`, up to as many,
    each from some time to some time.
    """
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, persons + 1, count) if unequal else np.full(count, persons)
    home = np.repeat(np.arange(count), sizes)
    number = np.arange(len(home)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    rows = rng.integers(1, times + 1, len(home)) if unequal else np.full(len(home), times)
    person = np.repeat(np.arange(len(home)), rows)
    when = np.arange(len(person)) - np.repeat(np.cumsum(rows) - rows, rows)
    when += rng.integers(0, times - rows + 1)[person]
    theirs, own = drifting(rng, count, times, 0.6), drifting(rng, len(home), times)
    of, n = home[person], len(person)
    rooms, height = rng.normal(size=count), rng.normal(size=len(home)) + 0.5 * theirs[home, 0]
    income = theirs[of, when] + 0.8 * own[person, when] + 0.4 * rng.normal(size=n) + trend * when
    return pa.table(
        {
            "household": [f"H{h:05d}" for h in of],
            "person": number[person],
            "when": when,
            "income": income,
            "rooms": 5 + rooms[of],
            "height": 170 + 9 * height[person],
        }
    )


def values(table, *names):
    return np.array([table[name].to_numpy() for name in names])


def frozen_of(table, **choices):
    return freeze_table(table, KEY, **{**CHOICES, "few_rows": True, **choices})


def noise_of(table):
    """The noise of NAMES: a time that copies do not show has noise too."""
    frozen = frozen_of(table)
    return frozen.persons.only([frozen.schema.perturbed.index(name) for name in NAMES])


# --- noise --------------------------------------------------------------------------------


def read_noise(noise, ids, units, outers, times, rows=512):
    reading = Reading(lattice_path(), [lattice_index(1.0)])
    reader = PersonReader(reading, bytes(32), bytes(31) + b"p", noise=noise, rows=rows)
    parts = []
    for at in range(0, len(ids), rows):
        some = slice(at, at + rows)
        [(_, W)] = reader.noise(ids[some], units[some], times[some], outers[some])
        parts.append(W.copy())
    return np.concatenate(parts, axis=1)


def ids_of(count, persons, rows):
    """Ids of rows, persons and households, of which each has as many."""
    outers = np.repeat(position_ids(0, count), persons * rows, axis=0)
    units = np.repeat(position_ids(10**6, count * persons), rows, axis=0)
    return position_ids(10**7, count * persons * rows), units, outers


def test_the_noise_of_rows_has_the_covariances_of_both_curves():
    """At knots and between them: Phi H Phi' of a household, Phi C Phi' more of a person."""
    noise, count = noise_of(households()), 15_000
    ids, units, outers = ids_of(count, 2, 2)
    for one, two in ((1.0, 1.0), (2.0, 4.0), (0.25, 3.5)):
        times = np.tile([one, two], 2 * count)
        W = read_noise(noise, ids, units, outers, times).reshape(3, count, 2, 2)
        phi = hat_matrix(np.array([one, two]), noise.knots)
        H, C = (np.einsum("jk,knq->jnq", phi, loadings) for loadings in (noise.outer, noise.person))
        R = noise.within[nearest_knots(np.array([one]), noise.knots)[0]]
        expected = {
            "row": (W[:, :, 0, 0], H[0] @ H[0].T + C[0] @ C[0].T + R),
            "person": (W[:, :, 0, 1], H[0] @ H[1].T + C[0] @ C[1].T),
            "household": (W[:, :, 1, 1], H[0] @ H[1].T),
        }
        size = np.sqrt(np.diag(noise.shape))
        for what, (other, wanted) in expected.items():
            found = W[:, :, 0, 0] @ other.T / count
            # a mean product of normals has a variance of at most 2 / n, and knots differ
            apart = np.abs((found - wanted) / np.outer(size, size))
            assert apart.max() < 2 * 5.6 * np.sqrt(2 / count), what


@pytest.mark.parametrize("rows", [1, 7, 64])
def test_noise_does_not_depend_on_blocks_or_on_the_order_of_rows(rows):
    noise, rng = noise_of(households()), np.random.default_rng(3)
    ids, units, outers = ids_of(10, 3, 4)
    times = rng.uniform(-2, 12, len(ids))
    whole = read_noise(noise, ids, units, outers, times, rows=128)
    order = rng.permutation(len(ids))
    mixed = [each[order] for each in (ids, units, outers, times)]
    np.testing.assert_array_equal(read_noise(noise, *mixed, rows=rows), whole[:, order])


def test_what_is_constant_in_households_and_persons_has_one_noise_at_all_times(tmp_path):
    table = households(unequal=True, persons=3)
    dataset = register(tmp_path, table, few_rows=True)
    copy = dataset.release(to="a", noise=1.0, raw=True).to_arrow()
    noise = values(copy, *NAMES) - values(table, *NAMES)
    home = np.unique(table["household"].to_pylist(), return_inverse=True)[1]
    person = np.unique(home * 10 + values(table, "person")[0], return_inverse=True)[1]
    for row, group in ((copy["rooms"].to_numpy(), home), (copy["height"].to_numpy(), person)):
        assert np.array_equal(row, row[np.unique(group, return_index=True)[1]][group])
        assert len(np.unique(row)) == group.max() + 1
    assert len(np.unique(noise[0])) == table.num_rows
    assert dataset.frozen.persons.outer_constant == (2,)


def test_what_is_frozen_comes_back_bit_for_bit():
    frozen = frozen_of(households())
    again = Frozen.from_json(frozen.to_json())
    assert again.to_json() == frozen.to_json()
    assert again.identity() == frozen.identity()
    assert np.array_equal(again.persons.outer, frozen.persons.outer)
    assert again.persons.outer.shape[0] == TIMES
    assert frozen_of(households(), time=None).identity() != frozen.identity()


# --- what is measured ---------------------------------------------------------------------


def rows_in_time(table, knots):
    """The rows of sampled persons in the order of time, and which household and person each has."""
    survey = survey_of(table, KEY, **CHOICES, few_rows=True)[1]
    sample = survey.persons
    rows = person_curves._RowsInTime.of(sample, sample.numbers[-1], 3, knots)
    sizes = np.diff(np.append(sample.starts, len(sample.units)))
    home = np.unique(sample.outers, return_inverse=True)[1]
    return rows, home, np.repeat(np.arange(len(sizes)), sizes)


def test_levels_of_households_come_from_pairs_of_different_persons(monkeypatch):
    rows, home, person = rows_in_time(households(25, persons=3, unequal=True), np.arange(3.0) * 2.5)
    kept = []
    fitted = person_curves._RowsInTime._fitted
    monkeypatch.setattr(
        person_curves._RowsInTime, "_fitted", lambda *of: kept.append(of[1]) or fitted(*of)
    )
    rows.levels_of_outers()
    J, N = len(rows.knots), len(rows.x)
    G, products = np.zeros((J * J, J * J)), np.zeros((J, N, J, N))
    for i in range(len(home)):
        others = np.flatnonzero((home == home[i]) & (person != person[i]))
        here = np.flatnonzero(home == home[i])
        partners = sum(((home == home[i]) & (person != person[a])).sum() for a in here)
        for j in others:
            weight = len(here) / partners
            a, b = rows.phi[i], rows.phi[j]
            G += weight * np.outer(np.outer(a, a).ravel(), np.outer(b, b).ravel())
            products += weight * np.einsum("k,a,l,b->kalb", a, rows.x[:, i], b, rows.x[:, j])
    np.testing.assert_allclose(kept[0].G, G, atol=1e-9)
    np.testing.assert_allclose(kept[0].products, products, atol=1e-6 * np.abs(products).max())


def test_the_levels_of_persons_and_households_are_those_of_the_table():
    """Of 800 households: H as drawn, and H + C + R not below the covariance of rows."""
    table = households(800)
    noise, K = noise_of(table), np.cov(values(table, *NAMES))
    H = np.einsum("knq,lmq->knlm", noise.outer, noise.outer)[:, 0, :, 0]
    C = np.einsum("knq,lmq->knlm", noise.person, noise.person)[:, 0, :, 0]
    lag = np.abs(np.subtract.outer(np.arange(TIMES), np.arange(TIMES)))
    # products of values of two persons, of variance 1.8 and correlated by 1/1.8, in 800
    # households have an error of at most sqrt((1.8^2 + 1) / 800): .073
    assert np.abs(H - 0.6**lag).max() < 5 * 0.073
    apart = np.abs(C - 0.64 * 0.9**lag)
    np.fill_diagonal(apart, 0.0)  # R has what single rows have alone
    assert apart.max() < 5 * 0.073
    scale = np.sqrt(np.diag(K))
    assert np.linalg.eigvalsh((noise.shape - K) / np.outer(scale, scale)).min() > -1e-6


@pytest.mark.parametrize("in_time", [True, False])
@pytest.mark.parametrize("knots", [1, 5])
def test_noise_of_what_is_looked_at_is_that_of_sums_over_rows(knots, in_time):
    """The covariance of all rows' noise, and every function as weights of rows."""
    rng, counts = np.random.default_rng(3), [1, 3, 2, 1, 5, 2]
    sizes = rng.integers(1, 5, sum(counts))
    starts, n, N = np.cumsum(sizes) - sizes, int(sizes.sum()), 3
    person = np.repeat(np.arange(len(sizes)), sizes)
    places, times = np.sort(rng.normal(size=knots)) * 2, rng.normal(size=n) * 2
    times = times[np.lexsort((times, person))]
    R = np.stack([a @ a.T for a in rng.normal(size=(knots, N, N))])
    C, H = rng.normal(size=(knots, N, 4)), rng.normal(size=(knots, N, 2))
    noise = PersonNoise(places, C, R, R, np.eye(N), (), H)
    near, phi = nearest_knots(times, places), hat_matrix(times, places)
    nested = Nested(starts, starts[np.cumsum(counts) - counts], n)
    if in_time:
        nested = Nested(starts, nested.households, n, times, near)
    functions = list(nested.functions().values())
    found = NestedNoise(noise, functions, times, len(functions) * N)
    cov = np.zeros((n, N, n, N))
    for loadings, group in ((H, nested.household), (C, person)):
        of_rows = np.einsum("ik,knq->inq", phi, loadings)
        same = (group[:, None] == group)[:, None, :, None]
        cov += np.einsum("inq,jmq->injm", of_rows, of_rows) * same
    for i in range(n):
        cov[i, :, i] += R[near[i]]
    weights = np.stack([function.of(np.eye(n)).T for function in functions])
    for rows in (np.arange(n), rng.choice(n, 9, replace=False)):
        A = weights[:, rows]
        expected = np.einsum("fij,jnkm,gik->nfmg", A, cov, A, optimize=True) / len(rows)
        np.testing.assert_allclose(
            found(rows), expected.reshape(2 * [found(rows).shape[0]]), atol=1e-9
        )


# --- what is left -------------------------------------------------------------------------


def register(folder, table, **choices):
    folder.mkdir(exist_ok=True)
    return Vault.create(folder / "v").register("homes", table, **{**CHOICES, **choices})


def at_one_level(levels):
    """Levels of households that do not drift: on average over all pairs of times."""
    return np.broadcast_to(levels.mean(axis=(0, 2), keepdims=True), levels.shape).copy()


def constant_households(monkeypatch):
    """Let the noise of households be the same at all times, and what drifts be that of persons."""
    fit = person_curves._RowsInTime.levels_of_outers
    monkeypatch.setattr(
        person_curves._RowsInTime, "levels_of_outers", lambda self: at_one_level(fit(self))
    )


def left(target, seen, home):
    """What the best linear estimate leaves in households that it was not fitted on."""
    A, error = np.column_stack([np.ones(len(home)), seen]), 0.0
    for train in (home % 2 == 0, home % 2 == 1):
        M = A[train].T @ A[train]
        M[np.diag_indices_from(M)] = 1.003 * np.diag(M) + 1e-6  # a ridge
        weights = np.linalg.solve(M, A[train].T @ target[train])
        error += ((target[~train] - A[~train] @ weights) ** 2).sum()
    return error / len(home) / target.var()


def left_of_households(table, copy, persons, times=TIMES):
    """The least share that everything the copy has of a household leaves, of what is promised."""
    count = table.num_rows // persons // times
    x, y = (values(t, *NAMES).reshape(3, count, persons, times) for t in (table, copy))
    # what time does to everybody is known to who knows the times
    x, y = (each - each.mean(axis=(1, 2), keepdims=True) for each in (x, y))
    seen, home = y.transpose(1, 0, 2, 3).reshape(count, -1), np.arange(count)
    found = {}
    for name, own in zip(NAMES, x, strict=True):
        functions = {
            "value": own[:, 0, 2],
            "mean": own[:, 0].mean(axis=1),
            "change": own[:, 0, 3] - own[:, 0, 2],
            "group": own.mean(axis=(1, 2)),
            "group at a time": own[:, :, 3].mean(axis=1),
            "apart": own[:, 0].mean(axis=1) - own[:, 1].mean(axis=1),
            "apart at a time": own[:, 0, 4] - own[:, 1, 4],
        }
        for kind, target in functions.items():
            if target.std() > 1e-9:
                found[name, kind] = left(target, seen, home)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("privacy", [0.5, 0.8])
def test_everything_that_a_copy_has_of_a_household_leaves_what_is_stated(
    tmp_path, monkeypatch, privacy
):
    """Control: a household that is constant in time where it drifts."""
    table, level = households(1000, persons=4), Level.of(privacy=privacy)
    found = {}
    for name in ("fair", "bare"):
        if name == "bare":
            constant_households(monkeypatch)
        dataset = register(tmp_path / name, table)
        found[name] = left_of_households(table, copy_of(dataset, level.noise), 4)
        assert (dataset.frozen.hidden.promised(level) > privacy - 0.01) == (name == "fair")
    # of 1,000 households a share p of variance is known to p sqrt(2 / 1000)
    chance = privacy * np.sqrt(2 / 1000)
    assert min(found["fair"].values()) > 0.95 * privacy - 4 * chance
    together = "income", "group at a time"
    # at 0.8 the control leaves 0.1 less, which is three errors: there the promise alone shows it
    assert privacy > 0.5 or found["bare"][together] < 0.95 * privacy


def copy_of(dataset, noise):
    return dataset.release(to="b", noise=noise, raw=True).to_arrow()


def left_of_unequal(table, copy):
    """The same of households of which each person is there at some times: the least share.

    Known are the row, those of three times before and after, what the household shows at these, and
    the means of person, household and other person, also over how many rows these are.
    """
    home = np.unique(table["household"].to_pylist(), return_inverse=True)[1]
    person = np.unique(10 * home + values(table, "person")[0], return_inverse=True)[1]
    when, n = values(table, "when")[0], len(home)
    moment = np.unique(home * TIMES + when, return_inverse=True)[1]
    x, y = (
        each - each.mean(axis=1, keepdims=True)
        for each in (values(table, *NAMES), values(copy, *NAMES))
    )

    def mean(z, group):
        return (np.bincount(group, z) / np.bincount(group))[group]

    first = np.unique(person, return_index=True)[1]
    of = home[first]
    begins, sizes = np.searchsorted(of, of), np.bincount(of)[of]
    other = (begins + (np.arange(len(of)) - begins + 1) % sizes)[person]
    alone = other == person
    at = np.full((len(of), TIMES), -1)
    at[person, when] = np.arange(n)
    then = at[other, when]
    by = [1 / np.bincount(g)[g] for g in (person, home)]
    seen = [*by, 1 / sizes[person]]
    for z in y:
        panel, there = np.zeros(at.shape), at >= 0
        panel[there] = z[at[there]]
        of_home = [np.zeros((of.max() + 1, TIMES)) for _ in range(2)]
        for total, each in zip(of_home, (panel, there), strict=True):
            np.add.at(total, of, each)
        together = of_home[0] / np.maximum(of_home[1], 1)
        means = [mean(z, person), mean(z, home)]
        seen += [z, *means, *(m * b for m, b in zip(means, by, strict=True))]
        seen += [means[0][first][other], np.where(then >= 0, z[then], 0.0)]
        for step in (-3, -2, -1, 0, 1, 2, 3):
            inside = (when + step >= 0) & (when + step < TIMES)
            time = np.clip(when + step, 0, TIMES - 1)
            seen += [panel[person, time] * inside, together[home, time] * inside]
    seen, found = np.column_stack(seen), {}
    for name, z in zip(NAMES, x, strict=True):
        after = at[person, np.minimum(when + 1, TIMES - 1)]
        of_person = mean(z, person)
        targets = {
            "value": (z, np.ones(n, dtype=bool)),
            "mean": (of_person, np.isin(np.arange(n), first)),
            "change": (z[after] - z, (after >= 0) & (after != np.arange(n))),
            "group": (mean(z, home), np.ones(n, dtype=bool)),
            "group at a time": (mean(z, moment), np.ones(n, dtype=bool)),
            "apart": (of_person - of_person[first][other], ~alone),
            "apart at a time": (z - z[then], (then >= 0) & ~alone),
        }
        for kind, (target, rows) in targets.items():
            if target[rows].std() > 1e-9:
                found[name, kind] = left(target[rows], seen[rows], home[rows])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("privacy", [0.5, 0.8])
def test_unequal_households_are_hidden_and_constant_ones_are_not(tmp_path, monkeypatch, privacy):
    table, found, level = households(2500, persons=8, unequal=True), {}, None
    for name in ("fair", "bare"):
        if name == "bare":
            constant_households(monkeypatch)
        dataset = register(tmp_path / name, table)
        level = level or dataset.frozen.hidden.level_of(round(1000 * privacy))
        found[name] = left_of_unequal(table, copy_of(dataset, level.noise))
    # of 2,500 households a share p of variance is known to p sqrt(2 / 2500)
    assert min(found["fair"].values()) > 0.95 * privacy - 4 * privacy * np.sqrt(2 / 2500)
    together = "income", "group at a time"
    assert found["bare"][together] < found["fair"][together] - 0.05


def test_the_promise_counts_curves_of_households():
    """Noise of households that does not drift, or of persons alone, is measured to hide less."""
    table = households(300, persons=4)
    surveyor, survey = survey_of(table, KEY, **CHOICES)
    noise = freeze_table(table, KEY, **CHOICES).persons
    columns = len(noise.shape)

    def least(**parts):
        made = PersonNoise(**{**vars(noise), **parts})
        [rows, _] = sampled_persons(surveyor, survey, [], made)
        found = hidden_of_persons(rows)
        return {name: float(found[name][499]) for name in NAMES}

    fair = least()
    assert min(fair.values()) > 0.46
    flat = np.broadcast_to(noise.outer.mean(axis=0), noise.outer.shape)
    beside = np.concatenate([noise.person, noise.outer - flat], axis=2)
    assert least(outer=flat, person=beside)["income"] < fair["income"] - 0.05
    both = np.concatenate([noise.person, noise.outer], axis=2)
    alone = least(outer=np.zeros((TIMES, columns, 1)), person=both)
    assert alone["income"] < fair["income"] - 0.1
    assert alone["rooms"] < 0.4


def test_a_category_of_the_same_order_for_everybody_is_refused():
    table = households(200)
    wave = with_column(table, "wave", pa.array([f"w{t}" for t in table["when"].to_pylist()]))
    with pytest.raises(ColumnError, match="every person has the same values of 'wave'"):
        frozen_of(wave)


# --- editions -----------------------------------------------------------------------------


def test_rows_that_come_later_have_the_curves_of_their_household_and_person(tmp_path):
    table = households(150, times=8)
    early = table.filter(pa.compute.less(table["when"], 4))
    late = table.filter(pa.compute.greater_equal(table["when"], 4))
    dataset = register(tmp_path, early, few_rows=True)
    dataset.append(late)
    copy = dataset.release(to="a", noise=1.0, raw=True).to_arrow()
    both = pa.concat_tables([early, late])
    noise = values(copy, *NAMES) - values(both, *NAMES)
    old, new = noise[:, : len(early)], noise[:, len(early) :]
    shown = values(copy, "rooms", "height").reshape(2, 2, 300, 4)
    assert (shown == shown[:, :1, :, :1]).all()
    # beyond the last knot the curve goes on as in a mirror: 4 is 2, 5 is 1, to R of the row
    twice = np.stack([old[0].reshape(300, 4)[:, [2, 1, 0]], new[0].reshape(300, 4)[:, :3]])
    R = dataset.frozen.persons.within[:, 1, 1]
    apart = (twice[0] - twice[1]).var(axis=0)
    assert (np.abs(apart / (2 * R[[2, 1, 0]]) - 1) < 6 * np.sqrt(2 / 300)).all()


def test_an_update_renews_the_noise_of_what_changed_and_of_nothing_else(tmp_path):
    table = households(200)
    table = with_column(table, "row", pa.array(np.arange(len(table))))
    rng, changed = np.random.default_rng(3), np.arange(len(table)) % (2 * TIMES) < TIMES
    income = values(table, "income")[0] + 0.5 * changed * rng.normal(size=len(table))
    after = with_column(table, "income", pa.array(income))
    dataset = register(tmp_path, table, few_rows=True, key="row")
    one = copy_of(dataset, 1.0)
    dataset.update(after, old=table)
    two = copy_of(dataset, 1.0)
    noise = [values(c, *NAMES) - values(t, *NAMES) for c, t in ((one, table), (two, after))]
    assert np.array_equal(one["income"].to_numpy()[~changed], two["income"].to_numpy()[~changed])
    assert np.array_equal(one["height"].to_numpy(), two["height"].to_numpy())
    assert (noise[0][0] != noise[1][0])[changed].all()
    assert 0.3 < (noise[1][0] - noise[0][0])[changed].var() / noise[0][0].var() < 3


# --- audit --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("privacy", [0.5, 0.8])
def test_an_audit_with_both_units_passes_curves_and_sees_constant_households(
    tmp_path, monkeypatch, privacy
):
    """Of copies at one noise: households that do not drift leave less than it hides."""
    table, together = households(1200, persons=4), {}
    for name in ("fair", "bare"):
        if name == "bare":
            constant_households(monkeypatch)
        dataset, path = register(tmp_path / name, table), tmp_path / name / "copy.parquet"
        dataset.release(to="a", noise=Level.of(privacy=privacy).noise).write(path)
        linked = audit(table, [path], unit=["household", "person"]).linked
        kinds = {left.attack for _, left in linked.left}
        assert {"group at a time", "apart at a time", "apart"} < kinds
        found = {(each.column, each.attack): each.hidden for _, each in linked.left}
        together[name] = found["income", "group at a time"]
        if name == "fair":
            assert not [each for _, each in linked.left if each.short]
    assert together["bare"] < 0.95 * privacy < together["fair"]
