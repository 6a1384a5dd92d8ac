"""The audit in words and as JSON, without a cell of a table; docs/audit.md explains the fields."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict

import numpy as np

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
from cornerwave.audit._fits import FEW_TO_LEARN
from cornerwave.audit._linked import LinkedAudit
from cornerwave.document import count
from cornerwave.kinds import Json, JsonObject

MUCH = 0.2
"""A column that loses a larger share of what is stated to its distribution is named."""
FEW = 100
"""A column with fewer values is noted as hardly tested."""
NAMED = 5
"""So many of them are named one by one."""

_ORDER = (*NUMBER_CHECKS, *CATEGORY_CHECKS, *MIXED_CHECKS)


def verdict(audit: Audit) -> str:
    """Return in one line whether the copies keep their promise, and what was not tested or seen.

    A gain comes first: it is what an owner must act on. If there is no fault, what was left
    untested does.
    """
    if not audit.untested:
        return f"{_found(audit)}{_unseen(audit)}"
    missed = count(len(audit.untested), "column or copy", "columns or copies")
    if audit.sound:
        findings = f"{_found(audit)}{_unseen(audit)}"
        return f"Not everything was tested: {missed} untested. Otherwise: {findings}"
    return f"{_found(audit)} Untested: {missed}."


def _unseen(audit: Audit) -> str:
    """Return which leaks would have passed, if there is no fault."""
    if not (audit.unseen and audit.sound):
        return ""
    return f" An audit of this table would not detect: {'; '.join(audit.unseen)}."


def _found(audit: Audit) -> str:
    """Return the verdict on what was tested."""
    gained = (_gain_of(audit, audit.numbers) if audit.numbers else None) or (
        _guess_of(audit, audit.categories) if audit.categories else None
    )
    if gained:
        return gained
    if broken := [check for check in audit.faults if check.name == "path"]:
        return (
            f"{named(audit, broken[0].copies)} are not consistent with one noise path: "
            "together they reveal more than the best of them alone."
        )
    held = ("promise", "whole copy", "persons")
    if broken := [check for check in audit.faults if check.name in held]:
        states = "hides less than it states" if len(broken[0].copies) == 1 else "hide less together"
        return f"{named(audit, broken[0].copies)} {states}: {broken[0].note}."
    alone = len(audit.copies) == 1
    if audit.faults:
        failed = f"{count(len(audit.faults), 'check')} failed."
        return failed if alone else f"No coalition gains, but {failed}"
    if alone:
        return "The copy passes every check. A coalition needs at least two copies."
    return "No coalition gains, and every copy passes every check."


def _gain_of(audit: Audit, numbers: NumberAudit) -> str | None:
    if numbers.alarms:
        worst = numbers.alarms[0]
        together = named(audit, worst.members)
        if worst.perfect:
            return f"{together} recover the table: nothing stays hidden from them."
        at = int(np.argmax(worst.low))
        return (
            f"{together} gain by colluding: {worst.together[at]:.3f} of "
            f"{numbers.columns[at]} stays hidden from them, {worst.alone[at]:.3f} from "
            f"{audit.copies[worst.best]} alone."
        )
    if numbers.posterior is not None and numbers.beaten:
        gained = numbers.posterior.gain.value
        return f"All copies together gain {gained:.3f} by the best nonlinear estimate."
    return None


def _guess_of(audit: Audit, categories: CategoryAudit) -> str | None:
    if not categories.alarms:
        return None
    most = categories.alarms[0]
    return (
        f"{named(audit, most.copies)} gain by colluding: {most.hidden_together:.3f} of "
        f"{'+'.join(most.columns)} stays hidden from them, {most.hidden_alone:.3f} from "
        f"{audit.copies[most.best]} alone."
    )


def faults(audit: Audit) -> list[str]:
    """Return one line for each failed check."""
    return [f"{named(audit, check.copies)}: {check.name}: {check.note}" for check in audit.faults]


def notes(audit: Audit) -> list[str]:
    """Return what is not a fault, but good to know."""
    lines = [
        f"{named(audit, check.copies)}: {check.note}"
        for check in audit.checks
        if check.passed and check.note
    ]
    lines += _number_notes(audit, audit.numbers) if audit.numbers else []
    lines += _bayes_notes(audit, audit.numbers) if audit.numbers else []
    lines += _category_notes(audit, audit.categories) if audit.categories else []
    lines += _whole_notes(audit)
    lines += _linked_notes(audit, audit.linked) if audit.linked else []
    lines += [
        f"would not be detected in {_everyone(audit, steps)}: {leak}"
        for leak, steps in audit.unseen.items()
    ]
    lines += _listed("compared on the scale log(1+x)", audit.logarithmic)
    lines += [f"{name} was {why}, so it is judged by itself" for name, why in audit.apart.items()]
    lines += [
        f"left out: {why}" for name, why in audit.left_out.items() if name not in audit.untested
    ]
    lines += _listed("rows in another order, aligned by key", audit.sorted_copies)
    return lines


def _number_notes(audit: Audit, numbers: NumberAudit) -> list[str]:
    lines = [
        f"{copy}: {', '.join(np.array(numbers.columns)[steps == step])}: rounded to multiples of "
        f"{step:g}; the noise is judged without the rounding"
        for copy, steps in zip(audit.copies, numbers.rounded_to, strict=True)
        for step in np.unique(steps[steps > 0])
    ]
    lines += _listed(
        "no metadata, so numbers were judged as the noise left them (raw copies)", audit.silent
    )
    lines += _listed("the same in every copy and the source", numbers.bare)
    lines += _listed("left out, constant", numbers.constant)
    few = [name for name, n in zip(numbers.columns, numbers.found.present, strict=True) if n < FEW]
    lines += _listed(f"fewer than {FEW} rows have a value, so only large faults show", few)
    if missing := numbers.found.rows - numbers.complete:
        tested = numbers.found.complete - numbers.complete
        lines.append(f"rows with a missing number: {missing:,}, {tested:,} of them tested")
    return lines


def recognised(audit: Audit, numbers: NumberAudit) -> Iterator[tuple[int, list[tuple[str, float]]]]:
    """Yield, for each copy, the columns of which a joint adversary left far less than stated."""
    for i, shares in enumerate(numbers.bayes):
        stated = {left.column: left.stated for left in audit.whole[i]}
        linear = float(numbers.found.noise[i] / (1 + numbers.found.noise[i]))
        pairs = zip(numbers.columns, shares.tolist(), strict=True)
        yield i, [(n, s) for n, s in pairs if s < (stated.get(n) or linear) * (1 - MUCH)]


def _bayes_notes(audit: Audit, numbers: NumberAudit) -> list[str]:
    lines = []
    for i, columns in recognised(audit, numbers):
        if columns:
            worst = sorted(columns, key=lambda each: each[1])
            named_ones = ", ".join(f"{name} {share:.3f}" for name, share in worst[:NAMED])
            rest = f" and {len(worst) - NAMED} more" if len(worst) > NAMED else ""
            lines.append(
                f"{audit.copies[i]}: a joint adversary who knows how rows are distributed left "
                f"less than stated ({named_ones}{rest}), and others may recover more; privacy is "
                "promised against linear estimates. More noise hides more, and can be chosen "
                "against bayes"
            )
    return lines


def _category_notes(audit: Audit, categories: CategoryAudit) -> list[str]:
    lines = _listed("the same in every copy and the source", categories.bare)
    unlisted = [name for name in categories.boundless if name not in audit.untested]
    lines += _listed("left out, too many values for a category", unlisted)
    lines += _listed("left out, constant", categories.constant)
    if categories.kept < categories.rows:
        lines.append(f"categories were judged in {categories.kept:,} rows spread over the table")
    return lines


def _whole_notes(audit: Audit) -> list[str]:
    """Return which copies were not tested for what they hide as a whole, and in how many rows."""
    silent = [name for name, p in zip(audit.copies, audit.privacy, strict=True) if p is None]
    few = [name for name, left in zip(audit.copies, audit.whole, strict=True) if not left]
    lines = _listed("no privacy stated, so what the whole copy hides was not tested", silent)
    lines += _listed("too few rows to measure what the whole copy hides", few)
    lines += _listed("too few rows hold each value to measure what stays hidden", audit.unmeasured)
    if audit.noise_free and 0 < audit.whole_rows < FEW_TO_LEARN:
        lines.append(
            f"{audit.whole_rows:,} rows are too few for boosting and for fits inside cells: what "
            "has no noise was used by linear fits, means and neighbours alone"
        )
    if len(few) < len(audit.copies) and audit.whole_rows < audit.rows:
        rows = f"{audit.whole_rows:,} rows spread over the table"
        lines.append(f"what whole copies hide was measured in {rows}")
    return lines


def _linked_notes(audit: Audit, linked: LinkedAudit) -> list[str]:
    """Return how persons were looked at, and what the order of their rows reveals."""
    lines = [
        f"rows with the same {linked.unit} belong together: noise was tested in one row of each of "
        f"{linked.total:,}, chosen by chance, and what copies hide of a person in {linked.rows:,} "
        f"rows of {linked.persons:,}"
    ]
    if audit.time is not None:
        lines.append(
            f"noise is a curve in {audit.time}, of another covariance at each time: checks that "
            "compare the noise of all rows with one covariance do not apply"
        )
    for i, name in enumerate(audit.copies):
        left = sorted((each for k, each in linked.in_order if k == i), key=lambda e: e.hidden)
        shares = ", ".join(f"{each.column} {each.hidden:.3f}" for each in left[:NAMED])
        rest = f" and {len(left) - NAMED} more" if len(left) > NAMED else ""
        if left:
            lines.append(
                f"{name}: the order of a person's rows, kept by choice, leaves less than is stated "
                f"({shares}{rest}); shuffled rows reveal less"
            )
    return lines


def _listed(what: str, names: Sequence[str]) -> list[str]:
    return [f"{what}: {', '.join(names)}"] if names else []


def named(audit: Audit, copies: Sequence[int], joint: str = " and ") -> str:
    """Return the names of some copies in one text."""
    return joint.join(audit.copies[i] for i in copies)


def _everyone(audit: Audit, steps: Sequence[Sequence[int]]) -> str:
    """Return the names of all copies of some steps, each once."""
    names = [audit.copies[i] for i in dict.fromkeys(i for step in steps for i in step)]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def failed(audit: Audit, i: int) -> list[str]:
    """Return the names of the checks that a copy failed, alone or with another."""
    names = {check.name for check in audit.faults if i in check.copies}
    return sorted(names, key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER))


def as_json(audit: Audit) -> JsonObject:
    """Return the whole audit as one JSON object."""
    numbers, categories = audit.numbers, audit.categories
    return {
        "verdict": verdict(audit),
        "clean": audit.clean,
        "untested": dict(audit.untested),
        "unseen": {
            leak: [[audit.copies[i] for i in step] for step in steps]
            for leak, steps in audit.unseen.items()
        },
        "alpha": ALPHA,
        "source": audit.source,
        "rows": audit.rows,
        "complete_rows": numbers.complete if numbers else None,
        "tested_rows": numbers.found.complete if numbers else None,
        "columns": list(numbers.columns) if numbers else [],
        "constant_columns": _both(numbers, categories, "constant"),
        "unperturbed_columns": _both(numbers, categories, "bare"),
        "logarithmic_columns": list(audit.logarithmic),
        "apart_columns": dict(audit.apart),
        "left_out_columns": dict(audit.left_out),
        "copies": [_copy_json(audit, i) for i in range(len(audit.copies))],
        "noise_across_copies": numbers.found.across.tolist() if numbers else None,
        "checks": [
            {
                "check": check.name,
                "copies": [audit.copies[i] for i in check.copies],
                "value": check.value if np.isfinite(check.value) else None,
                "limit": check.limit,
                "passed": check.passed,
                "note": check.note,
            }
            for check in audit.checks
        ],
        "coalitions_attacked": numbers.sets if numbers else 0,
        "coalitions": [_gain_json(audit, numbers, g) for g in numbers.gains] if numbers else [],
        "nonlinear": _posterior_json(numbers) if numbers else None,
        "persons": _linked_json(audit, audit.linked) if audit.linked else None,
        "categories": _categories_json(audit, categories) if categories else None,
        "notes": notes(audit),
    }


def _both(numbers: NumberAudit | None, categories: CategoryAudit | None, what: str) -> list[str]:
    return [name for part in (numbers, categories) if part for name in getattr(part, what)]


def _copy_json(audit: Audit, i: int) -> JsonObject:
    numbers, categories = audit.numbers, audit.categories
    hidden: dict[str, float | None] = {}
    about: dict[str, Json] = {
        "name": audit.copies[i],
        "stated_noise": audit.stated[i],
        "stated_privacy": audit.privacy[i],
        "failed": failed(audit, i),
        "hidden": hidden,
        "whole_copy": {
            left.column: {
                "hidden": left.hidden,
                "margin": left.margin,
                "stated": left.stated,
                "attack": left.attack,
                "reveals": left.reveals,
                "short": left.short,
                "measured": left.is_measured,
            }
            for left in audit.whole[i]
        },
        "hidden_from_boosting": dict(audit.learned[i]) if audit.learned else {},
    }
    if numbers is not None:
        noise, columns = float(numbers.found.noise[i]), numbers.columns
        steps, exposed = numbers.rounded_to[i], numbers.exposed
        about |= {
            "noise": noise,
            "privacy": noise / (1 + noise),
            "rounded_to": {c: float(s) for c, s in zip(columns, steps, strict=True) if s},
            "exposed": dict(zip(columns, exposed.columns[i].tolist(), strict=True)),
            "exposed_in_combination": int(exposed.combined[i]),
            "exposed_rows": int(exposed.rows[i]),
        }
        hidden |= dict(zip(columns, numbers.singles[i].tolist(), strict=True))
        shares = zip(columns, numbers.bayes[i].tolist(), strict=True)
        about["hidden_from_bayes"] = {c: s if np.isfinite(s) else None for c, s in shares}
    if categories is not None and categories.guesses is not None:
        shares = categories.guesses.singles[i].tolist()
        for shown, share in zip(categories.judged, shares, strict=True):
            vague = [not left.is_measured for left in audit.whole[i] if left.column == shown.name]
            hidden[shown.name] = None if any(vague) else share
    return about


def _gain_json(audit: Audit, numbers: NumberAudit, gain: Gain) -> JsonObject:
    return {
        "members": [audit.copies[i] for i in gain.members],
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
            for n, name in enumerate(numbers.columns)
        },
    }


def _posterior_json(numbers: NumberAudit) -> JsonObject | None:
    if numbers.posterior is None:
        return None
    best = numbers.posterior
    return {
        "rows": best.rows,
        "alone": best.alone.value,
        "together": best.together.value,
        "gain": best.gain.value,
        "margin": best.gain.margin,
    }


def _linked_json(audit: Audit, linked: LinkedAudit) -> JsonObject:
    return {
        "unit": linked.unit,
        "count": linked.total,
        "measured": linked.persons,
        "rows": linked.rows,
        "hidden": [
            {
                "copies": [audit.copies[i] for i in copies],
                "column": left.column,
                "of": left.attack,
                "hidden": left.hidden,
                "margin": left.margin,
                "stated": left.stated,
                "short": left.short,
            }
            for copies, left in linked.left
        ],
        "hidden_from_boosting": [dict(shares) for shares in linked.learned],
    }


def _categories_json(audit: Audit, categories: CategoryAudit) -> JsonObject:
    guesses = categories.guesses
    return {
        "rows": categories.kept,
        "columns": [shown.name for shown in categories.judged],
        "guesses": [
            {
                **asdict(guessed),
                "copies": [audit.copies[i] for i in guessed.copies],
                "best": audit.copies[guessed.best],
                "gain": guessed.gain,
                "gains": categories.gains(guessed),
            }
            for guessed in (guesses.sets if guesses else ())
        ],
    }
