"""A column as far as `inspect` looks at it, and what it may be recognised as: a rule at a time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.columns import FEW_ROWS
from cornerwave.inspection import _words
from cornerwave.privacy import names_a_thing

MANY = 100
"""Text of so many values is left to the owner, whatever it looks like,"""

SHARE_OF_ROWS = 0.2
"""as is text with this many values for each row, if they are more than FEW_ROWS."""

FEW_CODES = 10
"""Whole numbers of at most so many values are codes, unless their name suggests otherwise."""

LOOKED_AT = 1000
"""So many different values of a column are looked at."""

SOME, MOST = 0.01, 0.6
"""Shares of these values: some look like a sure thing, most like one that is less sure."""

IDENTIFIER, DROP_OR_KEY = "looks like an identifier", "drop it, or make it the key"

OF_THINGS = f"{IDENTIFIER} of people or things"

FEWEST_NAMED, MOST_EACH = 15, 500
"""Identifiers of several rows each have so many values at least, of so many rows at most."""


@dataclass(frozen=True)
class Seen:
    """A column as far as it is looked at: `values` are different ones from the sampled rows.

    `distinct` and `present` belong to the whole column, of `rows` rows; `beside` are the words of
    all columns.
    """

    name: str
    values: pa.Array
    distinct: int
    present: int
    rows: int
    beside: frozenset[str]

    @classmethod
    def of(cls, name: str, rows: pa.Table, *, distinct: int, present: int, total: int) -> "Seen":
        """Look at a column of the sampled rows, of `total` rows."""
        values = pc.unique(rows.column(name)).drop_null()[:LOOKED_AT]
        if pa.types.is_floating(values.type):
            values = values.filter(pc.is_finite(values))
        beside = frozenset(w for each in rows.column_names for w in _words.words_of(each))
        return cls(name, values, distinct, present, total, beside)

    @property
    def words(self) -> frozenset[str]:
        """The words of the column's name."""
        return _words.words_of(self.name)

    @property
    def is_unique(self) -> bool:
        """Whether every row has a value of its own, in more than a few rows."""
        return self.present > FEW_ROWS and self.distinct >= self.present

    @property
    def is_short_list(self) -> bool:
        """Whether there are so few values, and each so often, that none names one person."""
        return self.distinct <= FEW_CODES and self.present >= 2 * self.distinct

    @property
    def is_seldom_answered(self) -> bool:
        """Whether most rows have no value, as under 'other, please specify'."""
        return self.rows > FEW_ROWS and self.distinct > 2 and 2 * self.present < self.rows

    @property
    def is_varied(self) -> bool:
        """Whether the values are too many to be a short list of kinds."""
        return self.distinct > FEW_ROWS and self.distinct > SHARE_OF_ROWS * self.present


@dataclass(frozen=True)
class Recognised:
    """What a draft should propose for a column, and why."""

    do: str
    reason: str
    is_dated: bool = False
    """Whether it is text that spells dates: it names nobody."""


def first(rules: Sequence[Callable[[Seen], Any]], seen: Seen) -> Recognised | None:
    for rule in rules:
        if result := rule(seen):
            return result if isinstance(result, Recognised) else decide(result)
    return None


def decide(reason: str | None) -> Recognised | None:
    return None if reason is None else Recognised("decide", reason)


def by_name(seen: Seen) -> str | None:
    """Return why the name of a column of text or whole numbers speaks against it."""
    words = seen.words
    if seen.is_short_list or words & _words.MEASURED:
        return None
    if words & _words.BIRTH and not words & _words.OF_BIRTHS:
        return "a date or year of birth, according to its name: it finds people in other registers"
    if words & _words.OFFICIAL:
        return "a number that was given to one person or account, according to its name"
    if words & _words.REACHED:
        return "a way to reach people, according to its name"
    return None


def of_several(seen: Seen) -> str | None:
    """Return why a column names people or things that have several rows each."""
    each = seen.present / max(1, seen.distinct)
    if seen.words & _words.MEASURED or not names_a_thing(seen.name):
        return None
    if seen.distinct < FEWEST_NAMED or each > MOST_EACH:
        return None
    return (
        f"{OF_THINGS}, according to its name: {seen.distinct:,} values, of "
        f"about {each:.3g} rows each; noise on a name is of no use to anybody: drop it"
    )
