"""A copy of linked tables as its recipient sees it: open all, ask one, or join two.

copies = LinkedCopy.open("partner.zip")
copies["visits"].mean()
copies.joined("visits", "patients").regression("cost", on=["risk"])
"""

import shutil
import tempfile
import weakref
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from cornerwave.errors import ExtraMissing, SourceError, nearest
from cornerwave.miner._copy import Copy
from cornerwave.miner._joined import JoinedCopy, NoiseBetween, Side, join
from cornerwave.outputs import read_metadata
from cornerwave.spec import CopyMetadata

_ENDINGS = (".parquet", ".csv", ".csv.gz", ".arrow")
_COMMENT = '{"cornerwave": '


@dataclass(frozen=True)
class LinkedTable:
    """The copy of one of several tables, and what it states about itself."""

    copy: Copy
    stated: CopyMetadata


class LinkedCopy(Mapping[str, Copy]):
    """Copies of linked tables, by name: all of one release."""

    def __init__(self, tables: Mapping[str, LinkedTable]) -> None:
        self._tables = dict(tables)

    @classmethod
    def open(cls, path: str | Path) -> "LinkedCopy":
        """Open a folder, a .zip or a .duckdb file with a copy of each table.

        Raises SourceError if it is not a copy of linked tables, or not all of one release.
        """
        path = Path(path)
        if path.is_dir():
            found = _in_folder(path)
        elif zipfile.is_zipfile(path):
            found = _in_archive(path)
        elif path.exists():
            found = _in_duckdb(path)
        else:
            raise SourceError(f"there is no {path}")
        _check(found, path.name)
        return cls(found)

    def __getitem__(self, table: str) -> Copy:
        """Return the copy of one table."""
        return self._table(table).copy

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def joined(self, table: str, other: str) -> JoinedCopy:
        """Return the rows of a table with the columns of another that has a row for each person.

        Columns of the other that the table has too are called OTHER.COLUMN. Rows of persons who are
        not in the other have gaps there.
        """
        one, two = self._table(table), self._table(other)
        if table == other:
            raise SourceError("a join needs two tables")
        taken = one.copy.source.schema.names
        names = {name: f"{other}.{name}" if name in taken else name for name in two.copy.columns}
        child = Side(table, one.copy, {name: name for name in one.copy.columns})
        return join(child, Side(other, two.copy, names), _between(one, two, other))

    def _table(self, name: str) -> LinkedTable:
        if name not in self._tables:
            close = nearest(name, list(self._tables))
            raise SourceError(f"there is no table {name!r}{close}; tables: {', '.join(self)}")
        return self._tables[name]

    def __repr__(self) -> str:
        return f"LinkedCopy({', '.join(self)})"


def _between(one: LinkedTable, two: LinkedTable, other: str) -> NoiseBetween:
    """Return what the metadata of a table states of its noise with that of another.

    Raises SourceError if it does not state it.
    """
    found = {}
    theirs = {f"{other}.{c.source or name}": name for name, c in two.stated.columns.items()}
    noisy = [name for name, column in two.copy.columns.items() if column.noise]
    for name, column in one.copy.columns.items():
        stated = one.stated.column(name).noise_with or {}
        known = {theirs[key]: N for key, N in stated.items() if key in theirs}
        if column.noise and (lacking := [each for each in noisy if each not in known]):
            raise SourceError(
                f"the metadata does not state how the noise of {name!r} depends on that of "
                f"{lacking[0]!r} of {other!r}: only a table with one row for each person can be "
                "joined to another"
            )
        found.update({(name, each): N for each, N in known.items()})
    return found


def _check(found: Mapping[str, LinkedTable], name: str) -> None:
    """Raise SourceError unless tables are all of one family, at one level."""
    stated = [each.stated for each in found.values()]
    if not stated or any(each.family is None for each in stated):
        raise SourceError(f"{name} is not a copy of linked tables; open a single copy by itself")
    if len({(each.family, each.noise) for each in stated}) > 1:
        raise SourceError(f"the tables of {name} are not of one release; open each by itself")
    if lacking := [each for each in stated[0].tables or () if each not in found]:
        raise SourceError(f"{name} has no copy of {', '.join(map(repr, lacking))}")


def _in_folder(folder: Path) -> dict[str, LinkedTable]:
    found = {}
    for file in sorted(folder.iterdir()):
        is_copy = file.is_file() and file.name.endswith(_ENDINGS)
        stated = read_metadata(file) if is_copy else None
        if stated is not None and stated.table is not None:
            found[stated.table] = LinkedTable(Copy.open(file), stated)
    return _in_order(found)


def _in_archive(path: Path) -> dict[str, LinkedTable]:
    """Read the files of an archive from a folder that is there as long as the copies are."""
    folder = _Folder()
    try:
        with zipfile.ZipFile(path) as archive:
            for each in archive.infolist():
                if each.is_dir() or Path(each.filename).name != each.filename:
                    raise SourceError(f"{path.name} is not a copy of linked tables")
                target = folder.path / each.filename
                with archive.open(each) as packed, target.open("wb") as file:
                    shutil.copyfileobj(packed, file)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError):
        raise SourceError(f"{path.name} is damaged") from None
    found = _in_folder(folder.path)
    return {name: replace(each, copy=folder.kept_by(each.copy)) for name, each in found.items()}


class _Folder:
    """A folder that vanishes with the last copy that is read from it."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="cornerwave-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def kept_by(self, copy: Copy) -> Copy:
        """Return a copy that keeps the folder."""
        source = copy.source

        def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
            assert self.path is not None  # keeps the folder
            yield from source.open(columns)

        return replace(copy, source=replace(source, open=read))


def _in_duckdb(path: Path) -> dict[str, LinkedTable]:
    found = {}
    for table, stated in _comments(path).items():
        copy = Copy.open(f"{path}#{table}", metadata=stated.to_json())
        found[table] = LinkedTable(copy, stated)
    return _in_order(found)


def _comments(path: Path) -> dict[str, CopyMetadata]:
    """Return what the tables of a DuckDB file state about themselves, as their comments."""
    try:
        import duckdb
    except ImportError:
        raise ExtraMissing(
            "reading a .duckdb file needs duckdb, which is not installed: "
            "pip install 'cornerwave[databases]'"
        ) from None
    try:
        with duckdb.connect(str(path), read_only=True) as connection:
            statement = "SELECT table_name, comment FROM duckdb_tables() WHERE comment IS NOT NULL"
            comments = connection.execute(statement).fetchall()
    except duckdb.Error:
        raise SourceError(f"{path.name} is not a folder, a .zip or a .duckdb file") from None
    found = {}
    for table, comment in comments:
        inside = comment.removeprefix(_COMMENT).removesuffix("}")
        if comment.startswith(_COMMENT):
            found[table] = CopyMetadata.parse(inside.encode(), path.name)
    return found


def _in_order(found: Mapping[str, LinkedTable]) -> dict[str, LinkedTable]:
    """Return tables in the order that their metadata states."""
    first = next(iter(found.values()), None)
    order = first.stated.tables or () if first else ()
    return {name: found[name] for name in order if name in found}
