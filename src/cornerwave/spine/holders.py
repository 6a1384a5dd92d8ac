"""How many persons hold a value of a category, in a table in which persons have several rows.

A name that one person has in ten rows is held by ten rows, and identifies that person. Of each
value the least and the greatest word of the persons who hold it are known: the same word twice if
that is one person. Both add up, in any order and any parts. Of other values the number of persons
is about that of the rows over the rows that a person has.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cornerwave.arrays import Words
from cornerwave.columns import Encoded, Tally, cases
from cornerwave.spine.person_sample import PersonSample

Holders = Mapping[tuple[Any, ...], tuple[int, int]]


def holders_of(columns: Sequence[Encoded], persons: Words) -> Holders:
    """Return the holders of the values of some rows, given a word for the person of each."""
    distinct, rows = cases(columns)
    least = np.full(len(distinct), np.iinfo(np.uint64).max, dtype=np.uint64)
    greatest = np.zeros(len(distinct), dtype=np.uint64)
    np.minimum.at(least, rows, persons)
    np.maximum.at(greatest, rows, persons)
    words = zip(distinct, least.tolist(), greatest.tolist(), strict=True)
    return {value: (low, high) for value, low, high in words if low <= high}


def all_holders(one: Holders, other: Holders) -> Holders:
    """Return the holders of values in two parts of a table."""
    both = dict(one)
    for value, (low, high) in other.items():
        known = both.get(value, (low, high))
        both[value] = min(low, known[0]), max(high, known[1])
    return both


def persons_holding(tally: Tally, holders: Holders, sample: PersonSample) -> Tally:
    """Return about how many persons hold each value: exact if it is one."""
    rows_each = float(np.mean(sample.counts[sample.starts]))
    return Tally(
        {
            value: 1 if len(set(holders[value])) == 1 else max(2, round(rows / rows_each))
            for value, rows in tally.items()
        }
    )
