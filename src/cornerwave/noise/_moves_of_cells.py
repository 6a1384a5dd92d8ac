"""How the cells of a category moved in an edition, given what they were before.

A cell that has shown h = (x, x', x'', ...), its last states, the last first, moves to

    M(y | h)  ~  w_l n(y | h)            y != x,  l = l(y, h)

n(y | h) counts the rows that moved to y, of those whose last states are the longest part of h that
LEAST rows share; of fewer, it is pi. l is how many states ago h was y, or that it never was.

The weights w are such that rows with as many states before return to the one l states ago as often
as they do,

    O_l = sum_j M_j(l)        over the rows j, each left out of its own counts,

by iterative proportional fitting: each round multiplies w_l by O_l and divides by the sum. They are
near 1 where the counts alone do. But where each row goes to and fro between two of a hundred
values, few share more than the last state. Then a value that comes back may be one to which none of
the n moved, and pi counts there for one row more.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cornerwave.arrays import Codes, Floats, Ints, Words, places_among
from cornerwave.noise._refresh import MISSING

LEAST = 10
"""Rows that left a value: so few of them reveal little of the others, and each much of it."""
STATES = 6
"""The last states of a cell that a move may depend on."""
MOST_CONTEXTS = 1 << 14
"""As long as there are fewer, rows are distinguished by one state more."""
ROUNDS, DIGITS = 50, 6
"""Rounds of fitting, and digits of the weights that are kept."""
ROOT = 0
"""The context of no state: any row of the table."""
CHANCE, HARDLY = 4, 1e-6
"""Standard errors by which rows return more or less often than the counts by chance; for so much of
a row pi counts then: it matters where no row of the n moved to any value that the weights allow."""
TINY, ALMOST = 1e-9, 1 - 2.0**-40


def last_states(values: Codes) -> Codes:
    """Return the last states of cells (STATES, cells), the last first; MISSING before the first.

    values: (moments, cells).

    >>> last_states(np.array([[3, 3], [3, 5], [4, 3]], dtype=np.int32))[:4].tolist()
    [[4, 3], [3, 5], [-1, 3], [-1, -1]]
    """
    states = np.full((STATES, values.shape[1]), MISSING, dtype=np.int32)
    states[0] = values[0]
    for now in values[1:]:
        new = np.flatnonzero(now != states[0])
        states[1:, new] = states[:-1, new]
        states[0, new] = now[new]
    return states


def other_values(shown: Codes, words: Words, bounds: Words) -> Codes:
    """Return draws from pi that differ from what is shown; of a single value, that value."""
    ends = bounds.astype(np.float64) * 2.0**-64
    starts = np.append(0.0, ends[:-1])
    low, high = starts[shown], ends[shown]
    # a place in what is left of [0, 1) without the value, moved up behind it
    at = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53 * (low + (1.0 - high))
    at = np.where(at < low, at, at + (high - low))
    return np.minimum(np.searchsorted(ends, at, side="right"), len(ends) - 1).astype(np.int32)


@dataclass(frozen=True)
class CategoryMoves:
    """Where rows moved, by their last states, for those that LEAST rows share or more.

    The states form a tree. `nodes` (2, contexts) are the context that leaves out the earliest
    state, ROOT for none, and that state; contexts count from 1, ascending. `moves` (3, moves) are
    the context, the value that rows moved to, and how many did, ascending. `weights` are those of
    values that a cell never had, had one state ago, two ..., by how many states it had before; the
    first of them is for how many rows pi counts.
    """

    nodes: Ints
    moves: Ints
    weights: tuple[tuple[float, ...], ...] = ()

    @classmethod
    def of(cls, states: Codes, after: Codes, bounds: Words) -> "CategoryMoves":
        """Count the moves of some cells, given their last states before and the bounds of pi.

        >>> before = last_states(np.repeat([[4, 5]], [12, 3], axis=1).astype(np.int32))
        >>> bounds = np.arange(1, 9, dtype=np.uint64) << np.uint64(60)
        >>> found = CategoryMoves.of(before, np.repeat([5, 6, 7], [8, 4, 3]), bounds)
        >>> found.nodes.tolist(), found.moves.tolist()
        ([[0, 1], [4, -1]], [[1, 1, 2, 2], [5, 6, 5, 6], [8, 4, 8, 4]])
        """
        rows, context = np.arange(len(after)), np.full(len(after), ROOT)
        nodes, moves, known = [np.empty((2, 0), np.int64)], [np.empty((3, 0), np.int64)], 1
        for state in states:  # rows by one state more; before the first there is none
            pairs, number, sizes = _numbered(context[rows], state[rows])
            enough = np.flatnonzero(sizes >= LEAST)
            if not len(enough) or (known > 1 and len(enough) > MOST_CONTEXTS):
                break
            nodes.append(pairs[:, enough])
            of_number = np.zeros(len(sizes), dtype=np.int64)
            of_number[enough] = known + np.arange(len(enough))
            known += len(enough)
            rows, own = rows[of_number[number] > 0], of_number[number]
            context[rows] = own[own > 0]
            found, _, often = _numbered(context[rows], after[rows])
            moves.append(np.vstack([found, often]))
            rows = rows[state[rows] != MISSING]
        counted = cls(np.concatenate(nodes, axis=1), np.concatenate(moves, axis=1))
        return replace(counted, weights=_weights(counted.masses(states, bounds), states, after))

    def drawn(self, states: Codes, words: Words, bounds: Words) -> Codes:
        """Return what cells show after a move that have shown some states, given random words."""
        masses, before = self.masses(states, bounds), _before(states)
        table, priors = np.ones((STATES, STATES)), np.full(STATES, HARDLY)
        for number, (prior, *own) in enumerate(self.weights):
            table[number, : len(own)], priors[number] = own, prior
        weights, back = table[before].T, masses.back + priors[before] * masses.more
        # w_l n of all new values, and of those of one state ago, two ...
        ends = np.cumsum(np.vstack([masses.new, back]) * weights, axis=0)
        at = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53 * ends[-1]
        out = masses.new_values(at / np.where(weights[0] > 0, weights[0], 1.0))
        for lag in range(1, STATES):
            out = np.where((at >= ends[lag - 1]) & (at < ends[lag]), states[lag], out)
        nowhere = np.flatnonzero(ends[-1] <= 0)
        out[nowhere] = other_values(states[0, nowhere], words[nowhere], bounds)
        return np.asarray(out, dtype=np.int32)

    def masses(self, states: Codes, bounds: Words) -> "_Masses":
        """Return by how many rows cells move that had some states; pi are those of the root."""
        contexts = self._contexts(states)
        ends = bounds.astype(np.float64) * 2.0**-64
        pi = np.diff(ends, prepend=0.0)
        keys = _keys(
            np.append(np.zeros(len(pi), np.int64), self.moves[0]),
            np.append(np.arange(len(pi)), self.moves[1]),
        )
        # the moves of all contexts on one line
        line = np.cumsum(np.append(pi, self.moves[2]))
        starts = np.append(0.0, line[:-1])
        firsts = np.searchsorted(keys, _keys(np.arange(len(self.nodes[0]) + 2), 0))
        first, last = firsts[contexts], firsts[contexts + 1]
        lows, own, more = np.zeros((3, *states.shape))
        for lag, state in enumerate(states):
            is_first = (state != MISSING) & ~(states[:lag] == state).any(axis=0)
            place = places_among(keys, _keys(contexts, state))
            here = is_first & (place >= 0)
            lows[lag] = np.where(here, starts[place], np.inf)
            own[lag] = np.where(here, line[place] - starts[place], 0.0)
            more[lag] = np.where(is_first, pi[state], 0.0)
        total = line[last - 1] - starts[first]
        new = np.maximum(total - np.cumsum(own, axis=0)[-1], 0.0)
        new = np.where(new < TINY, 0.0, new)
        targets = np.append(np.arange(len(pi)), self.moves[1]).astype(np.int32)
        return _Masses(new, own, more[1:], contexts, lows, starts[first], line, targets)

    def _contexts(self, states: Codes) -> Ints:
        """Return the longest context that cells with some states have."""
        found, rows, keys = (
            np.full(states.shape[1], ROOT),
            np.arange(states.shape[1]),
            _keys(*self.nodes),
        )
        for state in states:
            place = places_among(keys, _keys(found[rows], state[rows]))
            rows = rows[place >= 0]
            found[rows] = place[place >= 0] + 1
            rows = rows[state[rows] != MISSING]
        return found

    def to_json(self) -> dict[str, Any]:
        """Return what is kept beside the chain."""
        kept = {"nodes": self.nodes.tolist(), "moves": self.moves.tolist()}
        return kept | {"weights": [list(each) for each in self.weights]}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "CategoryMoves":
        """Return what `to_json` wrote."""
        nodes, moves = (np.array(kept[name], dtype=np.int64) for name in ("nodes", "moves"))
        return cls(nodes.reshape(2, -1), moves.reshape(3, -1), tuple(map(tuple, kept["weights"])))


@dataclass(frozen=True)
class _Masses:
    """By how many rows cells move: to values that they never had, `new`, and `own` of their states.

    own (STATES, cells): to the last one, one state ago, two ...; 0 where that value was met
    already. `more` is what pi adds for one row to those before the last. The rows of all contexts
    lie on a `line`, by their `targets`: those of a cell begin at `starts`, those that moved to its
    states at `lows`.
    """

    new: Floats
    own: Floats
    more: Floats
    contexts: Ints
    lows: Floats
    starts: Floats
    line: Floats
    targets: Codes

    @property
    def back(self) -> Floats:
        """By how many rows cells go back (STATES - 1, cells)."""
        return self.own[1:]

    def new_values(self, at: Floats) -> Codes:
        """Return the values at some places among those that cells never had."""
        at = self.starts + np.minimum(at, self.new * ALMOST)
        order = np.argsort(self.lows, axis=0, kind="stable")
        lows, own = (np.take_along_axis(each, order, axis=0) for each in (self.lows, self.own))
        for low, size in zip(lows, own, strict=True):
            at = np.where(at >= low, at + size, at)  # moved up behind a value that was met
        place = np.searchsorted(self.line, at, side="right")
        return self.targets[np.minimum(place, len(self.targets) - 1)]


def _keys(contexts: Ints, values: Codes | Ints | int) -> Words:
    """Return a number for each context and value (or MISSING), ascending by both."""
    return np.asarray((contexts << 32) + values + 1, dtype=np.uint64)


def _numbered(contexts: Ints, values: Codes) -> tuple[Ints, Ints, Ints]:
    """Return the contexts with values that there are, which each row has, and how many do."""
    keys, number, sizes = np.unique(
        _keys(contexts, values), return_inverse=True, return_counts=True
    )
    pairs = np.stack([keys >> np.uint64(32), keys & np.uint64(0xFFFFFFFF)]).astype(np.int64)
    pairs[1] -= 1
    return pairs, number, sizes


def _before(states: Codes) -> Ints:
    """Return how many states cells had before the last one, as far as they are known."""
    return np.asarray(np.count_nonzero(states[1:] != MISSING, axis=0), dtype=np.int64)


def _weights(masses: _Masses, states: Codes, after: Codes) -> tuple[tuple[float, ...], ...]:
    """Return the weights by which rows return as often as they do, for how many rows pi counts."""
    before, every = _before(states), np.vstack([masses.new, masses.back])
    # the first state that was `after`; 0 for none
    lag = np.argmax(np.vstack([states[:1] != states[:1], states[1:] == after]), axis=0)
    counted = np.flatnonzero(masses.contexts != ROOT)
    every[lag[counted], counted] = np.maximum(every[lag[counted], counted] - 1, 0.0)
    more, found = np.vstack([np.zeros_like(masses.new), masses.more]), list[tuple[float, ...]]()
    for number in range(STATES):
        rows = np.flatnonzero(before == number)
        wanted = np.bincount(lag[rows], minlength=number + 1)
        alone, pi, weights = (
            every[: number + 1, rows],
            more[: number + 1, rows],
            np.ones(number + 1),
        )
        expected = _expected(alone, weights)
        # a sum of independent flags varies by less than its square root
        by_chance = CHANCE * np.sqrt(np.maximum(wanted, expected))
        prior = HARDLY if (np.abs(wanted - expected) <= by_chance).all() else 1.0
        for _ in range(ROUNDS if number and len(rows) >= LEAST else 0):
            sums = _expected(alone + prior * pi, weights)
            weights = weights * np.where(sums > 0, wanted / np.maximum(sums, TINY), 1.0)
            weights = weights / weights.max()
        found.append((prior, *(float(f"{each:.{DIGITS}g}") for each in weights)))
    return tuple(found)


def _expected(masses: Floats, weights: Floats) -> Floats:
    """Return how many rows move to values that they never had, had one state ago, two ..."""
    shares = masses * weights[:, None]
    return np.asarray((shares / np.maximum(shares.sum(axis=0), TINY)).sum(axis=1))
