"""What a set of recipients can recover together, exactly, from the levels that they hold.

With copies Y_i = X + Z_i and Cov(Z) = Sigma (x) K, the best linear estimate leaves
the share 1 / (1 + 1' Sigma^-1 1) of X's variance hidden, in every column:

    corner wave   Sigma = min(u, v)   ->  v / (1 + v) of the least noise v      (Theorem 4)
    independent   Sigma = diag(v)     ->  1 / (1 + sum 1/v)                     (Theorem 3)

The indicators of a category have the same shares if it is refreshed from its own
distribution pi. An adversary who knows pi, the retention q and the distribution b of the
draws guesses right with probability

    sum over y of max over x of pi_x P(y | x),    P(y | x) = q [x = y] + (1 - q) b_y

from the best copy; further copies of the refresh process add nothing. The share
(1 - sum of P(x, y)^2 / P(y)) / (1 - sum of pi^2) of its variance stays hidden: p for
b = pi, more or less than p for even draws (uniform).

Of a table that changes, a row's values in all editions are one long row x of covariance H. Copies
of editions e and f at levels u and v have noise of covariance min(u, v) S_ef, and of a linear
function of the history with weights w there stays hidden the share

    1 - w'H_s (H_ss + min(u, v) S_ss)^-1 H_s'w / w'Hw          s: what of x is in the copies held
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.levels import Level, retention
from cornerwave.table import MARGINAL, UNIFORM

EXACT_CELLS = 1 << 20
RANK_TOLERANCE = 1e-12
"""Directions with less than this share of the variance of copies only repeat others."""

DRAWS = 100_000
"""Cells that are drawn if exact sums over all cases would have more than EXACT_CELLS terms."""


@dataclass(frozen=True)
class BestGuess:
    """How often the best guess of a category is right, and the hidden share of its variance.

    `best` is from the least noisy copy, and `joint`, from all copies, equals it;
    `independent` is from copies refreshed independently. `least_hidden` is the hidden share
    of the most visible value.
    """

    blind: float
    best: float
    joint: float
    independent: float
    hidden: float
    least_hidden: float


@dataclass(frozen=True)
class Law:
    """The distribution of a category, as counts of its values, and that of its draws."""

    counts: Sequence[int]
    base: str = MARGINAL

    @property
    def pi(self) -> Floats:
        """The distribution of the values."""
        return np.array(self.counts, dtype=np.float64) / sum(self.counts)

    @property
    def drawn(self) -> Floats:
        """The distribution of the draws."""
        return np.full(len(self.counts), 1 / len(self.counts)) if self.base == UNIFORM else self.pi


@dataclass(frozen=True)
class Coalition:
    """Shares of variance that stay hidden from a set of recipients."""

    members: tuple[tuple[str, Level], ...]
    joint_privacy: float
    best_member: str
    best_privacy: float
    independent_privacy: float
    guesses: Mapping[str, BestGuess] = field(default_factory=dict)
    changing: Mapping[str, float] = field(default_factory=dict)
    """What stays hidden of rows that changed between editions: of each `value`, of the `mean` of
    all editions, of each `change`."""

    @classmethod
    def of(
        cls, members: Sequence[tuple[str, Level]], categories: Mapping[str, Law] | None = None
    ) -> "Coalition":
        """Return what recipients can recover together from their copies.

        `categories` gives the law of each category, for the best guess.

        >>> pair = Coalition.of([("alice", Level(1.0)), ("bob", Level(4.0))])
        >>> pair.joint_privacy, pair.best_member, round(pair.independent_privacy, 4)
        (0.5, 'alice', 0.4444)
        """
        best, level = min(members, key=lambda member: member[1])
        noise = [level.noise for _, level in members]
        return cls(
            members=tuple(members),
            joint_privacy=level.privacy,
            best_member=best,
            best_privacy=level.privacy,
            independent_privacy=1 / (1 + sum(1 / v for v in noise)),
            guesses={name: guess(law, noise) for name, law in (categories or {}).items()},
        )

    @property
    def gain(self) -> float:
        """What pooling uncovers beyond the best member's own copy; 0 for corner-wave noise."""
        return self.best_privacy - self.joint_privacy

    @property
    def independent_gain(self) -> float:
        """What pooling would uncover if each copy had independent noise."""
        return self.best_privacy - self.independent_privacy


OF_HISTORY = {
    "value": "any value",
    "mean": "mean of its editions",
    "change": "any change",
}
"""What is asked about a row that changes, and how it is said."""


def history_functions(editions: int, columns: int) -> dict[str, Floats]:
    """Return what to ask of a history: each value, the mean and the changes of each column.

    Weights (questions, editions, columns) on the values of a row.

    >>> {name: len(weights) for name, weights in history_functions(3, 2).items()}
    {'value': 6, 'mean': 2, 'change': 4}
    """
    value = np.eye(editions * columns).reshape(editions, columns, editions, columns)
    shape = (-1, editions, columns)
    return {
        "value": value.reshape(shape),
        "mean": value.mean(axis=0).reshape(shape),
        "change": np.diff(value, axis=0).reshape(shape),
    }


def hidden_in_history(
    weights: Floats, held: Sequence[tuple[int, float]], *, history: Floats, noise: Floats
) -> Floats:
    """Return the share of the variance of functions of a row's history that stays hidden.

    weights: (questions, E, N) on the row's values; held: (edition, noise) of every copy;
    history: H (E N, E N), the covariance of the values, edition after edition; noise: S of the
    same shape, from `cornerwave.history.noise_across`. What does not vary counts as hidden.

    >>> H, fresh = np.ones((2, 2)), np.eye(2)  # a constant value with fresh noise each time
    >>> weights, held = np.array([[[1.0], [0.0]]]), [(0, 1.0), (1, 1.0)]
    >>> hidden_in_history(weights, held, history=H, noise=fresh).round(4).tolist()
    [0.3333]
    """
    questions, _, columns = weights.shape
    asked = weights.reshape(questions, -1)
    levels = np.repeat([level for _, level in held], columns)
    cells = np.concatenate([np.arange(e * columns, (e + 1) * columns) for e, _ in held])
    here = np.ix_(cells, cells)
    copies = history[here] + np.minimum.outer(levels, levels) * noise[here]
    scale = np.sqrt(np.maximum(np.diag(copies), 1e-300))
    inverse = np.linalg.pinv(copies / np.outer(scale, scale), RANK_TOLERANCE, hermitian=True)
    told = asked @ history[:, cells] / scale
    recovered = np.einsum("qi,ij,qj->q", told, inverse, told)
    variance = np.einsum("qi,ij,qj->q", asked, history, asked)
    varies = variance > RANK_TOLERANCE * np.einsum("qi,i,qi->q", asked, np.diag(history), asked)
    return np.asarray(1 - np.where(varies, recovered, 0.0) / np.where(varies, variance, 1.0))


def guess(law: Law, noise: Sequence[float]) -> BestGuess:
    """Return how well a category can be guessed from copies at these levels.

    >>> fair = guess(Law([1, 1]), [3.0, 3.0])
    >>> fair.blind, fair.best, fair.joint, fair.hidden
    (0.5, 0.75, 0.75, 0.75)
    """
    pi, base = law.pi, law.drawn
    q = max(retention(level) for level in noise)
    kept, drawn = pi * (q + (1 - q) * base), (1 - q) * base
    # Given y, guess y itself or, if that is rare, the most common other value.
    top, second = np.argsort(-pi, kind="stable")[[0, min(1, len(pi) - 1)]]
    other = np.where(np.arange(len(pi)) == top, pi[second] if second != top else 0.0, pi[top])
    best = float(np.maximum(kept, other * drawn).sum())
    independent = _guess_independent(law, noise)
    return BestGuess(float(pi.max()), best, best, independent, *_hidden(law, q))


def _hidden(law: Law, q: float) -> tuple[float, float]:
    return hidden_shares(law.pi, law.drawn, q)


def hidden_shares(pi: Floats, base: Floats, q: float) -> tuple[float, float]:
    """Return the hidden share of the variance: of all values, and of the most visible one.

    Values have the law pi, those that are drawn the law `base`. E[1_x | y] has the mean square
    sum over y of P(x, y)^2 / P(y); pi_x less that stays hidden.
    """
    drawn = (1 - q) * base
    if len(pi) == 1:
        return 0.0, 0.0
    shown = np.maximum(q * pi + drawn, 1e-300)
    elsewhere = float((drawn**2 / shown).sum()) - drawn**2 / shown
    recovered = pi**2 * ((q + drawn) ** 2 / shown + elsewhere)
    shares = (pi - recovered) / np.maximum(pi * (1 - pi), 1e-300)
    return float((pi - recovered).sum() / (1 - (pi**2).sum())), float(shares[pi > 0].min())


def _guess_independent(law: Law, noise: Sequence[float]) -> float:
    """Return how often the best guess is right if copies are refreshed independently."""
    pi = law.pi
    if len(pi) ** (1 + len(noise)) > EXACT_CELLS:
        return _guess_drawn(law, noise)
    joint = pi[:, None]  # of the truth and all that was seen so far
    for level in noise:
        q = retention(level)
        seen = q * np.eye(len(pi)) + (1 - q) * law.drawn
        joint = (joint[:, :, None] * seen[:, None, :]).reshape(len(pi), -1)
    return float(joint.max(axis=0).sum())


def _guess_drawn(law: Law, noise: Sequence[float]) -> float:
    """Return the same from drawn cells, if there are too many cases to enumerate."""
    rng, pi, base = np.random.default_rng(0), law.pi, law.drawn
    truth = rng.choice(len(pi), DRAWS, p=pi)
    copies = []
    for level in noise:
        kept = rng.random(DRAWS) < retention(level)
        copies.append(np.where(kept, truth, rng.choice(len(pi), DRAWS, p=base)))
    best_guess, best_score = np.full(DRAWS, int(pi.argmax())), np.full(DRAWS, -1.0)
    for candidate in (best_guess.copy(), *copies):
        score = pi[candidate]
        for level, copy in zip(noise, copies, strict=True):
            q = retention(level)
            score = score * np.where(copy == candidate, 1 + q / ((1 - q) * base[candidate]), 1.0)
        best_guess = np.where(score > best_score, candidate, best_guess)
        best_score = np.maximum(score, best_score)
    return float((best_guess == truth).mean())
