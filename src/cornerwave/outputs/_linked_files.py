"""A copy of linked tables as files: those of a folder, or of an archive or database, unpacked.

folder of files          as it is
.zip of files            unpacked to a folder that is there as long as anybody holds it
.duckdb file             the same, its tables as Parquet files
schema of PostgreSQL     the same, all of one snapshot
"""

import shutil
import tempfile
import weakref
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cornerwave.errors import ExtraMissing, SourceError
from cornerwave.outputs._outputs import read_metadata
from cornerwave.outputs._table_copies import comment_on
from cornerwave.sources import (
    METADATA_KEY,
    Address,
    DatabaseAddress,
    in_comment,
    place_of,
    quoted,
    tables_in_schema,
)
from cornerwave.spec import CopyMetadata

ZIP, DUCKDB = ".zip", ".duckdb"
_ENDINGS = (".parquet", ".csv", ".csv.gz", ".arrow", ".xlsx", ".dta", ".sav")
_AT = (1980, 1, 1, 0, 0, 0)
"""The time of files in an archive: bytes depend on the copy alone."""


class UnpackedFolder:
    """A folder that vanishes with the last that holds it."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="cornerwave-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


@dataclass(frozen=True)
class LinkedFile:
    """The copy of one of several tables, and what it states about itself.

    `folder` is what the file was unpacked to: it is there as long as this is held.
    """

    path: Path
    stated: CopyMetadata
    folder: UnpackedFolder | None = None


def is_linked_copy(path: Path) -> bool:
    """Whether a place holds copies of several tables: a folder may also hold parts of one copy."""
    if path.is_dir():
        return len(dict(_tables_in(path))) > 1
    return path.suffix.lower() in (ZIP, DUCKDB)


def linked_files(place: Path | str | DatabaseAddress) -> dict[str, LinkedFile]:
    """Return the copies of linked tables at a place, by table, in the order that they state.

    Raises SourceError if it does not hold such copies, or not all of one release.
    """
    path = place_of(place)
    if isinstance(path, DatabaseAddress) and path.file is not None and path.table is None:
        path = path.file
    if isinstance(path, Address):
        raise SourceError(f"{path}: linked copies are opened on this machine; fetch them first")
    if isinstance(path, Path) and not path.exists():
        raise SourceError(f"there is no {path}")
    if isinstance(path, Path) and path.is_dir():
        folder, within = None, path
    else:
        folder = UnpackedFolder()
        within = folder.path
        _unpack(path, within)
    tables = _tables_in(within)
    found = {table: LinkedFile(file, stated, folder) for table, (file, stated) in tables}
    _check(found, path.name)
    first = next(iter(found.values()))
    return {table: found[table] for table in first.stated.tables or ()}


def _tables_in(folder: Path) -> Iterator[tuple[str, tuple[Path, CopyMetadata]]]:
    """Yield the tables that the files of a folder state to be copies of."""
    for file in sorted(folder.iterdir()):
        is_copy = file.is_file() and file.name.endswith(_ENDINGS)
        stated = read_metadata(file) if is_copy else None
        if stated is not None and stated.table is not None:
            yield stated.table, (file, stated)


def _check(found: Mapping[str, LinkedFile], name: str) -> None:
    """Raise SourceError unless tables are all of one family, at one level."""
    stated = [each.stated for each in found.values()]
    if not stated or any(each.family is None for each in stated):
        raise SourceError(f"{name} is not a copy of linked tables; open a single copy by itself")
    if len({(each.family, each.noise, each.tables) for each in stated}) > 1:
        raise SourceError(f"the tables of {name} are not of one release; open each by itself")
    if lacking := [each for each in stated[0].tables or () if each not in found]:
        raise SourceError(f"{name} has no copy of {', '.join(map(repr, lacking))}")


def _unpack(path: Path | DatabaseAddress, folder: Path) -> None:
    """Put the tables of an archive or of a database into a folder."""
    if isinstance(path, DatabaseAddress):
        _unpack_schema(path, folder)
        return
    if not zipfile.is_zipfile(path):
        _unpack_database(path, folder)
        return
    try:
        with zipfile.ZipFile(path) as archive:
            for each in archive.infolist():
                if each.is_dir() or Path(each.filename).name != each.filename:
                    raise SourceError(f"{path.name} is not a copy of linked tables")
                with archive.open(each) as packed, (folder / each.filename).open("wb") as file:
                    shutil.copyfileobj(packed, file)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError):
        raise SourceError(f"{path.name} is damaged") from None


def _unpack_database(path: Path, folder: Path) -> None:
    duckdb = _duckdb("reading")
    about = "SELECT table_name, comment FROM duckdb_tables() WHERE comment IS NOT NULL"
    try:
        with duckdb.connect(str(path), read_only=True) as connection:
            for number, (table, comment) in enumerate(connection.execute(about).fetchall()):
                if (stated := in_comment(comment)) is not None:
                    rows = connection.sql(f"SELECT * FROM {quoted(table)}")  # noqa: S608
                    _write(rows.to_arrow_reader(), stated, folder / f"{number}.parquet")
    except duckdb.Error:
        raise SourceError(f"{path.name} is not a folder, a .zip or a .duckdb file") from None


def _unpack_schema(place: DatabaseAddress, folder: Path) -> None:
    """Write the tables of a schema to a folder."""
    if place.file is not None or place.table is None or "." in place.table:
        raise SourceError("name the schema of the copy, as in postgresql://HOST/DATABASE#SCHEMA")
    with tables_in_schema(place) as tables:
        for number, (comment, table) in enumerate(tables):
            if (stated := in_comment(comment)) is not None:
                batches = table.read(table.schema.names)
                rows = pa.RecordBatchReader.from_batches(table.schema, batches)
                _write(rows, stated, folder / f"{number}.parquet")


def _write(rows: pa.RecordBatchReader, stated: bytes, path: Path) -> None:
    schema = rows.schema.with_metadata({METADATA_KEY: stated})
    with pq.ParquetWriter(path, schema) as writer:
        for batch in rows:
            writer.write_batch(batch)


def packed(folder: Path, ending: str, tables: list[str]) -> Path:
    """Return what appears: the folder, or one file beside it, made of what is in it."""
    if ending == ZIP:
        made = folder.with_name("copy.zip")
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
            for each in sorted(folder.iterdir()):
                about = zipfile.ZipInfo(each.name, _AT)
                about.compress_type, about.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
                with each.open("rb") as source, archive.open(about, "w", force_zip64=True) as file:
                    shutil.copyfileobj(source, file)
        return made
    if ending == DUCKDB:
        return _pack_database(folder, tables)
    return folder


def _pack_database(folder: Path, tables: list[str]) -> Path:
    duckdb = _duckdb("writing")
    made = folder.with_name("copy.duckdb")
    with duckdb.connect(str(made)) as connection:
        for table in tables:
            path = folder / f"{table}.parquet"
            connection.read_parquet(str(path)).create(table)
            stated = read_metadata(path)
            assert stated is not None
            connection.execute(comment_on(quoted(table), stated))
    return made


def _duckdb(doing: str) -> Any:
    """Return the package of DuckDB. Raises ExtraMissing."""
    try:
        import duckdb
    except ImportError:
        raise ExtraMissing.of(f"{doing} a .duckdb file", "duckdb", extra="databases") from None
    return duckdb
