"""The audit of files: read, accumulate, test, judge.

                              ┌─ checks     is each copy's noise what it must be?
    numbers ──── one pass ────┼─ gains      what does any coalition recover?
    of source     of sums     └─ posterior  would a cleverer one recover more?
    and copies ─ a second ────── exposure   which records does no noise hide?

    categories ─ one pass ────┬─ refreshes  are they refreshed as stated?
                 of counts    └─ guesses    how well can they be guessed?

It needs no key, no ledger and no metadata, and works on the copies of any tool.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cornerwave.audit.alignment import Aligned
from cornerwave.audit.categories import Categories, audit_categories
from cornerwave.audit.checks import Check
from cornerwave.audit.numbers import LEAST_ROWS, Numbers, audit_numbers
from cornerwave.errors import SourceError
from cornerwave.table import Progress


@dataclass(frozen=True)
class Audit:
    """Everything that was found; indices of copies refer to the names here.

    A table without numbers, or without categories, has None of them.
    """

    source: str
    copies: tuple[str, ...]
    stated: tuple[float | None, ...]
    sorted_copies: tuple[str, ...]
    logarithmic: tuple[str, ...]
    left_out: Mapping[str, str]
    rows: int
    numbers: Numbers | None
    categories: Categories | None

    @property
    def checks(self) -> list[Check]:
        """All checks of all copies."""
        parts = [part.checks for part in (self.numbers, self.categories) if part is not None]
        return [check for checks in parts for check in checks]

    @property
    def faults(self) -> list[Check]:
        """The checks that failed."""
        return [check for check in self.checks if not check.passed]

    @property
    def clean(self) -> bool:
        """Whether nothing is gained and nothing is wrong."""
        numbers, categories = self.numbers, self.categories
        gained = numbers is not None and (bool(numbers.alarms) or numbers.beaten)
        betrayed = categories is not None and bool(categories.alarms)
        return not (gained or betrayed or self.faults)


def audit(
    source: Any,
    copies: Sequence[Any],
    *,
    key: str | None = None,
    progress: Progress = lambda rows: None,
) -> Audit:
    """Audit copies of a source: files or frames, aligned by position or by a key column.

    Raises SourceError or ColumnError if they are not copies of the same rows.
    """
    aligned = Aligned.of(source, copies, key=key)
    left_out = dict(aligned.left_out)
    numbers = audit_numbers(aligned, progress) if aligned.columns else None
    if isinstance(numbers, dict):
        left_out, numbers = left_out | numbers, None
    categories = None
    if aligned.categories:
        categories = audit_categories(aligned, progress, alone=numbers is None)
    if numbers is None and categories is not None and not categories.kept:
        names = ", ".join(categories.boundless)
        raise SourceError(f"nothing is left to compare: {names} have too many values")
    rows = numbers.found.rows if numbers else categories.rows if categories else 0
    if rows < LEAST_ROWS:
        raise SourceError(f"{rows:,} rows; an audit needs {LEAST_ROWS} at least")
    return Audit(
        source=aligned.source.name,
        copies=aligned.names,
        stated=aligned.stated.noise,
        sorted_copies=aligned.sorted_copies,
        logarithmic=aligned.logarithmic,
        left_out=left_out,
        rows=rows,
        numbers=numbers,
        categories=categories,
    )
