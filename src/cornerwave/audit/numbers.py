"""The audit of columns of numbers: one pass for the sums, a second over the source alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.audit import rounding
from cornerwave.audit.alignment import Aligned
from cornerwave.audit.checks import Check, check_all
from cornerwave.audit.exposure import Exposed, count_exposed
from cornerwave.audit.gain import Gain, alarms, hidden, measure_gains
from cornerwave.audit.posterior import Posterior, attack_sample
from cornerwave.audit.statistics import Statistics, Sums, means
from cornerwave.audit.watch import Watch, Watched
from cornerwave.errors import SourceError
from cornerwave.table import Progress

LEAST_ROWS = 100
"""With fewer complete rows an audit could neither clear nor blame a copy."""


@dataclass(frozen=True)
class Numbers:
    """What was found of the numbers; indices refer to the columns here.

    `columns` were audited; `constant` ones have nothing to hide, `bare` ones stand in
    every copy as they do in the source. `singles` (M, N) is the share of each column's
    variance that stays hidden from each copy alone.
    """

    columns: tuple[str, ...]
    constant: tuple[str, ...]
    bare: tuple[str, ...]
    found: Statistics
    checks: tuple[Check, ...]
    singles: Floats
    gains: tuple[Gain, ...]
    sets: int
    posterior: Posterior | None
    exposed: Exposed

    @property
    def alarms(self) -> list[Gain]:
        """The coalitions that gain, the largest gain first."""
        return list(alarms(self.gains))

    @property
    def beaten(self) -> bool:
        """Whether all copies together gain by the best nonlinear estimate."""
        return self.posterior is not None and self.posterior.gain.above_zero


def audit_numbers(aligned: Aligned, progress: Progress) -> Numbers | dict[str, str]:
    """Audit the columns of numbers that source and copies share.

    Returns why each is left out if none can be judged, but there are categories.
    """
    found, watched = _pass_over(aligned, progress)
    if watched is None:
        return {name: f"{name}: too few rows have every number" for name in aligned.columns}
    kinds = _kinds(found)
    used = [n for n, kind in enumerate(kinds) if kind == "perturbed"]
    used = used or [n for n, kind in enumerate(kinds) if kind == "bare" and _owed(aligned, n)]
    if not used and not aligned.categories:
        raise SourceError(f"every number that {aligned.source.name} shares is constant")
    if not used:
        why = {"constant": "is constant", "bare": "stands in every copy as in the source"}
        return {
            name: f"{name} {why[kind]}" for name, kind in zip(aligned.columns, kinds, strict=True)
        }
    judged = found.select(copies=range(found.copies), columns=used)
    gains, sets = measure_gains(judged)
    cells = [part * found.columns + n for part in range(1 + found.copies) for n in used]
    checks = check_all(judged, watched, aligned.stated.noise, aligned.columns, used)
    return Numbers(
        columns=tuple(aligned.columns[n] for n in used),
        constant=_of_kind(aligned, kinds, "constant"),
        bare=tuple(c for c in _of_kind(aligned, kinds, "bare") if len(used) < len(kinds)),
        found=judged,
        checks=tuple(checks),
        singles=hidden(judged, [(i,) for i in range(judged.copies)]),
        gains=tuple(gains),
        sets=sets,
        posterior=attack_sample(judged, watched.sample[cells]),
        exposed=_expose(aligned, judged, used),
    )


def _pass_over(aligned: Aligned, progress: Progress) -> tuple[Statistics, Watched | None]:
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
    if found.complete < LEAST_ROWS and aligned.categories:
        return found, None
    if found.complete < LEAST_ROWS:
        raise SourceError(
            f"{found.complete:,} rows have a value in every shared column of every file; "
            f"an audit needs {LEAST_ROWS} at least. Leave out columns with many missing values"
        )
    return found, watch.watched(found)


def _owed(aligned: Aligned, n: int) -> bool:
    """Whether a column without noise should have some: all else is noise to nobody."""
    said = aligned.stated.told(aligned.columns[n], "role")
    return "perturbed" in said or not aligned.categories


def _kinds(found: Statistics) -> list[str]:
    """Say of each column whether it is constant, bare in every copy, or perturbed."""
    noise = np.diag(found.covariance)[found.columns :].reshape(found.copies, found.columns)
    kinds = np.where((noise > 0).any(axis=0), "perturbed", "bare")
    return [str(kind) for kind in np.where(found.variance > 0, kinds, "constant")]


def _of_kind(aligned: Aligned, kinds: list[str], kind: str) -> tuple[str, ...]:
    return tuple(name for name, own in zip(aligned.columns, kinds, strict=True) if own == kind)


def _expose(aligned: Aligned, found: Statistics, used: Sequence[int]) -> Exposed:
    return count_exposed(
        (block[0][list(used)] for block in aligned.blocks_of([aligned.source])),
        rows=found.rows,
        mean=found.mean,
        variance=found.variance,
        noise=list(found.noise),
    )
