"""Categories that move between editions: what pooling recovers, what is said, what is refused.

The adversary has code of its own: the posterior of a row's first value from the copies of all
editions, by the chances that the method gives a retained and a drawn cell.
"""

import numpy as np
import pyarrow as pa
import pytest

from cornerwave.editions import MOVED, moved_of
from cornerwave.errors import ColumnError, Drifted
from cornerwave.noise import MovedCells
from cornerwave.server._explorer import _together

GRADES, ROWS = 12, 4000
NAMES = np.array([f"grade {n}" for n in range(GRADES)])
START = np.random.default_rng(1).integers(0, GRADES, ROWS)


def table(codes, *more):
    columns = {"id": [f"r{n}" for n in range(len(codes))], "grade": NAMES[codes]}
    other = np.random.default_rng(2).normal(size=len(codes))
    return pa.table({**columns, "x": other, **dict(more)})


def registered(vault):
    return vault.register("school", table(START), key="id", key_as_is=True)


def advanced(editions):
    return [(START + step) % GRADES for step in range(editions)]


def shown(release):
    copy = release.to_arrow()
    order = np.argsort([int(name[1:]) for name in copy["id"].to_pylist()])
    names = np.array(copy["grade"].to_pylist())[order]
    return np.array([list(NAMES).index(name) for name in names])


def looked_through(copies, noise):
    """Return how often the best guess of the first value is right, and what stays hidden.

    The value of edition e is the first one plus e, so what a copy shows less e is a look at it.
    """
    pi = np.bincount(START, minlength=GRADES) / ROWS
    kept = (1 + noise) ** -0.5
    chance = np.tile(pi, (ROWS, 1))
    for step, codes in enumerate(copies):
        for value in range(GRADES):
            here = codes == (value + step) % GRADES
            chance[:, value] *= np.where(here, kept, 0.0) + (1 - kept) * pi[codes]
    chance /= chance.sum(axis=1, keepdims=True)
    error = ((np.eye(GRADES)[START] - chance) ** 2).sum(axis=1)
    return (chance.argmax(axis=1) == START).mean(), error.mean() / (1 - (pi**2).sum())


def released(dataset, editions, to="ann"):
    """Return what copies of all editions show of a grade that advances."""
    copies = []
    for number, codes in enumerate(advanced(editions)):
        if number:
            dataset.update(table(codes))
        copies.append(shown(dataset.release(to=to, privacy=0.5)))
    return copies


@pytest.mark.parametrize("editions", [3, pytest.param(8, marks=pytest.mark.slow)])
def test_a_category_that_advances_stays_where_one_edition_left_it(vault, editions):
    dataset = registered(vault)
    copies = released(dataset, editions)
    noise = dataset.levels[0].noise
    # all copies are one look: somebody who takes them for several is right as often, and too sure
    right, _ = looked_through(copies, noise)
    one, hidden = looked_through(copies[:1], noise)
    assert all(((copy - step) % GRADES == copies[0]).all() for step, copy in enumerate(copies))
    # a share of 4,000 rows has a standard error of at most 0.008; so has a Brier score
    assert right == one
    stated = dataset.coalition(["ann"])
    guess = stated.guesses["grade"]
    assert (stated.unbounded, stated.joint_privacy) == ([], stated.best_privacy)
    assert guess.joint == guess.best == pytest.approx(right, abs=0.04)
    assert guess.hidden == pytest.approx(hidden, abs=0.04)


def test_with_a_clock_for_each_value_it_is_uncovered(vault, monkeypatch):
    """The negative control: events by row and value, a fresh look in each edition."""
    monkeypatch.setattr(MovedCells, "of", lambda _, ids: np.empty(0, dtype=np.int64))
    dataset = registered(vault)
    copies = released(dataset, 4)
    right, hidden = looked_through(copies, dataset.levels[0].noise)
    assert right > 0.9
    assert hidden < 0.12


def test_what_was_replaced_moves_like_the_rest(vault):
    """Grades advance, stay or fall back: replaced histories have the same steps, and stay so."""
    dataset, rng = registered(vault), np.random.default_rng(3)
    truth, copies = [START], [shown(dataset.release(to="ann", privacy=0.5))]
    for _ in range(3):
        truth.append((truth[-1] + rng.choice([0, 1, 2, -1], ROWS, p=[0.3, 0.4, 0.2, 0.1])) % GRADES)
        dataset.update(table(truth[-1]))
        copies.append(shown(dataset.release(to="ann", privacy=0.5)))
    kept = np.array(copies) == np.array(truth)
    replaced = ~kept.all(axis=0)
    q = (1 + dataset.levels[0].noise) ** -0.5
    assert kept.all(axis=0).mean() == pytest.approx(q + (1 - q) / GRADES**4, abs=0.04)
    # what is replaced agrees with the truth by chance alone, in every edition
    assert kept[:, replaced].mean(axis=1) == pytest.approx(1 / GRADES, abs=0.04)
    chance = 5 * np.sqrt(2 * 0.4 * 0.6 / replaced.sum())  # of a difference of shares up to 0.4
    steps_of = zip(truth, truth[1:], copies, copies[1:], strict=False)
    for before, after, real, now in steps_of:
        steps = [
            np.bincount((b - a)[replaced] % GRADES, minlength=GRADES) / replaced.sum()
            for a, b in ((before, after), (real, now))
        ]
        assert steps[1] == pytest.approx(steps[0], abs=chance)
        assert set(np.flatnonzero(steps[1])) == {0, 1, 2, GRADES - 1}  # none that the table lacks
        assert steps[0][1] - 1 / GRADES > chance  # drawn from the whole table: it would fall
        assert ((before == after) == (real == now)).all()  # cells change where the table does


def test_copies_of_more_noise_add_nothing_in_any_edition(vault):
    """Where a noisier copy differs from the better one, it has nothing to do with it."""
    dataset, rng = registered(vault), np.random.default_rng(6)
    truth = np.cumsum([START, rng.integers(1, 3, ROWS), rng.integers(1, 3, ROWS)], axis=0) % GRADES
    better, worse = [], []
    for number, codes in enumerate(truth):
        if number:
            dataset.update(table(codes))
        for level, copies in ((0.5, better), (0.8, worse)):
            copies.append(shown(dataset.release(to="ann", privacy=level)))
    better, worse = np.array(better), np.array(worse)
    again = (better != truth).any(axis=0) & (better != worse).any(axis=0)  # replaced once more
    steps = [np.diff(copies[:, again], axis=0) % GRADES for copies in (better, worse, truth)]
    assert all(set(np.unique(each)) == {1, 2} for each in steps)
    for one, other in ((0, 1), (1, 2), (0, 2)):
        # of some 2 x 500 steps: five standard errors
        assert abs(np.corrcoef(steps[one].ravel(), steps[other].ravel())[0, 1]) < 0.17
    assert (worse == truth)[:, again].mean() == pytest.approx(1 / GRADES, abs=0.05)


def test_a_value_that_goes_and_comes_back_keeps_its_clock(vault):
    """Rows leave the table, cells go missing; what comes back is one grade on."""
    first = table(START)
    gaps = np.where(np.arange(ROWS) % 10 == 0, None, NAMES[START])
    with_gaps = first.set_column(1, "grade", pa.array(gaps.tolist()))
    dataset = vault.register("school", with_gaps, key="id", key_as_is=True)
    left = np.arange(ROWS) % 4 > 0
    one = shown_by_row(dataset.release(to="ann", privacy=0.5))
    dataset.update(with_gaps.filter(pa.array(left)))
    gone = np.where(np.arange(ROWS) % 4 == 1, None, NAMES[START])
    dataset.update(first.set_column(1, "grade", pa.array(gone.tolist())))
    dataset.update(table(advanced(2)[1]))
    two = shown_by_row(dataset.release(to="ann", privacy=0.5))
    both = [row for row in one if one[row] is not None]
    kept = [one[row] == START[row] for row in both]
    still = [two[row] == advanced(2)[1][row] for row in both]
    # a cell that was kept is kept: else it would be with q, 0.7; some are drawn by chance
    assert np.mean(np.array(kept) == np.array(still)) > 0.9


def shown_by_row(release):
    copy = release.to_arrow()
    rows = [int(name[1:]) for name in copy["id"].to_pylist()]
    names = copy["grade"].to_pylist()
    codes = [None if name is None else list(NAMES).index(name) for name in names]
    return dict(zip(rows, codes, strict=True))


def test_a_value_that_returns_shows_what_it_showed(vault):
    dataset, rng = registered(vault), np.random.default_rng(4)
    other = (START + rng.integers(1, GRADES, ROWS)) % GRADES
    copies = [shown(dataset.release(to="ann", privacy=0.5))]
    for codes in (other, START):
        dataset.update(table(codes))
        copies.append(shown(dataset.release(to="ann", privacy=0.5)))
    assert (copies[0] == copies[2]).all()
    assert (copies[0] != copies[1]).all()


def test_rows_in_any_number_of_groups_have_the_same_cells(vault, at_a_time):
    dataset = registered(vault)
    dataset.update(table(advanced(2)[1]))
    one = dataset.release(to="ann", privacy=0.5).to_arrow()
    at_a_time(GROUP_CELLS=1)
    assert dataset.release(to="ann", privacy=0.5).to_arrow().equals(one)


SMALL = 96


def test_an_advance_of_few_rows_is_refused_and_can_be_accepted(vault):
    """Eight rows of each grade: too few to move replaced ones like them."""
    codes = np.arange(SMALL) % GRADES
    rng = np.random.default_rng(2)
    small = [table(rng.permutation(codes))]
    small += [
        table(
            (np.array([list(NAMES).index(n) for n in small[0]["grade"].to_pylist()]) + s) % GRADES
        )
        for s in (1, 2)
    ]
    dataset = vault.register("school", small[0], key="id", key_as_is=True, few_rows=True)
    dataset.release(to="ann", privacy=0.5).to_arrow()
    with pytest.raises(Drifted, match=r"96 new values, \d+% is revealed") as refusal:
        dataset.update(small[1])
    assert "in ways that few share" in str(refusal.value)
    assert refusal.value.use == ("advancing",)
    assert len(dataset.editions) == 1
    with pytest.raises(ColumnError, match="'x' is not a refreshed category"):
        dataset.update(small[1], advancing=["x"])
    made = dataset.update(small[1], advancing=["grade"])
    assert made.changes.moves["grade"].few == SMALL
    with pytest.raises(Drifted, match="with earlier editions"):  # it is stated each time
        dataset.update(small[2])
    dataset.release(to="ann", privacy=0.5).to_arrow()
    stated = dataset.coalition(["ann"])
    guess = stated.guesses["grade"]
    assert (stated.joint_privacy, stated.independent_privacy, stated.gain) == (None,) * 3
    assert (stated.unbounded, guess.joint, guess.hidden) == (["grade"], None, None)
    q = (1 + dataset.levels[0].noise) ** -0.5
    assert guess.moving.hidden == pytest.approx(1 - q)
    explored = _together(dataset, {held.recipient: held.spec.level for held in dataset.holdings})
    assert "not bounded: grade moved in ways that few rows share" in explored
    assert "not bounded, as far as grade reveals it" in explored  # x


def test_changes_at_random_are_accepted_edition_after_edition(vault):
    dataset, codes, rng = registered(vault), START.copy(), np.random.default_rng(5)
    for _ in range(4):
        some = rng.choice(ROWS, ROWS // 100, replace=False)
        codes[some] = (codes[some] + rng.integers(1, GRADES, len(some))) % GRADES
        made = dataset.update(table(codes))
        assert made.changes.moves["grade"].rows == ROWS // 100
    # one copy bounds nothing less than before, while no second edition is held
    dataset.release(to="bob", privacy=0.5).to_arrow()
    assert dataset.coalition(["bob"]).unbounded == []
    dataset.release(to="eve", privacy=0.5, edition=1).to_arrow()
    assert dataset.coalition(["bob"]).unbounded == []
    together = dataset.coalition(["bob", "eve"])
    assert (together.unbounded, together.joint_privacy) == ([], together.best_privacy)
    assert together.guesses["grade"].moving is not None


def test_a_category_that_does_not_change_stays_bounded(vault):
    dataset = registered(vault)
    dataset.release(to="ann", privacy=0.5).to_arrow()
    moved = table(START).set_column(2, "x", pa.array(np.random.default_rng(9).normal(size=ROWS)))
    dataset.update(moved)
    dataset.release(to="ann", privacy=0.5).to_arrow()
    guess = dataset.coalition(["ann"]).guesses["grade"]
    assert (guess.joint, guess.moving) == (guess.best, None)


@pytest.mark.parametrize("values", [2, 5, 40])
def test_moves_without_a_rule_are_no_alarm(values):
    """Over 400 tables of every size: the share told of new values that are drawn at random."""
    alarms, rng = 0, np.random.default_rng(values)
    counts = [100] * values
    for rows in np.repeat([3, 10, 30, 100], 100):
        old, new = rng.integers(0, values, (2, rows))
        # as if half of a table's rows had changed, twice what may move
        alarms += moved_of(old, new, counts).predicted * 0.5 > MOVED
    assert alarms <= 2, "three standard errors: below one in 100"


def test_a_rule_is_told_however_rare_the_values():
    rows = 3000
    old = np.random.default_rng(1).integers(0, 1000, rows)
    found = moved_of(old, (old + 1) % 1000, [3] * 1000)
    assert found.rows == rows
    assert found.predicted > 0.9
    assert found.few > 2900
    # all become the same: anyone who sees that a row changed knows the value
    assert moved_of(np.repeat([0, 1], 50), np.full(100, 2), [50, 40, 10]).predicted > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("clock", ["cell", "value"])
@pytest.mark.first(1)
def test_an_advancing_category_reveals_no_more_of_a_number(vault, monkeypatch, clock):
    """A grade explains 90 % of a number that stays: all copies leave what one leaves."""
    if clock == "value":  # the negative control
        monkeypatch.setattr(MovedCells, "of", lambda _, ids: np.empty(0, dtype=np.int64))
    rng = np.random.default_rng(7)
    effect = np.linspace(-1, 1, GRADES)[rng.permutation(GRADES)]
    w = effect[START] / effect.std() * 0.9**0.5 + 0.1**0.5 * rng.normal(size=ROWS)
    dataset = vault.register("school", table(START, ("w", w)), key="id", key_as_is=True)
    votes = np.zeros((ROWS, GRADES))
    for step, codes in enumerate(advanced(6)):
        if step:
            dataset.update(table(codes, ("w", w)))
        release = dataset.release(to=f"r{step % 2}", privacy=0.5)
        votes[np.arange(ROWS), (shown(release) - step) % GRADES] += 1
    copy = release.to_arrow()
    noisy = copy["w"].to_numpy()[np.argsort([int(n[1:]) for n in copy["id"].to_pylist()])]
    together = dataset.coalition(["r0", "r1"])
    assert together.joint_privacy == together.best_privacy
    assert 0.5 <= together.best_privacy <= 0.502  # perhaps the next level, if that takes less time
    left = _left_by_fit(w, np.column_stack([noisy, votes]))
    # a share of 2,000 rows that were not fitted has a standard error of at most 0.02
    assert left > 0.5 - 0.08 if clock == "cell" else left < 0.5 - 0.15


def _left_by_fit(truth, seen):
    """Return what a linear fit to half of the rows leaves of the other half."""
    seen = np.column_stack([np.ones(ROWS), seen])
    fit, rest = slice(0, ROWS // 2), slice(ROWS // 2, ROWS)
    weights = np.linalg.lstsq(seen[fit], truth[fit], rcond=None)[0]
    return ((truth - seen @ weights)[rest] ** 2).mean() / truth.var()
