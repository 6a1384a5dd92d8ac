"""The curves of persons in time, from sampled persons: C at some knots, and R at each.

With x the numbers less what time does to all persons, i and j different rows of a person,

    x_i x_j'  ~  Phi_i C Phi_j'          least squares over pairs, with a ridge of a few persons
                                         towards what the lag |t_i - t_j| alone shows
    D_k = half the covariance of differences of neighbours in time near knot k
    C_kk = V_k - D_k                     V_k the covariance near knot k
    R_k = D_k + (V_k - C_kk - D_k)+      never K - C: a change would lie bare

If persons belong to households, C is the sum of H, that of the levels of households, and of what
distinguishes their persons, U:

    x_i x_j'  ~  Phi_i H Phi_j'          i and j rows of different persons of one household
    U = (C - H)+                         with H as fitted, before it is made definite

and R_k is at least D_k + T, T what time does to everybody over a person's rows: who does not know
the times must not read them. C, or H and U, is made definite, and cut to the paths that hold all
but a thousandth of its trace: a person takes as many normals at each level. Moments are rounded
before the strict arithmetic begins, so that the machine that summed them does not matter.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cornerwave import _core
from cornerwave.arrays import Floats, Ints, lengths_of
from cornerwave.noise import SWEEPS, PersonNoise, covering, divided, factor, hat_matrix, without
from cornerwave.spine.person_sample import PersonSample, next_rows, with_means

MOST_TIMES, KNOTS = 24, 12
"""Each time is a knot if there are no more than this; else so many lie at quantiles of times."""
MOST_LEVELS, FEWEST_KNOTS = 360, 4
"""Levels of a person, of all columns and knots: wide tables have fewer knots."""
RIDGE = 3.0
"""Persons that the fit by lags counts as."""
NEAR = 20.0
"""Rows that all knots together count as, in the moments near one."""
KEPT = 0.999
"""The share of C's trace that the paths of a person hold."""
BITS = 24
"""Moments are rounded to so many bits of the deviations."""
CHUNK = 4096


def knots_of(times: Floats, columns: int) -> Floats:
    """Return the knots for rows at some times; one if time does not vary."""
    distinct = np.unique(times[~np.isnan(times)])
    most = max(FEWEST_KNOTS, MOST_LEVELS // max(columns, 1))
    if len(distinct) <= min(MOST_TIMES, most):
        return distinct if len(distinct) else np.zeros(1)
    known = np.sort(times[~np.isnan(times)])
    places = np.linspace(0, len(known) - 1, min(KNOTS, most)).round().astype(np.int64)
    return np.unique(known[places])


def curve_noise(
    sample: PersonSample, times: Floats, shape: Floats, by_row: PersonNoise, floor: "Floor"
) -> PersonNoise:
    """Return the noise for a table with a time, from sampled persons; `by_row` is that without."""
    columns, constant = len(shape), np.array(by_row.constant, dtype=np.int64)
    of_outer = np.array(by_row.outer_constant, dtype=np.int64)
    knots = knots_of(times, columns)
    if len(knots) == 1:
        return by_row
    rows = _RowsInTime.of(sample, times, columns, knots)
    # V_k near each knot, and D_k, half the covariance of differences of neighbours in time there
    near, D = rows.near_knots(rows.x), rows.near_knots(rows.changes, rows.between_neighbours) / 2
    C = rows.levels(near - D)
    # L_C, with C_kk = V_k - D_k: what neighbours have in common belongs to the person
    if by_row.outer is None:
        person = levels = _loadings(C, len(knots), columns, constant)
    else:
        H = rows.levels_of_outers()
        outer, U = _loadings(H, len(knots), columns, constant), C - H
        U[:, of_outer], U[:, :, :, of_outer] = 0.0, 0.0
        person = _loadings(U, len(knots), columns, constant)
        person[:, of_outer] = 0.0  # to the last bit of rounding
        person = floor.of_persons(person, by_row)
        # persons who are there at other times differ in what time does, and households do
        person = _with_more(person, without(rows.by_time_apart, constant))
        outer = _with_more(outer, without(rows.by_time_of_outers, constant))
        levels = np.concatenate([person, outer], axis=2)
    of_levels = np.einsum("knq,kmq->knm", levels, levels)
    within = np.stack([without(covering(within_knot), constant) for within_knot in D])
    # R_k = D_k + (V_k - C_kk - D_k)+, never less than D_k: else a change would be visible
    within = within + np.stack(
        [
            without(divided(v - c - d, constant, shape)[1], constant)
            for v, c, d in zip(near, of_levels, within, strict=True)
        ]
    )
    for place in floor.rows:
        within[:, place, place] = np.maximum(
            within[:, place, place], by_row.within[0, place, place]
        )
    mean = mean_noise(rows.phi, levels, within)
    # what a row needs by itself, as in any table
    to_outer, wanting = np.zeros_like(shape), shape - mean
    if by_row.outer is not None:
        to_outer, wanting = divided(wanting, of_outer, shape)
    to_person, to_rows = divided(wanting, constant, shape)
    to_person = without(to_person, of_outer)
    within = within + without(to_rows, constant)
    # what time does to everybody is hidden by noise by row: who does not know the times must not
    # read them in a column that follows them and varies little else
    lacking = [
        without(divided(d + rows.by_time - within_knot, constant, shape)[1], constant)
        for d, within_knot in zip(D, within, strict=True)
    ]
    within = within + np.stack(lacking)
    added = np.einsum("k,knm->nm", rows.phi.mean(axis=0), np.stack(lacking))
    return PersonNoise(
        knots=knots,
        person=_with_more(person, to_person),
        within=within,
        row=np.stack([factor(within_knot).lower for within_knot in within]),
        shape=mean
        + to_outer
        + to_person
        + without(to_rows, constant)
        + rounded(added, np.diag(shape)),
        constant=tuple(constant.tolist()),
        outer=None if by_row.outer is None else _with_more(outer, to_outer),
    )


@dataclass(frozen=True)
class Floor:
    """Columns that keep at least the noise that they have without a time, of rows or of persons.

    Of rows the time itself, of which nothing is left less what time does, and what changes in
    persons that were not sampled; of persons what differs in households that were not sampled.
    """

    rows: Sequence[int] = ()
    persons: Sequence[int] = ()

    def of_persons(self, loadings: Floats, without_time: PersonNoise) -> Floats:
        """Return the loadings of persons with that noise beside theirs."""
        least = np.zeros((loadings.shape[1], loadings.shape[1]))
        for place in self.persons:
            least[place, place] = (without_time.person[0, place] ** 2).sum()
        return _with_more(loadings, least)


def _with_more(loadings: Floats, covariance: Floats) -> Floats:
    """Return loadings (knots, columns, paths) with paths of a covariance alike at all knots."""
    more = factor(covariance).lower
    both = np.concatenate([loadings, np.broadcast_to(more, (len(loadings), *more.shape))], axis=2)
    used = np.flatnonzero(np.abs(both).max(axis=(0, 1)) > 0)
    return np.ascontiguousarray(both[:, :, used])


@dataclass(frozen=True)
class _RowsInTime:
    """Rows of sampled persons in the order of time: x (columns, rows), Phi (rows, knots)."""

    x: Floats
    phi: Floats
    times: Floats
    starts: Ints
    knots: Floats
    by_time: Floats
    """The covariance of what time does to everybody, over the rows of a person."""
    by_time_apart: Floats
    """The same of the means of persons of a household, half of that of their differences."""
    by_time_of_outers: Floats
    """The same of the means of households."""
    outer_starts: Ints
    """Where the rows of each household begin; of each person without these."""

    @classmethod
    def of(cls, sample: PersonSample, times: Floats, columns: int, knots: Floats) -> "_RowsInTime":
        sizes = lengths_of(sample.starts, len(sample.units))
        person = np.repeat(np.arange(len(sizes)), sizes)
        order = np.lexsort((times, person))
        times = times[order]
        x = sample.numbers[:columns, order]
        x = with_means(x - np.nanmean(x, axis=1, keepdims=True), sample.starts)
        phi = hat_matrix(times, knots)
        left = less_time(x, phi, sample.starts, sizes)
        effect = x - left
        apart = effect - np.repeat(
            np.add.reduceat(effect, sample.starts, axis=1) / sizes, sizes, axis=1
        )
        # over the degrees of freedom that persons leave
        variances, outers = x.var(axis=1), sample.outer_starts
        by_time = rounded(apart @ apart.T / max(1, len(times) - len(sizes)), variances)
        # of persons: means, and what distinguishes each from the next one of the household
        means = np.add.reduceat(effect, sample.starts, axis=1) / sizes
        firsts = np.searchsorted(sample.starts, outers)
        other = next_rows(firsts, len(sizes))
        paired = np.flatnonzero(other != np.arange(len(sizes)))
        differ = (means[:, paired] - means[:, other[paired]]) / np.sqrt(2)
        of_outers = np.add.reduceat(effect, outers, axis=1) / lengths_of(outers, len(times))
        persons, households = (
            rounded(each @ each.T / max(1, each.shape[1]), variances)
            for each in (differ, of_outers - of_outers.mean(axis=1, keepdims=True))
        )
        return cls(left, phi, times, sample.starts, knots, by_time, persons, households, outers)

    @cached_property
    def sizes(self) -> Ints:
        return lengths_of(self.starts, self.x.shape[1])

    @cached_property
    def _first(self) -> Ints:
        """The rows that have a next one of the same person."""
        last = np.append(self.starts[1:], self.x.shape[1]) - 1
        return np.setdiff1d(np.arange(self.x.shape[1]), last)

    @cached_property
    def changes(self) -> Floats:
        """The differences of neighbours in time."""
        return np.asarray(self.x[:, self._first + 1] - self.x[:, self._first])

    @cached_property
    def between_neighbours(self) -> Floats:
        """Phi of what lies between two neighbours."""
        return np.asarray((self.phi[self._first] + self.phi[self._first + 1]) / 2)

    def near_knots(self, x: Floats, phi: Floats | None = None) -> Floats:
        """Return the second moments of rows near each knot (knots, N, N)."""
        phi = self.phi if phi is None else phi
        weights = phi.sum(axis=0)
        overall = x @ x.T / max(1, x.shape[1])
        sums = np.stack([(x * hat) @ x.T for hat in phi.T])
        near = (sums + NEAR * overall) / (weights + NEAR)[:, None, None]
        return rounded(near, np.diag(overall))

    def levels(self, diagonal: Floats) -> Floats:
        """Return C (knots, N, knots, N), not yet definite."""
        # a person weighs as much as its rows: of m rows each has m - 1 partners
        weight = 1 / np.maximum(self.sizes - 1, 1)
        of_row = np.repeat(weight, self.sizes)
        # least squares over pairs i != j of a person's rows: x_i x_j' ~ Phi_i C Phi_j'.
        # All pairs less those of a row with itself, so that it is sums over persons and over rows
        pairs = self._pairs(self.starts, weight)
        for at in range(0, self.x.shape[1], CHUNK):  # less the pairs of a row with itself
            pairs = pairs.less(self._of_single_rows(slice(at, at + CHUNK), of_row))
        C = self._fitted(pairs, float(weight.mean()))
        for knot in range(len(self.knots)):
            C[knot, :, knot, :] = diagonal[knot]
        return self._rounded(C)

    def levels_of_outers(self) -> Floats:
        """Return H (knots, N, knots, N), not yet definite: what persons of a household share."""
        n = lengths_of(self.outer_starts, self.x.shape[1])
        firsts = np.searchsorted(self.starts, self.outer_starts)
        # a household weighs as much as its rows: n of them have so many partners in all, and one of
        # a single person has none
        partners = n**2 - np.add.reduceat(self.sizes**2, firsts)
        weight = np.where(partners > 0, n / np.maximum(partners, 1), 0.0)
        persons = np.repeat(weight, lengths_of(firsts, len(self.starts)))
        # all pairs of rows of a household less those of one person
        pairs = self._pairs(self.outer_starts, weight).less(self._pairs(self.starts, persons))
        return self._rounded(self._fitted(pairs, float(weight.mean())))

    def _pairs(self, starts: Ints, weight: Floats) -> "_PairSums":
        """Return the sums over all pairs of rows of some clusters that begin at `starts`."""
        J, N = len(self.knots), len(self.x)
        gram = np.add.reduceat(_squares(self.phi), starts, axis=0)
        P = np.add.reduceat(self.phi[:, :, None] * self.x.T[:, None, :], starts, axis=0)
        flat = P.reshape(len(P), -1)
        count = np.add.reduceat(self.phi, starts, axis=0)
        return _PairSums(
            G=(gram * weight[:, None]).T @ gram,
            products=((flat * weight[:, None]).T @ flat).reshape(J, N, J, N),
            number=(count * weight[:, None]).T @ count,
        )

    def _of_single_rows(self, some: slice, weight: Floats) -> "_PairSums":
        """Return the sums over some rows, each with itself."""
        J, x, phi = len(self.knots), self.x[:, some], self.phi[some]
        squares, weight = _squares(phi), weight[some]
        return _PairSums(
            G=(squares * weight[:, None]).T @ squares,
            products=np.einsum(
                "ikl,ai,bi->kalb",
                squares.reshape(-1, J, J) * weight[:, None, None],
                x,
                x,
                optimize=True,
            ),
            number=np.einsum("ik,il,i->kl", phi, phi, weight, optimize=True),
        )

    def _fitted(self, pairs: "_PairSums", mean_weight: float) -> Floats:
        """Return the covariance of levels that fits pairs of rows best, by least squares."""
        J, N = len(self.knots), len(self.x)
        # [kk', ll'] -> [kl, k'l']
        G = pairs.G.reshape(J, J, J, J).transpose(0, 2, 1, 3).reshape(J * J, J * J)
        by_lag = pairs.by_lag(self.knots)
        # where few persons have rows near both knots, what depends on the lag alone replaces it
        ridge = RIDGE * max(mean_weight, 1e-12)
        wanted = pairs.products.transpose(0, 2, 1, 3).reshape(J * J, N * N)
        prior = by_lag.transpose(0, 2, 1, 3).reshape(J * J, N * N)
        C = np.linalg.solve(G + ridge * np.eye(J * J), wanted + ridge * prior)
        C = C.reshape(J, J, N, N).transpose(0, 2, 1, 3)
        return np.asarray((C + C.transpose(2, 3, 0, 1)) / 2)

    def _rounded(self, C: Floats) -> Floats:
        J, N = len(self.knots), len(self.x)
        scale = np.sqrt(np.maximum(np.abs(np.diag(self.x @ self.x.T / max(1, self.x.shape[1]))), 0))
        flat = C.reshape(J * N, J * N)
        return rounded(flat, np.tile(scale**2, J)).reshape(J, N, J, N)


@dataclass(frozen=True)
class _PairSums:
    """Sums over pairs i, j of rows, each with a weight.

    Of Phi_i Phi_i' times Phi_j Phi_j' (knots^2, knots^2), of Phi_i x_i times Phi_j x_j (knots, N,
    knots, N), and how many pairs there are near two knots (knots, knots).
    """

    G: Floats
    products: Floats
    number: Floats

    def less(self, other: "_PairSums") -> "_PairSums":
        """Return the sums over these pairs without others."""
        return _PairSums(
            self.G - other.G, self.products - other.products, self.number - other.number
        )

    def by_lag(self, knots: Floats) -> Floats:
        """Return C if it depended on the lag alone: the mean of products of pairs of such a lag."""
        J, N = self.products.shape[:2]
        lags = np.abs(knots[:, None] - knots[None, :])
        width = max(float(np.median(np.diff(knots))), 1e-300) if J > 1 else 1.0
        products = np.empty((J, N, J, N))
        for k in range(J):
            for other in range(J):
                # a Gaussian window over lags, as wide as the typical distance of knots
                near = np.exp(-0.5 * ((lags - lags[k, other]) / width) ** 2)
                total = np.einsum("kl,kalb->ab", near, self.products)
                products[k, :, other, :] = total / max(float((near * self.number).sum()), 1e-12)
        return products


def mean_noise(phi: Floats, person: Floats, within: Floats) -> Floats:
    """Return the covariance of the noise of rows with some hats, on average over them."""
    weights = phi.T @ phi / max(1, len(phi))
    near = np.bincount(phi.argmax(axis=1), minlength=phi.shape[1]) / max(1, len(phi))
    levels = np.einsum("kl,knq,lmq->nm", weights, person, person, optimize=True)
    return rounded(levels + np.einsum("k,knm->nm", near, within), np.diag(levels + within[0]))


def _squares(phi: Floats) -> Floats:
    return (phi[:, :, None] * phi[:, None, :]).reshape(len(phi), -1)


def less_time(x: Floats, phi: Floats, starts: Ints, sizes: Ints) -> Floats:
    """Return numbers without what time does to all persons, as rows within persons show it."""
    of_person = np.add.reduceat(phi, starts, axis=0) / sizes[:, None]
    centred = phi - np.repeat(of_person, sizes, axis=0)
    means = np.add.reduceat(x, starts, axis=1) / sizes
    gram = centred.T @ centred
    # the hats of a row add up to 1, so that within persons their sum is 0: singular without it
    gram += 1e-9 * max(float(np.trace(gram)), 1e-300) * np.eye(len(gram))
    effect = np.linalg.solve(gram, centred.T @ (x - np.repeat(means, sizes, axis=1)).T)
    left = x - (phi @ effect).T
    return np.asarray(left - left.mean(axis=1, keepdims=True))


def rounded(matrices: Floats, variances: Floats, others: Floats | None = None) -> Floats:
    """Return moments rounded to BITS bits of the deviations of their rows and columns."""
    rows, columns = (
        np.sqrt(np.maximum(np.abs(each), 1e-300))
        for each in (variances, variances if others is None else others)
    )
    step = np.maximum(np.ldexp(1.0, np.frexp(np.outer(rows, columns))[1] - BITS), 1e-290)
    return np.asarray(np.rint(matrices / step) * step)


def _loadings(C: Floats, knots: int, columns: int, constant: Ints) -> Floats:
    """Return L_C (knots, columns, paths): C made definite, in as few paths as hold its trace."""
    # a constant column has one level, which counts for all knots
    level = np.arange(knots * columns).reshape(knots, columns)
    level[:, constant] = level[0, constant]
    names, place = np.unique(level, return_inverse=True)
    place = place.reshape(knots, columns)
    pick = np.zeros((knots * columns, len(names)))
    # the mean over knots of what is one level in all of them
    pick[np.arange(knots * columns), place.ravel()] = 1.0
    pick /= pick.sum(axis=0)
    flat = C.reshape(knots * columns, knots * columns)
    reduced = pick.T @ flat @ pick
    return np.ascontiguousarray(in_few_paths(reduced)[place])


def in_few_paths(C: Floats) -> Floats:
    """Return L (levels, paths) with L L' = C, made definite: as few paths as hold its trace."""
    scale = np.sqrt(np.maximum(np.abs(np.diag(C)), 0.0))
    scale = np.where(scale > 0, scale, 1.0)
    values, vectors = np.array(C / np.outer(scale, scale), order="C"), np.eye(len(C))
    _core.diagonalise(values, vectors, SWEEPS)
    spectrum = np.maximum(np.diag(values), 0.0)
    order = np.argsort(-spectrum, kind="stable")
    held = np.cumsum(spectrum[order]) >= KEPT * spectrum.sum()
    paths = order[: int(np.argmax(held)) + 1] if spectrum.sum() > 0 else order[:1]
    return np.asarray(scale[:, None] * vectors[:, paths] * np.sqrt(spectrum[paths]))
