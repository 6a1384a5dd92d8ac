"""How replaced cells move from edition to edition: like the table's, whatever these did before.

The adversary has code of its own: shares of steps and of returns, and boosting on what copies of
all editions show, which learns from half of the rows who was replaced.
"""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from cornerwave.noise import (
    MISSING,
    CategoryMoves,
    MovedCells,
    MovedRows,
    Refresher,
    moves_key,
    thresholds,
)
from cornerwave.noise import _moves_of_cells as moves_of_cells

ROWS, EDITIONS, KEY = 6000, 5, b"k" * 32
ALPHA = 1e-6


def walk(rng, values=12):
    """Grades that stay, advance by one or two, or fall back by one: none falls back by two."""
    steps = rng.choice([0, 1, 2, -1], (EDITIONS - 1, ROWS), p=[0.4, 0.3, 0.2, 0.1])
    start = rng.integers(0, values, ROWS)
    return np.concatenate([start[None], start + np.cumsum(steps, axis=0)]) % values


def to_and_fro(rng, values=60):
    """Each row has two values of its own, and goes from one to the other."""
    one = rng.integers(0, values, ROWS)
    other = (one + rng.integers(1, values, ROWS)) % values
    turn = np.cumsum(rng.random((EDITIONS, ROWS)) < 0.6, axis=0) % 2
    return np.where(turn == 0, one, other)


def own_level(rng, values=12):
    """Each row has a value of its own, goes elsewhere, and comes back."""
    own, held = rng.integers(0, values, ROWS), []
    for _ in range(EDITIONS):
        go = rng.random(ROWS)
        before = held[-1] if held else own
        away = np.where(go < 0.7, rng.integers(0, values, ROWS), before)
        held.append(np.where(go < 0.4, own, away) if held else own)
    return np.array(held)


def moved_rows(truth, noise=1.0):
    """Return what an owner keeps of each edition: ids of rows, refresher, rows that moved."""
    ids = np.random.default_rng(5).integers(0, 2**63, (truth.shape[1], 2)).astype(np.uint64)
    bounds = thresholds(np.maximum(np.bincount(truth[0], minlength=truth.max() + 1), 1).tolist())
    refresher, editions = Refresher(KEY, 0, noise=[noise], bounds=bounds), {}
    for edition, (before, now) in enumerate(pairwise(truth), 2):
        rows = np.flatnonzero(before != now)
        rows = rows[np.argsort(ids[rows, 0])]
        hashes, had = ids[rows, 0], before[None, rows]
        states = MovedCells(editions, KEY).states(hashes, had)[0]
        moves = CategoryMoves.of(states, now[rows], bounds)
        moves = CategoryMoves.from_json(moves.to_json())
        here, key = np.ones((1, len(rows)), dtype=bool), moves_key(KEY, edition)
        editions[edition] = MovedRows.of(hashes, had, here, [moves], key)
    return ids, refresher, editions


def shown_of(truth):
    """Return what copies of all editions show (editions, rows), and who was replaced."""
    truth = truth.astype(np.int32)
    ids, refresher, editions = moved_rows(truth)
    shown = [refresher.refreshed(truth[0], ids)[0]]
    for number, now in enumerate(truth[1:], 2):
        cells = MovedCells({e: rows for e, rows in editions.items() if e <= number}, KEY)
        some = cells.of(ids)
        made, was = refresher.refreshed(now, ids)[0], cells.before(ids[some, 0])
        made[some] = cells.shown(refresher, now[some], ids[some], was)[0]
        shown.append(made)
    return np.array(shown), refresher.events(truth[0], ids)[1][0] > 0


def returns(codes):
    """Return how often rows go back to where they were before they moved last."""
    back = (codes[2:] == codes[:-2]) & (codes[2:] != codes[1:-1])
    return back.mean(axis=1)


def difference(rows):
    """Return how much shares of so many rows, and of the others, may differ by chance."""
    # Hoeffding's bound for both shares, each of EDITIONS * 60 comparisons with ALPHA
    return sum(np.sqrt(np.log(4 * EDITIONS * 60 / ALPHA) / 2 / n) for n in (rows, ROWS - rows))


def recognised(shown, truth, replaced):
    """Return the AUC of boosting that looks for who was replaced, on all that copies show."""
    back = [shown[e] == shown[f] for e in range(2, EDITIONS) for f in range(e - 1)]
    moved = np.diff(truth, axis=0) != 0
    looks = np.column_stack([*shown, *np.diff(shown, axis=0), *back, *moved])
    score, half = np.empty(ROWS), np.arange(ROWS) % 2
    for learns in (0, 1):
        fit, rest = half == learns, half != learns
        model = HistGradientBoostingClassifier(max_iter=30, min_samples_leaf=40)
        score[rest] = model.fit(looks[fit], replaced[fit]).predict_proba(looks[rest])[:, 1]
    return roc_auc_score(replaced, score)


def chance_of_auc(replaced):
    """Return by how much an AUC exceeds 0.5 by chance, with ALPHA."""
    m, n = np.count_nonzero(replaced), np.count_nonzero(~replaced)
    return 4.9 * np.sqrt((m + n + 1) / (12 * m * n))  # that of a rank sum; 4.9 deviations: ALPHA


def test_steps_and_returns_occur_as_often_as_in_the_table_in_every_edition():
    for table in (walk, to_and_fro, own_level):
        truth = table(np.random.default_rng(1))
        shown, replaced = shown_of(truth)
        values, most = truth.max() + 1, difference(replaced.sum())
        assert (shown == truth)[:, ~replaced].all()
        moves, seen = np.diff(truth, axis=0), np.diff(shown, axis=0)
        assert ((moves == 0) == (seen == 0)).all()
        for real, now in zip(moves, seen, strict=True):
            shares = [
                np.bincount(each % values, minlength=values) / len(each)
                for each in (real[~replaced], now[replaced])
            ]
            assert shares[1] == pytest.approx(shares[0], abs=most), table.__name__
        found = [returns(truth[:, ~replaced]), returns(shown[:, replaced])]
        assert found[1] == pytest.approx(found[0], abs=most), table.__name__
        if table is walk:
            assert not (seen % values == values - 2).any()  # none falls back by two


def test_boosting_on_all_editions_does_not_recognise_who_was_replaced(monkeypatch):
    truth = to_and_fro(np.random.default_rng(1))
    shown, replaced = shown_of(truth)
    assert recognised(shown, truth, replaced) < 0.5 + chance_of_auc(replaced)
    # the negative control: moves that depend on the last state alone rarely return
    monkeypatch.setattr(moves_of_cells, "STATES", 1)
    shown, replaced = shown_of(truth)
    assert recognised(shown, truth, replaced) > 0.6
    assert returns(shown[:, replaced]).max() < returns(truth).min() - difference(replaced.sum())


def test_what_replaces_a_cell_does_not_depend_on_where_it_goes():
    """Of rows with one first value, of which the same cells moved, to other values each."""
    rng = np.random.default_rng(2)
    truth = walk(rng).astype(np.int32)
    ids, refresher, editions = moved_rows(truth)
    cells = MovedCells(editions, KEY)
    some = cells.of(ids)
    replaced = refresher.events(truth[0], ids)[1][0, some] > 0
    was = cells.before(ids[some, 0])
    first = truth[0, some]
    # whatever they were after the first edition: other values where it is known that they moved
    stays = [(codes == MISSING) | (codes == first) for codes, _ in was]
    others = [
        (np.where(known, codes, rng.integers(0, 12, codes.shape, dtype=np.int32)), moved)
        for known, (codes, moved) in zip(stays, was, strict=True)
    ]
    one = cells.shown(refresher, truth[-1, some], ids[some], was)[0]
    two = cells.shown(refresher, rng.permutation(truth[-1, some]), ids[some], others)[0]
    assert any((a[0] != b[0])[:, replaced].any() for a, b in zip(was, others, strict=True))
    assert (one == two)[replaced].all()
    assert (one != two)[~replaced].mean() > 0.5  # those that were kept go where they go
