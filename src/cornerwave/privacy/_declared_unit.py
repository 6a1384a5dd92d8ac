"""What is looked for once a unit is declared: whether it is the right one.

    persons together   one row of each person: do persons with the same value of another column
                       agree, as those of a household do, or visits whose patient is not the unit?
    a better unit      all rows: do rows with the same value of another column agree more than those
                       of the declared unit, and are they rows of different persons? Then the unit
                       names something else, such as the number of a visit.

Both are the test of `_units`, with its probability of a false alarm. One row of each person makes
persons independent, whatever their rows have in common. It does not see whether persons agree in
what changes from row to row only, nor columns that group fewer than 15 or more than 500 persons.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from cornerwave.arrays import Ints
from cornerwave.privacy._groups import Groups
from cornerwave.privacy._unit import Looked, Unit
from cornerwave.privacy._units import find_units, joined, share_of_equal_pairs

APART = 0.5
"""The share of a better unit's pairs of rows that belong to different persons, at least."""
STAYS = 0.5
"""The share of a person's pairs of rows that are equal in what groups persons, at least."""
TWICE, MORE = 2.0, 0.1
"""Rows of a better unit agree so many times as much as those of the declared one, and by so much
more, in more than half of the columns in which they agree."""


def as_nested(
    columns: Sequence[Looked], outer: str, inner: str | None
) -> tuple[list[Looked], list[Looked]]:
    """Return columns with persons named by both units, and columns with the outer one alone.

    By the first it is looked for better units than the inner one, by the second for units above the
    outer one.
    """
    by_name = {each.name: each for each in columns}
    above, person = by_name[outer], by_name[inner or ""]
    both = joined(_alone_without(above.codes), _alone_without(person.codes))
    pair = replace(person, codes=np.unique(both, return_inverse=True)[1])
    others = [each for each in columns if each.name not in (outer, inner)]
    return [*others, pair], [*others, above]


def find_above(columns: Sequence[Looked], unit: str, *, persons: int) -> list[Unit]:
    """Return which columns group persons that agree, of `persons` in all."""
    [named] = [each for each in columns if each.name == unit]
    first = _one_of_each(named.codes)
    others = {each.name: each for each in columns if each is not named}
    some = [each.only(first) for each in others.values()]
    above = find_units(some, rows=max(persons, len(first)), of="persons")
    return [each for each in above if _stays(_codes_of(each, others), named.codes)]


def find_better(columns: Sequence[Looked], unit: str, *, rows: int) -> Unit | None:
    """Return what groups rows that agree far more than those of the declared unit, if any."""
    [named] = [each for each in columns if each.name == unit]
    others = {each.name: each for each in columns if each is not named}
    for better in find_units([*others.values()], rows=rows):
        if not all(others[name].names for name in better.columns):
            continue  # a fraction is measured: wages of a year, deflated, repeat in that year alone
        codes = _codes_of(better, others)
        both = joined(codes, _alone_without(named.codes))
        apart = 1 - share_of_equal_pairs(both) / share_of_equal_pairs(codes)
        if apart > APART and _agrees_more(better, others, named):
            return better
    return None


def _codes_of(unit: Unit, columns: Mapping[str, Looked]) -> Ints:
    """Return one code for each combination of values of the columns that name units."""
    codes = columns[unit.columns[0]].codes
    for name in unit.columns[1:]:
        codes = joined(codes, columns[name].codes)
    return codes


def _stays(codes: Ints, persons: Ints) -> bool:
    """Whether most pairs of rows of a person are equal, as in a household, not as in an item."""
    of_a_person = share_of_equal_pairs(persons)
    return share_of_equal_pairs(joined(codes, persons)) >= STAYS * of_a_person


def _agrees_more(unit: Unit, columns: Mapping[str, Looked], named: Looked) -> bool:
    """Whether rows of a unit agree far more than those of the declared one, in most columns."""
    groups = Groups(named.codes, scale=0.0, ordered=False)  # however many rows a person has
    more = 0
    for each in unit.agreeing:
        signal = columns[each.column].signal()
        agreement = groups.agreement(signal) if signal is not None else None
        r = max(agreement.r, 0.0) if agreement is not None else 0.0
        more += each.r > max(TWICE * r, r + MORE)
    return more > len(unit.agreeing) / 2


def _alone_without(codes: Ints) -> Ints:
    """Return the codes with one of its own for each row that has none."""
    none = codes < 0
    alone = codes.copy()
    alone[none] = codes.max(initial=-1) + 1 + np.arange(np.count_nonzero(none))
    return alone


def _one_of_each(codes: Ints) -> Ints:
    """Return the first row of each person, in the order of the rows."""
    return np.sort(np.unique(_alone_without(codes), return_index=True)[1])
