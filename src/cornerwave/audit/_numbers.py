"""Numbers of source and copies: what a pass keeps of them, and what their checks look at.

blocks ── Layout, Expected: what the first one shows ── NumbersPass ──> NumbersFound
       ── completed by what was found, if values are missing ── the same again
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Floats
from cornerwave.audit._alignment import Aligned
from cornerwave.audit._blocks import AlignedRows
from cornerwave.audit._chance import LEAST_AUDITED
from cornerwave.audit._completion import Completion
from cornerwave.audit._repeats import Repeated
from cornerwave.audit._rows import KEPT_SEED, Directions, Kept, KeptRows, room_for
from cornerwave.audit._steps import Expected, NearRows, StepsSeen, Watched
from cornerwave.audit._sums import COARSE, Layout, Statistics, Sums, steps_of, steps_still
from cornerwave.choices import PERTURBED
from cornerwave.errors import SourceError
from cornerwave.passes import Pass
from cornerwave.privacy import RowOrder
from cornerwave.sources import Progress


@dataclass(frozen=True)
class NumbersSeen:
    """What some rows of the numbers show; parts add up. `grids` (M, N) are steps of rounding."""

    sums: Sums
    steps: StepsSeen
    grids: Floats
    kept: Kept
    order: RowOrder

    def __add__(self, other: "NumbersSeen") -> "NumbersSeen":
        return NumbersSeen(
            self.sums + other.sums,
            self.steps + other.steps,
            np.minimum(self.grids, other.grids),  # 0 if any rows lie on no grid
            self.kept + other.kept,
            self.order + other.order,
        )

    def trimmed(self) -> "NumbersSeen":
        """Return the same without runs of rows too many, to be sent."""
        return replace(self, order=self.order.trimmed())


@dataclass(frozen=True)
class NumbersFound:
    """What all rows of the numbers showed in one pass."""

    found: Statistics
    watched: Watched
    repeated: Repeated
    kept: Kept
    order: RowOrder


@dataclass(frozen=True)
class NumbersPass(Pass[AlignedRows, NumbersSeen, NumbersFound]):
    """Looks at the numbers of source and copies; rows are completed by what was found `before`.

    `factors` (M, N) are those by which copies drew numbers together before they were rounded.
    """

    columns: tuple[str, ...]
    layout: Layout
    expected: Expected
    grids: Floats
    factors: Floats
    completion: Completion | None = None
    before: Statistics | None = None

    @classmethod
    def of_first(
        cls,
        aligned: Aligned,
        first: AlignedRows,
        completion: Completion | None = None,
        before: Statistics | None = None,
    ) -> "NumbersPass":
        """Plan the pass by the first rows."""
        # as all rows will be: completed, if they are
        scaled = completion.complete(first.scaled, first.number) if completion else first.scaled
        # rounded numbers lie on no steps on the scale log(1+x)
        factors = np.where(
            [name in aligned.logarithmic for name in aligned.columns], 1.0, aligned.factors
        )
        grids = before.steps if before else steps_of(_as_shown(first, factors)) / factors
        layout, expected = Layout.of(scaled), Expected.of(scaled, grids)
        return cls(aligned.columns, layout, expected, grids, factors, completion, before)

    def nothing(self) -> NumbersSeen:
        """Return what no rows show."""
        room = room_for(len(self.columns), 1 + self.layout.copies)
        return NumbersSeen(
            self.layout.nothing(),
            self.expected.nothing(),
            self.grids,
            Kept(room),
            RowOrder(self.columns),
        )

    def of(self, block: AlignedRows, known: NumbersSeen) -> NumbersSeen:
        """Return what some rows show; those kept, and their order, the first time alone."""
        seen, scaled = self.nothing(), block.scaled
        if self.completion is not None:
            scaled = self.completion.complete(scaled, block.number)
        else:
            source = pa.table(dict(zip(self.columns, block.raw[0], strict=True)))
            seen = replace(
                seen,
                grids=self._still(block),
                kept=known.kept.of(block.start, block.raw),
                order=known.order.of(block.start, source),
            )
        sums, steps, start = seen.sums, known.steps.bounds(), block.start
        # complete rows alone reach the sums of products and the steps
        for stacked, part in self.layout.deals(scaled):
            sums, steps = sums + part, steps + steps.of(stacked, start)
            start += part.rows
        return replace(seen, sums=sums, steps=steps)

    def _still(self, block: AlignedRows) -> Floats:
        """Return the steps that a block agrees with."""
        shown = _as_shown(block, self.factors)
        return steps_still(self.grids * self.factors, shown) / self.factors

    def finish(self, total: NumbersSeen) -> NumbersFound:
        """Return what all rows show together."""
        statistics = total.sums.statistics(self.layout.shift, total.grids)
        if self.before is not None:  # K and the size of the noise are those of what files hold
            held = self.before
            statistics = replace(
                statistics, mean=held.mean, K=held.K, present=held.present, spread=held.spread
            )
        return NumbersFound(
            statistics,
            total.steps.watched(statistics),
            total.steps.repeated(),
            total.kept,
            total.order,
        )


def _as_shown(block: AlignedRows, factors: Floats) -> list[Floats]:
    """Return each copy (N, rows) on the scales where it may be rounded: drawn together as it is."""
    pairs = zip(block.raw[1:], block.scaled[1:], factors[:, :, None] < 1, strict=True)
    return [np.where(apart, raw, scaled) if apart.any() else scaled for raw, scaled, apart in pairs]


@dataclass(frozen=True)
class MomentsPass(Pass[AlignedRows, Sums, tuple[Floats, Floats]]):
    """Returns mean and covariance of the source alone."""

    layout: Layout

    @classmethod
    def of_first(cls, first: AlignedRows) -> "MomentsPass":
        """Plan the pass by the first rows."""
        return cls(Layout.of(first.scaled[:1]))

    def nothing(self) -> Sums:
        """Return the sums of no rows."""
        return self.layout.nothing()

    def of(self, block: AlignedRows, known: Sums) -> Sums:
        """Return the sums of some rows."""
        return sum((sums for _, sums in self.layout.deals(block.scaled[:1])), self.nothing())

    def finish(self, total: Sums) -> tuple[Floats, Floats]:
        """Return mean and covariance."""
        return total.moments(self.layout.shift)


@dataclass(frozen=True)
class NumbersRead:
    """What was read of the numbers that source and copies share: as the files have them, and, if
    values are missing, with rows `completed`.
    """

    aligned: Aligned
    first: NumbersFound
    completion: Completion | None = None
    completed: NumbersFound | None = None

    @classmethod
    def of(cls, aligned: Aligned, progress: Progress) -> "NumbersRead":
        """Read source and copies once; twice if values are missing, to complete what rows miss.

        Raises SourceError if there are too few rows.
        """
        first = aligned.run(lambda rows: NumbersPass.of_first(aligned, rows), progress=progress)
        if aligned.whole is not None:  # noise is shaped like all rows, not like one of each person
            mean, K = aligned.whole.run(MomentsPass.of_first, [aligned.whole.source])
            first = replace(first, found=replace(first.found, mean=mean, K=K))
        if first.found.rows < LEAST_AUDITED and not aligned.categories:
            raise too_few(first.found.rows)
        if first.found.complete == first.found.rows:
            return cls(aligned, first)
        statistics = first.found.with_excess(aligned.stated.excess(aligned.columns))
        # noise does not depend on which cells are missing: rows are completed by its distribution
        completion = Completion.of(statistics, aligned.stated.noise)
        again = aligned.run(
            lambda rows: NumbersPass.of_first(aligned, rows, completion, first.found),
            progress=progress,
        )
        if again.found.complete < LEAST_AUDITED and not aligned.categories:
            raise SourceError(
                f"{again.found.complete:,} rows have a number to compare; "
                f"an audit needs at least {LEAST_AUDITED}"
            )
        return cls(aligned, first, completion, again)

    @property
    def last(self) -> NumbersFound:
        """What all rows showed that could be completed."""
        return self.completed or self.first

    @property
    def kinds(self) -> list[str]:
        """Whether each column is constant, bare in every copy, or perturbed."""
        statistics = self.last.found
        kinds = np.where((statistics.spread > 0).any(axis=0), "perturbed", "bare")
        return [str(kind) for kind in np.where(statistics.variance > 0, kinds, "constant")]

    def of_kind(self, kind: str) -> tuple[str, ...]:
        """Return the names of the columns of one kind."""
        pairs = zip(self.aligned.columns, self.kinds, strict=True)
        return tuple(name for name, each in pairs if each == kind)

    def evidence(self) -> "NumberEvidence | None":
        """Return what was read of the columns that can be judged; None if none can."""
        if self.last.found.complete < LEAST_AUDITED:
            return None
        used = [n for n, kind in enumerate(self.kinds) if kind == "perturbed"]
        used = used or [n for n, kind in enumerate(self.kinds) if kind == "bare" and self._owed(n)]
        aligned = self.aligned
        if not used and not aligned.categories and not aligned.apart:
            raise SourceError(f"all numbers that {aligned.source.name} shares are constant")
        return NumberEvidence(self, tuple(used)) if used else None

    def _owed(self, n: int) -> bool:
        """Whether a column without noise should have some, by metadata or as all there is."""
        aligned = self.aligned
        roles = aligned.stated.roles(aligned.columns[n])
        return PERTURBED in roles or not (aligned.categories or aligned.apart)

    @property
    def unjudged(self) -> Mapping[str, str]:
        """Why each column is left out, if none can be judged."""
        if self.scarce:
            return {name: f"{name}: too few rows have a number" for name in self.aligned.columns}
        why = {"constant": "is constant", "bare": "is the same in every copy and the source"}
        pairs = zip(self.aligned.columns, self.kinds, strict=True)
        return {name: f"{name} {why[kind]}" for name, kind in pairs}

    @property
    def scarce(self) -> bool:
        """Whether too few rows have a number."""
        return self.last.found.complete < LEAST_AUDITED


def too_few(rows: int) -> SourceError:
    """Return the error of a table that is too short."""
    return SourceError(f"the source has {rows:,} rows; an audit needs at least {LEAST_AUDITED}")


@dataclass(frozen=True)
class NumberEvidence:
    """What the checks of numbers look at, of the columns in `used`."""

    read: NumbersRead
    used: tuple[int, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns of numbers that files share."""
        return self.read.aligned.columns

    @property
    def columns(self) -> list[str]:
        """The names of the judged columns."""
        return [self.names[n] for n in self.used]

    @cached_property
    def found(self) -> Statistics:
        """The sums over all rows that could be completed."""
        return self._judged(self.read.last)

    @cached_property
    def attacked(self) -> Statistics:
        """The sums over complete rows, if there are enough of them: recipients have no others."""
        return self._judged(self._attacked)

    @property
    def _attacked(self) -> NumbersFound:
        first = self.read.first
        return self.read.last if first.found.complete < LEAST_AUDITED else first

    def _judged(self, seen: NumbersFound) -> Statistics:
        excess = self.read.aligned.stated.excess(self.columns)
        return seen.found.of_columns(list(self.used)).with_excess(excess)

    @cached_property
    def sample(self) -> Floats:
        """Some of the rows that are attacked, source and copies, (1 + M, N, n)."""
        scaled = self.read.aligned.scaled(list(self.read.first.kept.cells))
        if self._attacked is not self.read.first and self.read.completion is not None:
            scaled = self.read.completion.complete(scaled, KEPT_SEED)
        rows = np.stack(scaled)
        complete = np.isfinite(rows).all(axis=(0, 1))
        return np.asarray(rows[:, list(self.used)][:, :, complete])

    @property
    def complete(self) -> int:
        """How many rows miss no number in the files."""
        return self.read.first.found.complete

    @property
    def watched(self) -> Watched:
        """What single rows showed, of all columns."""
        return self.read.last.watched

    @cached_property
    def repeated(self) -> Repeated:
        """Noise that came twice, or not at all."""
        return self.read.last.repeated.of_columns(list(self.used))

    @cached_property
    def rows(self) -> KeptRows:
        """Some rows, completed."""
        read = self.read
        return KeptRows.of(read.first.kept, self.used, read.aligned.scaled, read.completion)

    @property
    def noise(self) -> Sequence[float | None]:
        """The noise that copies state."""
        return self.read.aligned.stated.noise

    @property
    def privacy(self) -> Sequence[float | None]:
        """The share of each number that copies state to hide."""
        return self.read.aligned.stated.privacy

    @cached_property
    def logarithmic(self) -> tuple[bool, ...]:
        """Which of the judged columns are compared on the scale log(1+x)."""
        return tuple(name in self.read.aligned.logarithmic for name in self.columns)

    @cached_property
    def factors(self) -> Floats:
        """By what copies drew the judged columns together, (M, N)."""
        return np.asarray(self.read.aligned.factors[:, list(self.used)])

    @cached_property
    def origins(self) -> Floats:
        """What the noise left where copies show 0 in the judged columns, (M, N)."""
        return np.asarray(self.read.aligned.origins[:, list(self.used)])

    @cached_property
    def directions(self) -> Directions:
        """The noise of the kept rows in several directions."""
        return Directions(self.found, self.rows, self.logarithmic, self.factors)

    @cached_property
    def near(self) -> NearRows:
        """The rows that were kept for the length of their steps, in the judged columns."""
        return self.watched.near.of_columns(list(self.used))

    def step(self, k: int) -> tuple[int, ...]:
        """Return the copies that step k of the path lies between."""
        return self.directions.order[max(k - 1, 0) : k + 1]

    def names_of(self, k: int) -> list[str]:
        """Return the names of the columns in which step k can be judged."""
        return [self.columns[n] for n in self.directions.columns_of_step(k)]

    @cached_property
    def fine(self) -> list[int]:
        """The copies that are not rounded to steps larger than their noise."""
        statistics = self.found
        size = np.sqrt(np.maximum(statistics.noise, 0.0))[:, None] * np.sqrt(statistics.variance)
        return np.flatnonzero(~(statistics.steps > COARSE * size).any(axis=1)).tolist()

    @cached_property
    def alike(self) -> dict[tuple[int, int], int]:
        """Pairs of copies that agree in most rows, and in how many rows they differ."""
        steps, complete = self.found.steps, self.found.complete
        return {
            pair: complete - rows
            for pair, rows in sorted(self.watched.same.items())
            if rows == complete or not (steps[list(pair)] > 0).any()  # rounding makes equal rows
        }
