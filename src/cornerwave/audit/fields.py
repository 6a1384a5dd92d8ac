"""The audit as fields of one JSON object; docs/audit.md says what each means."""

from dataclasses import asdict
from typing import Any

import numpy as np

from cornerwave.audit.categories import Categories
from cornerwave.audit.chance import ALPHA
from cornerwave.audit.gain import Gain
from cornerwave.audit.measured import Audit
from cornerwave.audit.numbers import Numbers
from cornerwave.audit.report import failed, names, notes, verdict


def as_json(audit: Audit) -> dict[str, Any]:
    """Return the whole audit; docs/audit.md says what each field means."""
    numbers, categories = audit.numbers, audit.categories
    return {
        "verdict": verdict(audit),
        "clean": audit.clean,
        "alpha": ALPHA,
        "source": audit.source,
        "rows": audit.rows,
        "complete_rows": numbers.found.complete if numbers else None,
        "columns": list(numbers.columns) if numbers else [],
        "constant_columns": _both(numbers, categories, "constant"),
        "unperturbed_columns": _both(numbers, categories, "bare"),
        "logarithmic_columns": list(audit.logarithmic),
        "left_out_columns": dict(audit.left_out),
        "copies": [_copy_json(audit, i) for i in range(len(audit.copies))],
        "noise_across_copies": numbers.found.across.tolist() if numbers else None,
        "checks": [
            {
                "check": check.name,
                "copies": names(audit, check.copies),
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
        "categories": _categories_json(audit, categories) if categories else None,
        "notes": notes(audit),
    }


def _both(numbers: Numbers | None, categories: Categories | None, what: str) -> list[str]:
    return [name for part in (numbers, categories) if part for name in getattr(part, what)]


def _categories_json(audit: Audit, categories: Categories) -> dict[str, Any]:
    guesses = categories.guesses
    return {
        "rows": categories.kept,
        "columns": [shown.name for shown in categories.judged],
        "guesses": [
            {
                **asdict(guessed),
                "copies": names(audit, guessed.copies),
                "best": audit.copies[guessed.best],
                "gain": guessed.gain,
                "gains": categories.gains(guessed),
            }
            for guessed in (guesses.sets if guesses else ())
        ],
    }


def _copy_json(audit: Audit, i: int) -> dict[str, Any]:
    numbers, categories = audit.numbers, audit.categories
    told: dict[str, Any] = {
        "name": audit.copies[i],
        "stated_noise": audit.stated[i],
        "failed": failed(audit, i),
        "hidden": {},
    }
    if numbers is not None:
        noise, columns = float(numbers.found.noise[i]), numbers.columns
        steps, exposed = numbers.found.steps[i], numbers.exposed
        told |= {
            "noise": noise,
            "privacy": noise / (1 + noise),
            "rounded_to": {c: float(s) for c, s in zip(columns, steps, strict=True) if s},
            "exposed": dict(zip(columns, exposed.columns[i].tolist(), strict=True)),
            "exposed_rows": int(exposed.rows[i]),
        }
        told["hidden"] |= dict(zip(columns, numbers.singles[i].tolist(), strict=True))
    if categories is not None and categories.guesses is not None:
        shares = categories.guesses.singles[i].tolist()
        named = zip(categories.judged, shares, strict=True)
        told["hidden"] |= {shown.name: share for shown, share in named}
    return told


def _gain_json(audit: Audit, numbers: Numbers, gain: Gain) -> dict[str, Any]:
    return {
        "members": names(audit, gain.members),
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


def _posterior_json(numbers: Numbers) -> dict[str, Any] | None:
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
