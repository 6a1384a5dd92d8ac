"""The noise of rows that changed, at the wanted levels.

    W_0 = L U_0,         W_e = A_e W_{e-1} + H_e Z_{e-1} + B_e U_e
    Z_0 = 0.4 W_0,       Z_e = A_e Z_{e-1} + H_e Z_{e-1} + 0.27 B_e U_e

in the columns that edition e changed; the others keep theirs.

U_e is the white path of edition e: the same streams and the same order of levels as U_0, under
a key of the edition's own. So the noise of a row is a function of the key, its id, the level
and which editions changed it by which of their rules; a row that none changed has the noise of
the first edition, bit for bit. The arithmetic is strict, every sum from left to right.

Of a person with several rows, W_0 is the noise of the person and the row (`_person_noise`), and U_e
are two paths, of the person and of the row, over sqrt(2): rows of a person may change alike, or
each by itself. Their rules have B times sqrt(2), so that either is hidden (`for_persons`). If
persons belong to households, these have a third path, and all of them sqrt(3).
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from cornerwave import _core
from cornerwave.arrays import Floats, Ids, Ints
from cornerwave.keyed import expand
from cornerwave.noise._person_noise import PersonNoise, PersonReader, shaped
from cornerwave.noise._reading import Reader, Reading
from cornerwave.noise._transition import LASTING, LASTING_FIRST, Transition


def edition_key(key: bytes, edition: int) -> bytes:
    """Return the key of the fresh path of an edition, from that of the dataset's noise."""
    return expand(key, "edition", struct.pack("<Q", edition))


class HistoryReader:
    """Computes the noise of changed rows, at most `rows` at a time. Each thread needs its own.

    `rules` holds the frozen rules of editions by their number, `factor` is L.
    """

    def __init__(
        self,
        reading: Reading,
        key: bytes,
        *,
        factor: Floats,
        rules: Mapping[int, Sequence[Transition]],
        rows: int,
    ) -> None:
        self._factor, self._rules = factor, dict(sorted(rules.items()))
        self._first, self._later = self._readers(reading, key, rows)

    def _readers(self, reading: Reading, key: bytes, rows: int) -> tuple[Reader, dict[int, Reader]]:
        """Return what reads the path of the first edition, and those of later ones."""
        columns = len(self._factor)
        later = {
            edition: Reader(reading, edition_key(key, edition), columns=columns, rows=rows)
            for edition in self._rules
        }
        return Reader(reading, key, columns=columns, rows=rows), later

    def noise(self, ids: Ids, kinds: Mapping[int, Ints]) -> Iterator[tuple[int, Floats]]:
        """Yield (index, W) for each wanted level; W has the shape (columns, rows).

        `kinds` states for some editions which of its rules each row follows; -1 is none.
        """
        yield from self._carried(
            self._shaped(ids), kinds, lambda edition, rows: self._later[edition].white(ids[rows])
        )

    def _shaped(self, ids: Ids) -> Iterator[tuple[int, Floats]]:
        """Yield the noise of the first edition."""
        for index, white in self._first.white(ids):
            noise = np.empty(white.shape)
            _core.shape_white(self._factor, white, noise)
            yield index, noise

    def _carried(
        self,
        first: Iterator[tuple[int, Floats]],
        kinds: Mapping[int, Ints],
        fresh_of: Callable[[int, Ints], Iterator[tuple[int, Floats]]],
    ) -> Iterator[tuple[int, Floats]]:
        """Yield what editions made of the noise of the first, with their fresh paths."""
        rows_of = {edition: np.flatnonzero(kinds[edition] >= 0) for edition in sorted(kinds)}
        changed = {edition: rows for edition, rows in rows_of.items() if len(rows)}
        fresh = [fresh_of(edition, rows) for edition, rows in changed.items()]
        # all readers follow one plan, so they reach the levels in the same order
        for (index, noise), *later in zip(first, *fresh, strict=True):
            lasting = LASTING_FIRST * noise
            for (edition, rows), (_, path) in zip(changed.items(), later, strict=True):
                self._carry(edition, kinds[edition], rows, path, noise, lasting)
            yield index, noise

    def _carry(
        self, edition: int, kinds: Ints, rows: Ints, path: Floats, noise: Floats, lasting: Floats
    ) -> None:
        kinds = kinds[rows]
        for kind in np.flatnonzero(np.bincount(kinds)):
            rule, chosen = self._rules[edition][int(kind)], np.flatnonzero(kinds == kind)
            here, columns = rows[chosen], np.array(rule.columns, dtype=np.int64)
            before, kept = noise.take(here, axis=1), lasting.take(here, axis=1)
            fresh = path[columns].take(chosen, axis=1)
            for share, old, out in ((1.0, before, noise), (LASTING, kept, lasting)):
                after = np.empty(fresh.shape)
                rules = map(np.ascontiguousarray, (rule.carry, rule.recall, share * rule.fresh))
                carry, recall, new = rules
                _core.carry_over(carry, old, recall, kept, new, fresh, after)
                out[columns[:, None], here] = after


class PersonHistoryReader(HistoryReader):
    """The same for rows of persons, whose first noise is `persons`."""

    def __init__(
        self,
        reading: Reading,
        key: bytes,
        of_persons: bytes,
        *,
        persons: PersonNoise,
        rules: Mapping[int, Sequence[Transition]],
        rows: int,
        beside: Floats | None = None,
    ) -> None:
        """`key` is that of rows, `of_persons` that of persons: linked tables share it.

        `beside` (numbers, paths) are the loadings of what persons have in linked tables, whose
        noise rules carry over too. The fresh paths are those of this table alone.
        """
        super().__init__(reading, key, factor=persons.shape, rules=rules, rows=rows)
        self._persons = PersonReader(reading, key, of_persons, noise=persons, rows=rows)
        fresh = expand(key, "persons")
        keys = [fresh] if persons.outer is None else [fresh, expand(fresh, "outer")]
        self._beside = np.zeros((0, 0)) if beside is None else beside
        paths = persons.person.shape[2]
        self._levels = Reader(reading, of_persons, columns=paths, rows=rows)
        self._shared = [self._readers(reading, each, rows)[1] for each in keys]

    def noise_of(
        self,
        ids: Ids,
        units: Ids,
        times: Floats | None,
        kinds: Mapping[int, Ints],
        outers: Ids | None = None,
    ) -> Iterator[tuple[int, Floats]]:
        """Yield (index, W) for each wanted level, given rows' ids, units, times and households."""
        whose = [units] if outers is None else [units, outers]

        def fresh(edition: int, rows: Ints) -> Iterator[tuple[int, Floats]]:
            paths = [self._later[edition].white(ids[rows])]
            for readers, own in zip(self._shared, whose, strict=True):
                paths.append(readers[edition].white(own[rows]))
            scale = PATHS_SCALE[len(paths)]
            for (index, first), *others in zip(*paths, strict=True):
                yield index, scale * sum((other for _, other in others), first)

        first = self._first_noise(ids, units, times, outers)
        for index, noise in self._carried(first, kinds, fresh):
            yield index, noise[: len(self._factor)]

    def _first_noise(
        self, ids: Ids, units: Ids, times: Floats | None, outers: Ids | None
    ) -> Iterator[tuple[int, Floats]]:
        """Yield the noise of the first edition, and below it that of what persons have beside."""
        made = self._persons.noise(ids, units, times, outers)
        if not len(self._beside):
            yield from made
            return
        for (index, noise), (_, paths) in zip(made, self._levels.white(units), strict=True):
            yield index, np.vstack([noise, shaped(self._beside, paths)])


PATHS_SCALE = {2: 0.5**0.5, 3: (1 / 3) ** 0.5}
"""1 over the root of how many fresh paths a row has: its own, its person's, the household's."""


def for_persons(rule: Transition, paths: int) -> Transition:
    """Return the rule for rows with several fresh paths: as much of each as a row alone has."""
    return replace(rule, fresh=rule.fresh / PATHS_SCALE[paths])


def for_rows(rule: Transition, paths: int) -> Transition:
    """Return such a rule with the fresh noise that is left if rows of a person are compared."""
    return replace(rule, fresh=rule.fresh * PATHS_SCALE[paths])


# --------------------------------------------------------------------------------------------------
# The covariance of a row's noise across editions, exactly, and of values that it may have.
#
#     Cov(W_e(u), W_f(v)) = min(u, v) S_ef
#
# S follows from the coefficients of W_e and its lasting part Z_e on independent noise: that of the
# first edition and the fresh paths of the editions that changed the row.
#
# Of the values only one step at a time was measured, y = A x + e with Q = Cov(e). Two histories
# with these steps: in a drifting one e is independent of all that was before. In a personal one a
# level of covariance U stays, and the rest is drawn anew at each change: H_ef = K if no edition
# between e and f changed the row, else U.


Rules = Sequence[Transition | None]
"""By which rule each edition after the first changed a row; None if it did not."""


def noise_across(covariance: Floats, rules: Rules) -> Floats:
    """Return S, (E N, E N), for E = 1 + len(rules), edition after edition.

    covariance: K, the noise's shape in the first edition. S is in units of the level's noise.

    >>> one = np.eye(1)
    >>> step = Transition((0,), carry=one, recall=0 * one, fresh=one, remainder=one)
    >>> noise_across(one, [step, None]).round(6).tolist()
    [[1.0, 1.0, 1.0], [1.0, 2.0, 2.0], [1.0, 2.0, 2.0]]
    """
    return _across(covariance, rules, lambda rule: (rule.carry, rule.recall, rule.fresh))


def drifting_history(covariance: Floats, rules: Rules) -> Floats:
    """Return the covariance of values, (E N, E N), that keep nothing but what A keeps."""
    return _across(covariance, rules, lambda rule: (rule.carry, 0 * rule.recall, rule.remainder))


def personal_history(covariance: Floats, rules: Rules) -> Floats:
    """Return the covariance of values, (E N, E N), with a level that stays for ever."""
    steps = [rule for rule in rules if rule is not None]
    level = _level(covariance, steps) if steps else covariance
    changes = np.cumsum([0, *(rule is not None for rule in rules)])
    same = (changes[:, None] == changes).astype(np.float64)
    return np.asarray(np.kron(same, covariance) + np.kron(1 - same, level))


def _level(covariance: Floats, steps: Sequence[Transition]) -> Floats:
    """Return U: the covariance of values before and after a change, on average; 0 <= U <= K.

    What never changes is the same before and after: there U is K, and of the rest, given that, a
    level lies between nothing and all.
    """
    cross = np.zeros_like(covariance)
    for step in steps:
        regression = np.eye(len(covariance))
        regression[list(step.columns)] = step.carry
        cross += regression @ covariance / len(steps)
    moved = np.isin(np.arange(len(covariance)), [i for step in steps for i in step.columns])
    here, across = np.ix_(moved, moved), covariance[np.ix_(moved, ~moved)]
    # U_mm = K_ms K_ss^-1 K_sm + what is left of the covariance before and after, clipped
    given = across @ np.linalg.pinv(covariance[np.ix_(~moved, ~moved)], 1e-9, True) @ across.T
    root = _root(covariance[here] - given)
    white = np.linalg.pinv(root) @ ((cross + cross.T)[here] / 2 - given) @ np.linalg.pinv(root).T
    shares, axes = np.linalg.eigh(white)
    axes = root @ axes
    level = covariance.copy()
    level[here] = given + axes * np.clip(shares, 0.0, 1.0) @ axes.T
    return level


def _root(covariance: Floats) -> Floats:
    """Return X with XX' = K, without the directions that do not vary."""
    scale = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    kept = values > 1e-9 * len(values)
    return np.asarray(scale[:, None] * vectors[:, kept] * np.sqrt(values[kept]))


def _across(
    covariance: Floats,
    rules: Rules,
    matrices: Callable[[Transition], tuple[Floats, Floats, Floats]],
) -> Floats:
    now = _root(covariance)  # coefficients of W_e on independent noise, a row per column
    lasting = LASTING_FIRST * now
    editions = [now]
    for rule in rules:
        if rule is not None:
            carry, recall, fresh = matrices(rule)
            here, new = list(rule.columns), np.zeros((len(covariance), len(fresh)))
            new[here] = fresh
            recalled, carried, kept = recall @ lasting, carry @ now, carry @ lasting
            now, lasting = now.copy(), lasting.copy()
            now[here], lasting[here] = carried + recalled, kept + recalled
            now, lasting = np.hstack([now, new]), np.hstack([lasting, LASTING * new])
        editions.append(now)
    sources = now.shape[1]
    wide = [np.hstack([w, np.zeros((len(w), sources - w.shape[1]))]) for w in editions]
    every = np.concatenate(wide)
    return np.asarray(every @ every.T)
