"""How well categories can be guessed, from one copy and from several.

Who holds one copy and knows pi guesses, where it shows y, that y is the truth with
probability rho(y), and each other value in proportion to pi: the posterior under any
refresh. Who holds more looks where the other copies agree, with the best one and with
each other, and corrects rho by what that tells (linearly):

    p  =  rho(y)  +  sum of w ([Y' = Y] - its mean given y)

from copies of that category by itself, or of all categories jointly. rho and w are
learned from one half of the rows and used in the other; then the halves change places.
The error of a guess is its squared distance from the truth (Brier), as a share of
1 - sum of pi^2: the share of the category's variance that stays hidden. It counts
certainty, also where the likeliest value stays the same. Whether a set gains is not
judged by these figures, but by path.py.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from cornerwave.arrays import Flags, Floats
from cornerwave.audit.chance import share, z_limit
from cornerwave.audit.shown import ABSENT, Shown

STEADY = 20.0
"""Rows' worth of trust in the mean of all values, where one of them was seen seldom."""

RIDGE = 1e-9

Members = tuple[int, ...]


@dataclass(frozen=True)
class Guessed:
    """What a set of copies recovers of a category beside its best copy; or of all, on average.

    `blind`, `alone` and `together` say how often the likeliest value is right: without a
    copy, from the best one, from all. `hidden_alone` and `hidden_together` are the shares
    of the variance that stay hidden; their difference is known to within `margin`.
    """

    columns: tuple[str, ...]
    by_itself: bool
    copies: Members
    best: int
    blind: float
    alone: float
    together: float
    hidden_alone: float
    hidden_together: float
    margin: float

    @property
    def gain(self) -> float:
        """The share of the variance that the set recovers beyond its best copy."""
        return self.hidden_alone - self.hidden_together


@dataclass(frozen=True)
class Guesses:
    """All guesses; `singles` (M, categories) is what stays hidden from each copy alone."""

    sets: tuple[Guessed, ...]
    singles: Floats


def guess_all(categories: Sequence[Shown]) -> Guesses:
    """Guess each category, and all of them jointly, from sets of copies and single ones."""
    copies = len(categories[0].codes) - 1
    seen = [[_Seen.of(shown, i) for shown in categories] for i in range(copies)]
    singles = np.array([[own.mean(own.error(own.rho())) for own in each] for each in seen])
    agreement = [float(np.mean([own.mean(own.right) for own in each])) for each in seen]
    sets = [*combinations(range(copies), 2), *([tuple(range(copies))] if copies > 2 else [])]
    margin = z_limit(share(len(sets) * (len(categories) + 1)))
    found: list[Guessed] = []
    for members in sets:
        best = max(members, key=lambda i: agreement[i])
        found += _of_set(categories, seen[best], members, best, margin)
    return Guesses(tuple(found), singles)


@dataclass(frozen=True)
class _Seen:
    """A category as one copy shows it: the truth x, the shown y, the rows that hold any."""

    x: Any
    y: Any
    held: Flags
    pi: Floats
    variance: float

    @classmethod
    def of(cls, shown: Shown, copy: int) -> "_Seen":
        held = shown.truth != ABSENT
        x, y = (np.where(held, codes, 0) for codes in (shown.truth, shown.codes[1 + copy]))
        return cls(x, y, held, shown.pi, shown.variance)

    @property
    def right(self) -> Flags:
        """Where the copy shows the truth."""
        return np.asarray((self.x == self.y) & self.held)

    def mean(self, values: Any) -> float:
        """Return the mean over the rows that hold any value."""
        return float(values[self.held].mean()) if self.held.any() else 0.0

    def rho(self) -> Floats:
        """Return how likely each row's y is the truth, learned from the other half."""
        return _across_halves(lambda learn: self._given_y(self.right, learn, STEADY))

    def centred(self, flags: Any, learn: slice) -> Floats:
        """Return flags less their mean given y in the rows learned from."""
        return np.where(self.held, flags - self._given_y(flags, learn, 0.0), 0.0)

    def _given_y(self, flags: Any, learn: slice, trust: float) -> Floats:
        """Return the mean of flags given y for each row; `trust` rows of the overall mean."""
        y = self.y[learn][self.held[learn]]
        own = flags[learn][self.held[learn]].astype(np.float64)
        rows = np.bincount(y, minlength=len(self.pi)) + trust
        sums = np.bincount(y, own, len(self.pi)) + trust * (own.mean() if len(own) else 0.0)
        return np.asarray((sums / np.maximum(rows, 1e-300))[self.y])

    def error(self, p: Floats) -> Floats:
        """Return the squared distance of each row's guess from its truth, y having p."""
        pi, rest = self.pi, np.maximum(1.0 - self.pi[self.y], 1e-300)
        others = (float((pi**2).sum()) - pi[self.y] ** 2) / rest**2
        wrong = ~self.right
        off = (1 - p) ** 2 * others + wrong * (1 - 2 * (1 - p) * pi[self.x] / rest)
        return np.asarray(((self.right - p) ** 2 + off) / self.variance)

    def hits(self, p: Floats) -> Flags:
        """Say where the likeliest value is the truth, y having p."""
        first, second = np.argsort(-self.pi, kind="stable")[[0, min(1, len(self.pi) - 1)]]
        other = np.where(self.y == first, second, first)
        rest = np.maximum(1.0 - self.pi[self.y], 1e-300)
        stays = p >= (1 - p) * self.pi[other] / rest
        return np.asarray(np.where(stays, self.right, self.x == other))


def _of_set(
    categories: Sequence[Shown], seen: Sequence[_Seen], members: Members, best: int, margin: float
) -> list[Guessed]:
    others = [i for i in members if i != best]
    flags = [_agreements(shown, best, others) for shown in categories]
    alone = [own.rho() for own in seen]
    corrections = _across_halves(lambda learn: _corrections(seen, flags, learn))
    itself, jointly = (
        [np.clip(p + more, 0.0, 1.0) for p, more in zip(alone, each, strict=True)]
        for each in corrections
    )
    found = [
        _guessed([own], [p], [q], [shown], members, best, margin)
        for own, p, q, shown in zip(seen, alone, itself, categories, strict=True)
    ]
    return [*found, _guessed(seen, alone, jointly, categories, members, best, margin)]


def _corrections(seen: Sequence[_Seen], flags: Sequence[Sequence[Flags]], learn: slice) -> Floats:
    """Return what agreements tell of each category, by itself and jointly: (2, C, rows)."""
    r = [
        np.stack([own.centred(flag, learn) for flag in each])
        for own, each in zip(seen, flags, strict=True)
    ]
    e = np.stack([own.centred(own.right, learn)[learn] for own in seen])
    itself = [_fitted(own, e[[c]], learn)[0] for c, own in enumerate(r)]
    return np.stack([itself, _fitted(np.concatenate(r), e, learn)])


def _fitted(r: Floats, e: Floats, learn: slice) -> Floats:
    """Return the best linear estimates of e (C, rows learned from) by r, in all rows."""
    known = r[:, learn]
    inner = known @ known.T
    inner[np.diag_indices_from(inner)] = np.diag(inner) * (1 + RIDGE) + 1e-300
    return np.asarray(np.linalg.solve(inner, known @ e.T).T @ r)


def _agreements(shown: Shown, best: int, others: Sequence[int]) -> list[Flags]:
    """Say where each other copy agrees with the best one, and where all others do."""
    codes = shown.codes[1:]
    flags = [codes[j] == codes[best] for j in others]
    if len(others) > 1:
        flags.append((codes[others] == codes[others[0]]).all(axis=0))
    return flags


def _across_halves(estimate: Callable[[slice], Floats]) -> Floats:
    """Return estimates for each half of the rows, learned from the other."""
    even, odd = slice(0, None, 2), slice(1, None, 2)
    found = estimate(odd).copy()
    found[..., odd] = estimate(even)[..., odd]
    return found


def _guessed(
    seen: Sequence[_Seen],
    alone: Sequence[Floats],
    together: Sequence[Floats],
    categories: Sequence[Shown],
    members: Members,
    best: int,
    margin: float,
) -> Guessed:
    """Return the figures of some categories, averaged."""
    cases = list(zip(seen, alone, together, strict=True))
    gains = np.mean([(own.error(p) - own.error(q)) * own.held for own, p, q in cases], axis=0)
    return Guessed(
        columns=tuple(name for shown in categories for name in shown.columns),
        by_itself=len(seen) == 1,
        copies=members,
        best=best,
        blind=float(np.mean([own.pi.max() for own in seen])),
        alone=float(np.mean([own.mean(own.hits(p)) for own, p, _ in cases])),
        together=float(np.mean([own.mean(own.hits(q)) for own, _, q in cases])),
        hidden_alone=float(np.mean([own.mean(own.error(p)) for own, p, _ in cases])),
        hidden_together=float(np.mean([own.mean(own.error(q)) for own, _, q in cases])),
        margin=margin * float(gains.std()) / math.sqrt(max(len(gains), 1)),
    )
