"""Histories that are longer than their donor's: how these go on.

A replaced history that stayed where its donor's ends could be recognised. So it goes on as that of
another person who was in the same state and has a further row:

    s_{p+1} = j + 1,      j drawn among rows with codes(j) = codes(s_p) that are not a person's last

and with that person's next rows, up to their end, and so on. Where nobody else was in the same
state, j agrees in what persons keep, and in as much else as one of some drawn rows does. Rows that
came later than the row to be replaced do not count, so nothing changes when editions come. Nor do
the person's rows. The draws are keyed by the person, the donor and the number of the seam.
"""

import struct
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from cornerwave.arrays import Codes, Ints, Words, lengths_of
from cornerwave.keyed import BlockFunction, expand, room_for

if TYPE_CHECKING:
    from cornerwave.spine.histories import Histories

DRAWN = 16
"""Rows that are drawn for a seam, of which the one that agrees most goes on."""
KEPT = 6
"""Bits of rows per change: what changes less often than in 64 rows is what persons keep."""
SEAMS = 1000
"""Seams of one history, at most: a person with a million rows keeps the last value then."""


@dataclass(frozen=True)
class Tail:
    """Rows beyond those of their person's donor, ascending, and the rows that replace them."""

    places: Ints
    sources: Ints

    def replace(self, places: Ints, sources: Ints) -> Ints:
        """Return the sources of some rows, with other ones for rows beyond their donor's."""
        if not len(self.places):
            return sources
        found = np.minimum(np.searchsorted(self.places, places), len(self.places) - 1)
        return np.where(self.places[found] == places, self.sources[found], sources)


@dataclass(frozen=True)
class _Pool:
    """Rows that another of their person follows, by their state and the edition of that one.

    `keys` are ascending: the number of the state * editions + edition.
    """

    states: Words
    keys: Ints
    rows: Ints

    @classmethod
    def of(cls, words: Words, rows: Ints, later: Ints, editions: int) -> "_Pool":
        """Arrange rows by their state's word, and the edition of the row that follows."""
        states, numbers = np.unique(words, return_inverse=True)
        keys = numbers * editions + later
        order = np.argsort(keys, kind="stable")
        return cls(states, keys[order], rows[order])

    def drawn(self, words: Words, edition: Ints, editions: int, random: Words) -> Ints:
        """Return rows in the same state (draws, states), -1 if there are none."""
        number = np.minimum(np.searchsorted(self.states, words), len(self.states) - 1)
        first = np.searchsorted(self.keys, number * editions)
        count = np.searchsorted(self.keys, number * editions + edition, side="right") - first
        count = np.where(self.states[number] == words, count, 0)
        chosen = random % np.maximum(count, 1).astype(np.uint64)
        return np.where(count > 0, self.rows[first + chosen.astype(np.int64)], -1)


class Continued:
    """Goes on with histories from any state, as other persons did."""

    def __init__(self, histories: "Histories") -> None:
        self._all = histories
        self._person = histories.stamps // histories.editions

    @cached_property
    def _followed(self) -> tuple[Ints, Ints]:
        """The rows that another of their person follows, and the edition of that one."""
        rows = np.flatnonzero(self._person[1:] == self._person[:-1])
        return rows, self._all.stamps[rows + 1] % self._all.editions

    @cached_property
    def _weights(self) -> Ints:
        """How much it counts that two rows agree in a category: the bits of rows per change."""
        rows, later = self._followed
        rows, codes = rows[later == 0], self._all.codes  # what editions bring must not change it
        # log2 of the rows per change: to agree in what rarely changes is worth more
        changes = (codes[:, rows] != codes[:, rows + 1]).sum(axis=1)
        # whole numbers: sums of them are the same on every machine
        return np.array([(len(rows) // max(each, 1)).bit_length() for each in changes.tolist()])

    @cached_property
    def _pools(self) -> list[tuple[Ints, _Pool]]:
        """Rows by the codes of all categories, by those that persons keep, and all of them."""
        rows, later = self._followed
        codes, every = self._all.codes, np.arange(len(self._weights))
        kept = np.flatnonzero(self._weights > KEPT)
        return [
            (some, _Pool.of(state_words(codes[some][:, rows]), rows, later, self._all.editions))
            for some in (every, kept, every[:0])
            if len(rows)
        ]

    def tail(self, donors: Ints, secret: bytes) -> Tail:
        """Return how histories go on beyond those of their donors."""
        histories = self._all
        persons, at, ends, source = self._beyond(donors)
        units = histories.units
        # the id of the person and of the donor as one block, of which order matters
        blocks = np.ascontiguousarray(units[persons] ^ units[donors[persons]][:, ::-1])
        places, sources = [at[:0]], [at[:0]]
        for seam in range(SEAMS):
            if not len(at):
                break
            function = BlockFunction(expand(secret, "seams", struct.pack("<I", seam)))
            words = function(blocks, room_for(len(blocks))).reshape(-1, 2)
            edition = histories.stamps[at] % histories.editions
            following = self._following(source, persons, edition, words)
            goes = np.flatnonzero(following >= 0)
            following, edition = following[goes], edition[goes]
            # follow the other history as far as it went by then, and no further than needed
            long = histories.ends(self._person[following], edition) - following
            long = np.minimum(long, ends[goes] - at[goes])
            steps = np.arange(long.sum()) - np.repeat(np.cumsum(long) - long, long)
            places.append(np.repeat(at[goes], long) + steps)
            sources.append(np.repeat(following, long) + steps)
            more = at[goes] + long < ends[goes]
            source, left = (following + long - 1)[more], goes[more]
            at, ends = (at[goes] + long)[more], ends[left]
            persons, blocks = persons[left], blocks[left]
        every = np.concatenate(places)
        order = np.argsort(every)
        return Tail(every[order], np.concatenate(sources)[order])

    def _beyond(self, donors: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Return whose rows outnumber their donors', from where to where, and what is last."""
        histories = self._all
        many = lengths_of(histories.starts, len(self._person))
        is_longer = (donors >= 0) & (donors != np.arange(len(donors)))
        if histories.editions == 1:
            is_longer &= many > many[donors]
        rows = np.flatnonzero(is_longer[self._person])
        person = self._person[rows]
        donor = donors[person]
        # row i of a person takes row i of the donor, if that has come by the row's own edition
        there = histories.starts[donor] + rows - histories.starts[person]
        edition = histories.stamps[rows] % histories.editions
        beyond = there >= histories.ends(donor, edition)
        persons, first = np.unique(person[beyond], return_index=True)
        at = rows[beyond][first]
        ends = histories.ends(persons, np.full(len(persons), histories.editions - 1))
        last = there[beyond][first] - 1
        return persons, at, ends, np.maximum(last, histories.starts[donors[persons]])

    def _following(self, source: Ints, persons: Ints, edition: Ints, words: Words) -> Ints:
        """Return the row after one like `source` of another person, -1 if there is none."""
        codes, found = self._all.codes, np.full(len(source), -1, dtype=np.int64)
        best = np.full(len(source), -1)
        for keeping, pool in self._pools:
            rows = np.flatnonzero(found < 0)
            state = state_words(codes[keeping][:, source[rows]])
            for draw in range(DRAWN):
                # several draws of two words, as in double hashing
                random = words[rows, 0] + np.uint64(draw) * words[rows, 1]
                drawn = pool.drawn(state, edition[rows], self._all.editions, random)
                good = (drawn >= 0) & (self._person[drawn] != persons[rows])
                agrees = codes[:, drawn] == codes[:, source[rows]]
                # the best of DRAWN rows counts: the sum of the weights of its equal categories
                score = np.where(good, self._weights @ agrees, -1)
                better = score > best[rows]
                best[rows] = np.where(better, score, best[rows])
                found[rows] = np.where(better, drawn + 1, found[rows])
        return found


def state_words(codes: Codes) -> Words:
    """Return a word for the codes of each row (categories, rows)."""
    words = np.zeros(codes.shape[1], dtype=np.uint64)
    for own in codes:
        # multiplied by 2^64 over the golden ratio, so that states spread over all words
        words = (words ^ (own.astype(np.int64).view(np.uint64))) * np.uint64(0x9E3779B97F4A7C15)
        words ^= words >> np.uint64(29)
    return words
