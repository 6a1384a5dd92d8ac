"""The tables of the ledger, and the bytes of their lines that are sealed."""

import json
import struct

import sqlalchemy as sa

TABLES = sa.MetaData()
VAULT = sa.Table(
    "vault",
    TABLES,
    sa.Column("format", sa.Integer, nullable=False),
    sa.Column("key_check", sa.String(64), nullable=False),
    sa.Column("made_at", sa.String(32), nullable=False),
    sa.Column("seal", sa.String(64), nullable=False),
)
DATASET = sa.Table(
    "dataset",
    TABLES,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("name", sa.String(255), nullable=False, unique=True),
    sa.Column("source", sa.Text, nullable=True),
    sa.Column("registered_at", sa.String(32), nullable=False),
    sa.Column("frozen", sa.Text, nullable=False),
    sa.Column("seal", sa.String(64), nullable=False),
)
MARK = sa.Table(
    "mark",
    TABLES,
    sa.Column("mark", sa.String(32), nullable=False, index=True),
    sa.Column("dataset", sa.ForeignKey("dataset.id"), nullable=False),
    sa.Column("column", sa.Text, nullable=False),
)
LEVEL = sa.Table(
    "level",
    TABLES,
    sa.Column("dataset", sa.ForeignKey("dataset.id"), primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True),
    sa.Column("noise", sa.Double, nullable=False),
    sa.Column("seal", sa.String(64), nullable=False),
    sa.UniqueConstraint("dataset", "noise"),
)
HOLDING = sa.Table(
    "holding",
    TABLES,
    sa.Column("dataset", sa.ForeignKey("dataset.id"), primary_key=True),
    sa.Column("recipient", sa.String(255), primary_key=True),
    sa.Column("noise", sa.Double, primary_key=True),
    sa.Column("since", sa.String(32), nullable=False),
    sa.Column("seal", sa.String(64), nullable=False),
)


def all_lines(connection: sa.Connection) -> bytes:
    """Return the content of every table, as the database holds it, in an order of its own."""
    lines = []
    for table in TABLES.sorted_tables:
        names = ", ".join(f'"{c.name}"' for c in table.c if c is not VAULT.c.seal)
        found = connection.exec_driver_sql(f"SELECT {names} FROM {table.name}")  # noqa: S608
        lines += sorted(ascii((table.name, *line)) for line in found)
    return "\n".join(lines).encode()


def dataset_content(dataset: str, frozen: str) -> bytes:
    """Return what the seal of a registration covers."""
    return json.dumps(["dataset", dataset, frozen]).encode()


def level_content(before: str, position: int, noise: float) -> bytes:
    """Return what the seal of a level covers: by the seal before it, all levels before it."""
    return json.dumps(["level", before, position]).encode() + struct.pack("<d", noise)


def holding_content(recipient: str, noise: float, since: str) -> bytes:
    """Return what the seal of a holding covers."""
    return json.dumps(["holding", recipient, since]).encode() + struct.pack("<d", noise)
