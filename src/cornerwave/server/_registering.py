"""Registering a table in the console: what was found in each column, and what shall happen to it.

Tables come from folders that the owner has allowed; nothing outside of them can be named.
"""

import hashlib
import json
import os
import warnings
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from cornerwave.columns import Choices, is_number, listed
from cornerwave.errors import CornerwaveError, CornerwaveWarning, SourceError, discreet
from cornerwave.inspection import Inspection, inspect
from cornerwave.outlook import explained
from cornerwave.server._page import Ticked, page, router, signed_in, words_of
from cornerwave.server._replies import service_of
from cornerwave.sources import SOURCE_ENDINGS, open_to_inspect
from cornerwave.vault import Dataset

pages = router(signed_in)
MOST_FILES, DEPTH = 500, 4
"""So many tables are listed, in folders so deep."""
WORDS = {
    "perturb": "perturb: add noise",
    "category": "category: redraw some",
    "key": "key: identifies the row, a pseudonym in copies",
    "key as it is": "key: identifies the row, unchanged in copies",
    "keep": "keep: unchanged",
    "drop": "drop: leave out",
}
"""What can happen to a column, and how the form calls it."""


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
    """Register a table as the form says."""
    said = {name: values[-1] for name, values in ticked.items()}
    path = _within(request, said.get("path", ""))
    try:
        source = open_to_inspect(path)
        names = source.schema.names
        if said.get("columns") != _hash(names):
            raise SourceError("the table has other columns now; choose for each of them again")
        choices = _choices(names, said, ticked.get("together", []))
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
    numbers = [is_number(part.type) for part in source.schema]
    known = said if said is not None else _proposed(found)
    name = path.name.partition(".")[0]
    return page(
        request,
        "columns.html",
        status=400 if error else 200,
        path=path,
        name=known.get("name", name),
        columns=list(zip(found.columns, numbers, strict=True)),
        telling=found.telling,
        warnings=found.warnings,
        groups=[json.dumps(names) for names in found.telling.together],
        ordered=any(report.told for report in found.columns),
        units=found.units or (error is not None and "independent_rows" in error.use),
        few=found.few_rows,
        hash=_hash(source.schema.names),
        known=known,
        words=WORDS,
        error=words_of(error) if error else "",
        others=[(name, name in unrelated) for name in names],
    )


def _proposed(found: Inspection) -> dict[str, str]:
    """Return what the form says at first: what a draft proposes."""
    return {f"do-{i}": report.do for i, report in enumerate(found.columns)}


def _choices(names: Sequence[str], said: dict[str, str], together: Sequence[str]) -> Choices:
    """Return the choices of a form. Raises SourceError for one that is missing."""

    def chosen(what: str, value: str = "on") -> tuple[str, ...]:
        return tuple(name for i, name in enumerate(names) if said.get(f"{what}-{i}") == value)

    undecided = [n for i, n in enumerate(names) if said.get(f"do-{i}") not in WORDS]
    if undecided:
        raise SourceError(f"{undecided[0]!r}: choose what shall happen to it")
    as_it_is = chosen("do", "key as it is")
    keys = [*chosen("do", "key"), *as_it_is]
    if len(keys) > 1:
        raise SourceError("one column identifies the rows, not several")
    return Choices(
        key=next(iter(keys), None),
        key_as_is=bool(as_it_is),
        keep=chosen("do", "keep"),
        drop=chosen("do", "drop"),
        perturb=chosen("do", "perturb"),
        categorical=chosen("do", "category"),
        uniform=chosen("uniform"),
        together=_groups(together, names),
        hide_missing=chosen("hide"),
        transform={n: said[f"scale-{i}"] for i, n in enumerate(names) if said.get(f"scale-{i}")},
        min_count=_count(said.get("min_count", "0")),
        order=said.get("order") or None,
        independent_rows=said.get("independent_rows") == "on",
        few_rows=said.get("few_rows") == "on",
        round={
            **dict.fromkeys(chosen("round", "always"), True),
            **dict.fromkeys(chosen("round", "never"), False),
        },
        clip=_clips(names, said),
        released_as={n: a for i, n in enumerate(names) if (a := said.get(f"as-{i}", "").strip())},
    )


def _clips(names: Sequence[str], said: dict[str, str]) -> dict[str, tuple[Any, Any]]:
    """Return the bounds of each column that has some."""
    bounds = {
        name: (_bound(name, said.get(f"low-{i}", "")), _bound(name, said.get(f"high-{i}", "")))
        for i, name in enumerate(names)
    }
    return {name: ends for name, ends in bounds.items() if ends != (None, None)}


def _bound(name: str, text: str) -> float | date | None:
    written = text.strip()
    for kind in (float, date.fromisoformat):
        try:
            return kind(written) if written else None
        except ValueError:
            pass
    raise SourceError(f"{name!r}: clip to numbers, or to dates such as 2027-01-31")


def _groups(said: Sequence[str], names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    try:
        groups = [tuple(json.loads(text)) for text in said]
    except (ValueError, TypeError):
        raise SourceError("columns that belong together cannot be read; inspect again") from None
    if not all(name in names for group in groups for name in group):
        raise SourceError("columns that belong together have other names now; inspect again")
    return tuple(groups)


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise SourceError("pool rare values: give a whole number of rows, 0 for none")
    return int(text)


def _said(made: Dataset) -> Iterator[str]:
    """Yield what registration decided, and what columns tell of each other."""
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
