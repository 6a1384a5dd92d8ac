"""A column as it is looked at for units, and a unit: rows of a person that belong together.

A column may be called like an identifier: id, recid, persnum, household_id, obsno.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from cornerwave.arrays import Flags, Floats, Ints, Words
from cornerwave.privacy._groups import PRIVACY, Kinds, Scores


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


THINGS = _words("""
    account acct ad case cell child class client clinic cluster community comp company cow customer
    cust dist district dog emp employee fam family farm firm hh hosp hospital house household ind
    indiv individual int interview litter member mom mother mouse obs order pair participant pat
    patient pers person pig player plot prof prov provider pt pupil rat rec record resp respond
    respondent sch school site stu student sub subj subject teacher team tree twin unit user usubj
    visitor woman worker
""")
"""What tables have several rows of, as names of columns begin."""

ALONE = _words("""
    id ids uid uuid guid pid nr idcode ivid hid stratum cow dog family firm household individual
    litter mom mouse participant patient person pig plot pupil rat respondent student subject tree
    usubjid
""")
"""Words that name a thing by themselves."""

GIVEN = ("id", "ident", "num", "no", "nr", "number", "code")
"""How names of numbers that were given out end."""

_THING = re.compile(rf"({'|'.join(sorted(THINGS, key=len, reverse=True))})s?")


def names_a_thing(name: str) -> bool:
    """Whether a column is called like an identifier of people or things.

    >>> [names_a_thing(n) for n in ("recid", "persnum", "Subject", "schoolNR", "Ketchup.hid")]
    [True, True, True, True, True]
    >>> [names_a_thing(n) for n in ("paid", "valid", "number", "num_children", "hit", "weight")]
    [False, False, False, False, False, False]
    """
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    words = [word for word in re.split(r"[\W\d_]+", apart.lower()) if word]
    if not words:
        return False
    if words[-1] in ALONE or words[0] in ("id", "ids"):
        return True
    whole = "".join(words)
    for end in GIVEN:
        start = whole.removesuffix(end)
        if start != whole and _THING.fullmatch(start):
            return True
    # a word before the thing, as in mother_person_no
    return len(words) > 1 and any(
        (rest := words[-1].removesuffix(end)) != words[-1] and bool(_THING.fullmatch(rest))
        for end in GIVEN
    )


SAME = 0.98
"""A column that agrees more than this follows from the value."""

MOST_NAMED = 5
"""Columns that a message names."""

LEAST_PERSONS = 20
"""Persons of a table with a unit: among fewer none can be hidden."""

PART = " separator"
"""How the name of a part of a text ends."""


@dataclass(frozen=True, eq=False)
class Looked:
    """A column of some rows.

    Rows of one value have one of the `codes`, which ascend with it if it is `ordered`; -1 is
    missing. `names` if it could name units, as fractions cannot; `noisy` if copies hide it;
    `is_time` for dates and times, from which others follow: year, month, weekday; `is_category`
    if rows agree in it when they are equal.
    """

    name: str
    codes: Ints
    ordered: bool
    names: bool
    noisy: bool
    is_time: bool = False
    is_category: bool = False

    @classmethod
    def of_numbers(
        cls, name: str, numbers: Floats, *, noisy: bool, is_time: bool = False
    ) -> "Looked":
        """Look at numbers, NaN for missing."""
        codes = np.full(len(numbers), -1)
        here = np.isfinite(numbers)
        values, codes[here] = np.unique(numbers[here], return_inverse=True)
        whole = bool((values == np.floor(values)).all())
        return cls(name, codes, ordered=True, names=whole, noisy=noisy, is_time=is_time)

    @classmethod
    def of_cells(
        cls, name: str, cells: Words, missing: Flags, *, noisy: bool, is_time: bool = False
    ) -> "Looked":
        """Look at cells by their hashes, some of them missing."""
        codes = np.full(len(cells), -1)
        codes[~missing] = np.unique(cells[~missing], return_inverse=True)[1]
        return cls(name, codes, False, names=True, noisy=noisy, is_time=is_time, is_category=True)

    def sorted_by(self, numbers: Floats) -> "Looked":
        """Return the column in the order of its values as numbers."""
        here = self.codes >= 0
        least = np.full(self.distinct, np.inf)
        np.minimum.at(least, self.codes[here], np.nan_to_num(numbers[here], nan=np.inf))
        places = np.empty(self.distinct, dtype=np.int64)
        places[np.argsort(least, kind="stable")] = np.arange(self.distinct)
        codes = np.where(here, places[self.codes], -1)
        whole = bool((least == np.floor(least)).all())
        return replace(self, codes=codes, ordered=True, names=whole)

    def some(self, rows: slice | Ints) -> "Looked":
        """Return some of the rows."""
        return replace(self, codes=self.codes[rows])

    def only(self, rows: Ints) -> "Looked":
        """Return some of the rows, with codes of their values alone."""
        codes = self.codes[rows]
        here = codes >= 0
        codes[here] = np.unique(codes[here], return_inverse=True)[1]
        return replace(self, codes=codes)

    @property
    def distinct(self) -> int:
        """How many values there are."""
        return int(self.codes.max(initial=-1)) + 1

    def signal(self) -> Scores | Kinds | None:
        """Return the column as what can agree."""
        if self.is_category:
            return Kinds.of(self.codes)
        return Scores.of(self.codes)


@dataclass(frozen=True)
class Agreeing:
    """A column in which the rows of a unit agree, and what a copy of all of them leaves hidden."""

    column: str
    r: float
    value: float
    mean: float


@dataclass(frozen=True)
class Unit:
    """Columns that name units: how many of these, rows of each, and what agrees within them."""

    columns: tuple[str, ...]
    units: int
    rows_each: float
    agreeing: tuple[Agreeing, ...]
    mean_rows: float
    largest: int | None = None
    of: str = "rows"
    """What belongs together: rows, or persons with several rows each."""

    @property
    def sizes(self) -> str:
        """How many rows the groups have: on average over groups, and at most."""
        most = self.largest is not None and self.largest > 1.5 * self.mean_rows
        return f"about {self.mean_rows:.3g} {self.of} each" + (
            f", at most {self.largest:,}" if most else ""
        )

    @property
    def is_repeat(self) -> bool:
        """Whether the rows of a unit are equal in all columns in which they agree."""
        return all(each.r > SAME for each in self.agreeing)

    def __str__(self) -> str:
        """Say it, and what it gives away."""
        names, most = " and ".join(map(repr, self.columns)), self.agreeing[0]
        shares = [
            f"{each.column!r} ({min(each.r, 1.0):.2f})" for each in self.agreeing[:MOST_NAMED]
        ]
        more = len(self.agreeing) - MOST_NAMED
        return (
            f"{self.of} with the same {names} belong together: they agree in {', '.join(shares)}"
            f"{f' and {more} more' if more > 0 else ''}, where 0 is chance and 1 is equal "
            f"({self.units:,} such groups, {self.sizes}). At privacy "
            f"{PRIVACY:g}, the best linear estimate from all {self.of} of a group leaves "
            f"{most.value:.3f} of a value of {most.column!r} hidden, and {most.mean:.3f} of the "
            f"group's mean, instead of {PRIVACY:g}"
        )

    def can_be_declared(self, naming: Collection[str]) -> bool:
        """Whether it is one of the columns that can be a unit, and names enough persons."""
        return self.columns[0] in naming and len(self.columns) == 1 and self.units >= LEAST_PERSONS

    def ways_out(self, naming: Collection[str]) -> str:
        """Return what to do about rows that belong together, if some columns can be a unit."""
        return (
            "If these are several rows of a person, or of another thing that copies shall hide, "
            f"{self._remedy(naming)}. If each row is a record of its own and merely shares a "
            "school, an area or a product with others, state that rows are independent: anyone "
            "who knows which rows share it then learns as much as this about them"
        )

    def _remedy(self, naming: Collection[str]) -> str:
        if self.units < LEAST_PERSONS:
            return (
                "register one row of each, such as the mean or the latest: a unit needs at least "
                f"{LEAST_PERSONS} persons"
            )
        if self.can_be_declared(naming):
            return (
                f"name {self.columns[0]!r} as the unit: copies then hide all rows of a person "
                "together"
            )
        if len(self.columns) > 1:
            what = f"one column of {' and '.join(map(repr, self.columns))} together"
        elif self.columns[0].endswith(PART):
            what = "a column of this part of the text"
        else:
            what = "a column of whole numbers or text that names the person"
        return f"make {what}, and name it as the unit: copies then hide all rows of a person"
