"""The audit as one page that needs nothing else: no script, no font, no network."""

from html import escape

import numpy as np

from cornerwave.audit import picture
from cornerwave.audit.chance import ALPHA
from cornerwave.audit.measured import Audit
from cornerwave.audit.report import Section, notes, sections, verdict
from cornerwave.version import __version__

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


def render(audit: Audit) -> str:
    """Return the page as HTML."""
    copies, columns, *rest = sections(audit)
    body = [
        _head(audit),
        _faults(audit),
        "<h2>What stays hidden</h2>",
        '<p class="hint">Share of each column’s variance that the best linear estimate cannot '
        'recover:<span class="key dot"></span>from one copy, by its number'
        '<span class="key all"></span>from all copies together'
        '<span class="key gap"></span>gained by colluding. A coalition that gains '
        "nothing sits on its best copy.</p>",
        _scrolling(picture.ladder(audit)),
        _table(columns),
        "<h2>The copies</h2>",
        _table(_numbered(copies)),
        "<h2>Checks</h2>",
        '<p class="hint">How far each came towards its limit; a full red bar is beyond it. '
        f"An audit of honest copies fails any of them once in {round(1 / ALPHA)} times.</p>",
        _scrolling(picture.checks(audit)),
        _shared_noise(audit),
        *(f"<h2>{escape(part[0])}</h2>{_hint(part)}{_table(part)}" for part in rest),
        _notes(audit),
        f"<footer>cornerwave {__version__}. What each number means, and what an audit cannot "
        "see, is in docs/audit.md.</footer>",
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Audit of {escape(audit.source)}</title><style>{STYLE}</style></head>"
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )


def _head(audit: Audit) -> str:
    kind = "verdict" if audit.clean else "verdict fails"
    few = f"{len(audit.copies)} {'copy' if len(audit.copies) == 1 else 'copies'}"
    small = (
        f"{audit.found.rows:,} rows, {few}, {len(audit.columns)} perturbed columns, "
        f"{audit.sets:,} coalitions attacked"
    )
    return (
        f"<h1>Audit of {escape(audit.source)}</h1>"
        f'<div class="{kind}">{escape(verdict(audit))}<small>{small}</small></div>'
    )


def _faults(audit: Audit) -> str:
    if not audit.faults:
        return ""
    rows = "".join(
        f"<tr><td>{escape(' and '.join(audit.copies[i] for i in check.copies))}</td>"
        f'<td class="fault">{escape(check.name)}</td>'
        f'<td class="wide">{escape(check.note)}</td></tr>'
        for check in audit.faults
    )
    return f'<h2>Faults</h2><div class="scroll"><table class="words">{rows}</table></div>'


def _table(section: Section) -> str:
    _, header, rows = section
    head = "".join(f"<th>{escape(word)}</th>" for word in header)
    body = "".join(f"<tr>{''.join(_cell(cell) for cell in row)}</tr>" for row in rows)
    return _scrolling(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")


def _cell(text: str) -> str:
    kind = ' class="fault"' if text == "gains" else ""
    return f"<td{kind}>{escape(text)}</td>"


def _numbered(section: Section) -> Section:
    title, header, rows = section
    return title, header, [(f"{i} {row[0]}", *row[1:]) for i, row in enumerate(rows, start=1)]


def _hint(section: Section) -> str:
    if not section[0].startswith("Records"):
        return ""
    return (
        '<p class="hint">A value further out than any that so many Gaussian rows would reach '
        "in the copy stands alone there. Remove or cap such records before release if they matter; "
        "more noise hides them too.</p>"
    )


def _shared_noise(audit: Audit) -> str:
    """Show the noise that two copies share, as a share of the lesser one's."""
    if len(audit.copies) < 2:
        return ""
    noise = np.maximum(audit.found.noise, 1e-300)
    shares = audit.found.across / np.minimum.outer(noise, noise)
    header = ("", *(f"{i + 1}" for i in range(len(noise))))
    rows = [
        (f"{i + 1} {name}", *(f"{share:.3f}" for share in shares[i, : i + 1]))
        for i, name in enumerate(audit.copies)
    ]
    padded = [(*row, *[""] * (len(header) - len(row))) for row in rows]
    return (
        "<h2>Noise that copies share</h2>"
        '<p class="hint">As a share of the lesser noise of the two: 1 leaves nothing to average, '
        f"0 is independent noise.</p>{_table(('', header, padded))}"
    )


def _notes(audit: Audit) -> str:
    lines = "".join(f"<li>{escape(line)}</li>" for line in notes(audit))
    return f"<h2>Notes</h2><ul>{lines}</ul>" if lines else ""


def _scrolling(inner: str) -> str:
    return f'<div class="scroll">{inner}</div>'
