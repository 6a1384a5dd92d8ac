"""Histories of a row as covariances over editions and columns, and the rules that they lead to.

`python -m tests.histories` prints the figures of docs/editions.md.
"""

import numpy as np

from cornerwave.noise import (
    SecondMoments,
    Transition,
    exact_transition,
    noise_across,
    returning_transitions,
)
from cornerwave.privacy import hidden_in_history, history_functions

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
    H, before = blocks(history, columns), edition - 1
    old, new, cross = H[before, :, before], H[edition, :, edition], H[edition, :, before]
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
    nothing = np.zeros((columns, columns))
    rule = rule_of(tuple(range(columns)), nothing, lower)
    return [rule] * (len(history) // columns - 1)


def rule_of(columns, carry, fresh, *, recall=0.0):
    """A rule that comes from nowhere."""
    return Transition(columns, carry, recall=recall * carry, fresh=fresh, remainder=fresh)


def returns(columns, shape, times):
    """The rule for values that come back in these columns, so many times."""
    [rule, *_] = returning_transitions(np.isin(np.arange(len(shape)), columns)[:, None], shape)
    return [rule] * times


def returning(kind, r, columns, shape, times):
    """Values that come back in these columns of several; what others tell of them does not change.

    Between one presence and the next they have correlation r.
    """
    others = [column for column in range(len(shape)) if column not in columns]
    order = [*others, *columns]
    lower = np.linalg.cholesky(shape[np.ix_(order, order)])[np.argsort(order)]
    still, moving = constant(times + 1), kind(r, times + 1)
    return mixed(lower, [still] * len(others) + [moving] * len(columns))


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


def beside_constant(history, rho):
    """A changing column whose correlation with a constant one is rho."""
    return mixed(np.array([[rho, np.sqrt(1 - rho**2)], [1.0, 0.0]]), [constant(), history])


def last_years(history):
    """This edition's value, and beside it that of the edition before."""
    seen = np.array([[e + 1, e] for e in range(len(history) - 1)]).ravel()
    return history[np.ix_(seen, seen)]


def in_turn(r):
    """Two values with correlation r, one after the other, again and again."""
    turn = np.arange(EDITIONS) % 2
    return np.array([[1.0, r], [r, 1.0]])[np.ix_(turn, turn)]


def slopes(size):
    """Each row grows by an amount of its own, the same in each edition."""
    place = np.arange(EDITIONS)
    return 1 + size * np.outer(place, place)


def _print(name, history, columns, rules):
    found = left(history, columns, rules)
    shares = "  ".join(f"{share:.3f}" for share in found.values())
    print(f"{name:42}  {shares}  {growth(history, columns, rules):5.2f}")


def _figures():
    kinds = {"drifting": drifting, "personal": personal}
    correlations = (0.5, 0.9, 0.98)
    print(f"{'':42}  {'  '.join(history_functions(1, 1))}  noise")
    for what, scheme in (("ours", our_rules), ("reused", reused), ("fresh", fresh)):
        for name, kind in kinds.items():
            for r in correlations:
                _print(f"{what}: {name} {r}", kind(r), 1, scheme(kind(r), 1))
    for name, kind in kinds.items():
        for r in correlations:
            history = beside_constant(kind(r), 0.9)
            _print(f"beside a constant column: {name} {r}", history, 2, our_rules(history, 2))
            history = last_years(kind(r, EDITIONS + 1))
            _print(f"beside last edition's value: {name} {r}", history, 2, our_rules(history, 2))
    for editions in (24, 60):
        for name, kind in kinds.items():
            for r in correlations:
                history = kind(r, editions)
                _print(f"{editions} editions: {name} {r}", history, 1, our_rules(history, 1))
    for r in correlations:
        rules = our_rules(drifting(r), 1)
        _print(f"constant, by the rule of {r}", constant(), 1, rules)
        _print(f"two values in turn: {r}", in_turn(r), 1, rules)
        once = in_turn(r)[np.ix_([0, 1, *[0] * 10], [0, 1, *[0] * 10])]
        _print(f"changed once and back: {r}", once, 1, [*rules[:2], *[None] * 9])
    one = np.eye(1)
    for times in (1, 3, 11):
        for name, kind in kinds.items():
            for r in (0.0, *correlations, 1.0):
                history = kind(r, times + 1)
                _print(f"came back {times} times: {name} {r}", history, 1, returns([0], one, times))
    for real in correlations:
        for measured in correlations:
            rules = our_rules(personal(measured), 1)
            _print(f"personal {real} by the rule of {measured}", personal(real), 1, rules)
    for size in (0.01, 0.1):
        _print(f"own slopes of variance {size}", slopes(size), 1, our_rules(slopes(size), 1))


if __name__ == "__main__":
    _figures()
