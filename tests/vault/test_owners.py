"""Owners by name: roles, what the ledger states of them, and names on the command line."""

import sqlite3

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cornerwave import cli
from cornerwave.access import APPROVER, FIRST, OWNER, VIEWER, Owners, Sharing
from cornerwave.errors import AccessDenied, LedgerDamaged, VaultError
from cornerwave.vault import Vault

ROWS = 600


@pytest.fixture
def vault(tmp_path):
    return Vault.create(tmp_path / "vault")


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "people.parquet"
    pq.write_table(pa.table({"wage": rng.normal(size=ROWS), "age": rng.normal(size=ROWS)}), path)
    return path


def test_a_vault_begins_with_one_owner_who_needs_no_name(vault):
    owners = Owners(vault)
    assert {each.name: each.role for each in owners.people().values()} == {FIRST: OWNER}
    Sharing(vault).add("partner")
    assert vault.acts() == []
    owners.add("anna", role=OWNER)
    assert [(act.who, act.what) for act in vault.acts()] == [(FIRST, "made anna owner")]
    with pytest.raises(AccessDenied, match="who you are"):
        Sharing(vault).add("university")
    Sharing(vault.under("anna")).add("university")
    assert Sharing(vault).recipients() == ["partner", "university"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "1 to 255"),
        ("anna ", "1 to 255"),
        ("Owner", "reserved"),
        ("anybody", "reserved"),
        ("partner", "confused"),
        ("PARTNER", "confused"),
        ("Anna", "confused"),
    ],
)
def test_names_are_not_confused(vault, name, words):
    Sharing(vault).add("partner")
    Owners(vault).add("anna", role=OWNER)
    owners = Owners(vault.under("anna"))
    with pytest.raises(VaultError, match=words):
        owners.add(name, role=VIEWER)
    owners.add("bea", role=VIEWER)  # the control
    for taken in ("bea", "Bea"):
        with pytest.raises(VaultError, match="name of an owner"):
            Sharing(vault.under("anna")).add(taken)


def test_a_vault_is_never_without_an_owner(vault):
    Owners(vault).add("anna", role=APPROVER)
    owners = Owners(vault.under(FIRST))
    with pytest.raises(VaultError, match="last one"):
        owners.remove(FIRST)
    with pytest.raises(VaultError, match="last one"):
        owners.add(FIRST, role=VIEWER)
    owners.add("anna", role=OWNER)
    owners.remove(FIRST)
    assert list(owners.people()) == ["anna"]
    assert owners.first_link(again=True) is None
    with pytest.raises(AccessDenied):
        Sharing(vault).add("partner")  # still not without a name
    with pytest.raises(VaultError, match="last one"):
        Owners(vault.under("anna")).remove("anna")


def test_roles_hold_for_every_act(vault, table):
    vault.register("people", table)
    Sharing(vault).add("partner")
    for name, role in (("bea", APPROVER), ("cora", VIEWER)):
        Owners(vault.under(FIRST)).add(name, role=role)
    acts = {
        "add": lambda s: s.add("university"),
        "grant": lambda s: s.grant("people", "partner", privacy=0.5),
        "revoke": lambda s: s.revoke("people", "partner"),
        "token": lambda s: s.new_token("partner", days=1),
        "end": lambda s: s.end_token("partner", s.tokens("partner")[0].id),
        "decline": lambda s: s.answer(s.requests()[0].id, decline=True),
        "remove": lambda s: s.remove("partner"),
        "owner": lambda s: Owners(s.vault).add("dora", role=VIEWER),
        "link": lambda s: Owners(s.vault).new_link("cora"),
        "dismiss": lambda s: Owners(s.vault).remove("dora"),
    }
    Sharing(vault).ask("partner", "people", privacy=0.4)
    for act, do in acts.items():
        for who in ("cora", "bea", "nobody", ""):
            if (who, act) != ("bea", "decline"):
                before = vault.heads()
                with pytest.raises(AccessDenied):
                    do(Sharing(vault.under(who)))
                assert vault.heads() == before, act
        who = "bea" if act == "decline" else FIRST
        do(Sharing(vault.under(who)))
        assert vault.acts()[-1].who == who, act


def test_the_ledger_states_who_did_what(vault, table, tmp_path):
    anna = vault.under("anna")
    people = anna.register("people", table)
    people.release(to="partner", privacy=0.5).write(tmp_path / "partner.parquet")
    people.rename("persons")
    batch = tmp_path / "batch.parquet"
    rng = np.random.default_rng(1)
    pq.write_table(pa.table({"wage": rng.normal(size=ROWS), "age": rng.normal(size=ROWS)}), batch)
    people.append(batch)
    anna.register("other", batch, unrelated=["persons"])
    anna.unregister("other")
    people.close()
    assert [(act.who, act.what, act.about) for act in vault.acts()] == [
        ("anna", "registered", "persons"),
        ("anna", "released to partner", "persons"),
        ("anna", "renamed, from people", "persons"),
        ("anna", "added edition 2 (appended)", "persons"),
        ("anna", "unregistered other", ""),
        ("anna", "closed", "persons"),
    ]
    again = Vault.open(vault.path).dataset("persons")
    assert [held.recipient for held in again.holdings] == ["partner"]
    assert len(again.editions) == 2
    vault.check_heads(f"{head.rsplit(':', 2)[0]}:0:" for head in vault.heads().values())


def test_a_copy_does_not_depend_on_who_releases_it(vault, table, tmp_path):
    vault.register("people", table)
    files = []
    for who in ("", "anna"):
        path = tmp_path / f"copy{who}.parquet"
        dataset = vault.under(who).dataset("people")
        dataset.release(to="partner", privacy=0.5).write(path)
        files.append(path.read_bytes())
    assert files[0] == files[1]
    assert vault.acts() == []  # it was held already, so nothing was written


def test_nobody_without_the_key_changes_a_name(vault):
    Owners(vault).add("anna", role=OWNER)
    Sharing(vault.under("anna")).add("partner")
    assert vault.acts()[-1].who == "anna"
    with sqlite3.connect(vault.path / "ledger.db") as ledger:
        [(last,)] = ledger.execute("SELECT max(number) FROM cornerwave_line")
        ledger.execute("DELETE FROM cornerwave_line WHERE number = ?", (last,))
    with pytest.raises(LedgerDamaged):
        Vault.open(vault.path).acts()


def run(*words):
    with pytest.raises(SystemExit) as done:
        cli.main(list(words))
    return done.value.code


def test_commands_act_under_the_name_that_is_stated(tmp_path, table, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run("init") == 0
    assert run("owner", "add", "anna", "--role", "owner") == 0
    out = capsys.readouterr()
    assert out.out.startswith("http://127.0.0.1:8050/console/welcome?link=")
    assert run("register", "people", str(table)) == 2
    assert "(--by)" in capsys.readouterr().err
    assert run("register", "people", str(table), "--by", "anna") == 0
    assert run("owner", "add", "cora", "--by", "anna") == 0  # a viewer, if nothing is stated
    for words in (
        ["rename", "people", "persons"],
        ["close", "people"],
        ["unregister", "people"],
        ["append", "people", str(table)],
        ["update", "people", str(table)],
        ["release", "people", "--to", "ann", "--privacy", "0.5"],
        ["again", "people", "ann"],
        ["register", "more", str(table)],
        ["recipient", "add", "partner"],
        ["owner", "add", "dora"],
    ):
        capsys.readouterr()
        assert run(*words, "--by", "cora") == 2, words
        assert "needs the role owner" in capsys.readouterr().err, words
        assert run(*words, "--by", "nobody") == 2, words
    monkeypatch.setenv("CORNERWAVE_OWNER", "anna")
    assert run("release", "people", "--to", "ann", "--privacy", "0.5") == 0
    assert run("recipient", "add", "partner") == 0
    capsys.readouterr()
    assert run("log", "--owners", "--json") == 0
    acts = capsys.readouterr().out
    for what in ("registered", "released to ann", "added the recipient partner"):
        assert what in acts
    assert run("log", "--owners", "--who", "nobody") == 0
    assert "registered" not in capsys.readouterr().out
    assert run("owner", "list") == 0
    assert "viewer" in capsys.readouterr().out
    assert run("owner", "remove", "cora") == 0
    assert run("owner", "link", "cora") == 2
    assert run("ledger") == 0
