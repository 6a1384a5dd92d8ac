"""Edits by someone who can write the database, or replace its file, but has no key."""

import sqlite3
from pathlib import Path

import pytest

from cornerwave.errors import LedgerDamaged, VaultError, WrongKey
from cornerwave.ledger import Key, Ledger
from tests.copies import at
from tests.vault.outside import content, edit, entry, restore, rows, use_everything, used

PEOPLE, OTHERS = "a1" * 16, "b2" * 16
LINE, CHAIN, VAULT = "cornerwave_line", "cornerwave_chain", "cornerwave_vault"
OF_PEOPLE = f"chain = '{PEOPLE}'"

EDITS = {
    "a line's time": f"UPDATE {LINE} SET at = '1999' WHERE {OF_PEOPLE} AND number = 3",
    "a line's kind": f"UPDATE {LINE} SET kind = 'gift' WHERE {OF_PEOPLE} AND number = 3",
    "a line's recipient": f"UPDATE {LINE} SET recipient = 'eve' WHERE {OF_PEOPLE} AND number = 3",
    "a recipient left out": f"UPDATE {LINE} SET recipient = NULL WHERE {OF_PEOPLE} AND number = 3",
    "a line's content": f"UPDATE {LINE} SET content = 'AAAA' WHERE {OF_PEOPLE} AND number = 3",
    "a content from another line": (
        f"UPDATE {LINE} SET content = (SELECT content FROM {LINE} WHERE {OF_PEOPLE} AND number = 2)"
        f" WHERE {OF_PEOPLE} AND number = 3"
    ),
    "a line's mac": f"UPDATE {LINE} SET mac = '' WHERE {OF_PEOPLE} AND number = 3",
    "a mac that is not ASCII": f"UPDATE {LINE} SET mac = 'é' WHERE {OF_PEOPLE} AND number = 3",
    "a line's number": f"UPDATE {LINE} SET number = 9 WHERE {OF_PEOPLE} AND number = 4",
    "a line given to another": (
        f"UPDATE {LINE} SET chain = '{OTHERS}', number = 3 WHERE {OF_PEOPLE} AND number = 4"
    ),
    "a recipient's other spelling": (
        f"UPDATE {LINE} SET alike = 'ben' WHERE {OF_PEOPLE} AND recipient = 'ann'"
    ),
    "first line deleted": f"DELETE FROM {LINE} WHERE {OF_PEOPLE} AND number = 1",
    "second line deleted": f"DELETE FROM {LINE} WHERE {OF_PEOPLE} AND number = 2",
    "middle line deleted": f"DELETE FROM {LINE} WHERE {OF_PEOPLE} AND number = 3",
    "last line deleted": f"DELETE FROM {LINE} WHERE {OF_PEOPLE} AND number = 4",
    "last line deleted, row shortened": (
        f"DELETE FROM {LINE} WHERE {OF_PEOPLE} AND number = 4; "
        f"UPDATE {CHAIN} SET length = 3, head = (SELECT mac FROM {LINE} WHERE {OF_PEOPLE} AND "
        f"number = 3) WHERE id = '{PEOPLE}'"
    ),
    "all lines deleted": f"DELETE FROM {LINE}",
    "a line added": (
        f"INSERT INTO {LINE} SELECT chain, 5, at, kind, recipient, alike, content, mac FROM {LINE} "
        f"WHERE {OF_PEOPLE} AND number = 4"
    ),
    "two lines swapped": (
        f"UPDATE {LINE} SET number = 99 WHERE {OF_PEOPLE} AND number = 2; "
        f"UPDATE {LINE} SET number = 2 WHERE {OF_PEOPLE} AND number = 3; "
        f"UPDATE {LINE} SET number = 3 WHERE {OF_PEOPLE} AND number = 99"
    ),
    "a dataset renamed": f"UPDATE {CHAIN} SET name = 'persons' WHERE id = '{PEOPLE}'",
    "two datasets renamed": (
        f"UPDATE {CHAIN} SET name = 'x' WHERE id = '{PEOPLE}'; "
        f"UPDATE {CHAIN} SET name = 'people' WHERE id = '{OTHERS}'; "
        f"UPDATE {CHAIN} SET name = 'others' WHERE id = '{PEOPLE}'"
    ),
    "a chain's id": f"UPDATE {CHAIN} SET id = 'no hex' WHERE id = '{PEOPLE}'",
    "a chain's length": f"UPDATE {CHAIN} SET length = 3 WHERE id = '{PEOPLE}'",
    "a chain's head": f"UPDATE {CHAIN} SET head = '' WHERE id = '{PEOPLE}'",
    "a chain's seal": f"UPDATE {CHAIN} SET seal = '' WHERE id = '{PEOPLE}'",
    "a chain's row deleted": f"DELETE FROM {CHAIN} WHERE id = '{PEOPLE}'",
    "a dataset deleted with all about it": (
        f"DELETE FROM {CHAIN} WHERE id = '{OTHERS}'; DELETE FROM {LINE} WHERE chain = '{OTHERS}'"
    ),
    "a dataset deleted with its place in the list": (
        f"DELETE FROM {CHAIN} WHERE id = '{OTHERS}'; DELETE FROM {LINE} WHERE chain = '{OTHERS}'; "
        f"DELETE FROM {LINE} WHERE chain = 'vault' AND number = 2"
    ),
    "the list of datasets deleted": f"DELETE FROM {CHAIN} WHERE id = 'vault'",
    "the list of datasets cut": f"DELETE FROM {LINE} WHERE chain = 'vault' AND number = 2",
    "everything deleted but the vault": f"DELETE FROM {CHAIN}; DELETE FROM {LINE}",
    "a dataset added": f"INSERT INTO {CHAIN} SELECT 'c3', 'c', length, head, closed, stated, seal "
    f"FROM {CHAIN} WHERE id = 'vault'",
    "the vault's row deleted": f"DELETE FROM {VAULT}",
    "the vault's row doubled": f"INSERT INTO {VAULT} SELECT * FROM {VAULT}",
    "a table dropped": f"DROP TABLE {LINE}",
    "an index dropped": "DROP INDEX cornerwave_line_recipient",
}

SQLITE_EDITS = {
    "a mac of bytes": f"UPDATE {LINE} SET mac = x'00ff' WHERE {OF_PEOPLE} AND number = 3",
    "a recipient of bytes": f"UPDATE {LINE} SET recipient = x'616e6e' WHERE recipient = 'ann'",
    "a number of text": f"UPDATE {LINE} SET number = 'four' WHERE {OF_PEOPLE} AND number = 4",
    "a length of text": f"UPDATE {CHAIN} SET length = 'long'",
    "text that is not UTF-8": f"UPDATE {LINE} SET at = CAST(x'fffe' AS TEXT)",
}


@pytest.mark.parametrize("what", EDITS)
def test_an_edited_ledger_is_refused(ledger_place, what):
    key = used(ledger_place)
    edit(ledger_place, *EDITS[what].split("; "))
    with pytest.raises(LedgerDamaged, match="estore the latest backup"):
        use_everything(ledger_place, key)


@pytest.mark.parametrize("what", SQLITE_EDITS)
def test_values_of_strange_types_are_refused(tmp_path, what):
    key = used(tmp_path / "ledger.db")
    edit(tmp_path / "ledger.db", SQLITE_EDITS[what])
    with pytest.raises(LedgerDamaged, match="estore the latest backup"):
        use_everything(tmp_path / "ledger.db", key)


@pytest.mark.parametrize(("number", "says"), [(99, "newer version.*upgrade"), (3, "use that one")])
@pytest.mark.parametrize("other_tables", [False, True])
def test_a_ledger_of_another_version_is_left_as_it_is(ledger_place, number, says, other_tables):
    """It is not damaged, so that nobody should put a backup in its place."""
    key = used(ledger_place)
    edit(ledger_place, f"UPDATE {VAULT} SET format = {number}")
    if other_tables:
        edit(
            ledger_place,
            "CREATE TABLE cornerwave_later (what TEXT)",
            "DROP TABLE cornerwave_access",
        )
    before = content(ledger_place)
    with pytest.raises(VaultError, match=f"made by (a|an)?.*{says}") as refusal:
        Ledger.open(ledger_place, key)
    assert not isinstance(refusal.value, LedgerDamaged)
    assert "backup" not in str(refusal.value)
    assert content(ledger_place) == before


def test_a_planted_table_of_the_vault_says_no_format(ledger_place):
    """What says the format is read only if it is the table that Cornerwave makes."""
    key = used(ledger_place)
    edit(ledger_place, f"UPDATE {VAULT} SET format = 99")
    edit(
        ledger_place,
        f"ALTER TABLE {VAULT} RENAME TO kept",
        f"CREATE VIEW {VAULT} AS SELECT * FROM kept",
    )
    with pytest.raises(LedgerDamaged):
        Ledger.open(ledger_place, key)


def test_what_the_database_notes_for_itself_is_not_planted(ledger_place):
    key = used(ledger_place)
    edit(ledger_place, "ANALYZE")
    if isinstance(ledger_place, Path):
        assert rows(ledger_place, "SELECT name FROM sqlite_master WHERE name LIKE 'sqlite_stat%'")
    use_everything(ledger_place, key)


def test_a_table_that_only_has_the_name_of_such_a_note_is_planted(tmp_path):
    key = used(tmp_path / "ledger.db")
    edit(
        tmp_path / "ledger.db",
        "ANALYZE",
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET sql = 'CREATE TABLE sqlite_stat1(tbl, idx, stat CHECK (stat))' "
        "WHERE name = 'sqlite_stat1'",
    )
    with pytest.raises(LedgerDamaged, match="did not make"):
        Ledger.open(tmp_path / "ledger.db", key)


def test_an_untouched_ledger_is_not_refused(ledger_place):
    key = used(ledger_place)
    edit(ledger_place, "VACUUM")
    found = use_everything(ledger_place, key)
    assert [h.recipient for h in found["people"][1]] == ["ann", "bob", "cyd"]


def test_a_ledger_given_another_key_is_refused(ledger_place):
    key = used(ledger_place)
    edit(ledger_place, f"UPDATE {VAULT} SET key_check = '00'")
    with pytest.raises(WrongKey):
        use_everything(ledger_place, key)


@pytest.mark.parametrize("number", [3, 4])
def test_appending_notices_a_chain_that_was_cut(ledger_place, number):
    """The last line and the one before it are what appending reads."""
    ledger = Ledger.open(ledger_place, used(ledger_place))
    edit(ledger_place, f"DELETE FROM {LINE} WHERE {OF_PEOPLE} AND number = {number}")
    before = content(ledger_place)
    with pytest.raises(LedgerDamaged, match="'people' was changed from outside"):
        ledger.hold(PEOPLE, [("zoe", at(1))])
    assert content(ledger_place) == before


class TestRollback:
    """Rows that were genuine once can be put back: of a whole chain, and a head shows it."""

    @pytest.fixture
    def kept(self, ledger_place):
        key = used(ledger_place)
        ledger = Ledger.open(ledger_place, key)
        old = {table: rows(ledger_place, f"SELECT * FROM {table}") for table in (LINE, CHAIN)}
        early = ledger.heads()
        ledger.hold(PEOPLE, [("eve", at(1))])
        return ledger, old, early, ledger.heads()

    def test_a_whole_one_is_seen_by_its_head_alone(self, kept, ledger_place):
        ledger, old, early, late = kept
        for table in (LINE, CHAIN):
            restore(ledger_place, table, old[table])
        assert [h.recipient for h in ledger.holdings(PEOPLE)] == ["ann", "bob", "cyd"]
        ledger.check_since(early)
        with pytest.raises(LedgerDamaged, match="'people'"):
            ledger.check_since(late)
        # A chain that went on differently after the rollback is not the one of the head either.
        ledger.hold(PEOPLE, [("zoe", at(1))])
        with pytest.raises(LedgerDamaged, match=r"'people'.*line 5"):
            ledger.check_since(late)

    @pytest.mark.parametrize("table", [LINE, CHAIN])
    def test_half_of_one_is_refused(self, kept, ledger_place, table):
        ledger, old, *_ = kept
        restore(ledger_place, table, old[table])
        for work in (ledger.holdings, lambda id: ledger.hold(id, [("zoe", at(1))])):
            with pytest.raises(LedgerDamaged, match="'people'"):
                work(PEOPLE)

    def test_a_list_of_datasets_from_before_is_refused(self, kept, ledger_place):
        ledger, *_ = kept
        [row] = rows(ledger_place, f"SELECT * FROM {CHAIN} WHERE id = 'vault'")
        lines = rows(ledger_place, f"SELECT * FROM {LINE}")
        ledger.register(entry("late", ["dd\tweight"]))
        chains = rows(ledger_place, f"SELECT * FROM {CHAIN} WHERE id <> 'vault'")
        late = rows(ledger_place, f"SELECT * FROM {LINE} WHERE chain <> 'vault'")
        restore(ledger_place, CHAIN, [row, *chains])
        restore(ledger_place, LINE, list(dict.fromkeys([*lines, *late])))
        # Otherwise the same values could be registered once more.
        with pytest.raises(LedgerDamaged, match="not those that were registered"):
            ledger.register(entry("again", ["dd\tweight"]))


PLANTED = {
    "sqlite": {
        "trigger that deletes lines": (
            f"CREATE TRIGGER t AFTER INSERT ON {LINE} BEGIN DELETE FROM {LINE} "
            "WHERE recipient = 'ann'; END"
        ),
        "view": f"CREATE VIEW v AS SELECT * FROM {LINE}",
        "table": "CREATE TABLE t (x)",
        "column": f"ALTER TABLE {CHAIN} ADD COLUMN x",
        "index": f"CREATE INDEX i ON {LINE} (kind)",
        "view in place of a table": (
            f"ALTER TABLE {LINE} RENAME TO t; CREATE VIEW {LINE} AS SELECT * FROM t"
        ),
    },
    "postgresql": {
        "trigger that deletes lines": (
            "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"DELETE FROM {LINE} WHERE recipient = 'ann'; RETURN NULL; END $$;; "
            f"CREATE TRIGGER t AFTER INSERT ON {LINE} EXECUTE FUNCTION f()"
        ),
        "view": f"CREATE VIEW v AS SELECT * FROM {LINE}",
        "view in place of a table": (
            f"ALTER TABLE {LINE} RENAME TO t;; CREATE VIEW {LINE} AS SELECT * FROM t"
        ),
        "materialized view": f"CREATE MATERIALIZED VIEW v AS SELECT * FROM {CHAIN}",
        "rule": f"CREATE RULE r AS ON INSERT TO {LINE} DO ALSO DELETE FROM {CHAIN}",
        "row security": f"ALTER TABLE {LINE} ENABLE ROW LEVEL SECURITY",
        "policy": f"CREATE POLICY p ON {CHAIN} USING (false)",
        "inheritance": f"CREATE TABLE more () INHERITS ({LINE})",
        "table": "CREATE TABLE cornerwave_more (x int)",
        "column": f"ALTER TABLE {CHAIN} ADD COLUMN x int",
        "type": f"ALTER TABLE {LINE} ALTER COLUMN number TYPE integer",
        "default": f"ALTER TABLE {LINE} ALTER COLUMN at SET DEFAULT now()",
        "collation": f'ALTER TABLE {LINE} ALTER COLUMN recipient TYPE text COLLATE "C"',
        "constraint": f"ALTER TABLE {LINE} ADD CHECK (number < 5)",
        "index": f"CREATE INDEX i ON {LINE} (lower(kind))",
        "partial index": f"CREATE INDEX i ON {LINE} (chain, recipient) WHERE number > 1",
        "unlogged": f"ALTER TABLE {LINE} SET UNLOGGED",
    },
}


def plant(place, what):
    kind = "sqlite" if isinstance(place, Path) else "postgresql"
    statements = PLANTED[kind][what]
    if kind == "sqlite" and "TRIGGER" in statements:
        edit(place, statements)
    else:
        edit(place, *statements.split(";; " if kind == "postgresql" else "; "))


@pytest.mark.parametrize("what", sorted(PLANTED["sqlite"].keys() | PLANTED["postgresql"].keys()))
def test_a_database_with_anything_planted_is_refused(ledger_place, what):
    if isinstance(ledger_place, Path) and what not in PLANTED["sqlite"]:
        return
    key = used(ledger_place)
    ledger = Ledger.open(ledger_place, key)
    plant(ledger_place, what)
    before = content(ledger_place)
    works = [
        lambda: Ledger.open(ledger_place, key),
        lambda: ledger.hold(PEOPLE, [("zoe", at(1))]),
        lambda: ledger.register(entry("new")),
        lambda: ledger.holdings(PEOPLE),
        lambda: ledger.held(PEOPLE, "ann"),
        ledger.datasets,
        lambda: ledger.dataset("people"),
        ledger.heads,
        lambda: ledger.check_since({}),
    ]
    for work in works:
        with pytest.raises(LedgerDamaged, match="did not make"):
            work()
    assert content(ledger_place) == before


def test_without_that_check_the_trigger_would_fire_and_the_chain_would_show_it(
    ledger_place, monkeypatch
):
    ledger = Ledger.open(ledger_place, used(ledger_place))
    plant(ledger_place, "trigger that deletes lines")
    monkeypatch.setattr(ledger._database, "refuse_planted", lambda *_: None)
    ledger.hold(PEOPLE, [("zoe", at(1))])
    assert not rows(ledger_place, f"SELECT * FROM {LINE} WHERE recipient = 'ann'")
    with pytest.raises(LedgerDamaged, match=r"'people'.*line 2 is missing"):
        ledger.holdings(PEOPLE)


def damage(path, how):
    whole, page = path.read_bytes(), 4096
    contents = {
        "truncated": whole[: len(whole) // 3],
        "cut to nothing": b"",
        "garbage": b"\xa5" * len(whole),
        "garbage inside": whole[:page] + b"\xa5" * (len(whole) - page),
    }
    path.unlink()
    if how in contents:
        path.write_bytes(contents[how])
    elif how == "another database":
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE t (x)")
        connection.close()
    elif how == "a directory":
        path.mkdir()


@pytest.mark.parametrize(
    "how",
    ["truncated", "cut to nothing", "garbage", "garbage inside", "missing", "another database"],
)
def test_a_damaged_file_is_refused(tmp_path, how):
    path = tmp_path / "ledger.db"
    key = used(path)
    damage(path, how)
    with pytest.raises(LedgerDamaged, match="estore the latest backup"):
        use_everything(path, key)
    assert path.exists() is (how != "missing")


def test_a_database_without_a_ledger_is_refused(postgresql_server):
    with pytest.raises(LedgerDamaged, match="no ledger in this database"):
        Ledger.open(postgresql_server.fresh(), Key.generate())
