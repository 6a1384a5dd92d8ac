"""The audit as tables for a terminal or a page. No cell of the audited table is in them."""

import math
from collections.abc import Sequence

import numpy as np

from cornerwave.audit._audit import Audit, CategoryAudit, NumberAudit
from cornerwave.audit._coalitions import Gain
from cornerwave.audit._guesses import Guesses
from cornerwave.audit._untested import measured
from cornerwave.audit._verdict import count, failed, named
from cornerwave.audit._whole import Left

SHOWN = 12
"""At most this many coalitions are listed; JSON has them all."""

BAYES = "Left by a joint adversary who knows how rows are distributed (no bound)"
"""The title of the table of what the posterior mean leaves."""

VAGUE = "not measured"
"""A share or a gain that was not measured precisely enough to mean anything."""

TOO_MUCH = 1.1
"""No copy hides more than everything: a share above this is not one that was measured."""

LEARNED = "Hidden from boosting on everything, which is not linear (not promised)"
"""The title of the table of what a learned estimate leaves."""

Rows = list[tuple[str, ...]]
Section = tuple[str, tuple[str, ...], Rows]


def sections(audit: Audit) -> list[Section]:
    """Return the tables of the report, each a title, a header and rows."""
    parts, numbers, categories = [_copies(audit)], audit.numbers, audit.categories
    if numbers is not None:
        parts.append(_columns(numbers))
        parts += [_coalitions(audit, numbers)] if numbers.gains else []
    if categories is not None and (guesses := categories.guesses) is not None:
        parts.append(_singles(audit, categories, guesses))
        parts += [_guesses(audit, categories, guesses)] if guesses.sets else []
    parts += [_whole(audit)] if any(audit.whole) else []
    parts += [_learned(audit)] if any(audit.learned) else []
    if numbers is not None:
        parts += [_bayes(audit, numbers), _exposed(audit, numbers)]
    return parts


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


def _copies(audit: Audit) -> Section:
    """Show the copies, with the noise that their numbers were found to have."""
    rows: Rows = []
    for i, (name, stated) in enumerate(zip(audit.copies, audit.stated, strict=True)):
        measured = []
        if audit.numbers is not None:
            noise = float(audit.numbers.found.noise[i])
            measured = [f"{noise:.4g}", f"{noise / (1 + noise):.3f}"]
        promised = audit.privacy[i]
        said = ["" if given is None else f"{given:.4g}" for given in (stated, promised)]
        rows.append((name, *said, *measured, ", ".join(failed(audit, i)) or "ok"))
    title = f"{audit.source}: {audit.rows:,} rows, {count(len(rows), 'copy', 'copies')}"
    found = ("noise found", "of numbers alone") if audit.numbers is not None else ()
    return title, ("copy", "noise stated", "privacy stated", *found, "checks"), rows


def _columns(numbers: NumberAudit) -> Section:
    """Show the whole set column by column."""
    header: tuple[str, ...] = ("hidden from", "the best copy", "all together", "gain")
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
    return "Share of the variance that stays hidden", header, rows


def _coalitions(audit: Audit, numbers: NumberAudit) -> Section:
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
                "gains" if gain.gains else "no gain",
            )
        )
    title = f"Coalitions, each in the column where it gains most ({len(rows)} of {numbers.sets:,})"
    return title, ("coalition", "column", "best alone", "together", "gain", "verdict"), rows


def _members(audit: Audit, members: Sequence[int]) -> str:
    everyone = len(members) == len(audit.copies) > 2
    return f"all {len(members)} copies" if everyone else named(audit, members, " + ")


def _worth_listing(numbers: NumberAudit) -> list[Gain]:
    """Return the coalitions that gain, then the largest and the first of the others."""
    rest = [gain for gain in numbers.gains if not gain.gains]
    rest.sort(key=lambda gain: (-len(gain.members), gain.members))
    return [*numbers.alarms, *rest][:SHOWN]


def _singles(audit: Audit, categories: CategoryAudit, guesses: Guesses) -> Section:
    known = [{left.column: measured(left) for left in own} for own in audit.whole]
    rows = [
        (
            shown.name,
            *(
                _hidden(share, known=own.get(shown.name))
                for share, own in zip(column, known, strict=True)
            ),
        )
        for shown, column in zip(categories.judged, guesses.singles.T, strict=True)
    ]
    title = "Categories: share of the variance that stays hidden from each copy alone"
    return title, ("category", *audit.copies), rows


def _guesses(audit: Audit, categories: CategoryAudit, guesses: Guesses) -> Section:
    """Show the whole set, and every set that gains, category by category."""
    whole = max(len(guessed.copies) for guessed in guesses.sets)
    rows: Rows = [
        (
            "+".join(guessed.columns),
            _members(audit, guessed.copies),
            _hidden(guessed.hidden_alone),
            _hidden(guessed.hidden_together),
            interval(guessed.gain, guessed.margin),
            "gains" if categories.gains(guessed) else "no gain",
        )
        for guessed in guesses.sets
        if categories.gains(guessed) or len(guessed.copies) == whole
    ]
    header = ("category", "coalition", "best alone", "together", "gain", "verdict")
    return "Categories: share of the variance that stays hidden from coalitions", header, rows


def _whole(audit: Audit) -> Section:
    """Show what everything in each copy leaves hidden of each column, and what it states."""
    known = [{left.column: left for left in own} for own in audit.whole]
    columns = dict.fromkeys(left.column for own in audit.whole for left in own)
    rows = [
        (name, *(_share(own[name]) if name in own else "" for own in known)) for name in columns
    ]
    margins = [left.margin for own in audit.whole for left in own if measured(left)]
    title = "Hidden from the whole copy (stated)"
    title += f", with margins of up to {max(margins):.3f}" if margins else ""
    return title, ("column", *audit.copies), rows


def _share(left: Left) -> str:
    """Write a hidden share, and what is stated of it.

    >>> _share(Left("wage", 0.51, 0.01, 0.04, 0.5)), _share(Left("wage", 0.38, 0.01, 0.04, 0.5))
    ('0.510 (0.500)', '0.380 < 0.500')
    >>> _share(Left("wage", 1.02, 0.01, 0.04, None)), _share(Left("wage", 1.4, 2.6, 10.5, 0.5))
    ('1.000', 'not measured (0.500)')
    """
    hidden = f"{min(left.hidden, 1.0):.3f}" if measured(left) else VAGUE
    if left.stated is None:
        return hidden
    return f"{hidden} < {left.stated:.3f}" if left.short else f"{hidden} ({left.stated:.3f})"


def _hidden(share: float, *, known: bool | None = None) -> str:
    """Write a hidden share; `known` says whether the whole copy's could be measured.

    A fit to few rows may err more than no fit at all, but nobody has to use it.

    >>> _hidden(0.8346), _hidden(1.0068), _hidden(1.7485), _hidden(1.2, known=True)
    ('0.8346', '1.0000', 'not measured', '1.0000')
    """
    vague = share > TOO_MUCH if known is None else not known
    return VAGUE if vague else f"{min(share, 1.0):.4f}"


def _learned(audit: Audit) -> Section:
    """Show what boosting on everything in each copy leaves of each number."""
    names = dict.fromkeys(name for own in audit.learned for name in own)
    rows = [
        (name, *(f"{own[name]:.3f}" if name in own else "" for own in audit.learned))
        for name in names
    ]
    return LEARNED, ("column", *audit.copies), rows


def _bayes(audit: Audit, numbers: NumberAudit) -> Section:
    """Show what a joint adversary who knows how rows are distributed left of each number."""
    rows = [
        (name, *(f"{share:.3f}" if np.isfinite(share) else "" for share in own))
        for name, own in zip(numbers.columns, numbers.bayes.T, strict=True)
    ]
    return BAYES, ("column", *audit.copies), rows


def _exposed(audit: Audit, numbers: NumberAudit) -> Section:
    exposed = numbers.exposed
    counts = np.vstack([exposed.columns.T, exposed.combined, exposed.rows])
    names = (*numbers.columns, "in combination", "in any way")
    rows = [(name, *(f"{n:,}" for n in own)) for name, own in zip(names, counts, strict=True)]
    return "Records too extreme for the noise to hide", ("column", *audit.copies), rows
