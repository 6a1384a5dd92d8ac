"""The audit in words, as tables for a terminal, and as JSON. No cell of a table is in it."""

import math
from dataclasses import asdict
from typing import Any

import numpy as np

from cornerwave.audit.chance import ALPHA, FAMILIES
from cornerwave.audit.gain import Gain
from cornerwave.audit.measured import Audit

SHOWN = 12
"""So many coalitions are listed for a person; JSON has them all."""

Rows = list[tuple[str, ...]]
Section = tuple[str, tuple[str, ...], Rows]


def verdict(audit: Audit) -> str:
    """Say in one sentence whether the copies keep their promise.

    A gain comes first: it is what an owner must act on.
    """
    if audit.alarms:
        worst = audit.alarms[0]
        if worst.perfect:
            return f"{_together(audit, worst)} have the table: nothing stays hidden from them."
        at = int(np.argmax(worst.low))
        return (
            f"{_together(audit, worst)} gain by colluding: {worst.together[at]:.3f} of "
            f"{audit.columns[at]} stays hidden from them, {worst.alone[at]:.3f} from "
            f"{audit.copies[worst.best]} alone."
        )
    if audit.posterior is not None and audit.posterior.gain.above_zero:
        gained = audit.posterior.gain.value
        return f"All copies together gain {gained:.3f} by the best nonlinear estimate."
    if betrayed := [guessed for guessed in audit.guesses if guessed.gains]:
        most = max(betrayed, key=lambda guessed: guessed.low)
        return (
            f"{' and '.join(_names(audit, most.copies))} gain by colluding: "
            f"{most.hidden_together:.3f} of {'+'.join(most.columns)} stays hidden from them, "
            f"{most.hidden_alone:.3f} from {audit.copies[most.best]} alone."
        )
    if audit.faults:
        return f"No gain from colluding was found, but {_count(len(audit.faults), 'fault')}."
    if len(audit.copies) == 1:
        return "Nothing is wrong with the copy; a coalition needs two."
    return "Nothing is gained by colluding, and nothing is wrong with a copy."


def findings(audit: Audit) -> list[str]:
    """Return one line for each fault and for what else a reader should know."""
    lines = [
        f"FAULT {' and '.join(_names(audit, check.copies))}: {check.name}: {check.note}"
        for check in audit.faults
    ]
    return lines + notes(audit)


def notes(audit: Audit) -> list[str]:
    """Return what is no fault, but good to know."""
    lines = [
        f"{' and '.join(_names(audit, check.copies))}: {check.note}"
        for check in audit.checks
        if check.passed and check.note
    ]
    for i, steps in enumerate(audit.found.steps):
        for n in np.flatnonzero(steps):
            lines.append(
                f"{audit.copies[i]}: {audit.columns[n]} is rounded to multiples of "
                f"{steps[n]:g}; judged as if it were not"
            )
    if audit.bare:
        lines.append(f"in every copy as in the source: {', '.join(audit.bare)}")
    if audit.constant:
        lines.append(f"constant, so left out: {', '.join(audit.constant)}")
    if audit.logarithmic:
        lines.append(f"compared on the scale log(1+x): {', '.join(audit.logarithmic)}")
    lines += [f"left out: {why}" for why in audit.left_out.values()]
    if audit.sorted_copies:
        lines.append(f"rows in another order, aligned by key: {', '.join(audit.sorted_copies)}")
    if audit.found.complete < audit.found.rows:
        missing = audit.found.rows - audit.found.complete
        lines.append(f"left out, for a missing value: {missing:,} rows")
    return lines


def sections(audit: Audit) -> list[Section]:
    """Return the tables of the report, each a title, a header and rows."""
    parts = [_copies(audit), _columns(audit)]
    if audit.gains:
        parts.append(_coalitions(audit))
    if audit.guesses:
        parts.append(_guesses(audit))
    parts.append(_exposed(audit))
    return parts


def as_json(audit: Audit) -> dict[str, Any]:
    """Return the whole audit; docs/audit.md says what each field means."""
    found = audit.found
    return {
        "verdict": verdict(audit),
        "clean": audit.clean,
        "alpha": ALPHA,
        "source": audit.source,
        "rows": found.rows,
        "complete_rows": found.complete,
        "columns": list(audit.columns),
        "constant_columns": list(audit.constant),
        "unperturbed_columns": list(audit.bare),
        "logarithmic_columns": list(audit.logarithmic),
        "left_out_columns": dict(audit.left_out),
        "copies": [_copy_json(audit, i) for i in range(found.copies)],
        "noise_across_copies": found.across.tolist(),
        "checks": [
            {
                "check": check.name,
                "copies": _names(audit, check.copies),
                "value": check.value if np.isfinite(check.value) else None,
                "limit": check.limit,
                "passed": check.passed,
                "note": check.note,
            }
            for check in audit.checks
        ],
        "coalitions_attacked": audit.sets,
        "coalitions": [_gain_json(audit, gain) for gain in audit.gains],
        "nonlinear": _posterior_json(audit),
        "categories": [
            {
                **asdict(guessed),
                "copies": _names(audit, guessed.copies),
                "best": audit.copies[guessed.best],
                "gains": guessed.gains,
            }
            for guessed in audit.guesses
        ],
        "notes": notes(audit),
    }


def interval(gain: float, margin: float) -> str:
    """Write a gain with its margin, to the margin's second digit.

    >>> interval(0.0393, 0.0021), interval(-1.2e-6, 3.1e-5)
    ('0.0393 ± 0.0021', '-0.000001 ± 0.000031')
    """
    digits = 4 if margin <= 0 else min(max(1 - math.floor(math.log10(margin)), 4), 9)
    return f"{round(gain, digits) + 0.0:.{digits}f} ± {margin:.{digits}f}"


def shown_gains(audit: Audit) -> list[Gain]:
    """Return the coalitions to list: those that gain, then the largest and the first."""
    rest = sorted(audit.gains, key=lambda g: (not g.gains, -len(g.members), g.members))
    ranked = [*audit.alarms, *(gain for gain in rest if not gain.gains)]
    return ranked[:SHOWN]


def failed(audit: Audit, i: int) -> list[str]:
    """Return the names of the checks that a copy failed, alone or with another."""
    return sorted({check.name for check in audit.faults if i in check.copies}, key=_order)


def _copies(audit: Audit) -> Section:
    rows: Rows = []
    for i, name in enumerate(audit.copies):
        noise, stated = float(audit.found.noise[i]), audit.stated[i]
        rows.append(
            (
                name,
                f"{noise:.4g}",
                "" if stated is None else f"{stated:.4g}",
                f"{noise / (1 + noise):.3f}",
                ", ".join(failed(audit, i)) or "ok",
            )
        )
    title = f"{audit.source}: {audit.found.rows:,} rows, {_count(len(rows), 'copy', 'copies')}"
    return title, ("copy", "noise", "stated", "privacy", "checks"), rows


def _columns(audit: Audit) -> Section:
    """Show the whole set column by column."""
    header: tuple[str, ...] = ("hidden from", "the best copy", "all together", "gain")
    rows: Rows = []
    whole = max(audit.gains, key=lambda gain: len(gain.members), default=None)
    for n, name in enumerate(audit.columns):
        if whole is None:
            rows.append((name, f"{audit.singles[:, n].min():.4f}", "", ""))
            continue
        gained = interval(whole.gain[n], whole.margin[n])
        rows.append((name, f"{whole.alone[n]:.4f}", f"{whole.together[n]:.4f}", gained))
    if audit.posterior is not None:
        best = audit.posterior
        gained = interval(best.gain.value, best.gain.margin)
        label = f"nonlinear, {best.rows:,} rows"
        rows.append((label, f"{best.alone.value:.4f}", f"{best.together.value:.4f}", gained))
    return "Share of the variance that stays hidden", header, rows


def _coalitions(audit: Audit) -> Section:
    rows: Rows = []
    for gain in shown_gains(audit):
        at = int(np.argmax(gain.low))
        rows.append(
            (
                " + ".join(_names(audit, gain.members)),
                audit.columns[at],
                f"{gain.alone[at]:.4f}",
                f"{gain.together[at]:.4f}",
                interval(gain.gain[at], gain.margin[at]),
                "gains" if gain.gains else "no gain",
            )
        )
    title = f"Coalitions, each in the column where it gains most ({len(rows)} of {audit.sets:,})"
    return title, ("coalition", "column", "best alone", "together", "gain", "verdict"), rows


def _guesses(audit: Audit) -> Section:
    """Show the whole set, and every set that gains, category by category."""
    whole = max(len(guessed.copies) for guessed in audit.guesses)
    rows: Rows = [
        (
            guessed.columns[0] if len(guessed.columns) == 1 else "all jointly",
            " + ".join(_names(audit, guessed.copies)),
            f"{guessed.blind:.1%}",
            f"{guessed.alone:.1%}",
            f"{guessed.together:.1%}",
            f"{guessed.hidden_alone:.4f}",
            f"{guessed.hidden_together:.4f}",
            interval(guessed.gain, guessed.high - guessed.gain),
            "gains" if guessed.gains else "no gain",
        )
        for guessed in audit.guesses
        if guessed.gains or len(guessed.copies) == whole
    ]
    header = (
        "category",
        "coalition",
        "right blind",
        "alone",
        "together",
        "hidden alone",
        "together",
        "gain",
        "verdict",
    )
    return "Categories: guessed right, and share of the variance that stays hidden", header, rows


def _exposed(audit: Audit) -> Section:
    rows = [
        (name, *(f"{count:,}" for count in [*audit.exposed.columns[i], audit.exposed.rows[i]]))
        for i, name in enumerate(audit.copies)
    ]
    return (
        "Records so far out that the noise does not hide them",
        ("copy", *audit.columns, "any"),
        rows,
    )


def _copy_json(audit: Audit, i: int) -> dict[str, Any]:
    noise = float(audit.found.noise[i])
    columns = audit.columns
    return {
        "name": audit.copies[i],
        "noise": noise,
        "privacy": noise / (1 + noise),
        "stated_noise": audit.stated[i],
        "hidden": dict(zip(columns, audit.singles[i].tolist(), strict=True)),
        "rounded_to": {
            c: float(s) for c, s in zip(columns, audit.found.steps[i], strict=True) if s
        },
        "exposed": dict(zip(columns, audit.exposed.columns[i].tolist(), strict=True)),
        "exposed_rows": int(audit.exposed.rows[i]),
        "failed": failed(audit, i),
    }


def _gain_json(audit: Audit, gain: Gain) -> dict[str, Any]:
    return {
        "members": _names(audit, gain.members),
        "best": audit.copies[gain.best],
        "gains": gain.gains,
        "perfect": gain.perfect,
        "columns": {
            name: {
                "alone": float(gain.alone[n]),
                "together": float(gain.together[n]),
                "gain": float(gain.gain[n]),
                "margin": float(gain.margin[n]),
            }
            for n, name in enumerate(audit.columns)
        },
    }


def _posterior_json(audit: Audit) -> dict[str, Any] | None:
    if audit.posterior is None:
        return None
    best = audit.posterior
    return {
        "rows": best.rows,
        "alone": best.alone.value,
        "together": best.together.value,
        "gain": best.gain.value,
        "margin": best.gain.margin,
    }


def _names(audit: Audit, copies: tuple[int, ...]) -> list[str]:
    return [audit.copies[i] for i in copies]


def _together(audit: Audit, gain: Gain) -> str:
    return " and ".join(_names(audit, gain.members))


def _count(number: int, what: str, many: str | None = None) -> str:
    return f"{number} {what if number == 1 else many or what + 's'}"


def _order(name: str) -> int:
    return FAMILIES.index(name) if name in FAMILIES else len(FAMILIES)
