"""Output to the terminal: messages, tables, JSON and progress bars."""

import json
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import typer


def one_line(text: str) -> str:
    r"""Return text with control characters spelled out: names may come from foreign files.

    >>> print(one_line("a\nb\x1b[2J"))
    a\nb\x1b[2J
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def say(text: str) -> None:
    """Print a line on the error stream."""
    typer.echo(one_line(text), err=True)


def tell(text: str) -> None:
    """Print a line of results."""
    typer.echo(one_line(text))


def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning without its place in the code."""
    say(f"warning: {message}")


def tell_places(what: str, error: Exception) -> None:
    """Print the places in the code that an error passed through, and no values."""
    say(f"cornerwave: {what}; please report these places:")
    for frame in traceback.extract_tb(error.__traceback__):
        say(f"  {Path(frame.filename).name}:{frame.lineno} {frame.name}")


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    typer.echo(json.dumps(value, indent=2))


WHOLE_CELL = 16
"""Cells of at most this many characters are not broken into lines."""


def print_table(title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print a table with a title; one that is too wide in parts, each with the first column."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    lines = [[one_line(cell) for cell in line] for line in (header, *rows)]
    console.print(Text(one_line(title), style="italic"))
    for columns in parts_of(lines, console.width):
        table = Table()
        widths = _widths([[line[n] for n in columns] for line in lines], console.width)
        for n, own in zip(columns, widths, strict=True):
            table.add_column(Text(lines[0][n]), width=own, overflow="fold")
        for line in lines[1:]:
            table.add_row(*(Text(line[n]) for n in columns))
        console.print(table)


def parts_of(lines: Sequence[Sequence[str]], width: int) -> list[list[int]]:
    """Return the columns of each part of a table that is printed in so many characters.

    >>> parts_of([["column", "partner", "public"], ["wage", "0.510 (0.500)", "0.810 (0.800)"]], 34)
    [[0, 1], [0, 2]]
    """
    needed = [3 + _least(column) for column in zip(*lines, strict=True)]
    parts, used = [[0]], 1 + needed[0]
    for n, own in enumerate(needed[1:], start=1):
        if used + own > width and len(parts[-1]) > 1:
            parts.append([0])
            used = 1 + needed[0]
        parts[-1].append(n)
        used += own
    return parts


def _widths(lines: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the width of each column: what it needs, and what is left over, from the left.

    >>> _widths([["copy", "noise stated"], ["census-0.3.csv", "1.0"]], 28)  # no name is broken
    [14, 7]
    """
    least = [_least(column) for column in zip(*lines, strict=True)]
    room = width - 1 - sum(3 + own for own in least)
    if room < 0:  # words are cut, of the longest column
        least[least.index(max(least))] = max(1, max(least) + room)
        return least
    widths = []
    for own, column in zip(least, zip(*lines, strict=True), strict=True):
        more = min(room, max(map(_longest, ([cell] for cell in column))) - own)
        widths.append(own + more)
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


PATIENCE = 2.0
"""Seconds before progress is shown."""
PLAIN_EVERY = 5.0
"""Seconds between plain lines of progress."""
plain_progress = False
"""Whether plain lines are wanted where there is no terminal: `--progress`."""


@contextmanager
def progress(what: str, rows: float | None = None) -> Iterator[Callable[[float], None]]:
    """Show how far something is and how long it will take: a bar on a terminal, else lines."""
    if sys.stderr.isatty():
        with _bar(what, rows) as advance:
            yield advance
    elif plain_progress:
        yield _PlainLines(what, rows).advance
    else:
        yield lambda _rows: None


@contextmanager
def _bar(what: str, rows: float | None) -> Iterator[Callable[[float], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    time = TimeRemainingColumn() if rows else TimeElapsedColumn()
    amount = TextColumn("{task.percentage:>3.0f}%" if rows else "{task.completed:,.0f} rows")
    shown = (TextColumn("{task.description}"), BarColumn(), amount, time)
    bar = Progress(*shown, console=Console(stderr=True), transient=True)
    task, begun = bar.add_task(what, total=rows), monotonic()

    def advance(done: float) -> None:
        bar.advance(task, done)
        if not bar.live.is_started and monotonic() - begun > PATIENCE:
            bar.start()

    try:
        yield advance
    finally:
        bar.stop()


class _PlainLines:
    """Progress in plain lines, at most one every few seconds."""

    def __init__(self, what: str, rows: float | None) -> None:
        self._what, self._rows, self._done = what, rows, 0.0
        self._begun = monotonic()
        self._next = self._begun + PATIENCE

    def advance(self, done: float) -> None:
        """Count some more, and say so when it is time."""
        self._done += done
        now = monotonic()
        if now < self._next:
            return
        self._next = now + PLAIN_EVERY
        if not self._rows:
            say(f"{self._what}: {self._done:,.0f} rows, {now - self._begun:.0f} s")
            return
        share = min(self._done / self._rows, 1.0)
        left = (now - self._begun) * (1 - share) / share if share else 0.0
        say(f"{self._what}: {share:.0%}, {left:.0f} s left")
