"""Gaps that a category explains: 'not applicable' is not 'unknown'.

Whoever committed no further offence has no date of one. If such gaps are shown, they show the
category, and if they are hidden, copies have dates beside 'none'. So the gaps are hidden, each by a
draw (spine/missing.py), and a copy shows the number just where its own category lets it be present:

    x' = x' of the copy with hidden gaps    if c' is not in A,    missing if it is

A holds the values of c beside which x is missing in the table. It is learned at registration, where
nearly all rows have to fit. What a copy shows is a function of one with hidden gaps: what that
promises holds, and the presence of x is hidden as c is.
"""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Floats
from cornerwave.columns._categories import Categories
from cornerwave.columns._encoded import Encoded, stored, tally
from cornerwave.columns._follows import Derived, Followed
from cornerwave.errors import ColumnError

MOST_UNLIKE = 0.01
"""At most so many of the rows may have a gap, or a value, that the category does not explain."""
LEAST_HELD = 10
"""Gaps of a value that fewer rows hold would be about these."""


def gaps_beside(source: Encoded, numbers: Floats) -> Followed:
    """Look at some rows of a number whose gaps a category explains."""
    is_missing = pa.array(np.isnan(numbers))
    return Followed(pairs=tally([source, Encoded.of(is_missing, "missing")]))


def presence_of(name: str, source: str, followed: Followed, categories: Categories) -> Derived:
    """Fix beside which values of a category a number is present. Raises ColumnError.

    The result has a truth value for each of them.
    """
    rows = sum(followed.pairs.values())
    counts: dict[Any, Counter[bool]] = {}
    for (given, is_missing), n in followed.pairs.items():
        counts.setdefault(given, Counter())[is_missing] += n
    unlike = sum(min(each[True], each[False]) for each in counts.values())
    absent = {
        given
        for given, each in counts.items()
        if each[True] > each[False] and each.total() >= LEAST_HELD
    }
    if not absent or unlike > MOST_UNLIKE * rows:
        share = (
            f"{unlike / max(rows, 1):.1%} of the rows have a gap or value that it does not explain"
        )
        why = share if absent else "there is no value beside which most are gaps"
        raise ColumnError(
            f"gaps of {name!r} do not follow from {source!r}: {why}. Leave present_if out, and let "
            "gaps be visible or hide them",
            use=("hide_missing",),
        )
    known = categories.values[categories.columns.index(source)]
    held = [given not in absent for given in stored(known).to_pylist()]
    return Derived(name, source, (), known, pa.array([*held, None not in absent]))
