"""The ledger in a PostgreSQL database, for several machines."""

from collections.abc import Collection
from functools import cache, partial
from typing import Any

import sqlalchemy as sa

from cornerwave.errors import ExtraMissing, VaultError, VaultExists
from cornerwave.ledger import _database
from cornerwave.ledger._database import RECORD, TABLES, VAULT, Database

SCHEME = "postgresql://"
_SECONDS = 10  # to connect
_LOCK = 0x636F726E  # any constant: creators of ledgers wait for each other


@cache
def _dialect() -> sa.Dialect:
    from sqlalchemy.dialects import postgresql  # not on import: no other ledger needs it

    return postgresql.dialect()  # type: ignore[no-untyped-call]


# Everything that could change what our statements do, as (what, table, detail).
_MADE = sa.text(
    r"""
WITH ours AS (
  SELECT * FROM pg_class
  WHERE relname LIKE 'cornerwave\_%' AND relkind NOT IN ('i', 'I')
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
)

_MEANINGS = {
    "28": "the server refuses this user or password",
    "3D": "there is no such database",
    "42501": "this user has no permission",
    "25006": "the database is read-only",
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

    def __init__(self, address: str) -> None:
        url = _parsed(address)
        try:
            make = partial(
                sa.create_engine,
                url.set(drivername="postgresql+psycopg"),
                connect_args={"connect_timeout": url.query.get("connect_timeout", _SECONDS)},
                hide_parameters=True,
            )
            engine = make(poolclass=sa.NullPool)
            pooled = make(isolation_level="AUTOCOMMIT", pool_pre_ping=True, pool_timeout=_SECONDS)
        except ImportError:
            raise ExtraMissing(
                "a ledger in PostgreSQL needs psycopg, which is not installed: "
                "pip install 'cornerwave[postgresql]'"
            ) from None
        super().__init__(_shown(url), engine, pooled)

    def prepare(self) -> None:
        """Nothing to prepare: the owner makes the database."""

    def refuse_existing(self, connection: sa.Connection) -> None:
        """Raise VaultExists if the database has a relation of our names."""
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
        if connection.execute(_MADE).first():
            raise VaultExists(
                f"there is a ledger in {self.place} already; it is never replaced. To share it, "
                "copy the vault's directory from the machine that made it"
            )

    def begin(self, connection: sa.Connection, *, write: bool) -> None:
        """Begin: to write, each statement sees what is committed; to read, all see the same."""
        if write:
            connection.execution_options(isolation_level="READ COMMITTED")
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{_database.WAIT_SECONDS}s'")
        else:
            connection.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )

    def exclude_others(self, connection: sa.Connection) -> None:
        """Lock the table of records against writers; readers go on."""
        connection.exec_driver_sql(f"LOCK TABLE {RECORD.name} IN SHARE ROW EXCLUSIVE MODE")

    def refuse_planted(self, connection: sa.Connection) -> None:
        """Compare everything about our tables in the catalog with what this version makes."""
        found = {tuple(row) for row in connection.execute(_MADE)}
        if not found:
            raise self.damaged("there is no ledger in this database")
        if found != _expected() and _of_vault(found) == _of_vault(_expected()):
            self.refuse_other_format(connection)
        if planted := found - _expected():
            what, table, _ = min(planted)
            raise self.damaged(f"its table {table!r} has a {what} that Cornerwave did not make")
        if found != _expected():
            raise self.damaged("a table, a column or an index is missing")

    def translated(self, error: sa.exc.DBAPIError) -> VaultError:
        """Return our error for an SQLSTATE."""
        state = getattr(error.orig, "sqlstate", None)
        if state is None and isinstance(error, sa.exc.DataError):
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


@cache
def _expected() -> frozenset[tuple[str, str, str]]:
    """Return what `_MADE` finds in a database with our tables alone."""
    made = set()
    for table in TABLES.sorted_tables:
        made.add(("relation", table.name, "rp"))
        made |= {("column", table.name, _column(column)) for column in table.columns}
        for constraint in table.constraints:
            if isinstance(constraint, sa.PrimaryKeyConstraint | sa.UniqueConstraint):
                names = [column.name for column in constraint.columns]
                made |= {("index", table.name, "UNIQUE " + ",".join(names))} if names else set()
        for index in table.indexes:
            made.add(("index", table.name, ",".join(column.name for column in index.columns)))
    return frozenset(made)


def _of_vault(made: Collection[tuple[str, ...]]) -> set[tuple[str, ...]]:
    return {row for row in made if row[1] == VAULT.name}


def _column(column: sa.Column[Any]) -> str:
    type_name = column.type.compile(dialect=_dialect()).lower()
    return f"{column.name} {type_name}" + ("" if column.nullable else " NOT NULL")


def check_address(address: str) -> None:
    """Raise VaultError unless this is the address of a PostgreSQL database."""
    _parsed(address)


def _parsed(address: str) -> sa.URL:
    try:
        url = sa.make_url(address)
        if not address.startswith(SCHEME) or not url.database:
            raise ValueError
        # A password with an @ in it ends up in the host, which messages show.
        if "@" in (url.host or "") or "plugin" in url.query:
            raise ValueError
    except (ValueError, sa.exc.ArgumentError):
        # Not chained: the parser's words may quote the password.
        raise VaultError(
            "this is not the address of a PostgreSQL database; write "
            f"{SCHEME}USER:PASSWORD@HOST:PORT/DATABASE (@ in a password is %40)"
        ) from None
    return url


def _shown(url: sa.URL) -> str:
    """Return an address without the password and without options, which may hold one too."""
    host = url.host or url.query.get("host")
    at = f"{url.username}@" if url.username else ""
    port = f":{url.port}" if url.port else ""
    return f"{SCHEME}{at}{host or ''}{port}/{url.database}"
