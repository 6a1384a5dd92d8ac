"""Does a whole copy hide what it states?

Privacy p promises that the best estimate which is linear in what has noise, and arbitrary in what
has no noise (kept columns, a key, visible gaps, the order of the rows), leaves the share p
of each perturbed or refreshed column hidden. The attacks of _attacks measure what is left. With
L the squared error of a row by one of them, and V its squared distance from the mean (both summed
over the coordinates of a category), the hidden share is

    h = mean L / mean V        error^2 = Var(L - b V) / n / (mean V)^2

Given the source, the mean of V is no chance, and any b is valid: h^2 is best for honest noise.
If rows are a sample, b = h, and twice the variance, since what is stated stems from a sample too.
A copy fails if any attack leaves less than TOLERANCE of what is stated, beyond chance.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any
from zlib import crc32

import numpy as np

from cornerwave.arrays import Flags, Floats, Ints
from cornerwave.audit._attacks import Adversary, Revealed, Target, coordinates, most_revealing
from cornerwave.audit._chance import LEAST_AUDITED, Check, Family
from cornerwave.audit._fits import standard
from cornerwave.audit._groupings import rows_alike
from cornerwave.audit._guesses import ABSENT, CategoryCodes
from cornerwave.audit._left import Left, Loss
from cornerwave.audit._noise_free import NoiseFree, follows
from cornerwave.audit._stated import Stated

MOST_WHOLE_ROWS, MOST_WHOLE_CELLS = 1 << 15, 1 << 23
"""So many rows are looked at, at most, and so many cells of what a copy shows in them."""

MOST_NAMED = 5
"""Of so many columns that fall short the message names what reveals them most."""

ORDER_SCORE = 7.0
"""Neighbours in the file count if they predict a row by so much; by chance it has variance 2."""

ROW_ORDER = "the order of the rows"

MOST_SCREENED, SCREENED_COORDINATES = 32, 3
"""Coordinates that parts of columns are screened by, and of one category."""

STRIPS = "rows that are close in"
"""What attacks on strips of a column are called."""

MOST_COORDINATES, ALL_COORDINATES = 24, 512
"""Coordinates of a category, and of all of them, at most; each has at least two."""


@dataclass(frozen=True)
class ShownNumbers:
    """Numbers in every so-and-so-many row, `values` (1 + M, N, n) on their scales, source first;
    `perturbed` are those with noise.
    """

    names: Sequence[str]
    perturbed: Flags
    values: Floats
    every: int


@dataclass(frozen=True)
class ShownCategories:
    """Categories that are judged, and those without noise, in every so-and-so-many row."""

    judged: Sequence[CategoryCodes]
    bare: Sequence[CategoryCodes]
    every: int


@dataclass(frozen=True)
class WholeEvidence:
    """Everything that files show in some rows.

    `numbers` (1 + M, N, n) are on their scales, source first, NaN is missing; `perturbed` is
    which of them are judged and not kept, `categories` are (those judged, those kept).
    `sampled` means that these are not all rows, `ordered` that copies have the order of the source,
    `keys` are columns without noise that no other check looks at, as distinct values and codes,
    `units` those of dates and times.
    `strips` are the rows of a long table that are close to each other in a column; they are in
    `clusters`. Rows count by their `weights`, if there are any.
    """

    names: Sequence[str]
    numbers: Floats
    perturbed: Flags
    categories: tuple[Sequence[CategoryCodes], Sequence[CategoryCodes]]
    stated: Stated
    sampled: bool
    places: Ints = field(repr=False)
    ordered: bool = True
    keys: Mapping[str, tuple[Sequence[Any], Any]] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    strips: Mapping[str, "WholeEvidence"] = field(default_factory=dict)
    clusters: Ints | None = None
    weights: Floats | None = None

    @classmethod
    def of(
        cls,
        numbers: ShownNumbers,
        categories: ShownCategories,
        stated: Stated,
        rows: int,
        *,
        ordered: bool = True,
    ) -> "WholeEvidence":
        """Take the rows that both kinds kept: every so-and-so-many of all rows."""
        every = max(numbers.every, categories.every)
        # cells of a row: numbers and what F reveals of them, coordinates, and what F has
        width = 2 * len(numbers.names) + MOST_COORDINATES * len(categories.judged) + 256
        while rows > every * min(MOST_WHOLE_ROWS, max(MOST_WHOLE_CELLS // width, 1)):
            every *= 2
        places, codes = np.arange(0, rows, every), slice(None, None, every // categories.every)
        values = np.empty((len(numbers.values), 0, len(places)))
        if numbers.names:
            values = numbers.values[:, :, :: every // numbers.every]
        return cls(
            numbers.names,
            values,
            numbers.perturbed,
            (
                [each.of_rows(codes) for each in categories.judged],
                [each.of_rows(codes) for each in categories.bare],
            ),
            stated,
            sampled=every > 1,
            places=places,
            ordered=ordered,
        )

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.numbers.shape[2])

    @property
    def _most(self) -> int:
        """How many coordinates a category has at most."""
        # all categories together have at most ALL_COORDINATES
        return int(np.clip(ALL_COORDINATES // max(len(self.categories[0]), 1), 2, MOST_COORDINATES))

    @cached_property
    def targets(self) -> list[Target]:
        """The columns that copies should hide."""
        targets = [
            Target(self.names[n], (self.names[n],), self.numbers[0, n : n + 1], category=False)
            for n in np.flatnonzero(self.perturbed).tolist()
        ]
        targets += [
            Target(each.name, each.columns, self._coordinates(each, 0), category=True)
            for each in self.categories[0]
        ]
        enough = [target for target in targets if target.present.sum() >= LEAST_AUDITED]
        return [target for target in enough if target.varies]

    def _coordinates(self, each: CategoryCodes, table: int) -> Floats:
        return coordinates(each.codes[table], each.counts, self._most)

    @property
    def unmeasured(self) -> tuple[str, ...]:
        """The columns that copies should hide, but too few rows hold a value, or each of them."""
        wanted = [self.names[n] for n in np.flatnonzero(self.perturbed).tolist()]
        wanted += [each.name for each in self.categories[0]]
        measured = [target.name for target in self.targets]
        return tuple(name for name in wanted if name not in measured)

    def shown_columns(self, i: int) -> dict[str, Floats]:
        """Return what a copy shows with noise: the coordinates (k, n) of each column."""
        numbers = {
            self.names[n]: self.numbers[1 + i, n : n + 1]
            for n in np.flatnonzero(self.perturbed).tolist()
        }
        return {**numbers, **{e.name: self._coordinates(e, 1 + i) for e in self.categories[0]}}

    def taken(self, rows: Ints) -> "WholeEvidence":
        """Return some rows, in this order."""
        judged, kept = ([each.of_rows(rows) for each in part] for part in self.categories)
        return replace(
            self,
            numbers=self.numbers[:, :, rows],
            categories=(judged, kept),
            places=self.places[rows],
            weights=None if self.weights is None else self.weights[rows],
            keys={name: (values, codes[rows]) for name, (values, codes) in self.keys.items()},
        )

    def _adversary(self, i: int) -> Adversary:
        """Return everything that a copy shows."""
        refreshed = self.categories[0]
        many = [each for each in refreshed if (each.counts > 0).sum() > self._most]
        return Adversary(
            self.shown_columns(i),
            tuple(np.array(self.names)[self.perturbed].tolist()),
            {each.name: each.codes[1 + i].astype(np.int64) + 1 for each in many},
            self._revealed(i),
        )

    def _revealed(self, i: int) -> Revealed:
        """Return what a copy shows without noise, and what that reveals; most copies show the
        same.
        """
        gaps = np.isnan(self.numbers[1 + i])
        lost = [each.codes[1 + i] == ABSENT for each in self.categories[0]]
        gaps = np.vstack([gaps[self.perturbed], *lost])
        ordered, alike = self._order(i)
        if (known := (crc32(gaps.tobytes()), ordered, *alike)) not in self._free:
            values = {
                **{e.name: (e.plain_values, e.codes[1 + i]) for e in self.categories[1]},
                **self.keys,
            }
            free = NoiseFree.of(
                self.rows,
                numbers={
                    self.names[n]: self.numbers[1 + i, n]
                    for n in np.flatnonzero(~self.perturbed).tolist()
                },
                values=values,
                orders={ROW_ORDER: self.places} if ordered else {},
                gaps=gaps,
                alike=alike,
            )
            if free:
                free = free.with_parts(self._truths, values=values, units=self.units)
            self._free[known] = Revealed(free)
        return self._free[known]

    @cached_property
    def _truths(self) -> Floats:
        """Columns that parts of what has no noise are screened by, standard, (d, n)."""
        rows = [target.values[:SCREENED_COORDINATES] for target in self.targets]
        return standard(np.vstack([np.empty((0, self.rows)), *rows])[:MOST_SCREENED])

    def _order(self, i: int) -> tuple[bool, dict[str, Ints]]:
        """Whether a row's neighbours in the file reveal anything of it, beyond chance, and rows
        that belong together by their places.
        """
        if i not in self._orders:
            refreshed = [self._coordinates(each, 1 + i) for each in self.categories[0]]
            shown = standard(np.vstack([self.numbers[1 + i][self.perturbed], *refreshed]))
            # the score of neighbours' means has variance 2 by chance: 7 is five deviations
            close = self.ordered and any(follows(row) > ORDER_SCORE for row in shown)
            self._orders[i] = close, rows_alike(shown) if self.ordered else {}
        return self._orders[i]

    @cached_property
    def _orders(self) -> dict[int, tuple[bool, dict[str, Ints]]]:
        return {}

    @cached_property
    def _free(self) -> dict[tuple[Any, ...], Revealed]:
        return {}

    @cached_property
    def left(self) -> tuple[Mapping[str, Mapping[str, "Loss"]], ...]:
        """What each attack on each copy leaves hidden of each column."""
        return tuple(self._left(i) for i in range(len(self.stated.copies)))

    def _left(self, i: int) -> Mapping[str, Mapping[str, "Loss"]]:
        if not self.targets:
            return {}
        by_name = {target.name: target for target in self.targets}
        left = {
            name: {
                attack: Loss.of(
                    by_name[name],
                    L,
                    sampled=self.sampled,
                    clusters=self.clusters,
                    weights=self.weights,
                )
                for attack, L in shares.items()
            }
            for name, shares in self._adversary(i).losses(self.targets).items()
        }
        for column, strip in self.strips.items():
            for name, shares in strip._left(i).items():
                if name in left and "together" in shares:
                    left[name][f"{STRIPS} {column}"] = shares["together"]
        return left

    @property
    def free(self) -> bool:
        """Whether any copy shows something without noise."""
        return any(self._revealed(i).free for i in range(len(self.stated.copies)))

    @property
    def learned(self) -> tuple[Mapping[str, float], ...]:
        """What boosting on everything in each copy leaves of numbers, if a part has no noise."""
        copies = range(len(self.stated.copies) if self.targets else 0)
        return tuple(
            self._adversary(i).learned(self.targets) if self._revealed(i).free else {}
            for i in copies
        )

    def judge(self, alpha: float) -> tuple[tuple[Left, ...], ...]:
        """Return what each copy leaves hidden beside what it states, column by column: from the
        attack that comes closest to breaking the promise.
        """
        if alpha not in self._judged:
            judged = enumerate(self._judge(alpha))
            self._judged[alpha] = tuple(tuple(self._named(i, shares)) for i, shares in judged)
        return self._judged[alpha]

    @cached_property
    def _judged(self) -> dict[float, tuple[tuple[Left, ...], ...]]:
        return {}

    def _named(self, i: int, left: Sequence[Left]) -> Iterator[Left]:
        """Yield what a copy leaves, with what reveals most of the columns that fall short most."""
        short = sorted((each for each in left if each.short), key=lambda each: -each.off)
        named = {each.column for each in short[:MOST_NAMED] if self._revealed(i).free}
        by_name = {target.name: target for target in self.targets}
        for each in left:
            if each.column in named and not each.attack.startswith(STRIPS):
                reveals = most_revealing(self._adversary(i), by_name[each.column])
                yield replace(each, reveals=reveals)
            else:
                yield each

    def _judge(self, alpha: float) -> tuple[tuple[Left, ...], ...]:
        stated = [
            [self.stated.promised(i, target.columns) for target in self.targets]
            for i in range(len(self.left))
        ]
        promises = sum(share is not None for promised in stated for share in promised)
        attacks = max(
            (len(promised) for each in self.left for promised in each.values()), default=1
        )
        # Bonferroni over copies, columns and attacks
        each = alpha / max(promises or len(self.left) * len(self.targets), 1) / attacks
        return tuple(
            tuple(
                _worst(promised[target.name], target.name, share, each)
                for target, share in zip(self.targets, shares, strict=True)
                if target.name in promised
            )
            for promised, shares in zip(self.left, stated, strict=True)
        )


def _worst(attacks: Mapping[str, "Loss"], name: str, stated: float | None, alpha: float) -> Left:
    """Return what the attack leaves that surely leaves least."""
    # the least upper end: an attack with a wide margin does not displace a sure one
    tried = [loss.beside(name, stated, alpha, attack) for attack, loss in attacks.items()]
    return min(tried, key=lambda left: left.hidden + left.margin)


def whole_copy(evidence: WholeEvidence, alpha: float) -> Iterator[Check]:
    """Compare what everything in a copy leaves hidden of each column with what it states."""
    for i, left in enumerate(evidence.judge(alpha)):
        tested = [each for each in left if each.stated is not None]
        if tested:
            worst, *others = sorted(tested, key=lambda each: -each.off)
            note = "; ".join(map(str, [worst, *(each for each in others if each.short)]))
            limit = worst.margin / worst.error
            yield Check.of((i,), max(worst.off, 0.0) * limit, limit, note)


WHOLE_FAMILIES: tuple[Family[WholeEvidence], ...] = (
    Family("whole copy", "everything in it leaves hidden what it states", whole_copy),
)
