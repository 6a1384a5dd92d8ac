"""Every choice that an owner makes about a table, declared once, as a field of `Choices`.

From a declaration come the option of the command line, the key of the schema file and its check,
the control in the console's form, and the row in docs/commands.md.

To add a choice: a field of `Choices`, its type in `ChoiceArguments`, the code that acts on it, and
`python -m tests.test_choices`, which writes the table of the docs.
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import date
from typing import Any, TypedDict, Unpack

from cornerwave.errors import ColumnError
from cornerwave.kinds import Kind, ListOf, OneOf, Text, Whole

PERTURBED, CATEGORY, KEY, KEPT, DROPPED = "perturbed", "category", "key", "kept", "dropped"
UNIT, DERIVED = "unit", "derived"
"""The roles of columns."""
MARGINAL, UNIFORM = "marginal", "uniform"
TRANSFORMS = ("log1p", "rank")
SHUFFLE, KEEP_ORDER = "shuffle", "keep"
ORDERS = (SHUFFLE, KEEP_ORDER)
"""What happens to the order of the rows, if the owner decided: it is shuffled, or kept."""

DOES = {
    PERTURBED: "perturb",
    CATEGORY: "category",
    KEY: "key",
    UNIT: "unit",
    KEPT: "keep",
    DROPPED: "drop",
    DERIVED: "derive",
}
"""What a schema file calls the roles."""
DECIDE = "decide"
"""What a draft states of a column that the owner has to decide."""

TABLE, COLUMN, COLUMNS, VALUES = "table", "column", "columns", "values"
"""What a choice gives: a value for the table, one column, columns, or a value for each of some."""


class Bounds(Kind):
    """Two bounds, the lower one first; an infinite one, or None, is open."""

    allowed = "two bounds, as in [0, inf]"

    def accepts(self, value: Any) -> bool:
        """Whether there are two, and neither leaves nothing between them."""
        # numbers and dates are compared once the type of the column is known (columns/_finish)
        is_pair = isinstance(value, list | tuple) and len(value) == 2
        return is_pair and value[0] != math.inf and value[1] != -math.inf

    def parsed(self, value: Any) -> Any:
        """Return the pair with None for an open bound."""
        return tuple(None if isinstance(e, float) and math.isinf(e) else e for e in value)


FLAG = OneOf(False, True, allowed="true or false, without quotes")
_DO = OneOf(*DOES.values(), DECIDE, allowed=f"one of {', '.join(DOES.values())}")
_BASE = OneOf(MARGINAL, UNIFORM)
_TRANSFORM = OneOf(*TRANSFORMS)
_ORDER = OneOf(*ORDERS)
_GROUPS = ListOf(ListOf(Text(printable=False), ""), 'lists of names, as in [["a", "b"]]')
_NOT_EMPTY = Text("a text that is not empty", printable=False, least=1)
DESCRIPTION = Text("one line of text, at most 1,000 characters", least=1, most=1000)
"""What a column means, in the owner's words."""
_ALL_ROLES = (PERTURBED, CATEGORY, KEY, UNIT, KEPT, DERIVED)


@dataclass(frozen=True)
class Choice:
    """A choice of the owner: what it is called, which values it has, what it is for.

    `gives` is TABLE, COLUMN, COLUMNS or VALUES, `kind` which values the schema file may have under
    `key`; `value` is the one that makes the choice, or an example. `roles` are the roles of columns
    that it is for. An `option` that is None is not on the command line and not
    among the keyword arguments. The console calls it `label`, and its values `words`; one that is
    `asked` is shown only where a first look at the table asks for it, one about the `looks` of
    copies beside others of this kind.
    """

    help: str
    gives: str = TABLE
    kind: Kind = FLAG
    key: str = ""
    value: Any = True
    roles: tuple[str, ...] = ()
    option: str | None = ""
    metavar: str = "COLUMN"
    label: str = ""
    words: Mapping[Any, str] = field(default_factory=dict)
    asked: bool = False
    looks: bool = False
    name: str = ""

    @property
    def is_flag(self) -> bool:
        """Whether it is made for the table, or not."""
        return self.gives == TABLE and isinstance(self.kind, OneOf)

    @property
    def is_of_column(self) -> bool:
        """Whether the schema file states it with a column."""
        return self.gives != TABLE or self.roles == (KEY,)

    @property
    def names_columns(self) -> bool:
        """Whether what is chosen names columns."""
        return self.gives != TABLE or self.name in ("time", "together")

    def normal(self, given: Any) -> Any:
        """Return a value as `Choices` holds it: a string is one name, names stay in order."""
        if self.gives == COLUMNS:
            return names_of(given)
        if self.gives == VALUES:
            named = not isinstance(given, Mapping)
            return dict.fromkeys(names_of(given), self.value) if named else dict(given)
        return tuple(map(names_of, names_of(given))) if self.kind is _GROUPS else given

    def check(self, value: Any, where: str, name: str = "") -> None:
        """Raise ColumnError unless the value is of the kind; `name` is what it is called there."""
        if not self.kind.accepts(value):
            raise ColumnError(f"{where}{name or self.name} must be {self.kind.allowed}")


def _in_table(name: str, table: str, columns: Collection[str]) -> str | None:
    """Return the column of a table that a name, perhaps with the table's before it, means."""
    if name in columns:
        return name
    owner, _, column = name.partition(".")
    return column if owner == table and column in columns else None


def names_of(given: str | Iterable[Any]) -> tuple[Any, ...]:
    """Return columns as they were named in Python; a string is one name."""
    return (given,) if isinstance(given, str) else tuple(given)


# What a choice is if it is not made; a dictionary of values is made anew for each `Choices`.
_EMPTY: dict[str, tuple[()] | None] = {COLUMN: None, COLUMNS: ()}


def declared(help: str, gives: str = TABLE, *, default: Any = False, **about: Any) -> Any:
    """Declare a choice as a field of `Choices`."""
    choice = Choice(help, gives, **about)
    if gives == VALUES:
        return field(default_factory=dict, metadata={"choice": choice})
    # the declaration travels with the field, so that `DECLARED` can be read off `Choices`
    return field(default=_EMPTY.get(gives, default), metadata={"choice": choice})


def _do(role: str, help: str, word: str, gives: str = COLUMNS, **about: Any) -> Any:
    """Declare the choice of a role: in a schema file all of them are values of one key, `do`."""
    words = {DOES[role]: word}
    about = {"key": "do", "value": DOES[role], "label": "What", "words": words, **about}
    return declared(help, gives, kind=_DO, **about)


@dataclass(frozen=True)
class Choices:
    """What the owner chose for a table and its columns; everything else goes by type."""

    key: str | None = _do(
        KEY,
        "Column that uniquely identifies each row; a pseudonym in copies",
        "key: identifies the row, a pseudonym in copies",
        COLUMN,
    )
    key_as_is: bool = declared(
        "Release the key unchanged, whatever it reveals",
        key="as_is",
        roles=(KEY,),
        label="What",
        words={True: "key: identifies the row, unchanged in copies"},
    )
    unit: tuple[str, ...] = _do(
        UNIT,
        "Column that names the person, or other thing, that rows belong to; a pseudonym in "
        "copies; of persons in households name both, the household first",
        "unit: names the person that rows belong to, a pseudonym in copies",
    )
    time: str | None = declared(
        "Column that states when a person's row was: a number, date or time",
        kind=_NOT_EMPTY,
        default=None,
        value="visited",
        label="Time of a person's rows",
        asked=True,
    )
    drop: tuple[str, ...] = _do(DROPPED, "Leave a column out", "drop: leave out")
    keep: tuple[str, ...] = _do(KEPT, "Release a column unchanged", "keep: unchanged")
    categorical: tuple[str, ...] = _do(
        CATEGORY,
        "Treat a column of whole numbers or dates as a category",
        "category: redraw some",
        roles=(CATEGORY,),
    )
    perturb: tuple[str, ...] = _do(
        PERTURBED,
        "Add noise to a column of numbers, dates or times",
        "perturb: add noise",
        roles=(PERTURBED,),
        option=None,
    )
    derive: tuple[str, ...] = _do(
        DERIVED,
        "Recompute a column in copies from the column that it follows, or as a sum of others",
        "derive: recompute from others",
        roles=(DERIVED,),
        option=None,
    )
    follows: Mapping[str, str] = declared(
        "Recompute a band, a label or a code in copies from the column that it follows",
        VALUES,
        kind=_NOT_EMPTY,
        value="age",
        roles=(DERIVED,),
        metavar="COLUMN=OTHER",
        label="Follows from",
        asked=True,
    )
    sum_of: Mapping[str, str] = declared(
        "Compute a number in copies as the sum of others, or as another one once more",
        VALUES,
        kind=_NOT_EMPTY,
        value="principal + interest",
        roles=(DERIVED,),
        metavar="COLUMN=A + B",
        label="Sum of",
        asked=True,
    )
    relative_to: Mapping[str, str] = declared(
        "Perturb a number or date as its distance from another, so that copies keep their order",
        VALUES,
        kind=_NOT_EMPTY,
        value="c_jail_in",
        roles=(PERTURBED,),
        metavar="COLUMN=OTHER",
        label="Distance from",
        asked=True,
    )
    together: tuple[tuple[str, ...], ...] = declared(
        "Refresh category columns as one, so that their association survives",
        kind=_GROUPS,
        default=(),
        value=(("a", "b"),),
        roles=(CATEGORY,),
        metavar="A,B,...",
        label="Categories that reveal each other",
    )
    uniform: tuple[str, ...] = declared(
        "Draw all values of a category with equal probability",
        COLUMNS,
        kind=_BASE,
        key="base",
        value=UNIFORM,
        roles=(CATEGORY,),
        label="draw all values evenly",
    )
    hide_missing: tuple[str, ...] = declared(
        "Hide which values of a column are missing",
        COLUMNS,
        roles=(PERTURBED, CATEGORY),
        label="hide gaps",
        asked=True,
    )
    present_if: Mapping[str, str] = declared(
        "Show a number in copies just where a category of theirs lets it be present",
        VALUES,
        kind=_NOT_EMPTY,
        value="is_recid",
        roles=(PERTURBED,),
        metavar="COLUMN=CATEGORY",
        label="Present if",
        asked=True,
    )
    transform: Mapping[str, str] = declared(
        "Perturb a long-tailed column on another scale",
        VALUES,
        kind=_TRANSFORM,
        value="log1p",
        roles=(PERTURBED,),
        metavar="COLUMN=log1p|rank",
        label="Scale",
        words={"": "its own", "log1p": "logarithm", "rank": "ranks"},
    )
    min_count: int = declared(
        "Pool category values held by fewer than K rows",
        kind=Whole("a number of rows, 0 or more"),
        default=0,
        value=5,
        metavar="K",
        label="Pool rare values",
    )
    shuffle: bool = declared(
        "Shuffle the rows of copies, all in the same way",
        kind=_ORDER,
        key="order",
        value=SHUFFLE,
        label="Order of the rows",
        words={SHUFFLE: "shuffle, the same in every copy"},
        asked=True,
    )
    keep_order: bool = declared(
        "Keep the order of the rows even if it reveals a column",
        kind=_ORDER,
        key="order",
        value=KEEP_ORDER,
        label="Order of the rows",
        words={KEEP_ORDER: "keep: recipients need it"},
        asked=True,
    )
    independent_rows: bool = declared(
        "State that no two rows belong together, though they seem to; beside a unit, but by it",
        label="Rows are independent",
        asked=True,
    )
    few_rows: bool = declared(
        "Accept a table of fewer than 100 rows, and one of fewer than 500 without a warning",
        label="Few rows: accept",
        asked=True,
    )
    round: Mapping[str, bool] = declared(
        "Round a column to its source type",
        VALUES,
        value=True,
        roles=(PERTURBED,),
        label="Round",
        words={"": "where it costs nothing", True: "always, as in the table", False: "never"},
        looks=True,
    )
    clip: Mapping[str, tuple[Any, Any]] = declared(
        "Clip a column to bounds",
        VALUES,
        kind=Bounds(),
        value=(0, math.inf),
        roles=(PERTURBED,),
        metavar="COLUMN=LO:HI",
        label="Clip",
        looks=True,
    )
    released_type: Mapping[str, str] = declared(
        "Type of the rounded numbers in copies, if it is not the table's",
        VALUES,
        kind=_NOT_EMPTY,
        key="type",
        value="int64",
        roles=(PERTURBED,),
        option=None,
        label="Type in copies",
        looks=True,
    )
    decimals: Mapping[str, int] = declared(
        "Decimals of the floats of a column, in the table and so in copies",
        VALUES,
        kind=Whole("a whole number from 1 to 15", least=1, most=15),
        value=2,
        roles=(PERTURBED, DERIVED),
        metavar="COLUMN=N",
        label="Decimals",
        looks=True,
    )
    released_as: Mapping[str, str] = declared(
        "Name of a column in copies",
        VALUES,
        kind=_NOT_EMPTY,
        key="as",
        value="NAME",
        roles=_ALL_ROLES,
        option="as",
        metavar="COLUMN=NAME",
        label="Name in copies",
        looks=True,
    )
    describe: Mapping[str, str] = declared(
        "State what a column means; copies carry it, so it must not name people or hold a cell",
        VALUES,
        kind=DESCRIPTION,
        key="description",
        value="Age in years",
        roles=_ALL_ROLES,
        metavar="COLUMN=TEXT",
        label="Description, released with copies",
        looks=True,
    )

    @classmethod
    def of(cls, **given: Unpack["ChoiceArguments"]) -> "Choices":
        """Return choices from arguments; None is not given. Raises TypeError for unknown ones."""
        known: dict[str, Any] = {
            name: DECLARED[name].normal(value) if name in DECLARED else value
            for name, value in given.items()
            if value is not None
        }
        return cls(**known)

    @property
    def order(self) -> str | None:
        """What happens to the order of the rows, if that was decided. Raises ColumnError."""
        if self.shuffle and self.keep_order:
            raise ColumnError("the rows are shuffled or keep their order; choose one of the two")
        return SHUFFLE if self.shuffle else KEEP_ORDER if self.keep_order else None

    def named(self, choice: str) -> list[str]:
        """Return the columns that are named by one of the choices."""
        given = getattr(self, choice)
        if choice == "together":
            return [name for group in given for name in group]
        one = DECLARED[choice].gives == COLUMN or choice == "time"
        return ([] if given is None else [given]) if one else list(given)

    def of_column(self, choice: str, column: str) -> Any:
        """Return what was chosen for a column: a value or None, or whether it was."""
        given = getattr(self, choice)
        return given.get(column) if DECLARED[choice].gives == VALUES else column in given

    def for_tables(self, columns: Mapping[str, Collection[str]]) -> dict[str, "Choices"]:
        """Return what is chosen for each of some tables, given their columns.

        A column is named for all tables that have it, or as TABLE.COLUMN for one of them. Raises
        ColumnError for one that none has.
        """
        for choice in DECLARED:
            for name in self.named(choice) if DECLARED[choice].names_columns else ():
                if not any(_in_table(name, table, own) for table, own in columns.items()):
                    raise ColumnError(f"{name!r} matches no column of {' or '.join(columns)}")
        return {table: self._for_table(table, own) for table, own in columns.items()}

    def _for_table(self, table: str, columns: Collection[str]) -> "Choices":
        chosen = dict[str, Any]()
        for name, choice in DECLARED.items():
            given = getattr(self, name)
            if not choice.names_columns or given is None:
                chosen[name] = given
            elif name == "together":
                groups = ([_in_table(each, table, columns) for each in group] for group in given)
                chosen[name] = tuple(tuple(group) for group in groups if all(group))
            else:
                here = {each: _in_table(each, table, columns) for each in self.named(name)}
                local = {each: own for each, own in here.items() if own is not None}
                if choice.gives == VALUES:
                    chosen[name] = {own: given[each] for each, own in local.items()}
                else:
                    own = tuple(local.values())
                    chosen[name] = own if choice.gives == COLUMNS else next(iter(own), None)
        if (chosen["key"],) == chosen["unit"]:  # one row each: the unit names the row
            chosen |= {"key": None, "key_as_is": False}
        return Choices(**chosen)

    def check(self) -> None:
        """Raise ColumnError for a value that is not of its kind."""
        for choice in DECLARED.values():
            given = getattr(self, choice.name)
            if choice.gives == VALUES:
                for name, value in given.items():
                    choice.check(value, f"{name!r}: ")
            elif choice.gives == TABLE and not choice.is_flag and given is not None:
                choice.check(given, "")


DECLARED: dict[str, Choice] = {
    each.name: replace(
        each.metadata["choice"], name=each.name, key=each.metadata["choice"].key or each.name
    )
    for each in fields(Choices)
}
"""Every choice, by its name."""

HIDDEN = Choice(
    "Do not release the key or unit, though it identifies rows", key="hidden", roles=(KEY, UNIT)
)
"""What a schema file states of a key or unit that is also dropped."""


class ChoiceArguments(TypedDict, total=False):
    """The choices as keyword arguments, as `Vault.register` takes them."""

    key: str | None
    key_as_is: bool
    unit: str | Iterable[str] | None
    time: str | None
    drop: Iterable[str]
    keep: Iterable[str]
    categorical: Iterable[str]
    follows: Mapping[str, str] | None
    sum_of: Mapping[str, str] | None
    relative_to: Mapping[str, str] | None
    together: Iterable[Iterable[str]]
    uniform: Iterable[str]
    hide_missing: Iterable[str]
    present_if: Mapping[str, str] | None
    transform: Mapping[str, str] | None
    min_count: int
    shuffle: bool
    keep_order: bool
    independent_rows: bool
    few_rows: bool
    round: Iterable[str]
    clip: Mapping[str, tuple[Any, Any]] | None
    decimals: Mapping[str, int] | None
    released_as: Mapping[str, str] | None
    describe: Mapping[str, str] | None


def parts_of(written: str) -> tuple[str, ...]:
    """Return the columns that a sum is of.

    >>> parts_of("principal + interest"), parts_of("paid")
    (('principal', 'interest'), ('paid',))
    """
    return tuple(re.split(r"\s+\+\s+", written.strip()))


def bound_of(written: str) -> float | date | None:
    """Return a bound from text: a number, a date, or None if it is empty. Raises ValueError."""
    try:
        return float(written) if written else None
    except ValueError:
        return date.fromisoformat(written)
