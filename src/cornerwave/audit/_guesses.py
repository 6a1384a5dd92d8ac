"""What source and copies show of each category, and what stays hidden of it.

All rows are counted once for the distribution of the truth. The checks and the attack look at
single rows again and again, so only as many rows are kept as fit into a fixed amount of memory: all
of them, or every second, fourth, eighth.

An adversary with one copy who knows pi guesses, if it shows y, that y is the truth with probability
rho(y), and each other value in proportion to pi: the posterior under any refresh. With more copies
they see where these agree with the best one and with each other, in this category and in all
others, and correct rho linearly:

    p  =  rho(y)  +  sum of w ([Y' = Y] - its mean given y)

rho and w are learned from one half of the rows and used in the other, and the reverse. The error of
a guess is its squared distance from the truth (Brier), as a share of 1 - sum of pi^2: the share of
the category's variance that stays hidden. It counts certainty, even if the most likely value stays
the same. These figures inform; whether a set gains is decided by the check of its path.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from cornerwave import sizes
from cornerwave.arrays import Codes, Flags, Floats, Ints
from cornerwave.audit._alignment import Aligned
from cornerwave.audit._blocks import AlignedCategories
from cornerwave.audit._chance import z_limit
from cornerwave.audit._rows import Kept
from cornerwave.columns import MOST_CATEGORIES, Encoded, cases
from cornerwave.passes import Adding, Bounded
from cornerwave.sources import Progress, silent

ABSENT = -1
"""The code of a cell that is missing in the source and in every copy: nothing is hidden there."""


@dataclass(frozen=True)
class CategoryCodes:
    """A category in the kept rows: `codes` (1 + M, rows) of the source and of each copy.

    A code is a position in `values`, whose parts are None if missing. `counts` are in
    how many of all rows the source holds each value, without those that are ABSENT.
    """

    columns: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]
    codes: Codes
    counts: Ints

    @property
    def name(self) -> str:
        """The names of its columns, joined."""
        return "+".join(self.columns)

    @property
    def plain_values(self) -> list[Any]:
        """The values, those of a single column without their brackets."""
        return [value[0] if len(value) == 1 else value for value in self.values]

    @property
    def pi(self) -> Floats:
        """The share of rows of the source that hold each value."""
        return np.asarray(self.counts / max(self.counts.sum(), 1))

    @property
    def variance(self) -> float:
        """The variance of all indicators together: 1 - sum of pi^2."""
        return max(1.0 - float((self.pi**2).sum()), 1e-300)

    @property
    def truth(self) -> Codes:
        """The codes of the source."""
        return np.asarray(self.codes[0])

    @property
    def bare(self) -> bool:
        """Whether every copy shows what the source holds."""
        return bool((self.codes[1:] == self.codes[0]).all())

    @property
    def constant(self) -> bool:
        """Whether the source holds a single value."""
        return bool((self.counts > 0).sum() < 2)

    def of_rows(self, rows: slice | Ints) -> "CategoryCodes":
        """Return the category in some of the kept rows."""
        return replace(self, codes=self.codes[:, rows])


@dataclass(frozen=True)
class Numbering:
    """The values of a category in the order in which they came, and how many rows of the source
    hold each. Too many of them are not kept: a `boundless` column is no category.
    """

    values: tuple[tuple[Any, ...], ...] = ()
    counts: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False)

    @property
    def boundless(self) -> bool:
        """Whether there are more values than a category may have."""
        return len(self.values) > MOST_CATEGORIES

    @classmethod
    def of(cls, tables: Sequence[Sequence[Encoded]]) -> tuple["Numbering", Codes]:
        """Number the values of some rows of source and copies; return the codes (1 + M, rows)."""
        numbers: dict[tuple[Any, ...], int] = {}
        codes = []
        for columns in tables:
            values, rows = cases(columns)
            occur = np.zeros(len(values), dtype=bool)
            occur[rows] = True
            # Only values that occur get a number: an encoding may list others.
            places = [
                numbers.setdefault(case, len(numbers)) if occurs else ABSENT
                for case, occurs in zip(values, occur.tolist(), strict=True)
            ]
            codes.append(np.array(places, dtype=np.int32)[rows])
        counts = np.bincount(codes[0], minlength=len(numbers))
        return cls(tuple(numbers), counts), np.stack(codes)

    def joined(self, other: "Numbering") -> tuple["Numbering", Codes]:
        """Return the values of both, and the number in it of each value of the other."""
        if self.boundless:
            return self, np.full(len(other.values) + 1, ABSENT, dtype=np.int32)
        numbers = {value: k for k, value in enumerate(self.values)}
        places = [numbers.setdefault(value, len(numbers)) for value in other.values]
        counts = np.zeros(len(numbers), dtype=np.int64)
        counts[: len(self.counts)] = self.counts
        counts[places] += other.counts
        return Numbering(tuple(numbers), counts), np.array([*places, ABSENT], dtype=np.int32)


@dataclass(frozen=True)
class CategoriesRead(Bounded):
    """The categories in some rows of source and copies; parts add up.

    `codes` are the kept rows, (1 + M, categories, n), in the numbers of each category's values.
    """

    groups: tuple[tuple[str, ...], ...]
    numberings: tuple[Numbering, ...]
    codes: Kept

    @classmethod
    def of(
        cls, aligned: Aligned, progress: Progress = silent, places: Ints | None = None
    ) -> "CategoriesRead":
        """Read the categories that source and copies share, in all rows or at some places."""
        pass_ = CategoriesPass(aligned.categories, len(aligned.copies))
        return aligned.run_categories(pass_, progress, places)

    def __add__(self, other: "CategoriesRead") -> "CategoriesRead":
        joined = list(map(Numbering.joined, self.numberings, other.numberings))
        return CategoriesRead(
            self.groups,
            tuple(numbering for numbering, _ in joined),
            self.codes + other.codes.mapped([places for _, places in joined]),
        )

    @property
    def rows(self) -> int:
        """How many rows were read."""
        return self.codes.seen

    @property
    def every(self) -> int:
        """The distance of kept rows."""
        return self.codes.every

    @cached_property
    def shown(self) -> list[CategoryCodes]:
        """All categories except those with too many values."""
        pairs = enumerate(zip(self.groups, self.numberings, strict=True))
        return [
            _shown(columns, numbering, self.codes.cells[:, c])
            for c, (columns, numbering) in pairs
            if not numbering.boundless
        ]

    @property
    def kept(self) -> int:
        """How many rows were kept of those categories."""
        return self.codes.count if self.shown else 0

    @property
    def boundless(self) -> list[str]:
        """The names of columns with more values than a category may have."""
        pairs = zip(self.groups, self.numberings, strict=True)
        return ["+".join(columns) for columns, numbering in pairs if numbering.boundless]


def _shown(columns: tuple[str, ...], numbering: Numbering, codes: Codes) -> CategoryCodes:
    incomplete = np.array([None in value for value in numbering.values], dtype=bool)
    codes, counts, missing = codes.copy(), numbering.counts, incomplete[codes]
    # Gaps that every table has in the same rows are not hidden, so they are not judged.
    if (missing == missing[0]).all():
        codes[missing] = ABSENT
        counts = np.where(incomplete, 0, counts)
    return CategoryCodes(columns, numbering.values, codes, counts)


@dataclass(frozen=True)
class CategoriesPass(Adding[AlignedCategories, CategoriesRead]):
    """Numbers the values of categories in all tables, and keeps some rows of their codes."""

    groups: tuple[tuple[str, ...], ...]
    copies: int

    def nothing(self) -> CategoriesRead:
        """Return the categories of no rows."""
        room = max(sizes.KEPT_CODES // ((1 + self.copies) * len(self.groups)), 1)
        return CategoriesRead(self.groups, (Numbering(),) * len(self.groups), Kept(room))

    def of(self, block: AlignedCategories, known: CategoriesRead) -> CategoriesRead:
        """Return the categories of some rows; not of columns known to have too many values."""
        numberings, codes = [], np.full((1 + self.copies, len(self.groups), block.rows), ABSENT)
        codes = codes.astype(np.int32)
        for c, (columns, before) in enumerate(zip(self.groups, known.numberings, strict=True)):
            numbering = Numbering()
            if not before.boundless:
                tables = [[table[name] for name in columns] for table in block.tables]
                numbering, codes[:, c] = Numbering.of(tables)
            numberings.append(numbering)
        return CategoriesRead(
            self.groups, tuple(numberings), known.codes.of(block.start, list(codes))
        )


STEADY = 20.0
"""A value that was seen in few rows counts as if this many more had the mean of all values."""

Members = tuple[int, ...]


@dataclass(frozen=True)
class Guessed:
    """The shares of a category's variance that stay hidden from a set of copies.

    `hidden_alone`: from its best copy; `hidden_together`: from all. The difference, the
    gain, has a confidence interval of half width `margin`.
    """

    columns: tuple[str, ...]
    copies: Members
    best: int
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


def guess_all(categories: Sequence[CategoryCodes], alpha: float) -> Guesses:
    """Guess each category from single copies, from every pair and from all of them."""
    copies = len(categories[0].codes) - 1
    views = [[_View.of(shown, i) for shown in categories] for i in range(copies)]
    singles = np.array([[view.mean(view.error(view.rho())) for view in each] for each in views])
    agreement = [float(np.mean([view.mean(view.right) for view in each])) for each in views]
    sets = [*combinations(range(copies), 2), *([tuple(range(copies))] if copies > 2 else [])]
    margin = z_limit(alpha / max(len(sets) * len(categories), 1))
    guessed: list[Guessed] = []
    for members in sets:
        best = max(members, key=lambda i: agreement[i])
        guessed += _of_set(categories, views[best], members, best, margin)
    return Guesses(tuple(guessed), singles)


@dataclass(frozen=True)
class _View:
    """A category as one copy shows it: the truth x, the shown y, the rows that hold any."""

    x: Any
    y: Any
    held: Flags
    pi: Floats
    variance: float

    @classmethod
    def of(cls, shown: CategoryCodes, copy: int) -> "_View":
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
        """Return flags minus their mean given y in the rows learned from."""
        return np.where(self.held, flags - self._given_y(flags, learn, 0.0), 0.0)

    def _given_y(self, flags: Any, learn: slice, trust: float) -> Floats:
        """Return the mean of flags given y for each row; `trust` rows of the overall mean."""
        y = self.y[learn][self.held[learn]]
        held = flags[learn][self.held[learn]].astype(np.float64)
        # shrunk to the mean of all values by `trust` rows
        rows = np.bincount(y, minlength=len(self.pi)) + trust
        sums = np.bincount(y, held, len(self.pi)) + trust * (held.mean() if len(held) else 0.0)
        return np.asarray((sums / np.maximum(rows, 1e-300))[self.y])

    def error(self, p: Floats) -> Floats:
        """Return the squared distance of each row's guess from its truth, y having p."""
        # |e_x - g|^2 with g_y = p and g_z = (1 - p) pi_z / (1 - pi_y) for z other than y
        pi, rest = self.pi, np.maximum(1.0 - self.pi[self.y], 1e-300)
        others = (float((pi**2).sum()) - pi[self.y] ** 2) / rest**2
        wrong = ~self.right
        off = (1 - p) ** 2 * others + wrong * (1 - 2 * (1 - p) * pi[self.x] / rest)
        return np.asarray(((self.right - p) ** 2 + off) / self.variance)


def _of_set(
    categories: Sequence[CategoryCodes],
    views: Sequence[_View],
    members: Members,
    best: int,
    margin: float,
) -> list[Guessed]:
    others = [i for i in members if i != best]
    flags = [_agreements(shown, best, others) for shown in categories]
    corrections = _across_halves(lambda learn: _corrections(views, flags, learn))
    guessed = []
    for shown, seen, more in zip(categories, views, corrections, strict=True):
        rho = seen.rho()
        alone, together = seen.error(rho), seen.error(np.clip(rho + more, 0.0, 1.0))
        spread = float(((alone - together) * seen.held).std())
        guessed.append(
            Guessed(
                columns=shown.columns,
                copies=members,
                best=best,
                hidden_alone=seen.mean(alone),
                hidden_together=seen.mean(together),
                margin=margin * spread / math.sqrt(max(len(seen.held), 1)),
            )
        )
    return guessed


def _agreements(shown: CategoryCodes, best: int, others: Sequence[int]) -> list[Flags]:
    """Return where each other copy agrees with the best one, and where all others agree."""
    codes = shown.codes[1:]
    flags = [codes[j] == codes[best] for j in others]
    if len(others) > 1:
        flags.append((codes[others] == codes[others[0]]).all(axis=0))
    return flags


def _corrections(views: Sequence[_View], flags: Sequence[Sequence[Flags]], learn: slice) -> Floats:
    """Return what all agreements show of each category, (categories, rows)."""
    # agreements less their mean given y: what remains is news
    r = np.stack(
        [
            view.centred(flag, learn)
            for view, each in zip(views, flags, strict=True)
            for flag in each
        ]
    )
    e = np.stack([view.centred(view.right, learn)[learn] for view in views])
    known = r[:, learn]
    inner = known @ known.T
    # Ridge: features over rows, about what chance alone would fit, so that few rows do not
    # make the guess from many categories worse than that from one copy.
    ridge = len(r) / max(known.shape[1], 1)
    inner[np.diag_indices_from(inner)] = np.diag(inner) * (1 + ridge) + 1e-300
    return np.asarray(np.linalg.solve(inner, known @ e.T).T @ r)


def _across_halves(estimate: Callable[[slice], Floats]) -> Floats:
    """Return estimates for each half of the rows, learned from the other."""
    even, odd = slice(0, None, 2), slice(1, None, 2)
    estimates = estimate(odd).copy()
    estimates[..., odd] = estimate(even)[..., odd]
    return estimates
