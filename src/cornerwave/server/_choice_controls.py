"""The form that registers a table: its controls are made from the declarations of choices.

A field about the table has the key of the schema file as its name, a field about a column the name
of the choice and the place of the column.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cornerwave.choices import (
    CATEGORY,
    COLUMNS,
    DECLARED,
    DOES,
    KEY,
    PERTURBED,
    TABLE,
    VALUES,
    Bounds,
    Choice,
    Choices,
    bound_of,
    toml_text,
)
from cornerwave.errors import SourceError
from cornerwave.inspection import ColumnReport
from cornerwave.kinds import OneOf

_DOING = {choice.value: choice for choice in DECLARED.values() if choice.key == "do"}
KEY_AS_IS = "key as it is"
WORDS = {
    **{do: _DOING[do].words[do] for do in DOES.values()},
    KEY_AS_IS: DECLARED["key_as_is"].words[True],
}
"""What can happen to a column, and how the form calls it."""


@dataclass(frozen=True)
class Control:
    """A control of the form: a tick, a number, a text, or a selection among options."""

    kind: str
    name: str
    label: str
    help: str
    value: str
    options: Sequence[tuple[str, str]] = ()


def table_controls(known: Mapping[str, str], asks: Collection[str]) -> Iterator[Control]:
    """Yield a control for each choice about the table that is not asked for, or is asked here."""
    shown: set[str] = set()
    for choice in DECLARED.values():
        name = choice.key
        is_asked = not choice.asked or choice.name in asks or bool(known.get(name))
        if choice.is_of_column or choice.name == "together" or name in shown or not is_asked:
            continue
        shown.add(name)
        same = [each for each in DECLARED.values() if each.key == name]
        kind = "number" if not choice.is_flag else "tick" if len(same) == 1 else "select"
        options = [(each.value, each.words[each.value]) for each in same] if len(same) > 1 else []
        yield Control(
            kind, name, choice.label, choice.help, known.get(name, ""), [("", "choose…"), *options]
        )


_OF_COLUMN = [
    choice
    for choice in DECLARED.values()
    if choice.gives in (COLUMNS, VALUES) and choice.key != "do" and choice.label
]


def column_controls(
    report: ColumnReport, place: int, number: bool, known: Mapping[str, str]
) -> tuple[list[Control], list[Control]]:
    """Return the controls of a column, and those for the looks of its copies."""
    role = PERTURBED if number else CATEGORY
    shown = [
        choice
        for choice in _OF_COLUMN
        if role in choice.roles and (not choice.asked or choice.name in report.asks)
    ]
    every = [(choice.looks, list(_controls(choice, place, known))) for choice in shown]
    plain, looks = (
        [control for of_looks, controls in every if of_looks is wanted for control in controls]
        for wanted in (False, True)
    )
    return plain, looks


def _controls(choice: Choice, place: int, known: Mapping[str, str]) -> Iterator[Control]:
    """Yield the controls of a choice for one column; bounds have two."""

    def control(kind: str, label: str, end: str = "", options: Any = ()) -> Control:
        name = f"{choice.name}{end}-{place}"
        return Control(kind, name, label, choice.help, known.get(name, ""), options)

    if choice.gives == COLUMNS:
        yield control("tick", choice.label)
    elif isinstance(choice.kind, Bounds):
        for end, word in zip(_ENDS, (f"{choice.label} from", "to"), strict=True):
            yield control("bound", word, end)
    elif isinstance(choice.kind, OneOf):
        words = [(_text(value), word) for value, word in choice.words.items()]
        yield control("select", choice.label, options=words)
    else:
        yield control("text", choice.label)


def _text(value: Any) -> str:
    """Return a value as a field has it."""
    return value if isinstance(value, str) else toml_text(value)


def choices_in(names: Sequence[str], said: Mapping[str, str], together: Sequence[str]) -> Choices:
    """Return the choices of a form. Raises SourceError for one that is missing."""
    does = {name: said.get(f"do-{i}", "") for i, name in enumerate(names)}
    if undecided := [name for name, do in does.items() if do not in WORDS]:
        raise SourceError(f"{undecided[0]!r}: choose what shall happen to it")
    keys = [name for name, do in does.items() if do in (KEY, KEY_AS_IS)]
    if len(keys) > 1:
        raise SourceError("one column identifies the rows, not several")
    chosen: dict[str, Any] = {
        choice.name: tuple(name for name, each in does.items() if each == do)
        for do, choice in _DOING.items()
    }
    chosen |= {"key": next(iter(keys), None), "key_as_is": KEY_AS_IS in does.values()}
    for choice in _OF_COLUMN:
        cells = {name: _chosen(choice, name, i, said) for i, name in enumerate(names)}
        given = {name: value for name, value in cells.items() if value is not None}
        chosen[choice.name] = tuple(given) if choice.gives == COLUMNS else given
    for choice in DECLARED.values():
        if choice.gives == TABLE and not choice.is_of_column and choice.key in said:
            chosen[choice.name] = _of_table(choice, said[choice.key])
    return Choices(**{**chosen, "together": _groups(together, names)})


def _of_table(choice: Choice, text: str) -> Any:
    """Return what a field states about the table. Raises SourceError."""
    if choice.is_flag:
        return text == ("on" if choice.value is True else choice.value)
    if not text.isdecimal() or len(text) > 9:
        raise SourceError(f"{choice.label.lower()}: give a whole number of rows, 0 for none")
    return int(text)


def _chosen(choice: Choice, name: str, place: int, said: Mapping[str, str]) -> Any:
    """Return what a column's fields state for a choice, None if nothing. Raises SourceError."""
    if isinstance(choice.kind, Bounds):
        ends = tuple(said.get(f"{choice.name}{end}-{place}", "").strip() for end in _ENDS)
        try:
            return tuple(map(bound_of, ends)) if any(ends) else None
        except ValueError:
            raise SourceError(
                f"{name!r}: clip to numbers, or to dates such as 2027-01-31"
            ) from None
    text = said.get(f"{choice.name}-{place}", "").strip()
    if choice.gives == COLUMNS:
        return True if text == "on" else None
    values = choice.kind.values if isinstance(choice.kind, OneOf) else ()
    return {_text(value): value for value in values}.get(text, text) if text else None


_ENDS = ("-low", "-high")


def _groups(said: Sequence[str], names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    try:
        groups = [tuple(json.loads(text)) for text in said]
    except (ValueError, TypeError):
        raise SourceError("columns that belong together cannot be read; inspect again") from None
    if not all(name in names for group in groups for name in group):
        raise SourceError("columns that belong together have other names now; inspect again")
    return tuple(groups)
