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

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Floats
from cornerwave.attack import LEAST_KNOWN, KnownRows, attack_rows, left_by_posterior
from cornerwave.audit._alignment import Aligned
from cornerwave.audit._apart import APART_FAMILIES, ApartEvidence
from cornerwave.audit._category_checks import (
    CATEGORY_FAMILIES,
    MIXED_FAMILIES,
    CategoryEvidence,
    MixedEvidence,
)
from cornerwave.audit._chance import ALPHA, Check, names_by_chance, refuse_overflow, run_all
from cornerwave.audit._coalitions import Gain, Posterior, attack_sample, hidden, measure_gains
from cornerwave.audit._everything import gather_everything
from cornerwave.audit._exposure import Exposed, check_order, count_exposed
from cornerwave.audit._guesses import CategoryCodes, Collected, Guessed, Guesses, guess_all
from cornerwave.audit._number_checks import NUMBER_FAMILIES
from cornerwave.audit._rows import Completion, NumberEvidence, RowKeeper
from cornerwave.audit._steps import Repeated, RepeatWatch, Watch, Watched
from cornerwave.audit._sums import NoiseSums, Statistics, means, steps_of, steps_still
from cornerwave.audit._untested import untested
from cornerwave.audit._whole import WHOLE_FAMILIES, Left
from cornerwave.columns import PERTURBED
from cornerwave.errors import SourceError
from cornerwave.privacy import RowOrder
from cornerwave.sources import Progress

LEAST_ROWS = 100
"""With fewer complete rows an audit could neither clear nor fail a copy."""

NUMBER_CHECKS = names_by_chance(NUMBER_FAMILIES)
CATEGORY_CHECKS = names_by_chance(CATEGORY_FAMILIES)
MIXED_CHECKS = (
    *names_by_chance(MIXED_FAMILIES),
    *names_by_chance(APART_FAMILIES),
    *names_by_chance(WHOLE_FAMILIES),
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
    column or from all numbers of one copy together.
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
        found = self.guesses.sets if self.guesses else ()
        return sorted(filter(self.gains, found), key=lambda guessed: -guessed.gain)

    def gains(self, guessed: Guessed) -> bool:
        """Whether a set gains: some of its copies fail as a path, and the guess is better."""
        broken = [c.copies for c in self.checks if c.name == "path" and not c.passed]
        return guessed.gain > 0 and any(set(copies) <= set(guessed.copies) for copies in broken)


@dataclass(frozen=True)
class Audit:
    """Everything that was found; indices of copies refer to the names here.

    `numbers` or `categories` is None if the table has none; `mixed` are the checks over both,
    `privacy` is what copies state, `whole` what everything in each copy leaves hidden of each
    column, in `whole_rows` of the rows, except the `unmeasured` ones; `noise_free` says whether
    copies show anything without noise, and `learned` what boosting, against which nothing is
    promised, leaves of numbers. `untested` says what the verdict does not cover, and why.
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
        found: dict[str, list[tuple[int, ...]]] = {}
        for check in self.checks:
            levels = [self.stated[i] for i in check.copies]
            still = len(levels) == 2 and levels[0] is not None and levels[0] == levels[1]
            if check.unseen and not still:
                found.setdefault(check.unseen, []).append(check.copies)
        return found

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
    privacy: Sequence[float] | None = None,
    progress: Progress = lambda rows: None,
) -> Audit:
    """Audit copies of a source: files or frames, aligned by position or by a key column.

    `privacy` is what each copy should hide of every column; by default, what it states.
    Raises SourceError or ColumnError if they are not copies of the same rows, LevelError if
    `privacy` does not fit.
    """
    aligned = Aligned.of(source, copies, key=key, privacy=privacy)
    seen = _pass_over(aligned, progress) if aligned.columns else None
    measured, unjudged = measure_numbers(aligned, seen) if seen else (None, {})
    numbers = audit_numbers(aligned, measured) if measured else None
    collected = collect_categories(aligned, progress, alone=numbers is None)
    categories = audit_categories(*collected) if collected else None
    mixed: tuple[Check, ...] = ()
    if measured and collected:
        mixed = run_all(MIXED_FAMILIES, MixedEvidence(measured, collected[1]), SHARE)
    lone = ApartEvidence.of(aligned)
    if lone is not None:
        mixed += run_all(APART_FAMILIES, lone, SHARE)
    if numbers is None and categories is not None and not categories.kept:
        names = ", ".join(categories.boundless)
        raise SourceError(f"nothing to compare: {names} have too many values for a category")
    rows = numbers.found.rows if numbers else categories.rows if categories else 0
    rows = lone.keeper.seen if lone else rows
    if rows < LEAST_ROWS:
        raise _too_few(rows)
    shown = collected[1] if collected else None
    whole = gather_everything(
        aligned,
        rows,
        numbers=(kinds_of(seen.found), seen.keeper) if seen else None,
        categories=(shown, collected[0].boundless) if collected and shown else None,
        lone=lone,
    )
    judged = whole.judge(SHARE)
    scarce = unjudged if seen and seen.found.complete < LEAST_ROWS else {}
    missed = untested(aligned, {**aligned.left_out, **scarce}, numbers, categories, judged)
    return Audit(
        source=aligned.source.name,
        copies=aligned.names,
        stated=aligned.stated.noise,
        sorted_copies=aligned.sorted_copies,
        logarithmic=aligned.logarithmic,
        apart=aligned.apart,
        left_out={**aligned.left_out, **unjudged},
        untested=missed,
        rows=rows,
        numbers=numbers,
        categories=categories,
        order=check_order(
            aligned,
            numbers=numbers.columns if numbers else (),
            categories=[name for each in categories.judged for name in each.columns]
            if categories
            else (),
            seen=seen.order if seen else None,
        ),
        mixed=(*mixed, *run_all(WHOLE_FAMILIES, whole, SHARE)),
        privacy=aligned.stated.whole,
        whole=judged,
        whole_rows=whole.rows,
        noise_free=whole.free,
        learned=whole.learned,
        unmeasured=whole.unmeasured,
    )


def measure_numbers(
    aligned: Aligned, seen: "_Pass"
) -> tuple[NumberEvidence | None, Mapping[str, str]]:
    """Return what was read of the columns of numbers that source and copies share.

    If none can be judged but there are categories, return why each is left out.
    """
    found = seen.found
    if found.complete < LEAST_ROWS:
        return None, {name: f"{name}: too few rows have a number" for name in aligned.columns}
    kinds = kinds_of(found)
    used = [n for n, kind in enumerate(kinds) if kind == "perturbed"]
    used = used or [n for n, kind in enumerate(kinds) if kind == "bare" and _owed(aligned, n)]
    if not used and not aligned.categories and not aligned.apart:
        raise SourceError(f"all numbers that {aligned.source.name} shares are constant")
    if not used:
        why = {"constant": "is constant", "bare": "is the same in every copy and the source"}
        pairs = zip(aligned.columns, kinds, strict=True)
        return None, {name: f"{name} {why[kind]}" for name, kind in pairs}
    return seen.evidence(aligned, used), {}


def audit_numbers(aligned: Aligned, evidence: NumberEvidence) -> NumberAudit:
    """Test and attack what was read of the numbers."""
    judged, used = evidence.found, list(evidence.used)
    kinds = kinds_of(evidence.everything)
    names = aligned.columns
    cells = [part * len(names) + n for part in range(1 + judged.copies) for n in used]
    with ThreadPoolExecutor(1) as beside:  # which reads the source again
        exposed = beside.submit(copy_context().run, _expose, aligned, judged, used)
        gains, sets = measure_gains(evidence.attacked, SHARE)
        return NumberAudit(
            columns=tuple(evidence.columns),
            constant=_of_kind(aligned, kinds, "constant"),
            bare=_of_kind(aligned, kinds, "bare") if len(used) < len(kinds) else (),
            found=judged,
            complete=evidence.complete,
            checks=run_all(NUMBER_FAMILIES, evidence, SHARE),
            singles=hidden(evidence.attacked, [(i,) for i in range(judged.copies)]),
            gains=tuple(gains),
            sets=sets,
            posterior=attack_sample(evidence.attacked, evidence.sample[cells], SHARE),
            bayes=_left_by_law(evidence),
            exposed=exposed.result(),
        )


def _left_by_law(evidence: NumberEvidence) -> Floats:
    """Return what who knows the distribution leaves of each column of each copy, (M, N).

    By the posterior from that column alone, or from all numbers of the copy together if that is
    less: attacked in rows of the copy itself, given other rows of the source.
    """
    noise = evidence.found.noise.tolist()
    shares = [
        left_by_posterior(row, noise) if np.isfinite(row).any() else np.full(len(noise), np.nan)
        for row in evidence.rows.truth
    ]
    return np.asarray(np.fmin(np.stack(shares, axis=1), _left_by_all(evidence)))


def _left_by_all(evidence: NumberEvidence) -> Floats:
    """Return what the joint posterior of all numbers of a copy leaves, (M, N); NaN if unknown."""
    rows, found = evidence.rows, evidence.found
    copies = np.where(np.isnan(rows.raw[1:]), np.nan, rows.scaled[1:])
    left = np.full(copies.shape[:2], np.nan)
    for i in np.flatnonzero(found.noise > 0) if rows.count >= LEAST_KNOWN else ():
        known = KnownRows(tuple(evidence.columns), rows.truth, found.mean, found.K, found.shape)
        left[i] = attack_rows(known, copies[i], float(found.noise[i]))
    return left


@dataclass(frozen=True)
class _Pass:
    """What one pass over the numbers of source and copies showed."""

    found: Statistics
    watched: Watched
    repeated: Repeated
    keeper: RowKeeper
    order: RowOrder
    completion: Completion | None = None
    complete: "_Pass | None" = None

    @property
    def attacked(self) -> "_Pass":
        """What complete rows showed, if there are enough of them: recipients have no others."""
        first = self.complete
        return self if first is None or first.found.complete < LEAST_ROWS else first

    def judged(self, aligned: Aligned, used: list[int]) -> Statistics:
        """Return the statistics of the columns that are judged."""
        return self.found.of_columns(used).with_excess(
            aligned.stated.excess([aligned.columns[n] for n in used])
        )

    def evidence(self, aligned: Aligned, used: list[int]) -> NumberEvidence:
        return NumberEvidence(
            found=self.judged(aligned, used),
            attacked=self.attacked.judged(aligned, used),
            complete=(self.complete or self).found.complete,
            everything=self.found,
            watched=self.watched,
            sample=self.attacked.watched.sample,
            repeated=self.repeated.of_columns(used),
            rows=self.keeper.rows(used, aligned.scaled, self.completion),
            noise=aligned.stated.noise,
            privacy=aligned.stated.privacy,
            names=aligned.columns,
            used=used,
            logarithmic=tuple(aligned.columns[n] in aligned.logarithmic for n in used),
        )


def _pass_over(aligned: Aligned, progress: Progress) -> _Pass:
    """Read source and copies once; twice if values are missing, to complete what rows miss.

    Raises SourceError if there are too few rows.
    """
    seen = _read(aligned, progress)
    if seen.found.rows < LEAST_ROWS and not aligned.categories:
        raise _too_few(seen.found.rows)
    if seen.found.complete == seen.found.rows:
        return seen
    found = seen.found.with_excess(aligned.stated.excess(aligned.columns))
    completion = Completion.of(found, aligned.stated.noise)
    again = _read(aligned, progress, completion, seen)
    if again.found.complete < LEAST_ROWS and not aligned.categories:
        raise SourceError(
            f"{again.found.complete:,} rows have a number to compare; "
            f"an audit needs at least {LEAST_ROWS}"
        )
    return replace(
        again, keeper=seen.keeper, order=seen.order, completion=completion, complete=seen
    )


def _read(
    aligned: Aligned,
    progress: Progress,
    completion: Completion | None = None,
    before: _Pass | None = None,
) -> _Pass:
    """Read source and copies, with rows completed by what was found `before`."""
    stream = enumerate(aligned.raw_blocks([aligned.source, *aligned.copies]))
    _, raw = next(stream, (0, None))
    if raw is None:
        raise SourceError(f"{aligned.source.name} holds no rows")

    def whole(place: int, block: list[Floats]) -> list[Floats]:
        scaled = aligned.scaled(block)
        return completion.complete(scaled, place) if completion else scaled

    first = whole(0, raw)
    sums = NoiseSums(means(first[0]), copies=len(aligned.copies), rows=first[0].shape[1])
    steps = before.found.steps if before else steps_of(first[1:])
    watch = Watch(first)
    repeats = RepeatWatch(first, steps, watch.order)
    keeper = RowKeeper(columns=len(aligned.columns), tables=len(first))
    order = RowOrder(aligned.columns)
    with ThreadPoolExecutor(1) as beside:
        for place, block in chain([(0, raw)], stream):
            scaled = first if place == 0 else whole(place, block)
            for stacked in sums.add(scaled):
                repeating = beside.submit(repeats.add, stacked)
                watch.add(stacked)
                repeating.result()
            if before is None:
                order.add(keeper.seen, pa.table(dict(zip(aligned.columns, block[0], strict=True))))
                keeper.add(block)
                steps = steps_still(steps, scaled[1:])
            progress(scaled[0].shape[1])
    found = sums.statistics(steps)
    if before is not None:  # K and the size of the noise are those of what the files hold
        held = before.found
        found = replace(found, mean=held.mean, K=held.K, present=held.present, spread=held.spread)
    return _Pass(found, watch.watched(found), repeats.repeated(), keeper, order)


def _too_few(rows: int) -> SourceError:
    return SourceError(f"the source has {rows:,} rows; an audit needs at least {LEAST_ROWS}")


def _owed(aligned: Aligned, n: int) -> bool:
    """Whether a column without noise should have some, by metadata or as all there is."""
    roles = aligned.stated.roles(aligned.columns[n])
    return PERTURBED in roles or not (aligned.categories or aligned.apart)


def kinds_of(found: Statistics) -> list[str]:
    """Return whether each column is constant, bare in every copy, or perturbed."""
    kinds = np.where((found.spread > 0).any(axis=0), "perturbed", "bare")
    return [str(kind) for kind in np.where(found.variance > 0, kinds, "constant")]


def _of_kind(aligned: Aligned, kinds: list[str], kind: str) -> tuple[str, ...]:
    return tuple(name for name, own in zip(aligned.columns, kinds, strict=True) if own == kind)


def _expose(aligned: Aligned, found: Statistics, used: Sequence[int]) -> Exposed:
    return count_exposed(
        (block[0][list(used)] for block in aligned.blocks_of([aligned.source])),
        rows=found.rows,
        mean=found.mean,
        covariance=found.K,
        noise=list(found.noise),
    )


def collect_categories(
    aligned: Aligned, progress: Progress, *, alone: bool
) -> tuple[Collected, CategoryEvidence] | None:
    """Read the categories that source and copies share; `alone` without numbers to judge."""
    if not aligned.categories:
        return None
    collected = Collected(aligned.categories, 1 + len(aligned.copies))
    for block in aligned.category_blocks():
        before = collected.rows
        collected.add(block)
        progress(collected.rows - before)
    varying = [each for each in collected.shown() if not each.constant]
    bare = [each for each in varying if each.bare]
    judged = [each for each in varying if not each.bare]
    return collected, CategoryEvidence(judged, bare, aligned.stated, alone, collected.every)


def audit_categories(collected: Collected, evidence: CategoryEvidence) -> CategoryAudit:
    """Test and attack what was read of the categories."""
    shown, judged = collected.shown(), evidence.judged
    return CategoryAudit(
        rows=collected.rows,
        kept=shown[0].codes.shape[1] if shown else 0,
        judged=tuple(judged),
        constant=tuple(each.name for each in shown if each.constant),
        bare=tuple(each.name for each in evidence.bare),
        boundless=tuple(collected.boundless),
        checks=run_all(CATEGORY_FAMILIES, evidence, SHARE),
        guesses=guess_all(judged, SHARE) if judged else None,
    )
