"""Options that commands share, and what their texts mean."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from cornerwave.errors import ColumnError

if TYPE_CHECKING:
    from cornerwave.owner import Vault

Columns = list[str] | None
Value = TypeVar("Value")


def columns(what: str) -> Any:
    """Return an option that names columns, repeatable."""
    return typer.Option(metavar="COLUMN", help=f"{what} (repeatable).")


VaultOption = Annotated[
    Path | None,
    typer.Option(
        "--vault",
        metavar="DIR",
        help="The vault's directory; else CORNERWAVE_VAULT, else .cornerwave here.",
    ),
]

SourceOption = Annotated[
    Path | None,
    typer.Option(metavar="PATH", help="Where the registered table lies now, if it was moved."),
]

AlignOption = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Aligns the rows; by default their position does."),
]

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def open_vault(vault: Path | None) -> "Vault":
    """Open the vault that was named, by the option or by the environment."""
    from cornerwave.owner import Vault, key_place, vault_place

    return Vault.open(vault_place(vault), key_file=key_place())


def pair(text: str, example: str) -> tuple[str, str]:
    """Return a column and what is said of it, from COLUMN=VALUE."""
    name, separator, value = text.rpartition("=")
    if not separator or not name:
        raise ColumnError(f"{text!r} is not of the form {example}")
    return name, value


def one(given: Columns, option: str) -> str | None:
    """Return the column that an option names, which may name but one."""
    if given and len(given) > 1:
        raise ColumnError(f"{option} names one column, not {len(given)}; say one of them")
    return given[0] if given else None


def by_column(pairs: Iterable[tuple[str, Value]], option: str) -> dict[str, Value]:
    """Return what was said of each column. Raises ColumnError where it was said twice."""
    said: dict[str, Value] = {}
    for name, value in pairs:
        if name in said:
            raise ColumnError(f"{option} was said of {name!r} more than once; say it once")
        said[name] = value
    return said
