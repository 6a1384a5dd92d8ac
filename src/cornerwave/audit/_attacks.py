"""How much of a column one copy reveals, measured by attacks on the files alone.

The promise is about the best estimate that is linear in what a copy shows with noise (N) and
arbitrary in what it shows without (F). No formula of the noise is used: truth T is estimated, and
every estimate is fitted to other rows than it is scored in (_fits).

    linear     T from N and the straight part of F
    cells      the same once more inside cells of F, or for each value of a column of F, shrunk
               towards all: weights may depend on F
    fitted     beside N, what F reveals: boosting, and means of T among rows that show the same
    smoothed   beside N, the copy's own columns smoothed over F: a recipient needs no truth for it
    together   everything, inside cells of F

Without F there is only the first. A category enters by one coordinate for each of its frequent
values, and a few random ones that represent the rest: with r_v = +-1,

    E [sum over v of r_v (1[X = v] - estimate)]^2  =  sum over v of (1[X = v] - estimate)^2

Whatever T is, a category of many values that is shown with noise is encoded once more by the mean
of T among rows that show the same.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cornerwave.arrays import Flags, Floats, Ints
from cornerwave.audit._fits import (
    FOLDS,
    boost,
    encode,
    grow,
    leaves,
    refine,
    ridge,
    split,
    standard,
)
from cornerwave.audit._groupings import CHANCE, share_between
from cornerwave.audit._noise_free import EVERY, GAPS, NoiseFree, moving, nearest

ATTACKS = {
    "linear": "a linear estimate from all that it shows",
    "cells": "linear estimates inside cells of what has no noise",
    "fitted": "what the columns without noise reveal",
    "smoothed": "its own values smoothed over what has no noise",
    "together": "all attacks together",
}
"""The attacks, and how a message names each."""

ALWAYS_BOOSTED, BOOSTED_COORDINATES, WORTH = 32, 6, 0.005
"""So many numbers are boosted. Others, and so many coordinates of a category, its most frequent
values, are boosted if simpler estimates reveal this share of their variance."""

LEARNED_NUMBERS, LEARNED_ROWS, FEWEST_LEARNED = 8, 8192, 800
"""Boosting on everything estimates so many numbers, in so many rows, and not in fewer."""

MOST_MANY, MOST_PRODUCTS, LOCAL_PRODUCTS = 2, 96, 16
"""Columns whose values have weights of their own, products that show whether weights differ from
value to value, and coordinates that they are fitted for."""

CLOSE_NUMBERS = 8
"""What F reveals of so many other numbers, those closest to a column in the copy, is used."""


@dataclass(frozen=True)
class Target:
    """A column to be estimated: its numbers or coordinates (k, n), NaN where it is missing."""

    name: str
    columns: tuple[str, ...]
    values: Floats
    category: bool

    @cached_property
    def present(self) -> Flags:
        """The rows that hold a value."""
        return np.asarray(~np.isnan(self.values[0]))

    @property
    def varies(self) -> bool:
        """Whether the rows that hold a value hold different ones."""
        return bool(np.ptp(self.values[:, self.present], axis=1).any())


class Revealed:
    """What F reveals of each target without any copy: learned from the truth of other rows."""

    def __init__(self, free: NoiseFree) -> None:
        self.free = free
        self._part = split(free.rows)
        self._known: dict[str, Floats] = {}

    def of(self, target: Target) -> Floats:
        """Return estimates (k, n) of a target's coordinates, in all rows."""
        if target.name not in self._known:
            self._known[target.name] = self._estimate(target)
        return self._known[target.name]

    def _estimate(self, target: Target) -> Floats:
        free, part, present = self.free, self._part, target.present
        # rows without a value count as the mean: they are estimated, and never scored
        centre = target.values[:, present].mean(axis=1, keepdims=True)
        T = np.where(present, target.values, centre)
        means = [encode(code, T, part, present) for code in free.groups.values()]
        # one tree for all coordinates: what it reveals decides which of them are boosted too
        grown = grow(free.features, T, present, part)
        estimates = np.array([self._put(t, c, present, [*means, grown]) for c, t in enumerate(T)])
        gained = ((T - centre) ** 2 - (T - estimates) ** 2)[:, present].mean(axis=1)
        # the share of Var(T) that simple estimates reveal, beside WORTH
        worth = gained > WORTH * ((T - centre) ** 2)[:, present].mean(axis=1)
        if not target.category and len(self._known) < ALWAYS_BOOSTED:
            worth[:] = True
        worth &= bool(free.numbers or free.orders or free.codes.keys() - {GAPS})
        codes = list(free.codes.values())
        for c in np.flatnonzero(worth)[:BOOSTED_COORDINATES].tolist():
            boosted = boost(free.features, codes, T[c], present, part)
            # boosting enters beside the others, by a ridge: it may lose to means of small groups
            estimates[c] = self._put(T[c], c, present, [*means, grown], boosted[None])
        return estimates

    def _put(
        self, t: Floats, c: int, present: Flags, means: Sequence[Floats], *more: Floats
    ) -> Floats:
        """Return one estimate (n,) from several: row c of each mean, and more."""
        D = standard(np.vstack([self.free.straight, *(mean[c] for mean in means), *more]))
        estimate = t.copy()
        estimate[present] = ridge(D[:, present], t[None, present], self._part[present])[0]
        return estimate


@dataclass(frozen=True)
class Adversary:
    """Everything that one copy shows: coordinates (k, n) with noise by column, those of `numbers`
    NaN where they are missing, the `codes` of categories of many values, and F.
    """

    shown: Mapping[str, Floats]
    numbers: Sequence[str]
    codes: Mapping[str, Ints]
    revealed: Revealed

    @cached_property
    def part(self) -> Ints:
        """The part that each row is in."""
        return split(self.free.rows)

    @property
    def free(self) -> NoiseFree:
        """What the copy shows without noise."""
        return self.revealed.free

    @cached_property
    def noisy(self) -> Floats:
        """All coordinates that have noise, standard, (d, n)."""
        return standard(np.vstack([np.empty((0, self.free.rows)), *self.shown.values()]))

    def losses(self, targets: Sequence[Target]) -> dict[str, dict[str, Floats]]:
        """Return the squared errors of each attack on each target, in the rows that hold it."""
        # targets that the same rows hold share one solution of the normal equations
        alike: dict[bytes, list[Target]] = {}
        for target in targets:
            alike.setdefault(target.present.tobytes(), []).append(target)
        return {
            target.name: self._attack(target, E, targets)
            for group in alike.values()
            for target, E in zip(group, self._linear(group), strict=True)
        }

    def learned(self, targets: Sequence[Target]) -> dict[str, float]:
        """Return the share that boosting on everything leaves of some numbers. It is not linear in
        the noisy part, so nothing is promised against it.
        """
        left, rows = {}, slice(None, None, -(-self.free.rows // LEARNED_ROWS))
        numbers = np.vstack([self.free.features, self.noisy])[:, rows]
        codes = [code[rows] for code in (*self.free.codes.values(), *self.codes.values())]
        for target in [t for t in targets if not t.category][:LEARNED_NUMBERS]:
            t, present = target.values[0, rows], target.present[rows]
            if present.sum() >= FEWEST_LEARNED and np.ptp(t[present]) > 0:
                t = np.where(present, t, float(t[present].mean()))
                # two parts instead of four: half the time, and each learns from half of the rows
                estimate = boost(numbers, codes, t, present, self.part[rows] % 2)
                left[target.name] = float(np.var((t - estimate)[present]) / np.var(t[present]))
        return left

    def _linear(self, alike: Sequence[Target]) -> list[Floats]:
        """Return linear estimates of targets that the same rows hold."""
        present = alike[0].present
        T = np.vstack([target.values[:, present] for target in alike])
        D = standard(np.vstack([self.noisy, self.free.straight])[:, present])
        ends = np.cumsum([len(target.values) for target in alike])[:-1]
        return list(np.split(ridge(D, T, self.part[present]), ends))

    def _attack(self, target: Target, E: Floats, targets: Sequence[Target]) -> dict[str, Floats]:
        present = target.present
        T, part, N = target.values[:, present], self.part[present], self.noisy[:, present]
        # E[T | y] for categories of many values, which coordinates show only in part
        means = [encode(code[present], T, part) for code in self.codes.values()]
        shown = standard(self.shown[target.name][:, present])

        def fit(*more: Floats) -> Floats:
            return ridge(standard(np.vstack([E, shown, *means, *more])), T, part)

        estimates = {"linear": fit() if means else E}
        if self.free:
            # what F reveals of related numbers helps too: T is linear in their residuals
            close = self._closest(target)
            near = [other for other in targets if other.name in close]
            known = np.vstack([self.revealed.of(each) for each in (target, *near)])[:, present]
            names = (target.name, *(each.name for each in near))
            smooth = np.vstack([self._smoothed(name) for name in names])[:, present]
            straight = self.free.straight[:, present]
            cells = self._cells(target, (T - estimates["linear"]) ** 2)
            many = [way for _, way in self.many(target, T - estimates["linear"])]
            # weights that depend on F: first without, then with what F reveals
            estimates["cells"] = refine(estimates["linear"], N, T, part, cells, many)
            estimates["fitted"] = fit(straight, known)
            estimates["smoothed"] = fit(straight, smooth)
            every = fit(straight, known, smooth)
            estimates["together"] = refine(every, N, T, part, cells, many)
        return {attack: ((T - each) ** 2).sum(axis=0) for attack, each in estimates.items()}

    def _cells(self, target: Target, squares: Floats) -> list[list[Ints]]:
        """Return how F divides the rows that hold a target, for the estimates of each part."""
        present = target.present
        # a tree over squared residuals finds where F leaves more or less of T
        free = np.vstack([self.free.features, self.revealed.of(target)])[:, present]
        grown = leaves(free, squares.sum(axis=0), self.part[present])
        return [[tree, *(code[present] for code in self.free.few.values())] for tree in grown]

    def many(self, target: Target, rest: Floats) -> list[tuple[str, tuple[Ints, Ints]]]:
        """Return the columns of F that weights depend on, value by value, and the coordinates
        whose weights do: their products with the rest differ from value to value beyond chance.
        """
        present = target.present
        N = self.noisy[:, present]
        most = max(MOST_PRODUCTS // max(len(N), 1), 1)
        # if E[rest_k N_j | F] differs from value to value, weights should: products are screened
        widest = np.argsort(-(rest**2).sum(axis=1), kind="stable")[:most]
        products = (rest[widest][:, None] * N).reshape(-1, N.shape[1])[:MOST_PRODUCTS]
        vary = np.ptp(products, axis=1) > 0
        of = np.tile(np.arange(len(N)), len(widest))[: len(products)][vary]
        products = standard(products[vary])
        if not len(products):
            return []
        results = []
        for name, code in self.free.many.items():
            # one F test for each product, so CHANCE is divided by their number
            share, chance = share_between(code[present], products)
            if (chance * len(products) < CHANCE).any():
                order = list(dict.fromkeys(of[np.argsort(-share, kind="stable")].tolist()))
                worth = float(np.maximum(share, 0.0).sum())
                results.append((worth, name, (code[present], np.array(order[:LOCAL_PRODUCTS]))))
        results.sort(key=lambda each: -each[0])
        return [(name, way) for _, name, way in results[:MOST_MANY]]

    def _closest(self, target: Target) -> list[str]:
        """Return the other numbers that are closest to a column in the copy itself."""
        names = [name for name, row in self._standards.items() if name != target.name and row.size]
        shown = standard(self.shown[target.name])
        if not names or not shown.size:
            return []
        # correlations in the copy itself: rows are standard, so inner products
        close = np.abs(np.vstack([self._standards[name] for name in names]) @ shown.T).max(axis=1)
        return [names[k] for k in np.argsort(-close, kind="stable")[:CLOSE_NUMBERS]]

    @cached_property
    def _standards(self) -> dict[str, Floats]:
        return {name: standard(self.shown[name]) for name in self.numbers}

    def _smoothed(self, name: str) -> Floats:
        if name not in self._smooths:
            self._smooths[name] = self.free.smooth(standard(self.shown[name]))
        return self._smooths[name]

    @cached_property
    def _smooths(self) -> dict[str, Floats]:
        return {}


def coordinates(codes: Any, counts: Ints, most: int) -> Floats:
    """Return a category's coordinates (k, n): its frequent values, and random ones of the rest.

    A negative code is missing, NaN. If there are no more than `most` values, each has its own.
    """
    held = np.flatnonzero(counts > 0)
    order = held[np.argsort(-counts[held], kind="stable")]
    # two thirds of the coordinates for frequent values, the rest random signs
    single = len(order) if len(order) <= most else max(2 * most // 3, 1)
    rest = most - single if len(order) > single else 0
    table = np.zeros((single + rest, max(len(counts), int(codes.max(initial=0)) + 1) + 1))
    table[np.arange(single), order[:single]] = 1.0
    if rest:
        random = np.random.default_rng(len(counts))
        signs = random.choice([-1.0, 1.0], size=(rest, len(order) - single))
        # E [sum_v r_v a_v]^2 = sum_v a_v^2, averaged over `rest` draws
        table[single:, order[single:]] = signs / np.sqrt(rest)
    # a code of -1 picks the last entry
    table[:, -1] = np.nan
    return np.asarray(table[:, codes])


FEW_COORDINATES = 4
"""Coordinates of a category that are averaged."""

AT_LEAST, BETTER = 0.98, 0.95
"""A column is named if it leaves at most this share of what the noisy part alone does, and all
together in place of it if they leave at most this share of what it does."""


def most_revealing(adversary: Adversary, target: Target) -> str | None:
    """Return the name of what reveals most, and how; None if nothing does by itself."""
    present, part = target.present, adversary.part[target.present]
    T = target.values[:, present]
    alone = ridge(adversary.noisy[:, present], T, part)
    # squared error from the noisy part alone, which every source is compared with
    before = float(((T - alone) ** 2).sum())
    left = {
        (name, how): float(((T - estimate) ** 2).sum())
        for name, how, estimate in _estimates(adversary, target, alone)
    }
    single = {each: error for each, error in left.items() if each[0] != EVERY}
    best = min(single or left, key=lambda each: left[each], default=None)
    every = min(left, key=lambda each: left[each], default=None)
    if every is None or best is None or left[every] > AT_LEAST * before:
        return None
    # a single source is named unless all together are clearly better
    name, how = best if left[best] <= left[every] / BETTER else every
    return f"{name} ({how})"


def _estimates(
    adversary: Adversary, target: Target, alone: Floats
) -> Iterator[tuple[str, str, Floats]]:
    """Yield a name, a kind and the estimates (k, n) of each source by itself."""
    free, present = adversary.free, target.present
    T, part, N = target.values[:, present], adversary.part[present], adversary.noisy[:, present]
    shown = standard(adversary.shown[target.name])[:FEW_COORDINATES]

    def fit(*more: Floats) -> Floats:
        return ridge(standard(np.vstack([alone, *more])), T, part)

    for name, row in free.numbers.items():
        yield name, "a linear fit", fit(row[None, present])
    for name, code in free.groups.items():
        yield name, "means of rows that share it", fit(encode(code[present], T, part))
    for name, order in free.lines.items():
        means = [mean[present] for row in shown for mean in moving(row, order)]
        yield name, "moving averages in its order", fit(*means)
    for name, near in free.near.items():
        means = [mean[present] for row in shown for mean in nearest(row, near)]
        yield name, "means of nearest neighbours", fit(*means)
    for name, code in free.few.items():
        cells = [[code[present]]] * FOLDS
        yield name, "a fit for each of its values", refine(alone, N, T, part, cells)
    for name, way in adversary.many(target, T - alone):
        cells = [[np.zeros(len(part), dtype=np.int64)]] * FOLDS
        yield name, "a fit for each of its values", refine(alone, N, T, part, cells, [way])
    yield EVERY, "boosting and means", fit(adversary.revealed.of(target)[:, present])
