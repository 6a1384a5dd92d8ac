"""The audit of files: read, accumulate, test, judge.

                              ┌─ checks     is each copy's noise what it must be?
    numbers ──── one pass ────┼─ gains      what does any coalition recover?
    of source     of sums     └─ posterior  would the best nonlinear estimate recover more?
    and copies ─ a second ────── exposure   which records are too extreme to hide?

    categories ─ one pass ────┬─ checks     are they refreshed as stated, along one path?
                 of codes     └─ guesses    what stays hidden, alone and together?

    some rows of ──────────────┬─ checks     do noise and draws have nothing in common?
    everything                 └─ whole      does everything in a copy hide what it states?

It needs no key, no ledger and no metadata, and works on copies made by any tool.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.attack import LEAST_KNOWN, KnownRows, attack_rows, left_by_posterior
from cornerwave.audit._alignment import Aligned
from cornerwave.audit._apart import APART_FAMILIES, ApartEvidence
from cornerwave.audit._category_checks import CATEGORY_FAMILIES, CategoryEvidence
from cornerwave.audit._chance import (
    ALPHA,
    LEAST_AUDITED,
    Check,
    names_by_chance,
    refuse_overflow,
    run_all,
)
from cornerwave.audit._coalitions import Gain, Posterior, attack_sample, hidden, measure_gains
from cornerwave.audit._everything import gather_everything
from cornerwave.audit._exposed import Exposed, ExposurePass
from cornerwave.audit._guesses import CategoriesRead, CategoryCodes, Guessed, Guesses, guess_all
from cornerwave.audit._left import Left
from cornerwave.audit._linked import LINKED_FAMILIES, WORDS, LinkedAudit, LinkedEvidence
from cornerwave.audit._linked_view import PersonsBeside
from cornerwave.audit._mixed_checks import (
    DERIVED_FAMILIES,
    MIXED_FAMILIES,
    DerivedEvidence,
    MixedEvidence,
)
from cornerwave.audit._number_checks import FAMILIES_IN_TIME, NUMBER_FAMILIES
from cornerwave.audit._numbers import NumberEvidence, NumbersRead, too_few
from cornerwave.audit._row_checks import check_order
from cornerwave.audit._stated import with_metadata
from cornerwave.audit._sums import Statistics
from cornerwave.audit._whole import WHOLE_FAMILIES
from cornerwave.choices import DERIVED, KEPT, KEY, UNIT
from cornerwave.errors import SourceError
from cornerwave.sources import Progress, silent

NUMBER_CHECKS = names_by_chance(NUMBER_FAMILIES)
CATEGORY_CHECKS = names_by_chance(CATEGORY_FAMILIES)
MIXED_CHECKS = (
    *names_by_chance(MIXED_FAMILIES),
    *names_by_chance(APART_FAMILIES),
    *names_by_chance(WHOLE_FAMILIES),
    *names_by_chance(LINKED_FAMILIES),
)
"""The names of the checks that chance could fail, in their order."""

SHARE = ALPHA / len((*NUMBER_CHECKS, "gain", "nonlinear", *CATEGORY_CHECKS, *MIXED_CHECKS))
"""The share of ALPHA of each family of checks, of the gains and of the nonlinear attack."""


@dataclass(frozen=True)
class NumberAudit:
    """What was found about the numbers; indices refer to the columns here.

    `columns` were audited; `constant` ones have nothing to hide, `bare` ones are the same
    in every copy and the source. `singles` (M, N) is the share of each column's variance
    that stays hidden from each copy alone; `sets` counts the coalitions that were attacked.
    `found` are the sums over all rows that were tested, `complete` of which miss no number.
    `bayes` (M, N) is the share that an adversary who knows how rows are distributed left, from the
    column or from all numbers of one copy together. `factors` (M, N) are those by which copies
    state that they drew columns together, to be undone.
    """

    columns: tuple[str, ...]
    constant: tuple[str, ...]
    bare: tuple[str, ...]
    found: Statistics
    complete: int
    checks: tuple[Check, ...]
    singles: Floats
    gains: tuple[Gain, ...]
    sets: int
    posterior: Posterior | None
    exposed: Exposed
    bayes: Floats
    factors: Floats

    @property
    def rounded_to(self) -> Floats:
        """The steps that copies show, (M, N)."""
        return self.found.steps * self.factors

    @property
    def alarms(self) -> list[Gain]:
        """The coalitions that gain, the largest gain first."""
        return sorted((g for g in self.gains if g.gains), key=lambda g: -float(g.gain.max()))

    @property
    def beaten(self) -> bool:
        """Whether all copies together gain by the best nonlinear estimate."""
        best = self.posterior
        return best is not None and best.gain.above_zero and best.gain.low > best.rounding


@dataclass(frozen=True)
class CategoryAudit:
    """What was found about the categories.

    `judged` were attacked in `kept` of all `rows`; `constant` ones have nothing to hide,
    `bare` ones are the same in every copy and the source, `boundless` ones have too many
    values for a category.
    """

    rows: int
    kept: int
    judged: tuple[CategoryCodes, ...]
    constant: tuple[str, ...]
    bare: tuple[str, ...]
    boundless: tuple[str, ...]
    checks: tuple[Check, ...]
    guesses: Guesses | None

    @property
    def alarms(self) -> list[Guessed]:
        """The guesses of coalitions that gain, the largest gain first."""
        sets = self.guesses.sets if self.guesses else ()
        return sorted(filter(self.gains, sets), key=lambda guessed: -guessed.gain)

    def gains(self, guessed: Guessed) -> bool:
        """Whether a set gains: some of its copies fail as a path, and the guess is better."""
        broken = [c.copies for c in self.checks if c.name == "path" and not c.passed]
        return guessed.gain > 0 and any(set(copies) <= set(guessed.copies) for copies in broken)


@dataclass(frozen=True)
class Audit:
    """Everything that was found; indices of copies refer to the names here.

    `numbers` or `categories` is None if the table has none; `mixed` are the checks over both,
    `privacy` is what copies state, `whole` what everything in each copy leaves hidden of each
    column, in `whole_rows` of the rows, except the `unmeasured` ones; `noise_free` is whether
    copies show anything without noise, and `learned` what boosting, against which nothing is
    promised, leaves of numbers. `untested` is what the verdict does not cover, and why.
    """

    source: str
    copies: tuple[str, ...]
    stated: tuple[float | None, ...]
    sorted_copies: tuple[str, ...]
    logarithmic: tuple[str, ...]
    apart: Mapping[str, str]
    left_out: Mapping[str, str]
    untested: Mapping[str, str]
    rows: int
    numbers: NumberAudit | None
    categories: CategoryAudit | None
    order: tuple[Check, ...] = ()
    mixed: tuple[Check, ...] = ()
    privacy: tuple[float | None, ...] = ()
    whole: tuple[tuple[Left, ...], ...] = ()
    whole_rows: int = 0
    noise_free: bool = False
    learned: tuple[Mapping[str, float], ...] = ()
    unmeasured: tuple[str, ...] = ()
    linked: LinkedAudit | None = None
    time: str | None = None
    silent: tuple[str, ...] = ()
    """The copies that state nothing about their columns."""

    @property
    def checks(self) -> list[Check]:
        """All checks of all copies."""
        parts = [part.checks for part in (self.numbers, self.categories) if part is not None]
        return [check for checks in (*parts, self.mixed, self.order) for check in checks]

    @property
    def faults(self) -> list[Check]:
        """The checks that failed."""
        return [check for check in self.checks if not check.passed]

    @property
    def unseen(self) -> dict[str, list[tuple[int, ...]]]:
        """The leaks that the files are too small or too coarse to show, and in which copies."""
        unseen: dict[str, list[tuple[int, ...]]] = {}
        for check in self.checks:
            levels = [self.stated[i] for i in check.copies]
            still = len(levels) == 2 and levels[0] is not None and levels[0] == levels[1]
            if check.unseen and not still:
                unseen.setdefault(check.unseen, []).append(check.copies)
        return unseen

    @property
    def sound(self) -> bool:
        """Whether no coalition gains and no check fails, as far as anything was tested."""
        gained = self.numbers is not None and (bool(self.numbers.alarms) or self.numbers.beaten)
        return not (gained or self.faults)

    @property
    def clean(self) -> bool:
        """Whether nothing was found, and nothing left untested."""
        return self.sound and not self.untested


@refuse_overflow()
def audit(
    source: Any,
    copies: Sequence[Any],
    *,
    key: str | None = None,
    unit: str | Sequence[str] | None = None,
    privacy: Sequence[float] | None = None,
    metadata: Sequence[Mapping[str, object] | None] | None = None,
    others: Sequence[PersonsBeside] = (),
    progress: Progress = lambda rows: None,
) -> Audit:
    """Audit copies of a source: files or frames, aligned by position or by a key column.

    `unit` is the column whose values the rows of one person share, or two columns, of households
    and of persons in them; by default, what copies state.
    `privacy` is what each copy should hide of every column; by default, what it states. `metadata`
    is what each copy states, where it is a frame that cannot hold it, such as one of polars; a copy
    that states nothing is taken for a raw one. `others` is what the holder of each copy has of the
    same persons, from copies of other tables. Raises SourceError or ColumnError if they are not
    copies of the same rows, LevelError if `privacy` does not fit.
    """
    stated = with_metadata(copies, metadata) if metadata else copies
    aligned = Aligned.of(source, stated, key=key, unit=unit, privacy=privacy)
    return audit_aligned(aligned, progress, others)


@refuse_overflow()
def audit_aligned(
    aligned: Aligned, progress: Progress = silent, others: Sequence[PersonsBeside] = ()
) -> Audit:
    """Audit copies whose rows lie beside those of their source, wherever passes over them run."""
    # rows of a person share noise: checks of independent rows see one of each
    aligned = aligned.one_row_each()
    read = NumbersRead.of(aligned, progress) if aligned.columns else None
    # numbers: sums, rows and steps of the path
    measured = read.evidence() if read else None
    unjudged = read.unjudged if read and measured is None else {}
    numbers = audit_numbers(aligned, measured) if measured else None
    collected = CategoriesRead.of(aligned, progress) if aligned.categories else None
    shown = CategoryEvidence.of(collected, aligned, alone=numbers is None) if collected else None
    categories = audit_categories(collected, shown) if collected and shown else None
    # numbers that clipping or ranks leave open in part
    lone = ApartEvidence.of(aligned) if aligned.apart else None
    if numbers is None and categories is not None and not categories.kept:
        names = ", ".join(categories.boundless)
        raise SourceError(f"nothing to compare: {names} have too many values for a category")
    rows = numbers.found.rows if numbers else categories.rows if categories else 0
    rows = lone.kept.seen if lone else rows
    if rows < LEAST_AUDITED:
        raise too_few(rows)
    mixed: tuple[Check, ...] = ()
    if measured and shown and aligned.stated.time is None:
        mixed = run_all(MIXED_FAMILIES, MixedEvidence(measured, shown), SHARE)
    if lone is not None:
        mixed += run_all(APART_FAMILIES, lone, SHARE)
    # everything in a copy together, against what it states
    whole = gather_everything(aligned, rows, numbers=read, categories=shown, lone=lone)
    judged = whole.judge(SHARE)
    together = LinkedEvidence.of(whole, aligned, others)
    linked = together.audit(SHARE) if together else None
    scarce = unjudged if read and read.scarce else {}
    missed = untested(aligned, {**aligned.left_out, **scarce}, numbers, categories, judged)
    missed = vague_persons(aligned.names, linked) | missed if linked else missed
    return Audit(
        source=aligned.source.name,
        copies=aligned.names,
        stated=aligned.stated.noise,
        sorted_copies=aligned.sorted_copies,
        logarithmic=aligned.logarithmic,
        apart=aligned.apart,
        left_out={**aligned.left_out, **unjudged},
        untested=missed,
        rows=len(aligned.persons.codes) if aligned.persons else rows,
        numbers=numbers,
        categories=categories,
        order=check_order(
            aligned,
            numbers=numbers.columns if numbers else (),
            categories=[name for each in categories.judged for name in each.columns]
            if categories
            else (),
            seen=read.first.order if read else None,
        ),
        mixed=(
            *mixed,
            *run_all(WHOLE_FAMILIES, whole, SHARE),
            *run_all(DERIVED_FAMILIES, DerivedEvidence.of(aligned), SHARE),
            *(run_all(LINKED_FAMILIES, together, SHARE) if together else ()),
        ),
        privacy=aligned.stated.whole,
        whole=judged,
        whole_rows=whole.rows,
        noise_free=whole.free,
        learned=whole.learned,
        unmeasured=whole.unmeasured,
        linked=linked,
        time=aligned.stated.time,
        silent=tuple(
            name for name, is_ in zip(aligned.names, aligned.stated.silent, strict=True) if is_
        ),
    )


def audit_numbers(aligned: Aligned, evidence: NumberEvidence) -> NumberAudit:
    """Test and attack what was read of the numbers."""
    statistics, read = evidence.found, evidence.read
    gains, sets = measure_gains(evidence.attacked, SHARE)
    every, in_time = aligned.whole or aligned, aligned.stated.time is not None
    exposure = ExposurePass(
        evidence.used, statistics.rows, statistics.mean, statistics.K, statistics.noise
    )
    return NumberAudit(
        columns=tuple(evidence.columns),
        constant=read.of_kind("constant"),
        bare=read.of_kind("bare") if len(evidence.used) < len(read.kinds) else (),
        found=statistics,
        complete=evidence.complete,
        checks=run_all(FAMILIES_IN_TIME if in_time else NUMBER_FAMILIES, evidence, SHARE),
        singles=hidden(evidence.attacked, [(i,) for i in range(statistics.copies)]),
        gains=tuple(gains),
        sets=sets,
        posterior=None if in_time else attack_sample(evidence.attacked, evidence.sample, SHARE),
        bayes=_left_by_distribution(evidence),
        factors=evidence.factors,
        exposed=every.run(lambda rows: exposure, [every.source]),
    )


def _left_by_distribution(evidence: NumberEvidence) -> Floats:
    """Return what an adversary who knows the distribution leaves of each column, (M, N).

    By the posterior from that column alone, or from all numbers of the copy together if that is
    less: attacked in rows of the copy itself, given other rows of the source.
    """
    rows, statistics = evidence.rows, evidence.found
    unknown = np.full(statistics.copies, np.nan)
    # E[X | Y] by the distribution of the column alone
    alone = [
        left_by_posterior(row, statistics.noise.tolist()) if np.isfinite(row).any() else unknown
        for row in rows.truth
    ]
    copies = np.where(np.isnan(rows.raw[1:]), np.nan, rows.scaled[1:])
    together = np.full(copies.shape[:2], np.nan)
    known = KnownRows(
        tuple(evidence.columns), rows.truth, statistics.mean, statistics.K, statistics.shape
    )
    for i in np.flatnonzero(statistics.noise > 0) if rows.count >= LEAST_KNOWN else ():
        together[i] = attack_rows(known, copies[i], float(statistics.noise[i]))
    return np.asarray(np.fmin(np.stack(alone, axis=1), together))


def audit_categories(collected: CategoriesRead, evidence: CategoryEvidence) -> CategoryAudit:
    """Test and attack what was read of the categories."""
    judged = evidence.judged
    return CategoryAudit(
        rows=collected.rows,
        kept=collected.kept,
        judged=tuple(judged),
        constant=tuple(each.name for each in collected.shown if each.constant),
        bare=tuple(each.name for each in evidence.bare),
        boundless=tuple(collected.boundless),
        checks=run_all(CATEGORY_FAMILIES, evidence, SHARE),
        guesses=guess_all(judged, SHARE) if judged else None,
    )


# --------------------------------------------------------------------------------------------------
# What a verdict does not cover: columns of copies that should hide something, and could not be
# tested. Constant columns hide nothing; kept columns and keys are as the owner wanted them.


def untested(
    aligned: Aligned,
    left_out: Mapping[str, str],
    numbers: NumberAudit | None,
    categories: CategoryAudit | None,
    whole: Sequence[Sequence[Left]],
) -> dict[str, str]:
    """Return the columns and copies that the verdict does not cover, and why."""
    reasons = dict(left_out)
    for name in categories.boundless if categories else ():
        reasons[name] = f"{name} has too many values for a category"
    owed = {name: why for name, why in reasons.items() if not _as_it_is(aligned, name)}
    vague = _vague_gains(numbers) | _vague_shares(aligned.names, numbers, whole)
    return owed | dict(_unmeasured(aligned, numbers, whole)) | vague


def _vague_shares(
    copies: Sequence[str], numbers: NumberAudit | None, whole: Sequence[Sequence[Left]]
) -> dict[str, str]:
    """Return the columns of which chance hides whether copies hide what they state.

    Not numbers whose promise was tested in all rows, where chance is less.
    """
    tested, vague = _promised(numbers), dict[str, list[str]]()
    for i, shares in enumerate(whole):
        for left in shares:
            known = numbers is not None and i in tested and left.column in numbers.columns
            if left.stated is not None and not left.is_measured and not known:
                vague.setdefault(left.column, []).append(copies[i])
    return {
        column: f"{column}: what {' and '.join(names)} {'hide' if len(names) > 1 else 'hides'} of "
        "it was not measured precisely enough to judge"
        for column, names in vague.items()
    }


def vague_persons(copies: Sequence[str], linked: LinkedAudit) -> dict[str, str]:
    """Return the columns of which chance hides what copies leave of persons."""
    return {
        left.column: f"{left.column}: what {copies[members[0]]} hides of {WORDS[left.attack]} was "
        "not measured precisely enough to judge"
        for members, left in linked.left
        if len(members) == 1 and left.stated is not None and not left.is_measured
    }


def _promised(numbers: NumberAudit | None) -> set[int]:
    """Return the copies whose promise was tested by their numbers alone, in all rows."""
    checks = numbers.checks if numbers else ()
    return {i for check in checks if check.name == "promise" for i in check.copies}


def _vague_gains(numbers: NumberAudit | None) -> dict[str, str]:
    """Return the columns in which a coalition that recovers everything would not be seen."""
    if numbers is None or not numbers.gains:
        return {}
    margins = np.max([gain.margin for gain in numbers.gains], axis=0)
    return {
        column: f"{column}: what coalitions gain was not measured precisely enough to judge"
        for column, margin in zip(numbers.columns, margins.tolist(), strict=True)
        if not margin < 1
    }


def _as_it_is(aligned: Aligned, name: str) -> bool:
    """Whether all copies that state anything about a column state that it was not perturbed, or
    follows from another one, which is checked.
    """
    roles = [role for part in name.split("+") for role in aligned.stated.roles(part)]
    return bool(roles) and all(role in (KEPT, KEY, UNIT, DERIVED) for role in roles)


def _unmeasured(
    aligned: Aligned, numbers: NumberAudit | None, whole: Sequence[Sequence[Left]]
) -> Iterator[tuple[str, str]]:
    """Yield the copies that state a privacy which neither all of it nor its numbers could test.

    Categories alone are tested by their retention.
    """
    if numbers is None:
        return
    promised = _promised(numbers)
    for i, (name, stated) in enumerate(zip(aligned.names, aligned.stated.whole, strict=True)):
        if stated is not None and not whole[i] and i not in promised:
            yield name, f"{name}: too few rows to measure what it hides"
