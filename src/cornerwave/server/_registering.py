"""Registering a table in the console: what was found in each column, and what to do with it.

Tables come from folders that the owner has allowed; nothing outside of them can be named. The form
begins with what `inspect` drafts, or with a schema file that the owner uploads. A registered table
grows, changes and ends here too.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from fastapi import Depends
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from cornerwave.access import OWNER
from cornerwave.choices import Choices
from cornerwave.columns import decide, is_number, listed
from cornerwave.errors import CornerwaveError, SourceError, collecting_warnings, discreet
from cornerwave.inspection import draft, inspect
from cornerwave.outlook import advice
from cornerwave.schema_file import read_draft, schema_text
from cornerwave.server._console import ThisDataset, dataset_page, linked_with
from cornerwave.server._page import (
    MOST_FIELDS,
    Fields,
    Ticked,
    acting,
    go,
    page,
    permits,
    router,
    signed_in,
    words_of,
)
from cornerwave.server._register_form import (
    WORDS,
    choices_in,
    column_controls,
    fields_of,
    groups_in,
    reading_in,
    table_controls,
)
from cornerwave.server._replies import service_of
from cornerwave.sources import SOURCE_ENDINGS, Source, open_to_inspect
from cornerwave.vault import Dataset, Registration

pages = router(signed_in)
MOST_FILES, DEPTH = 500, 4
"""So many tables are listed, in folders so deep."""
MOST_SCHEMA = 1 << 20
"""Bytes of a schema file that is uploaded."""


async def _uploaded(request: Request) -> dict[str, str]:
    """Return the fields of a form with one file, whose text is the field of its name."""
    fields = {}
    async with request.form(max_fields=MOST_FIELDS, max_files=1) as form:
        for name, value in form.items():
            if isinstance(value, str):
                fields[name] = value
                continue
            content = await value.read(MOST_SCHEMA)
            fields[name] = content.decode("utf-8", errors="replace")
            fields[f"{name} name"] = value.filename or "the schema file"
    return fields


Uploaded = Annotated[dict[str, str], Depends(_uploaded)]


@pages.get("/register")
@permits(OWNER)
def choose(request: Request) -> Response:
    """List the tables in the allowed folders."""
    allowed: Sequence[Path] = request.app.state.allowed
    tables = [str(path) for folder in allowed for path in _tables(folder)]
    return page(request, "register.html", allowed=allowed, tables=tables[:MOST_FILES])


@pages.get("/register/columns")
@permits(OWNER)
def columns(request: Request, path: str = "") -> Response:
    """Inspect a table, and ask what shall happen to each column."""
    return _form(request, _within(request, path))


@pages.post("/register/schema")
def fill(request: Request, fields: Uploaded) -> Response:
    """Fill the form by a schema file, such as that of the last wave of a survey."""
    path = _within(request, fields.get("path", ""))
    names = open_to_inspect(path).schema.names
    try:
        drafted = read_draft(fields.get("schema", ""), fields.get("schema name", "?"), names)
    except CornerwaveError as error:
        return _form(request, path, error=error)
    groups = drafted.table.get("together", [])
    name = fields.get("name", "").strip()
    stated = {**fields_of(drafted, names), **({"name": name} if name else {})}
    return _form(request, path, stated, together=groups)


@pages.post("/register/columns")
def register(request: Request, ticked: Ticked) -> Response:
    """Register a table as the form states, try that, or send it as a schema file."""
    stated = {name: values[-1] for name, values in ticked.items()}
    path, act = _within(request, stated.get("path", "")), stated.get("act", "register")
    unrelated, together = ticked.get("unrelated", []), None
    try:
        source = open_to_inspect(path, reading_in(stated))
        names = source.schema.names
        if stated.get("columns") != _hash(names):
            raise SourceError("the table has other columns now; choose for each of them again")
        together = groups_in(ticked.get("together", []), names)
        choices = replace(choices_in(names, stated), together=together)
        if act == "download":
            return _download(path, source, choices)
        how = Registration(choices, unrelated=unrelated, dry_run=act == "try")
        with collecting_warnings() as notes:
            vault = acting(request).vault
            made = vault.register_as(stated.get("name", "").strip(), source, how)
    except CornerwaveError as error:
        return _form(request, path, stated, error, unrelated, together)
    if how.dry_run:
        tried = [*notes, *_decided(made)]
        return _form(request, path, stated, None, unrelated, together, tried=tried)
    return page(request, "registered.html", dataset=made, notes=notes, decided=_decided(made))


def _download(path: Path, source: Source, choices: Choices) -> Response:
    """Send the schema file that states what the form does."""
    text = schema_text(decide(source.schema, choices), source.reading)
    return _as_file(text, path.name.partition(".")[0])


def _as_file(schema: str, called: str) -> Response:
    """Send a schema file."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", called).strip("-") or "schema"
    headers = {"Content-Disposition": f'attachment; filename="{name}.toml"'}
    return PlainTextResponse(schema, headers=headers, media_type="application/toml")


def _form(
    request: Request,
    path: Path,
    stated: dict[str, str] | None = None,
    error: CornerwaveError | None = None,
    unrelated: Sequence[str] = (),
    together: Sequence[Sequence[str]] | None = None,
    *,
    tried: Sequence[str] = (),
) -> Response:
    others = error is not None and "unrelated" in error.use
    names = [d.name for d in service_of(request).vault.datasets()] if others or unrelated else []
    with discreet():
        source = open_to_inspect(path, None if stated is None else reading_in(stated))
        inspection = inspect(source)
    columns = source.schema.names
    known = stated or fields_of(read_draft(draft(inspection), "the draft", columns), columns)
    asks = {*inspection.asks, *(error.use if error else ())}
    advised = [list(group) for group in inspection.disclosure.together]
    chosen = advised if together is None else [list(group) for group in together]
    return page(
        request,
        "columns.html",
        status=400 if error else 200,
        path=path,
        name=known.get("name", path.name.partition(".")[0]),
        columns=[
            (report, *column_controls(report, i, is_number(part.type), known, asks))
            for i, (report, part) in enumerate(zip(inspection.columns, source.schema, strict=True))
        ],
        controls=list(table_controls(known, asks)),
        disclosure=inspection.disclosure,
        warnings=inspection.warnings,
        groups=[
            (json.dumps(group), group, group in chosen)
            for group in [*advised, *(each for each in chosen if each not in advised)]
        ],
        hash=_hash(columns),
        known=known,
        words=WORDS,
        error=words_of(error) if error else "",
        others=[(name, name in unrelated) for name in names],
        tried=tried,
    )


def _decided(made: Dataset) -> Iterator[str]:
    """Yield what registration decided, and what columns reveal of each other."""
    schema = made.frozen.schema
    if schema.pseudonym is not None:
        yield f"key, a pseudonym in copies: {schema.pseudonym}"
    for what, groups in (
        ("noise", [(name,) for name in schema.perturbed]),
        ("as distances", [(f"{name} from {base}",) for name, base in schema.relative.items()]),
        ("category", schema.categories),
        ("derived", [(f"{c.name} from {c.follows}",) for c in schema.derived]),
        ("sums", [(f"{n} = {' + '.join(of)}",) for n, of in schema.totals.items()]),
        ("unchanged", [(name,) for name in schema.unchanged]),
        ("missing values stay missing", [(name,) for name in made.frozen.missing]),
    ):
        if groups:
            yield f"{what}: {listed([' + '.join(group) for group in groups], str)}"
    yield from advice(made.frozen).lines()


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


# --- a registered table -------------------------------------------------------------------


@pages.post("/datasets/{id}/grow")
def grow(request: Request, dataset: ThisDataset, fields: Fields) -> Response:
    """Append rows, or take a new state of the whole table, from an allowed folder."""
    try:
        path = _within(request, fields.get("path", ""))
        mine = acting(request).vault.dataset(dataset.name)
        take = mine.update if fields.get("act") == "update" else mine.append
        with collecting_warnings() as notes:
            made = take(path)
    except CornerwaveError as error:
        return dataset_page(request, dataset, error=error)
    lines = [f"{made.rows_brought:,} rows came; the table has {made.rows:,} now", *notes]
    return page(request, "grown.html", dataset=dataset, edition=made, lines=lines)


@pages.get("/datasets/{id}/schema.toml")
def schema_of(dataset: ThisDataset) -> Response:
    """Send the schema file of what was registered."""
    return _as_file(dataset.schema_file(), dataset.name)


@pages.post("/datasets/{id}/close")
def close(request: Request, dataset: ThisDataset) -> Response:
    """End the releases of a dataset, and of the tables that it is linked with."""
    for each in linked_with(acting(request).vault, dataset):
        each.close()
    return go(f"/datasets/{dataset.id}")


@pages.post("/datasets/{id}/unregister")
def unregister(request: Request, dataset: ThisDataset) -> Response:
    """Forget a dataset of which nothing was released."""
    try:
        acting(request).vault.unregister(dataset.name)
    except CornerwaveError as error:
        return dataset_page(request, dataset, error=error)
    return go("")
