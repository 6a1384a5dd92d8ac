"""The form that registers a table: its controls, the choices that it states, and back.

The controls are made from the declarations of choices: a field about the table has the key of the
schema file as its name, a field about a column the name of the choice and the column's place. What
a schema file states fills the form (`fields_of`), and the form states choices (`choices_in`).
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from cornerwave.choices import (
    CATEGORY,
    COLUMNS,
    DECLARED,
    DERIVED,
    DOES,
    HIDDEN,
    KEY,
    PERTURBED,
    TABLE,
    UNIT,
    VALUES,
    Bounds,
    Choice,
    Choices,
    ReadingSettings,
    bound_of,
    toml_text,
)
from cornerwave.errors import SourceError
from cornerwave.inspection import ColumnReport
from cornerwave.kinds import OneOf, Text
from cornerwave.schema_file import DraftedChoices

_DOING = {choice.value: choice for choice in DECLARED.values() if choice.key == "do"}
_AS_IS, _HIDDEN = " as it is", " hidden"
"""What stands behind a key or unit that leaves unchanged, or not at all."""
WORDS = {
    **{do: _DOING[do].words[do] for do in DOES.values()},
    KEY + _AS_IS: DECLARED["key_as_is"].words[True],
    KEY + _HIDDEN: "key: identifies the row, not in copies",
    UNIT + _AS_IS: "unit: names the person, unchanged in copies",
    UNIT + _HIDDEN: "unit: names the person, not in copies",
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
        kind = "text" if isinstance(choice.kind, Text) else kind
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
    report: ColumnReport,
    place: int,
    number: bool,
    known: Mapping[str, str],
    asks: Collection[str] = (),
) -> tuple[list[Control], list[Control]]:
    """Return the controls of a column, and those for the looks of its copies."""
    roles = {PERTURBED if number else CATEGORY, DERIVED}
    asked = {*report.asks, *asks}
    shown = [
        choice
        for choice in _OF_COLUMN
        if roles & {*choice.roles}
        and (not choice.asked or choice.name in asked or known.get(f"{choice.name}-{place}"))
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


def choices_in(names: Sequence[str], stated: Mapping[str, str]) -> Choices:
    """Return the choices of a form's fields. Raises SourceError for one that is missing."""
    does = {name: stated.get(f"do-{i}", "") for i, name in enumerate(names)}
    if undecided := [name for name, do in does.items() if do not in WORDS]:
        raise SourceError(f"{undecided[0]!r}: choose what to do with it")
    plain = {name: do.removesuffix(_AS_IS).removesuffix(_HIDDEN) for name, do in does.items()}
    keys = [name for name, do in plain.items() if do == KEY]
    if len(keys) > 1:
        raise SourceError("one column identifies the rows, not several")
    # of two units the one further left is the outer one
    chosen: dict[str, Any] = {
        choice.name: tuple(name for name, each in plain.items() if each == do)
        for do, choice in _DOING.items()
    }
    chosen |= {"key": next(iter(keys), None), "key_as_is": KEY + _AS_IS in does.values()}
    chosen["keep"] += tuple(name for name, do in does.items() if do == UNIT + _AS_IS)
    chosen["drop"] += tuple(name for name, do in does.items() if do.endswith(_HIDDEN))
    for choice in _OF_COLUMN:
        cells = {name: _chosen(choice, name, i, stated) for i, name in enumerate(names)}
        given = {name: value for name, value in cells.items() if value is not None}
        chosen[choice.name] = tuple(given) if choice.gives == COLUMNS else given
    for choice in DECLARED.values():
        is_field = choice.gives == TABLE and not choice.is_of_column and choice.name != "together"
        if is_field and choice.key in stated:
            chosen[choice.name] = _of_table(choice, stated[choice.key])
    return Choices(**chosen)


def _of_table(choice: Choice, text: str) -> Any:
    """Return what a field states about the table. Raises SourceError."""
    if choice.is_flag:
        return text == ("on" if choice.value is True else choice.value)
    if isinstance(choice.kind, Text):
        return text or None
    if not text.isdecimal() or len(text) > 9:
        raise SourceError(f"{choice.label.lower()}: give a whole number of rows, 0 for none")
    return int(text)


def _chosen(choice: Choice, name: str, place: int, stated: Mapping[str, str]) -> Any:
    """Return what a column's fields state for a choice, None if nothing. Raises SourceError."""
    if isinstance(choice.kind, Bounds):
        ends = tuple(stated.get(f"{choice.name}{end}-{place}", "").strip() for end in _ENDS)
        try:
            return tuple(map(bound_of, ends)) if any(ends) else None
        except ValueError:
            raise SourceError(
                f"{name!r}: clip to numbers, or to dates such as 2027-01-31"
            ) from None
    text = stated.get(f"{choice.name}-{place}", "").strip()
    if choice.gives == COLUMNS:
        return True if text == "on" else None
    values = choice.kind.values if isinstance(choice.kind, OneOf) else ()
    return (
        {_text(value): value for value in values}.get(text, choice.kind.of_text(text))
        if text
        else None
    )


_ENDS = ("-low", "-high")


def groups_in(texts: Sequence[str], names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the ticked groups of columns that are refreshed as one. Raises SourceError."""
    try:
        groups = [tuple(json.loads(text)) for text in texts]
    except (ValueError, TypeError):
        raise SourceError("columns that belong together cannot be read; inspect again") from None
    if not all(name in names for group in groups for name in group):
        raise SourceError("columns that belong together have other names now; inspect again")
    return tuple(groups)


# --- from a schema file to the form -------------------------------------------------------


def fields_of(stated: DraftedChoices, names: Sequence[str]) -> dict[str, str]:
    """Return what the form's fields hold if a schema file states its choices."""
    known: dict[str, str] = {}
    for place, name in enumerate(names):
        entry = stated.columns.get(name, {})
        known[f"do-{place}"] = _do_in(entry)
        for choice in _OF_COLUMN:
            if choice.key in entry:
                known |= _filled(choice, place, entry[choice.key])
    for choice in DECLARED.values():
        if choice.gives == TABLE and choice.key in stated.table and choice.name != "together":
            value = stated.table[choice.key]
            known[choice.key] = ("on" if value else "") if value in (True, False) else str(value)
    return {**known, "reading": reading_text(stated.reading.for_columns(names))}


def _do_in(entry: Mapping[str, Any]) -> str:
    """Return what the form calls what a schema file does with a column, '' if undecided."""
    do = str(entry.get("do", ""))
    if do in (DOES[KEY], DOES[UNIT]):
        do += _HIDDEN if entry.get(HIDDEN.key) else _AS_IS if entry.get("as_is") else ""
    return do if do in WORDS else ""


def _filled(choice: Choice, place: int, value: Any) -> dict[str, str]:
    """Return the fields of a choice for a column."""
    if choice.gives == COLUMNS:
        return {f"{choice.name}-{place}": "on"} if value == choice.value else {}
    if isinstance(choice.kind, Bounds):
        ends = zip(_ENDS, choice.kind.parsed(value), strict=True)
        return {f"{choice.name}{end}-{place}": _bound(bound) for end, bound in ends}
    return {f"{choice.name}-{place}": _text(value)}


def _bound(bound: Any) -> str:
    """Return a bound as it is written, '' if it is open."""
    if bound is None:
        return ""
    return bound.isoformat() if isinstance(bound, date) else f"{bound:.15g}"


def reading_text(reading: ReadingSettings) -> str:
    """Return how cells are spelled, as a hidden field of the form holds it; '' if not stated."""
    return json.dumps(reading.to_json()) if reading.stated else ""


def reading_in(stated: Mapping[str, str]) -> ReadingSettings | None:
    """Return how cells are spelled by a form. Raises SourceError for what it cannot state."""
    if not stated.get("reading"):
        return None
    try:
        kept = json.loads(stated["reading"])
        marks = kept.pop("column_missing", None)
        return ReadingSettings.of(**kept, column_missing=dict(marks) if marks else None)
    except (ValueError, TypeError, AttributeError):
        raise SourceError("the reading settings of the form are not valid; load it again") from None
