"""Registering a table in the console: what was found in each column, and what shall happen to it.

Tables come from folders that the owner has allowed; nothing outside of them can be named.
"""

import hashlib
import json
import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from cornerwave.columns import is_number, listed
from cornerwave.errors import CornerwaveError, CornerwaveWarning, SourceError, discreet
from cornerwave.inspection import Inspection, inspect
from cornerwave.outlook import explained
from cornerwave.server._choice_controls import (
    WORDS,
    choices_in,
    column_controls,
    table_controls,
)
from cornerwave.server._page import Ticked, page, router, signed_in, words_of
from cornerwave.server._replies import service_of
from cornerwave.sources import SOURCE_ENDINGS, open_to_inspect
from cornerwave.vault import Dataset

pages = router(signed_in)
MOST_FILES, DEPTH = 500, 4
"""So many tables are listed, in folders so deep."""


@pages.get("/register")
def choose(request: Request) -> Response:
    """List the tables in the allowed folders."""
    allowed: Sequence[Path] = request.app.state.allowed
    found = [str(path) for folder in allowed for path in _tables(folder)]
    return page(request, "register.html", allowed=allowed, found=found[:MOST_FILES])


@pages.get("/register/columns")
def columns(request: Request, path: str = "") -> Response:
    """Inspect a table, and ask what shall happen to each column."""
    return _form(request, _within(request, path))


@pages.post("/register/columns")
def register(request: Request, ticked: Ticked) -> Response:
    """Register a table as the form states."""
    said = {name: values[-1] for name, values in ticked.items()}
    path = _within(request, said.get("path", ""))
    try:
        source = open_to_inspect(path)
        names = source.schema.names
        if said.get("columns") != _hash(names):
            raise SourceError("the table has other columns now; choose for each of them again")
        choices = choices_in(names, said, ticked.get("together", []))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", CornerwaveWarning)
            vault = service_of(request).vault
            name, unrelated = said.get("name", "").strip(), ticked.get("unrelated", [])
            made = vault.register_as(name, source, choices, unrelated=unrelated)
    except CornerwaveError as error:
        return _form(request, path, said, error, ticked.get("unrelated", []))
    notes = [str(each.message) for each in caught]
    return page(request, "registered.html", dataset=made, notes=notes, said=_said(made))


def _form(
    request: Request,
    path: Path,
    said: dict[str, str] | None = None,
    error: CornerwaveError | None = None,
    unrelated: Sequence[str] = (),
) -> Response:
    others = error is not None and "unrelated" in error.use
    names = [d.name for d in service_of(request).vault.datasets()] if others or unrelated else []
    with discreet():
        source = open_to_inspect(path)
        found = inspect(source)
    known = said if said is not None else _proposed(found)
    asks = {*found.asks, *(error.use if error else ())}
    name = path.name.partition(".")[0]
    return page(
        request,
        "columns.html",
        status=400 if error else 200,
        path=path,
        name=known.get("name", name),
        columns=[
            (report, *column_controls(report, i, is_number(part.type), known))
            for i, (report, part) in enumerate(zip(found.columns, source.schema, strict=True))
        ],
        controls=list(table_controls(known, asks)),
        disclosure=found.disclosure,
        warnings=found.warnings,
        groups=[json.dumps(names) for names in found.disclosure.together],
        hash=_hash(source.schema.names),
        known=known,
        words=WORDS,
        error=words_of(error) if error else "",
        others=[(name, name in unrelated) for name in names],
    )


def _proposed(found: Inspection) -> dict[str, str]:
    """Return what the form states at first: what a draft proposes."""
    return {f"do-{i}": report.do for i, report in enumerate(found.columns)}


def _said(made: Dataset) -> Iterator[str]:
    """Yield what registration decided, and what columns reveal of each other."""
    schema = made.frozen.schema
    if schema.pseudonym is not None:
        yield f"key, a pseudonym in copies: {schema.pseudonym}"
    for what, groups in (
        ("noise", [(name,) for name in schema.perturbed]),
        ("category", schema.categories),
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
