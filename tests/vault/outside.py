"""A ledger as someone sees and edits it who can write the database but has no key."""

import secrets
import sqlite3
from itertools import count
from pathlib import Path

import psycopg

from cornerwave.ledger import Entry, Key, Ledger
from cornerwave.reuse import ColumnMarks, TableMarks
from tests.copies import at

TABLES = ("cornerwave_vault", "cornerwave_chain", "cornerwave_line")
NUMBERS = count()


def connect(place):
    if isinstance(place, Path):
        return sqlite3.connect(place, isolation_level=None)
    return psycopg.connect(place, autocommit=True)


def edit(place, *statements):
    """Change a database from outside, as nobody should."""
    connection = connect(place)
    try:
        for statement in statements:
            connection.execute(statement)
    finally:
        connection.close()


def rows(place, query):
    connection = connect(place)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def content(place):
    """Every row of every table of ours."""
    return {table: sorted(map(repr, rows(place, f"SELECT * FROM {table}"))) for table in TABLES}


def restore(place, table, kept):
    """Replace all rows of a table by those kept earlier."""
    connection = connect(place)
    try:
        connection.execute(f"DELETE FROM {table}")
        for row in kept:
            marks = ", ".join(["?" if isinstance(place, Path) else "%s"] * len(row))
            connection.execute(f"INSERT INTO {table} VALUES ({marks})", row)
    finally:
        connection.close()


def entry(name=None, marks=(), id=None):
    name = name or f"d{next(NUMBERS)}"
    return Entry(id or secrets.token_hex(16), name, None, "2030-01-01", "{}", marks_of(*marks))


def marks_of(*marks):
    """The marks of a table, given 'sum of its hashes<TAB>name' of each column."""
    split = [mark.split("\t", 1) for mark in marks]
    columns = [ColumnMarks(name, False, 9, 0.0, total, None, None, None) for total, name in split]
    return TableMarks(tuple(columns), None, None, None).to_json()


def used(place):
    """Make a ledger with two datasets, one of which three recipients hold; return its key."""
    key = Key.generate()
    ledger = Ledger.create(place, key)
    ledger.register(entry("people", ["aa\tage"], id="a1" * 16))
    ledger.register(entry("others", ["bb\theight"], id="b2" * 16))
    levels = {"ann": 800, "bob": 500, "cyd": 200}
    ledger.hold("a1" * 16, [(name, at(level)) for name, level in levels.items()])
    ledger.hold("b2" * 16, [("ann", at(100))])
    return key


def use_everything(place, key):
    """Read all that there is, and write all that can be written."""
    ledger = Ledger.open(place, key)
    found = {e.name: (e, ledger.holdings(e.id)) for e in ledger.datasets()}
    assert ledger.dataset("people") == found["people"][0]
    for dataset, holdings in found.values():
        for holding in holdings:
            assert holding in ledger.held(dataset.id, holding.recipient)
        ledger.hold(dataset.id, [("zoe", at(10))])
    ledger.register(entry("new", ["cc\tlength"]))
    ledger.check_since(ledger.heads())
    return found
