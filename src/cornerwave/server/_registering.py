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
from cornerwave.server._console import (
    ThisDataset,
    allowed_path,
    change_form,
    dataset_of,
    dataset_page,
    joined_by,
    linked_with,
)
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
    reading_controls,
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
def columns(
    request: Request, path: str = "", instead: str = "", together: bool = False
) -> Response:
    """Inspect a table, and ask what shall happen to each column.

    The form begins with the choices of a dataset that it is registered `instead` of, perhaps with
    the columns `together` whose refreshing as one is recommended.
    """
    place = _within(request, path)
    if not instead:
        return _form(request, place)
    dataset = _replaceable(request, instead)
    names = open_to_inspect(place, dataset.frozen.reading).schema.names
    stated, groups = _chosen_for(dataset, names)
    form = change_form(request, dataset)
    if together and form is not None and form.together:
        groups = [g for g in groups if not {*g} & {*form.together}] + [form.together]
    return _form(request, place, stated | {"instead": instead}, together=groups)


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
    return _form(request, path, stated, together=groups, differs=drafted.differs)


@pages.post("/register/columns")
def register(request: Request, ticked: Ticked) -> Response:
    """Register a table as the form states, try that, or send it as a schema file."""
    stated = {name: values[-1] for name, values in ticked.items()}
    path, act = _within(request, stated.get("path", "")), stated.get("act", "register")
    act = "try" if "join" in stated else act
    unrelated, together = ticked.get("unrelated", []), None
    try:
        source = open_to_inspect(path, reading_in(stated))
        names = source.schema.names
        if stated.get("columns") != _hash(names):
            raise SourceError("the table has other columns now; choose for each of them again")
        ticks = ticked.get("together", []) + ticked.get("join", [])
        together = groups_in(ticks, names, stated.get("more_together", ""))
        if act == "read":
            return _form(request, path, stated, None, unrelated, together)
        choices = replace(choices_in(names, stated), together=together)
        if act == "download":
            return _download(path, source, choices)
        how = Registration(choices, unrelated=unrelated, dry_run=act == "try")
        with collecting_warnings() as notes:
            if instead := stated.get("instead"):
                how = replace(how, instead=_replaceable(request, instead).name)
            made = acting(request).vault.register_as(stated.get("name", "").strip(), source, how)
    except CornerwaveError as error:
        return _form(request, path, stated, error, unrelated, together)
    if how.dry_run:
        return _form(request, path, stated, None, unrelated, together, tried=(made, notes))
    return page(
        request,
        "registered.html",
        dataset=made,
        notes=notes,
        decided=_decided(made),
        advice=advice(made.frozen),
        change=change_form(request, made),
    )


def _chosen_for(
    dataset: Dataset, names: Sequence[str]
) -> tuple[dict[str, str], list[Sequence[str]]]:
    """Return the form's fields for the choices of a dataset, and its groups of columns."""
    drafted = read_draft(dataset.schema_file(), dataset.name, names)
    groups: list[Sequence[str]] = list(drafted.table.get("together", []))
    return fields_of(drafted, names) | {"name": dataset.name}, groups


def _replaceable(request: Request, id: str) -> Dataset:
    """Return a dataset that may be registered anew. Raises SourceError for another."""
    dataset = dataset_of(request, id)
    if change_form(request, dataset) is None:
        raise SourceError(
            "choices can be changed while nobody holds a copy of the dataset, and its table is in "
            "a folder that the service may read"
        )
    return dataset


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
    tried: tuple[Dataset, Sequence[str]] | None = None,
    differs: Sequence[str] = (),
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
    advised_by = None if tried is None else advice(tried[0].frozen)
    join = joined_by(advised_by, tried[0]) if tried is not None and advised_by is not None else ()
    chosen = advised if together is None else [list(group) for group in together]
    return page(
        request,
        "columns.html",
        status=400 if error else 200,
        path=path,
        name=known.get("name", path.name.partition(".")[0]),
        columns=[
            (report, column_controls(report, i, is_number(part.type), known, asks))
            for i, (report, part) in enumerate(zip(inspection.columns, source.schema, strict=True))
        ],
        controls=table_controls(known, asks),
        reading=reading_controls(None if stated is None else reading_in(stated)),
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
        tried=[] if tried is None else [*tried[1], *_decided(tried[0])],
        advice=advised_by,
        advised=join and json.dumps(join),
        differs=differs,
    )


def _decided(made: Dataset) -> Iterator[str]:
    """Yield what registration decided."""
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


def _within(request: Request, text: str) -> Path:
    """Return a path in an allowed folder, links followed. Raises SourceError."""
    if (path := allowed_path(request, text)) is not None:
        return path
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
