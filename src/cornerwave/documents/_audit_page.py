"""The measured audit as one page."""

from collections.abc import Iterable, Iterator

import numpy as np

from cornerwave.audit import (
    ALPHA,
    CATEGORY_CHECKS,
    MIXED_CHECKS,
    NUMBER_CHECKS,
    Audit,
    notes,
    sections,
    verdict,
)
from cornerwave.documents import _document as kit
from cornerwave.documents._charts import Meter, ShareRow, meters, share_chart

MOST_COLUMNS_DRAWN = 24
"""So many columns are drawn, those with the largest gain first."""
APART = 0.01
"""Shares that differ by more are seen apart in the picture."""
ELSEWHERE = (
    "Where a coalition gains nothing and still lies elsewhere than on its best copy, the two were "
    "measured differently. A dot is a copy as it is, fitted to all rows. The diamond and hollow "
    "mark are tested on rows that the estimate was not fitted to. In small tables that costs "
    "something, and the more, the more copies there are to weigh: the diamond lies further right. "
    "The hollow mark is the best copy before any rounding: rounded copies may say more together "
    "than each alone, but never more than that one."
)


def audit_page(audit: Audit) -> str:
    """Return an audit as a web page."""
    (_, header, copies), *rest = sections(audit)
    numbered = [(f"{i} {name}", *cells) for i, (name, *cells) in enumerate(copies, start=1)]
    parts = [
        _headline(audit),
        _faults(audit),
        _untested(audit),
        _hidden(audit),
        kit.section("Copies", kit.table(header, numbered)),
        _checks(audit),
        _shared_noise(audit),
        *(
            kit.section(title, _explained(title), kit.table(header, rows, faults=_red(rows)))
            for title, header, rows in rest
        ),
        _notes(audit),
    ]
    footer = "docs/audit.md explains each number and what an audit cannot see."
    return kit.document(f"Audit of {audit.source}", parts, footer=footer)


def _headline(audit: Audit) -> str:
    numbers = len(audit.numbers.columns) if audit.numbers else 0
    categories = len(audit.categories.judged) if audit.categories else 0
    facts = [kit.count(audit.rows, "row"), kit.count(len(audit.copies), "copy", "copies")]
    if numbers:
        facts.append(kit.count(numbers, "perturbed column"))
    if categories:
        facts.append(kit.count(categories, "category", "categories"))
    title = f"Audit of {audit.source}"
    kind = "bad" if not audit.sound else "good" if audit.clean else "plain"
    return kit.headline(title, verdict(audit), ", ".join(facts), kind)


def _faults(audit: Audit) -> str:
    if not audit.faults:
        return ""
    rows = [
        (" and ".join(audit.copies[i] for i in check.copies), check.name, check.note)
        for check in audit.faults
    ]
    names = {check.name for check in audit.faults}
    return kit.section("Faults", kit.table(("copies", "check", "finding"), rows, faults=names))


def _untested(audit: Audit) -> str:
    if not audit.untested:
        return ""
    return kit.section("Untested", kit.bullets(list(audit.untested.values())))


def _hidden(audit: Audit) -> str:
    """Draw what each copy alone and all of them together leave hidden of each column."""
    explained = kit.hint(
        "Share of each column’s variance that the best estimate cannot recover. A coalition that "
        "gains nothing lies on its best copy."
    )
    rows = [*_number_rows(audit), *_category_rows(audit)]
    elsewhere = any(row.hollow is not None for _, row in rows)
    marks = kit.legend(
        [
            ("dot", "from one copy, by number"),
            ("diamond", "from all copies together, red if they gain"),
            ("gap", "gained by colluding"),
            *[("hollow", "from the best copy, as the coalition is compared with it")] * elsewhere,
        ]
    )
    explained += kit.hint(ELSEWHERE) if elsewhere else ""
    if len(rows) > MOST_COLUMNS_DRAWN:
        rows = sorted(rows, key=lambda row: -row[0])[:MOST_COLUMNS_DRAWN]
    label = "Hidden variance of each column, from each copy alone and from all together"
    chart = share_chart([row for _, row in rows], label)
    return kit.section("What stays hidden", explained, marks, chart)


def _number_rows(audit: Audit) -> Iterator[tuple[float, ShareRow]]:
    """Yield the gain and the row of each number column."""
    numbers = audit.numbers
    if numbers is None:
        return
    whole = max(numbers.gains, key=lambda gain: len(gain.members), default=None)
    for n, name in enumerate(numbers.columns):
        dots = _dots(audit, numbers.singles[:, n].tolist())
        if whole is None:
            yield 0.0, ShareRow(name, dots)
        else:
            yield _row(name, dots, whole.alone[n], whole.together[n], gains=whole.low[n] > 0)


def _category_rows(audit: Audit) -> Iterator[tuple[float, ShareRow]]:
    """Yield the gain and the row of each category."""
    categories = audit.categories
    guesses = categories.guesses if categories else None
    if categories is None or guesses is None:
        return
    largest = max((len(guessed.copies) for guessed in guesses.sets), default=0)
    whole = {g.columns: g for g in guesses.sets if len(g.copies) == largest}
    for shown, singles in zip(categories.judged, guesses.singles.T, strict=True):
        dots = _dots(audit, singles.tolist())
        if (found := whole.get(shown.columns)) is None:
            yield 0.0, ShareRow(shown.name, dots)
        else:
            hidden = found.hidden_alone, found.hidden_together
            yield _row(shown.name, dots, *hidden, gains=categories.gains(found))


def _dots(audit: Audit, shares: list[float]) -> list[tuple[float, str]]:
    named = zip(audit.copies, shares, strict=True)
    return [(share, f"{name}: {share:.4f}") for name, share in named]


def _row(
    name: str, dots: list[tuple[float, str]], alone: float, together: float, *, gains: bool
) -> tuple[float, ShareRow]:
    gain = alone - together
    best = min(share for share, _ in dots)
    return gain, ShareRow(
        name,
        dots,
        diamond=together,
        hollow=alone if abs(best - together) > APART and not gains else None,
        gap=(together, alone) if gains else None,
        words=f"gain {gain:.3f}" if gains else "no gain",
        kind="bad" if gains else "good",
    )


def _checks(audit: Audit) -> str:
    made = {check.name for check in audit.checks}
    header = [name for name in (*NUMBER_CHECKS, *CATEGORY_CHECKS, *MIXED_CHECKS) if name in made]
    if not header:
        return ""
    explained = kit.hint(
        "How close each check came to its limit; a full red bar exceeds it. Honest copies fail "
        f"one or more of the checks in {ALPHA:.0%} of all audits."
    )
    names = [f"{i} {name}" for i, name in enumerate(audit.copies, start=1)]
    rows = [[_meter(audit, i, name) for name in header] for i in range(len(names))]
    chart = meters(names, header, rows, "check")
    return kit.section("Checks", explained, chart)


def _meter(audit: Audit, copy: int, name: str) -> Meter | None:
    own = [check for check in audit.checks if check.name == name and copy in check.copies]
    if not own:
        return None
    worst = max(own, key=lambda check: check.value / max(check.limit, 1e-9))
    title = f"{name}: {worst.value:.3g}; limit {worst.limit:.3g}"
    passed = all(check.passed for check in own)
    return Meter(worst.value / max(worst.limit, 1e-9), passed, title)


def _shared_noise(audit: Audit) -> str:
    """Show the noise that two copies share, as a fraction of the lesser noise."""
    if audit.numbers is None or len(audit.copies) < 2:
        return ""
    found = audit.numbers.found
    noise = np.maximum(found.noise, 1e-300)
    shares = found.across / np.minimum.outer(noise, noise)
    rows = [
        (f"{i + 1} {name}", *(f"{share:.3f}" if k <= i else "" for k, share in enumerate(line)))
        for i, (name, line) in enumerate(zip(audit.copies, shares, strict=True))
    ]
    explained = kit.hint(
        "Covariance of the noise of two copies as a fraction of the lesser variance: 1 leaves "
        "nothing to average out, 0 is independent noise."
    )
    header = ("copy", *(f"{i + 1}" for i in range(len(noise))))
    return kit.section("Noise shared by copies", explained, kit.table(header, rows))


def _red(rows: Iterable[tuple[str, ...]]) -> set[str]:
    """Return the cells that stand for a fault: a gain, or less hidden than stated."""
    return {"gains", *(cell for _, *cells in rows for cell in cells if " < " in cell)}


def _explained(title: str) -> str:
    if title.startswith("Hidden from the whole copy"):
        return kit.hint(
            "Share of each column’s variance that the strongest of several attacks on one copy "
            "leaves: linear in what has noise, arbitrary in what has none (kept columns, a key, "
            "which cells are missing, the order of the rows). In brackets, the share that the copy "
            "states; after <, a statement that does not hold, beyond the margin of chance. A copy "
            "that states nothing is measured, not tested."
        )
    if title.startswith("Hidden from boosting"):
        return kit.hint(
            "Share of each number’s variance that gradient boosting on everything in one copy "
            "leaves. It is not linear in the noise, so a smaller figure here is a warning and not "
            "a fault."
        )
    if title.startswith("Left by a joint adversary"):
        return kit.hint(
            "Share of each number’s variance that an attack on this copy left, by the column or by "
            "all numbers together, knowing other rows of the original. Privacy is promised "
            "against the best linear estimate, so a smaller figure here is a warning and not a "
            "fault. It is what one attack recovered, not a bound: others may recover more. A "
            "higher privacy hides more; a level can be chosen against such an adversary."
        )
    if not title.startswith("Records"):
        return ""
    return kit.hint(
        "Number of values so far out that they stand out in the copy too: further than any of as "
        "many Gaussian values would be expected. A record may be ordinary in each column and stand "
        "out in their combination. Cap or remove such records before release if they matter; "
        "more noise hides them too."
    )


def _notes(audit: Audit) -> str:
    lines = notes(audit)
    return kit.section("Notes", kit.bullets(lines)) if lines else ""
