"""Privacy of the whole copy: what all of its columns together leave hidden of each.

Let Z hold the perturbed numbers on their scales and the indicators of each category, C its
covariance, S the shape of the noise, q = 1/sqrt(1+v), and F what the copy shows without noise.
Numbers of a copy are X + N(0, v S), an indicator is retained with probability q. Privacy is
measured against the best estimate that is linear in the noisy part and arbitrary in F. With the
copy's numbers multiplied by q, C_c the covariance of Z - E[Z | F] in a cell c of F,

    Cov(Z, copy | c) = q C_c        Cov(copy | c) = q^2 C_c + D_c
    D_c = blockdiag((1 - q^2) S, ...),  for a category  (1 - q) (q E_c[(z - m)(z - m)'] + B)

where m and B are mean and covariance of what is drawn for it, which is independent of everything
else. If it is drawn from its own frequencies and there is one cell, that block is (1 - q^2) C_kk.
The best linear estimate leaves, with weights w_c,

    hidden_j(v) = sum_c w_c [C_c - q^2 C_c (q^2 C_c + D_c)^-1 C_c]_jj / K_jj   <=   1 - R^2_j(F)

which rises with v: a noisier copy is a better one with more noise on top. For numbers alone it
is v/(1+v) exactly. With one cell and T' D T = (1 - q^2), T' C T = diag(l), it is

    1 - R^2_j - sum over i of q^2 (C T)_ji^2 / (q^2 l_i + 1 - q^2) / K_jj         for all v at once.

What cells take from that is measured at some levels, less what as many cells take by chance.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from cornerwave.arrays import Flags, Floats, Ints
from cornerwave.levels import LATTICE, THOUSANDTHS, Level
from cornerwave.privacy._hidden import Hidden, Remedy, all_of, is_gap
from cornerwave.privacy._revealed import LEAVES, OpenColumn, Residuals, reveal, telling

VANISHING = 1e-9
"""Directions with less than this share of the largest variance are rounding: indicators of a
category add up to 1."""
MOST_REMEDIES = 3
CLOSE = 0.5
"""Of two categories one tells at least this share of the other, if it makes sense to join them."""
ROWS_TO_TRUST = 100
CHANCE = 4.0
"""With fewer rows than this for each coordinate, what columns tell of each other is held against
chance."""
NUMBERS = "numbers"
CELL_LEVELS, MANY = 24, 96
"""Levels at which cells are looked at, and a third of them if there are so many coordinates."""
TRIAL_ROWS = 1 << 12
"""Rows on which remedies are tried."""
MUCH_REVEALED = 0.2
"""Remedies are tried for columns of which F reveals more than this."""
BANDS = (3, 5, 10)
SLIGHT = 0.005
"""Less than this share is chance of the sample, where there is something without noise."""
SIMPLER = 0.05
"""A set of columns is named if it reveals so much more, for each, than one of them."""
MOST_REFRESHED = 64
"""A column of F with more values is not tried as a category."""
LEAST_ROWS = 5
"""A value held by fewer rows of the sample shares an indicator."""


@dataclass(frozen=True)
class Coordinate:
    """One coordinate of Z over the sampled rows; NaN is missing.

    `column` names its column, or those refreshed together; coordinates of one `block` get one
    noise: NUMBERS, or a category by its name. `drawn` is the chance of its value in an even draw,
    None for draws from the table's own frequencies. `column` is None for a function of a category
    beside its indicators, what its rare values say of another coordinate; its `reach` is by how
    much chance in the few rows of each value lowers its correlations.
    """

    column: str | None
    block: str
    values: Floats
    drawn: float | None = None
    reach: float = 1.0


@dataclass(frozen=True)
class JointSample:
    """A sample of a table's rows: coordinates that get noise, the numbers first, and F.

    `excess` (N, N) is by how much the shape of the noise exceeds the covariance of the numbers,
    on the scale of their deviations; the table has `rows` rows.
    """

    coordinates: Sequence[Coordinate]
    excess: Floats
    features: Sequence[OpenColumn] = ()
    rows: int | None = None


def measure_hidden(sample: JointSample) -> Hidden:
    """Measure what copies hide of each column, from a sample of the table's rows."""
    system = _System.of(sample)
    found = system.hidden()
    needed = _needed(found)
    bounds = system.revealed_by()
    tellers = {
        name: max(told, bounds.get(name, told), key=lambda each: each[1])
        for name, told in system.tellers().items()
    }
    return Hidden(
        shares={name: tuple(np.round(known[9::10], 4).tolist()) for name, known in found.items()},
        needed=needed,
        tellers={**bounds, **tellers},
        bounds=bounds,
        ceilings=system.ceilings(),
        remedies=(*_open_remedies(sample, system), *_remedies(system, found, needed)),
    )


def hidden_at(sample: JointSample, level: Level) -> dict[str, float]:
    """Return what copies at one level hide of each column, from a sample of rows."""
    found = _System.of(sample).hidden([level.noise])
    return {name: float(share) for name, [share] in found.items()}


def close_pairs(sample: JointSample) -> list[tuple[str, str]]:
    """Return pairs of categories to refresh as one, the closest first.

    One of them tells at least CLOSE of the other, and joining them takes no more noise.
    """
    system, half = _System.of(sample), THOUSANDTHS // 2
    apart = _needed(system.hidden())[half - 1] or THOUSANDTHS
    told = {name: system.told_by(name) for name in system.categories}
    shares = {
        (one, other): max(told[one][other], told[other][one])
        for one, other in combinations(system.categories, 2)
    }
    found = []
    for pair in sorted(shares, key=lambda pair: -shares[pair]):
        joined = system.joined(*pair) if shares[pair] >= CLOSE else None
        if joined is not None and (_needed(joined.hidden())[half - 1] or THOUSANDTHS) <= apart:
            found.append(pair)
    return found


def _needed(found: Mapping[str, Floats]) -> tuple[int, ...]:
    """Return the least level that hides 1, 2, ... 999 thousandths of every column."""
    nothing = np.array(LATTICE) / (1 + np.array(LATTICE))  # where no column varies
    least = np.maximum.accumulate(np.min([nothing, *found.values()], axis=0))
    wanted = np.arange(1, THOUSANDTHS) / THOUSANDTHS
    places = np.searchsorted(least, wanted - 1e-12)
    return tuple(np.where(places < len(least), places + 1, 0).tolist())


def _remedies(
    system: "_System", found: Mapping[str, Floats], needed: Sequence[int]
) -> Iterator[Remedy]:
    """Yield what would lower the noise for half of every column, if it is raised at all."""
    half = THOUSANDTHS // 2
    if needed[half - 1] == half or system.even or not system.categories:
        return
    worst = min(found, key=lambda name: found[name][half])
    shares = system.told_by(worst)
    for teller in sorted(shares, key=lambda name: -shares[name])[:MOST_REMEDIES]:
        changes = {"drop": system.without(teller), "together": system.joined(worst, teller)}
        for action, changed in changes.items():
            if changed is not None:
                columns = (teller,) if action == "drop" else (worst, teller)
                yield _remedy(action, columns, changed)


def _remedy(action: str, columns: tuple[str, ...], changed: "_System") -> Remedy:
    """Return what a change brings, measured."""
    needed = _needed(changed.hidden())
    half = needed[THOUSANDTHS // 2 - 1]
    highest = max((p for p, level in enumerate(needed, 1) if level), default=0) / THOUSANDTHS
    return Remedy(action, columns, LATTICE[half - 1] if half else None, highest)


def _open_remedies(sample: JointSample, system: "_System") -> Iterator[Remedy]:
    """Yield what can be done about the columns of F that reveal most of a column, best first.

    Each is tried on the first rows of the sample, and measured as the whole is.
    """
    worst = min(system.ceilings().items(), key=lambda each: each[1], default=("", 1.0))
    if worst[1] > 1 - MUCH_REVEALED:
        return
    alone = system.revealed_alone(worst[0])
    trial = _first(sample, TRIAL_ROWS)
    by_share = sorted(alone, key=lambda name: -alone[name])
    names = dict.fromkeys(column for name in by_share for column in system.sources[name])
    found = [
        _remedy(action, (name,), _System.of(changed))
        for name in list(names)[:MOST_REMEDIES]
        for action, changed in _changed(trial, name)
    ]
    yield from sorted(found, key=lambda each: -each.highest)[:MOST_REMEDIES]


def _first(sample: JointSample, rows: int) -> JointSample:
    return JointSample(
        [replace(each, values=each.values[:rows]) for each in sample.coordinates],
        sample.excess,
        [each.first(rows) for each in sample.features],
        sample.rows,
    )


def _changed(sample: JointSample, name: str) -> Iterator[tuple[str, JointSample]]:
    """Yield the sample with a column of F dropped, in bands, or refreshed as a category."""
    [feature] = [each for each in sample.features if each.name == name]
    others = [each for each in sample.features if name not in each.columns]
    yield "drop", replace(sample, features=others)
    if is_gap(name) or feature.values == len(feature.codes):  # a key is an identifier
        return
    if feature.numbers is not None:
        for bands in BANDS:
            if feature.values > bands:
                coarse = OpenColumn(name, feature.banded(bands))
                yield f"{bands} bands", replace(sample, features=[*others, coarse])
    if feature.values <= MOST_REFRESHED:
        own = indicators(name, name, feature.codes, np.zeros(len(feature.codes), dtype=bool))
        yield "refresh", replace(sample, coordinates=[*sample.coordinates, *own], features=others)


@dataclass(frozen=True)
class _System:
    """C on the correlation scale, with what is known of each of its coordinates.

    `weight` is the variance of each: the share of a category is that of all its indicators.
    `left` is what F leaves of C, `shares` what it reveals of each coordinate; `cells` are what it
    leaves in each cell, with its weight, `halves` in the two halves of the rows whose cells they
    are, and `chance` in cells drawn by chance; `rows` is how many rows these are measured on.
    `alone` is what each column of F, part of one or set of them reveals, `sources` the columns.
    """

    C: Floats
    excess: Floats
    weight: Floats
    columns: tuple[str, ...]
    blocks: tuple[str, ...]
    even: Mapping[str, tuple[Floats, Floats, Floats]]
    left: Floats
    shares: Floats
    alone: Mapping[str, Floats] = field(default_factory=dict)
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    halves: "tuple[_Cell, ...]" = ()
    cells: "tuple[_Cell, ...]" = ()
    chance: "tuple[_Cell, ...]" = ()
    rows: int = 0

    @classmethod
    def of(cls, sample: JointSample) -> "_System":
        """Measure a sample."""
        Z = np.array([each.values for each in sample.coordinates])
        mean, covariance = _pairwise(Z)
        size = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        vary = np.flatnonzero(size > 0).tolist()
        Z = (Z[vary] - mean[vary, None]) / size[vary, None]
        known = [sample.coordinates[i] for i in vary]
        C = _reaching(_correlation(covariance, size, vary), known)
        even: dict[str, tuple[Floats, Floats, Floats]] = {}
        for block in {each.block for each in known if each.drawn is not None}:
            own = [
                i
                for i in vary
                if (c := sample.coordinates[i]).block == block and c.drawn is not None
            ]
            drawn = np.array([sample.coordinates[i].drawn for i in own], dtype=np.float64)
            even[block] = (mean[own], drawn, size[own])
        numbers = [i for i in vary if sample.coordinates[i].block == NUMBERS]
        C = semidefinite(_significant(C, known, Z.shape[1]))
        system = cls(
            C=C,
            excess=sample.excess[np.ix_(numbers, numbers)],
            weight=size[vary] ** 2 * [each.column is not None for each in known],
            columns=tuple(each.column or "" for each in known),
            blocks=tuple(each.block for each in known),
            even=even,
            left=C,
            shares=np.zeros(len(C)),
        )
        features = telling(Z, sample.features)
        varies = bool(features) and len(C) > 0
        return system.given(Z, features, sample.rows, known) if varies else system

    def given(
        self,
        Z: Floats,
        features: Sequence[OpenColumn],
        rows: int | None,
        known: Sequence[Coordinate],
    ) -> "_System":
        """Return the system for somebody who sees F."""
        found = reveal(Z, features, rows)
        n = found.residuals.shape[1]
        left = _significant(_pairwise(found.residuals)[1], known, n)
        left = _reaching(left, known)
        np.fill_diagonal(left, 1 - found.shares)
        return replace(
            self,
            # where nothing is revealed, what is left is C itself, measured on all sampled rows
            left=semidefinite(left) if found.shares.any() else self.left,
            shares=found.shares,
            alone=_named(features, found),
            sources=_sources(features, found),
            halves=_in_cells(Z[:, :n], found, found.cells // LEAVES, left),
            cells=_in_cells(Z[:, :n], found, found.cells, left),
            chance=_in_cells(Z[:, :n], found, _shuffled(found.cells), left),
            rows=n,
        )

    def hidden(self, noise: Sequence[float] = LATTICE) -> dict[str, Floats]:
        """Return what each perturbed or refreshed column hides at each level of the lattice.

        Or at one level alone.
        """
        q2 = 1 / (1 + np.array(noise))
        if self.even:
            recovered = self._by_level(q2)
        else:
            recovered = _recovered(self.left, self._noise_blocks(), q2)
        recovered = recovered + self._by_cells(q2)
        names = np.array(self.columns)
        shares = {}
        for name in dict.fromkeys(filter(None, self.columns)):
            own = names == name
            tells = self.weight[own] @ (self.shares[own][:, None] + recovered[own])
            # what is independent of all others hides exactly 1 - q^2; more is chance of the sample
            block = self.blocks[int(np.flatnonzero(own)[0])]
            most = np.ones_like(q2) if block in self.even else 1 - q2
            left = np.clip(1 - tells / self.weight[own].sum(), 0.0, most)
            slight = bool(self.cells) & (most - left < SLIGHT)
            shares[name] = np.where(slight, most, left)
        # an estimate may leave categories out: fewer coordinates are known better in each cell
        numbers = np.flatnonzero(np.array(self.blocks) == NUMBERS).tolist()
        if self.cells and 0 < len(numbers) < len(self.C):
            alone = self._only(numbers).hidden(noise)
            shares |= {name: np.minimum(shares[name], own) for name, own in alone.items()}
        return shares

    def ceilings(self) -> dict[str, float]:
        """Return the share of each column that F does not reveal."""
        return {name: 1 - share for name, share in self._by_column(self.shares).items()}

    def revealed_alone(self, column: str) -> dict[str, float]:
        """Return what each column of F reveals of a column."""
        return {name: self._by_column(row)[column] for name, row in self.alone.items()}

    def revealed_by(self) -> dict[str, tuple[str, float]]:
        """Return which column of F reveals most of each column, and what share."""
        found = {name: self._by_column(row) for name, row in self.alone.items()}
        if not found:
            return {}
        most = {c: self._best_name(found, c) for c in filter(None, self.columns)}
        return {column: (name, round(found[name][column], 4)) for column, name in most.items()}

    def _best_name(self, found: Mapping[str, Mapping[str, float]], column: str) -> str:
        """Return what reveals most of a column: a set of columns if it reveals much more."""
        weights = {name: 1 - len(of) * SIMPLER for name, of in self.sources.items()}
        return max(found, key=lambda name: found[name][column] * weights[name])

    def _by_column(self, shares: Floats) -> dict[str, float]:
        """Return the mean of shares of coordinates over the coordinates of each column."""
        names = np.array(self.columns)
        return {
            name: float(self.weight[own] @ shares[own] / self.weight[own].sum())
            for name in dict.fromkeys(filter(None, self.columns))
            if (own := names == name).any()
        }

    def _noise_blocks(self, q: float | None = None) -> Floats:
        """Return D / (1 - q^2): the noise that each block gets, at retention q where it matters."""
        D, blocks = np.zeros_like(self.C), np.array(self.blocks)
        for block in dict.fromkeys(self.blocks):
            at = np.ix_(blocks == block, blocks == block)
            own = self.C[at]
            D[at] = own + self.excess if block == NUMBERS else own
            if q is not None and block in self.even:
                D[self._drawn(block)] = self._mixed(block, q)
        return D

    def _drawn(self, block: str) -> tuple[Ints, Ints]:
        """Return where the indicators of a category with even draws are in a matrix."""
        pairs = zip(self.blocks, self.columns, strict=True)
        own = [i for i, (name, column) in enumerate(pairs) if name == block and column]
        rows, columns = np.ix_(own, own)
        return np.asarray(rows), np.asarray(columns)

    def _mixed(self, block: str, q: float) -> Floats:
        """Return the noise of indicators with even draws, over 1 - q^2."""
        pi, drawn, size = self.even[block]
        mixed = q * pi + (1 - q) * drawn
        law = (np.diag(mixed) - np.outer(mixed, mixed)) / np.outer(size, size)
        return np.asarray((law - q * q * self.C[self._drawn(block)]) / (1 - q * q))

    def _by_cells(self, q2: Floats) -> Floats:
        """Return what coefficients that depend on the cell recover in addition, beyond chance.

        Looked at some levels, and drawn straight between them.
        """
        if not self.cells:
            return np.zeros((len(self.C), len(q2)))
        number = CELL_LEVELS if len(self.C) < MANY else CELL_LEVELS // 3
        places = np.unique(np.linspace(0, len(q2) - 1, number).round().astype(np.int64))
        base, none = self._base_laws()
        gains = []
        for at in places.tolist():
            together, apart, by_chance = (
                self._left_by(each, q2[at], base, none)
                for each in (self.halves, self.cells, self.chance)
            )
            # d coefficients in each of k cells of n rows seem to recover d k / n of what is left
            most = together * min(1.0, len(self.C) * len(self.cells) / self.rows)
            chance = np.minimum(np.maximum(together - by_chance, 0.0), most)
            gains.append(np.maximum(together - apart - chance, 0.0))
        at = np.arange(len(q2))
        return np.array([np.interp(at, places, each) for each in np.array(gains).T])

    def _base_laws(self) -> tuple[Floats, Floats]:
        """Return B and m: covariance and mean of what is drawn, in standard units."""
        B, m, blocks = np.zeros_like(self.C), np.zeros(len(self.C)), np.array(self.blocks)
        for block in dict.fromkeys(self.blocks):
            at = np.ix_(blocks == block, blocks == block)
            B[at] = self.C[at] + self.excess if block == NUMBERS else self.C[at]
            if block in self.even:
                pi, drawn, size = self.even[block]
                at = self._drawn(block)
                B[at] = (np.diag(drawn) - np.outer(drawn, drawn)) / np.outer(size, size)
                m[at[1].ravel()] = (drawn - pi) / size
        return B, m

    def _left_by(self, cells: "Sequence[_Cell]", q2: float, B: Floats, m: Floats) -> Floats:
        """Return what is left of each coordinate by the best linear estimate in each cell."""
        q, left = float(np.sqrt(q2)), np.zeros(len(B))
        blocks = np.array(self.blocks)
        numbers, same = blocks == NUMBERS, np.equal.outer(blocks, blocks)
        for cell in cells:
            away = cell.mean - m
            moments = cell.inside + np.outer(away, away)  # E_c[(z - m)(z - m)']
            D = np.where(same, (1 - q) * (q * moments + B), 0.0)
            D[np.ix_(numbers, numbers)] = (1 - q2) * B[np.ix_(numbers, numbers)]
            D[np.diag_indices_from(D)] += VANISHING
            left += cell.weight * np.min([_left_of(C, D, q2) for C in cell.covariances], axis=0)
        return left

    def _by_level(self, q2: Floats) -> Floats:
        """Return what is recovered where even draws make D depend on the level: by hundredths."""
        recovered = np.ones((len(self.C), len(q2))) * np.diag(self.left)[:, None]
        for place in range(min(9, len(q2) - 1), len(q2), 10):
            D = self._noise_blocks(q=float(np.sqrt(q2[place])))
            recovered[:, place : place + 10] = _recovered(self.left, D, q2[place : place + 1])
        return recovered

    @property
    def categories(self) -> list[str]:
        """The columns that are refreshed from their own frequencies."""
        return [name for name, block in self._columns.items() if block not in {NUMBERS, *self.even}]

    @property
    def _columns(self) -> dict[str, str]:
        """The block of each column."""
        pairs = zip(self.columns, self.blocks, strict=True)
        return {name: block for name, block in pairs if name}

    @cached_property
    def _told(self) -> tuple[list[str], Floats]:
        """The columns, and the share of the variance of one (second axis) that another tells.

        Without noise. Columns of one block tell nothing of each other: one noise hides them
        together, at no cost.
        """
        columns, blocks = np.array(self.columns), self._columns
        own = np.equal.outer(columns, np.array(list(blocks)))
        told = np.empty((len(blocks), len(columns)))
        for place, at in enumerate(own.T):
            B = self.C[:, at]
            told[place] = ((B @ _pseudo_inverse(self.C[np.ix_(at, at)])) * B).sum(axis=1)
        variance = (self.weight * np.diag(self.C)) @ own
        shares = np.maximum((told * self.weight) @ own / variance, 0.0)
        known = np.array(list(blocks.values()))
        return list(blocks), np.where(np.equal.outer(known, known), -1.0, shares)

    def told_by(self, name: str) -> dict[str, float]:
        """Return the share of a column's variance that each column of another block tells."""
        names, shares = self._told
        found = zip(names, shares[:, names.index(name)].tolist(), strict=True)
        return {other: share for other, share in found if share >= 0}

    def tellers(self) -> dict[str, tuple[str, float]]:
        """Return for each column which other tells most of it, of those with noise of their own."""
        names, shares = self._told
        if not names:
            return {}
        # of columns that tell the same the first: not rounding decides
        most = np.round(shares, 9).argmax(axis=0)
        return {
            names[i]: (names[most[i]], round(float(shares[most[i], i]), 4))
            for i in range(len(names))
            if shares[most[i], i] >= 0
        }

    def without(self, column: str) -> "_System":
        """Return the system if a column were dropped."""
        block = self._columns[column]
        gone = [
            name == column or (not name and own == block)
            for name, own in zip(self.columns, self.blocks, strict=True)
        ]
        return self._only(np.flatnonzero(~np.array(gone)).tolist())

    def _only(self, stay: Sequence[int]) -> "_System":
        """Return the system of some coordinates."""
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
            shares=self.shares[stay],
            halves=tuple(cell.of(stay) for cell in self.halves),
            cells=tuple(cell.of(stay) for cell in self.cells),
            chance=tuple(cell.of(stay) for cell in self.chance),
        )

    def joined(self, one: str, other: str) -> "_System | None":
        """Return the system if two categories were refreshed together; None for others."""
        if not {one, other} <= {*self.categories}:
            return None
        blocks = self._columns
        renamed = tuple(one if name == other else name for name in self.columns)
        merged = tuple(blocks[one] if b == blocks[other] else b for b in self.blocks)
        return replace(self, columns=renamed, blocks=merged)


def _named(features: Sequence[OpenColumn], found: Residuals) -> dict[str, Floats]:
    """Return what each column of F, part of one or set of them reveals, by its name."""
    named: dict[str, Floats] = {}
    for each, row in zip(features, found.alone, strict=True):
        named[each.name] = np.maximum(named.get(each.name, 0.0), row)
    sources = _sources(features, found)
    sets = {all_of(names): row for names, row in found.together.items()}
    return {**named, **{name: row for name, row in sets.items() if name in sources}}


def _sources(features: Sequence[OpenColumn], found: Residuals) -> dict[str, tuple[str, ...]]:
    """Return the columns behind each of these names; a set is one of different columns."""
    own = {each.name: each.columns for each in features}
    sets = {
        all_of(names): columns
        for names in found.together
        if len(columns := tuple(c for name in names for c in own[name])) == len({*columns})
    }
    return {**own, **sets}


@dataclass(frozen=True)
class _Cell:
    """What F leaves in one of its cells, and mean and covariance of Z there.

    `weight` is the share of each coordinate's values that are in it: it has no gaps to hide.
    """

    weight: Floats
    rows: int
    covariance: Floats
    everywhere: Floats
    mean: Floats
    inside: Floats

    @cached_property
    def covariances(self) -> tuple[Floats, Floats]:
        """Those that F leaves here, and those of Z: a fit to all of F may be worse in some cell."""
        return self._leaning(self.covariance), self._leaning(self.inside)

    def _leaning(self, covariance: Floats) -> Floats:
        """Return a covariance whose correlations lean on those that are left everywhere.

        As if d of all rows were in the cell. Its variances do not lean: those of a column with
        heavy tails are small in most cells.
        """
        n, d = self.rows, len(covariance)
        ratio = np.diag(covariance) / np.maximum(np.diag(self.everywhere), 1e-300)
        size = np.sqrt(np.maximum(ratio, 0.0))
        leaning = n * covariance + d * np.outer(size, size) * self.everywhere
        return semidefinite(leaning / (n + d))

    def of(self, coordinates: Sequence[int]) -> "_Cell":
        """Return it for some coordinates."""
        at = np.ix_(coordinates, coordinates)
        return _Cell(
            self.weight[coordinates],
            self.rows,
            self.covariance[at],
            self.everywhere[at],
            self.mean[coordinates],
            self.inside[at],
        )


def _left_of(C: Floats, D: Floats, q2: float) -> Floats:
    """Return what the best linear estimate leaves of coordinates of covariance C."""
    gain = np.linalg.solve(q2 * C + D, C)
    return np.asarray(np.diag(C) - q2 * (C * gain).sum(axis=0))


def _in_cells(Z: Floats, found: Residuals, cells: Ints, left: Floats) -> tuple[_Cell, ...]:
    """Return the cells of F."""
    made, present = [], ~np.isnan(Z)
    for cell in np.unique(cells).tolist():
        rows = cells == cell
        covariance = _pairwise(found.residuals[:, rows])[1]
        weight = present[:, rows].sum(axis=1) / np.maximum(present.sum(axis=1), 1)
        count = int(np.count_nonzero(rows))
        made.append(_Cell(weight, count, covariance, left, *_pairwise(Z[:, rows])))
    return tuple(made)


def _shuffled(cells: Ints) -> Ints:
    """Return as many rows in each cell of each half, whichever they are."""
    found, draw = cells.copy(), np.random.default_rng(1)
    for half in np.unique(cells // LEAVES).tolist():
        own = cells // LEAVES == half
        found[own] = draw.permutation(cells[own])
    return found


def _correlation(covariance: Floats, size: Floats, vary: Sequence[int]) -> Floats:
    return np.asarray(covariance[np.ix_(vary, vary)] / np.outer(size[vary], size[vary]))


def _reaching(C: Floats, known: Sequence[Coordinate]) -> Floats:
    """Return C with the correlations that coordinates would have without the chance in them."""
    reach = np.array([each.reach for each in known])
    if (reach == 1).all():
        return C
    deviation = np.sqrt(np.maximum(np.diag(C), 0.0))
    raised = C * np.outer(reach, reach)
    most = np.outer(deviation, deviation)
    raised = np.clip(raised, -most, most)
    np.fill_diagonal(raised, np.diag(C))
    return raised


def _recovered(rest: Floats, D: Floats, q2: Floats) -> Floats:
    """Return what is recovered of each coordinate (coordinates, levels), given what is kept."""
    values, vectors = np.linalg.eigh(D)
    kept = values > VANISHING * values.max(initial=0.0)
    white = vectors[:, kept] / np.sqrt(values[kept])
    spectrum, turned = np.linalg.eigh(white.T @ rest @ white)
    told = (rest @ white @ turned) ** 2
    spectrum = np.maximum(spectrum, 0.0)
    return np.asarray(told @ (q2 / (q2 * spectrum[:, None] + 1 - q2)))


def _pairwise(Z: Floats) -> tuple[Floats, Floats]:
    """Return means and covariances of coordinates, over the rows that have both."""
    present = ~np.isnan(Z)
    if present.all():
        mean = Z.mean(axis=1)
        centred = Z - mean[:, None]
        return mean, np.asarray(centred @ centred.T / max(Z.shape[1] - 1, 1))
    known = present.astype(np.float64)
    mean = np.where(present, Z, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    centred = np.where(present, Z - mean[:, None], 0.0)
    count = known @ known.T
    offset = (centred @ known.T) / np.maximum(count, 1)
    scatter = centred @ centred.T - count * offset * offset.T
    return mean, np.asarray(scatter / np.maximum(count - 1, 1))


def _significant(C: Floats, known: Sequence[Coordinate], rows: int) -> Floats:
    """Return C without what chance explains between columns, if the rows are few for its size.

    In n rows, d coordinates that tell nothing seem to tell d/n. Of two independent columns
    with a and b coordinates, n times the trace of C_aa^-1 C_ab C_bb^-1 C_ba is chi-square with
    about a b degrees of freedom; a pair below its mean and CHANCE deviations counts as such.
    """
    if rows >= ROWS_TO_TRUST * len(C):
        return C
    named = [each.column or f"rest of {each.block}" for each in known]
    names, blocks = np.array(named), dict(zip(named, (each.block for each in known), strict=True))
    P, rank = np.empty_like(C), []
    for name in blocks:
        inverse = _pseudo_inverse(C[np.ix_(names == name, names == name)])
        P[names == name] = inverse @ C[names == name]
        rank.append(np.linalg.matrix_rank(inverse))
    # with P_ab = C_aa^-1 C_ab, the trace for a pair is the sum of P_ab times P_ba' by elements
    own = np.equal.outer(names, np.array(list(blocks))).astype(np.float64)
    told, freedom = rows * (own.T @ (P * P.T) @ own), np.outer(rank, rank)
    chance = told < freedom + CHANCE * (1 + np.sqrt(2 * freedom))
    numbers = np.array([block == NUMBERS for block in blocks.values()])
    chance[np.ix_(numbers, numbers)] = False
    np.fill_diagonal(chance, False)
    place = own.argmax(axis=1)
    return np.where(chance[np.ix_(place, place)], 0.0, C)


def semidefinite(C: Floats) -> Floats:
    """Return C without negative eigenvalues, which missing values can bring about."""
    values, vectors = np.linalg.eigh(C)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def _pseudo_inverse(C: Floats) -> Floats:
    return np.asarray(np.linalg.pinv(C, rcond=VANISHING, hermitian=True))


def indicators(
    column: str,
    block: str,
    codes: Ints,
    missing: Flags,
    *,
    most: int = MOST_REFRESHED,
    values: int | None = None,
) -> Iterator[Coordinate]:
    """Yield the indicators of a category's frequent values, by codes of its rows.

    Values of few rows share the last one. Where cells are `missing`, indicators are too;
    `values` is the number of its values if draws are even.
    """
    counts = np.bincount(codes, minlength=1)
    by_count = np.argsort(-counts, kind="stable")[:most].tolist()
    frequent = [code for code in by_count if counts[code] >= LEAST_ROWS]
    chance = None if values is None else 1 / values
    for code in frequent:
        yield Coordinate(column, block, np.where(missing, np.nan, codes == code), chance)
    rest = None if values is None else 1 - len(frequent) / values
    yield Coordinate(column, block, np.where(missing, np.nan, ~np.isin(codes, frequent)), rest)
