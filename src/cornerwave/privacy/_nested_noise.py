"""The noise of what someone looks at of households: of functions of their rows (`_nested`).

With H(s, t), C(s, t) and R(t) the covariances of the noise of households, persons and rows, two
functions with weights a_j and b_j of the rows j of a household have the noise

    (sum_j a_j Phi_j) H (sum_j b_j Phi_j)'
      +  sum_p (sum_{j in p} a_j Phi_j) C (sum_{j in p} b_j Phi_j)'  +  sum_j a_j b_j R_j

Without a time there is one knot, and Phi_j is 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np

from cornerwave.arrays import Floats, Ints
from cornerwave.noise import PersonNoise, hat_matrix, nearest_knots
from cornerwave.privacy._nested import (
    HOUSEHOLD,
    MOMENT,
    PERSON,
    ROW,
    Nested,
    NestedFunction,
    NestedTerm,
    sums_of,
    term_of,
)


@dataclass(frozen=True)
class _PersonParts:
    """The parts of groups of rows that belong to one person: sums of Phi over all rows of a group.

    Sorted by group, then by person; `phi` (parts, knots).
    """

    group: Ints
    person: Ints
    phi: Floats
    rows: Ints

    @classmethod
    def of(cls, nested: Nested, kind: str, hats: Floats) -> "_PersonParts":
        """Return those of the persons, the households or the moments of rows with some Phi."""
        groups, many = nested.groups(kind), len(nested.persons)
        keys, part, rows = np.unique(
            groups * many + nested.person, return_inverse=True, return_counts=True
        )
        group = keys // many
        size = np.bincount(groups)[group]
        return cls(group, keys % many, (sums_of(part, hats) / size).T, rows)

    def at(self, group: Ints, person: Ints) -> tuple[Floats, Ints]:
        """Return Phi (n, knots) and the rows of persons in groups, 0 where they have none."""
        many = int(self.person.max(initial=0)) + 1
        keys, wanted = self.group * many + self.person, group * many + person
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        there = keys[place] == wanted
        return self.phi[place] * there[:, None], self.rows[place] * there


class NestedNoise:
    """The noise of functions of rows of households, of the first coordinates of `noisy`."""

    def __init__(
        self,
        noise: PersonNoise,
        functions: Sequence[NestedFunction],
        times: Floats,
        noisy: int,
    ) -> None:
        self._noise, self._noisy = noise, noisy
        self._nested = nested = functions[0].nested
        self._terms = list(dict.fromkeys(term for each in functions for term in each.terms))
        self._weights = np.array(
            [[each.terms.get(term, 0.0) for term in self._terms] for each in functions]
        )
        hats = hat_matrix(times, noise.knots).T
        # sum_j a_j Phi_j of each term (terms, knots, rows)
        self._phi = np.stack([term_of(nested, term, hats) for term in self._terms])
        self._parts = {kind: _PersonParts.of(nested, kind, hats) for kind in (PERSON, HOUSEHOLD)}
        if nested.moments is not None:
            self._parts[MOMENT] = _PersonParts.of(nested, MOMENT, hats)
        other = nested.other[nested.person]
        self._own = self._of_one(nested.person)
        self._others = self._of_one(other) * (other != nested.person)
        # households last: their persons are those of all moments
        several = [
            t
            for kind in (MOMENT, HOUSEHOLD)
            for t, each in enumerate(self._terms)
            if each.kind == kind
        ]
        self._several = {
            (f, g): self._shared(self._terms[f], self._terms[g])
            for f, g in combinations_with_replacement(several, 2)
        }
        self._near = nearest_knots(times, noise.knots)
        self._alike = {
            (f, g): found
            for f, g in combinations_with_replacement(range(len(self._terms)), 2)
            if (found := self._of_rows(self._terms[f], self._terms[g])).weight.any()
        }

    def __call__(self, rows: Ints) -> Floats:
        """Return the covariance of the noise, on average over some rows; 0 where there is none."""
        noise, (T, J) = self._noise, self._phi.shape[:2]
        assert noise.outer is not None
        of_outers, own, others = (
            _products(each[:, :, rows]) for each in (self._phi, self._own, self._others)
        )
        of_persons, of_rows = own + others, np.zeros((T, T, J))
        for (f, g), shared in self._several.items():
            products = shared.products(rows)
            of_persons[f, :, g], of_persons[g, :, f] = products, products.T
        for (f, g), alike in self._alike.items():
            of_rows[f, g] = of_rows[g, f] = alike.near_knots(rows, J)
        W = self._weights  # functions are sums of terms, and products of two bilinear in them
        H, C = (
            np.einsum("fs,skul,gu->fkgl", W, each, W, optimize=True)
            for each in (of_outers, of_persons)
        )
        blocks = np.einsum("fs,suk,gu,knm->nfmg", W, of_rows, W, noise.within, optimize=True)
        for levels, load in ((H, noise.outer), (C, noise.person)):
            blocks += np.einsum("fkgl,knq,lmq->nfmg", levels, load, load, optimize=True)
        out, at = np.zeros((self._noisy, self._noisy)), len(W) * len(noise.shape)
        out[:at, :at] = blocks.reshape(at, at) / len(rows)
        return out

    def _whose(self, term: NestedTerm) -> Ints | None:
        """Return the person that a term is of in each row; None if it is of several."""
        if term.kind in (MOMENT, HOUSEHOLD):
            return None
        return term.at if term.kind == PERSON else self._nested.person[term.at]

    def _of_one(self, person: Ints) -> Floats:
        """Return sum_{j in p} a_j Phi_j of one person p for each row (terms, knots, rows)."""
        found = np.empty_like(self._phi)
        for phi, out, term in zip(self._phi, found, self._terms, strict=True):
            whose = self._whose(term)
            if whose is not None:
                out[:] = phi * (whose == person)
            else:
                out[:] = (self._parts[term.kind].at(term.at, person)[0] * term.share[:, None]).T
        return found

    def _shared(self, one: NestedTerm, two: NestedTerm) -> "_CommonPersons":
        """Return what two terms that are of several persons have of each of them."""
        parts, many = self._parts[one.kind], int(two.at.max(initial=0)) + 1
        pairs, place = np.unique(one.at * many + two.at, return_inverse=True)
        # all persons of the first group of each pair
        begins = np.searchsorted(parts.group, pairs // many)
        ends = np.searchsorted(parts.group, pairs // many, side="right")
        sizes = ends - begins
        at = np.arange(sizes.sum()) + np.repeat(begins - np.cumsum(sizes) + sizes, sizes)
        phi, _ = self._parts[two.kind].at(np.repeat(pairs % many, sizes), parts.person[at])
        pair = np.repeat(np.arange(len(pairs)), sizes)
        return _CommonPersons(place, one.share * two.share, pair, parts.phi[at], phi)

    def _of_rows(self, one: NestedTerm, two: NestedTerm) -> "_CommonRows":
        """Return a_j b_j of the rows that two terms have in common."""
        nested = self._nested
        if ORDER.index(one.kind) > ORDER.index(two.kind):
            one, two = two, one  # the smaller group first
        groups = nested.groups(one.kind)
        # sum_j a_j b_j = 1 / size of the larger group, where the smaller one is a part of it
        inside = _first_rows(nested, two.kind, one, groups) == two.at
        sizes = np.bincount(nested.groups(two.kind))
        weight = one.share * two.share * inside / sizes[two.at]
        if one.kind == PERSON and two.kind == MOMENT:
            # the rows of the person that are of the moment, all of them next to its knot
            count = self._parts[MOMENT].at(two.at, one.at)[1]
            weight = one.share * two.share * count / sizes[two.at] / nested.of_persons[one.at]
            knots = np.zeros(len(sizes), dtype=np.int64)
            knots[nested.moment] = self._near
            return _CommonRows(weight, knots[two.at])
        if one.kind in (ROW, MOMENT):
            knots = np.zeros(int(groups.max(initial=0)) + 1, dtype=np.int64)
            knots[groups] = self._near
            return _CommonRows(weight, knots[one.at])
        J = len(self._noise.knots)
        near = np.bincount(groups * J + self._near, minlength=J * (int(groups.max()) + 1))
        shares = near.reshape(-1, J) / np.bincount(groups)[:, None]
        return _CommonRows(weight, one.at, shares)


ORDER = (ROW, PERSON, MOMENT, HOUSEHOLD)


def _first_rows(nested: Nested, kind: str, term: NestedTerm, groups: Ints) -> Ints:
    """Return the group of a kind that the first row of a term's group is in, for each row."""
    first = np.zeros(int(groups.max(initial=0)) + 1, dtype=np.int64)
    first[groups[::-1]] = np.arange(len(groups))[::-1]
    return np.asarray(nested.groups(kind)[first[term.at]])


def _products(phi: Floats) -> Floats:
    """Return sum_i a_i b_i' of all pairs of terms (terms, knots, terms, knots)."""
    T, J, rows = phi.shape
    flat = phi.reshape(T * J, rows)
    return np.asarray((flat @ flat.T).reshape(T, J, T, J))


@dataclass(frozen=True)
class _CommonPersons:
    """Two terms that are of several persons: Phi of each person (n, knots), by pairs of groups.

    `place` is the pair of each row, `share` the product of shares.
    """

    place: Ints
    share: Floats
    pair: Ints
    one: Floats
    two: Floats

    def products(self, rows: Ints) -> Floats:
        """Return sum_i sum_p (sum_{j in p} a_j Phi_j) (sum_{j in p} b_j Phi_j)' of some rows."""
        of_pairs = np.bincount(
            self.place[rows], self.share[rows], minlength=int(self.place.max()) + 1
        )
        weight = of_pairs[self.pair]
        some = np.flatnonzero(weight)
        return np.asarray((self.one[some] * weight[some, None]).T @ self.two[some])


@dataclass(frozen=True)
class _CommonRows:
    """sum_j a_j b_j for each row, and the knot next to these rows j.

    With `shares` (groups, knots), `knot` is a group instead, whose rows are next to several.
    """

    weight: Floats
    knot: Ints
    shares: Floats | None = None

    def near_knots(self, rows: Ints, knots: int) -> Floats:
        """Return the sums over some rows, at each knot."""
        if self.shares is None:
            sums = np.bincount(self.knot[rows], self.weight[rows], minlength=knots)
            return np.asarray(sums, dtype=np.float64)
        of_groups = np.bincount(self.knot[rows], self.weight[rows], minlength=len(self.shares))
        return np.asarray(of_groups @ self.shares)
