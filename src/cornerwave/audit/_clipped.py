"""Columns that were clipped: copy minus source is not their noise, but says where it lay.

A cell at a bound says that the noise W reached at least that far, a rounded one that it lay within
half a step. Given X, honest noise is N(0, v S) within that interval I, so with U uniform on (0, 1)

    z = Phi^-1(Phi(I_low) + U (Phi(I_high) - Phi(I_low))),     I in deviations of the noise

is exactly N(0, 1) and unrelated to X. Each clipped column of each copy is judged by this alone.
It is not part of what a whole copy hides: clipping is not linear, and an estimate that is linear in
a clipped column is not linear in the noisy one, which the promise is about.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.audit._alignment import Aligned
from cornerwave.audit._chance import Check, Family, sure_limit, z_limit
from cornerwave.audit._directions import from_within
from cornerwave.audit._kept_rows import RowKeeper
from cornerwave.audit._ranks import Ranks
from cornerwave.audit._row_checks import normal_fit

LAST_BITS = 2.0**-50
"""A value that is closer to a bound, as a share of it, is at the bound."""


@dataclass(frozen=True)
class ClippedEvidence:
    """The clipped columns of some rows, and `deviation` (N,) that of the whole source."""

    aligned: Aligned
    keeper: RowKeeper
    deviation: Floats

    @classmethod
    def of(cls, aligned: Aligned) -> "ClippedEvidence | None":
        """Read the clipped columns of source and copies; None if there are none."""
        if not aligned.clipped:
            return None
        side = replace(aligned, columns=aligned.clipped)
        keeper = RowKeeper(columns=len(side.columns), tables=1 + len(side.copies))
        sums, shift = np.zeros((3, len(side.columns))), None
        for block in side.raw_blocks([side.source, *side.copies]):
            keeper.add(block)
            X = side.scaled(block[:1])[0]
            shift = np.nanmean(np.c_[X, np.zeros(len(X))], axis=1) if shift is None else shift
            away = X - shift[:, None]
            known = np.isfinite(X).sum(axis=1)
            sums += [known, *(np.nansum(away**power, axis=1) for power in (1, 2))]
        count, total, squares = sums
        variance = (squares - total**2 / np.maximum(count, 1)) / np.maximum(count - 1, 1)
        excess = np.diag(side.stated.excess(side.columns))
        return cls(side, keeper, np.sqrt(np.maximum(variance + excess, 0.0)))

    def normals(self) -> Iterator[tuple[int, str, Floats, Floats]]:
        """Yield, for each copy and column, X and the noise as normals, in random order."""
        kept = self.keeper.raw
        scaled = np.stack(self.aligned.scaled(list(kept)))
        random = np.random.default_rng([kept.shape[2], len(self.aligned.columns)])
        for i, noise in enumerate(self.aligned.stated.noise):
            for n, name in enumerate(self.aligned.columns):
                size = math.sqrt(noise or 0.0) * float(self.deviation[n])
                present = np.flatnonzero(np.isfinite(kept[[0, 1 + i], n]).all(axis=0))
                rows = random.permutation(present)
                if size > 0 and len(rows):
                    X = scaled[0, n, rows]
                    low, high = self._interval(i, name, kept[1 + i, n, rows])
                    yield i, name, X, from_within((low - X) / size, (high - X) / size, random)

    def _interval(self, i: int, name: str, shown: Floats) -> tuple[Floats, Floats]:
        """Return where values lay before they were rounded and clipped, on the column's scale."""
        told = self.aligned.stated.column(i, name)
        half = float(told.get("rounded") or 0.0) / 2
        least, most = told.get("clipped") or (None, None)
        low, high = shown - half, shown + half
        if name in self.aligned.logarithmic:
            ended = low <= -1  # far down every value becomes -1
            low, high = (np.log1p(np.maximum(end, -1 + 2.0**-53)) for end in (low, high))
            low = np.where(ended, -np.inf, low)
        # the ends of 64-bit numbers are not doubles
        if least is not None:
            low = np.where(shown <= least + LAST_BITS * abs(least), -np.inf, low)
        if most is not None:
            high = np.where(shown >= most - LAST_BITS * abs(most), np.inf, high)
        return low, high


def clipped(evidence: ClippedEvidence, alpha: float) -> Iterator[Check]:
    """Compare the noise of clipped columns with the normal law, and its ranks with those of X."""
    scores: dict[int, list[tuple[float, str]]] = {}
    fits: list[tuple[int, str, Any]] = []
    ranks: list[tuple[int, str, float]] = []
    for i, name, X, z in evidence.normals():
        fits.append((i, name, normal_fit(z, name)))
        ranks.append((i, name, max(Ranks.of(X, again=True).scores(Ranks.of(z)))))
    law = sure_limit(alpha / 2 / max(sum(found.comparisons for _, _, found in fits), 1))
    bound = z_limit(alpha / 2 / max(3 * len(ranks), 1))
    for i, name, found in fits:
        note = f"the noise of {name} is not what it states"
        scores.setdefault(i, []).append((found.value / law, note))
    for i, name, score in ranks:
        scores[i].append((score / bound, f"the noise of {name} is not independent of its values"))
    for i, own in sorted(scores.items()):
        value, note = max(own)
        yield Check.of((i,), value * bound, bound, note)


CLIPPED_FAMILIES: tuple[Family[ClippedEvidence], ...] = (
    Family("clipped", "noise that clipping left open is normal and unrelated to X", clipped),
)
