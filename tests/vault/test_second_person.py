"""What waits for a second person: grants, answers, releases and the option itself; and races."""

import threading
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cornerwave import cli
from cornerwave.access import APPROVER, FIRST, OWNER, VIEWER, Approvals, Owners, Sharing
from cornerwave.errors import (
    AccessDenied,
    ApprovalNeeded,
    CornerwaveError,
    LevelError,
    NoSuchDataset,
    VaultError,
)
from cornerwave.ledger import now
from cornerwave.vault import Vault, write_all
from tests.conftest import new_place

ROWS = 600
BELOW = 0.5


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def vault(request, tmp_path):
    """A vault in which anna, bea and cora look after one table; below 0.5 a second one approves."""
    place = new_place(request, tmp_path)
    vault = Vault.create(tmp_path / "vault", ledger=place if isinstance(place, str) else None)
    rng = np.random.default_rng(0)
    path = tmp_path / "people.parquet"
    pq.write_table(pa.table({"wage": rng.normal(size=ROWS), "age": rng.normal(size=ROWS)}), path)
    vault.register("people", path)
    Sharing(vault).add("partner")
    for name, role in (("anna", OWNER), ("bea", APPROVER), ("cora", VIEWER)):
        Owners(vault.under(FIRST)).add(name, role=role)
    Approvals(vault.under(FIRST)).change(below=BELOW)
    return vault


def sharing(vault, who="anna"):
    return Sharing(vault.under(who))


def decide(vault, who, *, approve=True):
    [waits] = Approvals(vault).waiting()
    return Approvals(vault.under(who)).decide(waits.id, approve=approve)


def granted(vault):
    return [(each.recipient, each.spec.level.privacy) for each in Sharing(vault).grants()]


def test_a_grant_below_the_privacy_waits_and_others_do_not(vault):
    sharing(vault).grant("people", "partner", privacy=BELOW)
    assert len(granted(vault)) == 1
    assert Approvals(vault).waiting() == []
    with pytest.raises(ApprovalNeeded, match="grant people to partner"):
        sharing(vault).grant("people", "partner", privacy=0.49)
    assert len(granted(vault)) == 1
    assert decide(vault, "bea").decided_by == "bea"
    assert len(granted(vault)) == 2
    assert Sharing(vault).permitted("partner").popitem()[1].spec.level.privacy < BELOW
    assert Approvals(vault).waiting() == []


def test_who_decides_sees_what_coalitions_could_recover(vault, tmp_path):
    vault.under("anna").dataset("people").release(to="ann", privacy=0.8).write(tmp_path / "a.csv")
    with pytest.raises(ApprovalNeeded):
        sharing(vault).grant("people", "partner", privacy=0.4)
    with pytest.raises(ApprovalNeeded):
        vault.under("anna").dataset("people").release(to="partner", privacy=0.4).to_arrow()
    for waits in Approvals(vault).waiting():
        alone, both = Approvals(vault).foreseen(waits)
        assert (alone.members, alone.before) == (("partner",), 1)
        assert both.members == ("partner", "ann")
        assert both.before == pytest.approx(0.8)
        assert alone.after == both.after == pytest.approx(0.4)
    with pytest.raises(ApprovalNeeded):
        Approvals(vault.under("anna")).change(below=None)
    assert Approvals(vault).foreseen(Approvals(vault).waiting()[-1]) == []


def test_without_the_option_nothing_waits(vault):
    with pytest.raises(ApprovalNeeded):
        Approvals(vault.under("anna")).change(below=None)
    decide(vault, "bea")
    assert Approvals(vault).below is None
    sharing(vault).grant("people", "partner", privacy=0.1)
    assert len(granted(vault)) == 1


def test_asking_twice_is_one_proposal(vault):
    for who in ("anna", "anna", FIRST):
        with pytest.raises(ApprovalNeeded):
            sharing(vault, who).grant("people", "partner", privacy=0.2)
    assert [each.asker for each in Approvals(vault).waiting()] == ["anna", FIRST]


def test_nobody_approves_what_they_asked_for(vault):
    with pytest.raises(ApprovalNeeded):
        sharing(vault).grant("people", "partner", privacy=0.2)
    for who in ("anna", "cora", "nobody", ""):
        with pytest.raises(AccessDenied):
            decide(vault, who)
    assert granted(vault) == []
    decide(vault, "anna", approve=False)  # but may take it back
    with pytest.raises(VaultError, match="nothing waits"):
        Approvals(vault.under("bea")).decide("0123456789ab", approve=True)
    assert granted(vault) == []
    [taken_back] = Approvals(vault).waiting(state=None)
    with pytest.raises(VaultError, match="nothing waits"):
        Approvals(vault.under("bea")).decide(taken_back.id, approve=True)


def test_without_a_name_nothing_can_wait(tmp_path):
    vault = Vault.create(tmp_path / "other")
    Approvals(vault).change(below=BELOW)
    with pytest.raises(AccessDenied, match="who you are"):
        Approvals(vault).change(below=None)
    with pytest.raises(ApprovalNeeded):
        Approvals(vault.under(FIRST)).change(below=None)
    with pytest.raises(AccessDenied):
        decide(vault, "")
    Owners(vault).add("anna", role=OWNER)
    decide(vault, "anna")
    assert Approvals(vault).below is None


def test_what_somebody_asked_for_who_was_removed_is_not_done(vault):
    with pytest.raises(ApprovalNeeded):
        sharing(vault).grant("people", "partner", privacy=0.2)
    Owners(vault.under(FIRST)).remove("anna")
    with pytest.raises(AccessDenied, match="anna"):
        decide(vault, "bea")
    assert granted(vault) == []


def test_an_answer_to_a_recipient_waits_too(vault):
    asked = Sharing(vault).ask("partner", "people", privacy=0.3)
    with pytest.raises(ApprovalNeeded):
        sharing(vault, "bea").answer(asked.id, words="for the pilot")
    assert Sharing(vault).requests()[0].state == "open"
    with pytest.raises(AccessDenied):
        decide(vault, "bea")
    decide(vault, "anna")
    [done] = Sharing(vault).requests()
    assert (done.state, done.answer) == ("approved", "for the pilot")
    assert len(granted(vault)) == 1
    other = Sharing(vault).ask("partner", "people", privacy=0.6)
    sharing(vault, "bea").answer(other.id)  # above it, one approver decides
    assert len(granted(vault)) == 2


def test_what_cannot_be_granted_any_more_is_refused_and_nothing_is_done(vault):
    with pytest.raises(ApprovalNeeded):
        sharing(vault).grant("people", "partner", privacy=0.2, until=now() + timedelta(days=1))
    [waits] = Approvals(vault).waiting()
    later = Approvals(vault.under("bea"), clock=lambda: now() + timedelta(days=2))
    with pytest.raises(LevelError, match="has passed"):
        later.decide(waits.id, approve=True)
    sharing(vault).remove("partner")
    with pytest.raises(CornerwaveError, match="no recipient"):
        decide(vault, "bea")
    vault.under("anna").unregister("people")
    with pytest.raises(NoSuchDataset):
        decide(vault, "bea")
    assert granted(vault) == []
    decide(vault, "bea", approve=False)


def test_a_release_waits_is_approved_and_is_used_once(vault, tmp_path):
    people = vault.under("anna").dataset("people")
    low = people.release(to="partner", privacy=0.3)
    with pytest.raises(ApprovalNeeded, match="release people to partner"):
        low.write(tmp_path / "low.parquet")
    assert not (tmp_path / "low.parquet").exists()
    with pytest.raises(ApprovalNeeded):
        low.to_arrow()
    with pytest.raises(ApprovalNeeded):
        low.hold("parquet")
    people.release(to="partner", privacy=0.6).write(tmp_path / "high.parquet")
    with pytest.raises(AccessDenied):
        decide(vault, "anna")
    decide(vault, "bea")
    for other in (("partner", 0.2), ("university", 0.3)):  # what was approved is for this copy
        with pytest.raises(ApprovalNeeded):
            people.release(to=other[0], privacy=other[1]).write(tmp_path / "other.parquet")
    low.write(tmp_path / "low.parquet")
    low.write(tmp_path / "low.csv")  # they hold this level already
    assert {held.recipient for held in people.holdings} == {"partner"}
    states = [each.state for each in Approvals(vault).waiting(state=None)]
    assert sorted(states) == ["open", "open", "used"]
    (copy, format_), *_ = people.again("partner")
    copy.write(tmp_path / f"again.{format_}")


def test_what_was_approved_for_one_copy_is_not_for_two(vault, tmp_path):
    people = vault.under("anna").dataset("people")
    two = [(people.release(to=to, privacy=0.3), tmp_path / f"{to}.csv") for to in ("ann", "bob")]
    with pytest.raises(ApprovalNeeded, match=r"people to ann.*people to bob"):
        write_all(two)
    decide(vault, "bea")
    two[0][0].write(two[0][1])
    assert [each.state for each in Approvals(vault).waiting(state=None)] == ["approved"]
    two[1][0].write(two[1][1])
    assert [each.state for each in Approvals(vault).waiting(state=None)] == ["used"]


def test_the_option_may_change_while_a_copy_is_made(vault, tmp_path, monkeypatch):
    from cornerwave.vault import _release

    with pytest.raises(ApprovalNeeded):
        Approvals(vault.under("anna")).change(below=0.9)
    release = vault.under("anna").dataset("people").release(to="partner", privacy=0.7)
    true = _release.make_copies

    def make(*given, **more):
        true(*given, **more)
        if Approvals(vault).waiting():
            decide(vault, "bea")

    monkeypatch.setattr(_release, "make_copies", make)
    with pytest.raises(ApprovalNeeded, match="release it again"):
        release.write(tmp_path / "copy.parquet")
    assert not (tmp_path / "copy.parquet").exists()
    assert release.dataset.holdings == []
    with pytest.raises(ApprovalNeeded, match="waits until another"):
        release.write(tmp_path / "copy.parquet")
    decide(vault, "bea")
    release.write(tmp_path / "copy.parquet")


def test_the_option_may_begin_while_a_copy_is_recorded(tmp_path, monkeypatch):
    from cornerwave.vault import _release

    path = tmp_path / "people.parquet"
    pq.write_table(pa.table({"wage": np.random.default_rng(0).normal(size=ROWS)}), path)
    vault = Vault.create(tmp_path / "vault")
    release = vault.register("people", path).release(to="partner", privacy=0.4)
    true = _release.permit_for

    def permit_for(releases):
        permit = true(releases)  # nothing needs an approval yet
        if Approvals(vault).below is None:
            Approvals(vault).change(below=BELOW)
        return permit

    monkeypatch.setattr(_release, "permit_for", permit_for)
    with pytest.raises(ApprovalNeeded, match="just now"):
        release.write(tmp_path / "copy.parquet")
    assert release.dataset.holdings == []
    assert not (tmp_path / "copy.parquet").exists()
    with pytest.raises(AccessDenied, match="who you are"):
        release.write(tmp_path / "copy.parquet")


def at_once(work, count):
    found, barrier = [None] * count, threading.Barrier(count)

    def run(number):
        barrier.wait(60)
        try:
            found[number] = work(number)
        except CornerwaveError as error:
            found[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return found


def test_of_many_who_decide_at_once_one_does(vault):
    with pytest.raises(ApprovalNeeded):
        sharing(vault).grant("people", "partner", privacy=0.2)
    [waits] = Approvals(vault).waiting()
    who = ("bea", FIRST, "bea", FIRST)
    found = at_once(
        lambda n: Approvals(vault.under(who[n])).decide(waits.id, approve=n % 2 == 0), 4
    )
    done = [each for each in found if not isinstance(each, Exception)]
    assert len(done) == 1
    assert all("nothing waits" in str(each) for each in found if isinstance(each, Exception))
    assert len(granted(vault)) == (done[0].state == "used")
    [kept] = Approvals(vault).waiting(state=None)
    assert kept == done[0]
    decided = [act for act in vault.acts() if f"{waits.id} of anna" in act.what]
    assert [act.who for act in decided] == [done[0].decided_by]


def test_a_grant_and_a_change_of_the_option_at_once_are_one_after_the_other(vault):
    with pytest.raises(ApprovalNeeded):
        Approvals(vault.under("anna")).change(below=0.9)
    [change] = Approvals(vault).waiting()
    works = [
        lambda: Approvals(vault.under("bea")).decide(change.id, approve=True),
        lambda: sharing(vault).grant("people", "partner", privacy=0.7),
    ]
    _, grant = at_once(lambda n: works[n](), 2)
    what = [act.what for act in vault.acts()]
    [changed] = [n for n, each in enumerate(what) if each.startswith(f"approved {change.id}")]
    [asked] = [n for n, each in enumerate(what) if "people to partner" in each]
    assert isinstance(grant, ApprovalNeeded) == (changed < asked)
    assert len(granted(vault)) == (not isinstance(grant, ApprovalNeeded))


def run(*words):
    with pytest.raises(SystemExit) as done:
        cli.main(list(words))
    return done.value.code


def test_the_commands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    pq.write_table(pa.table({"wage": rng.normal(size=ROWS)}), tmp_path / "people.parquet")
    assert run("init", "--second-person", "2") == 2
    assert run("init", "--second-person", "0.5") == 0
    assert run("init", "--second-person", "0.6") == 2
    assert run("register", "people", "people.parquet") == 0
    assert run("owner", "add", "anna", "--role", "owner") == 0
    assert run("owner", "add", "bea", "--role", "approver", "--by", "anna") == 0
    assert run("recipient", "add", "partner", "--by", "anna") == 0
    assert run("grant", "people", "partner", "--privacy", "0.3", "--by", "anna") == 2
    assert run("release", "people", "--to", "ann", "--privacy", "0.3", "--by", "anna") == 2
    assert run("approval", "--off", "--by", "anna") == 2
    waits = Approvals(Vault.open()).waiting()
    capsys.readouterr()
    assert run("requests") == 0
    out = capsys.readouterr().out
    assert all(f"{each.id}  anna asks for a second person: {each.what}" in out for each in waits)
    assert run("requests", "people", "--json") == 0
    assert capsys.readouterr().out.count("second_person") == 2  # the option is of no dataset
    for each in waits:
        assert run("requests", "--approve", each.id, "--by", "anna") == 2
        assert run("requests", "--approve", each.id, "--privacy", "0.4", "--by", "bea") == 2
        assert run("requests", "--approve", each.id, "--by", "bea") == 0
        assert f"Approved: {each.what}" in capsys.readouterr().err
    assert run("release", "people", "--to", "ann", "--privacy", "0.3", "--by", "anna") == 0
    assert (tmp_path / "people-ann.parquet").exists()
    capsys.readouterr()
    assert run("approval") == 0
    assert "Nothing waits" in capsys.readouterr().err
    assert run("recipient", "show", "partner") == 0
    assert "live" in capsys.readouterr().out


def test_linked_tables_wait_and_are_approved_together(tmp_path):
    rng, persons = np.random.default_rng(2), 300
    who = np.repeat(np.arange(persons), 2)
    patients = pa.table(
        {"patient": [f"P{i}" for i in range(persons)], "risk": rng.normal(size=persons)}
    )
    visits = pa.table({"patient": [f"P{i}" for i in who], "cost": rng.normal(size=len(who))})
    for name, table in (("patients", patients), ("visits", visits)):
        pq.write_table(table, tmp_path / f"{name}.parquet")
    vault = Vault.create(tmp_path / "linked")
    places = {name: tmp_path / f"{name}.parquet" for name in ("patients", "visits")}
    clinic = vault.register_linked("clinic", places, unit="patient", few_rows=True, shuffle=True)
    Sharing(vault).add("partner")
    Owners(vault).add("anna", role=OWNER)
    Approvals(vault.under(FIRST)).change(below=0.9)
    with pytest.raises(ApprovalNeeded, match="grant clinic to partner"):
        sharing(vault).grant_linked("clinic", "partner", privacy=0.5)
    assert [len(each.grants) for each in Approvals(vault).waiting()] == [2]
    decide(vault, FIRST)
    assert len(granted(vault)) == 2
    release = vault.under("anna").linked("clinic").release(to="university", privacy=0.5)
    for _ in range(2):
        with pytest.raises(ApprovalNeeded, match=r"clinic.patients to university.*clinic.visits"):
            release.write(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    assert not any(each.holdings for each in clinic.tables.values())
    decide(vault, FIRST)
    release.write(tmp_path / "copy")
    assert (tmp_path / "copy" / "visits.parquet").exists()
    assert [each.state for each in Approvals(vault).waiting(state=None)] == ["used", "used"]
