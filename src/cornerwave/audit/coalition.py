"""What some recipients can recover together, exactly, from the levels that they hold.

With copies Y_i = X + Z_i and Cov(Z) = Sigma (x) K, the best linear estimate leaves
the share 1 / (1 + 1' Sigma^-1 1) of X's variance hidden, in every column:

    corner wave   Sigma = min(u, v)   ->  v / (1 + v) of the least noise v      (Theorem 4)
    independent   Sigma = diag(v)     ->  1 / (1 + sum 1/v)                     (Theorem 3)

Indicators of a category have the same shares. How often its best guess is right, with
pi and the retention q known, is sum over y of max over x of pi_x P(y | x), where
P(y | x) = q [x = y] + (1 - q) pi_y; copies of the refresh process add nothing to the best.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cornerwave.levels import Level
from cornerwave.noise.refresh import retention

Floats = NDArray[np.float64]

EXACT_CELLS = 1 << 20
DRAWS = 100_000
"""Cells that are drawn where exact sums over all cases would be longer than EXACT_CELLS."""


@dataclass(frozen=True)
class Guess:
    """How often the best guess of a category is right."""

    blind: float
    best: float
    joint: float
    independent: float


@dataclass(frozen=True)
class Coalition:
    """Shares of variance that stay hidden from some recipients."""

    members: tuple[tuple[str, Level], ...]
    joint_privacy: float
    best_member: str
    best_privacy: float
    independent_privacy: float
    guesses: Mapping[str, Guess] = field(default_factory=dict)

    @property
    def gain(self) -> float:
        """What pooling uncovers beyond the best member's own copy; 0 for corner-wave noise."""
        return self.best_privacy - self.joint_privacy

    @property
    def independent_gain(self) -> float:
        """What pooling would uncover if each copy had noise of its own."""
        return self.best_privacy - self.independent_privacy


def coalition(
    members: Sequence[tuple[str, Level]],
    categories: Mapping[str, Sequence[int]] | None = None,
) -> Coalition:
    """Return what recipients can recover together from the copies that they hold.

    `categories` gives the counts of each category column's values, for the best guess.

    >>> pair = coalition([("alice", Level(1.0)), ("bob", Level(4.0))])
    >>> pair.joint_privacy, pair.best_member, round(pair.independent_privacy, 4)
    (0.5, 'alice', 0.4444)
    """
    best, level = min(members, key=lambda member: member[1])
    return Coalition(
        members=tuple(members),
        joint_privacy=min(level for _, level in members).privacy,
        best_member=best,
        best_privacy=level.privacy,
        independent_privacy=1 / (1 + sum(1 / level.noise for _, level in members)),
        guesses={
            name: guess(counts, [level.noise for _, level in members])
            for name, counts in (categories or {}).items()
        },
    )


def guess(counts: Sequence[int], noise: Sequence[float]) -> Guess:
    """Return how often a category of these counts is guessed from copies at these levels.

    >>> fair = guess([1, 1], [3.0, 3.0])
    >>> fair.blind, fair.best, fair.joint
    (0.5, 0.75, 0.75)
    """
    pi = np.array(counts, dtype=np.float64) / sum(counts)
    q = max(retention(level) for level in noise)
    # Given y, guess y itself or, if that is rare, the most common value.
    right = np.maximum(pi * (q + (1 - q) * pi), pi.max() * (1 - q) * pi)
    top = int(pi.argmax())
    right[top] = pi[top] * (q + (1 - q) * pi[top])
    best = float(right.sum())
    return Guess(float(pi.max()), best, best, _guess_independent(pi, noise))


def _guess_independent(pi: Floats, noise: Sequence[float]) -> float:
    """Return how often the best guess would be right if each copy had events of its own."""
    if len(pi) ** (1 + len(noise)) > EXACT_CELLS:
        return _guess_drawn(pi, noise)
    joint = pi[:, None]  # of the truth and all that was seen so far
    for level in noise:
        q = retention(level)
        seen = q * np.eye(len(pi)) + (1 - q) * pi
        joint = (joint[:, :, None] * seen[:, None, :]).reshape(len(pi), -1)
    return float(joint.max(axis=0).sum())


def _guess_drawn(pi: Floats, noise: Sequence[float]) -> float:
    """Return the same from drawn cells, where there are too many cases to go through."""
    rng = np.random.default_rng(0)
    truth = rng.choice(len(pi), DRAWS, p=pi)
    copies = []
    for level in noise:
        kept = rng.random(DRAWS) < retention(level)
        copies.append(np.where(kept, truth, rng.choice(len(pi), DRAWS, p=pi)))
    best_guess, best_score = np.full(DRAWS, int(pi.argmax())), np.full(DRAWS, pi.max())
    for candidate in copies:
        score = pi[candidate]
        for level, copy in zip(noise, copies, strict=True):
            q = retention(level)
            score = score * np.where(copy == candidate, 1 + q / ((1 - q) * pi[candidate]), 1.0)
        best_guess = np.where(score > best_score, candidate, best_guess)
        best_score = np.maximum(score, best_score)
    return float((best_guess == truth).mean())
