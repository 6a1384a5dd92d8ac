"""The audit of categories: one pass, of which rows are kept; then checks, and guesses."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from cornerwave.audit.alignment import Aligned
from cornerwave.audit.checks import Check
from cornerwave.audit.guesses import Guessed, Guesses, guess_all
from cornerwave.audit.path import check_paths
from cornerwave.audit.refreshes import check_refreshes
from cornerwave.audit.shown import Collected, Shown

Progress = Callable[[int], None]


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
    stated_bare = [each for each in bare if aligned.stated.told(each.columns[0], "role")]
    return Categories(
        rows=collected.rows,
        kept=shown[0].codes.shape[1] if shown else 0,
        judged=tuple(judged),
        constant=tuple(each.name for each in constant),
        bare=tuple(each.name for each in bare),
        boundless=tuple(collected.boundless),
        checks=(
            *check_refreshes([*judged, *stated_bare], aligned.stated),
            *check_paths(judged),
            *_bare_copies([*judged, *bare] if alone else judged),
        ),
        guesses=guess_all(judged) if judged else None,
    )


def _bare_copies(categories: Sequence[Shown]) -> Iterator[Check]:
    """Name the copies that show every category as the source has it."""
    for i in range(len(categories[0].codes) - 1 if categories else 0):
        if all((shown.codes[1 + i] == shown.truth).all() for shown in categories):
            yield Check("noise", (i,), 0.0, 0.0, False, "has no noise: it is the source")
