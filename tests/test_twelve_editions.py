"""Twelve editions of a table by way of the product, against an adversary who has every copy.

The adversary knows the law of the histories and which rows changed: the best linear estimates are
regressions of the truth itself on the copies of all editions.
"""

import numpy as np
import pyarrow as pa
import pytest

from tests.histories import EDITIONS, drifting, mixed, personal
from tests.test_history import CORRELATIONS, KINDS, both_kinds, loadings, sampled

ROWS, COLUMNS = 6000, 2
LEAST, MOST_NOISE = 0.45, 2.5
DEVIATIONS = 5.0
QUESTIONS = ("value", "mean", "change")


def hidden(X, Y):
    """The least share that all copies, (editions, columns, rows), leave of each question."""
    seen = Y.reshape(-1, Y.shape[2])
    seen = seen - seen.mean(axis=1, keepdims=True)
    basis = np.linalg.qr(seen.T)[0]

    def least(truth):
        truth = truth.reshape(-1, truth.shape[-1])
        truth = truth - truth.mean(axis=1, keepdims=True)
        told = np.square(truth @ basis).sum(axis=1) / np.square(truth).sum(axis=1)
        return 1 - told.max()

    asked = {"value": X, "mean": X.mean(axis=0), "change": np.diff(X, axis=0)}
    return {name: least(truth) for name, truth in asked.items()}


def allowed(regressors):
    """How far a share falls short by chance, and by fitting so many regressors to the rows."""
    return regressors / ROWS + DEVIATIONS * np.sqrt(4 * 0.25 / ROWS)


@pytest.mark.slow
@pytest.mark.parametrize("r", CORRELATIONS)
@both_kinds
def test_copies_of_twelve_editions_and_two_levels_hide_all(vault, kind, r):
    other = KINDS["drifting" if kind is personal else "personal"]
    history = mixed(loadings(3, COLUMNS), [kind(r), other(0.9)])
    X = sampled(history, COLUMNS, ROWS, seed=8)
    ids = pa.array([f"p{row}" for row in range(ROWS)])
    tables = [pa.table({"id": ids, "a": x[0], "b": x[1]}) for x in X]
    dataset = vault.register("people", tables[0], key="id", drop=[])
    copies = {0.5: [], 0.8: []}
    for number, table in enumerate(tables):
        if number:
            dataset.update(table)
        for privacy, made in copies.items():
            copy = dataset.release(to="eve", privacy=privacy).to_arrow()
            made.append([np.array(copy["a"]), np.array(copy["b"])])
    low, high = (np.array(made) for made in copies.values())
    ours = hidden(X, low)
    chance = allowed(2 * EDITIONS * COLUMNS)
    assert min(ours.values()) >= LEAST - chance, ours
    # who also has every edition at a higher level gains nothing but by fitting more numbers
    both = hidden(X, np.concatenate([low, high]))
    assert all(ours[name] - both[name] <= chance for name in QUESTIONS)
    noise = np.var(low - X, axis=2)
    assert (noise[-1] / noise[0]).max() <= MOST_NOISE * (1 + DEVIATIONS * np.sqrt(4 / ROWS))
    # the schemes that must fall, with the noise of the same copies
    first = (low - X)[0]
    assert hidden(X, X + first)["change"] < 0.05
    fresh = np.array([np.roll(first, 7 * e, axis=1) for e in range(EDITIONS)])
    if r >= 0.9:
        assert hidden(X, X + fresh)["mean"] < 0.3


def test_the_adversary_finds_what_is_there():
    """Noise that is known to hide a half: the estimate says so."""
    X = sampled(drifting(0.9), 1, ROWS, seed=1)
    Y = X + sampled(drifting(0.9), 1, ROWS, seed=2)
    for share in hidden(X, Y).values():
        assert abs(share - 0.5) < allowed(EDITIONS)
