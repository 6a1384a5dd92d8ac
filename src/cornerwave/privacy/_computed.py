"""What copies leave hidden of columns that they compute from noisy ones, such as a band of an age.

A computed column f has no noise of its own, and a copy has it as a function of its sources: an
estimate may be any function of these. Of what F leaves of f, the sources of a copy reveal at most

    Var E[f(X) | Y] / Var f(X)  <=  q^2 = 1 / (1 + v)

where the noise Y - X has the shape of X: for normal scores and for refreshed categories this is the
maximal correlation (Gebelein), whatever f is. On its own scale a band far out in a tail may
be better known; so what its copy alone reveals of f is measured in simulated copies, and the larger
of both counts. Other columns of the copy add what a linear estimate
of f from all coordinates recovers beyond one from the sources alone, R(all) - R(own). So

    hidden_f(v) = (1 - max(q^2, R^2_f(own copy))) (1 - R^2_f(F)) - max(0, R(all) - R(own))

and it is never more than what is hidden of each source.

A column that is relative to another is such a sum, x = b + d, of which no noise but that of b and d
is known to be shaped like it. What its own sources reveal of it is that of the best linear estimate
from both, on their scales and as copies show them, in simulated copies; what others add counts on
top of that, and q^2 is the least.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cornerwave.arrays import Flags, Floats
from cornerwave.privacy._joint_sample import Computed, Coordinate, Covariances, significant
from cornerwave.privacy._open_columns import OpenColumn
from cornerwave.privacy._revealed import reveal

SLIGHT = 0.005
"""Less than this share is chance of the sample."""
NOISES = (0.03, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0, 30.0)
"""Noises at which copies are simulated; beyond them a number alone reveals next to nothing."""
NEAR = 64
"""Rows next to each other in a simulated copy, whose mean is what the copy reveals."""

SIMULATED = 1 << 15
"""Rows of simulated copies, at least: a share then has a standard error of at most 0.004."""

Back = Callable[[Floats], Floats]
"""From a coordinate with noise, drawn together, to what a copy shows of it."""

Recovered = Callable[[Floats, Flags, Floats], Floats]
"""Given covariances with coordinates, which of these are used, and q^2: what is recovered."""


@dataclass(frozen=True)
class ComputedColumns:
    """Computed coordinates: their column, variance and sources, and their covariance with Z.

    `cross` (computed, coordinates) is that of what F leaves; F reveals `revealed` of each, and the
    number that it follows `alone`, in copies with NOISES. `sums` are those of numbers.
    """

    columns: tuple[str, ...] = ()
    weight: Floats = field(default_factory=lambda: np.empty(0))
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    cross: Floats = field(default_factory=lambda: np.empty((0, 0)))
    revealed: Floats = field(default_factory=lambda: np.empty(0))
    alone: Floats = field(default_factory=lambda: np.empty((0, len(NOISES))))
    sums: Flags = field(default_factory=lambda: np.empty(0, dtype=np.bool_))

    @classmethod
    def of(
        cls, computed: Sequence[Computed], Z: Floats, known: Sequence[Coordinate]
    ) -> "tuple[ComputedColumns, Floats]":
        """Measure them beside standardised coordinates; return them standardised, too."""
        if not computed:
            return cls(), np.empty((0, Z.shape[1]))
        values = np.array([each.values for each in computed])
        size = np.nanstd(values, axis=1)
        vary = np.flatnonzero(size > 0).tolist()
        varying = [computed[i] for i in vary]
        E = (values[vary] - np.nanmean(values[vary], axis=1)[:, None]) / size[vary, None]
        made = cls(
            columns=tuple(each.column for each in varying),
            weight=size[vary] ** 2,
            sources={each.column: each.sources for each in varying},
            cross=_cross(E, Z, [each.column for each in varying], known),
            revealed=np.zeros(len(varying)),
            sums=np.array([each.alone is not None for each in varying]),
            alone=np.array(
                [
                    _alone(row, each.number) if each.alone is None else each.alone
                    for row, each in zip(E, varying, strict=True)
                ]
            ),
        )
        return made, E

    def given(
        self,
        E: Floats,
        features: Sequence[OpenColumn],
        rows: int | None,
        left: Floats,
        known: Sequence[Coordinate],
    ) -> "ComputedColumns":
        """Return the same for someone who sees F, which leaves `left` of the coordinates."""
        if not self.columns:
            return self
        revealed = reveal(E, features, rows)
        cross = _cross(revealed.residuals, left, self.columns, known)
        return replace(self, cross=cross, revealed=revealed.shares)

    def only(self, stay: Sequence[int], names: Sequence[str]) -> "ComputedColumns":
        """Return them if only some coordinates stay, of columns or blocks with these names."""
        here = [
            i
            for i, column in enumerate(self.columns)
            if all(source in names for source in self.sources[column])
        ]
        return ComputedColumns(
            tuple(self.columns[i] for i in here),
            self.weight[here],
            self.sources,
            self.cross[np.ix_(here, stay)],
            self.revealed[here],
            self.alone[here],
            self.sums[here],
        )

    def ceilings(self) -> dict[str, float]:
        """Return the share of each column that F does not reveal."""
        return {name: 1 - float(self._mean(name, self.revealed[:, None])[0]) for name in self.names}

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, each once."""
        return tuple(dict.fromkeys(self.columns))

    def _mean(self, name: str, shares: Floats) -> Floats:
        at = np.array(self.columns) == name
        return np.asarray(self.weight[at] @ shares[at] / self.weight[at].sum())

    def hidden(
        self,
        q2: Floats,
        shares: Mapping[str, Floats],
        recovered: Recovered,
        belongs: Callable[[str], Flags],
    ) -> dict[str, Floats]:
        """Return what is hidden of each column at each level, given that of the coordinates."""
        hidden = {}
        for name in self.names:
            at = np.array(self.columns) == name
            of_source = np.any([belongs(source) for source in self.sources[name]], axis=0)
            # what all coordinates recover beyond those that the column is computed from
            everything = recovered(self.cross[at], np.ones_like(of_source), q2)
            more = everything - recovered(self.cross[at], of_source, q2)
            more[more < SLIGHT] = 0.0
            open_ = self.revealed[at][:, None]
            alone = np.array([np.interp(q2, _Q2, each[::-1]) for each in self.alone[at]])
            # 1 - (1 - R^2(F)) (1 - R^2(source)), and what other columns add
            by_own = open_ + np.maximum(q2, alone) * (1 - open_) + more
            by_sum = open_ + np.maximum(q2 * (1 - open_), alone * (1 - open_) + more)
            known = self.weight[at] @ np.where(self.sums[at][:, None], by_sum, by_own)
            known = known / self.weight[at].sum()
            least = [shares[source] for source in self.sources[name] if source in shares]
            hidden[name] = np.min([np.clip(1 - known, 0.0, 1.0), *least], axis=0)
        return hidden


_Q2 = 1 / (1 + np.array(NOISES[::-1]))


def _alone(values: Floats, number: Floats | None) -> Floats:
    """Return the share of standardised values that copies of a number reveal, at each of NOISES."""
    both = ~np.isnan(values) if number is None else ~(np.isnan(values) | np.isnan(number))
    if number is None or both.sum() < 2 * NEAR:
        return np.zeros(len(NOISES))
    f, x = values[both], number[both]
    white = np.random.default_rng(0).standard_normal(len(x)) * x.std()
    shares = []
    for noise in NOISES:
        ordered = f[np.argsort(x + np.sqrt(noise) * white)]
        groups = ordered[: len(f) // NEAR * NEAR].reshape(-1, NEAR)
        # mean square within groups, without bias for their size, over the variance: 1 - MSW / Var
        shares.append(1 - float(groups.var(axis=1, ddof=1).mean()) / max(float(f.var()), 1e-300))
    return np.clip(shares, 0.0, 1.0)


def sum_alone(values: Floats, parts: Floats, shape: Floats, back: Sequence[Back]) -> Floats:
    """Return the share of values that copies of the numbers that they follow from reveal.

    At each of NOISES: of copies of `parts` (k, n), on their scales, whose noise has a `shape`
    (k, k), and which are shown as `back` takes each of them.
    """
    both = np.isfinite(values) & np.isfinite(parts).all(axis=0)
    count = 3 * len(parts) + 2
    if both.sum() < NEAR * count or not values[both].std() > 0:
        return np.zeros(len(NOISES))
    f, T = values[both] - values[both].mean(), parts[:, both]
    times = max(1, SIMULATED // len(f))  # of few rows the noise of one copy would be chance
    f, T = np.tile(f, times), np.tile(T, times)
    centre = T.mean(axis=1)[:, None]
    size, turned = np.linalg.eigh(shape)
    # noise of covariance S
    white = np.random.default_rng(0).standard_normal(T.shape)
    noisy = (turned * np.sqrt(np.maximum(size, 0.0))) @ white
    shares = []
    for noise in NOISES:
        Y = T + np.sqrt(noise) * noisy
        drawn = centre + (Y - centre) / np.sqrt(1 + noise)
        shown = np.array([each(row) for each, row in zip(back, drawn, strict=True)])
        known = np.vstack([np.ones(len(f)), Y, shown, shown.sum(axis=0)])
        known /= np.maximum(np.abs(known).max(axis=1), 1e-300)[:, None]
        weights = np.linalg.lstsq(known.T, f, rcond=None)[0]
        # 1 - R^2 without the bias of so many coefficients
        left = float(((f - weights @ known) ** 2).sum()) / max(len(f) - count, 1)
        shares.append(1 - left / float(f.var(ddof=1)))
    return np.clip(shares, 0.0, 1.0)


def _cross(E: Floats, Z: Floats, columns: Sequence[str], known: Sequence[Coordinate]) -> Floats:
    """Return the covariances of computed coordinates with others, without chance."""
    both = np.vstack([Z, E])
    computed = [Coordinate(n, f"computed {n}", row) for n, row in zip(columns, E, strict=True)]
    C = significant(Covariances.of(both).covariance, [*known, *computed], both.shape[1])
    return np.asarray(C[len(Z) :, : len(Z)])
