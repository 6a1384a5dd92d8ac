"""Where a table lies: a path, the address of a stored file, or a table of a database.

    people.parquet
    s3://BUCKET/people.parquet                  gs://, abfs://CONTAINER@ACCOUNT..., https://
    postgresql://USER@HOST/DATABASE#TABLE       people.sqlite#TABLE, people.duckdb#TABLE

No place holds a password: the ledger and messages show it. Passwords come
from the environment, ~/.pgpass, or the chain of a store's own tools. The query of an https
address may be a signature: it is used, and neither shown nor kept.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from urllib.parse import parse_qsl, urlencode, urlsplit

from cornerwave.errors import SourceError

STORES = ("s3", "gs", "abfs", "abfss", "https")
SERVERS = ("postgresql", "postgres")
SQLITE_ENDINGS = (".sqlite", ".sqlite3", ".db")
DUCKDB_ENDINGS = (".duckdb", ".ddb")

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_DATABASE_FILE = re.compile(
    rf"(?P<file>.+(?:{'|'.join(map(re.escape, (*SQLITE_ENDINGS, *DUCKDB_ENDINGS)))}))"
    r"(?:#(?P<table>.*))?",
    re.IGNORECASE | re.DOTALL,
)
_OPTIONS = (
    *("host", "hostaddr", "port", "sslmode", "sslrootcert", "sslcert", "sslkey", "options"),
    *("channel_binding", "connect_timeout", "target_session_attrs"),
)
"""Options of a PostgreSQL address beside user, host and database; none is a secret."""


@dataclass(frozen=True)
class Address:
    """A file, or a folder of files, in a store; `query` is a secret."""

    scheme: str
    host: str
    path: str
    query: str = field(default="", repr=False, compare=False)

    @property
    def name(self) -> str:
        """The last part of it."""
        return PurePosixPath(self.path).name or self.host

    def with_name(self, name: str) -> "Address":
        """Return the file of another name in the same folder."""
        return self.below(str(PurePosixPath(self.path).with_name(name)))

    def below(self, path: str) -> "Address":
        """Return another file in the same store."""
        return Address(self.scheme, self.host, path)

    def holds(self, other: object) -> bool:
        """Whether another address is this one, or lies in this folder."""
        return isinstance(other, Address) and (
            (other.scheme, other.host) == (self.scheme, self.host)
            and f"{other.path}/".startswith(f"{self.path.rstrip('/')}/")
        )

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}/{self.path}"


@dataclass(frozen=True)
class DatabaseAddress:
    """A database, and a table in it; `where` is an address or a file."""

    kind: str
    where: str
    table: str | None = None

    @property
    def name(self) -> str:
        """What to call it in a message."""
        return f"{PurePosixPath(urlsplit(self.where).path).name}" + self._mark

    @property
    def file(self) -> Path | None:
        """The file of the database; None if a server has it."""
        return None if self.kind == "postgresql" else Path(self.where)

    def holds(self, other: object) -> bool:
        """Whether another place is this table, or the file that it lies in."""
        return other == self or (self.file is not None and other == self.file)

    @property
    def _mark(self) -> str:
        return "" if self.table is None else f"#{self.table}"

    def __str__(self) -> str:
        return self.where + self._mark


Place = Path | Address | DatabaseAddress


def place_of(what: str | Path | Address | DatabaseAddress) -> Place:
    """Return the place that is named. Raises SourceError, without quoting an address.

    >>> print(place_of("s3://bucket/people.parquet"), place_of("postgresql://ada@host/db#people"))
    s3://bucket/people.parquet postgresql://ada@host/db#people
    """
    if isinstance(what, Address | DatabaseAddress):
        return what
    text = str(what)
    match = _SCHEME.match(text)
    if match is None:
        return _of_path(text)
    scheme = match[1].lower().replace("s3a", "s3")  # as Spark writes it
    if isinstance(what, Path) or not text.startswith("//", match.end() - 1):
        if scheme in (*STORES, *SERVERS):
            raise SourceError("give an address as text, with two slashes, as in s3://BUCKET/FILE")
        return _of_path(text)
    if scheme not in (*STORES, *SERVERS):
        raise SourceError(
            f"{scheme}:// is not read or written; use a path, or an address with "
            f"{', '.join(f'{each}://' for each in (*STORES, 'postgresql'))}"
        )
    try:
        return _server(text) if scheme in SERVERS else _stored(scheme, text)
    except ValueError as error:
        if isinstance(error, SourceError):
            raise
        raise _unclear() from None  # the words of a parser may quote a password


def holds(place: Place, other: Place) -> bool:
    """Whether a place is another one, or the folder or database in which that lies."""
    if isinstance(place, Path):
        path = other.file if isinstance(other, DatabaseAddress) else other
        return isinstance(path, Path) and place in (path, *path.parents)
    return place.holds(other)


def resolved(place: Place) -> Place:
    """Return a place by its one name: paths without links."""
    return place.resolve() if isinstance(place, Path) else place


def _of_path(text: str) -> Place:
    if "\0" in text:
        raise SourceError("the name of a file cannot hold a NUL character")
    if (match := _DATABASE_FILE.fullmatch(text)) and not Path(text).is_dir():
        path = Path(match["file"]).absolute()
        return DatabaseAddress(_database_kind(path), str(path), match["table"] or None)
    return Path(text).absolute()


def _database_kind(path: Path) -> str:
    """Return what kind of database a file is: by its first bytes, or its ending if it is new."""
    try:
        with path.open("rb") as file:
            start = file.read(16)
    except OSError:
        start = b""
    if start:
        return "duckdb" if start[8:12] == b"DUCK" else "sqlite"
    return "duckdb" if path.name.lower().endswith(DUCKDB_ENDINGS) else "sqlite"


def _stored(scheme: str, text: str) -> Address:
    # a '?' or a '#' in the name of an object is part of it; a server's address has a query
    parts = urlsplit(text)
    path = parts.path if scheme == "https" else text.split("://", 1)[1].partition("/")[2]
    container, at, host = parts.netloc.rpartition("@")
    if ":" in container or (at and scheme not in ("abfs", "abfss")):
        raise _password(scheme)
    if not parts.netloc or parts.port == 0 or not path.strip("/") or not text.isprintable():
        raise _unclear()
    if scheme in ("abfs", "abfss") and not (container and host):
        raise SourceError("write abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/FILE")
    return Address(scheme, parts.netloc, path.lstrip("/"), parts.query if scheme == "https" else "")


def _server(text: str) -> DatabaseAddress:
    parts = urlsplit(text)
    user, _, host = parts.netloc.rpartition("@")
    options = parse_qsl(parts.query, strict_parsing=bool(parts.query))
    if ":" in user or any("password" in name for name, _ in options):
        raise _password("postgresql")
    if unknown := [name for name, _ in options if name not in _OPTIONS]:
        raise SourceError(
            f"the address of a database has the option {unknown[0]!r}; it can have "
            f"{', '.join(_OPTIONS)}"
        )
    database = parts.path.removeprefix("/")
    if not database or parts.port == 0 or set("@/") & set(database) or "@" in host:
        raise _unclear()
    if not text.isprintable():
        raise _unclear()
    query = f"?{urlencode(options, safe='/')}" if options else ""
    where = f"postgresql://{parts.netloc}/{database}{query}"
    return DatabaseAddress("postgresql", where, parts.fragment or None)


def _password(scheme: str) -> SourceError:
    return SourceError(
        f"leave user and password out of the address: {WHERE_SECRETS_ARE[scheme]}"
        if scheme != "postgresql"
        else f"leave the password out of the address: {WHERE_SECRETS_ARE[scheme]}"
    )


WHERE_SECRETS_ARE = {
    "s3": "they come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, ~/.aws or a role",
    "gs": "they come from GOOGLE_APPLICATION_CREDENTIALS or the machine's service account",
    "abfs": "they come from AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN or the machine's identity",
    "abfss": "they come from AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN or the machine's identity",
    "https": "a signature belongs into its query, which is never kept",
    "postgresql": "it comes from PGPASSWORD or ~/.pgpass",
}


def _unclear() -> SourceError:
    return SourceError(
        "this address is not complete, or a character in it must be spelled as in %40; write "
        "s3://BUCKET/FILE, https://HOST/FILE or postgresql://USER@HOST/DATABASE#TABLE"
    )
