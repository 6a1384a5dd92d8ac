"""The tables of a ledger, and a connection to either database that holds them.

    vault   one row: the format, and a check value of the key
    chain   one row per chain: its name, length, head and whether it is closed, sealed
    line    the lines of all chains
    attachment  contents of a chain that are too large for a line, in pieces
    record  beside the chains: recipients, grants, tokens and requests, each row sealed
    access  who fetched what, when and with what outcome; rows are only ever added

Statements are written in the SQL that SQLite and PostgreSQL share. Values never enter their text:
each is a `?` there.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PREFIX = "cornerwave_"
Row = tuple[Any, ...]


@dataclass(frozen=True)
class LedgerTable:
    """A table: its columns with their types, its primary key, one unique column, one index."""

    name: str
    columns: dict[str, str]
    key: str = ""
    unique: str = ""
    index: tuple[str, str] | None = None

    @property
    def statements(self) -> list[str]:
        """The statements that create it."""
        parts = [f"{name} {kind}" for name, kind in self.columns.items()]
        parts += [f"PRIMARY KEY ({self.key})"] if self.key else []
        parts += [f"UNIQUE ({self.unique})"] if self.unique else []
        # The blanks inside the parentheses are those of ledgers that are there already.
        table = f"CREATE TABLE {self.name} ( {', '.join(parts)} )"
        name, columns = self.index or ("", "")
        return [table, f"CREATE INDEX {name} ON {self.name} ({columns})"] if name else [table]


_TEXT, _NUMBER = "TEXT NOT NULL", "BIGINT NOT NULL"

VAULT = LedgerTable(
    f"{PREFIX}vault", {"format": "INTEGER NOT NULL", "key_check": _TEXT, "made_at": _TEXT}
)
CHAIN = LedgerTable(
    f"{PREFIX}chain",
    {"id": _TEXT, "name": _TEXT, "length": _NUMBER, "head": _TEXT, "closed": _TEXT, "seal": _TEXT},
    key="id",
    unique="name",
)
LINE = LedgerTable(
    f"{PREFIX}line",
    {
        "chain": _TEXT,
        "number": _NUMBER,
        "at": _TEXT,
        "kind": _TEXT,
        "recipient": "TEXT",
        "content": _TEXT,
        "mac": _TEXT,
    },
    key="chain, number",
    # Not WITHOUT ROWID: SQLite would then walk the whole chain rather than use this index.
    index=(f"{PREFIX}line_recipient", "chain, recipient"),
)
ATTACHMENT = LedgerTable(
    f"{PREFIX}attachment",
    {"chain": _TEXT, "name": _TEXT, "number": _NUMBER, "content": "BLOB NOT NULL"},
    key="chain, name, number",
)
RECORD = LedgerTable(
    f"{PREFIX}record",
    {"kind": _TEXT, "id": _TEXT, '"of"': _TEXT, "at": _TEXT, "content": _TEXT, "seal": _TEXT},
    key="kind, id",
    index=(f"{PREFIX}record_of", 'kind, "of"'),
)
ACCESS = LedgerTable(
    f"{PREFIX}access",
    {"id": _TEXT, "at": _TEXT, "who": _TEXT, "what": _TEXT, "outcome": _TEXT, "bytes": _NUMBER},
    key="id",
    index=(f"{PREFIX}access_who", "who, at"),
)
TABLES = (VAULT, CHAIN, LINE, ATTACHMENT, RECORD, ACCESS)


class Connection:
    """A connection of sqlite3 or of psycopg; it commits only when it is asked to.

    `mark` is what the driver has in place of `?`; `file` is which file was opened, if it is one.
    """

    def __init__(self, driver: Any, mark: str = "?", file: Any = None) -> None:
        self.driver, self.file, self._mark = driver, file, mark
        self._process = os.getpid()

    @property
    def is_inherited(self) -> bool:
        """Whether a process that forked this one has opened it, and still uses it."""
        return self._process != os.getpid()

    def run(self, statement: str, *values: Any) -> list[Row]:
        """Run a statement and return its rows, if it has any."""
        cursor = self.driver.execute(statement.replace("?", self._mark), values)
        return cursor.fetchall() if cursor.description else []

    def select(self, table: LedgerTable, where: str = "TRUE", *values: Any) -> list[Row]:
        """Return the rows of a table for which a condition holds; ORDER BY may follow it."""
        names = ", ".join(table.columns)
        return self.run(f"SELECT {names} FROM {table.name} WHERE {where}", *values)

    def insert(self, table: LedgerTable, rows: Iterable[Sequence[Any]]) -> None:
        """Add rows, each with a value for every column."""
        names, marks = ", ".join(table.columns), ", ".join([self._mark] * len(table.columns))
        statement = f"INSERT INTO {table.name} ({names}) VALUES ({marks})"
        self.driver.cursor().executemany(statement, list(rows))

    def delete(self, table: LedgerTable, where: str, *values: Any) -> None:
        """Remove the rows of a table for which a condition holds."""
        self.run(f"DELETE FROM {table.name} WHERE {where}", *values)

    def commit(self) -> None:
        """End the transaction, and keep what was written."""
        self.run("COMMIT")

    def close(self) -> None:
        """Close the connection; what was not committed is undone."""
        if not self.is_inherited:  # else the server would end it for the other process too
            self.driver.close()


def create_tables(connection: Connection, binary: str = "BLOB") -> None:
    """Create the tables of a ledger; `binary` is the type of bytes."""
    for table in TABLES:
        for statement in table.statements:
            connection.run(statement.replace("BLOB", binary))


def among(wanted: Mapping[str, Sequence[Any]]) -> list[Any]:
    """Return the condition that each column has one of some values, and all the values."""
    # Without values it is false: nothing equals NULL.
    conditions = [
        f"{name} IN ({', '.join('?' * len(few)) or 'NULL'})" for name, few in wanted.items()
    ]
    return [" AND ".join(conditions), *(value for few in wanted.values() for value in few)]
