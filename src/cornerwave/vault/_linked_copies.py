"""A copy of linked tables: a folder, a .zip, a DuckDB file or a schema, whole or not at all.

All tables are made in a hidden folder beside the place; then the ledger states who holds each of
them, and then the folder, or the one file that was made of it, is moved to its place. In PostgreSQL
all tables are made in one transaction, which ends after the ledger's lines.
What a copy states about itself is inside its file, beside a CSV file, or the comment of a table.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from cornerwave.errors import OutputError, OutputExists, discreet
from cornerwave.outputs import (
    DUCKDB,
    ZIP,
    SharedSession,
    check_parent,
    hidden_beside,
    packed,
    sync_directory,
    umask,
)
from cornerwave.sources import Address, DatabaseAddress, Place, Progress, place_of, silent
from cornerwave.vault._release import Release, check_places, made_at, make_all

FORMATS = ("parquet", "csv", "csv.gz", "arrow")
META = ".meta.json"


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
        return _in_schema(tables, path, force=force, progress=progress)
    if isinstance(path, Address):
        raise OutputError("linked tables are written to this machine or to PostgreSQL; copy them")
    if format not in FORMATS:
        raise OutputError(f"{format!r} is not one of {', '.join(FORMATS)}")
    check_parent(path)
    ending = path.suffix.lower()
    inside = {ZIP: "csv", DUCKDB: "parquet"}.get(ending, format)
    for release in tables.values():
        check_places(release.dataset, [path])
    _check_replaced(path, ending, list(tables), force=force)
    with discreet(), _hidden(path) as folder, _read_once(tables):
        for table, release in tables.items():
            make_all([(release, folder / f"{table}.{inside}")], progress=progress)
        made = packed(folder, ending, list(tables))
        for release in tables.values():
            release.hold(inside)
        _publish(made, path)
    return path


def _check_replaced(path: Path, ending: str, tables: list[str], *, force: bool) -> None:
    """Raise OutputExists unless nothing is there, or, by `force`, what another copy left."""
    if not path.exists():
        return
    if not force:
        raise OutputExists(f"{path} exists already; name another place, or replace it")
    if path.is_dir() != (ending not in (ZIP, DUCKDB)):
        raise OutputExists(f"{path} is not such a copy, so it is not replaced")
    ours = {f"{table}.{each}{more}" for table in tables for each in FORMATS for more in ("", META)}
    if path.is_dir() and (others := sorted({each.name for each in path.iterdir()} - ours)):
        raise OutputExists(f"{path} has other files, such as {others[0]}, so it is not replaced")


@contextmanager
def _read_once(tables: Mapping[str, Release]) -> Iterator[None]:
    """Keep the histories that each table needs of all, as long as this lasts."""
    datasets = [release.dataset for release in tables.values()]
    for each in datasets:
        each.keep_histories(True)
    try:
        yield
    finally:
        for each in datasets:
            each.keep_histories(False)


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
        for release in tables.values():
            release.hold(session.format)
        session.commit()
    return place


@contextmanager
def _hidden(path: Path) -> Iterator[Path]:
    """Give a folder beside a place that only the owner can read; it vanishes at the end."""
    folder = hidden_beside(path)
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _publish(made: Path, path: Path) -> None:
    """Move what was made to its place."""
    if made.is_dir():
        made.chmod(0o777 & ~umask())
        _sync(made)
        if path.exists():
            old = hidden_beside(path)
            path.rename(old)
            made.rename(path)
            shutil.rmtree(old, ignore_errors=True)
        else:
            made.rename(path)
    else:
        with made.open("rb") as file:
            os.fsync(file.fileno())
        made.chmod(0o666 & ~umask())
        made.replace(path)
    sync_directory(path.parent)


def _sync(folder: Path) -> None:
    for each in folder.iterdir():
        with each.open("rb") as file:
            os.fsync(file.fileno())
    sync_directory(folder)
