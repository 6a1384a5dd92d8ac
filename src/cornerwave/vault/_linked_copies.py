"""A copy of linked tables: a folder, a .zip, a DuckDB file or a schema, whole or not at all.

All tables are made in a hidden folder beside the place; then the ledger states who holds each of
them, and then the folder, or the one file that was made of it, is moved to its place in one step,
or exchanged for the copy that is there. In PostgreSQL all tables are made in one transaction, which
ends after the ledger's lines. What a copy states about itself is inside its file, beside a CSV
file, or the comment of a table.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from cornerwave.errors import OutputError, OutputExists, discreet
from cornerwave.outputs import DUCKDB, ZIP, HiddenFolder, SharedSession, check_parent, packed
from cornerwave.sources import Address, DatabaseAddress, Place, Progress, place_of, silent
from cornerwave.spec import CopySpec, PartOf
from cornerwave.vault._dataset import hold_all
from cornerwave.vault._release import (
    Release,
    check_approved,
    check_places,
    made_at,
    make_all,
    permit_for,
)

FORMATS = ("parquet", "csv", "csv.gz", "arrow", "xlsx", "dta", "sav")
META = ".meta.json"
FOLDER, SCHEMA = "folder", "schema"
"""The kinds of places, as the ledger calls them: others have the name of their ending."""


def write_linked(
    tables: Mapping[str, Release],
    path: str | Place,
    *,
    format: str = "parquet",
    force: bool = False,
    progress: Progress = silent,
) -> Place:
    """Write a copy of each table, all of them or none. Raises OutputExists unless `force`."""
    path = place_of(path)
    if isinstance(path, DatabaseAddress) and path.file is not None and path.table is None:
        path = path.file
    if isinstance(path, DatabaseAddress):
        check_approved(tables.values())
        return _in_schema(tables, path, force=force, progress=progress)
    if isinstance(path, Address):
        raise OutputError("linked tables are written to this machine or to PostgreSQL; copy them")
    check_approved(tables.values())
    if format not in FORMATS:
        raise OutputError(f"{format!r} is not one of {', '.join(FORMATS)}")
    check_parent(path)
    kind = kind_of(path)
    inside = _format_inside(kind, format)
    for release in tables.values():
        check_places(release.dataset, [path])
    _check_replaced(path, list(tables), force=force)
    with discreet(), HiddenFolder(path) as hidden, _read_once(tables):
        if path.is_dir():
            hidden.check_exchange()
        folder = hidden.path / "copy"
        folder.mkdir(mode=0o700)
        for table, release in tables.items():
            make_all([(release, folder / f"{table}.{inside}")], progress=progress)
        made = packed(folder, path.suffix.lower(), list(tables))
        _hold(tables, kind, inside)
        hidden.show(made)
    return path


def kind_of(place: Place) -> str:
    """Return what holds all tables at a place: folder, zip, duckdb or schema."""
    file: object = place
    if isinstance(place, DatabaseAddress) and place.table is None:
        file = place.file
    if not isinstance(file, Path):
        return SCHEMA
    ending = file.suffix.lower()
    return ending[1:] if ending in (ZIP, DUCKDB) else FOLDER


def specs_at(
    tables: Mapping[str, Release], place: Place, *, format: str = "parquet"
) -> dict[str, CopySpec]:
    """Return what the ledger states of the copies once they are written to a place."""
    kind = kind_of(place)
    return _specs(tables, kind, _format_inside(kind, format))


def _format_inside(kind: str, format_: str) -> str:
    """Return the format of the tables in a place of some kind, if files have this one."""
    return {ZIP[1:]: "csv", DUCKDB[1:]: "parquet", SCHEMA: "postgresql"}.get(kind, format_)


def _specs(tables: Mapping[str, Release], kind: str, format_: str) -> dict[str, CopySpec]:
    """Return the specs of copies, each as part of the copy of all tables."""
    specs = {table: release.written_as(format_) for table, release in tables.items()}
    part = PartOf.of(kind, list(specs.values()))
    return {table: replace(spec, part_of=part) for table, spec in specs.items()}


def _hold(tables: Mapping[str, Release], kind: str, format_: str) -> None:
    """Write down who is about to hold the copies."""
    specs = _specs(tables, kind, format_)
    hold_all(
        [
            (each.dataset, (each.recipient, specs[table], each.terms))
            for table, each in tables.items()
        ],
        permit=permit_for(tables.values()),
    )


def _check_replaced(path: Path, tables: list[str], *, force: bool) -> None:
    """Raise OutputExists unless nothing is there, or, by `force`, what another copy left."""
    if not path.exists():
        return
    if not force:
        raise OutputExists(f"{path} exists already; name another place, or replace it")
    if path.is_dir() != (kind_of(path) == FOLDER):
        raise OutputExists(f"{path} is not such a copy, so it is not replaced")
    ours = {f"{table}.{each}{more}" for table in tables for each in FORMATS for more in ("", META)}
    if path.is_dir() and (others := sorted({each.name for each in path.iterdir()} - ours)):
        raise OutputExists(f"{path} has other files, such as {others[0]}, so it is not replaced")


@contextmanager
def _read_once(tables: Mapping[str, Release]) -> Iterator[None]:
    """Keep the histories that each table needs of all, as long as this lasts."""
    datasets = [release.dataset for release in tables.values()]
    for each in datasets:
        each.other_rows.keep(True)
    try:
        yield
    finally:
        for each in datasets:
            each.other_rows.keep(False)


def _in_schema(
    tables: Mapping[str, Release], place: DatabaseAddress, *, force: bool, progress: Progress
) -> Place:
    """Write the tables to a schema of PostgreSQL, in one transaction."""
    if place.table is None or "." in place.table:
        raise OutputError("name the schema of the copy, as in postgresql://HOST/DATABASE#SCHEMA")
    with discreet(), ExitStack() as hidden, _read_once(tables):
        session = hidden.enter_context(SharedSession(place, place.table))
        for table, release in tables.items():
            at = replace(place, table=f"{place.table}.{table}")
            hidden.enter_context(
                made_at(release, at, session.copy_at, force=force, progress=progress)
            )
        _hold(tables, SCHEMA, session.format)
        session.commit()
    return place
