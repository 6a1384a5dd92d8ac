"""Options that several commands share, and how to parse them."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from cornerwave.choices import (
    COLUMN,
    COLUMNS,
    DECLARED,
    DESCRIPTION,
    SETTINGS,
    TABLE,
    Bounds,
    Choice,
    Choices,
    ReadingSettings,
    bound_of,
    toml_text,
)
from cornerwave.errors import ClusterError, ColumnError, CornerwaveError, LevelError, SourceError
from cornerwave.kinds import Text, Whole

if TYPE_CHECKING:
    from cornerwave.vault import Dataset, LinkedDataset, Vault

Value = TypeVar("Value")


VaultOption = Annotated[
    Path | None,
    typer.Option(
        "--vault",
        metavar="DIR",
        help="Vault directory; default: CORNERWAVE_VAULT, or .cornerwave.",
    ),
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

PurposeOption = Annotated[
    str, typer.Option(metavar="TEXT", help="What the recipient has it for, in a sentence.")
]

ContractOption = Annotated[
    str, typer.Option(metavar="TEXT", help="The agreement that permits it, such as its number.")
]

UntilOption = Annotated[
    str | None, typer.Option(metavar="DATE", help="When it ends, such as 2027-01-31.")
]

LinkedOption = Annotated[
    list[float] | None,
    typer.Option(
        metavar="SHARE",
        help="Instead of a privacy: the least noise at which no more than this share of the rows "
        "is found by somebody who knows them.",
    ),
]

BitsOption = Annotated[
    list[float] | None,
    typer.Option(
        metavar="BITS",
        help="Instead of a privacy: the least noise at which a copy tells anybody no more bits "
        "about a row, or about a person of typical size.",
    ),
]

AlignOption = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Match rows by this column; default: by position."),
]

DetailsOption = Annotated[
    bool, typer.Option("--details", help="Show the figures behind the sentences too.")
]

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


stated_owner: ContextVar[str | None] = ContextVar("stated_owner", default=None)
"""Which owner gives the command, as the option `--by` states."""


def open_vault(vault: Path | None, *, to_change: bool = False) -> "Vault":
    """Open the vault that the option or the environment names, under the name that is stated.

    Raises AccessDenied if somebody of this name may not change what is in it, and wants to.
    """
    from cornerwave.vault import Vault, key_place, vault_place

    who = stated_owner.get() or os.environ.get("CORNERWAVE_OWNER", "")
    opened = Vault.open(vault_place(vault), key_file=key_place()).under(who)
    if to_change:
        from cornerwave.access import OWNER, check_may

        check_may(opened.records, who, OWNER)
    return opened


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


def table_and_place(word: str) -> tuple[str, str]:
    """Return what TABLE=PLACE names; no table if it is a place alone, as an address with a =.

    >>> table_and_place("visits=s3://clinic/visits.csv"), table_and_place("s3://clinic/day=1")
    (('visits', 's3://clinic/visits.csv'), ('', 's3://clinic/day=1'))
    """
    table, separator, place = word.partition("=")
    return (table, place) if separator and "://" not in table else ("", word)


def named_sources(source: list[str] | None) -> dict[str, str]:
    """Return where some of several linked tables are now, each as TABLE=PLACE."""
    named = [table_and_place(each) for each in source or ()]
    if not all(table and place for table, place in named):
        raise SourceError("name each table with its place, as in --source visits=visits.csv")
    return dict(named)


def named(vault: "Vault", name: str, source: list[str] | None = None) -> "Dataset | LinkedDataset":
    """Return what has a name: several linked tables, or one."""
    if vault.has_linked(name):
        return vault.linked(name, sources=named_sources(source))
    return vault.dataset(name, source=source or None)


def tables_of(vault: "Vault", name: str, source: list[str] | None = None) -> "list[Dataset]":
    """Return the tables that have a name: several linked ones, or one."""
    from cornerwave.vault import Dataset

    registered = named(vault, name, source)
    return [registered] if isinstance(registered, Dataset) else list(registered.tables.values())


# --------------------------------------------------------------------------------------------------
# Options that are made from the declarations of choices and of reading settings.


def option_of(choice: Choice) -> Any:
    """Return the option of a declared choice."""
    again = (
        " (repeatable)" if _type_of(choice) == list[str] | None and choice.gives != COLUMN else ""
    )
    metavar = None if choice.is_flag else choice.metavar
    return typer.Option(_flag_of(choice), metavar=metavar, help=f"{choice.help}{again}.")


def _flag_of(choice: Choice) -> str:
    return f"--{(choice.option or choice.name).replace('_', '-')}"


def _type_of(choice: Choice) -> Any:
    if choice.is_flag:
        return bool
    if isinstance(choice.kind, Whole) and choice.gives == TABLE:
        return int
    is_text = choice.gives == TABLE and isinstance(choice.kind, Text)
    return str | None if is_text else list[str] | None


RoundOption = Annotated[list[str] | None, option_of(DECLARED["round"])]
ClipOption = Annotated[list[str] | None, option_of(DECLARED["clip"])]
DescribeOption = Annotated[list[str] | None, option_of(DECLARED["describe"])]


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with options for its parameters `choices` and `reading`, if it has them."""
    for name, declared, build in (
        ("choices", DECLARED, choices_of),
        ("reading", SETTINGS, reading_of),
    ):
        if name in signature(command).parameters:
            options = [choice for choice in declared.values() if choice.option is not None]
            command = _with_options(command, name, options, build)
    return command


def _with_options(
    command: Callable[..., None],
    parameter: str,
    options: Sequence[Choice],
    build: Callable[..., Any],
) -> Callable[..., None]:
    """Return a command with options in place of a parameter, which is built from them."""

    @wraps(command)
    def run(*arguments: Any, **given: Any) -> None:
        chosen = {choice.name: given.pop(choice.name) for choice in options}
        command(*arguments, **given, **{parameter: build(chosen)})

    every: dict[str, Parameter] = {}
    for name, known in signature(command).parameters.items():
        every |= {name: known} if name != parameter else _parameters(options, known)
    run.__signature__ = Signature(list(every.values()))  # type: ignore[attr-defined]
    run.__annotations__ = {name: each.annotation for name, each in every.items()}
    return run


def _parameters(options: Sequence[Choice], place: Parameter) -> dict[str, Parameter]:
    """Return options as parameters of a function, in place of another."""
    defaults = {bool: False, int: 0}
    return {
        choice.name: Parameter(
            choice.name,
            place.kind,
            default=defaults.get(_type_of(choice)),
            annotation=Annotated[_type_of(choice), option_of(choice)],
        )
        for choice in options
    }


def choices_of(given: Mapping[str, object]) -> Choices:
    """Return choices from the values of options. Raises ColumnError."""
    parsed: Any = {name: _parsed(DECLARED[name], value) for name, value in given.items()}
    return Choices.of(**parsed)


def _parsed(choice: Choice, given: Any) -> Any:
    """Return what an option gives, as Python would give it."""
    flag = _flag_of(choice)
    if isinstance(given, int) and not choice.is_flag:
        choice.check(given, "", flag)
    if not isinstance(given, list):
        return given
    if choice.gives == COLUMN:
        return one(given, flag)
    if choice.gives == TABLE:
        return [text.split(",") for text in given]
    if choice.gives == COLUMNS or "=" not in choice.metavar:
        return given
    if isinstance(choice.kind, Bounds):
        return bounds_of(given)
    first = choice.kind is DESCRIPTION  # which may hold a =
    pairs = (pair(text, f"{flag} {choice.metavar}", first=first) for text in given)
    values = by_column(((name, choice.kind.of_text(text)) for name, text in pairs), flag)
    for name, value in values.items():
        choice.check(value, f"{name!r}: ", flag)
    return values


def reading_of(given: Mapping[str, object]) -> ReadingSettings:
    """Return reading settings from the values of options. Raises SourceError."""
    stated: Any = {name: value for name, value in given.items() if value not in (None, [])}
    if "missing" in stated:
        cells = ",".join(stated["missing"]).split(",")
        stated["missing"] = [cell for cell in cells if cell.strip()]
    return ReadingSettings.of(**stated)


def pair(text: str, example: str, *, first: bool = False) -> tuple[str, str]:
    """Split COLUMN=VALUE, at the last = or at the first."""
    name, separator, value = text.partition("=") if first else text.rpartition("=")
    if not separator or not name:
        raise ColumnError(f"{text!r} is invalid; write {example}")
    return name, value


def one(given: list[str], option: str) -> str | None:
    """Return the column of an option that takes at most one."""
    if len(given) > 1:
        raise ColumnError(f"{option} names one column, not {len(given)}; give it once")
    return given[0] if given else None


def by_column(pairs: Iterable[tuple[str, Value]], option: str) -> dict[str, Value]:
    """Return the value of each column. Raises ColumnError for a duplicate column."""
    values: dict[str, Value] = {}
    for name, value in pairs:
        if name in values:
            raise ColumnError(f"{option} names {name!r} more than once; give it once")
        values[name] = value
    return values


def descriptions_of(given: list[str] | None) -> dict[str, str]:
    """Return the description of each column. Raises ColumnError."""
    described: dict[str, str] = _parsed(DECLARED["describe"], given or [])
    return described


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
        return name, (bound_of(low), bound_of(high))
    except ValueError:
        raise ColumnError(f"{text!r} is invalid; write {example}") from None


@contextmanager
def advice_for(schema: Path | None) -> Iterator[None]:
    """Give advice in the words of the schema file, if one is used."""
    try:
        yield
    except CornerwaveError as error:
        if schema is not None:
            error.use = tuple(_in_file(choice) for choice in error.use)
        raise


def _in_file(choice: str) -> str:
    """Return what a schema file states to make a choice, if it can."""
    from cornerwave.schema_file import ORPHANS

    if choice == ORPHANS:
        return f"{choice} = true"
    if choice not in DECLARED:
        return choice
    return f"{DECLARED[choice].key} = {toml_text(DECLARED[choice].value)}"


def noise_at_most(
    asked: "Dataset | LinkedDataset", linked: list[float] | None, bits: list[float] | None
) -> list[float]:
    """Return the noise of the least levels at which copies tell no more than this."""
    if linked and bits:
        raise LevelError("give --linked or --bits, not both")
    levels = [asked.level_at_most(linked=share) for share in linked or ()]
    levels += [asked.level_at_most(bits=most) for most in bits or ()]
    return [level.noise for level in levels]
