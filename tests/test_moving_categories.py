"""Categories that move between editions: what pooling recovers, what is said, what is refused.

The adversary has code of its own: the posterior of a row's first value from the copies of all
editions, by the chances that the method gives a retained and a drawn cell.
"""

import numpy as np
import pyarrow as pa
import pytest

from cornerwave.editions import MOVED, moved_of
from cornerwave.errors import ColumnError, Drifted
from cornerwave.privacy import CategoryDistribution, Looks
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


@pytest.mark.parametrize("editions", [3, pytest.param(8, marks=pytest.mark.slow)])
def test_looks_are_what_an_adversary_recovers_from_a_category_that_advances(vault, editions):
    dataset = registered(vault)
    copies, alone = [], None
    for number, codes in enumerate(advanced(editions)):
        if number:
            dataset.update(table(codes), advancing="grade")
        copies.append(shown(dataset.release(to="ann", privacy=0.5)))
        if alone is None:
            alone = dataset.coalition(["ann"]).guesses["grade"]
    noise = dataset.levels[0].noise
    right, hidden = looked_through(copies, noise)
    said = dataset.coalition(["ann"])
    guess = said.guesses["grade"]
    assert (said.unbounded, guess.joint, guess.hidden, guess.least_hidden) == (
        ["grade"],
        None,
        None,
        None,
    )
    # a share of 4,000 rows has a standard error of at most 0.008; so has a Brier score
    looks = min(
        editions, GRADES
    )  # the seventh edition shows the first value again, by the same draw
    assert guess.looks.number == looks
    assert guess.looks.right == pytest.approx(right, abs=0.04)
    assert guess.looks.hidden == pytest.approx(hidden, abs=0.04)
    # the negative control: one copy leaves half, and all of them far less
    one = looked_through(copies[:1], noise)
    assert alone.hidden == pytest.approx(one[1], abs=0.04)
    assert hidden < one[1] - 0.15


def test_an_advance_is_refused_and_can_be_accepted(vault):
    dataset = registered(vault)
    with pytest.raises(Drifted, match=r"4,000 new values, (9\d|100)% is revealed") as refusal:
        dataset.update(table(advanced(2)[1]))
    assert "fresh look" in str(refusal.value)
    assert refusal.value.use == ("advancing",)
    assert len(dataset.editions) == 1
    with pytest.raises(ColumnError, match="'x' is not a refreshed category"):
        dataset.update(table(advanced(2)[1]), advancing=["x"])
    made = dataset.update(table(advanced(2)[1]), advancing=["grade"])
    assert made.changes.moves["grade"].predicted > 0.9
    with pytest.raises(Drifted, match="with earlier editions"):  # it is said each time
        dataset.update(table(advanced(3)[2]))


def test_small_advances_add_up(vault):
    """Each edition moves a tenth of the rows by a rule: the third is refused."""
    dataset, codes = registered(vault), START.copy()
    for edition in range(3):
        part = slice(edition * ROWS // 10, (edition + 1) * ROWS // 10)
        codes[part] = (codes[part] + 1) % GRADES
        if edition < 2:
            dataset.update(table(codes))
    with pytest.raises(Drifted, match="moved predictably"):
        dataset.update(table(codes))


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
    assert dataset.coalition(["bob", "eve"]).unbounded == ["grade"]


def test_a_category_that_does_not_change_stays_bounded(vault):
    dataset = registered(vault)
    dataset.release(to="ann", privacy=0.5).to_arrow()
    moved = table(START).set_column(2, "x", pa.array(np.random.default_rng(9).normal(size=ROWS)))
    dataset.update(moved)
    dataset.release(to="ann", privacy=0.5).to_arrow()
    guess = dataset.coalition(["ann"]).guesses["grade"]
    assert (guess.joint, guess.looks) == (guess.best, None)


@pytest.mark.parametrize("values", [2, 5, 40])
def test_moves_without_a_rule_are_no_alarm(values):
    """Over 400 tables of every size: the share told of new values that are drawn at random."""
    alarms, rng = 0, np.random.default_rng(values)
    counts = [100] * values
    for rows in np.repeat([3, 10, 30, 100], 100):
        old, new = rng.integers(0, values, (2, rows))
        pairs, number = np.unique(np.stack([old, new], axis=1), axis=0, return_counts=True)
        counted = zip(pairs.astype(np.uint8), number.tolist(), strict=True)
        named = {bytes(pair): count for pair, count in counted}
        # as if half of a table's rows had changed, twice what may move
        alarms += moved_of(named, counts).predicted * 0.5 > MOVED
    assert alarms <= 2, "three standard errors: below one in 100"


def test_a_rule_is_told_however_rare_the_values():
    rows = 3000
    old = np.random.default_rng(1).integers(0, 1000, rows)
    pairs, number = np.unique(old, return_counts=True)
    named = {
        int(value).to_bytes(2, "big") + int((value + 1) % 1000).to_bytes(2, "big"): int(n)
        for value, n in zip(pairs, number, strict=True)
    }
    found = moved_of(named, [3] * 1000)
    assert found.rows == rows
    assert found.predicted > 0.9
    # all become the same: whoever sees that a row changed knows the value
    assert moved_of({b"ac": 50, b"bc": 50}, [50, 40, 10]).predicted > 0.5


def test_looks_drawn_are_looks_counted():
    law, noise = CategoryDistribution([5, 3, 2]), [1.0, 2.0, 1.0]
    counted = Looks.of(law, noise)
    pi, seen = law.pi, []
    for level in sorted(noise):
        q = (1 + level) ** -0.5
        seen.append(q * np.eye(3) + (1 - q) * pi)
    chance = np.einsum("x,xa,xb,xc->xabc", pi, *seen)
    assert counted.right == pytest.approx(chance.max(axis=0).sum())
    left = 1 - (chance**2 / chance.sum(axis=0)).sum()
    assert counted.hidden == pytest.approx(left / (1 - (pi**2).sum()))
    many = Looks.of(
        CategoryDistribution([5, 3, 2, 4, 4, 2, 6, 3]), [1.0] * 8
    )  # too many cases: drawn
    assert 0.97 < many.right < 1
    assert many.hidden < 0.06


def test_what_an_advancing_category_reveals_of_a_number_is_not_bounded_either(vault):
    """A grade tells 90 % of a number that stays: copies of all editions uncover both."""
    rng = np.random.default_rng(7)
    effect = np.linspace(-1, 1, GRADES)[rng.permutation(GRADES)]
    w = effect[START] / effect.std() * 0.9**0.5 + 0.1**0.5 * rng.normal(size=ROWS)
    dataset = vault.register("school", table(START, ("w", w)), key="id", key_as_is=True)
    votes = np.zeros((ROWS, GRADES))
    for step, codes in enumerate(advanced(6)):
        if step:
            dataset.update(table(codes, ("w", w)), advancing="grade")
        release = dataset.release(to=f"r{step % 2}", privacy=0.5)
        votes[np.arange(ROWS), (shown(release) - step) % GRADES] += 1
        if not step:
            bounded = dataset.coalition(["r0"])
            copy = release.to_arrow()
            noisy = copy["w"].to_numpy()[np.argsort([int(n[1:]) for n in copy["id"].to_pylist()])]
            one = _left_by_fit(w, np.column_stack([noisy, votes]))
    # a share of 2,000 rows that were not fitted has a standard error of at most 0.02
    assert bounded.joint_privacy == 0.5 < one + 0.08
    assert _left_by_fit(w, np.column_stack([noisy, votes])) < 0.5 - 0.15
    together = dataset.coalition(["r0", "r1"])
    assert (together.joint_privacy, together.independent_privacy, together.gain) == (None,) * 3
    assert (together.best_privacy, together.unbounded) == (0.5, ["grade"])
    explored = _together(dataset, {held.recipient: held.spec.level for held in dataset.holdings})
    assert "not bounded: grade changed between the editions held" in explored
    assert explored.count("not bounded, as far as grade reveals it") >= 2  # x and w


def _left_by_fit(truth, seen):
    """Return what a linear fit to half of the rows leaves of the other half."""
    seen = np.column_stack([np.ones(ROWS), seen])
    fit, rest = slice(0, ROWS // 2), slice(ROWS // 2, ROWS)
    weights = np.linalg.lstsq(seen[fit], truth[fit], rcond=None)[0]
    return ((truth - seen @ weights)[rest] ** 2).mean() / truth.var()
