"""A Document as a page of HTML, or as part of one.

A page is one file that loads nothing: no script, no font, no image from elsewhere. Its
looks come from classes of one style sheet, `pages.css`, and never from style attributes.
Every text is escaped here; drawings come from `_charts` as HTML.
"""

import math
import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from cornerwave import document as doc
from cornerwave.document import text_of
from cornerwave.documents._charts import bar, drawn, meter
from cornerwave.version import __version__

LONG = 22
"""Cells with more characters than this may break anywhere."""
ROOM, BETWEEN = 112, 3
"""Characters that fit beside each other on a sheet of paper, and those between two columns."""
SMALL = 44
"""Characters that fit on a telephone, which shows the rows of a wider table one by one."""
DRAWN = 11
"""Characters that a drawing in a cell takes."""
BEGINNING = 1000
"""Characters of a page that its title is among."""

_END = "</body></html>\n"

NUMBER = re.compile(r"[-+–±\d.,:%e()<\s]*( (days|hours|minutes|seconds))?")


def style_sheet() -> str:
    """Return the style sheet of all pages."""
    return (files(__package__) / "pages.css").read_text(encoding="utf-8")


def page(document: doc.Document) -> str:
    """Return a document as a whole page with the style sheet in it."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(document.title)}</title><style>\n{style_sheet()}</style></head>\n"
        f"<body><main>\n{body(document)}\n</main>{_END}"
    )


_DATA = ('<script type="application/json" id="data">', "</script>\n</body></html>\n")
"""What is around data that a page carries: a browser neither shows nor runs them."""


def carrying(page: str, data: str) -> str:
    """Return a page that carries data, a text of JSON, for programs."""
    opening, ending = _DATA
    inner = data.replace("<", "\\u003c")  # so that nothing in it ends the element
    return f"{page.removesuffix(_END)}{opening}{inner}{ending}"


def carried_by(text: str) -> tuple[str, str | None]:
    """Return a page without the JSON that it carries, and that; None if it carries none."""
    opening, ending = _DATA
    before, found, after = text.partition(opening)
    if not found or not after.endswith(ending):
        return text, None
    return before + _END, after.removesuffix(ending)


def body(document: doc.Document) -> str:
    """Return a document as part of a page that has the same style sheet."""
    title = f"<h1>{escape(document.title)}</h1>" if document.title else ""
    facts = f"<small>{escape(document.facts)}</small>" if document.facts else ""
    links = [f'<a href="#{_anchor(s.title)}">{escape(s.title)}</a>' for s in document.sections]
    end = f"<footer>Cornerwave {__version__}. {escape(document.footer)}</footer>"
    lines = [
        f'{title}<div class="verdict {document.kind}">{escape(document.verdict)}{facts}</div>',
        f"<nav>{''.join(links)}</nav>" if document.contents else "",
        *map(_section, document.sections),
        end if document.footer else "",
    ]
    return "\n".join(line for line in lines if line)


def is_page(path: Path, title: str) -> bool:
    """Whether there is a page of this title at a place, which may be the one to be written."""
    try:
        with path.open(encoding="utf-8") as file:
            return f"<title>{escape(title)}</title>" in file.read(BEGINNING)
    except (OSError, UnicodeDecodeError):
        return False


def _section(section: doc.Section) -> str:
    heading = f"<h2>{escape(section.title)}</h2>" if section.title else ""
    opening = f'<section id="{_anchor(section.title)}">' if section.title else "<section>"
    if section.is_detail:
        summary = f"<summary><h3>{escape(section.title)}</h3></summary>"
        return f"{opening}<details>{summary}{_parts(section.parts)}</details></section>"
    return f"{opening}{heading}{_parts(section.parts)}</section>"


def _anchor(title: str) -> str:
    """Return what links on the page refer to.

    >>> _anchor("What coalitions can recover")
    'what-coalitions-can-recover'
    """
    return re.sub("[^a-z0-9]+", "-", title.lower()).strip("-")


def _parts(parts: Iterable[doc.Part]) -> str:
    return "".join(map(_part, parts))


def _part(part: doc.Part) -> str:
    match part:
        case doc.Paragraph(text):
            return f'<p class="hint">{escape(text)}</p>'
        case doc.Answer(question, text):
            return f'<div class="block"><h3>{escape(question)}</h3><p>{escape(text)}</p></div>'
        case doc.Bullets(lines):
            return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"
        case doc.Code(text):
            return f"<pre>{escape(text)}</pre>"
        case doc.Picture(drawing):
            return drawn(drawing)
        case doc.Legend(marks):
            meant = "".join(f'<span class="{kind}">{escape(text)}</span>' for kind, text in marks)
            return f'<p class="legend">{meant}</p>'
        case doc.Fold(title, parts, is_open):
            opening = "<details open>" if is_open else "<details>"
            heading = f"<summary><h3>{escape(title)}</h3></summary>"
            return f"{opening}{heading}{_parts(parts)}</details>"
        case doc.DataTable(_, _, title):
            if not title:
                return _table(part)
            return f'<div class="block"><h3>{escape(title)}</h3>{_table(part)}</div>'


# --------------------------------------------------------------------------------------------------
# Tables.


def _table(table: doc.DataTable) -> str:
    """Return a table: columns of numbers align right, except for the first, which names the rows.

    What is too wide for a page comes in parts below each other, each with the first column.
    """
    header, rows = table.header, table.rows
    numeric = [i > 0 and all(_is_number(row[i]) for row in rows) for i in range(len(header))]
    widths = [_width(column) for column in zip(header, *rows, strict=True)]
    kind = ' class="small"' if sum(widths) + BETWEEN * len(widths) <= SMALL else ""
    made = []
    for part in columns_of(widths):
        head = "".join(_heading(header[i], numeric[i]) for i in part)
        lines = ["".join(_cell(row[i], header[i], numeric[i]) for i in part) for row in rows]
        rows_ = "\n".join(f"<tr>{line}</tr>" for line in lines)
        made.append(
            f'<div class="scroll"><table{kind}><thead><tr>{head}</tr></thead>'
            f"<tbody>{rows_}</tbody></table></div>"
        )
    return "".join(made)


def columns_of(widths: Sequence[int]) -> list[list[int]]:
    """Return the columns of each part of a table of these widths, about as many in each.

    >>> columns_of([20, 20, 20, 20]), columns_of([20, 24, 24, 24, 24])
    ([[0, 1, 2, 3]], [[0, 1, 2], [0, 3, 4]])
    """
    most = len(widths)
    needed = len(_filled(widths, most))
    return _filled(widths, math.ceil((most - 1) / needed))


def _filled(widths: Sequence[int], most: int) -> list[list[int]]:
    """Return parts filled one after the other, with at most so many columns after the first."""
    parts, used = [[0]], widths[0] + BETWEEN
    for i, width in enumerate(widths[1:], start=1):
        is_full = used + width + BETWEEN > ROOM or len(parts[-1]) > most
        if is_full and len(parts[-1]) > 1:
            parts.append([0])
            used = widths[0] + BETWEEN
        parts[-1].append(i)
        used += width + BETWEEN
    return parts


def _width(cells: Sequence[doc.Content]) -> int:
    """Return the least width of a column: its longest word, or what words that break take."""
    return max(
        DRAWN
        if isinstance(cell, doc.Bar | doc.Meter)
        else min(max(map(len, text_of(cell).split(" "))), LONG)
        for cell in cells
    )


def _is_number(cell: doc.Content) -> bool:
    return isinstance(cell, str) and NUMBER.fullmatch(cell) is not None


def _heading(text: str, number: bool) -> str:
    kinds = ["number"] * number + ["long"] * (_width([text]) >= LONG)
    opening = f'<th class="{" ".join(kinds)}">' if kinds else "<th>"
    return f"{opening}{escape(text)}</th>"


def _cell(cell: doc.Content, label: str, number: bool) -> str:
    """Return a cell that knows its column's heading, for screens that show it by itself."""
    # a line may end before ±, not after it
    inner = escape(text_of(cell)).replace("± ", "±\N{NO-BREAK SPACE}")
    kinds = ["number"] if number else ["long"] if len(text_of(cell)) > LONG else []
    match cell:
        case doc.Bar():
            kinds, inner = ["drawn"], bar(cell)
        case doc.Meter():
            kinds, inner = ["drawn"], meter(cell)
        case doc.MarkedCell(_, aside, kind):
            kinds += [kind] if kind else []
            inner += f'<span class="aside">{escape(aside)}</span>' if aside else ""
    opening = f'<td class="{" ".join(kinds)}"' if kinds else "<td"
    return f'{opening} data-label="{escape(label)}">{inner}</td>'
