"""What happens to each column: perturbed, key, kept or dropped, and nothing else.

Nothing leaves unperturbed unless the owner said so. A column that cannot be
perturbed and was not named is an error that says what can be done.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from cornerwave.errors import ColumnError
from cornerwave.table.numbers import is_number, unit_of

PERTURBED, KEY, KEPT, DROPPED = "perturbed", "key", "kept", "dropped"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the source and what happens to it; `shown` if it is in the copies."""

    name: str
    type: str
    role: str
    unit: str | None = None
    shown: bool = True


@dataclass(frozen=True, slots=True)
class Schema:
    """The decided columns of a table, in the source's order."""

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        if not self.perturbed:
            raise ColumnError(
                "no numeric column to perturb: the table must have at least one column of "
                "numbers, dates or times that is neither key, kept nor dropped"
            )

    @property
    def perturbed(self) -> list[str]:
        """The columns that get noise, jointly."""
        return [column.name for column in self.columns if column.role == PERTURBED]

    @property
    def kept(self) -> list[str]:
        """The columns that leave as they are."""
        return [column.name for column in self.columns if column.role == KEPT]

    @property
    def key(self) -> str | None:
        """The column that says which row is which, if there is one."""
        return next((column.name for column in self.columns if column.role == KEY), None)

    @property
    def used(self) -> list[str]:
        """The columns that are read: all but the dropped."""
        return [column.name for column in self.columns if column.role != DROPPED]

    @property
    def shown(self) -> list[Column]:
        """The columns of a copy, in the source's order."""
        return [column for column in self.columns if column.role != DROPPED and column.shown]


def decide(
    source: pa.Schema,
    *,
    key: str | None = None,
    keep: Iterable[str] = (),
    drop: Iterable[str] = (),
) -> Schema:
    """Give every column of the source its role.

    A key that is also dropped still tells the rows apart, but does not leave.
    Raises ColumnError for an unknown, repeated or undecided column.
    """
    keep, drop = list(keep), list(drop)
    _check_names(source.names, [*([key] if key is not None else []), *keep, *drop])
    if both := sorted(set(keep) & {key, *drop}):
        raise ColumnError(f"{_listed(both)}: kept and something else; say one of the two")
    columns = tuple(_column(field, key, keep, drop) for field in source)
    if undecided := [column for column in columns if not column.role]:
        raise ColumnError(_undecided(undecided))
    return Schema(columns)


def _column(field: pa.Field, key: str | None, keep: Sequence[str], drop: Sequence[str]) -> Column:
    name, type_ = field.name, str(field.type)
    if name == key:
        if pa.types.is_floating(field.type) or pa.types.is_nested(field.type):
            raise ColumnError(f"{name}: a key must be whole numbers, text or dates, not {type_}")
        return Column(name, type_, KEY, shown=name not in drop)
    if name in drop:
        return Column(name, type_, DROPPED)
    if name in keep:
        if pa.types.is_nested(field.type):
            raise ColumnError(f"{name}: a nested column ({type_}) cannot be kept; drop it")
        return Column(name, type_, KEPT)
    if is_number(field.type):
        return Column(name, type_, PERTURBED, unit=unit_of(field.type))
    return Column(name, type_, "")


def check_distinct(names: Sequence[str]) -> None:
    """Raise ColumnError if two columns have one name."""
    if repeated := sorted(name for name, count in Counter(names).items() if count > 1):
        raise ColumnError(f"{_listed(repeated)}: more than one column has this name; rename them")


def _check_names(present: Sequence[str], named: Sequence[str]) -> None:
    check_distinct(present)
    if unknown := [name for name in named if name not in present]:
        raise ColumnError(f"no column {_listed(unknown)}; the table has {_listed(present)}")


def _undecided(columns: Sequence[Column]) -> str:
    what = ", ".join(f"{column.name!r} ({column.type})" for column in columns)
    one = columns[0].name
    return (
        f"no decision for {what}: only numbers, dates and times can be perturbed. "
        f"Leave it out (--drop {one!r}), release it as it is (--keep {one!r}), "
        f"or let it tell the rows apart (--key {one!r})"
    )


def _listed(names: Sequence[str], most: int = 20) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(repr(name) for name in names[:most]) + more
