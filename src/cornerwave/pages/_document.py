"""The page kit: documents, sections and tables as HTML.

A page is one file that loads nothing: no script, no font, no image from elsewhere. Its
looks come from classes of one style sheet, `pages.css`, and never from style attributes.
Every function takes plain text and escapes it, except for parts that are named `html`.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from html import escape
from importlib.resources import files

from cornerwave.version import __version__

LONG = 22
"""Cells with more characters than this may wrap."""

NUMBER = re.compile(r"[-+–±\d.,%e\s]*")


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


def headline(title: str, verdict: str, facts: str, kind: str = "good") -> str:
    """Return the top of a page: its title and, in a box, its verdict in one or two sentences.

    `kind` is good, bad or plain.
    """
    return (
        f'<h1>{escape(title)}</h1><div class="verdict {kind}">{escape(verdict)}'
        f"<small>{escape(facts)}</small></div>"
    )


def section(title: str, *html: str, anchor: str = "") -> str:
    """Return a section under a heading; `anchor` is what links on the page refer to."""
    opening = f'<section id="{escape(anchor)}">' if anchor else "<section>"
    return f"{opening}<h2>{escape(title)}</h2>{''.join(html)}</section>"


def subsection(title: str, *html: str) -> str:
    """Return a smaller heading and what belongs to it."""
    return f"<h3>{escape(title)}</h3>{''.join(html)}"


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


def scrolling(html: str) -> str:
    """Return what may be wider than a small screen in a box that scrolls by itself."""
    return f'<div class="scroll">{html}</div>'


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, faults: Collection[str] = ()
) -> str:
    """Return a table; cells listed in `faults` are red.

    Columns of numbers align right, except for the first, which names the rows.
    """
    numeric = [i > 0 and all(NUMBER.fullmatch(row[i]) for row in rows) for i in range(len(header))]
    head = "".join(
        f'<th class="number">{escape(word)}</th>' if number else f"<th>{escape(word)}</th>"
        for word, number in zip(header, numeric, strict=True)
    )
    lines = [
        "".join(_cell(cell, number, faults) for cell, number in zip(row, numeric, strict=True))
        for row in rows
    ]
    return html_table(head, lines)


def html_table(head: str, lines: Iterable[str]) -> str:
    """Return a table of cells that are HTML already."""
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    return scrolling(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")


def _cell(text: str, number: bool, faults: Collection[str]) -> str:
    kinds = ["number"] if number else ["long"] if len(text) > LONG else []
    if text in faults:
        kinds.append("bad")
    opening = f'<td class="{" ".join(kinds)}">' if kinds else "<td>"
    return f"{opening}{escape(text)}</td>"


def count(number: int, one: str, many: str = "") -> str:
    """Write a number of things.

    >>> count(1, "level"), count(2, "category", "categories")
    ('1 level', '2 categories')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"
