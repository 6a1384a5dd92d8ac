"""Output to the terminal: messages, tables, JSON and progress bars."""

import json
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from cornerwave.errors import OutputError


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


def print_table(title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print a table with a title."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(one_line(title)), title_justify="left")
    for column in header:
        table.add_column(Text(one_line(column)))
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    Console().print(table)


def write_text(path: Path, text: str) -> None:
    """Write a file. Raises OutputError."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}") from None


def write_new(path: Path, text: str) -> None:
    """Write a file that does not exist yet. Raises OutputError."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise OutputError(f"{path} exists; choose another name") from None
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}") from None


@contextmanager
def progress(what: str, rows: float | None = None) -> Iterator[Callable[[float], None]]:
    """Show a progress bar if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _rows: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=rows)
        yield lambda done: bar.advance(task, done)
