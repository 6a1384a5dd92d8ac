"""Privacy of the whole copy: what all of its columns together leave hidden of each.

Let Z hold the perturbed numbers on their scales and the indicators of each category, C its
covariance, S the shape of the noise, q = 1/sqrt(1+v), and F what the copy shows without noise.
Numbers of a copy are X + N(0, v S), an indicator is retained with probability q. Privacy is
measured against the best estimate that is linear in the noisy part and arbitrary in F. With the
copy's numbers multiplied by q, C_c the covariance of Z - E[Z | F] in a cell c of F,

    Cov(Z, copy | c) = q C_c        Cov(copy | c) = q^2 C_c + D_c   (1)
    D_c = blockdiag((1 - q^2) S, ...),  for a category  (1 - q) (q E_c[(z - m)(z - m)'] + B)   (2)

where m and B are mean and covariance of what is drawn for it, which is independent of everything
else. If it is drawn from the table's frequencies and there is one cell, that block is
(1 - q^2) C_kk. The best linear estimate leaves, with weights w_c,

    hidden_j(v) = sum_c w_c [C_c - q^2 C_c (q^2 C_c + D_c)^-1 C_c]_jj / K_jj  <=  1 - R^2_j(F)   (3)

which rises with v: a noisier copy is a better one with more noise on top. For numbers alone it
is v/(1+v) exactly. With one cell and T' D T = (1 - q^2), T' C T = diag(l), it is

    1 - R^2_j - sum over i of q^2 (C T)_ji^2 / (q^2 l_i + 1 - q^2) / K_jj    for all v at once   (4)

What cells take from that is measured at some levels, less what as many cells take by chance.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from cornerwave.arrays import Flags, Floats, Ints
from cornerwave.levels import LATTICE
from cornerwave.privacy._computed import ComputedColumns
from cornerwave.privacy._hidden import MostRevealing
from cornerwave.privacy._joint_sample import (
    NUMBERS,
    VANISHING,
    Coordinate,
    Covariances,
    JointSample,
    pseudo_inverse,
    semidefinite,
    significant,
    with_reach,
)
from cornerwave.privacy._open_columns import OpenColumn, Shown
from cornerwave.privacy._revealed import Residuals, reveal, with_revealing_parts
from cornerwave.privacy._variance_cells import CellCovariances, CellsOfSome, Drawn, variance_cells

CELL_LEVELS, MANY = 24, 96
"""Levels at which cells are looked at, and a third of them if there are so many coordinates."""
SLIGHT = 0.005
"""Less than this share is chance of the sample, where there is something without noise."""
SIMPLER = 0.05
"""A set of columns is named if it reveals so much more, for each, than one of them."""
PARTNERS, CLOSE = 3, 3.0
"""Numbers beside one for which cells are chosen: those that vary with it, by so many errors."""
STEP = 10
"""Even draws are computed at every tenth level, and stated for the ten levels from there."""


@dataclass(frozen=True)
class EvenDraws:
    """A category whose values are drawn evenly: means, draws and deviations of its indicators."""

    pi: Floats
    drawn: Floats
    size: Floats

    def covariance(self, shares: Floats) -> Floats:
        """Return the covariance of indicators whose values have these shares, in their units."""
        scale = np.outer(self.size, self.size)
        return np.asarray((np.diag(shares) - np.outer(shares, shares)) / scale)


@dataclass(frozen=True)
class ByOpenColumns:
    """What each column of F, part of one or set of them reveals of the coordinates.

    `sources` are the columns and gaps of F behind each of them.
    """

    shares: Mapping[Shown, Floats] = field(default_factory=dict)
    sources: Mapping[Shown, tuple[Shown, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, features: Sequence[OpenColumn], revealed: Residuals) -> "ByOpenColumns":
        """Collect them; a set counts if its columns are different ones."""
        shares: dict[Shown, Floats] = {}
        for each, row in zip(features, revealed.alone, strict=True):
            shares[each.shown] = np.maximum(shares.get(each.shown, 0.0), row)
        sources = {each.shown: each.sources for each in features}
        by_name = {each.name: each.sources for each in features}
        for names, row in revealed.together.items():
            members = tuple(source for name in names for source in by_name[name])
            if len(members) == len({*members}):
                shown = Shown.together(names)
                shares[shown], sources[shown] = row, members
        return cls(shares, sources)


@dataclass(frozen=True)
class WholeCopy:
    """C on the correlation scale, with what is known of each of its coordinates.

    `weight` is the variance of each: the share of a category is that of all its indicators.
    `columns` is empty for functions of a category beside its indicators. `left` is what F leaves
    of C, `revealed` the share R^2 of each coordinate, `by_open` who reveals it, `cells` what is
    left in each cell of F, `ways` what is left of some coordinates in cells chosen for them.
    """

    C: Floats
    excess: Floats
    weight: Floats
    columns: tuple[str, ...]
    blocks: tuple[str, ...]
    even: Mapping[str, EvenDraws]
    left: Floats
    revealed: Floats
    by_open: ByOpenColumns = field(default_factory=ByOpenColumns)
    cells: CellCovariances | None = None
    ways: tuple[CellsOfSome, ...] = ()
    computed: ComputedColumns = field(default_factory=ComputedColumns)

    @classmethod
    def of(cls, sample: JointSample) -> "WholeCopy":
        """Measure a sample."""
        Z = np.array([each.values for each in sample.coordinates])
        moments = Covariances.of(Z)
        mean, size = moments.mean, np.sqrt(np.maximum(np.diag(moments.covariance), 0.0))
        vary = np.flatnonzero(size > 0).tolist()
        known = [sample.coordinates[i] for i in vary]
        mean, size = mean[vary], size[vary]
        Z = Z[vary] if len(vary) < len(Z) else Z
        Z -= mean[:, None]  # in place: a wide table's sample is large
        Z /= size[:, None]
        # C as correlations: pairs that have both, without what chance explains, semidefinite
        C = moments.covariance[np.ix_(vary, vary)] / np.outer(size, size)
        C = semidefinite(significant(with_reach(C, known), known, Z.shape[1]))
        numbers = [i for i in vary if sample.coordinates[i].block == NUMBERS]
        computed, E = ComputedColumns.of(sample.computed, Z, known)
        copy = cls(
            C=C,
            excess=sample.excess[np.ix_(numbers, numbers)],
            weight=size**2 * [each.column is not None for each in known],
            columns=tuple(each.column or "" for each in known),
            blocks=tuple(each.block for each in known),
            even=_even_draws(known, mean, size),
            left=C,
            revealed=np.zeros(len(C)),
            computed=computed,
        )
        features = with_revealing_parts(Z, sample.features)
        varies = bool(features) and len(C) > 0
        return copy._given(Z, E, features, sample.rows, known) if varies else copy

    def _given(
        self,
        Z: Floats,
        E: Floats,
        features: Sequence[OpenColumn],
        rows: int | None,
        known: Sequence[Coordinate],
    ) -> "WholeCopy":
        """Return the same for someone who sees F."""
        revealed = reveal(Z, features, rows)
        n = revealed.residuals.shape[1]
        left = significant(Covariances.of(revealed.residuals).covariance, known, n)
        left = with_reach(left, known)
        # Var(Z_j - E[Z_j | F]) = 1 - R^2_j, by the better of the estimates of R^2
        np.fill_diagonal(left, 1 - revealed.shares)
        return replace(
            self,
            # where nothing is revealed, what is left is C itself, measured on all sampled rows
            left=semidefinite(left) if revealed.shares.any() else self.left,
            revealed=revealed.shares,
            by_open=ByOpenColumns.of(features, revealed),
            cells=_cells_of(list(range(len(Z))), Z, revealed, left).cells,
            ways=tuple(self._ways(Z, revealed, left)),
            computed=self.computed.given(E, features, rows, revealed.residuals, known),
        )

    def _ways(self, Z: Floats, revealed: Residuals, left: Floats) -> Iterator[CellsOfSome]:
        """Yield cells for the numbers alone, and for each of them with those that it varies with.

        Cells need rows for each coordinate: fewer coordinates are known in smaller cells.
        """
        numbers = np.flatnonzero(self._numbers)
        if self._is_mixed:
            yield _cells_of(numbers.tolist(), Z, revealed, left)
        size = np.sqrt(np.diag(left)[numbers])
        close = np.abs(left[np.ix_(numbers, numbers)]) / np.maximum(np.outer(size, size), 1e-300)
        close[close < CLOSE / np.sqrt(revealed.residuals.shape[1])] = 0.0
        np.fill_diagonal(close, np.inf)
        for row in close if len(self.C) > 1 else ():
            most = np.argsort(-row, kind="stable")[: 1 + PARTNERS]
            way = _cells_of(numbers[np.sort(most[row[most] > 0])].tolist(), Z, revealed, left)
            if way.cells.differ:
                yield way

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns, each once."""
        return tuple(dict.fromkeys(filter(None, self.columns)))

    @cached_property
    def _block_of(self) -> dict[str, str]:
        """The block of each column."""
        pairs = zip(self.columns, self.blocks, strict=True)
        return {name: block for name, block in pairs if name}

    @property
    def _numbers(self) -> Flags:
        """Which coordinates are numbers."""
        return np.asarray(np.array(self.blocks) == NUMBERS)

    @property
    def _is_mixed(self) -> bool:
        """Whether there are numbers and categories."""
        return 0 < int(self._numbers.sum()) < len(self.C)

    @property
    def categories(self) -> list[str]:
        """The columns that are refreshed from the table's frequencies."""
        return [n for n, block in self._block_of.items() if block not in {NUMBERS, *self.even}]

    def _at(self, column: str) -> Flags:
        """Return which coordinates are those of a column."""
        return np.asarray(np.array(self.columns) == column)

    def hidden(self, noise: Sequence[float] = LATTICE) -> dict[str, Floats]:
        """Return what each perturbed or refreshed column hides at each noise: equation (3)."""
        q2 = 1 / (1 + np.array(noise))
        shares = self._hidden_in_cells(q2)
        # an estimate may leave coordinates out: fewer are known better in each cell
        for way in self._all_ways():
            some = replace(self, ways=())._only(list(way.at))
            for name, in_cells in replace(some, cells=way.cells)._hidden_in_cells(q2).items():
                shares[name] = np.minimum(shares[name], in_cells)
        return shares | self.computed.hidden(q2, shares, self._recovered_from, self._belongs)

    def _belongs(self, source: str) -> Flags:
        """Return which coordinates are those of a column, or of a category as one."""
        return np.asarray(self._at(source) | (np.array(self.blocks) == source))

    def _all_ways(self) -> Iterator[CellsOfSome]:
        """Yield cells of some coordinates, and those that were chosen for all."""
        if self.cells and self._is_mixed:
            numbers = np.flatnonzero(self._numbers).tolist()
            yield CellsOfSome(tuple(numbers), self.cells.only(numbers))
        yield from self.ways

    def _hidden_in_cells(self, q2: Floats) -> dict[str, Floats]:
        """Return what each column hides from estimates in `cells` with all coordinates."""
        if self.even:
            recovered = self._recovered_by_level(q2)
        else:
            recovered = _recovered(self.left, self._shape(), q2)
        recovered = recovered + self._gained_by_cells(q2)
        shares = {}
        for name in self.names:
            at = self._at(name)
            # 1 - (3): what F reveals and what is recovered of the rest, over a column's coordinates
            known = self.weight[at] @ (self.revealed[at][:, None] + recovered[at])
            # what is independent of all others hides exactly 1 - q^2; more is chance of the sample
            most = np.ones_like(q2) if self._block_of[name] in self.even else 1 - q2
            left = np.clip(1 - known / self.weight[at].sum(), 0.0, most)
            slight = (self.cells is not None) & (most - left < SLIGHT)
            shares[name] = np.where(slight, most, left)
        return shares

    # ---- the noise, D ------------------------------------------------------------------------

    def _shape(self) -> Floats:
        """Return S, and C_kk of each category: D / (1 - q^2) if nothing is drawn evenly."""
        blocks = np.array(self.blocks)
        shape = np.where(np.equal.outer(blocks, blocks), self.C, 0.0)
        numbers = np.ix_(blocks == NUMBERS, blocks == NUMBERS)
        shape[numbers] += self.excess
        return shape

    def _indicators(self, block: str) -> tuple[Ints, ...]:
        """Return where the indicators of a category with even draws are in a matrix."""
        pairs = zip(self.blocks, self.columns, strict=True)
        at = [i for i, (name, column) in enumerate(pairs) if name == block and column]
        return np.ix_(at, at)

    def _noise_at(self, q: float) -> Floats:
        """Return D / (1 - q^2) where even draws make it depend on the retention q."""
        D = self._shape()
        for block, each in self.even.items():
            # the copy's indicators have the covariance of their shares; less q^2 C, by (1)
            at, shares = self._indicators(block), q * each.pi + (1 - q) * each.drawn
            D[at] = (each.covariance(shares) - q * q * self.C[at]) / (1 - q * q)
        return D

    def _drawn(self) -> Drawn:
        """Return B and m of equation (2), in standard units."""
        B, m = self._shape(), np.zeros(len(self.C))
        for block, each in self.even.items():
            at = self._indicators(block)
            B[at] = each.covariance(each.drawn)
            m[at[1].ravel()] = (each.drawn - each.pi) / each.size
        return Drawn(B, m, self.blocks)

    def _recovered_by_level(self, q2: Floats) -> Floats:
        """Return what is recovered where D depends on the level: at every STEP-th of them."""
        recovered = np.ones((len(self.C), len(q2))) * np.diag(self.left)[:, None]
        for place in range(min(STEP - 1, len(q2) - 1), len(q2), STEP):
            D = self._noise_at(float(np.sqrt(q2[place])))
            recovered[:, place : place + STEP] = _recovered(self.left, D, q2[place : place + 1])
        return recovered

    def _recovered_from(self, cross: Floats, used: Flags, q2: Floats) -> Floats:
        """Return what some coordinates recover of what has these covariances with all of them.

        As if nothing were drawn evenly: that hides more.
        """
        at = np.ix_(used, used)
        return _recovered(self.left[at], self._shape()[at], q2, cross[:, used])

    def _gained_by_cells(self, q2: Floats) -> Floats:
        """Return what coefficients that depend on the cell recover, interpolated between levels."""
        if self.cells is None:
            return np.zeros((len(self.C), len(q2)))
        number = CELL_LEVELS if len(self.C) < MANY else CELL_LEVELS // 3
        places = np.unique(np.linspace(0, len(q2) - 1, number).round().astype(np.int64))
        drawn = self._drawn()
        gains = np.array([self.cells.gain(q2[at], drawn) for at in places.tolist()])
        return np.array([np.interp(np.arange(len(q2)), places, each) for each in gains.T])

    # ---- who reveals it ----------------------------------------------------------------------

    def ceilings(self) -> dict[str, float]:
        """Return the share of each column that F does not reveal."""
        shares = {name: 1 - share for name, share in self._by_column(self.revealed).items()}
        computed = self.computed.ceilings()
        return shares | {name: min(each, shares.get(name, each)) for name, each in computed.items()}

    def revealed_alone(self, column: str) -> dict[Shown, float]:
        """Return what each column of F reveals of a column."""
        return {by: self._by_column(shares)[column] for by, shares in self.by_open.shares.items()}

    def strongest_open(self) -> dict[str, MostRevealing]:
        """Return which column of F reveals most of each column; several if by much more."""
        shares = {by: self._by_column(row) for by, row in self.by_open.shares.items()}
        if not shares:
            return {}
        weights = {by: 1 - len(of) * SIMPLER for by, of in self.by_open.sources.items()}
        strongest = {}
        for column in self.names:
            scores = {by: row[column] * weights[by] for by, row in shares.items()}
            by = max(scores, key=lambda each: scores[each])
            strongest[column] = MostRevealing(by, round(shares[by][column], 4))
        return strongest

    def _by_column(self, shares: Floats) -> dict[str, float]:
        """Return the mean of shares of coordinates over the coordinates of each column."""
        return {
            name: float(self.weight[at] @ shares[at] / self.weight[at].sum())
            for name in self.names
            if (at := self._at(name)).any()
        }

    @cached_property
    def _between(self) -> Floats:
        """The share of the variance of a column (second axis) that another predicts (first axis).

        Without noise: C_ab C_bb^-1 C_ba. Columns of one block predict nothing of each other (-1):
        one noise hides them together, at no cost.
        """
        belongs = np.equal.outer(np.array(self.columns), np.array(self.names))
        predicted = np.empty((len(self.names), len(self.columns)))
        for place, at in enumerate(belongs.T):
            B = self.C[:, at]
            # diag(C_ab C_bb^-1 C_ba), for the columns b at once
            predicted[place] = ((B @ pseudo_inverse(self.C[np.ix_(at, at)])) * B).sum(axis=1)
        variance = (self.weight * np.diag(self.C)) @ belongs
        shares = np.maximum((predicted * self.weight) @ belongs / variance, 0.0)
        blocks = np.array([self._block_of[name] for name in self.names])
        return np.where(np.equal.outer(blocks, blocks), -1.0, shares)

    def predicted_by(self, name: str) -> dict[str, float]:
        """Return the share of a column's variance that each column of another block predicts."""
        shares = self._between[:, self.names.index(name)].tolist()
        pairs = zip(self.names, shares, strict=True)
        return {other: share for other, share in pairs if share >= 0}

    def strongest_noisy(self) -> dict[str, MostRevealing]:
        """Return for each column which other predicts most of it, of those with another noise."""
        if not self.names:
            return {}
        shares = self._between
        # of columns that predict the same the first: not rounding decides
        most = np.round(shares, 9).argmax(axis=0)
        return {
            name: MostRevealing(Shown(self.names[most[i]]), round(float(shares[most[i], i]), 4))
            for i, name in enumerate(self.names)
            if shares[most[i], i] >= 0
        }

    # ---- if something were changed -----------------------------------------------------------

    def without(self, column: str) -> "WholeCopy":
        """Return the copy if a column were dropped."""
        block = self._block_of[column]
        stay = [
            place
            for place, (name, kind) in enumerate(zip(self.columns, self.blocks, strict=True))
            if name != column and (name or kind != block)
        ]
        return self._only(stay)

    def joined(self, one: str, other: str) -> "WholeCopy | None":
        """Return the copy if two categories were refreshed together; None for others."""
        if not {one, other} <= {*self.categories}:
            return None
        blocks = self._block_of
        renamed = tuple(one if name == other else name for name in self.columns)
        merged = tuple(blocks[one] if b == blocks[other] else b for b in self.blocks)
        return replace(self, columns=renamed, blocks=merged)

    def _only(self, stay: Sequence[int]) -> "WholeCopy":
        """Return the copy of some coordinates."""
        at = np.ix_(stay, stay)
        numbers = [i for i, block in enumerate(self.blocks) if block == NUMBERS]
        keep = [place for place, i in enumerate(numbers) if i in {*stay}]
        blocks = tuple(self.blocks[i] for i in stay)
        return replace(
            self,
            C=self.C[at],
            excess=self.excess[np.ix_(keep, keep)],
            weight=self.weight[stay],
            columns=tuple(self.columns[i] for i in stay),
            blocks=blocks,
            even={name: known for name, known in self.even.items() if name in blocks},
            left=self.left[at],
            revealed=self.revealed[stay],
            cells=self.cells and self.cells.only(stay),
            ways=tuple(way for each in self.ways if (way := each.only(stay)).at),
            computed=self.computed.only(stay, [self.columns[i] for i in stay] + list(blocks)),
        )


def _cells_of(at: Sequence[int], Z: Floats, revealed: Residuals, left: Floats) -> CellsOfSome:
    """Choose cells for some coordinates, and measure them there."""
    left_here = revealed.residuals[at]
    cells = variance_cells(left_here, revealed.bins)
    Z = Z[at, : len(cells)]
    return CellsOfSome(tuple(at), CellCovariances.of(Z, left_here, cells, left[np.ix_(at, at)]))


def _even_draws(known: Sequence[Coordinate], mean: Floats, size: Floats) -> dict[str, EvenDraws]:
    """Return the categories that are drawn evenly."""
    even = {}
    for block in {each.block for each in known if each.drawn is not None}:
        at = [i for i, each in enumerate(known) if each.block == block and each.drawn is not None]
        drawn = np.array([known[i].drawn for i in at], dtype=np.float64)
        even[block] = EvenDraws(mean[at], drawn, size[at])
    return even


def _recovered(left: Floats, D: Floats, q2: Floats, cross: Floats | None = None) -> Floats:
    """Return what is recovered of each coordinate (coordinates, levels): the sum in (4).

    `D` is the noise over 1 - q^2. With `cross`, of what has these covariances with coordinates.
    """
    # T of (4) in two steps: white has W' D W = 1, and turned makes W' C W diagonal
    values, vectors = np.linalg.eigh(D)
    kept = values > VANISHING * values.max(initial=0.0)
    white = vectors[:, kept] / np.sqrt(values[kept])
    spectrum, turned = np.linalg.eigh(white.T @ left @ white)  # T = white turned, l = spectrum
    squares = ((left if cross is None else cross) @ white @ turned) ** 2
    spectrum = np.maximum(spectrum, 0.0)
    return np.asarray(squares @ (q2 / (q2 * spectrum[:, None] + 1 - q2)))
