"""What a set of recipients can recover together, exactly, from the levels that they hold.

With copies Y_i = X + Z_i and Cov(Z) = Sigma (x) K, the best linear estimate leaves
the share 1 / (1 + 1' Sigma^-1 1) of X's variance hidden, in every column:

    corner wave   Sigma = min(u, v)   ->  v / (1 + v) of the least noise v      (Theorem 4)
    independent   Sigma = diag(v)     ->  t / (1 + t),  1/t = sum 1/v           (Theorem 3)

So independent copies are worth one copy of noise t, and this holds for the whole copy: with
q = 1/sqrt(1+v), a category that is refreshed from its own distribution pi has indicators
Y with Cov(Y, Z) = q C and Cov(Y) = q^2 C + (1 - q^2) D like the numbers (see `joint`), so that
Y_i / q_i = Z + noise of covariance v_i D, uncorrelated between copies. What the copies of a
dataset hide of the worst column is known for every noise, and both figures are read from it,
at the least noise and at t. With even draws D depends a little on the level, and t is close.

An adversary who knows pi, the retention q and the distribution b of the draws of a category
guesses right with probability

    sum over y of max over x of pi_x P(y | x),    P(y | x) = q [x = y] + (1 - q) b_y

from the best copy; further copies of the refresh process add nothing. The share
(1 - sum of P(x, y)^2 / P(y)) / (1 - sum of pi^2) of its variance stays hidden: p for
b = pi, more or less than p for even draws (uniform).

Of a table that changes, a row's values in all editions are one long row x of covariance H. Copies
of editions e and f at levels u and v have noise of covariance min(u, v) S_ef, and of a linear
function of the history with weights w there stays hidden the share

    1 - w'H_s (H_ss + min(u, v) S_ss)^-1 H_s'w / w'Hw          s: what of x is in the copies held
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.choices import MARGINAL, UNIFORM
from cornerwave.levels import Level, retention

EXACT_CELLS = 1 << 20
"""Terms of an exact sum over all cases of what is seen, at most,"""
DRAWS, LEAST_DRAWS, DRAWN_CELLS = 100_000, 1_000, 1 << 23
"""else so many cells are drawn, fewer of many values or levels: a share is known to 0.0016 then,
at the worst to 0.016."""
CERTAIN, CHECKED = 1 - 1e-6, 8
"""Guesses that are right so often get no better; after so many levels this is looked at."""
REPEATED = 1e-12
"""Directions with less than this share of the variance of copies only repeat others."""


@dataclass(frozen=True)
class BestGuess:
    """How often the best guess of a category is right, and the hidden share of its variance.

    `best` is from the least noisy copy, and `joint`, from all copies, equals it;
    `independent` is from copies refreshed independently. `least_hidden` is the hidden share
    of the most visible value. `moving` is what stays hidden in any case of a category that changed
    between the editions held. If one moved in ways that few rows share, these figures do not hold
    for any category that it reveals: then `joint` and both shares are None.
    """

    blind: float
    best: float
    joint: float | None
    independent: float
    hidden: float | None
    least_hidden: float | None
    moving: "Moving | None" = None

    def unbounded(self) -> "BestGuess":
        """Return the same if some category moved in ways that few rows share."""
        return replace(self, joint=None, hidden=None, least_hidden=None)


@dataclass(frozen=True)
class Moving:
    """What is left of a category that changed between editions, if all replaced cells are known.

    Someone who knows these has the values of all others, and no information on these. `alone`: so
    many rows moved in ways that few share that replaced ones show; else they move like others.
    """

    right: float
    hidden: float
    alone: bool = False

    @classmethod
    def of(cls, category: "CategoryDistribution", noise: float, *, alone: bool = False) -> "Moving":
        """Return it for copies whose least noise this is.

        >>> Moving.of(CategoryDistribution([3, 1]), 3.0)
        Moving(right=0.875, hidden=0.5, alone=False)
        """
        q = retention(noise)
        return cls(q + (1 - q) * float(category.pi.max()), 1 - q, alone)


@dataclass(frozen=True)
class CategoryDistribution:
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
    """Shares of variance that stay hidden from a set of recipients.

    All of them are of the column of which the copies hide least. `best_privacy` is that of the
    best copy alone. If a category moved in ways that few rows share between the editions held,
    nothing bounds what it reveals of other columns: then `joint_privacy` and
    `independent_privacy` are None.
    """

    members: tuple[tuple[str, Level], ...]
    joint_privacy: float | None
    best_member: str
    best_privacy: float
    independent_privacy: float | None
    guesses: Mapping[str, BestGuess] = field(default_factory=dict)
    changing: Mapping[str, float] = field(default_factory=dict)
    """What stays hidden of rows that changed between editions: of each `value`, of the `mean` of
    all editions, of each `change`."""

    @classmethod
    def of(
        cls,
        members: Sequence[tuple[str, Level]],
        categories: Mapping[str, CategoryDistribution] | None = None,
        *,
        privacy_of: Callable[[Level], float] = lambda level: level.privacy,
    ) -> "Coalition":
        """Return what recipients can recover together from their copies.

        `categories` are for the best guess of each; `privacy_of` is what the whole copy at any
        level hides, by default that of a table of numbers alone.

        >>> pair = Coalition.of([("alice", Level(1.0)), ("bob", Level(4.0))])
        >>> pair.joint_privacy, pair.best_member, round(pair.independent_privacy, 4)
        (0.5, 'alice', 0.4444)
        """
        best, level = min(members, key=lambda member: member[1])
        noise = [level.noise for _, level in members]
        joint = privacy_of(level)
        return cls(
            members=tuple(members),
            joint_privacy=joint,
            best_member=best,
            best_privacy=joint,
            # no more than the best of them alone, whatever `privacy_of` rounds
            independent_privacy=min(joint, privacy_of(independent_level(noise))),
            guesses={name: guess(each, noise) for name, each in (categories or {}).items()},
        )

    def over_editions(self, moving: Mapping[str, "Moving"]) -> "Coalition":
        """Return the same for copies of editions between which these categories changed.

        What is frozen does not state what other columns hide from someone who knows which cells
        were replaced, so no figure is left for any of them if one moved in ways that few rows
        share.

        >>> grade = CategoryDistribution([1, 1])
        >>> members = [("ann", Level(1.0)), ("bob", Level(1.0))]
        >>> pair = Coalition.of(members, {"grade": grade})
        >>> over = pair.over_editions({"grade": Moving.of(grade, 1.0, alone=True)})
        >>> over.joint_privacy, over.best_privacy, over.unbounded
        (None, 0.5, ['grade'])
        """
        guesses = {n: replace(each, moving=moving.get(n)) for n, each in self.guesses.items()}
        if not any(each.alone for each in moving.values()):
            return replace(self, guesses=guesses)
        guesses = {name: each.unbounded() for name, each in guesses.items()}
        return replace(self, joint_privacy=None, independent_privacy=None, guesses=guesses)

    @property
    def unbounded(self) -> list[str]:
        """The categories that moved in ways that few rows share between the editions held.

        No figure bounds any other column then, as far as these reveal it.
        """
        return [name for name, each in self.guesses.items() if each.moving and each.moving.alone]

    @property
    def gain(self) -> float | None:
        """What pooling uncovers beyond the best member's own copy; 0 for corner-wave noise."""
        return None if self.joint_privacy is None else self.best_privacy - self.joint_privacy

    @property
    def independent_gain(self) -> float | None:
        """What pooling would uncover if each copy had independent noise."""
        independent = self.independent_privacy
        return None if independent is None else self.best_privacy - independent


def independent_level(noise: Iterable[float]) -> Level:
    """Return the level whose copy is worth copies of these noises, were they independent.

    >>> independent_level([1.0, 4.0]), independent_level([3.0])
    (Level(noise=0.8), Level(noise=3.0))
    """
    known = list(noise)
    least = min(known)
    # t with 1/t = sum 1/v (Theorem 3); multiplied by the least, so that tiny v do not overflow
    return Level(least / sum(least / v for v in known) or least)  # `or`: half of the least double


OF_HISTORY = {
    "value": "any value",
    "mean": "mean of its editions",
    "change": "any change",
}
"""What is asked about a row that changes, and its words."""


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
    same shape, from `cornerwave.noise.noise_across`. What does not vary counts as hidden.

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
    # H_ss + min(u, v) S_ss, and H_s' w for each question
    copies = history[here] + np.minimum.outer(levels, levels) * noise[here]
    scale = np.sqrt(np.maximum(np.diag(copies), 1e-300))
    inverse = np.linalg.pinv(copies / np.outer(scale, scale), REPEATED, hermitian=True)
    across = asked @ history[:, cells] / scale
    recovered = np.einsum("qi,ij,qj->q", across, inverse, across)
    variance = np.einsum("qi,ij,qj->q", asked, history, asked)
    varies = variance > REPEATED * np.einsum("qi,i,qi->q", asked, np.diag(history), asked)
    return np.asarray(1 - np.where(varies, recovered, 0.0) / np.where(varies, variance, 1.0))


def guess(category: CategoryDistribution, noise: Sequence[float]) -> BestGuess:
    """Return how well a category can be guessed from copies at these levels.

    >>> fair = guess(CategoryDistribution([1, 1]), [3.0, 3.0])
    >>> fair.blind, fair.best, fair.joint, fair.hidden
    (0.5, 0.75, 0.75, 0.75)
    """
    pi, base = category.pi, category.drawn
    q = max(retention(level) for level in noise)
    # pi_x P(y | x) is kept_y for x = y, and pi_x drawn_y for any other x
    kept, drawn = pi * (q + (1 - q) * base), (1 - q) * base
    # Given y, guess y itself or, if that is rare, the most common other value.
    top, second = np.argsort(-pi, kind="stable")[[0, min(1, len(pi) - 1)]]
    other = np.where(np.arange(len(pi)) == top, pi[second] if second != top else 0.0, pi[top])
    best = float(np.maximum(kept, other * drawn).sum())
    independent = max(best, _guess_independent(category, noise))  # draws may fall short by chance
    shares = hidden_shares(pi, base, q)
    return BestGuess(
        blind=float(pi.max()),
        best=best,
        joint=best,
        independent=independent,
        hidden=shares.of_all,
        least_hidden=shares.least,
    )


@dataclass(frozen=True)
class HiddenShares:
    """The hidden share of a category's variance: of all values, and of the most visible one."""

    of_all: float
    least: float


def hidden_shares(pi: Floats, base: Floats, q: float) -> HiddenShares:
    """Return the hidden share of the variance of a category that is retained with probability q.

    Values have the distribution pi, those that are drawn `base`. E[1_x | y] has the mean square
    sum over y of P(x, y)^2 / P(y); pi_x less that stays hidden.
    """
    drawn = (1 - q) * base
    if len(pi) == 1:
        return HiddenShares(0.0, 0.0)
    shown = np.maximum(q * pi + drawn, 1e-300)  # P(y)
    # P(x, y) = pi_x (q [x = y] + (1 - q) b_y): the case y = x apart from all others
    elsewhere = float((drawn**2 / shown).sum()) - drawn**2 / shown
    recovered = pi**2 * ((q + drawn) ** 2 / shown + elsewhere)
    shares = (pi - recovered) / np.maximum(pi * (1 - pi), 1e-300)
    of_all = float((pi - recovered).sum() / (1 - (pi**2).sum()))
    return HiddenShares(of_all, float(shares[pi > 0].min()))


def _guess_independent(category: CategoryDistribution, noise: Sequence[float]) -> float:
    """Return how often the best guess is right if copies are refreshed independently."""
    if len(category.counts) ** (1 + len(noise)) > EXACT_CELLS:
        return _guess_drawn(category, noise)
    return float(_chances(category, noise).max(axis=0).sum())


def _chances(category: CategoryDistribution, noise: Sequence[float]) -> Floats:
    """Return the chance of each truth and each case of what is seen: (values, cases)."""
    pi = category.pi
    joint = pi[:, None]  # of the truth and all that was seen so far
    for level in noise:
        q = retention(level)
        seen = q * np.eye(len(pi)) + (1 - q) * category.drawn
        joint = (joint[:, :, None] * seen[:, None, :]).reshape(len(pi), -1)
    return np.asarray(joint)


def _guess_drawn(category: CategoryDistribution, noise: Sequence[float]) -> float:
    """Return the same from drawn cells, if there are too many cases to enumerate.

    Copies of one level count together. Each value y that a cell shows makes the truth y likelier by
    1 + q/((1 - q) b_y).
    """
    pi, base, values = category.pi, category.drawn, len(category.counts)
    levels, copies = np.unique(noise, return_counts=True)  # least noise first
    work = values + int(np.minimum(copies, values).sum())
    cells = int(np.clip(DRAWN_CELLS // work, LEAST_DRAWS, DRAWS))
    rng, rows = np.random.default_rng(0), np.arange(cells)
    truth = rng.choice(values, cells, p=pi)
    # log of P(truth, all that was seen so far)
    scores = np.tile(np.log(np.maximum(pi, 1e-300)), (cells, 1))
    for place, (level, n) in enumerate(zip(levels, copies, strict=True), start=1):
        q = retention(float(level))
        gains = np.log1p(q / np.maximum((1 - q) * base, 1e-300))
        if n >= values:
            kept = rng.binomial(n, q, cells)
            scores[rows, truth] += kept * gains[truth]
            scores += rng.multinomial(n - kept, base) * gains
        for _ in range(n if n < values else 0):
            seen = np.where(rng.random(cells) < q, truth, rng.choice(values, cells, p=base))
            scores[rows, seen] += gains[seen]
        if (place % CHECKED == 0 or n >= values) and _chance_right(scores) > CERTAIN:
            break  # more copies add nothing that is shown
    return _chance_right(scores)


def _chance_right(scores: Floats) -> float:
    """Return how often the likeliest truth of a cell is right, by the logs of all (cells, K)."""
    return float((1 / np.exp(scores - scores.max(axis=1)[:, None]).sum(axis=1)).mean())
