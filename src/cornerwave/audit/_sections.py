"""The audit as a document: tables, pictures and lists. No cell of the audited table is in it."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from cornerwave import document as doc
from cornerwave.audit._audit import (
    CATEGORY_CHECKS,
    MIXED_CHECKS,
    NUMBER_CHECKS,
    Audit,
    CategoryAudit,
    NumberAudit,
)
from cornerwave.audit._chance import ALPHA
from cornerwave.audit._coalitions import Gain
from cornerwave.audit._guesses import Guesses
from cornerwave.audit._left import Left
from cornerwave.audit._linked import LinkedAudit
from cornerwave.audit._verdict import as_json, failed, faults, named, notes, verdict
from cornerwave.document import BAD, GOOD, PLAIN, count

SHOWN = 12
"""At most this many coalitions are listed; JSON has them all."""
MOST_COLUMNS_DRAWN = 24
"""So many columns are drawn, those with the largest gain first."""
APART = 0.01
"""Shares that differ by more are seen apart in the picture."""
VAGUE = "not measured"
"""A share or a gain that was not measured precisely enough to mean anything."""
TOO_MUCH = 1.1
"""No copy hides more than everything: a share above this is not one that was measured."""

HIDDEN = (
    "Share of each column’s variance that the best estimate cannot recover. A coalition that "
    "gains nothing hides what its best copy hides."
)
ELSEWHERE = (
    "Where a coalition gains nothing and its mark is not on its best copy, the two were measured "
    "differently. A dot is a copy as it is, fitted to all rows. The diamond and the hollow mark "
    "are tested on rows that the estimate was not fitted to. In small tables this costs some "
    "precision, more with more copies to weigh: the diamond is further right. The hollow mark is "
    "the best copy before any rounding: rounded copies may reveal more together than each alone, "
    "but never more than that one."
)
CHECKS = (
    "How close each check came to its limit; a full red bar exceeds it. Honest copies fail "
    f"one or more of the checks in {ALPHA:.0%} of all audits."
)
SHARED = (
    "Covariance of the noise of two copies as a fraction of the lesser variance: 1 leaves "
    "nothing to average out, 0 is independent noise."
)
WHOLE = (
    "Share of each column’s variance that the strongest of several attacks on one copy leaves: "
    "linear in what has noise, arbitrary in what has none (kept columns, a key, which cells are "
    "missing, the order of the rows). In brackets, the share that the copy states; after <, a "
    "statement that does not hold, beyond the margin of chance. A copy that states nothing is "
    "measured, not tested."
)
LINKED = (
    "Share of the variance of each value, of a person’s mean and of the change between two of "
    "their rows that a regression leaves, fitted to other persons, on the row, another one, the "
    "person’s means and how many rows they have; for categories also on what most of their rows "
    "show. In brackets, the share that is stated; after <, a statement that does not hold."
)
LINKED_LEARNED = (
    "Share of each value’s variance that gradient boosting leaves, which also sees the rows around "
    "it and its place among the person’s rows. A smaller figure is a warning and not a fault."
)
LEARNED = (
    "Share of each number’s variance that gradient boosting on everything in one copy leaves. It "
    "is not linear in the noise, so a smaller figure here is a warning and not a fault."
)
BAYES = (
    "Share of each number’s variance that an attack on this copy left, by the column or by all "
    "numbers together, knowing other rows of the original. Privacy is promised against the best "
    "linear estimate, so a smaller figure here is a warning and not a fault. It is what one attack "
    "recovered, not a bound: others may recover more. A higher privacy hides more; a level can be "
    "chosen against such an adversary."
)
EXPOSED = (
    "Number of values so far out that they are recognised in the copy too: further than any of as "
    "many Gaussian values would be expected. A record may be ordinary in each column and stand "
    "out in their combination. Cap or remove such records before release if they matter; more "
    "noise hides them too."
)

Rows = list[tuple[doc.Content, ...]]


def audit_document(audit: Audit) -> doc.Document:
    """Return an audit as a document; its data are the fields that docs/audit.md explains."""
    numbers, categories = audit.numbers, audit.categories
    return doc.Document(
        title=f"Audit of {audit.source}",
        verdict=verdict(audit),
        facts=", ".join(_facts(audit)),
        kind=BAD if not audit.sound else GOOD if audit.clean else PLAIN,
        sections=tuple(
            part
            for part in (
                _listed("Faults", faults(audit), "FAILED"),
                _listed("Untested", list(audit.untested.values()), "UNTESTED"),
                _hidden_section(audit),
                _copies(audit),
                _checks(audit),
                _shared_noise(audit, numbers) if numbers else None,
                _coalitions(audit, numbers) if numbers else None,
                *(_category_sections(audit, categories) if categories else ()),
                _whole(audit),
                *(_linked(audit, audit.linked) if audit.linked else ()),
                _learned(audit),
                _bayes(audit, numbers) if numbers else None,
                _exposed(audit, numbers) if numbers else None,
                _listed("Notes", notes(audit)),
            )
            if part is not None
        ),
        footer="docs/audit.md explains each number and what an audit cannot see.",
        data=as_json(audit),
    )


def _facts(audit: Audit) -> Iterator[str]:
    yield count(audit.rows, "row")
    if audit.linked:
        yield f"{audit.linked.total:,} values of {audit.linked.unit}"
    yield count(len(audit.copies), "copy", "copies")
    if audit.numbers:
        yield count(len(audit.numbers.columns), "perturbed column")
    if audit.categories and audit.categories.judged:
        yield count(len(audit.categories.judged), "category", "categories")


def _listed(title: str, lines: Sequence[str], lead: str = "") -> doc.Section | None:
    return doc.Section(title, [doc.Bullets(lines, lead)]) if lines else None


def interval(gain: float, margin: float) -> str:
    """Write a gain with its margin, to the margin's second digit.

    >>> interval(0.0393, 0.0021), interval(-1.2e-6, 3.1e-5)
    ('0.0393 ± 0.0021', '-0.000001 ± 0.000031')
    >>> interval(0.4, 10.6)
    'not measured'
    """
    if not margin < 1:
        return VAGUE
    digits = 4 if margin <= 0 else min(max(1 - math.floor(math.log10(margin)), 4), 9)
    return f"{round(gain, digits) + 0.0:.{digits}f} ± {margin:.{digits}f}"


# --------------------------------------------------------------------------------------------------
# What stays hidden, drawn and in figures.


def _hidden_section(audit: Audit) -> doc.Section:
    """Show what each copy alone and all of them together leave hidden of each column."""
    rows = [*_number_rows(audit), *_category_rows(audit)]
    elsewhere = any(row.hollow is not None for _, row in rows)
    if len(rows) > MOST_COLUMNS_DRAWN:
        rows = sorted(rows, key=lambda row: -row[0])[:MOST_COLUMNS_DRAWN]
    marks = [
        ("dot", "from one copy, by number"),
        ("diamond", "from all copies together, red if they gain"),
        ("gap", "gained by colluding"),
        *[("hollow", "from the best copy, as the coalition is compared with it")] * elsewhere,
    ]
    label = "Hidden variance of each column, from each copy alone and from all together"
    picture = doc.Picture(doc.Shares([row for _, row in rows], label))
    figures = [_columns(audit.numbers)] if audit.numbers else []
    explained = [doc.Paragraph(HIDDEN), *[doc.Paragraph(ELSEWHERE)] * elsewhere]
    return doc.Section("What stays hidden", [*explained, doc.Legend(marks), picture, *figures])


def _number_rows(audit: Audit) -> Iterator[tuple[float, doc.ShareRow]]:
    """Yield the gain and the row of each number column."""
    numbers = audit.numbers
    if numbers is None:
        return
    whole = max(numbers.gains, key=lambda gain: len(gain.members), default=None)
    for n, name in enumerate(numbers.columns):
        dots = _dots(audit, numbers.singles[:, n].tolist())
        if whole is None:
            yield 0.0, doc.ShareRow(name, dots)
        else:
            yield _row(name, dots, whole.alone[n], whole.together[n], gains=whole.low[n] > 0)


def _category_rows(audit: Audit) -> Iterator[tuple[float, doc.ShareRow]]:
    """Yield the gain and the row of each category."""
    categories = audit.categories
    guesses = categories.guesses if categories else None
    if categories is None or guesses is None:
        return
    largest = max((len(guessed.copies) for guessed in guesses.sets), default=0)
    whole = {g.columns: g for g in guesses.sets if len(g.copies) == largest}
    for shown, singles in zip(categories.judged, guesses.singles.T, strict=True):
        dots = _dots(audit, singles.tolist())
        if (left := whole.get(shown.columns)) is None:
            yield 0.0, doc.ShareRow(shown.name, dots)
        else:
            hidden = left.hidden_alone, left.hidden_together
            yield _row(shown.name, dots, *hidden, gains=categories.gains(left))


def _dots(audit: Audit, shares: list[float]) -> list[tuple[float, str]]:
    named_ones = zip(audit.copies, shares, strict=True)
    return [(share, f"{name}: {share:.4f}") for name, share in named_ones]


def _row(
    name: str, dots: list[tuple[float, str]], alone: float, together: float, *, gains: bool
) -> tuple[float, doc.ShareRow]:
    gain = alone - together
    best = min(share for share, _ in dots)
    return gain, doc.ShareRow(
        name,
        dots,
        diamond=together,
        hollow=alone if abs(best - together) > APART and not gains else None,
        gap=(together, alone) if gains else None,
        words=f"gain {gain:.3f}" if gains else "no gain",
        kind=BAD if gains else GOOD,
    )


def _columns(numbers: NumberAudit) -> doc.DataTable:
    """Show the whole set column by column."""
    rows: Rows = []
    whole = max(numbers.gains, key=lambda gain: len(gain.members), default=None)
    for n, name in enumerate(numbers.columns):
        if whole is None:
            rows.append((name, f"{numbers.singles[:, n].min():.4f}", "", ""))
            continue
        gained = interval(whole.gain[n], whole.margin[n])
        rows.append((name, _hidden(whole.alone[n]), _hidden(whole.together[n]), gained))
    if numbers.posterior is not None:
        best = numbers.posterior
        gained = interval(best.gain.value, best.gain.margin)
        label = f"nonlinear, {best.rows:,} rows"
        rows.append((label, _hidden(best.alone.value), _hidden(best.together.value), gained))
    return doc.DataTable(("hidden from", "the best copy", "all together", "gain"), rows)


# --------------------------------------------------------------------------------------------------
# The copies and their checks.


def _copies(audit: Audit) -> doc.Section:
    """Show the copies, with the noise of their numbers as it was measured."""
    rows: Rows = []
    for i, (name, stated) in enumerate(zip(_numbered(audit), audit.stated, strict=True)):
        seen = []
        if audit.numbers is not None:
            noise = float(audit.numbers.found.noise[i])
            seen = [f"{noise:.4g}", f"{noise / (1 + noise):.3f}"]
        given = ["" if each is None else f"{each:.4g}" for each in (stated, audit.privacy[i])]
        broken = failed(audit, i)
        rows.append(
            (name, *given, *seen, doc.MarkedCell(", ".join(broken), kind=BAD) if broken else "ok")
        )
    measured = ("noise measured", "numbers alone hide") if audit.numbers is not None else ()
    header = ("copy", "noise stated", "privacy stated", *measured, "checks")
    return doc.Section("Copies", [doc.DataTable(header, rows)])


def _numbered(audit: Audit) -> list[str]:
    return [f"{i} {name}" for i, name in enumerate(audit.copies, start=1)]


def _checks(audit: Audit) -> doc.Section | None:
    made = {check.name for check in audit.checks}
    names = [name for name in (*NUMBER_CHECKS, *CATEGORY_CHECKS, *MIXED_CHECKS) if name in made]
    if not names:
        return None
    rows: Rows = [
        (name, *(_meter(audit, i, name) for i in range(len(audit.copies)))) for name in names
    ]
    parts = (doc.Paragraph(CHECKS), doc.DataTable(("check", *_numbered(audit)), rows))
    return doc.Section("Checks", parts, page_only=True)


def _meter(audit: Audit, copy: int, name: str) -> doc.Content:
    checks = [check for check in audit.checks if check.name == name and copy in check.copies]
    if not checks:
        return "–"
    worst = max(checks, key=lambda check: check.value / max(check.limit, 1e-9))
    title = f"{name}: {worst.value:.3g}; limit {worst.limit:.3g}"
    passed = all(check.passed for check in checks)
    return doc.Meter(worst.value / max(worst.limit, 1e-9), passed, title)


NO_NOISE = 1e-12
"""Less noise than this is rounding."""


def _shared_noise(audit: Audit, numbers: NumberAudit) -> doc.Section | None:
    """Show the noise that two copies share, as a fraction of the lesser noise."""
    if len(audit.copies) < 2:
        return None
    noise = numbers.found.noise
    lesser = np.minimum.outer(noise, noise)
    nothing = np.full(lesser.shape, np.nan)  # of a copy without noise there is no share
    shares = np.divide(numbers.found.across, lesser, out=nothing, where=lesser > NO_NOISE)
    rows: Rows = [
        (name, *(f"{s:.3f}" if k <= i and s == s else "" for k, s in enumerate(line)))
        for i, (name, line) in enumerate(zip(_numbered(audit), shares.tolist(), strict=True))
    ]
    header = ("copy", *(f"{i + 1}" for i in range(len(noise))))
    parts = (doc.Paragraph(SHARED), doc.DataTable(header, rows))
    return doc.Section("Noise shared by copies", parts, page_only=True)


# --------------------------------------------------------------------------------------------------
# Coalitions.


def _coalitions(audit: Audit, numbers: NumberAudit) -> doc.Section | None:
    if not numbers.gains:
        return None
    rows: Rows = []
    for gain in _worth_listing(numbers):
        at = int(np.argmax(gain.low))
        rows.append(
            (
                _members(audit, gain.members),
                numbers.columns[at],
                _hidden(gain.alone[at]),
                _hidden(gain.together[at]),
                interval(gain.gain[at], gain.margin[at]),
                _gained(gain.gains),
            )
        )
    title = f"Coalitions, each in the column where it gains most ({len(rows)} of {numbers.sets:,})"
    header = ("coalition", "column", "best alone", "together", "gain", "verdict")
    return doc.Section(title, [doc.DataTable(header, rows)])


def _gained(gains: bool) -> doc.Content:
    return doc.MarkedCell("gains", kind=BAD) if gains else "no gain"


def _members(audit: Audit, members: Sequence[int]) -> str:
    everyone = len(members) == len(audit.copies) > 2
    return f"all {len(members)} copies" if everyone else named(audit, members, " + ")


def _worth_listing(numbers: NumberAudit) -> list[Gain]:
    """Return the coalitions that gain, then the largest and the first of the others."""
    rest = [gain for gain in numbers.gains if not gain.gains]
    rest.sort(key=lambda gain: (-len(gain.members), gain.members))
    return [*numbers.alarms, *rest][:SHOWN]


def _category_sections(audit: Audit, categories: CategoryAudit) -> Iterator[doc.Section]:
    if (guesses := categories.guesses) is None:
        return
    known = [{left.column: left.is_measured for left in shares} for shares in audit.whole]
    rows: Rows = [
        (
            shown.name,
            *(
                _hidden(share, known=shares.get(shown.name))
                for share, shares in zip(column, known, strict=True)
            ),
        )
        for shown, column in zip(categories.judged, guesses.singles.T, strict=True)
    ]
    title = "Categories: share of the variance that stays hidden from each copy alone"
    yield doc.Section(title, [doc.DataTable(("category", *audit.copies), rows)])
    if guesses.sets:
        title = "Categories: share of the variance that stays hidden from coalitions"
        yield doc.Section(title, [_guesses(audit, categories, guesses)])


def _guesses(audit: Audit, categories: CategoryAudit, guesses: Guesses) -> doc.DataTable:
    """Show the whole set, and every set that gains, category by category."""
    whole = max(len(guessed.copies) for guessed in guesses.sets)
    rows: Rows = [
        (
            "+".join(guessed.columns),
            _members(audit, guessed.copies),
            _hidden(guessed.hidden_alone),
            _hidden(guessed.hidden_together),
            interval(guessed.gain, guessed.margin),
            _gained(categories.gains(guessed)),
        )
        for guessed in guesses.sets
        if categories.gains(guessed) or len(guessed.copies) == whole
    ]
    return doc.DataTable(
        ("category", "coalition", "best alone", "together", "gain", "verdict"), rows
    )


# --------------------------------------------------------------------------------------------------
# What single copies leave.


def _whole(audit: Audit) -> doc.Section | None:
    """Show what everything in each copy leaves hidden of each column, and what it states."""
    if not any(audit.whole):
        return None
    known = [{left.column: left for left in shares} for shares in audit.whole]
    columns = dict.fromkeys(left.column for shares in audit.whole for left in shares)
    rows: Rows = [
        (name, *(_share(shares[name]) if name in shares else "" for shares in known))
        for name in columns
    ]
    margins = [left.margin for shares in audit.whole for left in shares if left.is_measured]
    title = "Hidden from the whole copy (stated)"
    title += f", with margins of up to {max(margins):.3f}" if margins else ""
    return doc.Section(
        title, [doc.Paragraph(WHOLE), doc.DataTable(("column", *audit.copies), rows)]
    )


def _linked(audit: Audit, linked: LinkedAudit) -> Iterator[doc.Section]:
    """Show what copies leave hidden of persons, of whom someone knows which rows are theirs."""
    everyone = list(dict.fromkeys(copies for copies, _ in linked.left))
    shares = {(copies, left.column, left.attack): left for copies, left in linked.left}
    rows: Rows = [
        (
            column,
            of,
            *(_share(shares[c, column, of]) if (c, column, of) in shares else "" for c in everyone),
        )
        for column, of in dict.fromkeys((left.column, left.attack) for _, left in linked.left)
    ]
    header = ("column", "of", *(_members(audit, copies) for copies in everyone))
    title = f"Hidden of each {linked.unit}, if rows are linked (stated)"
    yield doc.Section(title, [doc.Paragraph(LINKED), doc.DataTable(header, rows)])
    names = dict.fromkeys(name for shares_of_copy in linked.learned for name in shares_of_copy)
    boosted: Rows = [
        (
            name,
            *(
                f"{shares_of_copy[name]:.3f}" if name in shares_of_copy else ""
                for shares_of_copy in linked.learned
            ),
        )
        for name in names
    ]
    title = f"Hidden of each value from boosting on all rows of a {linked.unit} (not promised)"
    table = doc.DataTable(("column", *audit.copies), boosted)
    yield doc.Section(title, [doc.Paragraph(LINKED_LEARNED), table])


def _share(left: Left) -> doc.Content:
    """Write a hidden share, and what is stated of it.

    >>> _share(Left("wage", 0.51, 0.01, 0.04, 0.5)), _share(Left("wage", 0.38, 0.01, 0.04, 0.5))
    ('0.510 (0.500)', MarkedCell(text='0.380 < 0.500', aside='', kind='bad'))
    >>> _share(Left("wage", 1.02, 0.01, 0.04, None)), _share(Left("wage", 1.4, 2.6, 10.5, 0.5))
    ('1.000', 'not measured (0.500)')
    """
    hidden = f"{min(left.hidden, 1.0):.3f}" if left.is_measured else VAGUE
    if left.stated is None:
        return hidden
    if left.short:
        return doc.MarkedCell(f"{hidden} < {left.stated:.3f}", kind=BAD)
    return f"{hidden} ({left.stated:.3f})"


def _hidden(share: float, *, known: bool | None = None) -> str:
    """Write a hidden share; `known` is whether the whole copy's could be measured.

    A fit to few rows may err more than no fit at all, but nobody has to use it.

    >>> _hidden(0.8346), _hidden(1.0068), _hidden(1.7485), _hidden(1.2, known=True)
    ('0.8346', '1.0000', 'not measured', '1.0000')
    """
    vague = share > TOO_MUCH if known is None else not known
    return VAGUE if vague else f"{min(share, 1.0):.4f}"


def _learned(audit: Audit) -> doc.Section | None:
    """Show what boosting on everything in each copy leaves of each number."""
    names = dict.fromkeys(name for shares in audit.learned for name in shares)
    rows: Rows = [
        (name, *(f"{shares[name]:.3f}" if name in shares else "" for shares in audit.learned))
        for name in names
    ]
    title = "Hidden from boosting on everything, which is not linear (not promised)"
    parts = (doc.Paragraph(LEARNED), doc.DataTable(("column", *audit.copies), rows))
    return doc.Section(title, parts) if rows else None


def _bayes(audit: Audit, numbers: NumberAudit) -> doc.Section:
    """Show what a joint adversary who knows how rows are distributed left of each number."""
    rows: Rows = [
        (name, *(f"{share:.3f}" if np.isfinite(share) else "" for share in shares))
        for name, shares in zip(numbers.columns, numbers.bayes.T, strict=True)
    ]
    title = "Left by a joint adversary who knows how rows are distributed (no bound)"
    return doc.Section(
        title, [doc.Paragraph(BAYES), doc.DataTable(("column", *audit.copies), rows)]
    )


def _exposed(audit: Audit, numbers: NumberAudit) -> doc.Section:
    exposed = numbers.exposed
    counts = np.vstack([exposed.columns.T, exposed.combined, exposed.rows])
    names = (*numbers.columns, "in combination", "in any way")
    rows: Rows = [
        (name, *(f"{n:,}" for n in rows_of)) for name, rows_of in zip(names, counts, strict=True)
    ]
    title = "Records too extreme for the noise to hide"
    return doc.Section(
        title, [doc.Paragraph(EXPOSED), doc.DataTable(("column", *audit.copies), rows)]
    )
