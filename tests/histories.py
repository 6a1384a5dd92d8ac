"""Histories of a row as covariances over editions and columns, and the rules that they lead to."""

import numpy as np

from cornerwave.coalition import hidden_in_history, history_functions
from cornerwave.history import SecondMoments, Transition, exact_transition, noise_across

EDITIONS = 12


def drifting(r, editions=EDITIONS):
    """Autoregressive: what is forgotten never returns."""
    place = np.arange(editions)
    return float(r) ** np.abs(place[:, None] - place)


def personal(r, editions=EDITIONS):
    """A person's own level, and a fluctuation in each edition."""
    return r * np.ones((editions, editions)) + (1 - r) * np.eye(editions)


def constant(editions=EDITIONS):
    return np.ones((editions, editions))


def mixed(loadings, histories):
    """Rows X_e = loadings Z_e, the columns of Z independent with these histories."""
    columns, editions = len(loadings), len(histories[0])
    parts = [np.kron(h, np.outer(a, a)) for h, a in zip(histories, loadings.T, strict=True)]
    return np.sum(parts, axis=0).reshape(editions * columns, editions * columns)


def blocks(history, columns):
    editions = len(history) // columns
    return history.reshape(editions, columns, editions, columns)


def moments_of(history, columns, edition):
    """The second moments that the owner sees when this edition comes."""
    H = blocks(history, columns)
    old, new, cross = (
        H[e, :, f]
        for e, f in [(edition - 1, edition - 1), (edition, edition), (edition, edition - 1)]
    )
    change = new + old - cross - cross.T
    moved = np.diag(change) > 1e-12
    change = np.where(np.outer(moved, moved), (change + change.T) / 2, 0.0)
    return SecondMoments(old, np.where(moved[:, None], cross - old, 0.0), change)


def our_rules(history, columns):
    K = history[:columns, :columns]
    editions = len(history) // columns
    return [exact_transition(moments_of(history, columns, e), K) for e in range(1, editions)]


def reused(history, columns):
    """The scheme that must fall: changed values keep the noise of the old ones."""
    return [None] * (len(history) // columns - 1)


def fresh(history, columns):
    """The other one: changed rows get noise of their own."""
    lower = np.linalg.cholesky(history[:columns, :columns])
    rule = Transition(tuple(range(columns)), np.zeros((columns, columns)), lower)
    return [rule] * (len(history) // columns - 1)


def left(history, columns, rules, *, noise=1.0):
    """What stays hidden from copies of all editions, for each kind of question, at the least."""
    editions = 1 + len(rules)
    S = noise_across(history[:columns, :columns], rules)
    held = [(e, noise) for e in range(editions)]
    return {
        name: hidden_in_history(weights, held, history=history, noise=S).min()
        for name, weights in history_functions(editions, columns).items()
    }


def growth(history, columns, rules):
    """How much more noise the last edition has than the first, at the most."""
    S = np.diag(noise_across(history[:columns, :columns], rules))
    return (S[-columns:] / S[:columns]).max()
