"""Columns that are judged each by itself: their noise is seen only in part.

A clipped cell at a bound shows that the noise W reached at least that far, a rounded one that it
lay within half a step. On the scale of ranks both values are first taken to their normal scores, by
the knots that copies state or else by the quantiles of the source; a value that many rows hold has
a score T that only the owner knows, drawn evenly from the ranks that it spans. Given X, honest
noise is N(0, v S), so what a cell shows lies in its interval I with a known probability, and with U
uniform on (0, 1)

    z = Phi^-1(F(I_low) + U (F(I_high) - F(I_low))),    F(y) = E[ Phi((y - T) / sqrt(v S)) | X ]

is exactly N(0, 1) and unrelated to X. Each such column of each copy is judged by this alone. Where
copies show scores exactly, so is the step from one to the next, N(0, (v' - v) S) whatever T was.
It is not part of what a whole copy hides: neither clipping nor ranks are linear, and the promise
is about estimates that are linear in what was perturbed.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cornerwave.arrays import Floats, normal_shares
from cornerwave.audit._alignment import Aligned
from cornerwave.audit._blocks import AlignedRows
from cornerwave.audit._chance import Check, Family, Ranks, sure_limit, z_limit
from cornerwave.audit._row_checks import normal_fit
from cornerwave.audit._rows import Kept, room_for, within
from cornerwave.audit._sums import means
from cornerwave.columns import (
    SAMPLE,
    Scale,
    knot_scores,
    rank_scale,
    share_ends,
    share_means,
    to_values,
)
from cornerwave.errors import ColumnError
from cornerwave.passes import Adding, Bounded

AT_BOUND = 2.0**-50
"""A value that is closer to a bound, as a share of it, is at the bound."""

RANKS_TRIED = 64
"""Ranks, evenly spread over those that a value spans, that represent all of them."""

EXACT_KNOT = 1e-6
"""A stated knot is the exact average of its rows if it is this close, as a share of their range."""


@dataclass(frozen=True)
class Noise:
    """The noise of a column in a copy, or on the step from one to another, as normals beside X."""

    copies: tuple[int, ...]
    name: str
    X: Floats
    z: Floats


@dataclass(frozen=True)
class ApartSeen(Bounded):
    """What some rows show of the columns apart: rows to look at, more values of the source, and
    their count, sum and sum of squares (3, N) about a shift. Parts add up.
    """

    kept: Kept
    values: Kept
    sums: Floats

    def __add__(self, other: "ApartSeen") -> "ApartSeen":
        return ApartSeen(self.kept + other.kept, self.values + other.values, self.sums + other.sums)


@dataclass(frozen=True)
class ApartPass(Adding[AlignedRows, ApartSeen]):
    """Looks at the columns apart of source and copies."""

    tables: int
    shift: Floats

    def nothing(self) -> ApartSeen:
        """Return what no rows show."""
        columns = len(self.shift)
        return ApartSeen(Kept(room_for(columns, self.tables)), Kept(SAMPLE), np.zeros((3, columns)))

    def of(self, block: AlignedRows, known: ApartSeen) -> ApartSeen:
        """Return what some rows show."""
        away = block.scaled[0] - self.shift[:, None]
        sums = [np.nansum(away**power, axis=1) for power in (1, 2)]
        return ApartSeen(
            known.kept.of(block.start, block.raw),
            known.values.of(block.start, block.raw[:1]),
            np.stack([np.isfinite(away).sum(axis=1), *sums]),
        )


@dataclass(frozen=True)
class ApartEvidence:
    """The columns apart in `kept` rows; of the whole source each one's `deviation` (N,), and the
    rank scale of those on it, with the exact means and ranges of its shares.
    """

    aligned: Aligned
    kept: Kept
    deviation: Floats
    ranked: dict[str, Scale]
    exact: dict[str, Floats]

    @classmethod
    def of(cls, aligned: Aligned) -> "ApartEvidence":
        """Read these columns of source and copies."""
        side = replace(aligned, columns=tuple(aligned.apart))
        seen = side.run(lambda first: ApartPass(len(first.raw), means(first.scaled[0])))
        if aligned.whole is not None:  # scale and size are those of all rows
            every = replace(aligned.whole, columns=tuple(aligned.apart))
            source = every.run(lambda first: ApartPass(1, means(first.scaled[0])), [every.source])
            seen = replace(seen, values=source.values, sums=source.sums)
        count, total, squares = seen.sums
        variance = (squares - total**2 / np.maximum(count, 1)) / np.maximum(count - 1, 1)
        excess = np.diag(side.stated.excess(side.columns)).copy()
        ranked, exact = {}, {}
        for n, name in enumerate(side.columns):
            if side.stated.on_ranks(name):
                values = seen.values.cells[0, n]
                stated = next((a.knots for a in side.stated.each(name) if a.knots), ())
                ranked[name], variance[n] = _by_ranks(values, name, stated)
                known = np.sort(values[~np.isnan(values)])
                if 1 < len(stated) <= len(known):
                    exact[name] = _exact_means(known, len(stated))
                excess[n] *= variance[n] > 0
        deviation = np.sqrt(np.maximum(variance + excess, 0.0))
        return cls(side, seen.kept, deviation, ranked, exact)

    @property
    def noise(self) -> Iterator[Noise]:
        """Each column of each copy, and of each step that is shown exactly, in random order."""
        kept = self.kept.cells
        scaled = np.stack(self.aligned.scaled(list(kept)))
        random = np.random.default_rng([kept.shape[2], len(self.aligned.columns)])
        stated = [noise or 0.0 for noise in self.aligned.stated.noise]
        for n, name in enumerate(self.aligned.columns):
            before: tuple[int, Floats] | None = None
            for i in sorted(range(len(stated)), key=stated.__getitem__):
                present = np.flatnonzero(np.isfinite(kept[[0, 1 + i], n]).all(axis=0))
                rows = random.permutation(present)
                # sqrt(v S) of the column
                size = math.sqrt(stated[i]) * float(self.deviation[n])
                if not size > 0 or not len(rows):
                    continue
                X, shown = scaled[0, n, rows], kept[1 + i, n]
                low, high = self._interval(i, name, shown, self._released(i, n))
                # F at both ends of the interval
                least, most = (self._below(end[rows], X, name, size) for end in (low, high))
                yield Noise((i,), name, X, within(least, most, random))
                if name in self.ranked and not (low < high).any():
                    if before is not None:
                        # sd of the step, sqrt((v' - v) S), whatever the score T was
                        wider = math.sqrt(stated[i] - stated[before[0]]) * float(self.deviation[n])
                        step = (low - before[1])[rows]
                        if wider > 0 and np.isfinite(step).all():
                            yield Noise((before[0], i), name, X, step / wider)
                    before = (i, low)

    def _below(self, ends: Floats, X: Floats, name: str, size: float) -> Floats:
        """Return the probability that X with noise of this size lies below each end."""
        if name not in self.ranked:
            return normal_shares((ends - X) / size)
        scale = self.ranked[name]
        # the scores that the least and the largest rank of a value have
        low, high = (scale.forward(X, name, _all(draw, X)) for draw in (0.0, 1.0))
        below = normal_shares((ends - low) / size)
        tied = np.flatnonzero(high > low)
        # E over T: the mean over ranks at even distances, where a value spans many
        draws = (np.arange(RANKS_TRIED) + 0.5) / RANKS_TRIED
        below[tied] = 0.0
        for draw in draws if len(tied) else ():
            T = scale.forward(X[tied], name, _all(draw, tied))
            below[tied] += normal_shares((ends[tied] - T) / size) / RANKS_TRIED
        return below

    def _released(self, i: int, n: int) -> Floats:
        """Return a column of a copy as it has it: a distance with its base."""
        names = self.aligned.columns
        cells = dict(zip(names, self.kept.cells[1 + i], strict=True))
        return to_values(cells, self.aligned.relative)[names[n]]

    def _interval(
        self, i: int, name: str, shown: Floats, released: Floats
    ) -> tuple[Floats, Floats]:
        """Return where values lay as the noise left them, on the column's scale: before they were
        drawn together, rounded and clipped. `shown` is a distance where another is `released`.
        """
        about = self.aligned.stated.column(i, name)
        half = float(about.rounded or 0.0) / 2
        least, most = about.clipped or (None, None)
        low, high = shown - half, shown + half
        if name in self.ranked:
            low, high = (self.ranked[name].undone(end) for end in (low, high))
        elif name in self.aligned.logarithmic:
            ended = low <= -1  # far down every value becomes -1
            low, high = (np.log1p(np.maximum(end, -1 + 2.0**-53)) for end in (low, high))
            low = np.where(ended, -np.inf, low)
        if about.spread is not None:
            low, high = (about.spread.undone(end) for end in (low, high))
        # the ends of 64-bit numbers are not doubles; one that is cut off at its base is at an end
        if least is not None:
            ended = released <= least + half + AT_BOUND * abs(least)
            low = np.where(ended & ((shown <= 0) | (released is shown)), -np.inf, low)
        if most is not None:
            ended = released >= most - half - AT_BOUND * abs(most)
            high = np.where(ended & ((shown >= 0) | (released is shown)), np.inf, high)
        return low, high


def _by_ranks(values: Floats, name: str, stated: Sequence[float]) -> tuple[Scale, float]:
    """Return the rank scale of a column of the source, and the variance of its scores."""
    known = values[~np.isnan(values)]
    try:
        scale = rank_scale(values, name)
    except ColumnError:  # constant, or too short: it has no scores
        return Scale(), 0.0
    if 1 < len(stated) <= len(known):
        knots = tuple(zip(stated, knot_scores(len(stated)), strict=True))
        scale = Scale("rank", knots, share_ends(known, len(stated)))
    # the variance of scores with ties drawn at 16 even places
    tried = [scale.forward(known, name, _all((k + 0.5) / 16, known)) for k in range(16)]
    return scale, float(np.var(tried))


def _exact_means(ascending: Floats, count: int) -> Floats:
    """Return the means of equal shares, and the distance from the first to the last of each."""
    parts = np.array_split(ascending, count)
    return np.array([share_means(ascending, count), [part[-1] - part[0] for part in parts]])


def _all(draw: float, like: Any) -> Any:
    return lambda column: np.full(len(like), draw)


def apart(evidence: ApartEvidence, alpha: float) -> Iterator[Check]:
    """Compare the noise of columns apart with normals, and its ranks with those of X."""
    scores: dict[tuple[int, ...], list[tuple[float, str]]] = {}
    fits: list[tuple[Noise, Any]] = []
    ranks: list[tuple[Noise, float]] = []
    for noise in evidence.noise:
        fits.append((noise, normal_fit(noise.z, noise.name)))
        ranks.append((noise, max(Ranks.of(noise.X, again=True).scores(Ranks.of(noise.z)))))
    # half of alpha for the distribution, half for the ranks
    normal = sure_limit(alpha / 2 / max(sum(best.comparisons for _, best in fits), 1))
    bound = z_limit(alpha / 2 / max(3 * len(ranks), 1))
    for noise, best in fits:
        note = f"the noise of {noise.name} is not what it states"
        scores.setdefault(noise.copies, []).append((best.value / normal, note))
    for noise, score in ranks:
        note = f"the noise of {noise.name} is not independent of its values"
        scores[noise.copies].append((score / bound, note))
    for copies, all_ in sorted(scores.items()):
        value, note = max(all_)
        # scores are over their limits: shown on the scale of ranks
        yield Check.of(copies, value * bound, bound, note)


def knots(evidence: ApartEvidence, alpha: float) -> Iterator[Check]:
    """Compare the knots that copies state with the averages of the source's rows."""
    every = tuple(range(len(evidence.aligned.copies)))
    for name, exact in evidence.exact.items():
        stated = np.array([value for value, _ in evidence.ranked[name].knots])
        if len(stated) != exact.shape[1]:
            continue
        mean, width = exact
        equal = int(np.count_nonzero((width > 0) & (np.abs(stated - mean) <= EXACT_KNOT * width)))
        note = f"{equal} knots of {name} are exact averages: they give a row to who knows the rest"
        yield Check(every, float(equal), 0.0, not equal, note if equal else "")


APART_FAMILIES: tuple[Family[ApartEvidence], ...] = (
    Family("apart", "noise that clipping or ranks leave open is normal and unrelated to X", apart),
    Family("knots", "knots of ranks are not exact averages of rows", knots, by_chance=False),
)
