"""Whether some column, or some columns together, group rows that belong together.

A column is a unit's if

    most rows have values that few rows hold, and these values are many;
    rows of one value agree in noisy columns, beyond rows of neighbouring values, so much that a
    copy of all of them leaves less than BOUND of what is promised of a value hidden;
    that is not chance: ALPHA, over all candidates and columns;
    they agree in several columns, or in one that does not follow from the value.

Neighbouring values: a number that has to do with another is not a unit, though rows agree where it
is equal; they agree as much where it is nearly equal.

A number that gets noise is a measurement, unless it is called like an identifier or each value
has about as many rows, as no measurement has. Measurements recur by themselves, and reveal where
or when they were taken. They name units only if

    their values are many times as many as the rows of each;
    rows agree by more than what rises or falls with the measurement;
    they agree in half of what the other noisy columns hold, where columns that follow from each
    other count once: the exponential of the entropy of the eigenvalues of their correlations.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from cornerwave.arrays import Flags, Ints
from cornerwave.privacy._groups import (
    PRIVACY,
    Agreement,
    Groups,
    Kinds,
    Meetings,
    Scores,
    left_of_mean,
    left_of_value,
)
from cornerwave.privacy._unit import PART, SAME, Agreeing, Looked, Unit, names_a_thing

ALPHA = 1e-6
"""The probability that rows are reported to belong together which do not."""
BOUND = 0.9
"""Refused is what leaves less than this share of the promise hidden."""
LEAST_EVIDENCE = 100
"""A table of fewer rows is not evidence."""
LEAST_UNITS = 15
"""Fewer values than this are kinds of rows,"""
KINDS = 0.75
"""as are fewer than so many times the rows of each."""
LEAST_EACH = 1.5
"""Fewer rows to a value are rows that happen to have one."""
COVERED = 0.5
"""The share of the rows that have a value which few hold."""
SHARE, MORE = 0.25, 0.5
"""So many of the other noisy columns agree: more if no column alone that could name units does,
or if a measurement does; of what is called like an identifier, one is enough."""
TIMES = 4.0
"""So many times as many as the rows of each are the values of a measurement that names units."""
NEARLY = 0.8
"""Whole columns come before a part of a text if they agree in this share of as many columns."""
SOME = 0.1
"""Less than this is no agreement to speak of."""
MOST_CANDIDATES, MOST_COLUMNS = 32, 256
"""So many candidates are tried, and so many columns held against each."""
SOME_ROWS, SOME_COLUMNS, PAIRS, TOGETHER = 1 << 14, 16, 6, 4
"""Columns that name units together: rows and columns looked at, pairs tried, columns at most."""
LIFT, LEAST_PAIRS = 2.0, 100
"""Rows are equal in several columns so many times more often than by chance, and so many pairs
of rows are."""
SPLIT = 0.8
"""A column that leaves more of the equal rows equal adds nothing: it follows from the rest."""


@dataclass(frozen=True)
class _Candidate:
    columns: tuple[Looked, ...]
    groups: tuple[Groups, ...]
    """The same groups, with neighbours in each of the columns."""

    @property
    def is_eligible(self) -> bool:
        """Whether there are many values that few rows hold."""
        groups = self.groups[0]
        return (
            groups.repeated >= LEAST_UNITS
            and groups.covered >= COVERED
            and groups.rows_each >= LEAST_EACH
            and len(groups.sizes) >= (TIMES if self.is_measured else KINDS) * groups.rows_each
        )

    @property
    def is_called_so(self) -> bool:
        """Whether it is one column that could name units, and is called like an identifier."""
        [first, *others] = self.columns
        return not others and first.names and names_a_thing(first.name)

    @cached_property
    def is_number(self) -> bool:
        """Whether all columns are numbers, and nothing suggests that they are names."""
        numbers = all(column.ordered for column in self.columns)
        return numbers and not self.is_called_so and not self.groups[0].is_given_out

    def agreement(self, signal: Scores | Kinds) -> Agreement | None:
        """Return the agreement beyond neighbours in any of the columns.

        Identifiers are often given out in the order of something: their neighbours do not count.
        """
        least = None
        for each in self.groups:
            agreement = each.agreement(signal)
            if agreement is not None and self.is_called_so:
                return replace(agreement, near=0.0)
            if least is None or (agreement is not None and agreement.beyond < least.beyond):
                least = agreement
            if least is None or least.beyond < SOME:  # it agrees with none of the others either
                break
        return least

    @property
    def is_measured(self) -> bool:
        """Whether all of these numbers get noise."""
        return self.is_number and all(c.noisy and not c.is_category for c in self.columns)


@dataclass(frozen=True)
class _Rows:
    """The rows that are looked at: each represents `scale` rows; `is_new` those that came."""

    scale: float
    is_new: Flags | None = None

    def groups(self, codes: Ints, *, ordered: bool, blocks: Ints | None = None) -> Groups:
        """Group the rows by codes."""
        if self.is_new is None:
            return Groups(codes, scale=self.scale, ordered=ordered, blocks=blocks)
        return Meetings(codes, self.is_new, scale=self.scale, ordered=ordered, blocks=blocks)


def find_units(columns: Sequence[Looked], *, rows: int, of: str = "rows") -> list[Unit]:
    """Return which columns name units, those first in which most columns agree.

    `columns` are those of all rows of a table, or of a sample of its `rows`, or of persons.
    """
    seen = len(columns[0].codes) if columns else 0
    if seen < LEAST_EVIDENCE:
        return []
    some = [c.some(slice(SOME_ROWS)) for c in columns]
    less = len(some[0].codes)
    # a row has rows - 1 partners in the table, and seen - 1 here
    units = _found(columns, _Rows((rows - 1) / (seen - 1)), some, _Rows((rows - 1) / (less - 1)))
    return [replace(unit, of=of) for unit in units]


def find_meetings(columns: Sequence[Looked], is_new: Flags, *, rows: int) -> list[Unit]:
    """Return which columns name units of which rows that come meet rows that are there.

    `columns` are those of both, `is_new` marks those that came; the others are a sample of `rows`.
    """
    old = int(np.count_nonzero(~is_new))
    if min(old, len(is_new) - old) < LEAST_EVIDENCE:
        return []
    looked = _Rows(rows / old, is_new)
    return _found(columns, looked, columns, looked)


def _found(
    columns: Sequence[Looked], rows: _Rows, some: Sequence[Looked], some_rows: _Rows
) -> list[Unit]:
    alone = [_alone(c, rows) for c in columns if c.names]
    units = list(_judged(alone, columns, SHARE))
    if not units:
        fractions = [_alone(c, some_rows) for c in some if not c.names]
        units = list(_judged([*fractions, *_several(some, some_rows)], some, MORE))
    return sorted(units, key=_place)


def _place(unit: Unit) -> tuple[float, float]:
    """Return what units are sorted by: those first in which most columns agree."""
    part = any(name.endswith(PART) for name in unit.columns)
    # then those that give away most of a value
    return -len(unit.agreeing) * (NEARLY if part else 1.0), unit.agreeing[0].value


def _alone(column: Looked, rows: _Rows) -> _Candidate:
    return _Candidate((column,), (rows.groups(column.codes, ordered=column.ordered),))


def _judged(
    candidates: Sequence[_Candidate], columns: Sequence[Looked], share: float
) -> Iterator[Unit]:
    """Yield the units among candidates; that share of the other columns must agree."""
    eligible = [each for each in candidates if each.is_eligible]
    eligible = sorted(eligible, key=lambda each: -len(each.groups[0].sizes))[:MOST_CANDIDATES]
    noisy = [c for c in columns if c.noisy] if eligible else []
    signals = {c.name: (c, signal) for c in noisy if (signal := c.signal())}
    # the first ones: more would cost time and hardly change the share that agrees
    signals = dict(list(signals.items())[:MOST_COLUMNS])
    # exp(-u) is ALPHA over all candidates and columns: see Agreement.chance
    u = math.log(max(1, len(eligible) * len(signals)) / ALPHA)
    for each in eligible:
        agreements = {
            column.name: agreement
            for column, signal in signals.values()
            if column not in each.columns and not _is_alias(column, each)
            if (agreement := each.agreement(signal))
        }
        strong = _strong(each, agreements, u)
        if each.is_number:
            strong = _beyond_monotone(each, strong, {n: signals[n][1] for n in strong}, u)
        if _are_few(each, strong, agreements, share, {n: signals[n][1] for n in agreements}):
            continue
        if not _follow(each, strong, agreements, u):
            yield _unit(each, strong)


def _is_alias(column: Looked, candidate: _Candidate) -> bool:
    """Whether a category is about as fine as the units: another name of them."""
    return column.is_category and column.distinct > len(candidate.groups[0].sizes) / 2


def _strong(
    candidate: _Candidate, agreements: Mapping[str, Agreement], u: float
) -> dict[str, Agreement]:
    """Return those that are no chance, and give away more than BOUND allows."""
    # p = v / (1 + v), so v = p / (1 - p)
    rows, noise = candidate.groups[0].rows_each, PRIVACY / (1 - PRIVACY)
    return {
        name: agreement
        for name, agreement in agreements.items()
        if agreement.beyond > agreement.chance(u)
        and left_of_value(agreement.beyond, rows, noise) < BOUND * PRIVACY
    }


def _beyond_monotone(
    candidate: _Candidate,
    strong: Mapping[str, Agreement],
    signals: Mapping[str, Scores | Kinds],
    u: float,
) -> dict[str, Agreement]:
    """Return those that are strong without what rises or falls with any of the measurements."""
    less = {
        name: replace(
            agreement,
            near=max(
                agreement.near,
                *(agreement.r * each.monotone(signals[name]) for each in candidate.groups),
            ),
        )
        for name, agreement in strong.items()
    }
    kept = _strong(candidate, less, u)
    return {name: strong[name] for name in kept}


def _are_few(
    candidate: _Candidate,
    strong: Mapping[str, Agreement],
    agreements: Mapping[str, Agreement],
    share: float,
    signals: Mapping[str, Scores | Kinds],
) -> bool:
    """Whether too few of the other noisy columns agree."""
    if candidate.is_called_so:
        return not strong
    if len(strong) < max(1.0, share * len(agreements)):
        return True
    if not candidate.is_measured:
        return False
    # columns that follow from one another agree together: they count as one
    held = _effective([signals[name] for name in strong])
    return held < MORE * _effective([*signals.values()])


def _effective(signals: Sequence[Scores | Kinds]) -> float:
    """Return how many columns hold as much as these: those that follow from others count less."""
    Z = np.array([signal.parts()[0][:SOME_ROWS] for signal in signals])
    deviations = Z.std(axis=1)
    Z = (Z - Z.mean(axis=1, keepdims=True))[deviations > 0] / deviations[deviations > 0, None]
    if not len(Z):
        return 0.0
    # exp(entropy) of the eigenvalues: N if columns are uncorrelated, 1 if all follow from one
    shares = np.maximum(np.linalg.eigvalsh(Z @ Z.T / Z.shape[1]), 1e-12) / len(Z)
    return math.exp(-float((shares * np.log(shares)).sum()))


def _unit(candidate: _Candidate, strong: Mapping[str, Agreement]) -> Unit:
    """Return the unit that a candidate is."""
    groups, noise = candidate.groups[0], PRIVACY / (1 - PRIVACY)
    agreeing = [
        Agreeing(
            name,
            agreement.r,
            left_of_value(agreement.r, groups.rows_each, noise),
            left_of_mean(agreement.r, groups.rows_each, noise),
        )
        for name, agreement in strong.items()
    ]
    return Unit(
        tuple(column.name for column in candidate.columns),
        len(groups.sizes),
        groups.rows_each,
        tuple(sorted(agreeing, key=lambda each: each.value)),
        groups.mean_rows,
        groups.largest,
    )


def _follow(
    candidate: _Candidate,
    strong: Mapping[str, Agreement],
    agreements: Mapping[str, Agreement],
    u: float,
) -> bool:
    """Whether columns agree because they follow from the candidate, as a price from a product.

    Of what cannot name units, one column alone is not enough; nor, where there are others, of a
    measurement, as of wages in steps that differ from state to state. What is called like an
    identifier names units by a constant column if others agree too, however little.
    """
    if len(strong) == 1 and not all(column.names for column in candidate.columns):
        return True
    if len(strong) == 1 and len(agreements) > 1 and candidate.is_measured:
        return True
    only = all(agreement.r > SAME for agreement in strong.values())
    if only and not any(column.is_time for column in candidate.columns):
        others = (agreement for name, agreement in agreements.items() if name not in strong)
        agree = any(agreement.beyond > agreement.chance(u) for agreement in others)
        return len(strong) == 1 and not (candidate.is_called_so and agree)
    return only


def _several(columns: Sequence[Looked], rows: _Rows) -> Iterator[_Candidate]:
    """Yield columns that name units together: in which rows are equal more often than by chance.

    From the best pairs on, columns are added in which rows are equal more often still.
    """
    alike = {c: share_of_equal_pairs(c.codes) for c in columns}
    usable = sorted((c for c in columns if 0 < alike[c] < 0.9), key=lambda c: alike[c])
    usable, lifts = usable[:SOME_COLUMNS], {}
    for one, two in combinations(usable, 2):
        share = share_of_equal_pairs(joined(one.codes, two.codes))
        if share * len(one.codes) ** 2 / 2 > LEAST_PAIRS and share < SPLIT * alike[one]:
            # P(equal in both) over P(equal in one) P(equal in the other): 1 if independent
            lifts[one, two] = share / (alike[one] * alike[two])
    tried = set()
    for pair in sorted(lifts, key=lambda pair: -lifts[pair])[:PAIRS]:
        chosen = [*pair] if lifts[pair] > LIFT else []
        while chosen:
            if (names := frozenset(chosen)) not in tried:
                yield _together(chosen, rows)
            tried.add(names)
            chosen = _with_one_more(chosen, usable, alike)


def _with_one_more(
    chosen: list[Looked], usable: Sequence[Looked], alike: dict[Looked, float]
) -> list[Looked]:
    """Return columns with the one in which rows that are equal in them are equal most."""
    if len(chosen) == TOGETHER:
        return []
    codes = chosen[0].codes
    for column in chosen[1:]:
        codes = joined(codes, column.codes)
    before, best, most = share_of_equal_pairs(codes), None, LIFT
    for column in usable:
        share = (
            share_of_equal_pairs(joined(codes, column.codes)) if column not in chosen else before
        )
        if 0 < share < SPLIT * before and share / (before * alike[column]) > most:
            best, most = column, share / (before * alike[column])
    return [*chosen, best] if best else []


def _together(columns: Sequence[Looked], rows: _Rows) -> _Candidate:
    """Return columns as a candidate: neighbours differ in one of them, and agree in the rest."""
    groups = []
    for last in columns:
        rest = np.zeros(len(last.codes), dtype=np.int64)
        for column in columns:
            if column is not last:
                rest = joined(rest, column.codes)
        groups.append(rows.groups(joined(rest, last.codes), ordered=True, blocks=rest))
    return _Candidate(tuple(columns), tuple(groups))


def joined(codes: Ints, others: Ints) -> Ints:
    """Return one code for each combination of two, ascending with the first, then the second."""
    both = codes * (int(others.max(initial=0)) + 1) + others
    both[(codes < 0) | (others < 0)] = -1
    here = both >= 0
    both[here] = np.unique(both[here], return_inverse=True)[1]
    return both


def share_of_equal_pairs(codes: Ints) -> float:
    """Return the share of pairs of rows that are equal."""
    # n (n - 1) ordered pairs of a value, of all ordered pairs
    counts = np.bincount(codes[codes >= 0])
    return float((counts * (counts - 1)).sum()) / max(1, len(codes) * (len(codes) - 1))
