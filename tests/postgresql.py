"""A PostgreSQL server for the tests: in a temporary directory, reached by its socket alone."""

import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg
import pytest

FOUND = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda bin: int(bin.parent.name))
BINARIES = FOUND[-1] if FOUND else Path("/usr/lib/postgresql")
# The user `locked` needs a password, to see it refused; all others are trusted.
ACCESS = "local all locked scram-sha-256\nlocal all all trust\n"
# Each test has a vault of its own, whose connections stay open until it is collected.
MANY = "max_connections=500"
FAST = ["fsync=off", "synchronous_commit=off", "full_page_writes=off", "shared_buffers=32MB", MANY]
NUMBERS = count()


class Server:
    """A running server that makes fresh places for ledgers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def place(self, database: str = "postgres", *, user: str = "postgres", more: str = "") -> str:
        return f"postgresql://{user}@/{database}?host={self.folder}{more}"

    def fresh(self) -> str:
        """Return a new, empty place: a schema, since a database would cost a second."""
        name = f"t{next(NUMBERS)}"
        self.run(f"CREATE SCHEMA {name}")
        return self.place(more=f"&options=-csearch_path%3D{name}")

    def run(self, *statements: str) -> None:
        run(self.place(), *statements)


def run(place: str, *statements: str) -> None:
    """Run statements from outside Cornerwave, each committed at once."""
    with psycopg.connect(place, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def copy_tree(folder: Path, target: Path) -> None:
    """Copy a folder with a vault in it, and with it the ledger that may lie in a database."""
    shutil.copytree(folder, target)
    place = target / ".cornerwave" / "ledger.url"
    if not place.exists():
        return
    url = place.read_text().strip()
    source, name = url.rsplit("%3D", 1)[1], f"copy_{secrets.token_hex(8)}"
    run(
        url,
        f"CREATE SCHEMA {name}",
        *(
            statement
            for table in ("vault", "chain", "line", "attachment", "record", "access")
            for statement in (
                f"CREATE TABLE {name}.cornerwave_{table} "
                f"(LIKE {source}.cornerwave_{table} INCLUDING ALL)",
                f"INSERT INTO {name}.cornerwave_{table} SELECT * FROM {source}.cornerwave_{table}",
            )
        ),
    )
    place.write_text(url.rsplit("%3D", 1)[0] + f"%3D{name}\n")


@contextmanager
def server() -> Iterator[Server]:
    """Run a server; skip the tests where PostgreSQL is not installed, but never in CI."""
    if not BINARIES.is_dir() and "CI" not in os.environ:
        pytest.skip(f"PostgreSQL is not installed: there is no {BINARIES}")
    folder = Path(tempfile.mkdtemp(prefix="cornerwave-pg-"))
    try:
        if os.geteuid() == 0:  # the server refuses to run as root
            shutil.chown(folder, "postgres", "postgres")
        data = folder / "data"
        _call(
            "initdb", "-D", data, "-U", "postgres", "-N", "-E", "UTF8", "--locale=C", "-A", "trust"
        )
        (data / "pg_hba.conf").write_text(ACCESS)
        settings = [f"unix_socket_directories={folder}", "listen_addresses=", *FAST]
        options = " ".join(f"-c {setting}" for setting in settings)
        _call("pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", options, "start")
        try:
            yield Server(folder)
        finally:
            _call("pg_ctl", "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


def _call(command: str, *arguments: str | Path) -> None:
    """Run one of the server's commands, as the user postgres where we are root."""
    other = "postgres" if os.geteuid() == 0 else None
    subprocess.run(
        [BINARIES / command, *arguments],
        check=True,
        cwd="/",
        stdout=subprocess.DEVNULL,
        user=other,
        group=other,
        extra_groups=[] if other else None,
    )
