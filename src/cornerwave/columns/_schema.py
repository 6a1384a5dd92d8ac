"""What happens to each column: perturbed, refreshed, derived, key, kept or dropped, nothing else.

    numbers, dates, times        perturbed, jointly
    text, booleans, categories   refreshed, each by itself or some together; every
                                 dictionary-encoded column is a category
    named as following another   recomputed in each copy from that one
    named as relative to another perturbed as the distance from that one
    anything else                must be named: key, kept or dropped

Nothing is released unperturbed unless the owner chose so. A column that can be neither
perturbed nor refreshed and was not named is an error that states what can be done.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any

import pyarrow as pa

from cornerwave.choices import (
    CATEGORY,
    DECLARED,
    DERIVED,
    DROPPED,
    KEPT,
    KEY,
    MARGINAL,
    PERTURBED,
    TABLE,
    UNIFORM,
    UNIT,
    Choices,
    parts_of,
)
from cornerwave.columns._relative import Relative, chain, keeps_order
from cornerwave.columns._types import (
    decimal_type,
    is_number,
    is_text,
    plain_type,
    step_of,
    type_named,
    unit_of,
)
from cornerwave.errors import ColumnError, SourceError, nearest, warn

LEAST_ROWS, SAFE_ROWS = 100, 500
"""A table of fewer than LEAST_ROWS is refused unless the owner accepts it, and one of fewer than
SAFE_ROWS is warned of: an audit needs the former, and measures a share of variance in the latter
with a standard error of about 1/sqrt(SAFE_ROWS), a twentieth."""

_ROLES = {
    PERTURBED: "a number",
    CATEGORY: "a category",
    KEY: "the key",
    UNIT: "the unit",
    KEPT: "kept",
    DROPPED: "dropped",
    DERIVED: "derived",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the source and what happens to it.

    `shown` if it is in the copies; `declared` if the owner called it a category. The last six
    are what copies look like, and no noise depends on them: whether a number is rounded (None:
    where a miner loses nothing by it), its bounds, type, decimals and name, and whether a key or
    unit leaves as it is instead of as a pseudonym; what it means, in the owner's words, is one too.
    A derived column `follows` another one, or is the `sum_of` others; a number that is
    `relative_to` another one is perturbed as its distance from that, and one that is `present_if` a
    category lets it hides its gaps and shows those of that category.
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
    round: bool | None = None
    clip: tuple[Any, Any] | None = None
    released_type: str | None = None
    decimals: int | None = None
    released_as: str | None = None
    as_is: bool = False
    follows: str | None = None
    sum_of: str | None = None
    describe: str | None = None
    relative_to: str | None = None
    present_if: str | None = None

    @property
    def uniform(self) -> bool:
        """Whether all values of a category are drawn with equal probability."""
        return self.base == UNIFORM

    @property
    def key_as_is(self) -> bool:
        """Whether it is the key, and released unchanged."""
        return self.as_is

    @property
    def is_hidden_key(self) -> bool:
        """Whether it identifies the rows, but is not released."""
        return self.role in (KEY, UNIT) and not self.shown


@dataclass(frozen=True, slots=True)
class Schema:
    """The decided columns of a table, in the source's order.

    `together` are the groups of category columns that are refreshed as one; values held
    by fewer than `min_count` rows are pooled. `order` is what the owner chose for the order
    of the rows; None if there was no need to. `time` states when rows were.
    `independent_rows` if the owner stated that no two rows belong together, `few_rows` if the owner
    accepts that there are few. `nested` are the units of a table with two, the outer one first: a
    person is named by both, and need be unique only in the outer one.
    """

    columns: tuple[Column, ...]
    together: tuple[tuple[str, ...], ...] = ()
    min_count: int = 0
    order: str | None = None
    independent_rows: bool = False
    few_rows: bool = False
    time: str | None = None
    nested: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.perturbed and not self.categories:
            raise ColumnError(
                "no column to perturb: the table needs at least one column of numbers, dates, "
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
        """The columns that are released as they are."""
        return self._names(KEPT)

    @property
    def derived(self) -> list[Column]:
        """The columns that copies recompute from another one that they follow."""
        return [column for column in self.columns if column.follows is not None]

    @property
    def totals(self) -> dict[str, tuple[str, ...]]:
        """The columns that copies compute as the sum of others, and of which."""
        return {c.name: parts_of(c.sum_of) for c in self.columns if c.sum_of is not None}

    @property
    def relative(self) -> Relative:
        """The numbers that are perturbed as distances, and the columns that these are from."""
        return {c.name: c.relative_to for c in self.columns if c.relative_to is not None}

    @property
    def present_if(self) -> dict[str, str]:
        """The numbers whose gaps a category explains, and which one."""
        return {c.name: c.present_if for c in self.columns if c.present_if is not None}

    @property
    def categories(self) -> list[tuple[str, ...]]:
        """The groups of columns that are refreshed as one, most of them of one column."""
        single = set(self._names(CATEGORY)) - {name for group in self.together for name in group}
        return [(name,) for name in self._names(CATEGORY) if name in single] + list(self.together)

    @property
    def encoded(self) -> list[str]:
        """The columns whose cells are distinguished by their values: kept, categories, the unit."""
        categories = [name for group in self.categories for name in group]
        return [*self.kept, *categories, *self._names(UNIT)]

    @property
    def key(self) -> str | None:
        """The column that identifies the rows, if there is one."""
        return next(iter(self._names(KEY)), None)

    @property
    def unit(self) -> str | None:
        """The column that names the person that rows belong to, if there is one."""
        return self.nested[-1] if self.nested else next(iter(self._names(UNIT)), None)

    @property
    def outer_unit(self) -> str | None:
        """The column that names the household, or other thing, that persons belong to, if any."""
        return self.nested[0] if self.nested else None

    @property
    def units(self) -> list[str]:
        """The columns that name units, the outer one first."""
        return list(self.nested) or self._names(UNIT)

    @property
    def naming(self) -> list[str]:
        """The columns whose types could be those of the key or the unit."""
        types = {column.name: type_named(column.type) for column in self.columns}
        return [name for name, type_ in types.items() if type_ is not None and can_name(type_)]

    @property
    def pseudonym(self) -> str | None:
        """The key, if copies have pseudonyms in its place."""
        return next(iter(self._pseudonyms(KEY)), None)

    @property
    def unit_pseudonyms(self) -> list[str]:
        """The units that copies have pseudonyms in place of."""
        return self._pseudonyms(UNIT)

    def _pseudonyms(self, role: str) -> list[str]:
        return [c.name for c in self.columns if c.role == role and c.shown and not c.as_is]

    @property
    def unchanged(self) -> list[str]:
        """The columns that copies show as they are: kept ones, a key or unit by choice alone."""
        named = [c.name for c in self.columns if c.role in (KEY, UNIT) and c.shown and c.as_is]
        return [*self.kept, *named]

    @property
    def used(self) -> list[str]:
        """The columns that are read: all but the dropped, and the derived ones."""
        return [c.name for c in self.columns if c.role not in (DROPPED, DERIVED)]

    @property
    def looked_at(self) -> list[str]:
        """The columns that registration reads: derived ones, and dropped ones, which may name
        units.
        """
        read = [*self.used, *(column.name for column in self.derived), *self.totals]
        if self.independent_rows and self.unit is None:
            return read
        dropped = [column for column in self.columns if column.role == DROPPED]
        return [*read, *(c.name for c in dropped if type_named(c.type) is not None)]

    @property
    def shown(self) -> list[Column]:
        """The columns of a copy, in the source's order."""
        return [column for column in self.columns if column.role != DROPPED and column.shown]

    def column(self, name: str) -> Column:
        """Return a column by its name."""
        return next(column for column in self.columns if column.name == name)


def decide(source: pa.Schema, choices: Choices) -> Schema:
    """Give every column of the source its role.

    A key identifies the rows, and is released as a pseudonym, or as it is if the owner chose so;
    one that is also dropped is not released. Raises ColumnError for an unknown, repeated or
    undecided column.
    """
    check_distinct(source.names)
    groups = tuple(_group(group, source.names) for group in choices.together)
    choices = replace(choices, together=groups)
    _check_choices(choices, source.names)
    columns = tuple(_column(part, choices) for part in source)
    if undecided := [f"{each.name!r} ({each.type})" for each in columns if not each.role]:
        raise ColumnError(
            f"no decision for {', '.join(undecided)}: neither a number, a date nor a category. "
            "Drop the column, keep it as it is, or make it the key",
            use=("drop", "keep", "key"),
        )
    _check_roles({column.name: column.role for column in columns}, choices)
    if choices.time is not None and not is_number(source.field(choices.time).type):
        raise ColumnError(
            f"{choices.time!r}: a time must be a number, a date or a time, not "
            f"{source.field(choices.time).type}"
        )
    if any(column.name == choices.time and column.role == CATEGORY for column in columns):
        raise ColumnError(
            f"{choices.time!r}: the time cannot be a category: a person's history is replaced by "
            "that of another with as many rows, which has nearly the same times. Perturb it as a "
            "number, keep it or drop it",
            use=("perturb", "keep", "drop"),
        )
    check_distinct([c.released_as or c.name for c in columns if c.role != DROPPED and c.shown])
    _check_relative({column.name: column for column in columns})
    _check_totals({column.name: column for column in columns})
    return Schema(
        columns,
        choices.together,
        choices.min_count,
        choices.order,
        choices.independent_rows,
        choices.few_rows,
        choices.time,
        choices.unit if len(choices.unit) > 1 else (),
    )


def is_category(type_: pa.DataType) -> bool:
    """Return whether a column of this type is a category by default."""
    types = pa.types
    return bool(types.is_dictionary(type_) or is_text(type_) or types.is_boolean(type_))


def can_name(type_: pa.DataType) -> bool:
    """Return whether a column of this type can be the key or the unit."""
    plain = plain_type(type_)
    return not (pa.types.is_floating(plain) or pa.types.is_nested(plain))


def _group(names: Sequence[str], present: Sequence[str]) -> tuple[str, ...]:
    """Return a group of columns; spaces as in 'a, b' are not part of a name."""
    known = tuple(name if name in present else name.strip() for name in names)
    if unknown := [name for name in known if name not in present]:
        raise ColumnError(
            f"together: no column {listed(unknown)}; the table has {listed(present)}. "
            "If a name contains a comma, use a schema file",
            use=("schema",),
        )
    return known


_CHOSEN = [
    name
    for name, choice in DECLARED.items()
    if name in {each.name for each in fields(Column)} and choice.key != "do"
]
"""The choices for single columns that a decided column has by the same name."""


def _column(part: pa.Field, choices: Choices) -> Column:
    name = part.name
    role = _role(part, choices)
    return Column(
        name,
        str(part.type),
        role,
        unit=unit_of(part.type) if role == PERTURBED else None,
        shown=role == DROPPED or name not in choices.drop,
        base=UNIFORM if name in choices.uniform else MARGINAL,
        declared=role == CATEGORY and name in choices.categorical,
        as_is=(role == KEY and choices.key_as_is) or (role == UNIT and name in choices.keep),
        **{
            **{choice: choices.of_column(choice, name) for choice in _CHOSEN},
            "hide_missing": name in choices.hide_missing or name in choices.present_if,
        },
    )


def _role(part: pa.Field, choices: Choices) -> str:
    """Return the role of a column; '' if the owner has to decide it. Raises ColumnError."""
    name, plain = part.name, plain_type(part.type)
    if name in (choices.key, *choices.unit):
        role = KEY if name == choices.key else UNIT
        if not can_name(plain):
            raise ColumnError(
                f"{name!r}: a {role} must be whole numbers, text or dates, not {part.type}"
            )
        return role
    if name in choices.drop and name != choices.time:
        return DROPPED
    if name in {*choices.follows, *choices.sum_of, *choices.derive}:
        if pa.types.is_nested(plain):
            raise ColumnError(f"{name!r}: a nested column ({part.type}) cannot be derived; drop it")
        return DERIVED
    if name in choices.keep:
        if pa.types.is_nested(part.type):
            raise ColumnError(f"{name!r}: a nested column ({part.type}) cannot be kept; drop it")
        return KEPT
    called_number = name in choices.perturb and is_number(part.type)
    if name in choices.categorical or (is_category(part.type) and not called_number):
        if pa.types.is_nested(plain):
            raise ColumnError(f"{name!r}: a nested column ({part.type}) cannot be a category")
        return CATEGORY
    return PERTURBED if is_number(part.type) else ""


_NAMING = [
    name for name, each in DECLARED.items() if each.gives != TABLE or name in ("together", "time")
]
"""The choices that name columns."""


def _check_choices(choices: Choices, present: Sequence[str]) -> None:
    choices.check()
    named = [name for each in _NAMING for name in choices.named(each)]
    if unknown := [name for name in named if name not in present]:
        raise ColumnError(
            f"no column {listed(unknown)}; the table has {listed(present)}"
            f"{nearest(unknown[0], present)}"
        )
    if both := sorted(set(choices.keep) & {*choices.drop, choices.key}):
        raise ColumnError(f"{listed(both)}: kept and also dropped or the key; choose one")
    for choice in ("follows", "relative_to", "present_if"):
        given: Mapping[str, str] = getattr(choices, choice)
        if others := sorted({*given.values()} - {*present}):
            raise ColumnError(
                f"{choice}: no column {listed(others)}; the table has {listed(present)}"
                f"{nearest(others[0], present)}"
            )
    if choices.relative_to and choices.unit:
        raise ColumnError(
            f"{listed(list(choices.relative_to))}: relative_to does not go with a unit yet; leave "
            "it out, so that the column is perturbed by itself"
        )
    _check_units(choices)
    if choices.time is not None and not choices.unit:
        raise ColumnError(
            f"{choices.time!r} is the time of a person's rows, but no column names the person",
            use=("unit",),
        )
    if choices.unit and choices.uniform:
        raise ColumnError(
            f"{listed(choices.uniform)}: uniform does not go with a unit, whose categories are "
            "replaced by those of another person; choose one"
        )
    if choices.key_as_is and choices.key is None:
        raise ColumnError("no column is the key, so none can be released as it is", use=("key",))
    if choices.key_as_is and choices.key in choices.drop:
        raise ColumnError(f"{choices.key!r}: released as it is and also dropped; choose one")
    if twice := repeated(choices.named("together")):
        raise ColumnError(f"{listed(twice)}: in more than one group of together")
    if any(len(group) < 2 for group in choices.together):
        raise ColumnError('together needs groups of at least two columns, as in [["a", "b"]]')
    if both := sorted(set(choices.named("together")) & set(choices.uniform)):
        raise ColumnError(
            f"{listed(both)}: uniform does not go with together, whose columns are drawn "
            "from the combinations in the table; choose one"
        )


MOST_UNITS = 2
"""Units of a table: persons, and the households that they belong to."""


def _check_units(choices: Choices) -> None:
    """Raise ColumnError for units that cannot be."""
    if twice := repeated(choices.unit):
        raise ColumnError(f"{listed(twice)}: named as the unit more than once; name it once")
    if len(choices.unit) > MOST_UNITS:
        raise ColumnError(
            f"{listed(choices.unit)}: a table has at most {MOST_UNITS} units, as households and "
            "their persons; name the two that are to be hidden, the outer one first"
        )
    for unit in choices.unit:
        if unit == choices.key:
            raise ColumnError(f"{unit!r}: the key and also the unit; choose one")
        if unit in choices.drop and unit in choices.keep:
            raise ColumnError(f"{unit!r}: kept and also dropped; choose one")


def _check_roles(roles: Mapping[str, str], choices: Choices) -> None:
    hiding = [*choices.named("hide_missing"), *choices.named("present_if")]
    hidden = [n for n in hiding if roles[n] == PERTURBED]
    if len(choices.unit) > 1 and hidden:
        raise ColumnError(
            f"{listed(hidden)}: hide_missing does not go with two units for numbers: what is drawn "
            "for a gap would stand out among the other rows of the household. Let gaps be visible, "
            "fill them in before, or drop the column",
            use=("drop",),
        )
    for name in (name for name, role in roles.items() if role == DERIVED):
        other = choices.follows.get(name)
        if name in choices.sum_of:
            _check_sum(name, parts_of(choices.sum_of[name]), roles, choices)
            continue
        if other is None:
            raise ColumnError(
                f"{name!r}: a derived column follows another one, or is the sum of others; name "
                "that",
                use=("follows", "sum_of"),
            )
        if roles[other] not in (PERTURBED, CATEGORY):
            raise ColumnError(
                f"{name!r} follows {other!r}, which is {_ROLES[roles[other]]}; a column can follow "
                "a number with noise or a category"
            )
    for name, other in choices.present_if.items():
        if roles[other] != CATEGORY:
            raise ColumnError(
                f"{name!r} is present if {other!r} lets it, which is {_ROLES[roles[other]]}; it "
                "must be a category that is refreshed"
            )
    for choice in _NAMING:
        allowed = DECLARED[choice].roles
        for name in choices.named(choice):
            if allowed and roles[name] not in allowed:
                raise ColumnError(
                    f"{name!r} is {_ROLES[roles[name]]}, but {choice} needs "
                    f"{' or '.join(_ROLES[role] for role in allowed)}; "
                    f"{_REMEDIES.get((roles[name], allowed[0]), 'choose one of the two')}"
                )


def _check_sum(name: str, parts: Sequence[str], roles: Mapping[str, str], choices: Choices) -> None:
    """Raise ColumnError for a column that cannot be the sum of others."""
    if name in choices.follows:
        raise ColumnError(f"{name!r}: follows another column, and also the sum of some; choose one")
    if choices.unit:
        raise ColumnError(
            f"{name!r}: sum_of does not go with a unit yet; leave it out, so that the column is "
            "perturbed by itself, or drop it"
        )
    if unknown := [part for part in parts if part not in roles]:
        raise ColumnError(
            f"sum_of: no column {listed(unknown)}; write the names of columns with ' + ' between "
            f'them, as in "a + b"{nearest(unknown[0], [*roles])}'
        )
    for part in parts:
        if roles[part] != PERTURBED:
            raise ColumnError(
                f"{name!r} is the sum of {part!r}, which is {_ROLES[roles[part]]}; it must be a "
                "number with noise"
            )
    if twice := repeated(parts):
        raise ColumnError(f"{name!r} is the sum of {listed(twice)} more than once; name it once")


def _check_totals(columns: Mapping[str, Column]) -> None:
    """Raise ColumnError for sums of columns that cannot be added."""
    for column in columns.values():
        parts = () if column.sum_of is None else parts_of(column.sum_of)
        kinds = {_unit_named(columns[name]) for name in (column.name, *parts)}
        if parts and (len(kinds) > 1 or None in kinds or (len(parts) > 1 and kinds != {""})):
            raise ColumnError(
                f"{column.name!r} ({column.type}) cannot be the sum {column.sum_of}: these must "
                "be plain numbers, or one column of the same kind"
            )


def _unit_named(column: Column) -> str | None:
    """Return the unit of a number, '' for plain ones; None for what is no number."""
    type_ = type_named(column.type)
    return None if type_ is None or not is_number(type_) else unit_of(type_) or ""


def _check_relative(columns: Mapping[str, Column]) -> None:
    """Raise ColumnError for a column that cannot be perturbed as a distance from another."""
    relative = {c.name: c.relative_to for c in columns.values() if c.relative_to is not None}
    for name, other in relative.items():
        list(chain(name, relative))
        column, base = columns[name], columns[other]
        if base.role != PERTURBED:
            raise ColumnError(
                f"{name!r} is relative to {other!r}, which is {_ROLES[base.role]}; it must be a "
                "number with noise"
            )
        if column.unit != base.unit:
            raise ColumnError(
                f"{name!r} ({column.type}) and {other!r} ({base.type}) have no distance: both must "
                "be numbers, dates, or times of one kind"
            )
        if not keeps_order(_step(column), _step(base)):
            raise ColumnError(
                f"{name!r} is rounded more coarsely than {other!r}, so copies would not keep their "
                "order; store both alike, or give both the same 'decimals'"
            )
        if column.clip is not None:
            raise ColumnError(
                f"{name!r}: a column that is relative to another is not clipped, which would break "
                f"their order; clip {other!r}"
            )
        if base.hide_missing and not column.hide_missing:
            raise ColumnError(
                f"{name!r} is missing where {other!r} is, which hides its gaps; hide both",
                use=("hide_missing",),
            )
    for column in columns.values():
        if column.follows in relative:
            raise ColumnError(
                f"{column.name!r} follows {column.follows!r}, which is relative to another column; "
                "a column can follow one that is perturbed by itself"
            )


def _step(column: Column) -> Fraction | None:
    """Return the step that a number of the table has, and so its copies; None for any."""
    if column.decimals is not None:
        return step_of(decimal_type(column.decimals))
    type_ = type_named(column.released_type or column.type)
    return None if type_ is None else step_of(type_)


_REMEDIES = {
    (PERTURBED, CATEGORY): "declare it as a category too",
    (CATEGORY, PERTURBED): (
        "correct or blank the cells that are not numbers (inspect counts them), "
        "or treat it as a category"
    ),
}
"""What to do with a column that is the one and should be the other."""


def check_distinct(names: Sequence[str]) -> None:
    """Raise ColumnError if two columns have the same name."""
    if twice := repeated(names):
        raise ColumnError(f"{listed(twice)}: more than one column has this name; rename them")


def repeated(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once, in order."""
    return sorted(name for name, count in Counter(names).items() if count > 1)


def warn_of(notes: Mapping[str, str], schema: Schema, remarks: Sequence[str] = ()) -> None:
    """Warn of what is odd about columns that are categories without being declared so.

    And of what is odd about the whole file.
    """
    for remark in remarks:
        warn(remark, stacklevel=3)
    for column in schema.columns:
        if column.role == CATEGORY and not column.declared and column.name in notes:
            text = f"{column.name!r}: {notes[column.name]}"
            warn(text, stacklevel=3)


def check_rows(rows: int, schema: Schema) -> None:
    """Raise SourceError for a table of too few rows, or warn of few, unless they are accepted."""
    if schema.few_rows or rows >= SAFE_ROWS:
        return
    if rows < LEAST_ROWS:
        raise SourceError(
            f"the table has {rows:,} rows, and needs at least {LEAST_ROWS}: what is promised holds "
            "on average over rows, in so few each record makes up much of its own noise, and the "
            "copies cannot be audited. Register more rows, or accept that there are few",
            use=("few_rows",),
        )
    warn(
        f"the table has {rows:,} rows, fewer than {SAFE_ROWS}: what is promised holds on average "
        "over rows, and an audit of so few sees only large faults. The choice "
        "few-rows accepts that",
        stacklevel=5,
    )


MOST_LISTED = 20
"""Names in one line of a message."""


def listed(names: Sequence[str], spelled: Callable[[str], str] = repr) -> str:
    """Return names as a message shows them."""
    more = len(names) - MOST_LISTED
    return ", ".join(map(spelled, names[:MOST_LISTED])) + (f" and {more} more" if more > 0 else "")
