"""What stands beside the chains is believed only if its seal fits, and is looked up at once."""

from contextlib import closing

import pytest

from cornerwave.access import Sharing
from cornerwave.errors import LedgerDamaged
from cornerwave.ledger import Access
from cornerwave.ledger._database import Connection
from cornerwave.vault import Vault

COPY = "/v1/datasets/wages/copy"


RECORD = "cornerwave_record"
COLUMNS = ("kind", "id", "of", "at", "content", "about", "seal")


def outside(served, statement, *values):
    """Run a statement as somebody who can write to the database, and has no key."""
    with closing(served.sharing.vault._ledger._database.connect()) as connection:
        return connection.run(statement, *values)


def row(served, kind, of):
    query = f"SELECT {', '.join(COLUMNS)} FROM {RECORD} WHERE kind = ? AND of = ?"
    return dict(zip(COLUMNS, outside(served, query, kind, of)[0], strict=True))


EDITS = {
    "another level": lambda row: {"content": row["content"].replace('"level":500', '"level":100')},
    "another recipient": lambda _: {"of": "eve"},
    "another time": lambda _: {"at": "2020-01-01T00:00:00.000+00:00"},
    "no seal": lambda _: {"seal": ""},
    "a seal of something else": lambda row: {"seal": row["seal"][::-1]},
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_grant_is_refused(served, edit):
    grant = row(served, kind="grant", of="ann")
    changed = EDITS[edit](grant)
    assert changed.items() - grant.items()
    with served.client("ann") as ann, served.client("bob") as bob:
        assert ann.get(COPY).status_code == 200
        [(column, value)] = changed.items()
        update = f"UPDATE {RECORD} SET {column} = ? WHERE kind = 'grant' AND id = ?"
        outside(served, update, value, grant["id"])
        victim = changed.get("of", "ann")
        with pytest.raises(LedgerDamaged, match="changed from outside"):
            served.sharing.grants(recipient=victim)
        with served.client(victim) as who:
            refused = who.get(COPY)
        assert refused.status_code == 503
        assert "seal" not in refused.text
        assert bob.get(COPY).status_code == 200  # whose rows nobody touched


def test_forged_grants_and_tokens_are_refused(served):
    """A row of one's own making, and the true seal of another kind of row, open nothing."""
    grant = row(served, kind="grant", of="bob")
    insert = f"INSERT INTO {RECORD} ({', '.join(COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?, ?)"
    outside(served, insert, *{**grant, "id": "forged", "of": "eve"}.values())
    with served.client("eve") as eve:
        assert eve.get(COPY).status_code == 503
    outside(served, f"DELETE FROM {RECORD} WHERE id = 'forged'")
    with served.client("eve") as eve:
        assert eve.get(COPY).status_code == 404
    token = row(served, kind="token", of="ann")
    outside(served, f"UPDATE {RECORD} SET of = 'bob' WHERE id = ?", token["id"])
    with served.client("ann") as ann:
        assert ann.get("/v1/datasets").status_code == 503


def test_an_edited_chain_is_refused(served):
    with served.client("ann") as ann:
        assert ann.get("/v1/datasets/wages").status_code == 200
        outside(served, "UPDATE cornerwave_chain SET closed = '', head = '0' WHERE name = 'wages'")
        assert ann.get("/v1/datasets/wages").status_code == 503


def test_what_another_process_writes_counts_at_once(served):
    """The service keeps what it has read only as long as nobody has committed anything."""
    other = Sharing(Vault.open(served.folder / "vault"))
    with served.client("ann") as ann, served.client("eve") as eve:
        for _ in range(3):
            assert ann.get(COPY).status_code == 200
            assert eve.get(COPY).status_code == 404
            other.revoke("wages", "ann")
            other.grant("wages", "eve", privacy=0.8)
            assert ann.get(COPY).status_code == 404
            assert eve.get(COPY).status_code == 200
            other.grant("wages", "ann", privacy=0.5)
            other.revoke("wages", "eve")
        other.vault.dataset("wages").rename("pay")
        assert ann.get("/v1/datasets/pay").status_code == 200
        assert ann.get("/v1/datasets/wages").status_code == 404
        other.vault.dataset("pay").close()
        assert ann.get("/v1/datasets/pay").status_code == 404


def test_the_access_log_makes_nothing_be_read_again(served, monkeypatch):
    """But what another process writes beside it does, even in the moment after."""
    database = served.sharing.vault._ledger._database
    if database.version() is None:
        pytest.skip("with PostgreSQL everything is read each time")
    reads, true = [], Connection.select
    monkeypatch.setattr(Connection, "select", lambda *given: reads.append(1) or true(*given))
    line = Access("2026-01-01", "ann", "GET /", "200", 0)
    assert len(served.sharing.grants(recipient="ann")) == 2
    reads.clear()
    for _ in range(3):
        served.sharing.log([line])
        assert len(served.sharing.grants(recipient="ann")) == 2
    assert reads == []
    other, keep = Sharing(Vault.open(served.folder / "vault")), type(database)._keep

    def late(self, *given):
        if self is database:
            other.grant("open", "ann", privacy=0.7)
        keep(self, *given)

    monkeypatch.setattr(type(database), "_keep", late)
    served.sharing.log([line])
    assert len(served.sharing.grants(recipient="ann")) == 3
    assert reads


def test_a_second_machine_needs_the_key_and_the_address_of_the_ledger(served, tmp_path):
    """With PostgreSQL, two files make the same vault elsewhere, and the same copies."""
    here, there = served.folder / "vault", tmp_path / "elsewhere"
    if not (here / "ledger.url").exists():
        pytest.skip("a ledger in a file is on one machine")
    there.mkdir()
    for name in ("key", "ledger.url"):
        (there / name).write_bytes((here / name).read_bytes())
        (there / name).chmod(0o600)
    with served.client("ann") as ann:
        content = ann.get(COPY).content
    second = Vault.open(there)
    [(again, format_)] = second.dataset("wages").again("ann")
    assert again.write(tmp_path / f"again.{format_}").read_bytes() == content
