"""The audit's pictures, as inline SVG: colours come from the page's style sheet."""

from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from cornerwave.audit.chance import CHECKS
from cornerwave.audit.gain import Gain
from cornerwave.audit.measured import Audit
from cornerwave.webpage import share_scale

Floats = NDArray[np.float64]

WIDTH, LEFT, RIGHT = 960, 190, 150
NEAR = 16
LADDER_COLUMNS = 24
"""So many columns are drawn, those with the largest gain first."""


def ladder(audit: Audit) -> str:
    """Draw, for each column, what each copy alone and all of them together leave hidden."""
    whole = max(audit.gains, key=lambda gain: len(gain.members), default=None)
    chosen = _chosen(whole, len(audit.columns))
    step, top = 46, 40
    height = top + step * len(chosen) + 12
    parts = [share_scale(_x, top - 12, height - 8)]
    for line, n in enumerate(chosen):
        y = top + step * line + step / 2
        parts.append(_rung(audit, whole, n, y))
    label = "What stays hidden of each column, from each copy alone and from all together"
    return _svg(height, label, parts)


def checks(audit: Audit) -> str:
    """Draw how far each check of each copy came towards its limit."""
    step, top, width = 34, 34, (WIDTH - LEFT - 10) / len(CHECKS)
    height = top + step * len(audit.copies) + 6
    parts = [
        f'<text x="{LEFT + width * (k + 0.5):.0f}" y="20" class="small mid">{escape(name)}</text>'
        for k, name in enumerate(CHECKS)
    ]
    for i, copy in enumerate(audit.copies):
        y = top + step * i
        parts.append(
            f'<text x="{LEFT - 14}" y="{y + 19}" class="end">{i + 1} {_short(copy)}</text>'
        )
        for k, name in enumerate(CHECKS):
            parts.append(_cell(audit, i, name, LEFT + width * k, y, width))
    return _svg(height, "How far each check came towards its limit", parts)


def _chosen(whole: Gain | None, columns: int) -> Sequence[int]:
    if whole is None or columns <= LADDER_COLUMNS:
        return range(columns)[:LADDER_COLUMNS]
    return [int(n) for n in np.argsort(-whole.gain)[:LADDER_COLUMNS]]


def _x(share: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * min(max(share, 0.0), 1.0)


def _rung(audit: Audit, whole: Gain | None, n: int, y: float) -> str:
    parts = [f'<text x="{LEFT - 14}" y="{y + 5}" class="end">{_short(audit.columns[n])}</text>']
    parts.append(f'<line x1="{_x(0)}" y1="{y}" x2="{_x(1)}" y2="{y}" class="rail"/>')
    if whole is not None:
        alone, together = _x(whole.alone[n]), _x(whole.together[n])
        gains = whole.low[n] > 0
        if gains:
            wide = max(alone - together, 2)
            parts.append(
                f'<rect x="{together}" y="{y - 5}" width="{wide}" height="10" class="gap"/>'
            )
        kind = "bad" if gains else "good"
        parts.append(f'<path d="{_diamond(together, y)}" class="{kind}"/>')
        words = f"gain {max(whole.gain[n], 0):.3f}" if gains else "no gain"
        parts.append(f'<text x="{WIDTH - RIGHT + 20}" y="{y + 5}" class="{kind}">{words}</text>')
    parts += [_dots(audit, audit.singles[:, n], y)]
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
