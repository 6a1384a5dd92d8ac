"""The audit's pictures, as inline SVG: colours come from the page's style sheet."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.audit import CATEGORY_CHECKS, NUMBER_CHECKS, Audit
from cornerwave.audit import CategoryAudit as Categories
from cornerwave.audit import NumberAudit as Numbers
from cornerwave.webpage import share_scale

WIDTH, LEFT, RIGHT = 960, 190, 150
NEAR = 16
LADDER_COLUMNS = 24
"""So many columns are drawn, those with the largest gain first."""


@dataclass(frozen=True)
class Rung:
    """A column: what stays hidden from each copy alone, from the best one and from all."""

    name: str
    singles: Floats
    alone: float | None = None
    together: float | None = None
    gain: float = 0.0
    gains: bool = False


def ladder(audit: Audit) -> str:
    """Draw, for each column, what each copy alone and all of them together leave hidden."""
    rungs = [*_number_rungs(audit.numbers), *_category_rungs(audit.categories)]
    if len(rungs) > LADDER_COLUMNS:
        rungs = sorted(rungs, key=lambda rung: -rung.gain)[:LADDER_COLUMNS]
    step, top = 46, 40
    height = top + step * len(rungs) + 12
    parts = [share_scale(_x, top - 12, height - 8)]
    for line, rung in enumerate(rungs):
        parts.append(_drawn(audit, rung, top + step * line + step / 2))
    label = "What stays hidden of each column, from each copy alone and from all together"
    return _svg(height, label, parts)


def _number_rungs(numbers: Numbers | None) -> Iterator[Rung]:
    if numbers is None:
        return
    whole = max(numbers.gains, key=lambda gain: len(gain.members), default=None)
    for n, name in enumerate(numbers.columns):
        singles = numbers.singles[:, n]
        if whole is None:
            yield Rung(name, singles)
        else:
            yield Rung(
                name,
                singles,
                float(whole.alone[n]),
                float(whole.together[n]),
                float(whole.gain[n]),
                bool(whole.low[n] > 0),
            )


def _category_rungs(categories: Categories | None) -> Iterator[Rung]:
    if categories is None or categories.guesses is None:
        return
    guesses = categories.guesses
    largest = max((len(guessed.copies) for guessed in guesses.sets), default=0)
    whole = {g.columns: g for g in guesses.sets if len(g.copies) == largest}
    for shown, singles in zip(categories.judged, guesses.singles.T, strict=True):
        if (found := whole.get(shown.columns)) is None:
            yield Rung(shown.name, singles)
        else:
            yield Rung(
                shown.name,
                singles,
                found.hidden_alone,
                found.hidden_together,
                found.gain,
                categories.gains(found),
            )


def checks(audit: Audit) -> str:
    """Draw how far each check of each copy came towards its limit."""
    held = {check.name for check in audit.checks}
    names = [name for name in (*NUMBER_CHECKS, *CATEGORY_CHECKS) if name in held]
    if not names:
        return ""
    step, top, width = 34, 34, (WIDTH - LEFT - 10) / max(len(names), 7)
    height = top + step * len(audit.copies) + 6
    parts = [
        f'<text x="{LEFT + width * (k + 0.5):.0f}" y="20" class="small mid">{escape(name)}</text>'
        for k, name in enumerate(names)
    ]
    for i, copy in enumerate(audit.copies):
        y = top + step * i
        parts.append(
            f'<text x="{LEFT - 14}" y="{y + 19}" class="end">{i + 1} {_short(copy)}</text>'
        )
        for k, name in enumerate(names):
            parts.append(_cell(audit, i, name, LEFT + width * k, y, width))
    return _svg(height, "How far each check came towards its limit", parts)


def _x(share: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * min(max(share, 0.0), 1.0)


def _drawn(audit: Audit, rung: Rung, y: float) -> str:
    parts = [f'<text x="{LEFT - 14}" y="{y + 5}" class="end">{_short(rung.name)}</text>']
    parts.append(f'<line x1="{_x(0)}" y1="{y}" x2="{_x(1)}" y2="{y}" class="rail"/>')
    if rung.alone is not None and rung.together is not None:
        alone, together = _x(rung.alone), _x(rung.together)
        if rung.gains:
            wide = max(alone - together, 2)
            parts.append(
                f'<rect x="{together}" y="{y - 5}" width="{wide}" height="10" class="gap"/>'
            )
        kind = "bad" if rung.gains else "good"
        parts.append(f'<path d="{_diamond(together, y)}" class="{kind}"/>')
        words = f"gain {max(rung.gain, 0):.3f}" if rung.gains else "no gain"
        parts.append(f'<text x="{WIDTH - RIGHT + 20}" y="{y + 5}" class="{kind}">{words}</text>')
    parts += [_dots(audit, rung.singles, y)]
    return "".join(parts)


def _dots(audit: Audit, shares: Floats, y: float) -> str:
    """Draw the copies, by number; those that sit on each other share a label."""
    parts: list[str] = []
    labels: list[tuple[float, str]] = []
    for i in np.argsort(shares, kind="stable"):
        x = _x(float(shares[i]))
        title = f"{audit.copies[i]}: {shares[i]:.4f}"
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y}" r="6" class="dot">'
            f"<title>{escape(title)}</title></circle>"
        )
        if labels and x - labels[-1][0] < NEAR:
            labels[-1] = (labels[-1][0], f"{labels[-1][1]},{i + 1}")
        else:
            labels.append((x, f"{i + 1}"))
    parts += [
        f'<text x="{x:.1f}" y="{y - 14}" class="small mid">{text}</text>' for x, text in labels
    ]
    return "".join(parts)


def _diamond(x: float, y: float) -> str:
    return f"M{x:.1f} {y - 11}l11 11l-11 11l-11 -11z"


def _cell(audit: Audit, i: int, name: str, x: float, y: float, width: float) -> str:
    own = [check for check in audit.checks if check.name == name and i in check.copies]
    if not own:
        return f'<text x="{x + width / 2:.0f}" y="{y + 19}" class="small mid">–</text>'
    worst = max(own, key=lambda check: check.value / max(check.limit, 1e-9))
    share = min(worst.value / max(worst.limit, 1e-9), 1.0)
    room = width - 16
    kind = "good" if all(check.passed for check in own) else "bad"
    title = f"{name}: {worst.value:.3g} of {worst.limit:.3g} allowed"
    return (
        f'<g><title>{escape(title)}</title><rect x="{x + 8:.1f}" y="{y + 8}" rx="3" '
        f'width="{room:.1f}" height="14" class="trough"/>'
        f'<rect x="{x + 8:.1f}" y="{y + 8}" rx="3" width="{max(room * share, 3):.1f}" '
        f'height="14" class="{kind}"/></g>'
    )


def _short(name: str, letters: int = 22) -> str:
    return escape(name if len(name) <= letters else f"…{name[-letters + 1 :]}")


def _svg(height: float, label: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(label)}">'
        f"{''.join(parts)}</svg>"
    )
