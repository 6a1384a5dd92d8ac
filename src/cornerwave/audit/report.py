"""The audit in words, and as tables for a terminal. No cell of a table is in it."""

import math
from collections.abc import Sequence

import numpy as np

from cornerwave.audit.categories import Categories
from cornerwave.audit.chance import FAMILIES
from cornerwave.audit.gain import Gain
from cornerwave.audit.guesses import Guessed, Guesses
from cornerwave.audit.measured import Audit
from cornerwave.audit.numbers import Numbers

SHOWN = 12
"""So many coalitions are listed for a person; JSON has them all."""

Rows = list[tuple[str, ...]]
Section = tuple[str, tuple[str, ...], Rows]


def verdict(audit: Audit) -> str:
    """Say in one sentence whether the copies keep their promise.

    A gain comes first: it is what an owner must act on.
    """
    gained = (_gain_of(audit, audit.numbers) if audit.numbers else None) or (
        _guess_of(audit, audit.categories) if audit.categories else None
    )
    if gained:
        return gained
    if broken := [check for check in audit.faults if check.name == "path"]:
        who = " and ".join(names(audit, broken[0].copies))
        return f"{who} are no path: together they tell more than the best of them alone."
    if audit.faults:
        return f"No gain from colluding was found, but {count(len(audit.faults), 'fault')}."
    if len(audit.copies) == 1:
        return "Nothing is wrong with the copy; a coalition needs two."
    return "Nothing is gained by colluding, and nothing is wrong with a copy."


def _gain_of(audit: Audit, numbers: Numbers) -> str | None:
    if numbers.alarms:
        worst = numbers.alarms[0]
        if worst.perfect:
            return f"{_together(audit, worst)} have the table: nothing stays hidden from them."
        at = int(np.argmax(worst.low))
        return (
            f"{_together(audit, worst)} gain by colluding: {worst.together[at]:.3f} of "
            f"{numbers.columns[at]} stays hidden from them, {worst.alone[at]:.3f} from "
            f"{audit.copies[worst.best]} alone."
        )
    if numbers.posterior is not None and numbers.beaten:
        gained = numbers.posterior.gain.value
        return f"All copies together gain {gained:.3f} by the best nonlinear estimate."
    return None


def _guess_of(audit: Audit, categories: Categories) -> str | None:
    if not categories.alarms:
        return None
    most = categories.alarms[0]
    return (
        f"{' and '.join(names(audit, most.copies))} gain by colluding: "
        f"{most.hidden_together:.3f} of {_category(most)} stays hidden from them, "
        f"{most.hidden_alone:.3f} from {audit.copies[most.best]} alone."
    )


def findings(audit: Audit) -> list[str]:
    """Return one line for each fault and for what else a reader should know."""
    lines = [
        f"FAULT {' and '.join(names(audit, check.copies))}: {check.name}: {check.note}"
        for check in audit.faults
    ]
    return lines + notes(audit)


def notes(audit: Audit) -> list[str]:
    """Return what is no fault, but good to know."""
    lines = [
        f"{' and '.join(names(audit, check.copies))}: {check.note}"
        for check in audit.checks
        if check.passed and check.note
    ]
    lines += _number_notes(audit, audit.numbers) if audit.numbers else []
    lines += _category_notes(audit.categories) if audit.categories else []
    if audit.logarithmic:
        lines.append(f"compared on the scale log(1+x): {', '.join(audit.logarithmic)}")
    lines += [f"left out: {why}" for why in audit.left_out.values()]
    if audit.sorted_copies:
        lines.append(f"rows in another order, aligned by key: {', '.join(audit.sorted_copies)}")
    return lines


def _number_notes(audit: Audit, numbers: Numbers) -> list[str]:
    lines = [
        f"{audit.copies[i]}: {numbers.columns[n]} is rounded to multiples of "
        f"{steps[n]:g}; judged as if it were not"
        for i, steps in enumerate(numbers.found.steps)
        for n in np.flatnonzero(steps)
    ]
    lines += _listed("in every copy as in the source", numbers.bare)
    lines += _listed("constant, so left out", numbers.constant)
    if missing := numbers.found.rows - numbers.found.complete:
        lines.append(f"left out, for a missing value: {missing:,} rows")
    return lines


def _category_notes(categories: Categories) -> list[str]:
    lines = _listed("in every copy as in the source", categories.bare)
    lines += _listed("constant, so left out", categories.constant)
    lines += _listed("left out, for having more values than a category", categories.boundless)
    if categories.kept < categories.rows:
        lines.append(f"categories were attacked in {categories.kept:,} rows spread over the table")
    return lines


def _listed(what: str, names: Sequence[str]) -> list[str]:
    return [f"{what}: {', '.join(names)}"] if names else []


def sections(audit: Audit) -> list[Section]:
    """Return the tables of the report, each a title, a header and rows."""
    parts = [copies_section(audit)]
    if audit.numbers is not None:
        parts += number_sections(audit, audit.numbers)
    if audit.categories is not None:
        parts += category_sections(audit, audit.categories)
    if audit.numbers is not None:
        parts.append(_exposed(audit, audit.numbers))
    return parts


def number_sections(audit: Audit, numbers: Numbers) -> list[Section]:
    """Return what stays hidden of the numbers, column by column and for coalitions."""
    parts = [_columns(numbers)]
    return [*parts, _coalitions(audit, numbers)] if numbers.gains else parts


def category_sections(audit: Audit, categories: Categories) -> list[Section]:
    """Return what stays hidden of the categories, from each copy and from coalitions."""
    guesses = categories.guesses
    if guesses is None:
        return []
    parts = [_singles(audit, categories, guesses)]
    return [*parts, _guesses(audit, categories, guesses)] if guesses.sets else parts


def interval(gain: float, margin: float) -> str:
    """Write a gain with its margin, to the margin's second digit.

    >>> interval(0.0393, 0.0021), interval(-1.2e-6, 3.1e-5)
    ('0.0393 ± 0.0021', '-0.000001 ± 0.000031')
    """
    digits = 4 if margin <= 0 else min(max(1 - math.floor(math.log10(margin)), 4), 9)
    return f"{round(gain, digits) + 0.0:.{digits}f} ± {margin:.{digits}f}"


def shown_gains(numbers: Numbers) -> list[Gain]:
    """Return the coalitions to list: those that gain, then the largest and the first."""
    rest = sorted(numbers.gains, key=lambda g: (not g.gains, -len(g.members), g.members))
    ranked = [*numbers.alarms, *(gain for gain in rest if not gain.gains)]
    return ranked[:SHOWN]


def failed(audit: Audit, i: int) -> list[str]:
    """Return the names of the checks that a copy failed, alone or with another."""
    return sorted({check.name for check in audit.faults if i in check.copies}, key=_order)


def copies_section(audit: Audit) -> Section:
    """Return the copies, with the noise that their numbers were found to have."""
    rows: Rows = []
    for i, (name, stated) in enumerate(zip(audit.copies, audit.stated, strict=True)):
        measured = []
        if audit.numbers is not None:
            noise = float(audit.numbers.found.noise[i])
            measured = [f"{noise:.4g}", f"{noise / (1 + noise):.3f}"]
        told = "" if stated is None else f"{stated:.4g}"
        rows.append((name, told, *measured, ", ".join(failed(audit, i)) or "ok"))
    title = f"{audit.source}: {audit.rows:,} rows, {count(len(rows), 'copy', 'copies')}"
    found = ("noise found", "privacy") if audit.numbers is not None else ()
    return title, ("copy", "noise stated", *found, "checks"), rows


def _columns(numbers: Numbers) -> Section:
    """Show the whole set column by column."""
    header: tuple[str, ...] = ("hidden from", "the best copy", "all together", "gain")
    rows: Rows = []
    whole = max(numbers.gains, key=lambda gain: len(gain.members), default=None)
    for n, name in enumerate(numbers.columns):
        if whole is None:
            rows.append((name, f"{numbers.singles[:, n].min():.4f}", "", ""))
            continue
        gained = interval(whole.gain[n], whole.margin[n])
        rows.append((name, f"{whole.alone[n]:.4f}", f"{whole.together[n]:.4f}", gained))
    if numbers.posterior is not None:
        best = numbers.posterior
        gained = interval(best.gain.value, best.gain.margin)
        label = f"nonlinear, {best.rows:,} rows"
        rows.append((label, f"{best.alone.value:.4f}", f"{best.together.value:.4f}", gained))
    return "Share of the variance that stays hidden", header, rows


def _coalitions(audit: Audit, numbers: Numbers) -> Section:
    rows: Rows = []
    for gain in shown_gains(numbers):
        at = int(np.argmax(gain.low))
        rows.append(
            (
                " + ".join(names(audit, gain.members)),
                numbers.columns[at],
                f"{gain.alone[at]:.4f}",
                f"{gain.together[at]:.4f}",
                interval(gain.gain[at], gain.margin[at]),
                "gains" if gain.gains else "no gain",
            )
        )
    title = f"Coalitions, each in the column where it gains most ({len(rows)} of {numbers.sets:,})"
    return title, ("coalition", "column", "best alone", "together", "gain", "verdict"), rows


def _singles(audit: Audit, categories: Categories, guesses: Guesses) -> Section:
    rows = [
        (shown.name, *(f"{share:.4f}" for share in column))
        for shown, column in zip(categories.judged, guesses.singles.T, strict=True)
    ]
    title = "Categories: share of the variance that stays hidden from each copy alone"
    return title, ("category", *audit.copies), rows


def _guesses(audit: Audit, categories: Categories, guesses: Guesses) -> Section:
    """Show the whole set, and every set that gains, category by category."""
    whole = max(len(guessed.copies) for guessed in guesses.sets)
    rows: Rows = [
        (
            _category(guessed),
            " + ".join(names(audit, guessed.copies)),
            _right(guessed),
            interval(guessed.gain, guessed.margin),
            "gains" if categories.gains(guessed) else "no gain",
        )
        for guessed in guesses.sets
        if categories.gains(guessed) or len(guessed.copies) == whole
    ]
    header = ("category", "coalition", "right: blind, best copy, all", "gain", "verdict")
    return "Categories guessed by coalitions, and the share they gain", header, rows


def _right(guessed: Guessed) -> str:
    return f"{guessed.blind:.1%}, {guessed.alone:.1%}, {guessed.together:.1%}"


def _category(guessed: Guessed) -> str:
    return "+".join(guessed.columns) if guessed.by_itself else "all jointly"


def _exposed(audit: Audit, numbers: Numbers) -> Section:
    exposed = numbers.exposed
    rows = [
        (name, *(f"{count:,}" for count in [*exposed.columns[i], exposed.rows[i]]))
        for i, name in enumerate(audit.copies)
    ]
    header = ("copy", *numbers.columns, "any")
    return "Records so far out that the noise does not hide them", header, rows


def names(audit: Audit, copies: tuple[int, ...]) -> list[str]:
    """Return what some copies are called."""
    return [audit.copies[i] for i in copies]


def _together(audit: Audit, gain: Gain) -> str:
    return " and ".join(names(audit, gain.members))


def count(number: int, what: str, many: str | None = None) -> str:
    """Write a number of things.

    >>> count(1, "fault"), count(2, "copy", "copies")
    ('1 fault', '2 copies')
    """
    return f"{number} {what if number == 1 else many or what + 's'}"


def _order(name: str) -> int:
    return FAMILIES.index(name) if name in FAMILIES else len(FAMILIES)
