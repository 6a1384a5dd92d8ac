"""The audit of categories: one pass, of which rows are kept; then checks, and guesses."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cornerwave.audit.alignment import Aligned
from cornerwave.audit.chance import share
from cornerwave.audit.checks import Check
from cornerwave.audit.guesses import Guessed, Guesses, guess_all
from cornerwave.audit.path import check_paths
from cornerwave.audit.refreshes import check_refreshes
from cornerwave.audit.shown import ABSENT, Collected, Shown
from cornerwave.audit.stated import Stated
from cornerwave.table import Progress

NOTHING = 0.005
"""A copy that refreshed a smaller share of a category than this has hidden nothing of it."""


@dataclass(frozen=True)
class Categories:
    """What was found of the categories.

    `judged` were attacked in `kept` of all `rows`; `constant` ones have nothing to hide,
    `bare` ones stand in every copy as in the source, `boundless` ones have more values
    than a category has.
    """

    rows: int
    kept: int
    judged: tuple[Shown, ...]
    constant: tuple[str, ...]
    bare: tuple[str, ...]
    boundless: tuple[str, ...]
    checks: tuple[Check, ...]
    guesses: Guesses | None

    @property
    def alarms(self) -> list[Guessed]:
        """The guesses of sets of copies that are no path, the largest gain first."""
        found = self.guesses.sets if self.guesses else ()
        return sorted(filter(self.gains, found), key=lambda guessed: -guessed.gain)

    def gains(self, guessed: Guessed) -> bool:
        """Whether a set gains: some of its copies are no path, and the guess is better."""
        broken = [c.copies for c in self.checks if c.name == "path" and not c.passed]
        return guessed.gain > 0 and any(set(copies) <= set(guessed.copies) for copies in broken)


def audit_categories(aligned: Aligned, progress: Progress, *, alone: bool = False) -> Categories:
    """Audit the categories that source and copies share; `alone` if they are all there is."""
    collected = Collected(aligned.categories, 1 + len(aligned.copies))
    for block in aligned.category_blocks():
        before = collected.rows
        collected.add(block)
        progress(collected.rows - before)
    shown = collected.shown()
    constant = [each for each in shown if each.constant]
    bare = [each for each in shown if each.bare and not each.constant]
    judged = [each for each in shown if not each.bare and not each.constant]
    return Categories(
        rows=collected.rows,
        kept=shown[0].codes.shape[1] if shown else 0,
        judged=tuple(judged),
        constant=tuple(each.name for each in constant),
        bare=tuple(each.name for each in bare),
        boundless=tuple(collected.boundless),
        checks=(
            *check_refreshes([*judged, *bare], aligned.stated),
            *check_paths(judged),
            *_bare_copies(judged, bare, aligned.stated, alone=alone),
        ),
        guesses=guess_all(judged) if judged else None,
    )


def _bare_copies(
    judged: Sequence[Shown], bare: Sequence[Shown], stated: Stated, *, alone: bool
) -> Iterator[Check]:
    """Name copies that show a category as the source has it, or are the source.

    Where a copy states how it was refreshed, its retention is judged instead.
    """
    everything = [*judged, *bare]
    for i in range(len(stated.copies) if everything else 0):
        if alone and all(_left_bare(each, i, stated) for each in everything):
            yield Check("noise", (i,), 0.0, 0.0, False, "has no noise: it is the source")
            continue
        for each in judged:
            few = _refreshed_at_most(each, len(everything)) < NOTHING
            if few and _left_bare(each, i, stated):
                note = f"shows {each.name} as the source has it"
                yield Check("noise", (i,), 0.0, 0.0, False, note)


def _left_bare(shown: Shown, copy: int, stated: Stated) -> bool:
    """Whether a copy shows a category as it is, and does not state how it was refreshed."""
    told = stated.column(copy, shown.columns[0]).get("base")
    if stated.noise[copy] is not None and told is not None:
        return False
    return bool((shown.codes[1 + copy] == shown.truth).all())


def _refreshed_at_most(shown: Shown, comparisons: int) -> float:
    """Return what share of cells may have been refreshed for none of them to have changed."""
    rows = int((shown.truth != ABSENT).sum()) * shown.variance
    return math.log(1 / share(comparisons)) / max(rows, 1e-300)
