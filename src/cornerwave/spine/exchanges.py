"""Whose history each person shows: persons exchange what they show, at keyed times.

In 'time' s = -ln q, with q = 1/sqrt(1+v), everybody shows their own history at first. Then, at
rates of each person u and with another person w of the class, chosen by a key,

    swap   (shown_u, shown_w) = (shown_w, shown_u)     begun by u at rate (1 - C) / 2
    copy   shown_u = shown_w                           at rate C

so what a person shows is exchanged at rate 1, and never has been with probability q; else it is the
history of a person chosen by chance. A noisier copy is a better one with further exchanges, which
look at nothing of the table: a set of copies reveals what its best one does, whatever somebody
knows about the histories (docs/proofs.md). If events drew from the table instead, a noisier copy
would bring histories that a better one does not show, and how often each comes would tell who was
replaced.

Swaps alone would show every history once, each value just as often as the table has it: whoever
knows all persons but one would subtract. With copies, what n persons have is shown by n persons
give or take sqrt(C ln(1+v) n). Were all exchanges copies, what is shown once would mostly be true.

Persons who `copy` only, at rate 1, came with few others: nobody shows what they do.
"""

import struct
from dataclasses import dataclass

import numpy as np

from cornerwave import _core
from cornerwave.arrays import Codes, Flags, Floats, Ids, Ints, Words
from cornerwave.keyed import BlockFunction, expand, room_for
from cornerwave.levels import COPIED as C
from cornerwave.noise import EventClock

ONE_IN, SLOWER = 4, 1.75
"""One in four of what persons begin is a copy, at rate (1 + C) / 2 = 1 / 1.75 in all: C = 1 / 7."""
assert C * ONE_IN * SLOWER == 1


@dataclass(frozen=True)
class Exchanged:
    """What each person shows at each level (levels, persons).

    `donors` are whose history it is, -1 where nothing was exchanged yet; `changes` how often.
    """

    donors: Ints
    changes: Codes


@dataclass(frozen=True)
class Partners:
    """With whom persons exchange: those of a class, in a fixed order.

    The class of person u is `pools[firsts[u]:][:counts[u]]`, of which u is one unless it `copies`
    only.
    """

    pools: Ints
    firsts: Ints
    counts: Ints
    copies: Flags

    def exchanged(self, units: Ids, key: bytes, horizons: Floats) -> Exchanged:
        """Return what persons with these ids show at some levels, by their ln(1+v)."""
        latest = float(horizons.max(initial=0.0))
        who, number, when = EventClock(key).times(units, latest)
        when = np.where(self.copies[who], when, when * SLOWER)
        order = np.lexsort((who, when))
        order = order[when[order] <= latest]
        who, number, when = who[order], number[order], when[order]
        words = _words(units, who, number, key)
        levels = np.argsort(horizons)
        shape = len(horizons), len(units)
        shown, changes = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int32)
        _core.apply_exchanges(
            who,
            self._others(who, words // ONE_IN),
            self.copies[who] | (words % ONE_IN == 0),
            np.searchsorted(when, horizons[levels], side="right"),
            shown,
            changes,
        )
        shown[changes == 0] = -1
        places = np.argsort(levels)
        return Exchanged(shown[places], changes[places])

    def of(self, person: int) -> Ints:
        """Return the class of a person."""
        return self.pools[self.firsts[person] :][: self.counts[person]]

    def _others(self, who: Ints, words: Words) -> Ints:
        """Return another person of the class of each of some persons."""
        first, count = self.firsts[who], self.counts[who]
        own = self._places[who]
        among = np.maximum(count - (own >= 0), 1)
        drawn = (words % among.astype(np.uint64)).astype(np.int64)
        return self.pools[first + np.where(own >= 0, (own + 1 + drawn) % count, drawn)]

    @property
    def _places(self) -> Ints:
        """Where each person is in the class, -1 for one who is not in it."""
        places = np.full(len(self.firsts), -1, dtype=np.int64)
        starts, first = np.unique(self.firsts, return_index=True)
        for start, count in zip(starts.tolist(), self.counts[first].tolist(), strict=True):
            pool = self.pools[start : start + count]
            here = pool[self.firsts[pool] == start]
            places[here] = np.flatnonzero(self.firsts[pool] == start)
        return places


def pair_words(units: Ids, persons: Ints, donors: Ints, secret: bytes) -> Words:
    """Return a random word for each of some persons beside the donor of each, by all donors."""
    function = BlockFunction(expand(secret, "donors"))
    # the ids of both as one block, of which order matters
    blocks = np.ascontiguousarray(units[persons] ^ units[donors[persons]][:, ::-1])
    return function(blocks, room_for(len(blocks)))[::2].copy()


def _words(units: Ids, who: Ints, number: Ints, key: bytes) -> Words:
    """Return a random word for each of some events of persons, by their number."""
    found = np.empty(len(who), dtype=np.uint64)
    for event in range(int(number.max(initial=-1)) + 1):
        here = np.flatnonzero(number == event)
        function = BlockFunction(expand(key, "partners", struct.pack("<I", event)))
        blocks = np.ascontiguousarray(units[who[here]])
        found[here] = function(blocks, room_for(len(blocks)))[::2]
    return found
