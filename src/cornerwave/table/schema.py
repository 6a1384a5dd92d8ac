"""What happens to each column: perturbed, refreshed, key, kept or dropped, and nothing else.

    numbers, dates, times        perturbed, jointly
    text, booleans, categories   refreshed, each by itself or some together; whatever
                                 is dictionary-encoded is a category
    anything else                must be named: key, kept or dropped

Nothing leaves unperturbed unless the owner said so. A column that can be neither
perturbed nor refreshed and was not named is an error that says what can be done.
"""

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from cornerwave.errors import ColumnError, CornerwaveWarning
from cornerwave.table.kinds import is_text, plain_type
from cornerwave.table.numbers import is_number, unit_of

PERTURBED, CATEGORY, KEY, KEPT, DROPPED = "perturbed", "category", "key", "kept", "dropped"
MARGINAL, UNIFORM = "marginal", "uniform"
TRANSFORMS = ("log1p", "rank")


@dataclass(frozen=True)
class Choices:
    """What the owner said about the columns; all else goes by type."""

    key: str | None = None
    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    perturb: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    uniform: tuple[str, ...] = ()
    together: tuple[tuple[str, ...], ...] = ()
    hide_missing: tuple[str, ...] = ()
    transform: Mapping[str, str] = field(default_factory=dict)
    min_count: int = 0

    @property
    def named(self) -> list[str]:
        """Every column that was named."""
        return [
            *([self.key] if self.key is not None else []),
            *self.keep,
            *self.drop,
            *self.perturb,
            *self.categorical,
            *self.uniform,
            *(name for group in self.together for name in group),
            *self.hide_missing,
            *self.transform,
        ]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the source and what happens to it.

    `shown` if it is in the copies; `declared` if the owner called it a category.
    """

    name: str
    type: str
    role: str
    unit: str | None = None
    shown: bool = True
    hide_missing: bool = False
    transform: str | None = None
    base: str = MARGINAL
    declared: bool = False


@dataclass(frozen=True, slots=True)
class Schema:
    """The decided columns of a table, in the source's order.

    `together` are the groups of category columns that are refreshed as one; values held
    by fewer than `min_count` rows are pooled.
    """

    columns: tuple[Column, ...]
    together: tuple[tuple[str, ...], ...] = ()
    min_count: int = 0

    def __post_init__(self) -> None:
        if not self.perturbed and not self.categories:
            raise ColumnError(
                "no column to perturb: the table must have at least one column of numbers, dates, "
                "times or categories that is neither key, kept nor dropped"
            )

    def _names(self, role: str) -> list[str]:
        return [column.name for column in self.columns if column.role == role]

    @property
    def perturbed(self) -> list[str]:
        """The columns that get noise, jointly."""
        return self._names(PERTURBED)

    @property
    def kept(self) -> list[str]:
        """The columns that leave as they are."""
        return self._names(KEPT)

    @property
    def categories(self) -> list[tuple[str, ...]]:
        """The groups of columns that are refreshed as one, most of them of one column."""
        single = set(self._names(CATEGORY)) - {name for group in self.together for name in group}
        return [(name,) for name in self._names(CATEGORY) if name in single] + list(self.together)

    @property
    def key(self) -> str | None:
        """The column that says which row is which, if there is one."""
        return next(iter(self._names(KEY)), None)

    @property
    def used(self) -> list[str]:
        """The columns that are read: all but the dropped."""
        return [column.name for column in self.columns if column.role != DROPPED]

    @property
    def shown(self) -> list[Column]:
        """The columns of a copy, in the source's order."""
        return [column for column in self.columns if column.role != DROPPED and column.shown]

    def column(self, name: str) -> Column:
        """Return a column by its name."""
        return next(column for column in self.columns if column.name == name)


def decide(source: pa.Schema, choices: Choices) -> Schema:
    """Give every column of the source its role.

    A key that is also dropped still tells the rows apart, but does not leave.
    Raises ColumnError for an unknown, repeated or undecided column.
    """
    check_distinct(source.names)
    together = tuple(_group(group, source.names) for group in choices.together)
    choices = replace(choices, together=together)
    _check_names(source.names, choices.named)
    _check_choices(choices)
    columns = tuple(_column(part, choices) for part in source)
    if undecided := [column for column in columns if not column.role]:
        raise ColumnError(_undecided(undecided))
    _check_roles({column.name: column.role for column in columns}, choices)
    return Schema(columns, choices.together, choices.min_count)


def _group(names: Sequence[str], present: Sequence[str]) -> tuple[str, ...]:
    """Return columns that are named together; spaces as in 'a, b' are no part of a name."""
    known = tuple(name if name in present else name.strip() for name in names)
    if unknown := [name for name in known if name not in present]:
        raise ColumnError(
            f"together: no column {listed(unknown)}; the table has {listed(present)}. "
            "If a name holds a comma, say it in a schema file (--schema)"
        )
    return known


def is_category(type_: pa.DataType) -> bool:
    """Say whether a column of this type is refreshed unless something else is said."""
    types = pa.types
    return bool(types.is_dictionary(type_) or is_text(type_) or types.is_boolean(type_))


def _column(part: pa.Field, choices: Choices) -> Column:
    name, type_ = part.name, str(part.type)
    if name == choices.key:
        if pa.types.is_floating(part.type) or pa.types.is_nested(part.type):
            raise ColumnError(f"{name!r}: a key is whole numbers, text or dates, not {type_}")
        return Column(name, type_, KEY, shown=name not in choices.drop)
    if name in choices.drop:
        return Column(name, type_, DROPPED)
    if name in choices.keep:
        if pa.types.is_nested(part.type):
            raise ColumnError(f"{name!r}: a nested column ({type_}) cannot be kept; drop it")
        return Column(name, type_, KEPT)
    hide = name in choices.hide_missing
    said_number = name in choices.perturb and is_number(part.type)
    if name in choices.categorical or (is_category(part.type) and not said_number):
        _check_category(part)
        base = UNIFORM if name in choices.uniform else MARGINAL
        declared = name in choices.categorical
        return Column(name, type_, CATEGORY, hide_missing=hide, base=base, declared=declared)
    if is_number(part.type):
        transform = choices.transform.get(name)
        unit = unit_of(part.type)
        return Column(name, type_, PERTURBED, unit, hide_missing=hide, transform=transform)
    return Column(name, type_, "")


def _check_category(part: pa.Field) -> None:
    if pa.types.is_nested(plain_type(part.type)):
        raise ColumnError(f"{part.name!r}: a nested column ({part.type}) cannot be a category")
    if pa.types.is_floating(part.type):
        raise ColumnError(
            f"{part.name!r}: a column of type {part.type} cannot be a category; if its values are "
            "whole numbers, make them integers, which may be missing (Int64 in pandas), or text"
        )


def check_distinct(names: Sequence[str]) -> None:
    """Raise ColumnError if two columns have one name."""
    if repeated := sorted(name for name, count in Counter(names).items() if count > 1):
        raise ColumnError(f"{listed(repeated)}: more than one column has this name; rename them")


def _check_names(present: Sequence[str], named: Sequence[str]) -> None:
    if unknown := [name for name in named if name not in present]:
        raise ColumnError(f"no column {listed(unknown)}; the table has {listed(present)}")


def _check_choices(choices: Choices) -> None:
    keep, drop = set(choices.keep), set(choices.drop)
    if both := sorted(keep & (drop | {choices.key})):
        raise ColumnError(f"{listed(both)}: kept and something else; say one of the two")
    for name, transform in choices.transform.items():
        if transform not in TRANSFORMS:
            raise ColumnError(f"{name!r}: {transform!r} is no transform; say log1p or rank")
    grouped = Counter(name for group in choices.together for name in group)
    if twice := sorted(name for name, count in grouped.items() if count > 1):
        raise ColumnError(f"{listed(twice)}: named together more than once")
    if any(len(group) < 2 for group in choices.together):
        raise ColumnError(
            'together needs at least two columns, as in --together a,b or together=[["a", "b"]]'
        )
    if choices.min_count < 0:
        raise ColumnError("min-count is a number of rows, 0 or more")


def _check_roles(roles: Mapping[str, str], choices: Choices) -> None:
    together = [name for group in choices.together for name in group]
    categories = [*choices.categorical, *choices.uniform, *together]
    numbers = [*choices.perturb, *choices.transform]
    _check_role(roles, (CATEGORY,), categories, "a category", "call it one: --categorical")
    _check_role(roles, (PERTURBED,), numbers, "a number", _MAKE_NUMBERS)
    _check_role(roles, (PERTURBED, CATEGORY), choices.hide_missing, "a number or category", "")
    if both := sorted(set(together) & set(choices.uniform)):
        raise ColumnError(f"{listed(both)}: together is drawn from the rows' own combinations")


_MAKE_NUMBERS = (
    "correct or blank the cells that are no numbers (inspect counts them), or say category"
)


def _check_role(
    roles: Mapping[str, str], allowed: Iterable[str], names: Sequence[str], what: str, remedy: str
) -> None:
    for name in names:
        if roles[name] not in allowed:
            found = _FOUND[roles[name]]
            advice = remedy if roles[name] in (PERTURBED, CATEGORY) else ""
            said = f"{name!r}: this is said of {what}, but it is {found}"
            raise ColumnError(f"{said}; {advice or 'say one of the two'}")


_FOUND = {
    PERTURBED: "a number",
    CATEGORY: "a category",
    KEY: "the key",
    KEPT: "kept",
    DROPPED: "dropped",
}


def _undecided(columns: Sequence[Column]) -> str:
    what = ", ".join(f"{column.name!r} ({column.type})" for column in columns)
    one = columns[0].name
    return (
        f"no decision for {what}: it is neither a number, a date nor a category. "
        f"Leave it out (--drop {one!r}), release it as it is (--keep {one!r}), "
        f"or let it tell the rows apart (--key {one!r})"
    )


def warn_of(notes: Mapping[str, str], schema: Schema) -> None:
    """Warn of what is odd about columns that are categories though nobody called them so."""
    for column in schema.columns:
        if column.role == CATEGORY and not column.declared and column.name in notes:
            text = f"{column.name!r}: {notes[column.name]}"
            warnings.warn(text, CornerwaveWarning, stacklevel=3)


def names_of(given: str | Iterable[Any]) -> tuple[Any, ...]:
    """Return columns as they were named in Python; a text by itself is one name."""
    return (given,) if isinstance(given, str) else tuple(given)


def listed(names: Sequence[str], most: int = 20) -> str:
    """Return names as they stand in a message."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(repr(name) for name in names[:most]) + more
