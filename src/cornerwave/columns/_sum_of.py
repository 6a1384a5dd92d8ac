"""Numbers that are the sum of others, as a payment is of principal and interest.

    t = a + b + ...          in every row of the table that has all of these, to its own step
    t' = a' + b' + ...       what a copy shows, a' and b' as it shows them

With noise of its own a total contradicts its parts in every row. So it has none: registration
checks the sum on all rows, and a copy computes it, a function of the copy alone. A total of one
part is that column once more. It is missing where a part is, in the table as in copies, and as
finely rounded as its parts are, or as it is itself in the table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Floats
from cornerwave.columns._finish import Finish, wide_type
from cornerwave.columns._types import plain_type, step_of, to_floats
from cornerwave.errors import ColumnError

ROUNDED = 2.0**-48
"""A sum of doubles is exact up to this share of the largest of its parts."""


def total_of(parts: Sequence[Floats]) -> Floats:
    """Return the sum of columns, NaN where one is."""
    total = np.zeros_like(parts[0])
    for part in parts:
        total += part
    return total


@dataclass(frozen=True)
class Summed:
    """How many of some rows are not the sum of their parts; `a + b` is that of both."""

    rows: int = 0
    wrong: int = 0

    @classmethod
    def of(cls, total: Floats, parts: Sequence[Floats], step: float) -> "Summed":
        """Compare a total, as finely rounded as a step, with its parts."""
        return cls(len(total), int(np.count_nonzero(misfits(total, parts, step))))

    def __add__(self, other: "Summed") -> "Summed":
        return Summed(self.rows + other.rows, self.wrong + other.wrong)

    def check(self, name: str, parts: Sequence[str]) -> None:
        """Raise ColumnError unless all rows fit."""
        if self.wrong:
            share = self.wrong / self.rows
            about = f"{share:.1%}" if share >= 0.0005 else "less than 0.1%"
            raise ColumnError(
                f"{name!r} is not the sum {' + '.join(parts)}: {about} of the rows do not fit, or "
                "miss the one and not the other. Correct these rows, or leave sum_of out: the "
                "column is then perturbed by itself"
            )


def misfits(total: Floats, parts: Sequence[Floats], step: float) -> "np.ndarray[Any, Any]":
    """Return which rows are not the sum of their parts, to the step of the total."""
    made, largest = total_of(parts), np.abs(parts).max(axis=0, initial=0.0)
    # a total of parts with more decimals was rounded
    near = np.abs(total - made) <= step / 2 + ROUNDED * np.maximum(largest, np.abs(total))
    missing = np.isnan(total), np.isnan(made)
    return np.asarray(~(near | (missing[0] & missing[1])))


def sum_step(type_: pa.DataType, decimals: int | None = None) -> float:
    """Return how finely a total is rounded, given its type, or its decimals; 0 if it is not."""
    return 10.0**-decimals if decimals is not None else float(step_of(plain_type(type_)) or 0)


@dataclass(frozen=True)
class Total:
    """A column of copies that is the sum of others of theirs."""

    column: str
    parts: tuple[str, ...]
    finish: Finish = field(default_factory=Finish)

    @classmethod
    def of(cls, column: str, parts: Sequence[str], types: pa.Schema, finish: Finish) -> "Total":
        """Return a total for copies whose parts are finished in a way, given the source's types."""
        if not finish.round.issuperset(parts):  # what is not rounded has no step
            return cls(column, tuple(parts))
        own = types.field(column).type
        if not pa.types.is_floating(plain_type(own)):
            wide = {column: str(wide_type(plain_type(own)))}
            return cls(column, tuple(parts), Finish(round=frozenset([column]), types=wide))
        found = [_decimals(finish, part, types.field(part).type) for part in parts]
        known = [each for each in found if each is not None]
        if len(known) < len(found):
            return cls(column, tuple(parts))
        decimals = finish.decimals.get(column, max(known))
        many = Finish(round=frozenset([column]), decimals={column: decimals})
        return cls(column, tuple(parts), many)

    def type_of(self, source: pa.DataType) -> pa.DataType:
        """Return its type in copies."""
        return self.finish.type_of(self.column, source)

    def made(self, shown: Mapping[str, pa.Array], source: pa.DataType) -> pa.Array:
        """Return it for what a copy shows of its parts."""
        total = total_of([to_floats(shown[part], part) for part in self.parts])
        return self.finish.apply(self.column, total, source)


def _decimals(finish: Finish, name: str, source: pa.DataType) -> int | None:
    """Return how many decimals copies have of a rounded column; None if that is not known."""
    if name in finish.decimals:
        return finish.decimals[name]
    step = step_of(finish.type_of(name, source))
    if step is None or 10**12 % step.denominator:
        return None
    return next((d for d in range(13) if (10**d * step).denominator == 1), None)
