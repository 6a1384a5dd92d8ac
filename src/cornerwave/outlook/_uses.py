"""Which privacy for a use: the least one at which a copy keeps every limit of that use.

`LIMITS` is the one table of what is compared with what. To add a measure: a function here that
yields what is wrong with a level for a use, and a line in `LIMITS` with its figures and source.

left        share of each column that the better of two adversaries leaves: the linear one, and one
            who knows how rows are distributed. sqrt(share) is the ratio p/q of the prior-posterior
            rule: how much wider than before a value is known after the release
found       rows that stand out in the copy, or share kept columns with fewer than k others
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cornerwave.columns import listed
from cornerwave.document import count
from cornerwave.errors import LevelError
from cornerwave.levels import LINEAR
from cornerwave.outlook._advice import recommended_change
from cornerwave.outlook._kept_groups import KeptGroups, kept_groups
from cornerwave.outlook._outlook import Outlook, half_width, in_units, outlooks
from cornerwave.privacy import unreachable
from cornerwave.sources import Source
from cornerwave.spine.frozen import Frozen

INTERNAL, PARTNER, PUBLIC = USES = ("internal", "partner", "public")
"""People bound by the owner's rules; others bound by an agreement; anybody."""
PRIVACIES = tuple(round(0.05 * step, 2) for step in range(1, 20))
"""The privacies among which one is recommended."""


@dataclass(frozen=True)
class Candidate:
    """A level of a table that is compared with the limits of a use.

    `kept` is None if the table was not read.
    """

    use: str
    frozen: Frozen
    outlook: Outlook
    kept: KeptGroups | None = None

    @property
    def left(self) -> dict[str, float]:
        """The share of each column that the better of two adversaries leaves."""
        bayes = self.outlook.bayes
        return {
            name: min(left, bayes.get(name, left)) for name, left in self.outlook.hidden.items()
        }


@dataclass(frozen=True)
class Violation:
    """A limit that is not kept: in words, and what to do about it."""

    words: str
    remedy: str = ""


@dataclass(frozen=True)
class Limit:
    """What a copy must keep for each use, where that figure comes from, and how it is compared."""

    what: str
    allowed: Mapping[str, float]
    source: str
    violations: Callable[[Candidate, float], Iterator[Violation]]

    def check(self, candidate: Candidate) -> Iterator[Violation]:
        """Yield what is wrong with a level for its use."""
        yield from self.violations(candidate, self.allowed[candidate.use])


# --- the measures -------------------------------------------------------------------------


def _left(candidate: Candidate, least: float) -> Iterator[Violation]:
    """Yield the columns of which too little stays hidden, the least hidden first."""
    for name, left in sorted(candidate.left.items(), key=lambda each: each[1]):
        if left < least:
            yield Violation(_too_close(candidate.frozen, name, left, least))


def _too_close(frozen: Frozen, name: str, left: float, least: float) -> str:
    """Return how closely a column is known that should not be, in its own units."""
    if name in frozen.schema.perturbed:
        known, blind = (half_width(frozen, name, share) for share in (left, 1.0))
        wanted = half_width(frozen, name, least)
        if known is not None and blind is not None and wanted is not None:
            unit = frozen.schema.column(name).unit
            return (
                f"{name} can be estimated to within ±{in_units(known, unit)} (limit "
                f"±{in_units(wanted, unit)}; ±{in_units(blind, unit)} without a copy)"
            )
    return f"{left:.0%} of {name} stays uncertain (limit {least:.0%})"


def _stand_out(candidate: Candidate, most: float) -> Iterator[Violation]:
    """Yield how many records stand out in the copy, if they are too many."""
    number, rows = candidate.outlook.stand_out, candidate.frozen.rows
    if number is not None and number > most * rows:
        stand = "record stands" if number == 1 else "records stand"
        yield Violation(
            f"{number:,} {stand} out in the copy (limit {_number(most, rows)})",
            "perturb long-tailed columns on their ranks (transform), or cap or drop these records",
        )


def _alike(candidate: Candidate, least: float) -> Iterator[Violation]:
    """Yield how many rows share the kept columns with too few others; no noise changes that."""
    kept = candidate.kept
    if kept is None or not kept.columns:
        return
    most = FOUND[candidate.use]
    below, rows = kept.rows_below(int(least)), candidate.frozen.rows
    if below > most * rows:
        named = listed(kept.columns, str)
        yield Violation(
            f"{count(below, 'row')} agree with fewer than {least - 1:g} others in {named}, which "
            f"copies show unchanged (limit {_number(most, rows)}); no noise hides that",
            _set_apart(candidate.frozen, kept.columns),
        )


def _set_apart(frozen: Frozen, columns: Sequence[str]) -> str:
    """Return what to do about rows that unchanged columns set apart."""
    if (key := frozen.schema.key) in columns:
        return f"release a pseudonym of {key}, as is the default, or drop it"
    named = listed(columns, str)
    return f"refresh {named} as a category, coarsen or drop what sets these rows apart"


def _number(share: float, rows: int) -> str:
    return f"{int(share * rows):,}" if share else "none"


FOUND = {INTERNAL: 0.2, PARTNER: 0.05, PUBLIC: 0.0}
"""The share of rows that may be found for sure by somebody who knows the person."""

LIMITS: Mapping[str, Limit] = {
    "left": Limit(
        "share of every column that stays uncertain to the best estimate, at least",
        {INTERNAL: 0.25, PARTNER: 0.5, PUBLIC: 0.8},
        "the prior-posterior (p, q) rule: Federal Committee on Statistical Methodology, Working "
        "Paper 22 (2005); Hundepool et al., Statistical Disclosure Control (2012). The rule leaves "
        "its figures to the authority: these are Cornerwave's, p/q of 0.5, 0.7 and 0.9. With them "
        "two other rules hold too. The p% rule, for which agencies use 5 to 25: what is known to "
        "within half of its size without a copy, is to within 25 % at best with one. The "
        "expectation ratio of randomised categories, which Gouweleeuw et al. (Journal of Official "
        "Statistics 14, 1998) call safe at 1: a rare value that a public copy shows is true less "
        "than one time of two",
        _left,
    ),
    "stand_out": Limit(
        "share of records that stand out in a copy, at most",
        FOUND,
        "uniqueness thresholds for health data of 20 % and 5 %: El Emam et al., BMC Medical "
        "Informatics and Decision Making 10:18 (2010); none for the public, as EMA Policy 0070 and "
        "Health Canada measure the largest risk of a public release",
        _stand_out,
    ),
    "alike": Limit(
        "rows that agree in all columns that copies show unchanged, at least (but for the share of "
        "records above)",
        {INTERNAL: 3, PARTNER: 5, PUBLIC: 11},
        "a person is found with probability 0.33, 0.2, 0.09: El Emam and Malin, appendix B of "
        "Sharing Clinical Trial Data (Institute of Medicine, 2015); 0.09 is also the threshold of "
        "EMA Policy 0070 and Health Canada, 11 the smallest cell that CMS publishes",
        _alike,
    ),
}
"""What a copy must keep for each use. A measure more is one line more."""


# --- the recommendation -------------------------------------------------------------------


@dataclass(frozen=True)
class Recommendation:
    """The least privacy that is fit for a use, and why; None if none is.

    `reasons` are what the next lower one would break, or what every one breaks; `remedies` what to
    do in the second case; `untested` what was not compared with its limit.
    """

    use: str
    outlook: Outlook | None
    reasons: tuple[str, ...]
    remedies: tuple[str, ...] = ()
    untested: tuple[str, ...] = ()

    @property
    def privacy(self) -> float | None:
        """The privacy that is recommended."""
        return None if self.outlook is None else self.outlook.privacy

    @property
    def words(self) -> str:
        """The recommendation with its reason."""
        if self.outlook is None:
            do = "; ".join(self.remedies)
            return (
                f"{self.use}: no level is fit. {_sentence('; '.join(self.reasons))}"
                + (f". What to do: {do}" if do else "")
                + "."
            )
        why = "; ".join(self.reasons) or "the lowest that is offered keeps every limit"
        return f"{self.use}: privacy {self.outlook.privacy:g}. {_sentence(why)}."


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def checked_uses(uses: Sequence[str]) -> tuple[str, ...]:
    """Return uses, each once, all of them if none is given. Raises LevelError for others."""
    if unknown := [use for use in uses if use not in USES]:
        raise LevelError(f"there is no use {unknown[0]!r}; choose {', '.join(USES)}")
    return tuple(use for use in USES if use in uses) or USES


def violations_of(candidate: Candidate) -> list[Violation]:
    """Return which limits of its use a level does not keep: of each limit the worst fault."""
    violations = (next(limit.check(candidate), None) for limit in LIMITS.values())
    return [fault for fault in violations if fault is not None]


def recommend(
    frozen: Frozen, known: Sequence[Outlook], use: str, kept: KeptGroups | None = None
) -> Recommendation:
    """Return the least of the privacies, in ascending order, that is fit for a use."""
    untested = _untested(frozen, known, kept)
    violations: list[Violation] = []
    for place, outlook in enumerate(known):
        before, violations = violations, violations_of(Candidate(use, frozen, outlook, kept))
        if not violations:
            why = [f"at {known[place - 1].privacy:g}, {each.words}" for each in before[:1]]
            return Recommendation(use, outlook, tuple(why), untested=untested)
    return _none_fits(frozen, known, use, violations, untested)


@dataclass(frozen=True)
class Fitness:
    """What the limits of uses are compared with, of one table: the privacies, and kept columns."""

    frozen: Frozen
    known: tuple[Outlook, ...]
    kept: KeptGroups | None

    @classmethod
    def of(cls, frozen: Frozen, source: Source | None, *, against: str = LINEAR) -> "Fitness":
        """Look at all privacies; the table is read if it is given. Raises SourceError."""
        known = outlooks(frozen, source, against=against, privacies=PRIVACIES)
        return cls(frozen, tuple(known), None if source is None else kept_groups(frozen, source))

    def recommended(self, uses: Sequence[str] = USES) -> list[Recommendation]:
        """Return what is recommended for each of some uses."""
        return [recommend(self.frozen, self.known, use, self.kept) for use in uses]

    def violations(self, outlook: Outlook, use: str) -> list[Violation]:
        """Return which limits of a use any level does not keep, as far as was looked at.

        Records that stand out are those of the next lower privacy that was looked at: no fewer.
        """
        lower = [each for each in self.known if each.level <= outlook.level]
        seen = lower[-1].stand_out if lower else None
        return violations_of(
            Candidate(use, self.frozen, replace(outlook, stand_out=seen), self.kept)
        )


def recommend_for_all(by_table: Mapping[str, Recommendation]) -> Recommendation:
    """Return what is recommended for linked tables, which are released at one privacy."""
    if unfit := {name: each for name, each in by_table.items() if each.outlook is None}:
        reasons = [f"{name}: {reason}" for name, each in unfit.items() for reason in each.reasons]
        remedies = [f"{name}: {do}" for name, each in unfit.items() for do in each.remedies]
    else:
        name, most = max(by_table.items(), key=lambda each: each[1].privacy or 0.0)
        reasons, remedies = [f"{name}: {reason}" for reason in most.reasons], []
    first = next(iter(by_table.values()))
    return Recommendation(
        first.use,
        None if unfit else most.outlook,
        tuple(reasons),
        tuple(remedies),
        tuple(dict.fromkeys(what for each in by_table.values() for what in each.untested)),
    )


def _untested(frozen: Frozen, known: Sequence[Outlook], kept: KeptGroups | None) -> tuple[str, ...]:
    """Return what was not compared with its limit, since the table was not read."""
    uncounted = any(each.stand_out is None for each in known)
    ungrouped = kept is None and bool(frozen.schema.unchanged)
    return (*[STANDING_OUT] * uncounted, *[AGREEING] * ungrouped)


STANDING_OUT, AGREEING = "records that stand out", "rows that agree in unchanged columns"


def _none_fits(
    frozen: Frozen,
    known: Sequence[Outlook],
    use: str,
    violations: Sequence[Violation],
    untested: tuple[str, ...],
) -> Recommendation:
    """Return why no level is fit for a use, by what the highest one breaks, and what to do."""
    where = f"even at {known[-1].privacy:g}, " if known else ""
    reasons = [where + "; ".join(each.words for each in violations)] * bool(violations)
    remedies = [each.remedy for each in violations if each.remedy]
    # more noise would do, but what copies show without noise prevents it
    if frozen.hidden.highest < PRIVACIES[-1] and len(remedies) <= len(violations) - bool(
        violations
    ):
        reasons.append(unreachable(frozen.hidden, frozen.schema.unit, remedies=False))
        if what := recommended_change(frozen):
            remedies.insert(0, what)
    return Recommendation(use, None, tuple(reasons), tuple(dict.fromkeys(remedies)), untested)
