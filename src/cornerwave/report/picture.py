"""The report's pictures, as inline SVG: colours come from the page's style sheet."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from cornerwave.arrays import Floats
from cornerwave.levels import Level
from cornerwave.report.axis import Axis, tick
from cornerwave.webpage import share_scale

STYLE = """
svg .bar { fill: var(--dot); } svg .own { fill: var(--soft); }
svg .line { fill: none; stroke: var(--ink); stroke-width: 1.4; }
svg .mark { stroke: var(--ink); stroke-width: 2; }
svg .ring { fill: var(--card); stroke: var(--bad); stroke-width: 2.5; }
svg .base { stroke: var(--soft); }
.wrap td:first-child, .pairs td:nth-child(2) { white-space: normal; overflow-wrap: anywhere;
  min-width: 10rem; }
.pairs td:nth-child(2) { text-align: left; }
h3 { font-size: 1rem; margin: 1.4rem 0 .2rem; }
.key.bar { background: var(--dot); } .key.own { background: var(--soft); }
.key.line { background: var(--ink); height: .15em; width: 1.2em; vertical-align: middle; }
.key.ring { border: 2.5px solid var(--bad); border-radius: 50%; }
"""

WIDTH, LEFT, RIGHT = 960, 230, 180
PANELS, GAP = 4, 22


@dataclass(frozen=True)
class Panel:
    """One histogram, or one set of bars: a title and a share of the rows for each place."""

    title: str
    shares: Floats
    is_original: bool = False


def histograms(panels: Sequence[Panel], axis: Axis, unit: str | None, label: str) -> str:
    """Draw histograms as small multiples: the same bins and heights, the original's outline."""
    width, height = _panel_width(0), 96
    top = max(float(panel.shares.max(initial=0)) for panel in panels) or 1.0
    original = next((panel for panel in panels if panel.is_original), None)
    parts = []
    for place, panel in enumerate(panels):
        x, y = _corner(place, 0, width, height + 58)
        kind = "own" if panel.is_original else "bar"
        floor = y + 26 + height
        parts.append(f'<text x="{x:.1f}" y="{y + 16}">{escape(panel.title)}</text>')
        parts.append(_unseen(1 - float(panel.shares.sum()), x + width, y + 16))
        parts.append(f'<path class="{kind}" d="{_steps(panel.shares / top, x, floor, width)}"/>')
        if original is not None and not panel.is_original:
            outline = _steps(original.shares / top, x, floor, width, closed=False)
            parts.append(f'<path class="line" d="{outline}"/>')
        parts.append(_floor(axis, unit, x, floor, width))
    return _svg(_height(len(panels), height + 58), label, parts)


def bars(panels: Sequence[Panel], names: Sequence[str], label: str) -> str:
    """Draw shares of labels as small multiples, with a mark where the original's lies."""
    left, step = 150, 22
    width, height = _panel_width(left), 30 + step * len(names) + 14
    top = max(float(panel.shares.max(initial=0)) for panel in panels) or 1.0
    original = next((panel for panel in panels if panel.is_original), None)
    parts = []
    for place, panel in enumerate(panels):
        x, y = _corner(place, left, width, height)
        parts.append(f'<text x="{x:.1f}" y="{y + 16}">{escape(panel.title)}</text>')
        for i, share in enumerate(panel.shares):
            line = y + 26 + step * i
            if place % PANELS == 0:
                parts.append(_name(names[i], left - 10, line + 14))
            own = None if original is None or panel.is_original else float(original.shares[i])
            kind = "own" if panel.is_original else "bar"
            parts.append(_bar(float(share), own, top, x, line, width - 44, kind))
    return _svg(_height(len(panels), height), label, parts)


def ladder(levels: Sequence[Level], words: Sequence[str]) -> str:
    """Draw the levels on the way from all known to all hidden, each with some words."""
    step, top = 34, 40
    height = top + step * len(levels) + 6
    parts = [share_scale(_x, top - 10, height - 4)]
    for i, (level, text) in enumerate(zip(levels, words, strict=True)):
        y = top + step * i + step / 2
        x = _x(level.privacy)
        parts.append(f'<text x="{LEFT - 14}" y="{y + 5}" class="end">{named(level)}</text>')
        parts.append(f'<line x1="{_x(0)}" y1="{y}" x2="{_x(1)}" y2="{y}" class="rail"/>')
        parts.append(f'<circle cx="{x:.1f}" cy="{y}" r="7" class="dot"/>')
        parts.append(f'<text x="{_x(1) + 16}" y="{y + 5}">{_short(text, 21)}</text>')
    return _svg(height, "The levels that were released, by privacy", parts)


def rails(lines: Sequence[tuple[str, float, float]]) -> str:
    """Draw, for each (who, together, independent), what stays hidden and what would have."""
    step, top = 30, 40
    height = top + step * len(lines) + 6
    parts = [share_scale(_x, top - 10, height - 4)]
    for i, (who, together, independent) in enumerate(lines):
        y = top + step * i + step / 2
        one, other = _x(together), _x(independent)
        parts.append(f'<text x="{LEFT - 14}" y="{y + 5}" class="end">{_short(who, 27)}</text>')
        parts.append(f'<line x1="{_x(0)}" y1="{y}" x2="{_x(1)}" y2="{y}" class="rail"/>')
        wide = max(one - other, 0)
        parts.append(
            f'<rect x="{other:.1f}" y="{y - 4}" width="{wide:.1f}" height="8" class="gap"/>'
        )
        parts.append(f'<path d="M{one:.1f} {y - 10}l10 10l-10 10l-10 -10z" class="good"/>')
        if wide > 0.05:
            parts.append(f'<circle cx="{other:.1f}" cy="{y}" r="5" class="ring"/>')
        words = f"{together:.3f}" + (f", not {independent:.3f}" if wide > 0.05 else "")
        parts.append(f'<text x="{_x(1) + 16}" y="{y + 5}">{words}</text>')
    return _svg(height, "What stays hidden from coalitions", parts)


def named(level: Level) -> str:
    """Return what a level is called on the page."""
    return f"privacy {level.privacy:.4g}"


def _steps(heights: Floats, x: float, floor: float, width: float, *, closed: bool = True) -> str:
    """Return the path of a histogram of heights 0..1 on a floor."""
    bin_width, tall = width / len(heights), 96
    path = [f"M{x:.1f} {floor:.1f}"]
    path += [f"V{floor - tall * value:.1f}h{bin_width:.2f}" for value in heights]
    return "".join(path) + f"V{floor:.1f}" + ("z" if closed else "")


def _floor(axis: Axis, unit: str | None, x: float, floor: float, width: float) -> str:
    low, high = (tick(float(end), unit) for end in (axis.edges[0], axis.edges[-1]))
    y = floor + 16
    return (
        f'<line x1="{x:.1f}" y1="{floor}" x2="{x + width:.1f}" y2="{floor}" class="base"/>'
        f'<text x="{x:.1f}" y="{y}" class="small">{escape(low)}</text>'
        f'<text x="{x + width:.1f}" y="{y}" class="small end">{escape(high)}</text>'
    )


def _unseen(share: float, x: float, y: float) -> str:
    """Say how much is missing, or lies beyond the axis."""
    if share < 0.005:
        return ""
    return f'<text x="{x:.1f}" y="{y}" class="small end">{share:.0%} not in it</text>'


def _bar(
    share: float, own: float | None, top: float, x: float, y: float, width: float, kind: str
) -> str:
    end = x + width * share / top
    drawn = (
        f'<rect x="{x:.1f}" y="{y}" width="{end - x:.1f}" height="16" class="{kind}"/>'
        f'<text x="{max(end, x + width * (own or 0) / top) + 6:.1f}" y="{y + 13}" '
        f'class="small">{share:.1%}</text>'
    )
    if own is None:
        return drawn
    at = x + width * own / top
    return f'{drawn}<line x1="{at:.1f}" y1="{y - 2}" x2="{at:.1f}" y2="{y + 18}" class="mark"/>'


def _panel_width(left: float) -> float:
    return (WIDTH - left - 16 - GAP * (PANELS - 1)) / PANELS


def _corner(place: int, left: float, width: float, height: float) -> tuple[float, float]:
    line, column = divmod(place, PANELS)
    return 8 + left + column * (width + GAP), 4 + line * height


def _height(panels: int, height: float) -> float:
    return 8 + height * (-(-panels // PANELS))


def _x(share: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * min(max(share, 0.0), 1.0)


def _name(text: str, x: float, y: float) -> str:
    return f'<text x="{x}" y="{y}" class="end">{_short(text, 18)}</text>'


def shortened(text: str, letters: int) -> str:
    """Return a text of at most so many letters: its beginning and its end.

    >>> shortened("Department of Transport", 12)
    'Depart…sport'
    """
    if len(text) <= letters:
        return text
    return f"{text[: letters // 2]}…{text[len(text) - (letters - letters // 2 - 1) :]}"


def _short(text: str, letters: int) -> str:
    return escape(shortened(text, letters))


def _svg(height: float, label: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(label)}">'
        f"{''.join(parts)}</svg>"
    )
