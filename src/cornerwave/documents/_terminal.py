"""A Document on a terminal: its verdict, then its sections, with tables that fit the width."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from cornerwave import document as doc
from cornerwave.document import one_line, text_of

if TYPE_CHECKING:
    from rich.console import Console

WHOLE_CELL = 16
"""Cells of at most this many characters are not broken into lines."""


def print_document(document: doc.Document, *, details: bool = False) -> None:
    """Print a document; what only a page has room for is left out, and details if not wanted."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    for line in filter(None, (document.verdict, document.title, document.facts)):
        console.print(one_line(line), soft_wrap=True)
    for section in document.sections:
        if not section.page_only and (details or not section.is_detail):
            console.print()
            console.print(one_line(section.title), style="bold")
            _print_parts(section.parts, console)


def print_table(table: doc.DataTable) -> None:
    """Print a table with its title."""
    from rich.console import Console

    _print_table(table, Console(highlight=False, markup=False, emoji=False))


def _print_parts(parts: Iterable[doc.Part], console: "Console") -> None:
    for part in parts:
        match part:
            case doc.Paragraph(text):
                console.print(one_line(text), style="dim")
            case doc.Answer(question, text):
                console.print(one_line(question), style="italic")
                console.print(one_line(text))
            case doc.Bullets(lines, lead):
                for line in lines:  # never broken, so that they can be searched
                    console.print(one_line(f"{lead} {line}" if lead else line), soft_wrap=True)
            case doc.Code(text):
                for line in text.splitlines():
                    console.print(one_line(line), soft_wrap=True)
            case doc.Picture(_, text) if text:
                console.print(one_line(text), style="dim")
            case doc.Fold(title, inner):
                console.print(one_line(title), style="italic")
                _print_parts(inner, console)
            case doc.DataTable():
                _print_table(part, console)


def _print_table(table: doc.DataTable, console: "Console") -> None:
    """Print a table; one that is too wide in parts, each with the first column."""
    from rich.table import Table
    from rich.text import Text

    rows = [[one_line(text_of(cell)) for cell in row] for row in table.rows]
    lines = [[one_line(name) for name in table.header], *rows]
    if table.title:
        console.print(one_line(table.title), style="italic")
    for columns in parts_of(lines, console.width):
        grid = Table()
        widths = _widths([[line[n] for n in columns] for line in lines], console.width)
        for n, room in zip(columns, widths, strict=True):
            grid.add_column(Text(lines[0][n]), width=room, overflow="fold")
        for texts, cells in zip(rows, table.rows, strict=True):
            grid.add_row(*(Text(texts[n], style=_style(cells[n])) for n in columns))
        console.print(grid)


def _style(cell: doc.Content) -> str:
    match cell:
        case doc.MarkedCell(kind="bad") | doc.Meter(passed=False):
            return "bold red"
    return ""


def parts_of(lines: Sequence[Sequence[str]], width: int) -> list[list[int]]:
    """Return the columns of each part of a table that is printed in so many characters.

    >>> parts_of([["column", "partner", "public"], ["wage", "0.510 (0.500)", "0.810 (0.800)"]], 34)
    [[0, 1], [0, 2]]
    """
    needed = [3 + _least(column) for column in zip(*lines, strict=True)]
    parts, used = [[0]], 1 + needed[0]
    for n, need in enumerate(needed[1:], start=1):
        if used + need > width and len(parts[-1]) > 1:
            parts.append([0])
            used = 1 + needed[0]
        parts[-1].append(n)
        used += need
    return parts


def _widths(lines: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the width of each column: what it needs, and what is left over, from the left.

    >>> _widths([["copy", "noise stated"], ["census-0.3.csv", "1.0"]], 28)  # no name is broken
    [14, 7]
    """
    least = [_least(column) for column in zip(*lines, strict=True)]
    room = width - 1 - sum(3 + need for need in least)
    if room < 0:  # words are cut, of the longest column
        least[least.index(max(least))] = max(1, max(least) + room)
        return least
    widths = []
    for need, column in zip(least, zip(*lines, strict=True), strict=True):
        more = min(room, max(map(_longest, ([cell] for cell in column))) - need)
        widths.append(need + more)
        room -= more
    return widths


def _least(column: Sequence[str]) -> int:
    """Return the least width of a column without a broken word."""
    header, *cells = column
    return max([_longest(header.split(" ")), *map(_needed, cells)])


def _needed(cell: str) -> int:
    """Return the least width of a cell: its own, or that of its longest word if it is long."""
    return _longest([cell] if len(cell) <= WHOLE_CELL else cell.split(" "))


def _longest(words: Sequence[str]) -> int:
    from rich.cells import cell_len

    return max(map(cell_len, words))
