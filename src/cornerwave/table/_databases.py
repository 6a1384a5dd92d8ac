"""Tables of databases as sources: rows in one snapshot, in an order that will be the same again.

postgresql    through ADBC, which copies rows in binary form into Arrow
duckdb        through its own Arrow interface
sqlite        through the standard library; a column's type is that of all its cells

A table has no order of its own. So rows come ordered by columns that the owner names, by the
key, or by the table's primary key. Nothing is ever written: the transaction, or the connection,
is read-only, and the server refuses a query that writes. Errors are told by their code, in our
words, since those of a database quote the query, the password and the cells.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from importlib import import_module

import pyarrow as pa

from cornerwave.errors import ColumnError, CornerwaveError, SourceError, SourceLost
from cornerwave.table._places import DatabaseAddress
from cornerwave.table._reading_settings import ReadingSettings
from cornerwave.table._sql import Selected, Session, is_of_database, meaning_of, table_name

_LOST = "server|connection"


@dataclass(frozen=True)
class DatabaseTable:
    """The rows of a table or a query, in an order if one is known."""

    place: DatabaseAddress
    rows: str
    columns: Mapping[str, Selected]
    order: tuple[str, ...]
    reading: ReadingSettings
    session: Session | None = field(default=None, repr=False)

    @classmethod
    def open(cls, place: DatabaseAddress, reading: ReadingSettings) -> "DatabaseTable":
        """Look at a table or a query. Raises SourceError."""
        if place.file is not None and not place.file.is_file():
            raise SourceError(f"there is no file {place.file}")
        if place.table and reading.table not in (None, place.table):
            raise SourceError("the address names one table, and the reading another; name one")
        table = place.table or reading.table
        if (table is None) == (reading.query is None):
            raise SourceError(
                f"{place.name}: name a table of the database, or a query, and not both",
                use=("table", "query"),
            )
        rows = table_name(table) if table else f"(\n{_one_query(reading.query)}\n) AS rows_of_query"
        place, reading = replace(place, table=table), replace(reading, table=table)
        with session(place) as opened, _asking(place):
            columns = opened.columns(rows, table)
            order = reading.order_by or (tuple(opened.primary_key(table)) if table else ())
        if not columns:
            raise SourceError(f"{place.name} has no columns")
        if unknown := [name for name in order if name not in columns]:
            raise ColumnError(f"{place.name} has no column {unknown[0]!r} to order its rows by")
        return cls(place, rows, columns, order, reading)

    @property
    def schema(self) -> pa.Schema:
        """The columns and their types."""
        return pa.schema([(name, column.type) for name, column in self.columns.items()])

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield batches of the columns, all of one snapshot. Raises SourceError."""
        chosen = [self.columns[name] for name in columns]
        listed = ", ".join(column.select for column in chosen) or "1"
        by = ", ".join(self.columns[name].order for name in self.order)
        statement = f"SELECT {listed} FROM {self.rows}" + (f" ORDER BY {by}" if by else "")  # noqa: S608 - names are quoted
        with self._session() as opened, _asking(self.place):
            for batch in opened.batches(statement):
                arrays = [c.values(cells) for c, cells in zip(chosen, batch.columns, strict=False)]
                if arrays:
                    yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def _session(self) -> AbstractContextManager[Session]:
        return session(self.place) if self.session is None else nullcontext(self.session)

    @contextmanager
    def snapshot(self, key: str | None) -> Iterator["DatabaseTable"]:
        """Give the rows of one moment, in an order that no two rows share. Raises SourceError."""
        order = self.order or ((key,) if key else ())
        if not order:
            raise SourceError(
                f"the rows of {self.place.name} have no order of their own. Name a key, or columns "
                "to order them by that no two rows share",
                use=("key", "order_by"),
            )
        with session(self.place) as opened:
            if self.reading.order_by and self._repeats(opened):
                raise SourceError(
                    f"rows of {self.place.name} share a value of {', '.join(map(repr, order))}, so "
                    "that their order is open; name more columns to order them by",
                    use=("order_by",),
                )
            reading = replace(self.reading, order_by=order)
            yield replace(self, order=order, reading=reading, session=opened)

    def _repeats(self, opened: Session) -> bool:
        by = ", ".join(self.columns[name].order for name in self.order)
        statement = f"SELECT 1 FROM {self.rows} GROUP BY {by} HAVING count(*) > 1 LIMIT 1"  # noqa: S608
        with _asking(self.place):
            return any(batch.num_rows for batch in opened.batches(statement))


def _one_query(query: str | None) -> str:
    return (query or "").strip().rstrip(";").rstrip()


@contextmanager
def session(place: DatabaseAddress) -> Iterator[Session]:
    """Connect, and stay in one snapshot. Raises SourceError."""
    # not on import: each needs a library of its own
    reader = import_module(f"cornerwave.table._read_{place.kind}")
    with ExitStack() as stack:
        with _asking(place):
            opened: Session = stack.enter_context(reader.reading(place))
        yield opened


@contextmanager
def _asking(place: DatabaseAddress) -> Iterator[None]:
    """Report what a database refuses, in our own words: its own quote cells and passwords."""
    try:
        yield
    except (CornerwaveError, GeneratorExit):
        raise
    except Exception as error:
        if not is_of_database(error):
            raise
        said = meaning_of(error)
        kind = SourceLost if re.search(_LOST, said) else SourceError
        raise kind(f"{place} cannot be read: {said}") from None
