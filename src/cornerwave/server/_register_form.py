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
    SETTINGS,
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
    most: int = 255


@dataclass(frozen=True)
class Controls:
    """Those that are asked for, those for the looks of copies, and others, which few need."""

    asked: Sequence[Control]
    others: Sequence[Control]
    looks: Sequence[Control] = ()


def table_controls(known: Mapping[str, str], asks: Collection[str]) -> Controls:
    """Return a control for each choice about the table."""
    controls = dict(_table_controls(known))
    asked = {
        choice.key
        for choice in DECLARED.values()
        if not choice.asked or choice.name in asks or known.get(choice.key)
    }
    return Controls(
        [control for name, control in controls.items() if name in asked],
        [control for name, control in controls.items() if name not in asked],
    )


def _table_controls(known: Mapping[str, str]) -> Iterator[tuple[str, Control]]:
    """Yield a control for each choice about the table, by its key."""
    shown: set[str] = set()
    for choice in DECLARED.values():
        name = choice.key
        if choice.is_of_column or choice.name == "together" or name in shown:
            continue
        shown.add(name)
        same = [each for each in DECLARED.values() if each.key == name]
        kind = "number" if not choice.is_flag else "tick" if len(same) == 1 else "select"
        kind = "text" if isinstance(choice.kind, Text) else kind
        options = [(each.value, each.words[each.value]) for each in same] if len(same) > 1 else []
        value = known.get(name, "")
        choose = [("", "choose…"), *options]
        yield name, Control(kind, name, choice.label, choice.help, value, choose)


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
) -> Controls:
    """Return the controls of a column: a number may also be a category, of texts none is noisy."""
    does = {CATEGORY, DERIVED} | ({PERTURBED} if number else set())
    main = {PERTURBED if number else CATEGORY, DERIVED}
    asked = {*report.asks, *asks}
    parts: dict[str, list[Control]] = {"asked": [], "others": [], "looks": []}
    for choice in _OF_COLUMN:
        if not does & {*choice.roles}:
            continue
        controls = list(_controls(choice, place, known))
        is_asked = not choice.asked or choice.name in asked
        is_plain = is_asked and bool(main & {*choice.roles})
        is_plain = is_plain or any(control.value for control in controls)
        parts["looks" if choice.looks else "asked" if is_plain else "others"] += controls
    return Controls(**parts)


def _controls(choice: Choice, place: int, known: Mapping[str, str]) -> Iterator[Control]:
    """Yield the controls of a choice for one column; bounds have two."""

    def control(kind: str, label: str, end: str = "", options: Any = ()) -> Control:
        name, most = f"{choice.name}{end}-{place}", getattr(choice.kind, "most", None) or 255
        return Control(kind, name, label, choice.help, known.get(name, ""), options, most)

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


def groups_in(
    texts: Sequence[str], names: Sequence[str], more: str = ""
) -> tuple[tuple[str, ...], ...]:
    """Return the ticked groups of columns that are refreshed as one, and those that are written.

    Of these `more` has one a line, its names with commas between them. Raises SourceError.
    """
    try:
        groups = [tuple(json.loads(text)) for text in texts]
    except (ValueError, TypeError):
        raise SourceError("columns that belong together cannot be read; inspect again") from None
    for line in filter(str.strip, more.splitlines()):
        group = tuple(part.strip() for part in line.split(","))
        if unknown := [name for name in group if name not in names]:
            raise SourceError(
                f"refreshed as one: there is no column {unknown[0]!r}; write names with commas "
                "between them, one group a line"
            )
        groups.append(group)
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
            known[choice.key] = ("on" if value else "") if isinstance(value, bool) else str(value)
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
    fields = {name: stated[f"{READ}{name}"] for name in _READ if f"{READ}{name}" in stated}
    if not stated.get("reading") and not any(fields.values()):
        return None
    try:
        kept = json.loads(stated.get("reading") or "{}")
        marks = kept.pop("column_missing", None)
        for name, text in fields.items():  # empty: to be found
            kept[name] = (text.split(",") if _is_list(name) else text) if text else None
        return ReadingSettings.of(**kept, column_missing=dict(marks) if marks else None)
    except SourceError:
        raise
    except (ValueError, TypeError, AttributeError):
        raise SourceError("the reading settings of the form are not valid; load it again") from None


READ = "read "
"""What the names of fields about reading begin with."""
_READ = [name for name in SETTINGS if name not in ("query", "order_by")]
"""Settings that have a field: what a database is asked is no matter of a form."""


def _is_list(setting: str) -> bool:
    return not isinstance(SETTINGS[setting].kind, Text)


def reading_controls(reading: ReadingSettings | None) -> list[Control]:
    """Return the controls for how cells are read."""
    stated = reading or ReadingSettings()
    texts = {name: getattr(stated, name) or "" for name in _READ}
    return [
        Control(
            "text",
            f"{READ}{name}",
            name.replace("_", " ").capitalize(),
            f"{SETTINGS[name].help}{'; several with commas between them' * _is_list(name)}",
            value if isinstance(value, str) else ",".join(value),
        )
        for name, value in texts.items()
    ]
