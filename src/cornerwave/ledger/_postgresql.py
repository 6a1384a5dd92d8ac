"""The ledger in a PostgreSQL database, for several machines."""

import re
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl, unquote

from cornerwave.errors import ExtraMissing, VaultError, VaultExists
from cornerwave.ledger import _database
from cornerwave.ledger._database import RECORD, TABLES, Connection, Database, Schema

SCHEME = "postgresql://"
_SECONDS = 10  # to connect
_LOCK = 0x636F726E  # any constant: creators of ledgers wait for each other
# The host may not contain @: part of a password with an @ in it would be shown as the host. Nor may
# a password contain both / and ?: it would begin with the database, and end within an option.
_ADDRESS = re.compile(
    rf"{SCHEME}(?:(?P<user>[^:/@]*)(?::(?P<password>[^@/]*|[^@?]*))?@)?"
    r"(?P<host>\[[^]/@]+\]|[^]\[:/@?]*)(?::(?P<port>\d+))?/(?P<dbname>[^/@?]+)(?:\?(?P<more>.*))?"
)

# A server may be set to lose its last commits in a crash: copies that they record would have left.
_DURABLE = (
    "SELECT set_config('synchronous_commit', 'on', TRUE) "
    "WHERE current_setting('synchronous_commit') = 'off'"
)

# Everything that could change what our statements do, as (what, table, detail).
_MADE = """
WITH ours AS (
  SELECT * FROM pg_class
  WHERE starts_with(relname, 'cornerwave_') AND relkind NOT IN ('i', 'I')
    AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())
)
SELECT 'relation', relname, relkind::text || relpersistence::text FROM ours
UNION ALL
SELECT 'column', relname, concat_ws(' ', attname, format_type(atttypid, atttypmod),
    CASE WHEN attnotnull THEN 'NOT NULL' END, CASE WHEN atthasdef THEN 'computed' END,
    nullif(attidentity, ''),
    CASE WHEN attcollation NOT IN (0, 'pg_catalog."default"'::regcollation) THEN 'collated' END)
  FROM ours JOIN pg_attribute ON attrelid = ours.oid AND attnum > 0 AND NOT attisdropped
UNION ALL
SELECT 'index', relname, concat_ws(' ', CASE WHEN indisunique THEN 'UNIQUE' END,
    (SELECT string_agg(pg_get_indexdef(indexrelid, place, false), ',' ORDER BY place)
     FROM generate_series(1, indnatts) place),
    pg_get_expr(indpred, indrelid))
  FROM ours JOIN pg_index ON indrelid = ours.oid
UNION ALL
SELECT 'trigger', relname, tgname
  FROM ours JOIN pg_trigger ON tgrelid = ours.oid AND NOT tgisinternal
UNION ALL
SELECT 'rule or view', ours.relname, holder.relname || ' ' || rulename
  FROM ours JOIN pg_depend ON refclassid = 'pg_class'::regclass AND refobjid = ours.oid
    AND classid = 'pg_rewrite'::regclass
  JOIN pg_rewrite ON pg_rewrite.oid = objid JOIN pg_class holder ON holder.oid = ev_class
UNION ALL
SELECT 'row security', relname, '' FROM ours
  WHERE relrowsecurity OR EXISTS (SELECT FROM pg_policy WHERE polrelid = ours.oid)
UNION ALL
SELECT 'inheritance', relname, '' FROM ours JOIN pg_inherits ON ours.oid IN (inhrelid, inhparent)
UNION ALL
SELECT 'constraint', relname, conname
  FROM ours JOIN pg_constraint ON conrelid = ours.oid AND contype NOT IN ('p', 'u', 'n')
"""

# By SQLSTATE, or the two letters of its class.
_MEANINGS = {
    "28": "the server refuses this user or password",
    "3D": "there is no such database",
    "42501": "this user has no permission",
    "25006": "the database is read-only",
    "25P03": "the server ended a transaction that took too long; try again",
    "25P04": "the server ended a transaction that took too long; try again",
    "53100": "the disk is full",
    "53": "the server is short of connections or memory; try again",
    "55P03": "it is busy; try again",
    "57014": "it is busy; try again",
    "40": "it is busy; try again",
    "57": "the server is stopping; try again",
    "08": "the connection was lost; try again",
    "22": "it cannot hold this text",
    "58": "the server had an I/O error",
}


class PostgreSQL(Database):
    """A ledger in a database; a writer locks the row of its chain first."""

    binary, locking = "BYTEA", "FOR UPDATE"

    def __init__(self, address: str) -> None:
        settings = _settings(address)
        try:
            import psycopg  # not on import: a ledger in a file does not need it
        except ImportError:
            raise ExtraMissing.of("a ledger in PostgreSQL", "psycopg", extra="postgresql") from None
        super().__init__(_shown(settings))
        self._psycopg = psycopg
        self.failures = psycopg.Error
        try:
            # As one text: a setting of the address is never an argument of psycopg.
            self._where = psycopg.conninfo.make_conninfo(
                "", **{"connect_timeout": str(_SECONDS), **settings}
            )
        except (psycopg.ProgrammingError, UnicodeError):  # its words may quote the address
            raise _no_address() from None

    def connect(self) -> Connection:
        """Connect; transactions begin and end by statements of ours, as in SQLite."""
        try:
            # Not prepared: behind a pooler the next transaction may run on another connection.
            opened = self._psycopg.connect(self._where, autocommit=True, prepare_threshold=None)
        except UnicodeError:  # no name of a host is like this, such as one with two dots
            raise self._psycopg.OperationalError from None
        connection = Connection(opened, "%s")
        # For those who only read too: a table that is restored is locked against them.
        connection.run(f"SET lock_timeout = '{_database.WAIT_SECONDS}s'")
        return connection

    def is_usable(self, connection: Connection) -> bool:
        """Ask the server: it may have been restarted, or have closed an idle connection."""
        try:
            connection.run("SELECT 1")
        except self.failures:
            return False
        return True

    def prepare(self) -> None:
        """Nothing to prepare: the owner makes the database."""

    def refuse_existing(self, connection: Connection) -> None:
        """Raise VaultExists if the database has a relation of our names."""
        connection.run(f"SELECT pg_advisory_xact_lock({_LOCK})")
        if connection.run(_MADE):
            raise VaultExists(
                f"there is a ledger in {self.place} already; it is never replaced. To share it, "
                "copy the vault's directory from the machine that made it"
            )

    def begin(self, connection: Connection, *, write: bool) -> None:
        """Begin: to write, each statement sees what is committed; to read, all see the same."""
        if write:
            connection.run("BEGIN ISOLATION LEVEL READ COMMITTED")
            connection.run(_DURABLE)
        else:
            connection.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def exclude_others(self, connection: Connection) -> None:
        """Lock the table of records against writers; readers go on."""
        connection.run(f"LOCK TABLE {RECORD.name} IN SHARE ROW EXCLUSIVE MODE")

    def schema(self, connection: Connection) -> Schema:
        """Return everything about our tables in the catalog."""
        return frozenset((what, table, detail) for what, table, detail in connection.run(_MADE))

    @cached_property
    def expected(self) -> Schema:
        """What the catalog has of a ledger of this version."""
        made = set()
        for table in TABLES:
            made.add(("relation", table.name, "rp"))
            for name, kind in table.columns.items():
                type_, *nullable = kind.replace("BLOB", self.binary).split(" ", 1)
                made.add(("column", table.name, " ".join([name, type_.lower(), *nullable])))
            indexes = [f"UNIQUE {columns}" for columns in (table.key, table.unique) if columns]
            indexes += [columns for _, columns in table.indexes]
            made |= {("index", table.name, columns.replace(", ", ",")) for columns in indexes}
        return frozenset((what, table, detail.replace('"', "")) for what, table, detail in made)

    def translated(self, error: Any) -> VaultError:
        """Return our error for an SQLSTATE."""
        state = error.sqlstate
        if state is None and isinstance(error, self._psycopg.DataError):
            state = "22"
        if state is None:  # libpq gives no code while connecting
            return VaultError(
                f"no connection to the ledger {self.place}: check that the server is running, "
                "that the database exists, and the user and password"
            )
        for length in (5, 2):
            if meaning := _MEANINGS.get(state[:length]):
                return VaultError(f"the ledger {self.place} cannot be used: {meaning}")
        return self.damaged(f"the database reports SQLSTATE {state}")


def check_address(address: str) -> None:
    """Raise VaultError unless this is the address of a PostgreSQL database, with known options."""
    PostgreSQL(address)


def _settings(address: str) -> dict[str, str]:
    """Return what an address states, by libpq's names. Raises VaultError."""
    parts = _ADDRESS.fullmatch(address)
    if parts is None:
        raise _no_address()
    stated = {name: unquote(value) for name, value in parts.groupdict().items() if value}
    stated.pop("more", None)
    if "host" in stated:
        stated["host"] = stated["host"].strip("[]")  # of an IPv6 address
    return dict(parse_qsl(parts["more"] or "")) | stated


def _no_address() -> VaultError:
    return VaultError(
        "this is not the address of a PostgreSQL database; write "
        f"{SCHEME}USER:PASSWORD@HOST:PORT/DATABASE (@ in a password is %40)"
    )


def _shown(settings: dict[str, str]) -> str:
    """Return an address without the password and without options, which may hold one too."""
    at = f"{settings['user']}@" if "user" in settings else ""
    port = f":{settings['port']}" if "port" in settings else ""
    return f"{SCHEME}{at}{settings.get('host', '')}{port}/{settings['dbname']}"
