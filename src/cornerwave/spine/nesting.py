"""Whether persons are nested: each in one household, and never in two.

A person is named by household and person, so the numbers 1, 2, 3 may begin anew in each household.
Of each name alone the least and the greatest word of its households are known: names that have two
households are counted. If most names have several, they are numbers that begin anew. If a few have,
these persons moved: they would count as two, with noise of their own in each household, and
someone who links both would average it.
"""

import io
from dataclasses import dataclass

import numpy as np

from cornerwave.arrays import Words
from cornerwave.columns import Schema
from cornerwave.errors import ColumnError
from cornerwave.spine.rows import Nest

ANEW = 0.5
"""Names begin anew in each household if more than this share of them is in several."""


@dataclass(frozen=True)
class Nesting:
    """Words of the names of persons, ascending, and the least and greatest word of a household."""

    names: Words
    low: Words
    high: Words

    @classmethod
    def of(cls, nest: Nest) -> "Nesting":
        """Return that of some rows; those that lack a household or a person do not count."""
        names = (nest.names[:, 0] ^ nest.names[:, 1])[nest.known]
        outers = (nest.outers[:, 0] ^ nest.outers[:, 1])[nest.known]
        return _merged(names, outers, outers)

    def __add__(self, other: "Nesting") -> "Nesting":
        return _merged(
            *(
                np.concatenate([getattr(self, part), getattr(other, part)])
                for part in ("names", "low", "high")
            )
        )

    @property
    def in_several(self) -> int:
        """How many names are in several households."""
        return int(np.count_nonzero(self.low != self.high))

    def check(self, schema: Schema) -> None:
        """Raise ColumnError if a few persons are in several households."""
        many, several = len(self.names), self.in_several
        if 0 < several <= ANEW * many:
            outer, inner = schema.nested
            raise ColumnError(
                f"{several:,} of {many:,} values of {inner!r} are in more than one {outer!r}: "
                f"persons who move are not nested. Name {inner!r} alone as the unit, leave their "
                f"rows out, or make a column that names the {outer!r} they were in first. If "
                f"{inner!r} begins anew in each {outer!r}, make one column of both, and name it "
                f"after {outer!r}",
                use=("unit",),
            )

    def to_bytes(self) -> bytes:
        """Return what a ledger keeps: keyed hashes, and no cell."""
        out = io.BytesIO()
        np.savez(out, names=self.names, low=self.low, high=self.high)
        return out.getvalue()

    @classmethod
    def read(cls, content: bytes) -> "Nesting":
        """Return what `to_bytes` wrote."""
        with np.load(io.BytesIO(content), allow_pickle=False) as kept:
            return cls(kept["names"], kept["low"], kept["high"])


def _merged(names: Words, low: Words, high: Words) -> Nesting:
    order = np.argsort(names, kind="stable")
    names, low, high = names[order], low[order], high[order]
    first = np.flatnonzero(np.append(True, names[1:] != names[:-1])) if len(names) else order
    if len(first) < len(names):
        low, high = np.minimum.reduceat(low, first), np.maximum.reduceat(high, first)
    return Nesting(names[first], low, high)
