"""Privacy of the whole copy: what all of its columns together leave hidden of each.

Let Z hold the perturbed numbers on their scales and the indicators of each category, C its
covariance, S the shape of the noise, q = 1/sqrt(1+v). Numbers of a copy are X + N(0, v S), an
indicator is retained with probability q. With the copy's numbers multiplied by q,

    Cov(Z, copy) = q C        Cov(copy) = q^2 C + (1 - q^2) D,   D = blockdiag(S, C_11, C_22, ...)

since what is drawn for one category is independent of everything else, and a category that is
refreshed from its own frequencies keeps its law (with even draws, its own block is that of the
mixed law, which changes with q). Kept columns and visible gaps are known without noise: C is
what they leave of it. With T' D T = 1 and T' C T = diag(l), the best linear estimate leaves

    hidden_j(v) = 1 - told_j - sum over i of q^2 (C T)_ji^2 / (q^2 l_i + 1 - q^2) / C_jj

for all v at once; told_j is the share that kept columns and gaps tell. It rises with v: a
noisier copy is a better one with more noise on top. For numbers alone it is v/(1+v) exactly.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from cornerwave.arrays import Flags, Floats, Words
from cornerwave.levels import LATTICE, THOUSANDTHS, Level

MOST_INDICATORS = 256
ROWS_PER_COORDINATE = 5
"""The values of categories share indicators, the rarest first, until there are no more than
MOST_INDICATORS of them, and so many rows for each."""
LEAST_ROWS = 5
"""A value held by fewer rows of the sample shares an indicator."""
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
NUMBERS, KEPT = "numbers", "kept"
GAPS_OF = "gaps of "


@dataclass(frozen=True)
class Coordinate:
    """One coordinate of Z over the sampled rows; NaN is missing.

    `column` names its column, or those refreshed together; coordinates of one `block` get one
    noise: NUMBERS, a category by its name, or KEPT for what is known without noise. `drawn` is
    the chance of its value in an even draw, None for draws from the table's own frequencies.
    """

    column: str
    block: str
    values: Floats
    drawn: float | None = None


@dataclass(frozen=True)
class Remedy:
    """What would lower the noise that half of every column needs: `needed` is that noise."""

    action: str
    columns: tuple[str, ...]
    needed: float


@dataclass(frozen=True)
class Hidden:
    """What a dataset's copies hide of each column, as measured at registration.

    `shares[column]` are the shares of its variance that copies at privacy 0.01, 0.02, ... of
    the lattice hide; `needed[p - 1]` is the least level, in thousandths, at which p thousandths
    of every column are hidden, 0 if there is none; `tellers[column]` is the other column, of
    those with noise of their own, that tells most about it, and the share of its variance that
    this one tells without noise;
    `bounds` is the same among what copies show without noise: kept columns and gaps.
    """

    shares: Mapping[str, tuple[float, ...]]
    needed: tuple[int, ...]
    tellers: Mapping[str, tuple[str, float]]
    remedies: tuple[Remedy, ...] = ()
    bounds: Mapping[str, tuple[str, float]] = field(default_factory=dict)

    def at(self, level: Level) -> dict[str, float]:
        """Return what a copy at a level of the lattice hides of each column, at least."""
        place, least = level.thousandths // 10 - 1, self.promised(level)
        return {
            name: max(known[place], least) if place >= 0 else least
            for name, known in self.shares.items()
        }

    def promised(self, level: Level) -> float:
        """Return the privacy of a level: the share of every column that its copies hide."""
        place = level.thousandths
        fits = [p for p, needed in enumerate(self.needed, start=1) if 0 < needed <= place]
        return max(fits, default=0) / THOUSANDTHS

    def level_of(self, thousandths: int) -> Level | None:
        """Return the least level that hides so many thousandths of every column, if one does."""
        needed = self.needed[thousandths - 1]
        return Level(LATTICE[needed - 1]) if needed else None

    @property
    def highest(self) -> float:
        """The highest privacy that can be had."""
        return max((p for p, needed in enumerate(self.needed, 1) if needed), default=0) / 1000

    @property
    def worst(self) -> str:
        """The column of which the noisiest copy hides least."""
        return min(self.shares, key=lambda name: self.shares[name][-1])


def measure_hidden(coordinates: Sequence[Coordinate], excess: Floats) -> Hidden:
    """Measure what copies hide of each column, from a sample of the table's rows.

    `excess` (N, N) is by how much the shape of the noise exceeds the covariance of the numbers,
    on the scale of their deviations; they come first among the coordinates, in its order.
    """
    system = _System.of(coordinates, excess)
    found = system.hidden()
    needed = _needed(found)
    return Hidden(
        shares={name: tuple(np.round(known[9::10], 4).tolist()) for name, known in found.items()},
        needed=needed,
        tellers=system.tellers(),
        bounds=system.tellers(shown=True),
        remedies=tuple(_remedies(system, found, needed)),
    )


def hidden_at(coordinates: Sequence[Coordinate], excess: Floats, level: Level) -> dict[str, float]:
    """Return what copies at one level hide of each column, from a sample of rows."""
    found = _System.of(coordinates, excess).hidden([level.noise])
    return {name: float(share) for name, [share] in found.items()}


def close_pairs(coordinates: Sequence[Coordinate], excess: Floats) -> list[tuple[str, str]]:
    """Return pairs of categories to refresh as one, the closest first.

    One of them tells at least CLOSE of the other, and joining them takes no more noise.
    """
    system, half = _System.of(coordinates, excess), THOUSANDTHS // 2
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
    if needed[half - 1] == half or system.even:
        return
    worst = min(found, key=lambda name: found[name][half])
    shares = system.told_by(worst)
    for teller in sorted(shares, key=lambda name: -shares[name])[:MOST_REMEDIES]:
        changes = {"drop": system.without(teller), "together": system.joined(worst, teller)}
        for action, changed in changes.items():
            if changed is not None and (less := _needed(changed.hidden())[half - 1]):
                columns = (teller,) if action == "drop" else (worst, teller)
                yield Remedy(action, columns, LATTICE[less - 1])


@dataclass(frozen=True)
class _System:
    """C on the correlation scale, with what is known of each of its coordinates.

    `weight` is the variance of each: the share of a category is that of all its indicators.
    """

    C: Floats
    excess: Floats
    weight: Floats
    columns: tuple[str, ...]
    blocks: tuple[str, ...]
    even: Mapping[str, tuple[Floats, Floats, Floats]]

    @classmethod
    def of(cls, coordinates: Sequence[Coordinate], excess: Floats) -> "_System":
        Z = np.array([each.values for each in coordinates])
        mean, covariance = _pairwise(Z)
        size = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        vary = np.flatnonzero(size > 0).tolist()
        C = covariance[np.ix_(vary, vary)] / np.outer(size[vary], size[vary])
        known = [coordinates[i] for i in vary]
        even: dict[str, tuple[Floats, Floats, Floats]] = {}
        for block in {each.block for each in known if each.drawn is not None}:
            own = [i for i in vary if coordinates[i].block == block]
            drawn = np.array([coordinates[i].drawn for i in own], dtype=np.float64)
            even[block] = (mean[own], drawn, size[own])
        numbers = [i for i in vary if coordinates[i].block == NUMBERS]
        blocks = tuple(each.block for each in known)
        return cls(
            C=semidefinite(_significant(C, known, Z.shape[1])),
            excess=excess[np.ix_(numbers, numbers)],
            weight=size[vary] ** 2,
            columns=tuple(each.column for each in known),
            blocks=blocks,
            even=even,
        )

    def hidden(self, noise: Sequence[float] = LATTICE) -> dict[str, Floats]:
        """Return what each perturbed or refreshed column hides at each level of the lattice.

        Or at one level alone.
        """
        q2 = 1 / (1 + np.array(noise))
        open_ = [i for i, block in enumerate(self.blocks) if block != KEPT]
        kept = [i for i, block in enumerate(self.blocks) if block == KEPT]
        told = self.C[np.ix_(open_, kept)] @ _pseudo_inverse(self.C[np.ix_(kept, kept)])
        told = told @ self.C[np.ix_(kept, open_)]
        rest = self.C[np.ix_(open_, open_)] - told
        if self.even:
            recovered = self._by_level(rest, open_, q2)
        else:
            recovered = _recovered(rest, self._noise_blocks(open_), q2)
        names = np.array([self.columns[i] for i in open_])
        weight = self.weight[open_]
        variance = weight * np.diag(self.C)[open_]
        shares = {}
        for name in dict.fromkeys(names.tolist()):
            own = names == name
            tells = weight[own] @ (np.diag(told)[own][:, None] + recovered[own])
            # what is independent of all others hides exactly 1 - q^2; more is chance of the sample
            block = self.blocks[open_[int(np.flatnonzero(own)[0])]]
            most = np.ones_like(q2) if block in self.even else 1 - q2
            shares[name] = np.clip(1 - tells / variance[own].sum(), 0.0, most)
        return shares

    def _noise_blocks(self, open_: Sequence[int], q: float | None = None) -> Floats:
        """Return D: the noise that each block gets, at retention q where that matters."""
        D, C = np.zeros((len(open_), len(open_))), self.C[np.ix_(open_, open_)]
        blocks = np.array([self.blocks[i] for i in open_])
        for block in dict.fromkeys(blocks.tolist()):
            at = np.ix_(blocks == block, blocks == block)
            own = C[at]
            if block == NUMBERS:
                D[at] = own + self.excess
            elif q is not None and block in self.even:
                D[at] = (_mixed(*self.even[block], q) - q * q * own) / (1 - q * q)
            else:
                D[at] = own
        return D

    def _by_level(self, rest: Floats, open_: Sequence[int], q2: Floats) -> Floats:
        """Return what is recovered where even draws make D depend on the level: by hundredths."""
        recovered = np.ones((len(open_), len(q2))) * np.diag(rest)[:, None]
        for place in range(min(9, len(q2) - 1), len(q2), 10):
            D = self._noise_blocks(open_, q=float(np.sqrt(q2[place])))
            recovered[:, place : place + 10] = _recovered(rest, D, q2[place : place + 1])
        return recovered

    @property
    def categories(self) -> list[str]:
        """The columns that are refreshed from their own frequencies."""
        known = dict(zip(self.columns, self.blocks, strict=True))
        return [name for name, block in known.items() if block not in {NUMBERS, KEPT, *self.even}]

    @cached_property
    def _told(self) -> tuple[list[str], Floats]:
        """The columns, and the share of the variance of one (second axis) that another tells.

        Without noise. Columns of one block tell nothing of each other: one noise hides them
        together, at no cost.
        """
        columns, blocks = np.array(self.columns), dict(zip(self.columns, self.blocks, strict=True))
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

    def tellers(self, *, shown: bool = False) -> dict[str, tuple[str, float]]:
        """Return for each hidden column which other, of all or of those shown, tells most of it."""
        names, shares = self._told
        if not names:
            return {}
        blocks = dict(zip(self.columns, self.blocks, strict=True))
        kept = np.array([blocks[name] == KEPT for name in names])
        if shown:
            shares = np.where(kept[:, None], shares, -1.0)
        # of columns that tell the same, such as equal gaps, the first: not rounding decides
        most = np.round(shares, 9).argmax(axis=0)
        return {
            names[i]: (names[most[i]], round(float(shares[most[i], i]), 4))
            for i in np.flatnonzero(~kept).tolist()
            if shares[most[i], i] >= 0
        }

    def without(self, column: str) -> "_System | None":
        """Return the system if a column were dropped."""
        stay = [i for i, name in enumerate(self.columns) if name != column]
        numbers = [self.columns[i] for i, b in enumerate(self.blocks) if b == NUMBERS]
        keep = [i for i, name in enumerate(numbers) if name != column]
        return _System(
            self.C[np.ix_(stay, stay)],
            self.excess[np.ix_(keep, keep)],
            self.weight[stay],
            tuple(self.columns[i] for i in stay),
            tuple(self.blocks[i] for i in stay),
            {block: known for block, known in self.even.items() if block != column},
        )

    def joined(self, one: str, other: str) -> "_System | None":
        """Return the system if two categories were refreshed together; None for others."""
        if not {one, other} <= {*self.categories}:
            return None
        blocks = dict(zip(self.columns, self.blocks, strict=True))
        renamed = tuple(one if name == other else name for name in self.columns)
        merged = tuple(blocks[one] if b == blocks[other] else b for b in self.blocks)
        return _System(self.C, self.excess, self.weight, renamed, merged, self.even)


def _recovered(rest: Floats, D: Floats, q2: Floats) -> Floats:
    """Return what is recovered of each coordinate (coordinates, levels), given what is kept."""
    values, vectors = np.linalg.eigh(D)
    kept = values > VANISHING * values.max(initial=0.0)
    white = vectors[:, kept] / np.sqrt(values[kept])
    spectrum, turned = np.linalg.eigh(white.T @ rest @ white)
    told = (rest @ white @ turned) ** 2
    spectrum = np.maximum(spectrum, 0.0)
    return np.asarray(told @ (q2 / (q2 * spectrum[:, None] + 1 - q2)))


def _mixed(pi: Floats, drawn: Floats, size: Floats, q: float) -> Floats:
    """Return the covariance of a category's indicators in a copy with even draws."""
    mixed = q * pi + (1 - q) * drawn
    return np.asarray((np.diag(mixed) - np.outer(mixed, mixed)) / np.outer(size, size))


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
    names = np.array([each.column for each in known])
    blocks = {each.column: each.block for each in known}
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


def indicators_each(rows: int, numbers: int, groups: int) -> int:
    """Return how many values of each category, or kept column, get an indicator of their own."""
    room = min(MOST_INDICATORS, rows // ROWS_PER_COORDINATE - numbers)
    return max(1, room // max(1, groups))


def indicators(
    column: str, block: str, cells: Words, missing: Flags, *, most: int, values: int | None = None
) -> Iterator[Coordinate]:
    """Yield the indicators of a category's frequent values (its cells: columns, rows).

    Values of few rows share the last one. Where cells are `missing`, indicators are too;
    `values` is the number of its values if draws are even.
    """
    rows = np.ascontiguousarray(cells.T).view(f"V{8 * len(cells)}").ravel()
    distinct = cells[0] if len(cells) == 1 else rows  # numbers are sorted faster than bytes
    _, codes, counts = np.unique(distinct, return_inverse=True, return_counts=True)
    by_count = np.argsort(-counts, kind="stable")[:most].tolist()
    frequent = [code for code in by_count if counts[code] >= LEAST_ROWS]
    chance = None if values is None else 1 / values
    for code in frequent:
        yield Coordinate(column, block, np.where(missing, np.nan, codes == code), chance)
    rest = None if values is None else 1 - len(frequent) / values
    yield Coordinate(column, block, np.where(missing, np.nan, ~np.isin(codes, frequent)), rest)


def gap(column: str, missing: Any) -> Coordinate:
    """Return the indicator of a column's visible gaps: known without noise."""
    return Coordinate(f"{GAPS_OF}{column}", KEPT, np.asarray(missing, dtype=np.float64))


def is_gap(name: str) -> bool:
    """Whether a teller is not a column, but where a column has gaps."""
    return name.startswith(GAPS_OF)


def telling(teller: str, share: float, of: str) -> str:
    """Say which column tells which.

    >>> telling("gaps of wage", 0.471, "age")
    'gaps of wage tell 47% of age'
    """
    return f"{teller} {'tell' if is_gap(teller) else 'tells'} {share:.0%} of {of}"


def unreachable(hidden: Hidden) -> str:
    """Say what stands against a higher privacy, and what to do about it."""
    worst = hidden.worst
    teller, share = hidden.bounds.get(worst, ("what copies show without noise", 1.0))
    change = "dropped, or the gaps hidden" if is_gap(teller) else "dropped or coarsened"
    return (
        f"the highest privacy is {hidden.highest:g}, as {telling(teller, share, worst)} whatever "
        f"the noise; register the table with one of the two {change} to get more"
    )
