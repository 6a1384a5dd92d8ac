"""A web page that needs nothing else: no script, no font, no network; light and dark."""

from collections.abc import Callable, Sequence
from html import escape

STYLE = """
:root { color-scheme: light dark; --paper: #fbfbf9; --card: #fff; --ink: #1d2327; --soft: #5d6870;
  --line: #dfe3e1; --good: #1c7a55; --bad: #b3261e; --gap: #e8a19c; --dot: #35608f;
  --trough: #eceeec; }
@media (prefers-color-scheme: dark) { :root { --paper: #14181b; --card: #1c2226; --ink: #e6eaec;
  --soft: #9aa6ae; --line: #323b41; --good: #52bd8f; --bad: #f2857c; --gap: #7c3a36; --dot: #86b3e3;
  --trough: #2a3237; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif; }
main { max-width: 1020px; margin: 0 auto; padding: 2rem 1.25rem 3rem; }
h1 { font-size: 1rem; font-weight: 600; color: var(--soft); margin: 0 0 .6rem; }
h2 { font-size: 1.1rem; margin: 2.4rem 0 .3rem; }
p { margin: .2rem 0 .8rem; max-width: 75ch; }
.hint { color: var(--soft); font-size: .9rem; }
.verdict { border-left: 6px solid var(--good); background: var(--card); padding: 1rem 1.25rem;
  border-radius: 4px; font-size: 1.3rem; line-height: 1.35; font-weight: 600; }
.verdict.fails { border-color: var(--bad); }
.verdict small { display: block; margin-top: .35rem; font-size: .9rem; font-weight: 400;
  color: var(--soft); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; background: var(--card); font-size: .92rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .42rem .75rem; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th { color: var(--soft); font-weight: 600; }
th:first-child, td:first-child, .words td, .words th { text-align: left; }
td.wide { white-space: normal; }
.fault { color: var(--bad); font-weight: 600; }
ul { padding-left: 1.2rem; margin: .3rem 0; }
svg { width: 100%; min-width: 680px; height: auto; display: block; background: var(--card);
  font: 14px system-ui, -apple-system, "Segoe UI", "Liberation Sans", sans-serif; }
svg text { fill: var(--ink); } svg .small { font-size: 12px; fill: var(--soft); }
svg .mid { text-anchor: middle; } svg .end { text-anchor: end; }
svg .grid { stroke: var(--line); } svg .rail { stroke: var(--line); stroke-width: 2; }
svg .dot { fill: var(--dot); stroke: var(--card); stroke-width: 1.5; }
svg .good { fill: var(--good); } svg .bad { fill: var(--bad); } svg .gap { fill: var(--gap); }
svg .trough { fill: var(--trough); }
.key { display: inline-block; width: .8em; height: .8em; margin: 0 .25em 0 .9em; }
.key.dot { background: var(--dot); border-radius: 50%; }
.key.all { background: var(--good); transform: rotate(45deg) scale(.85); }
.key.gap { background: var(--gap); }
footer { margin-top: 2.5rem; color: var(--soft); font-size: .85rem; }
"""


def document(title: str, body: str, *, style: str = "") -> str:
    """Return a whole page; `style` adds to the style that all pages share."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}{style}</style></head>"
        f"<body><main>{body}</main></body></html>\n"
    )


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, kind: str = "", marked: str = ""
) -> str:
    """Return a table of texts; cells that read `marked` stand out as faults do."""
    head = "".join(f"<th>{escape(word)}</th>" for word in header)
    body = "".join(f"<tr>{''.join(_cell(cell, marked) for cell in row)}</tr>" for row in rows)
    opening = f'<table class="{kind}">' if kind else "<table>"
    return scrolling(f"{opening}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")


def scrolling(inner: str) -> str:
    """Return what may be wider than a small screen in a box of its own."""
    return f'<div class="scroll">{inner}</div>'


def _cell(text: str, marked: str) -> str:
    kind = ' class="fault"' if marked and text == marked else ""
    return f"<td{kind}>{escape(text)}</td>"


def share_scale(x_of: Callable[[float], float], top: float, bottom: float) -> str:
    """Return the grid of a picture whose x axis is a share that stays hidden, as SVG."""
    ticks = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = x_of(share)
        ticks.append(f'<line x1="{x}" y1="{top}" x2="{x}" y2="{bottom}" class="grid"/>')
        word = {0.0: "0: all known", 1.0: "1: all hidden"}.get(share, f"{share:g}")
        ticks.append(f'<text x="{x}" y="{top - 8}" class="small mid">{word}</text>')
    return "".join(ticks)
