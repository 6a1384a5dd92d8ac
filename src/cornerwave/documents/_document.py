"""The page kit: documents, sections and tables as HTML.

A page is one file that loads nothing: no script, no font, no image from elsewhere. Its
looks come from classes of one style sheet, `pages.css`, and never from style attributes.
Every function takes plain text and escapes it, except for parts that are named `html` and
cells that are `Html`.
"""

import math
import re
from collections.abc import Collection, Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from cornerwave.version import __version__

LONG = 22
"""Cells with more characters than this may break anywhere."""
ROOM, BETWEEN = 112, 3
"""Characters that fit beside each other on a sheet of paper, and those between two columns."""
SMALL = 44
"""Characters that fit on a telephone; there, the rows of a wider table stand one by one."""
DRAWN = 11
"""Characters that a drawing in a cell takes."""

NUMBER = re.compile(r"[-+–±\d.,:%e\s]*( (days|hours|minutes|seconds))?")


class Html(str):
    """A cell that is HTML already."""


def style_sheet() -> str:
    """Return the style sheet of all pages."""
    return (files(__package__) / "pages.css").read_text(encoding="utf-8")


def document(title: str, html: Iterable[str], *, footer: str) -> str:
    """Return a whole page with the style sheet in it."""
    body = "\n".join(part for part in html if part)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>\n{style_sheet()}</style></head>\n"
        f"<body><main>\n{body}\n"
        f"<footer>Cornerwave {__version__}. {escape(footer)}</footer></main></body></html>\n"
    )


def inner(page: str) -> str:
    """Return what a document says, to stand within another page with the same style sheet."""
    return page.partition("<main>")[2].rpartition("</main>")[0]


def is_page(path: Path, title: str) -> bool:
    """Whether there is a page of this title at a place, which may be the one to be written."""
    try:
        with path.open(encoding="utf-8") as file:
            return f"<title>{escape(title)}</title>" in file.read(BEGINNING)
    except (OSError, UnicodeDecodeError):
        return False


BEGINNING = 1000
"""Characters of a page in which its title stands."""


def headline(title: str, verdict: str, facts: str, kind: str = "good") -> str:
    """Return the top of a page: its title and, in a box, its verdict in one or two sentences.

    `kind` is good, bad or plain.
    """
    return (
        f'<h1>{escape(title)}</h1><div class="verdict {kind}">{escape(verdict)}'
        f"<small>{escape(facts)}</small></div>"
    )


def contents(html: Sequence[str]) -> str:
    """Return links to those sections among the parts of a page that have an anchor."""
    found = [re.match('<section id="([^"]*)"><h2>(.*?)</h2>', part) for part in html]
    links = "".join(f'<a href="#{at[1]}">{at[2]}</a>' for at in found if at)
    return f"<nav>{links}</nav>"


def section(title: str, *html: str, anchor: str = "") -> str:
    """Return a section under a heading; `anchor` is what links on the page refer to."""
    opening = f'<section id="{escape(anchor)}">' if anchor else "<section>"
    return f"{opening}<h2>{escape(title)}</h2>{''.join(html)}</section>"


def subsection(title: str, *html: str) -> str:
    """Return a smaller heading and what belongs to it."""
    return f'<div class="block"><h3>{escape(title)}</h3>{"".join(html)}</div>'


def folded(title: str, *html: str, is_open: bool = False) -> str:
    """Return a subsection that opens at a click, and on paper by itself."""
    opening = "<details open>" if is_open else "<details>"
    heading = f"<summary><h3>{escape(title)}</h3></summary>"
    return f"{opening}{heading}{''.join(html)}</details>"


def hint(text: str) -> str:
    """Return a paragraph that explains what follows."""
    return f'<p class="hint">{escape(text)}</p>'


def legend(entries: Sequence[tuple[str, str]]) -> str:
    """Return the key to a chart from (class of the mark, meaning)."""
    marks = "".join(f'<span class="{kind}">{escape(text)}</span>' for kind, text in entries)
    return f'<p class="legend">{marks}</p>'


def bullets(lines: Iterable[str]) -> str:
    """Return a list."""
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


def code(text: str) -> str:
    """Return lines of a program or of its output."""
    return f"<pre>{escape(text)}</pre>"


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, faults: Collection[str] = ()
) -> str:
    """Return a table; cells listed in `faults` are red.

    Columns of numbers align right, except for the first, which names the rows. What is too wide
    for a page comes in parts below each other, each with the first column.
    """
    numeric = [i > 0 and all(_is_number(row[i]) for row in rows) for i in range(len(header))]
    widths = [_width(column) for column in zip(header, *rows, strict=True)]
    kind = "small" if sum(widths) + BETWEEN * len(widths) <= SMALL else ""
    made = []
    for part in _parts(widths):
        head = "".join(_heading(header[i], numeric[i]) for i in part)
        lines = ["".join(cell(r[i], header[i], numeric[i], faults) for i in part) for r in rows]
        made.append(html_table(head, lines, kind))
    return "".join(made)


def html_table(head: str, lines: Iterable[str], kind: str = "") -> str:
    """Return a table of cells that are HTML already."""
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    opening = f'<table class="{kind}">' if kind else "<table>"
    return (
        f'<div class="scroll">{opening}<thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _parts(widths: Sequence[int]) -> list[list[int]]:
    """Return the columns of each part of a table of these widths, about as many in each.

    >>> _parts([20, 20, 20, 20]), _parts([20, 24, 24, 24, 24])
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


def _width(cells: Sequence[str]) -> int:
    """Return the least width of a column: its longest word, or what words that break take."""
    return max(
        DRAWN if isinstance(text, Html) else min(max(map(len, text.split(" "))), LONG)
        for text in cells
    )


def _is_number(text: str) -> bool:
    return not isinstance(text, Html) and NUMBER.fullmatch(text) is not None


def _heading(text: str, number: bool) -> str:
    kinds = ["number"] * number + ["long"] * (_width([text]) >= LONG)
    opening = f'<th class="{" ".join(kinds)}">' if kinds else "<th>"
    return f"{opening}{escape(text)}</th>"


def cell(text: str, label: str, number: bool = False, faults: Collection[str] = ()) -> str:
    """Return a cell that knows its column's heading, for screens where it stands alone."""
    kinds = ["number"] if number else ["long"] if len(text) > LONG else []
    if isinstance(text, Html):
        kinds = ["drawn"]
    if text in faults:
        kinds.append("bad")
    opening = f'<td class="{" ".join(kinds)}"' if kinds else "<td"
    # a line may end before ±, not after it
    inner = text if isinstance(text, Html) else escape(text).replace("± ", "±\N{NO-BREAK SPACE}")
    return f'{opening} data-label="{escape(label)}">{inner}</td>'


def count(number: int, one: str, many: str = "") -> str:
    """Write a number of things.

    >>> count(1, "level"), count(2, "category", "categories")
    ('1 level', '2 categories')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"
