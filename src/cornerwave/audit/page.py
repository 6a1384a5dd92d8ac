"""The audit as one page."""

from collections.abc import Sequence
from html import escape

import numpy as np

from cornerwave.audit import (
    ALPHA,
    Audit,
    Section,
    count,
    notes,
    picture,
    sections,
    verdict,
)
from cornerwave.audit import NumberAudit as Numbers
from cornerwave.version import __version__
from cornerwave.webpage import document, scrolling, table


def render(audit: Audit) -> str:
    """Return the page as HTML."""
    copies, *rest = sections(audit)
    body = [
        _head(audit),
        _faults(audit),
        "<h2>What stays hidden</h2>",
        '<p class="hint">Share of each column’s variance that the best estimate cannot '
        'recover:<span class="key dot"></span>from one copy, by its number'
        '<span class="key all"></span>from all copies together'
        '<span class="key gap"></span>gained by colluding. A coalition that gains '
        "nothing sits on its best copy.</p>",
        scrolling(picture.ladder(audit)),
        "<h2>The copies</h2>",
        _table(_numbered(copies)),
        _checks(audit),
        _shared_noise(audit.numbers, audit.copies) if audit.numbers else "",
        *(f"<h2>{escape(part[0])}</h2>{_hint(part)}{_table(part)}" for part in rest),
        _notes(audit),
        f"<footer>cornerwave {__version__}. What each number means, and what an audit cannot "
        "see, is in docs/audit.md.</footer>",
    ]
    return document(f"Audit of {audit.source}", "".join(body))


def _head(audit: Audit) -> str:
    kind = "verdict" if audit.clean else "verdict fails"
    numbers = len(audit.numbers.columns) if audit.numbers else 0
    categories = len(audit.categories.judged) if audit.categories else 0
    small = [
        f"{audit.rows:,} rows",
        count(len(audit.copies), "copy", "copies"),
        *([count(numbers, "perturbed column")] if numbers else []),
        *([count(categories, "category", "categories")] if categories else []),
    ]
    return (
        f"<h1>Audit of {escape(audit.source)}</h1>"
        f'<div class="{kind}">{escape(verdict(audit))}<small>{", ".join(small)}</small></div>'
    )


def _checks(audit: Audit) -> str:
    drawn = picture.checks(audit)
    if not drawn:
        return ""
    return (
        '<h2>Checks</h2><p class="hint">How far each came towards its limit; a full red bar is '
        f"beyond it. An audit of honest copies fails any of them once in {round(1 / ALPHA)} "
        f"times.</p>{scrolling(drawn)}"
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
    return table(header, rows, marked="gains")


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


def _shared_noise(numbers: Numbers, copies: Sequence[str]) -> str:
    """Show the noise that two copies share, as a share of the lesser one's."""
    if len(copies) < 2:
        return ""
    noise = np.maximum(numbers.found.noise, 1e-300)
    shares = numbers.found.across / np.minimum.outer(noise, noise)
    header = ("", *(f"{i + 1}" for i in range(len(noise))))
    rows = [
        (f"{i + 1} {name}", *(f"{share:.3f}" for share in shares[i, : i + 1]))
        for i, name in enumerate(copies)
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
