"""Registering a table in the console: what was found in each column, and what to do with it.

Tables come from folders that the owner has allowed; nothing outside of them can be named. The
form's controls are made from the declarations of choices: a field about the table has the key of
the schema file as its name, a field about a column the name of the choice and the column's place.
"""

import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from cornerwave.choices import (
    CATEGORY,
    COLUMNS,
    DECLARED,
    DERIVED,
    DOES,
    KEY,
    PERTURBED,
    TABLE,
    UNIT,
    VALUES,
    Bounds,
    Choice,
    Choices,
    bound_of,
    toml_text,
)
from cornerwave.columns import is_number, listed
from cornerwave.errors import CornerwaveError, SourceError, collecting_warnings, discreet
from cornerwave.inspection import ColumnReport, inspect
from cornerwave.kinds import OneOf, Text
from cornerwave.outlook import explained
from cornerwave.server._page import Ticked, page, router, signed_in, words_of
from cornerwave.server._replies import service_of
from cornerwave.sources import SOURCE_ENDINGS, open_to_inspect
from cornerwave.vault import Dataset, Registration

pages = router(signed_in)
MOST_FILES, DEPTH = 500, 4
"""So many tables are listed, in folders so deep."""


@pages.get("/register")
def choose(request: Request) -> Response:
    """List the tables in the allowed folders."""
    allowed: Sequence[Path] = request.app.state.allowed
    tables = [str(path) for folder in allowed for path in _tables(folder)]
    return page(request, "register.html", allowed=allowed, tables=tables[:MOST_FILES])


@pages.get("/register/columns")
def columns(request: Request, path: str = "") -> Response:
    """Inspect a table, and ask what shall happen to each column."""
    return _form(request, _within(request, path))


@pages.post("/register/columns")
def register(request: Request, ticked: Ticked) -> Response:
    """Register a table as the form states."""
    stated = {name: values[-1] for name, values in ticked.items()}
    path = _within(request, stated.get("path", ""))
    try:
        source = open_to_inspect(path)
        names = source.schema.names
        if stated.get("columns") != _hash(names):
            raise SourceError("the table has other columns now; choose for each of them again")
        choices = choices_in(names, stated, ticked.get("together", []))
        with collecting_warnings() as notes:
            vault = service_of(request).vault
            name, unrelated = stated.get("name", "").strip(), ticked.get("unrelated", [])
            made = vault.register_as(name, source, Registration(choices, unrelated=unrelated))
    except CornerwaveError as error:
        return _form(request, path, stated, error, ticked.get("unrelated", []))
    return page(request, "registered.html", dataset=made, notes=notes, decided=_decided(made))


def _form(
    request: Request,
    path: Path,
    stated: dict[str, str] | None = None,
    error: CornerwaveError | None = None,
    unrelated: Sequence[str] = (),
) -> Response:
    others = error is not None and "unrelated" in error.use
    names = [d.name for d in service_of(request).vault.datasets()] if others or unrelated else []
    with discreet():
        source = open_to_inspect(path)
        inspection = inspect(source)
    proposed = {f"do-{i}": report.do for i, report in enumerate(inspection.columns)}
    if inspection.time:
        proposed["time"] = inspection.time
    known = proposed if stated is None else stated
    asks = {*inspection.asks, *(error.use if error else ())}
    name = path.name.partition(".")[0]
    return page(
        request,
        "columns.html",
        status=400 if error else 200,
        path=path,
        name=known.get("name", name),
        columns=[
            (report, *column_controls(report, i, is_number(part.type), known, asks))
            for i, (report, part) in enumerate(zip(inspection.columns, source.schema, strict=True))
        ],
        controls=list(table_controls(known, asks)),
        disclosure=inspection.disclosure,
        warnings=inspection.warnings,
        groups=[json.dumps(names) for names in inspection.disclosure.together],
        hash=_hash(source.schema.names),
        known=known,
        words=WORDS,
        error=words_of(error) if error else "",
        others=[(name, name in unrelated) for name in names],
    )


def _decided(made: Dataset) -> Iterator[str]:
    """Yield what registration decided, and what columns reveal of each other."""
    schema = made.frozen.schema
    if schema.pseudonym is not None:
        yield f"key, a pseudonym in copies: {schema.pseudonym}"
    for what, groups in (
        ("noise", [(name,) for name in schema.perturbed]),
        ("category", schema.categories),
        ("derived", [(f"{c.name} from {c.follows}",) for c in schema.derived]),
        ("unchanged", [(name,) for name in schema.unchanged]),
        ("missing values stay missing", [(name,) for name in made.frozen.missing]),
    ):
        if groups:
            yield f"{what}: {listed([' + '.join(group) for group in groups], str)}"
    yield from explained(made.frozen)


def _within(request: Request, text: str) -> Path:
    """Return a path in an allowed folder, links followed. Raises SourceError."""
    allowed: Sequence[Path] = request.app.state.allowed
    try:
        path = Path(text).resolve()
        inside = any(path.is_relative_to(folder) for folder in allowed)
        if text and inside and path.exists():
            return path
    except (OSError, ValueError, RuntimeError):
        pass
    raise SourceError("there is no such table in a folder that the service may read")


def _tables(folder: Path) -> Iterator[Path]:
    """Yield the tables in a folder and those below it, without hidden ones."""
    for place, folders, names in os.walk(folder):
        deep = len(Path(place).relative_to(folder).parts)
        folders[:] = sorted(f for f in folders if not f.startswith(".")) if deep < DEPTH else []
        yield from (
            Path(place) / name
            for name in sorted(names)
            if name.lower().endswith(SOURCE_ENDINGS) and not name.startswith(".")
        )


def _hash(names: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps(list(names)).encode()).hexdigest()


# --------------------------------------------------------------------------------------------------
# The controls of the form, and the choices that it states.


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


def choices_in(names: Sequence[str], stated: Mapping[str, str], together: Sequence[str]) -> Choices:
    """Return the choices of a form. Raises SourceError for one that is missing."""
    does = {name: stated.get(f"do-{i}", "") for i, name in enumerate(names)}
    if undecided := [name for name, do in does.items() if do not in WORDS]:
        raise SourceError(f"{undecided[0]!r}: choose what to do with it")
    keys = [name for name, do in does.items() if do in (KEY, KEY_AS_IS)]
    if len(keys) > 1:
        raise SourceError("one column identifies the rows, not several")
    units = [name for name, do in does.items() if do == UNIT]
    chosen: dict[str, Any] = {
        choice.name: tuple(name for name, each in does.items() if each == do)
        for do, choice in _DOING.items()
    }
    chosen |= {"key": next(iter(keys), None), "key_as_is": KEY_AS_IS in does.values()}
    chosen |= {"unit": tuple(units)}  # of two the one further left is the outer one
    for choice in _OF_COLUMN:
        cells = {name: _chosen(choice, name, i, stated) for i, name in enumerate(names)}
        given = {name: value for name, value in cells.items() if value is not None}
        chosen[choice.name] = tuple(given) if choice.gives == COLUMNS else given
    for choice in DECLARED.values():
        if choice.gives == TABLE and not choice.is_of_column and choice.key in stated:
            chosen[choice.name] = _of_table(choice, stated[choice.key])
    return Choices(**{**chosen, "together": _groups(together, names)})


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


def _groups(texts: Sequence[str], names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    try:
        groups = [tuple(json.loads(text)) for text in texts]
    except (ValueError, TypeError):
        raise SourceError("columns that belong together cannot be read; inspect again") from None
    if not all(name in names for group in groups for name in group):
        raise SourceError("columns that belong together have other names now; inspect again")
    return tuple(groups)
