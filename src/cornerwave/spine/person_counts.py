"""How many persons a table with a unit has, how many rows each: what copies show of them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cornerwave.columns import MISSING_BITS, Schema
from cornerwave.spine.survey import Survey, Surveyor

FEW = 5
"""A person stands out by a number of rows that fewer persons than this have."""


@dataclass(frozen=True)
class PersonCounts:
    """Persons, the typical and the largest number of rows of one, and those who stand out by it.

    `unnamed` rows have no unit: each is a person of its own. Unless `exact`, these are estimates
    from sampled persons, and `most` is the largest number among them.
    """

    persons: int
    typical: int
    most: int
    stand_out: int
    unnamed: int
    exact: bool

    @classmethod
    def of(cls, surveyor: Surveyor, survey: Survey) -> "PersonCounts | None":
        """Return those of a surveyed table; None if it has no unit."""
        if survey.persons is None:
            return None
        sample = survey.persons
        sizes = sample.counts[sample.starts]
        _, which, equal = np.unique(sizes, return_inverse=True, return_counts=True)
        alone = np.count_nonzero(equal[which] < FEW * sample.share)
        missing = _unnamed(surveyor, survey)
        return cls(
            persons=sample.persons,
            typical=round(float(np.median(sizes))),
            most=int(sizes.max()),
            stand_out=round(alone / sample.share),
            unnamed=round(missing * survey.moments.rows),
            exact=sample.share == 1.0 and _has_all_rows(survey),
        )

    def sentences(self, schema: Schema) -> Iterator[str]:
        """Yield what the owner should know about the persons, and what copies show of them."""
        unit = schema.column(schema.unit or "")
        how = (
            "not in copies"
            if not unit.shown
            else "released unchanged"
            if unit.as_is
            else "a pseudonym in copies"
        )
        most = f", at most {self.most:,}" if self.most > self.typical else ""
        lone = (
            f"; {self._number(self.unnamed)} rows have none, and each counts as a person of its own"
            if self.unnamed
            else ""
        )
        yield (
            f"unit: {unit.name}, {how}; {self._number(self.persons)} persons, typically "
            f"{_rows(self.typical)} each{most}{lone}"
        )
        if unit.as_is:
            yield (
                f"{unit.name} is released unchanged: anyone who knows the {unit.name} of a person "
                "finds the rows of that person in every copy, and can join other tables to them"
            )
        if unit.shown:
            yield f"copies show how many rows a person has: {self._stand_out()}"

    def _number(self, count: int) -> str:
        """Write a count; of an estimate three digits."""
        return f"{count:,}" if self.exact else f"about {float(f'{count:.3g}'):,.0f}"

    def _stand_out(self) -> str:
        if not self.stand_out:
            return f"nobody stands out by it (at least {FEW} persons have each number)"
        stand = "person stands" if self.stand_out == 1 else "persons stand"
        return (
            f"{self._number(self.stand_out)} {stand} out by it (fewer than {FEW} persons have as "
            "many)"
        )


def _rows(number: int) -> str:
    return "1 row" if number == 1 else f"{number:,} rows"


def _has_all_rows(survey: Survey) -> bool:
    return len(survey.units.ordered.hashes) == survey.moments.rows


def _unnamed(surveyor: Surveyor, survey: Survey) -> float:
    """Return the share of the rows that have no unit, by the rows looked at for units."""
    names = [column.name for column in surveyor.unit_columns.cells]
    cells = survey.units.ordered.cells[names.index(surveyor.schema.unit or "")]
    return float(np.mean(cells == MISSING_BITS)) if len(cells) else 0.0
