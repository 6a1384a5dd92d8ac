"""Options that several commands share, and how to parse them."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from cornerwave.errors import ClusterError, ColumnError, CornerwaveError

if TYPE_CHECKING:
    from cornerwave.vault import Vault

Columns = list[str] | None
Value = TypeVar("Value")


def columns(what: str) -> Any:
    """Return a repeatable option that takes a column."""
    return typer.Option(metavar="COLUMN", help=f"{what} (repeatable).")


VaultOption = Annotated[
    Path | None,
    typer.Option(
        "--vault",
        metavar="DIR",
        help="Vault directory; default: CORNERWAVE_VAULT, or .cornerwave.",
    ),
]

RoundOption = Annotated[
    list[str] | None,
    typer.Option(
        "--round", metavar="COLUMN", help="Round a column to its source type (repeatable)."
    ),
]

ClipOption = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN=LO:HI", help="Clip a column to bounds (repeatable)."),
]

SourceOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PLACE",
        help="Where the table is now, if it was moved; with batches, all of them in order.",
    ),
]

EngineOption = Annotated[
    str,
    typer.Option(metavar="local|spark", help="Where the work is done: here, or on a cluster."),
]

MasterOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="The cluster for --engine spark: spark://HOST:7077, yarn, sc://HOST."
    ),
]

AgainstOption = Annotated[
    str,
    typer.Option(
        metavar="ADVERSARY",
        help="From whom the privacy is hidden: linear estimates, or bayes, who knows how rows "
        "are distributed.",
    ),
]

AlignOption = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Match rows by this column; default: by position."),
]

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def open_vault(vault: Path | None) -> "Vault":
    """Open the vault that the option or the environment names."""
    from cornerwave.vault import Vault, key_place, vault_place

    return Vault.open(vault_place(vault), key_file=key_place())


@contextmanager
def cluster(engine: str, master: str | None) -> Iterator[Any]:
    """Give a session of the cluster that the options name; None for the local engine."""
    if engine == "spark":
        from cornerwave.engines.spark import connected

        with connected(master) as session:
            yield session
        return
    if engine != "local":
        raise ClusterError(f"there is no engine {engine!r}; choose local or spark")
    if master is not None:
        raise ClusterError("--master is the address of a cluster; add --engine spark")
    yield None


def read_by(session: Any, source: str | list[str] | None) -> Any:
    """Return a source as a session reads it, if there is one; None if none is named."""
    if session is None or not source:
        return source or None
    from cornerwave.engines.spark import read_with

    parts = [
        read_with(session, place) for place in ([source] if isinstance(source, str) else source)
    ]
    return parts[0] if len(parts) == 1 else parts


def pair(text: str, example: str) -> tuple[str, str]:
    """Split COLUMN=VALUE."""
    name, separator, value = text.rpartition("=")
    if not separator or not name:
        raise ColumnError(f"{text!r} is invalid; write {example}")
    return name, value


def one(given: Columns, option: str) -> str | None:
    """Return the column of an option that takes at most one."""
    if given and len(given) > 1:
        raise ColumnError(f"{option} names one column, not {len(given)}; give it once")
    return given[0] if given else None


def by_column(pairs: Iterable[tuple[str, Value]], option: str) -> dict[str, Value]:
    """Return the value of each column. Raises ColumnError for a duplicate column."""
    said: dict[str, Value] = {}
    for name, value in pairs:
        if name in said:
            raise ColumnError(f"{option} names {name!r} more than once; give it once")
        said[name] = value
    return said


def reads(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command, which takes a `reading`, with options that say how cells are spelled."""

    @wraps(command)
    def run(
        *arguments: Any,
        delimiter: str | None,
        encoding: str | None,
        decimal: str | None,
        thousands: str | None,
        date_format: list[str] | None,
        missing: str | None,
        sheet: str | None,
        table: str | None,
        query: str | None,
        order_by: list[str] | None,
        **options: Any,
    ) -> None:
        from cornerwave.sources import ReadingSettings

        reading = ReadingSettings.of(
            delimiter=delimiter,
            encoding=encoding,
            decimal=decimal,
            thousands=thousands,
            date_format=date_format or None,
            missing=None if missing is None else [m for m in missing.split(",") if m.strip()],
            sheet=sheet,
            table=table,
            query=query,
            order_by=order_by or None,
        )
        command(*arguments, reading=reading, **options)

    known = [each for name, each in signature(command).parameters.items() if name != "reading"]
    kinds = {name: Annotated[type_, option] for name, (type_, option) in _READING.items()}
    run.__signature__ = Signature(  # type: ignore[attr-defined]
        [
            *known,
            *(
                Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind)
                for name, kind in kinds.items()
            ),
        ]
    )
    run.__annotations__ = {each.name: each.annotation for each in known} | kinds
    return run


_READING: dict[str, tuple[Any, Any]] = {
    "delimiter": (
        str | None,
        typer.Option(metavar="C", help="What separates fields: , ; | tab space."),
    ),
    "encoding": (str | None, typer.Option(metavar="NAME", help="Encoding, such as cp1252.")),
    "decimal": (str | None, typer.Option(metavar="C", help="Decimal point of numbers: . or ,")),
    "thousands": (
        str | None,
        typer.Option(metavar="C", help="Separates thousands in numbers, such as . or a space."),
    ),
    "date_format": (
        list[str] | None,
        typer.Option(metavar="FORMAT", help="How dates are written: %d.%m.%Y (repeatable)."),
    ),
    "missing": (
        str | None,
        typer.Option(metavar="A,B,...", help="Cells that stand for missing values: '?,NA,-9'."),
    ),
    "sheet": (str | None, typer.Option(metavar="NAME", help="The sheet of a workbook to read.")),
    "table": (str | None, typer.Option(metavar="NAME", help="The table of a database to read.")),
    "query": (str | None, typer.Option(metavar="SQL", help="Or a query that gives the rows.")),
    "order_by": (
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Order of rows in a database (repeatable)."),
    ),
}


SCHEMA_WORDS = {
    "drop": 'do = "drop"',
    "keep": 'do = "keep"',
    "key": 'do = "key"',
    "key_as_is": "as_is = true",
    "perturb": 'do = "perturb"',
    "categorical": 'do = "category"',
    "uniform": 'base = "uniform"',
    "together": "together = [[...]]",
    "hide_missing": "hide_missing = true",
    "transform": 'transform = "log1p"',
    "min_count": "min_count = 5",
    "shuffle": 'order = "shuffle"',
    "keep_order": 'order = "keep"',
    "independent_rows": "independent_rows = true",
    "few_rows": "few_rows = true",
}
"""What the choices are called in a schema file."""


@contextmanager
def advice_for(schema: Path | None) -> Iterator[None]:
    """Give advice in the words of the schema file, if one is used."""
    try:
        yield
    except CornerwaveError as error:
        if schema is not None:
            error.use = tuple(SCHEMA_WORDS.get(choice, choice) for choice in error.use)
        raise


def bounds_of(clip: list[str] | None) -> dict[str, tuple[Any, Any]]:
    """Return the bounds of each column. Raises ColumnError."""
    return by_column((_bounds(text) for text in clip or ()), "--clip")


def _bounds(text: str) -> tuple[str, tuple[Any, Any]]:
    example = "--clip COLUMN=LO:HI, where each bound is a number, a date (2020-01-31) or empty"
    name, value = pair(text, example)
    low, separator, high = value.partition(":")
    try:
        if not separator:
            raise ValueError
        return name, (_bound(low), _bound(high))
    except ValueError:
        raise ColumnError(f"{text!r} is invalid; write {example}") from None


def _bound(written: str) -> Any:
    from datetime import date

    try:
        return float(written) if written else None
    except ValueError:
        return date.fromisoformat(written)
