"""Does a whole copy hide what it states?

Privacy p promises that the best linear estimate from everything in a copy (numbers, categories,
kept columns, visible gaps) leaves the share p of each column hidden. It is measured as an
adversary would, without the formula that the noise was chosen by: truth is regressed on

    numbers, missing ones at their mean      which cells are missing      kept values
    indicators of the values that categories, and kept columns, show most often

in all folds of the rows but one, and tested in that one, in turn; and once more in all rows, and
tested in the same. What overfit adds to the one error it takes from the other, to first order and
for any law of the errors (Takeuchi 1976); their mean errs, by the next order, to the copy's favour.
With L this squared error of a row and V its squared distance from the mean (summed over the
indicators of a category), the hidden share is

    h = mean L / mean V        error^2 = Var(L - b V) / n / (mean V)^2

Given the source, the mean of V is no chance, and any b is valid: h^2 is best for honest noise.
If rows are a sample, b = h, and twice the variance, since what is stated stems from a sample too.

A table with few rows for its columns cannot fit all of them. Each column is then estimated from
those numbers of the copy, beside its categories, that are closest to it in the source: whatever
some of a copy tells, all of it tells too.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cornerwave.arrays import Flags, Floats
from cornerwave.audit._chance import Check, Family, t_limit
from cornerwave.audit._shown import ABSENT, CategoryCodes
from cornerwave.audit._stated import Stated
from cornerwave.joint import LEAST_ROWS, indicators_each

MOST_ROWS, MOST_CELLS = 1 << 15, 1 << 23
"""So many rows are looked at, at most, and so many cells of what a copy shows in them."""

ROWS_PER_COORDINATE = 2
"""With fewer rows for each coordinate, nothing can be fitted."""

ROWS_PER_CHOSEN = 8
"""If not all can be fitted, so many rows for each coordinate that is chosen."""

FEWEST = 100
"""A column that is present in fewer rows is not measured."""

FOLDS = 8
RIDGE = 1e-9


@dataclass(frozen=True)
class Left:
    """What a whole copy leaves hidden of a column, as a share of its variance.

    `stated` is the share that the copy states, None if it states none; an honest copy falls
    below that by more than `margin` only as often as ALPHA allows.
    """

    column: str
    hidden: float
    error: float
    margin: float
    stated: float | None

    @property
    def short(self) -> bool:
        """Whether less is hidden than stated, beyond chance."""
        return self.stated is not None and self.stated - self.hidden > self.margin


@dataclass(frozen=True)
class Target:
    """A column to be estimated: its numbers or indicators (k, n), NaN where it is missing."""

    name: str
    columns: tuple[str, ...]
    values: Floats
    category: bool

    @cached_property
    def present(self) -> Flags:
        """The rows that hold a value."""
        return np.asarray(~np.isnan(self.values[0]))


@dataclass(frozen=True)
class WholeEvidence:
    """Everything that files show in some rows.

    `numbers` (1 + M, N, n) are on their scales, source first, NaN is missing; `perturbed` says
    which of them are judged and not kept, `categories` are (those judged, those kept).
    `sampled` says that these are not all rows.
    """

    names: Sequence[str]
    numbers: Floats
    perturbed: Flags
    categories: tuple[Sequence[CategoryCodes], Sequence[CategoryCodes]]
    stated: Stated
    sampled: bool

    @classmethod
    def of(
        cls,
        numbers: tuple[Sequence[str], Flags, Floats, int],
        categories: tuple[Sequence[CategoryCodes], Sequence[CategoryCodes], int],
        stated: Stated,
        rows: int,
    ) -> "WholeEvidence":
        """Take the rows that both kinds kept: every so-and-so-many of all rows."""
        names, perturbed, values, number_every = numbers
        judged, bare, category_every = categories
        every = max(number_every, category_every)
        width = 2 * len(names) + 256
        while rows > every * min(MOST_ROWS, max(MOST_CELLS // width, 1)):
            every *= 2
        codes, kept = slice(None, None, every // category_every), len(range(0, rows, every))
        return cls(
            names,
            values[:, :, :: every // number_every] if names else np.empty((len(values), 0, kept)),
            perturbed,
            ([each.of_rows(codes) for each in judged], [each.of_rows(codes) for each in bare]),
            stated,
            sampled=every > 1,
        )

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.numbers.shape[2])

    @property
    def most(self) -> int:
        """How many values of each category get an indicator of their own."""
        kept = int((~self.perturbed).sum()) + sum(map(len, self.categories))
        return indicators_each(self.rows, len(self.names), kept)

    @cached_property
    def targets(self) -> list[Target]:
        """The columns that copies should hide."""
        found = [
            Target(self.names[n], (self.names[n],), self.numbers[0, n : n + 1], category=False)
            for n in np.flatnonzero(self.perturbed).tolist()
        ]
        for each in self.categories[0]:
            shown = _indicators(each.truth, self.most)
            if len(shown):
                values = np.vstack([shown, 1 - shown.sum(axis=0)])
                values[:, each.truth == ABSENT] = np.nan
                found.append(Target(each.name, each.columns, values, category=True))
        return [t for t in found if t.present.sum() >= FEWEST and _varies(t.values[:, t.present])]

    @property
    def unmeasured(self) -> tuple[str, ...]:
        """The columns that copies should hide, but too few rows hold a value, or each of them."""
        wanted = [self.names[n] for n in np.flatnonzero(self.perturbed).tolist()]
        wanted += [each.name for each in self.categories[0]]
        measured = [target.name for target in self.targets]
        return tuple(name for name in wanted if name not in measured)

    def shown(self, i: int, chosen: Any = slice(None)) -> Floats:
        """Return everything that a copy shows, (d, n), on the scale of deviations.

        Of the numbers only those `chosen`.
        """
        numbers, parts = self.numbers[1 + i][chosen], [np.ones((1, self.rows))]
        missing = np.isnan(numbers)
        parts += [numbers, missing[missing.any(axis=1)].astype(np.float64)]
        for row in numbers[~self.perturbed[chosen]]:
            _, codes = np.unique(row, return_inverse=True)
            parts.append(_indicators(codes, self.most))
        for each in (*self.categories[0], *self.categories[1]):
            own = each.codes[1 + i]
            parts += [_indicators(own, self.most), (own == ABSENT)[None].astype(np.float64)]
        return _standard(np.vstack(parts))

    @cached_property
    def left(self) -> tuple[Mapping[str, "_Loss"], ...]:
        """What each copy leaves hidden of each column; nothing if the rows are too few."""
        return tuple(self._left(i) for i in range(len(self.stated.copies)))

    def _left(self, i: int) -> Mapping[str, "_Loss"]:
        if not self.targets:
            return {}
        shown = self.shown(i)
        if self.rows < ROWS_PER_COORDINATE * len(shown):
            return self._left_by_some(i)
        groups: dict[bytes, list[Target]] = {}
        for target in self.targets:
            groups.setdefault(target.present.tobytes(), []).append(target)
        losses = (self._losses(shown, alike) for alike in groups.values())
        return {name: loss for found in losses for name, loss in found.items()}

    def _left_by_some(self, i: int) -> Mapping[str, "_Loss"]:
        """Return what the numbers that tell most about each column leave of it."""
        found: dict[str, _Loss] = {}
        for target in self.targets:
            shown = self.shown(i, self._closest(target))
            if target.present.sum() >= ROWS_PER_COORDINATE * len(shown):
                found |= self._losses(shown, [target])
        return found

    def _closest(self, target: Target) -> Any:
        """Return the numbers that are closest to a column in the source."""
        source, values = (_away(rows) for rows in (self.numbers[0], target.values))
        size = np.sqrt((source**2).sum(axis=1))
        close = np.abs(values @ source.T).max(axis=0) / np.where(size > 0, size, 1.0)
        most = max(self.rows // ROWS_PER_CHOSEN - 1, 0) // 2  # a number, and where it is missing
        return np.sort(np.argsort(-close, kind="stable")[:most])

    def _losses(self, shown: Floats, alike: Sequence[Target]) -> dict[str, "_Loss"]:
        """Return what is left of columns that the same rows have."""
        present = alike[0].present
        squares = _squares(shown[:, present], np.vstack([t.values[:, present] for t in alike]))
        parts = np.split(squares, np.cumsum([len(t.values) for t in alike])[:-1])
        return {
            target.name: _Loss.of(target, own.sum(axis=0), sampled=self.sampled)
            for target, own in zip(alike, parts, strict=True)
        }

    def judge(self, alpha: float) -> tuple[tuple[Left, ...], ...]:
        """Return what each copy leaves hidden beside what it states, column by column."""
        stated = [
            [self.stated.promised(i, target.columns) for target in self.targets]
            for i in range(len(self.left))
        ]
        promises = sum(share is not None for own in stated for share in own)
        each = alpha / max(promises or len(self.left) * len(self.targets), 1)
        return tuple(
            tuple(
                own[target.name].beside(target.name, share, each)
                for target, share in zip(self.targets, shares, strict=True)
                if target.name in own
            )
            for own, shares in zip(self.left, stated, strict=True)
        )


def whole_copy(evidence: WholeEvidence, alpha: float) -> Iterator[Check]:
    """Compare what everything in a copy leaves hidden of each column with what it states."""
    for i, left in enumerate(evidence.judge(alpha)):
        tested = [each for each in left if each.stated is not None]
        if tested:
            worst = max(tested, key=lambda each: ((each.stated or 0) - each.hidden) / each.margin)
            off = max((worst.stated or 0) - worst.hidden, 0.0)
            note = (
                f"{worst.hidden:.3f} of {worst.column} stays hidden from all that it shows, "
                f"and it states {worst.stated:.3f}"
            )
            yield Check.of((i,), off / worst.error, worst.margin / worst.error, note)


WHOLE_FAMILIES: tuple[Family[WholeEvidence], ...] = (
    Family("whole copy", "everything in it leaves hidden what it states", whole_copy),
)


@dataclass(frozen=True)
class _Loss:
    """The hidden share h of a column, its error, and the rows that this rests on."""

    hidden: float
    error: float
    freedom: int
    rows: int
    category: bool
    variance: float

    @classmethod
    def of(cls, target: Target, L: Floats, *, sampled: bool) -> "_Loss":
        values = target.values[:, target.present]
        V = ((values - values.mean(axis=1, keepdims=True)) ** 2).sum(axis=0)
        n, variance = len(L), float(V.mean())
        h = float(L.mean()) / variance
        u = (L - (h if sampled else h * h) * V) / variance
        squares = (u - u.mean()) ** 2
        error = math.sqrt(float(squares.sum()) * (1 + sampled)) / n
        # If few rows have most of the error, it is known no better than from so many rows.
        freedom = float(squares.sum()) ** 2 / max(float((squares**2).sum()), 1e-300)
        return cls(h, error, max(int(freedom), 1), n, target.category, variance)

    def beside(self, name: str, stated: float | None, alpha: float) -> Left:
        """Return it beside what is stated: a change that rows do not show may be a chance."""
        p = self.hidden if stated is None else stated
        error = max(self.error, self._least_error(min(p, 1.0)), 1e-9)
        return Left(name, self.hidden, error, t_limit(2 * alpha, self.freedom) * error, stated)

    def _least_error(self, p: float) -> float:
        """Return the error of honest noise that hides p: (_promise), or of a fair refresh."""
        if self.category:  # of two values with even shares, 2 p (1 - p) / variance
            return math.sqrt(2 * p * (1 - p) / self.rows / self.variance)
        return p * math.sqrt(2 * (1 - p * p) / self.rows)


def _squares(D: Floats, T: Floats) -> Floats:
    """Return the squared errors (k, n) of estimates of T from D, in rows fitted and in others."""
    folds = [slice(f, None, FOLDS) for f in range(FOLDS)]
    inner = [D[:, fold] @ D[:, fold].T for fold in folds]
    cross = [D[:, fold] @ T[:, fold].T for fold in folds]
    G, B = np.sum(inner, axis=0), np.sum(cross, axis=0)
    squares = (T - _weights(G, B) @ D) ** 2
    for fold, own, tells in zip(folds, inner, cross, strict=True):
        squares[:, fold] += (T[:, fold] - _weights(G - own, B - tells) @ D[:, fold]) ** 2
    return np.asarray(squares / 2)


def _weights(G: Floats, B: Floats) -> Floats:
    """Return W (k, d) with W G = B', the constant first; indicators may be collinear."""
    return np.asarray(np.linalg.solve(G + RIDGE * G[0, 0] * np.eye(len(G)), B).T)


def _indicators(codes: Any, most: int) -> Floats:
    """Return the indicators (k, n) of the values that rows show most often."""
    counts = np.bincount(codes[codes != ABSENT])
    frequent = np.argsort(-counts, kind="stable")[:most]
    frequent = frequent[counts[frequent] >= LEAST_ROWS]
    return np.asarray(codes == frequent[:, None], dtype=np.float64)


def _standard(rows: Floats) -> Floats:
    """Return rows (d, n) that vary, centred and of variance 1, missing values at the mean."""
    away = np.vstack([rows[:1], _away(rows[1:])])  # the constant comes first
    size = np.sqrt((away**2).mean(axis=1, keepdims=True))
    vary = size[:, 0] > 0
    return np.asarray(away[vary] / size[vary])


def _away(rows: Floats) -> Floats:
    """Return rows (d, n) as distances from their means, missing values at the mean."""
    missing = np.isnan(rows)
    # first as distances from the least: those of a constant are 0, and its mean may be rounded
    least = np.where(missing, np.inf, rows).min(axis=1, keepdims=True, initial=np.inf)
    above = np.where(missing, 0.0, rows - np.where(np.isinf(least), 0.0, least))
    count = np.maximum((~missing).sum(axis=1, keepdims=True), 1)
    return np.where(missing, 0.0, above - above.sum(axis=1, keepdims=True) / count)


def _varies(values: Floats) -> bool:
    return bool((values.min(axis=1) < values.max(axis=1)).any())
