"""The audit of files: read, accumulate, test, judge.

    source ─┐                      ┌─ checks     is each copy's noise what it must be?
            ├─ one pass: sums ─────┼─ gains      what does any coalition recover?
    copies ─┘   and a watch        └─ posterior  would a cleverer one recover more?
    source ─── a second pass ──────── exposure   which records does no noise hide?
    categories of all ─ a pass ────── guesses    how well can they be guessed?

It needs no key, no ledger and no metadata, and works on the copies of any tool.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cornerwave.audit import rounding
from cornerwave.audit.alignment import Aligned
from cornerwave.audit.checks import Check, check_all
from cornerwave.audit.exposure import Exposed, count_exposed
from cornerwave.audit.gain import Gain, alarms, hidden, measure_gains
from cornerwave.audit.guesses import Guessed, audit_categories
from cornerwave.audit.posterior import Posterior, attack_sample
from cornerwave.audit.statistics import Statistics, Sums, means
from cornerwave.audit.watch import Watch, Watched
from cornerwave.errors import SourceError

Floats = NDArray[np.float64]
Progress = Callable[[int], None]

LEAST_ROWS = 100
"""With fewer complete rows an audit could neither clear nor blame a copy."""


@dataclass(frozen=True)
class Audit:
    """Everything that was found; indices of copies and columns refer to the names here.

    `columns` were audited; `constant` ones have nothing to hide, `bare` ones stand in
    every copy as they do in the source. `singles` (M, N) is the share of each column's
    variance that stays hidden from each copy alone.
    """

    source: str
    copies: tuple[str, ...]
    columns: tuple[str, ...]
    constant: tuple[str, ...]
    bare: tuple[str, ...]
    sorted_copies: tuple[str, ...]
    logarithmic: tuple[str, ...]
    left_out: Mapping[str, str]
    stated: tuple[float | None, ...]
    found: Statistics
    checks: tuple[Check, ...]
    singles: Floats
    gains: tuple[Gain, ...]
    sets: int
    posterior: Posterior | None
    exposed: Exposed
    guesses: tuple[Guessed, ...]

    @property
    def faults(self) -> list[Check]:
        """The checks that failed."""
        return [check for check in self.checks if not check.passed]

    @property
    def alarms(self) -> list[Gain]:
        """The coalitions that gain, the largest gain first."""
        return list(alarms(self.gains))

    @property
    def clean(self) -> bool:
        """Whether nothing is gained and nothing is wrong."""
        beaten = self.posterior is not None and self.posterior.gain.above_zero
        betrayed = any(guessed.gains for guessed in self.guesses)
        return not self.faults and not self.alarms and not beaten and not betrayed


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
    found, watched = _pass_over(aligned, progress)
    kinds = _kinds(found)
    used = [n for n, kind in enumerate(kinds) if kind == "perturbed"]
    if not used:
        used = [n for n, kind in enumerate(kinds) if kind == "bare"]
    if not used:
        raise SourceError(f"every column that {aligned.source.name} shares is constant")
    judged = found.select(copies=range(found.copies), columns=used)
    gains, sets = measure_gains(judged)
    cells = [part * found.columns + n for part in range(1 + found.copies) for n in used]
    return Audit(
        source=aligned.source.name,
        copies=aligned.names,
        columns=tuple(aligned.columns[n] for n in used),
        constant=_of_kind(aligned, kinds, "constant"),
        bare=tuple(c for c in _of_kind(aligned, kinds, "bare") if len(used) < len(kinds)),
        sorted_copies=aligned.sorted_copies,
        logarithmic=aligned.logarithmic,
        left_out=aligned.left_out,
        stated=aligned.noise,
        found=judged,
        checks=tuple(check_all(judged, watched, aligned.noise, aligned.columns, used)),
        singles=hidden(judged, [(i,) for i in range(judged.copies)]),
        gains=tuple(gains),
        sets=sets,
        posterior=attack_sample(judged, watched.sample[cells]),
        exposed=_expose(aligned, judged, used),
        guesses=_guess(aligned),
    )


def _pass_over(aligned: Aligned, progress: Progress) -> tuple[Statistics, Watched]:
    stream = aligned.blocks()
    first = next(stream, None)
    if first is None:
        raise SourceError(f"{aligned.source.name} holds no rows")
    sums = Sums(means(first[0]), copies=len(aligned.copies), rows=first[0].shape[1])
    watch = Watch(first)
    steps = rounding.steps_of(first[1:])
    for block in chain([first], stream):
        for stacked in sums.add(block):
            watch.add(stacked)
        steps = rounding.still(steps, block[1:])
        progress(block[0].shape[1])
    found = sums.statistics(steps)
    if found.complete < LEAST_ROWS:
        raise SourceError(
            f"{found.complete:,} rows have a value in every shared column of every file; "
            f"an audit needs {LEAST_ROWS} at least. Leave out columns with many missing values"
        )
    return found, watch.watched(found)


def _kinds(found: Statistics) -> list[str]:
    """Say of each column whether it is constant, bare in every copy, or perturbed."""
    noise = np.diag(found.covariance)[found.columns :].reshape(found.copies, found.columns)
    kinds = np.where((noise > 0).any(axis=0), "perturbed", "bare")
    return [str(kind) for kind in np.where(found.variance > 0, kinds, "constant")]


def _of_kind(aligned: Aligned, kinds: list[str], kind: str) -> tuple[str, ...]:
    return tuple(name for name, own in zip(aligned.columns, kinds, strict=True) if own == kind)


def _guess(aligned: Aligned) -> tuple[Guessed, ...]:
    if not aligned.categories:
        return ()
    groups = aligned.category_groups()
    return tuple(audit_categories(groups, aligned.categories, len(aligned.copies)))


def _expose(aligned: Aligned, found: Statistics, used: list[int]) -> Exposed:
    return count_exposed(
        (block[0][used] for block in aligned.blocks_of([aligned.source])),
        rows=found.rows,
        mean=found.mean,
        variance=found.variance,
        noise=list(found.noise),
    )
