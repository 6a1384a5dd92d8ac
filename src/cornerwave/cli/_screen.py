"""Output to the terminal: messages, tables, JSON and progress bars."""

import json
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import typer

from cornerwave.document import one_line

if TYPE_CHECKING:
    from cornerwave.document import Content, Document


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


def show(document: "Document", *, as_json: bool, details: bool = False) -> None:
    """Print a document, with its details if they are wanted, or its data as JSON."""
    if as_json:
        print_json(document.data)
        return
    from cornerwave.documents import print_document

    print_document(document, details=details)
    if not details and any(section.is_detail for section in document.sections):
        say("Figures behind this: --details")


def print_table(title: str, header: Sequence[str], rows: "Sequence[Sequence[Content]]") -> None:
    """Print a table with a title; one that is too wide in parts, each with the first column."""
    from cornerwave import documents
    from cornerwave.document import DataTable

    documents.print_table(DataTable(header, rows, title))


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
        """Count some more, and print a line when it is time."""
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
