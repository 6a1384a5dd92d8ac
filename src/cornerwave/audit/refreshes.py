"""Are the categories of a copy refreshed as its metadata states? Two checks of each.

Given the source, every cell of a copy at retention q, refreshed from the distribution
pi, is a draw of its own: y with probability q [y = x] + (1 - q) pi_y. So for each value

    retention   the rows that hold it and still show it are Binomial(n_x, q + (1 - q) pi_x)
    draws       the rows that show it and hold another are Binomial(n - n_x, (1 - q) pi_x)

and by Chernoff's bound the root of twice the divergence, n KL(found, expected),
exceeds z with a probability below exp(-z^2 / 2), whatever n is.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cornerwave.arrays import Flags, Floats
from cornerwave.audit.chance import sure_limit
from cornerwave.audit.checks import Check
from cornerwave.audit.shown import ABSENT, Shown
from cornerwave.audit.stated import Stated
from cornerwave.levels import retention
from cornerwave.table import MARGINAL, UNIFORM
from cornerwave.table.rare import OTHER


def check_refreshes(categories: Sequence[Shown], stated: Stated) -> list[Check]:
    """Return both checks of every copy that states its noise, the worst of its categories."""
    judged = {
        i: [case for shown in categories if (case := _Case.of(shown, i, stated)) is not None]
        for i, noise in enumerate(stated.noise)
        if noise is not None
    }
    values = sum(len(case.pi) for cases in judged.values() for case in cases)
    pooled = sum(map(len, judged.values()))
    limits = {"retention": sure_limit(values + pooled), "draws": sure_limit(values)}
    return [
        check
        for i, cases in judged.items()
        if cases
        for check in (
            _worst("retention", i, [case.retention() for case in cases], limits),
            _worst("draws", i, [case.draws() for case in cases], limits),
        )
    ]


def _worst(
    name: str, copy: int, found: Sequence[tuple[float, str]], limits: Mapping[str, float]
) -> Check:
    value, note = max(found)
    passed = value <= limits[name]
    return Check(name, (copy,), value, limits[name], passed, "" if passed else note)


class _Case:
    """A category of one copy, beside what it ought to be: n, kept and drawn, per value."""

    def __init__(self, name: str, q: float, pi: Floats, truth: Any, shown: Any) -> None:
        self.name, self.q, self.pi = name, q, pi
        held = truth != ABSENT
        truth, shown = truth[held], shown[held]
        same = truth == shown
        self.n = np.bincount(truth, minlength=len(pi))
        self.kept = np.bincount(truth[same], minlength=len(pi))
        self.drawn = np.bincount(shown[~same], minlength=len(pi))

    @classmethod
    def of(cls, shown: Shown, copy: int, stated: Stated) -> "_Case | None":
        """Return the case; None if the copy says too little of it, or it cannot be told."""
        told, noise = stated.column(copy, shown.columns[0]), stated.noise[copy]
        base, pooled = told.get("base"), bool(told.get("pooled"))
        if noise is None or base not in (MARGINAL, UNIFORM):
            return None
        truth, counts = shown.truth, shown.counts.astype(np.float64)
        if pooled:
            pools = [tuple(name for _ in shown.columns) for name in (OTHER, None)]
            known = [shown.values.index(pool) for pool in pools if pool in shown.values]
            if not known:
                return None  # text and other columns together: the pool has no one name
            visible = _visible(shown)
            if int(visible.sum()) != told.get("categories"):
                return None  # values that no copy happens to show are not told from pooled ones
            truth, counts = _pooled(shown, visible, known[0])
        held = counts > 0 if base == UNIFORM else counts
        pi = np.asarray(held / held.sum())
        own = shown.codes[1 + copy]
        if (own[truth != ABSENT] == ABSENT).any():
            return None
        return cls(shown.name, retention(noise), pi, truth, own)

    def retention(self) -> tuple[float, str]:
        """Return the worst score of values that stayed, all together or each, and a note."""
        stay = self.q + (1 - self.q) * self.pi
        expected, spread = (self.n * stay).sum(), (self.n * stay * (1 - stay)).sum()
        off = abs(float(self.kept.sum() - expected))
        overall = off / math.sqrt(max(float(spread) + off / 3, 1e-300))  # Bernstein
        scores = _scores(self.kept, self.n, stay)
        by_chance = float((self.n * self.pi).sum())
        q = (float(self.kept.sum()) - by_chance) / max(float(self.n.sum()) - by_chance, 1e-300)
        note = f"{self.name} keeps {q:.1%} of its values, its noise stands for {self.q:.1%}"
        if overall < scores.max():
            note = f"one value of {self.name} stays oftener or less often than the noise says"
        return max(overall, float(scores.max())), note

    def draws(self) -> tuple[float, str]:
        """Return the worst score of values that came by a draw, and a note."""
        scores = _scores(self.drawn, self.n.sum() - self.n, (1 - self.q) * self.pi)
        note = f"values of {self.name} are not drawn from the distribution that it states"
        if (self.drawn[self.pi == 0] > 0).any():
            note = f"{self.name} shows values that the source does not hold"
        return float(scores.max()), note


def _visible(shown: Shown) -> Flags:
    """Say which values some copy shows."""
    visible = np.zeros(len(shown.values), dtype=bool)
    visible[np.unique(shown.codes[1:][shown.codes[1:] != ABSENT])] = True
    return visible


def _pooled(shown: Shown, visible: Flags, other: int) -> tuple[Any, Floats]:
    """Return truth and counts with all values that no copy shows made one: they were pooled."""
    numbers = np.where(visible, np.arange(len(shown.values)), other)
    counts = np.bincount(numbers, shown.counts, len(shown.values)).astype(np.float64)
    return np.where(shown.truth == ABSENT, ABSENT, numbers[shown.truth]), counts


def _scores(found: Any, n: Any, p: Floats) -> Floats:
    """Return sqrt(2 n KL(found / n, p)) of binomial counts."""
    n = np.asarray(n, dtype=np.float64)
    divergence = _part(found, n * p) + _part(n - found, n * (1 - p))
    return np.asarray(np.sqrt(np.maximum(2 * divergence, 0.0)))


def _part(found: Any, expected: Floats) -> Floats:
    """Return found log(found / expected), 0 for none and infinite for what cannot be."""
    found = np.asarray(found, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = found * np.log(found / expected)
    return np.where(found > 0, terms, 0.0)
