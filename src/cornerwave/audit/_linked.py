"""Does a copy hide what it states of a person, from someone who knows which rows are theirs?

For a table with a unit, privacy p is promised of three things, for each column:

    value     x_i, a cell
    mean      the mean of the person's cells
    change    x_i - x_j, j the next row in time, or without a time any other of the person's

Each is estimated from files alone, by a regression that is fitted to other persons than it is
scored in, on what the copy shows: the row and row j, the person's means, the number of the person's
rows m, and means and rows over m, since fewer rows reveal less. Categories enter by their
coordinates (_attacks), and for them the vote counts too: the value that the copy shows in most of
the person's rows. All copies together are one more adversary: they must not hide less than the best
of them states. Copies of other tables of the same persons reveal more: what they show of a
person counts too (_linked_view).

Of persons in households, in whole ones by someone who knows which they are, two more:

    group     the mean of the household's cells
    apart     the mean of a person's cells less that of another person of the household

and, in a table with a time, both at one time: the mean of the household's cells at the time of a
row, and the row less another person's row at that time.

The order of a person's rows may reveal more, as in a series of years. Then the rows around a row
and its place count too: against what is stated, or as a note where the owner chose to keep
the order.

In a table with a time there are two adversaries. One does not know the times, unless copies show
them as they are, and estimates everything. The other knows the order of a person's rows in time,
and so the time itself, and what it does to everybody: of numbers, what counts is the rest,

    x_i - (d_i - mean d)' w        d dummies of the time of row i, w by least squares in persons

The hidden share h = mean L / mean V of squares is compared with what is stated as in _whole, its
error from person to person.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Floats, Ints
from cornerwave.audit._alignment import Aligned
from cornerwave.audit._attacks import Target
from cornerwave.audit._chance import ALPHA, LEAST_AUDITED, Check, Family
from cornerwave.audit._everything import gather_rows
from cornerwave.audit._fits import boost, ridge, standard
from cornerwave.audit._left import Left, Loss
from cornerwave.audit._linked_view import (
    APART,
    APART_THEN,
    CHANGE,
    GROUP,
    GROUP_THEN,
    MEAN,
    VALUE,
    LinkedView,
    PersonsBeside,
    vote,
)
from cornerwave.audit._membership import History
from cornerwave.audit._whole import WholeEvidence
from cornerwave.choices import KEPT, SHUFFLE

MOST_LINKED_ROWS, MOST_OF_ONE = 1 << 15, 256
"""So many rows of persons are looked at, at most, and of one person."""

MOST_TIMES, NOTHING = 48, 1e-12
"""Times that are distinguished at most, and a share of a variance that is rounding."""

WORDS = {
    VALUE: "each value",
    MEAN: "a person's mean",
    CHANGE: "a change between two rows",
    GROUP: "a household's mean",
    APART: "a difference between persons of a household",
    GROUP_THEN: "a household's mean at one time",
    APART_THEN: "a difference between persons of a household at one time",
}

LEARNED_COLUMNS, LEARNED_LINKED_ROWS = 8, 1 << 14
"""Boosting estimates so many columns, in so many rows."""

LinkedLeft = tuple[tuple[int, ...], Left]
"""Copies, and what they leave of a column; its `attack` is what was estimated."""


@dataclass(frozen=True)
class LinkedEvidence:
    """All rows of some persons, as files show them."""

    everything: WholeEvidence
    history: History
    unit: str
    total: int
    beside: Sequence[Floats] = ()
    """What copies of other tables show of the persons, copy by copy."""
    when: Ints | None = None
    """The rank of each row's time, which this adversary knows."""
    time: str | None = None
    in_time: "LinkedEvidence | None" = None
    """The same rows in the order of their times, for someone who knows these."""

    @classmethod
    def of(
        cls, evidence: WholeEvidence, aligned: Aligned, others: Sequence[PersonsBeside] = ()
    ) -> "LinkedEvidence | None":
        """Read all rows of some persons; None if rows do not belong to persons, or one to each.

        One to each is enough where copies of `others` show the same persons.
        """
        whole, persons = aligned.whole, aligned.persons
        if whole is None or persons is None:
            return None
        if persons.sizes.max(initial=0) < 2 and not others:
            return None
        places, person = persons.sampled(MOST_LINKED_ROWS, MOST_OF_ONE)
        # rows are read in the order of the file, and put back by person
        ascending = np.argsort(places, kind="stable")
        back = np.argsort(ascending, kind="stable")
        rows = gather_rows(evidence, whole, places[ascending])
        rows = replace(rows, ordered=evidence.ordered)
        rows, time = rows.taken(back), aligned.stated.time
        first = places[History(person).starts]
        beside = [_beside(whole, i, first, each) for i, each in enumerate(others)]
        history = History(person)
        if persons.within is not None:
            numbers = np.unique(persons.within.codes[places], return_inverse=True)[1]
            history = History(numbers, outer=history)
        unordered = cls(rows, history, persons.unit, persons.count, beside)
        if time is None or time not in whole.source.schema.names:
            return unordered
        when = _ranks(*whole.values_at(time, places[ascending]))[back]
        order = np.lexsort((when, history.person))
        numbers, when = history.person[order], when[order]
        series = replace(
            unordered,
            everything=rows.taken(order),
            history=History.in_order_of(time_bins(when), numbers, history.outer),
            when=when,
            time=time,
        )
        if KEPT in aligned.stated.roles(time):
            return series
        return replace(unordered, in_time=series)

    @property
    def persons(self) -> int:
        """How many persons, or households, are looked at."""
        return len(self._clusters.sizes)

    @property
    def _clusters(self) -> History:
        """Rows by what is independent: by household, or by person."""
        return self.history.outer or self.history

    @property
    def kinds(self) -> tuple[str, ...]:
        """What is estimated."""
        kinds: tuple[str, ...] = (VALUE, MEAN, CHANGE)
        if self.history.outer is not None:
            kinds = (*kinds, GROUP, APART)
        if self.history.moment is not None:
            kinds = (*kinds, GROUP_THEN, APART_THEN)
        return kinds

    @cached_property
    def adversaries(self) -> list[tuple[tuple[int, ...], LinkedView]]:
        """What single copies show, and what all of them show together."""
        copies = range(len(self.everything.stated.copies))
        shown = [self._shown(i) for i in copies]
        alone: list[tuple[tuple[int, ...], LinkedView]] = [
            ((i,), each) for i, each in zip(copies, shown, strict=True)
        ]
        if len(shown) < 2:
            return alone
        joined = LinkedView(
            self.history,
            {n: np.vstack([each.columns[n] for each in shown]) for n in shown[0].columns},
            {n: np.vstack([each.votes[n] for each in shown]) for n in shown[0].votes},
            np.vstack([each.beside for each in shown]),
            {n: np.vstack([e.outer_votes[n] for e in shown]) for n in shown[0].outer_votes},
        )
        return [*alone, (tuple(copies), joined)]

    def _shown(self, i: int) -> LinkedView:
        columns = self.everything.shown_columns(i)
        categories = [each.name for each in self.everything.categories[0]]
        votes = {name: vote(self.history, columns[name]) for name in categories}
        beside = self.beside[i] if self.beside else np.empty((0, 0))
        outer = self.history.outer
        of_outer = {name: vote(outer, columns[name]) for name in categories if outer}
        return LinkedView(self.history, columns, votes, beside, of_outer)

    def targets(self, kind: str) -> dict[str, Target]:
        """Return what is estimated of each column, where there is enough of it that varies."""
        chosen = {}
        for target in self.everything.targets:
            if target.name == self.time:
                continue
            values = target.values
            if self.when is not None and not target.category:
                values = less_time(values, self.when, self.history)
            if kind == MEAN:
                values = self.history.means(values)
            elif kind == CHANGE:
                values = self.history.changes(values)
            elif kind == APART:
                values = self.history.apart(values)
            elif kind == GROUP:
                values = self._clusters.means(values)
            elif kind == GROUP_THEN:
                values = self.history.at_one_time(values)
            elif kind == APART_THEN:
                values = self.history.apart_at_one_time(values)
            each = replace(target, values=values)
            if each.present.sum() >= LEAST_AUDITED and each.varies:
                chosen[target.name] = each
        return chosen

    @cached_property
    def losses(self) -> list[tuple[tuple[int, ...], str, str, Loss]]:
        """What each adversary leaves of each column and kind, with and without the times."""
        targets = {kind: self.targets(kind) for kind in self.kinds}
        alone = [
            (copies, name, kind, self._loss(shown, target, kind, ordered=self.everything.ordered))
            for copies, shown in self.adversaries
            for kind, columns in targets.items()
            for name, target in columns.items()
        ]
        return alone if self.in_time is None else [*alone, *self.in_time.losses]

    def _loss(self, shown: LinkedView, target: Target, kind: str, *, ordered: bool) -> Loss:
        present, history = target.present, self.history
        part, clusters, weights = history.part, self._clusters.person, None
        if kind in (MEAN, APART):
            part, clusters = part[history.starts], history.household
            weights = history.sizes.astype(np.float64)
        elif kind == GROUP:
            part, clusters = part[self._clusters.starts], np.arange(self.persons)
            weights = self._clusters.sizes.astype(np.float64)
        # L = |T - B D|^2, with B fitted to the other persons: what an adversary leaves of each row
        D = standard(shown.features(target.name, kind, ordered=ordered)[:, present])
        T = target.values[:, present]
        L = ((T - ridge(D, T, part[present])) ** 2).sum(axis=0)
        loss = Loss.of(target, L, sampled=True, clusters=clusters, weights=weights)
        # what persons have in common is known no better than from so many of them
        return replace(loss, rows=len(np.unique(clusters[present])))

    def judge(self, alpha: float) -> list[LinkedLeft]:
        """Return what adversaries leave beside what is stated: the worse of two with one copy."""
        stated = self.everything.stated
        by_name = {target.name: target for target in self.everything.targets}
        judged: dict[tuple[tuple[int, ...], str, str], Left] = {}
        for copies, name, kind, loss in self.losses:
            shares = [stated.promised(i, by_name[name].columns) for i in copies]
            known = [share for share in shares if share is not None]
            share = min(known) if len(known) == len(copies) else None
            if loss.error <= loss.least_error(min(share or 0.0, 1.0)):
                # where few persons are wrong, honest noise shows how far chance goes
                loss = replace(loss, freedom=max(loss.freedom, int(loss.rows)))
            # Bonferroni over adversaries, columns and kinds
            each = alpha / len(self.losses)
            left = loss.beside(name, share, each, kind)
            other = judged.get((copies, name, kind), left)
            judged[copies, name, kind] = max(other, left, key=lambda worse: worse.off)
        return [(copies, left) for (copies, _, _), left in judged.items()]

    @cached_property
    def in_order(self) -> list[tuple[int, Left]]:
        """What each copy leaves of values from the order of a person's rows, where that was chosen
        and leaves much less than is stated.
        """
        if self.everything.ordered or self.is_shuffled:
            return []
        measured = []
        for copies, shown in self.adversaries:
            if len(copies) == 1:
                for name, target in self.targets(VALUE).items():
                    share = self.everything.stated.promised(copies[0], target.columns)
                    loss = self._loss(shown, target, VALUE, ordered=True)
                    measured.append((copies[0], loss.beside(name, share, ALPHA, VALUE)))
        return [(i, left) for i, left in measured if left.short]

    @property
    def is_shuffled(self) -> bool:
        """Whether the order of rows reveals nothing."""
        return all(each.order == SHUFFLE for each in self.everything.stated.copies)

    @cached_property
    def learned(self) -> list[dict[str, float]]:
        """What boosting leaves of values, of each copy and some columns: also from the order."""
        if self.in_time is not None:
            return self.in_time.learned
        targets = list(self.targets(VALUE).values())[:LEARNED_COLUMNS]
        return [
            {each.name: self._boosted(shown, each) for each in targets}
            for copies, shown in self.adversaries
            if len(copies) == 1
        ]

    def audit(self, alpha: float) -> "LinkedAudit":
        """Return what was measured."""
        rows = len(self.history.person)
        return LinkedAudit(
            self.unit,
            self.total,
            self.persons,
            rows,
            tuple(self.judge(alpha)),
            tuple(self.in_order),
            self,
        )

    def _boosted(self, shown: LinkedView, target: Target) -> float:
        rows = np.flatnonzero(target.present)[:LEARNED_LINKED_ROWS]
        T, part = target.values[:, rows], self.history.part[rows]
        D = shown.features(target.name, VALUE, ordered=True)[:, rows]
        linear = ridge(standard(D), T, part)
        every = np.ones(len(rows), dtype=bool)
        # boosting enters beside the linear estimate: it may lose to it where rows are few
        boosted = np.array([boost(np.vstack([D, linear]), [], t, every, part % 2) for t in T])
        estimate = ridge(standard(np.vstack([linear, boosted])), T, part)
        return float(((T - estimate) ** 2).sum() / max(T.var(axis=1).sum() * len(rows), 1e-300))


@dataclass(frozen=True)
class LinkedAudit:
    """What copies leave of persons: of `persons` of `total`, in `rows`; what is left of columns,
    copy by copy and of all together.
    """

    unit: str
    total: int
    persons: int
    rows: int
    left: tuple[LinkedLeft, ...]
    in_order: tuple[tuple[int, Left], ...]
    evidence: LinkedEvidence = field(repr=False, compare=False)

    @property
    def learned(self) -> tuple[Mapping[str, float], ...]:
        """What boosting leaves of each copy. Nothing is judged by it, and it takes most of the
        time of an audit: it is measured when it is first asked for.
        """
        return tuple(self.evidence.learned)


def _beside(aligned: Aligned, copy: int, places: Ints, others: PersonsBeside) -> Floats:
    """Return what others show of the persons of some rows, by what names them in a copy."""
    table, unit = aligned.copies[copy], aligned.persons.unit if aligned.persons else ""
    if unit not in table.schema.names:
        return np.empty((0, len(places)))
    ascending = np.argsort(places, kind="stable")
    values, codes = aligned.values_at(unit, places[ascending], table)
    names = np.array([*map(str, values), ""], dtype=object)[codes]
    shown = others.at(pa.array(names, pa.string()))
    back = np.empty_like(shown)
    back[:, ascending] = shown
    return back


def _ranks(values: Sequence[Any], codes: Ints) -> Ints:
    """Return the rank of each row's value, given distinct ones and their codes; missing first."""
    held = sorted((value, k) for k, value in enumerate(values) if value is not None)
    ranks = np.zeros(len(values) + 1, dtype=np.int64)
    for rank, (_, k) in enumerate(held, start=1):
        ranks[k] = rank
    return np.asarray(ranks[codes])


def time_bins(when: Ints) -> Ints:
    """Return numbers of times, by their ranks; if these are many, those that are near are one."""
    ranks = np.unique(when, return_inverse=True)[1]
    if int(ranks.max(initial=0)) < MOST_TIMES:
        return np.asarray(ranks)
    return np.asarray(np.argsort(np.argsort(when, kind="stable")) * MOST_TIMES // len(when))


def less_time(values: Floats, when: Ints, history: History) -> Floats:
    """Return numbers (k, n) less what time does to all persons: 0 where nothing else is left.

    `when` are ranks of times.
    """
    bins = time_bins(when)
    # one dummy for each time but the first, which goes with the constant
    dummies = (bins == np.unique(bins)[1:, None]).astype(np.float64)
    out = np.full(values.shape, np.nan)
    for row, numbers in zip(out, values, strict=True):
        held = np.isfinite(numbers)
        numbers = numbers - numbers[held].mean() if held.any() else numbers
        d = np.where(held, dummies, np.nan)
        # within persons: z - mean of the person, so that their own levels do not count as time
        apart = [np.nan_to_num(z - history.spread(history.means(z))) for z in (d, numbers[None])]
        effect = np.linalg.lstsq(apart[0].T, apart[1][0], rcond=1e-9)[0]
        left = numbers - (dummies - dummies.mean(axis=1, keepdims=True)).T @ effect
        # of a column that follows from person and time, rounding is left
        none = np.nanvar(left) <= NOTHING * np.nanvar(numbers) if held.any() else True
        row[:] = np.where(held, 0.0 if none else left, np.nan)
    return out


def linked(evidence: LinkedEvidence, alpha: float) -> Iterator[Check]:
    """Compare what each copy leaves hidden of a person with what it states."""
    judged = [(copies, left) for copies, left in evidence.judge(alpha) if left.stated is not None]
    for copies in dict.fromkeys(copies for copies, _ in judged):
        here = sorted((left for c, left in judged if c == copies), key=lambda left: -left.off)
        worst, *others = here
        note = "; ".join(_words(left) for left in [worst, *(o for o in others if o.short)])
        limit = worst.margin / worst.error
        yield Check.of(copies, max(worst.off, 0.0) * limit, limit, note)


def _words(left: Left) -> str:
    return (
        f"{left.hidden:.3f} of {WORDS[left.attack]} of {left.column} stays hidden from someone "
        f"who knows which rows belong to a person, and {left.stated or 0.0:.3f} is stated"
    )


LINKED_FAMILIES: tuple[Family[LinkedEvidence], ...] = (
    Family("persons", "a person's rows together leave hidden what is stated", linked),
)
