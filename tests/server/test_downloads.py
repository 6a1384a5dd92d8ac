"""Copies over plain HTTP: what leaves, to whom, and what the ledger says then."""

import asyncio
import io
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import ANY
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer.testing

from cornerwave import cli
from cornerwave.errors import (
    AccessDenied,
    LevelError,
    NoSuchDataset,
    NoSuchRecipient,
    OutputError,
    VaultError,
)
from cornerwave.miner import Copy, Profile, fetch, open_copy
from cornerwave.server import _cache as cache_module
from cornerwave.vault import Release
from tests.waiting import until

COPY = "/v1/datasets/wages/copy"


def recipients(served, name="wages"):
    return [held.recipient for held in served.sharing.vault.dataset(name).holdings]


def test_a_copy_is_that_of_the_vault_and_is_recorded_before_it_leaves(served):
    with served.client("ann") as ann:
        assert ann.head(COPY).status_code == 200
        assert recipients(served) == []
        got = ann.get(COPY)
    assert got.status_code == 200
    assert recipients(served) == ["ann"]
    vault = served.sharing.vault
    release = vault.dataset("wages").release(to="ann", privacy=0.5)
    direct = release.write(served.folder / "d.parquet")
    assert got.content == direct.read_bytes()


@pytest.mark.parametrize("format_", ["parquet", "arrow", "csv", "csv.gz"])
def test_formats(served, format_):
    with served.client("bob") as bob:
        got = bob.get(COPY, params={"format": format_}).content
    path = served.folder / f"copy.{format_}"
    vault = served.sharing.vault
    vault.dataset("wages").release(to="bob", privacy=0.9).write(path)
    assert got == path.read_bytes()


def test_ranges_etags_and_304(served):
    with served.client("ann") as ann:
        whole = ann.get(COPY)
        part = ann.get(COPY, headers={"Range": "bytes=100-199"})
        assert part.status_code == 206
        assert part.content == whole.content[100:200]
        tag = whole.headers["etag"]
        assert ann.get(COPY, headers={"If-None-Match": tag}).status_code == 304
        resumed = ann.get(COPY, headers={"Range": "bytes=50-", "If-Range": tag})
        assert resumed.content == whole.content[50:]
        known = ann.get(COPY, headers={"If-None-Match": f'"other", W/{tag}'})
        assert (known.status_code, known.content) == (304, b"")
        other = ann.get(COPY, headers={"Range": "bytes=50-", "If-Range": '"other"'})
        assert other.content == whole.content
        for path in served.cached:
            path.unlink()  # the cache may forget
        assert ann.get(COPY).headers["etag"] == tag
        assert ann.get(COPY).content == whole.content


def test_fifty_first_requests_make_a_copy_once(served, monkeypatch):
    bodies, made, make = [], [], Release.make

    def counted(self, path, **more):
        made.append(path)
        make(self, path, **more)

    monkeypatch.setattr(Release, "make", counted)

    def one():
        with served.client("ann") as ann:
            bodies.append(ann.get(COPY).content)

    threads = [threading.Thread(target=one) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(bodies) == 50
    assert len(set(bodies)) == 1
    assert len(made) == 1


LITTLE = 80_000


@pytest.mark.service(cache_bytes=LITTLE)
def test_the_cache_is_bounded_and_forgets_the_oldest(served):
    def size():
        return sum(path.stat().st_size for path in served.cached)

    sizes = []
    with served.client("ann") as ann:
        first = ann.get(COPY)
        sizes = [len(ann.get(COPY, params={"format": f}).content) for f in ("csv", "arrow")]
        assert sum(sizes) + len(first.content) > LITTLE > max(sizes)
        # a copy is in use until its last byte has left
        assert until(size, lambda size: size <= LITTLE) > 0
        assert not [path for path in served.cached if path.suffix == ".parquet"]
        assert ann.get(COPY).content == first.content


def test_a_full_cache_is_listed_once_and_keeps_what_another_process_uses(tmp_path, monkeypatch):
    """Files of 100 bytes; at most 40 of them. The next look is after a sixteenth of the limit."""
    listed, files = [], cache_module._files
    monkeypatch.setattr(cache_module, "_files", lambda f: listed.append(f) or files(f))
    for n in range(40):
        (tmp_path / f"{n:040}.csv").write_bytes(b"0" * 100)
        os.utime(tmp_path / f"{n:040}.csv", (n, n))
    cache = cache_module.Cache(tmp_path, 4000)

    async def use(names):
        for name in names:
            async with cache.file(name, lambda path, _: path.write_bytes(b"1" * 100)):
                pass

    asyncio.run(use(["1" * 40 + ".csv"]))
    os.utime(tmp_path / f"{1:040}.csv")  # another process reads it
    asyncio.run(use(["2" * 40 + ".csv", *(f"{n:040}.csv" for n in range(9, 40))]))
    assert len(listed) == 1
    kept = {path.name for path in tmp_path.glob("*.csv")}
    assert len(kept) == 40
    assert f"{1:040}.csv" in kept
    assert not {f"{n:040}.csv" for n in (0, 2)} & kept
    asyncio.run(use([f"new {n}.csv" for n in range(3)]))
    assert len(listed) == 2


def test_two_copies_are_made_at_a_time_and_the_others_wait(served, monkeypatch):
    both, make, at_work = threading.Barrier(2), Release.make, []

    def slow(self, path, **more):
        at_work.append(path)
        assert len(at_work) <= 2
        both.wait(20)  # breaks if a copy is made alone
        make(self, path, **more)
        at_work.remove(path)

    monkeypatch.setattr(Release, "make", slow)
    with served.client("ann") as ann:
        formats = ("csv", "arrow", "parquet", "csv.gz")
        with ThreadPoolExecutor(4) as pool:
            got = list(pool.map(lambda f: ann.get(COPY, params={"format": f}), formats))
    assert [each.status_code for each in got] == [200] * 4


def test_revoking_ends_at_once_and_the_ledger_stays(served):
    with served.client("ann") as ann:
        assert ann.get(COPY).status_code == 200
        served.sharing.revoke("wages", "ann")
        assert ann.get(COPY).status_code == 404
        assert ann.get("/v1/datasets").json()[0]["name"] != "wages"
    assert recipients(served) == ["ann"]
    assert served.sharing.vault.dataset("wages").coalition(["ann"]).best_privacy == 0.5


def test_a_changed_source_is_a_conflict_and_nothing_leaves(served, capsys):
    changed = pa.table({"wage": [float(i % 7) for i in range(3000)]})
    pq.write_table(changed, served.folder / "wages.parquet")
    with served.client("ann") as ann:
        got = ann.get(COPY)
    assert got.status_code == 409
    assert got.json()["errorCode"] == "SOURCE_CHANGED"
    assert str(served.folder) not in got.text
    assert recipients(served) == []


def test_requests_for_a_better_level(served):
    with served.client("bob") as bob, served.client("ann") as ann:
        asked = bob.post("/v1/requests", json={"dataset": "wages", "privacy": 0.7, "reason": "x"})
        assert asked.status_code == 201
        [open_] = served.sharing.requests()
        [alone] = served.sharing.foreseen(open_)
        assert (alone.members, alone.before, alone.loses) == (("bob",), 1.0, True)
        assert alone.after == pytest.approx(0.7)
        ann.get(COPY)  # she has 0.5, so bob's copy changes nothing for the two of them
        alone, pair = served.sharing.foreseen(open_)
        assert (pair.members, pair.loses) == (("bob", "ann"), False)
        assert served.sharing.foreseen(open_, privacy=0.4)[1].after == pytest.approx(0.4)
        served.sharing.answer(open_.id, privacy=0.8)
        assert bob.get("/v1/requests").json()[0]["state"] == "approved"
        assert bob.get("/v1/datasets/wages").json()["privacy"] == pytest.approx(0.8)


def test_lists_come_in_pages_that_lead_to_the_next(served, monkeypatch):
    monkeypatch.setattr("cornerwave.ledger._records.MOST_ON_PAGE", 3)
    with served.client("ann") as ann:
        for n in range(7):
            ann.post("/v1/requests", json={"dataset": f"d{n}", "privacy": 0.5}).raise_for_status()
        seen, address = [], "/v1/requests"
        while address:
            answer = ann.get(address)
            seen.append([each["dataset"] for each in answer.json()])
            address = answer.links.get("next", {}).get("url")
        assert seen == [["d6", "d5", "d4"], ["d3", "d2", "d1"], ["d0"]]
        assert ann.get("/v1/requests?page=4").json() == []
        assert ann.get("/v1/requests?page=0").status_code == 400
    profile = Profile.read(served.profile("ann"))
    assert [each.dataset for each in profile.asked()] == [f"d{n}" for n in range(7)]
    granted = [each.name for each in profile.datasets()]
    monkeypatch.setattr("cornerwave.ledger._records.MOST_ON_PAGE", 1)
    assert [each.name for each in profile.datasets()] == granted


def test_asking_does_not_reveal_what_exists(served):
    with served.client("bob") as bob:
        answers = [
            bob.post("/v1/requests", json={"dataset": name, "privacy": 0.9995}).json()
            for name in ("odd table", "even table")  # the one is there, the other is not
        ]
        assert bob.get("/v1/requests").json() == answers[::-1]
    for answer in answers:
        del answer["id"], answer["at"], answer["dataset"]
    assert answers[0] == answers[1]
    hidden, nothing = served.sharing.requests()
    with pytest.raises(LevelError):
        served.sharing.answer(hidden.id)
    with pytest.raises(NoSuchDataset, match="even table"):
        served.sharing.answer(nothing.id)
    served.sharing.answer(hidden.id, privacy=0.1)
    with served.client("bob") as bob:
        assert bob.get("/v1/datasets/odd table").status_code == 200


def test_a_recipient_has_so_many_open_requests(served):
    for i in range(20):
        served.sharing.ask("bob", f"table {i}", privacy=0.5)
    asked = {"dataset": "wages", "privacy": 0.7}
    with served.client("bob") as bob, served.client("ann") as ann:
        refused = bob.post("/v1/requests", json=asked)
        assert (refused.status_code, refused.json()["errorCode"]) == (429, "TOO_MANY_REQUESTS")
        assert ann.post("/v1/requests", json=asked).status_code == 201
        served.sharing.answer(served.sharing.requests()[0].id, decline=True)
        assert bob.post("/v1/requests", json=asked).status_code == 201


def test_approving_keeps_the_end_and_the_bounds_of_the_grant(served):
    until = "2999-01-31T00:00:00.000+00:00"
    served.sharing.grant("odd table", "ann", privacy=0.1, until=until, clip={"wage": (0, 9)})
    before = served.sharing.grants(recipient="ann")[-1]
    for privacy, ends in ((0.08, None), (0.06, "2998-01-31")):
        asked = served.sharing.ask("ann", "odd table", privacy=privacy)
        served.sharing.answer(asked.id, until=ends)
        grant = served.sharing.permitted("ann")[before.dataset]
        assert grant.spec.level < before.spec.level
        assert grant.spec.finish == before.spec.finish
        assert grant.until[:10] == (ends or until)[:10]


def test_of_two_answers_at_once_one_counts(served):
    asked = served.sharing.ask("bob", "wages", privacy=0.3)

    class Late(type(served.sharing)):
        def requested(self, request):
            served.sharing.answer(request.id, decline=True)  # meanwhile, by somebody else
            return super().requested(request)

    with pytest.raises(VaultError, match="no open request"):
        Late(served.sharing.vault).answer(asked.id)
    [grant] = served.sharing.grants(recipient="bob")
    assert served.sharing.vault.dataset("wages").privacy_of(grant.spec.level) == 0.9


def test_a_recipient_asks_and_the_owner_answers_with_commands(served):
    profile, vault = str(served.profile("ann")), ["--vault", str(served.folder / "vault")]

    def run(*words):
        return typer.testing.CliRunner().invoke(cli.app, list(words))

    def owner(*words):
        return run("requests", *words, *vault)

    for privacy, reason in (("0.4", "trial"), ("0.3", "more")):
        asked = run("request", profile, "wages", "--privacy", privacy, "--reason", reason)
        assert asked.exit_code == 0
    first, second = served.sharing.requests()
    with served.client("bob") as bob:
        bob.get(COPY)
    listed = owner("wages").output
    assert all(word in listed for word in (first.id, "ann and bob", "90.0%", "40.0%", "trial"))
    assert first.id not in owner("open").output
    [shown, _] = json.loads(owner("--json").output)
    pair = {"members": ["ann", "bob"], "before": 0.9, "after": 0.4}
    assert (shown["coalitions"][1], shown["reason"]) == (pair, "trial")
    for wrong in (["--approve", first.id, "--decline", first.id], ["--approve", "x"],
                  ["--decline", first.id, "--privacy", "0.5"]):  # fmt: skip
        assert isinstance(owner(*wrong).exception, VaultError)
    output = owner("--approve", first.id, "--privacy", "0.45", "--until", "2999-01-01").output
    assert "45.0%" in output
    owner("--decline", second.id, "--words", "not now")
    assert "not now" in owner("--all").output
    assert first.id not in owner().output
    [grant] = [g for g in served.sharing.grants(recipient="ann") if g.until]
    assert served.sharing.vault.dataset("wages").privacy_of(grant.spec.level) == pytest.approx(0.45)
    mine = run("request", profile).output
    assert all(word in mine for word in ("wages", "approved", "declined", "not now"))


def test_fetch_resumes_and_opens(served):
    profile = served.profile("ann")
    with pytest.raises(NoSuchDataset, match="name the dataset"):
        fetch(profile, out=served.folder / "a.parquet")
    path = fetch(profile, "wages", out=served.folder / "a.parquet")
    whole = path.read_bytes()
    with pytest.raises(OutputError, match="exists"):
        fetch(profile, "wages", out=path)
    part = served.folder / ".b.parquet.part"
    part.write_bytes(whole[:1000])
    with served.client("ann") as ann:
        tag = ann.head(COPY).headers["etag"]
    (served.folder / ".b.parquet.part.etag").write_text(tag)
    read = []
    fetch(profile, "wages", out=served.folder / "b.parquet", progress=read.append)
    assert (served.folder / "b.parquet").read_bytes() == whole
    assert read[0] == 999
    part.write_bytes(whole)  # killed before it got its name
    (served.folder / ".b.parquet.part.etag").write_text(tag)
    fetch(profile, "wages", out=served.folder / "b.parquet", force=True, progress=read.append)
    assert (served.folder / "b.parquet").read_bytes() == whole
    assert read[-1] == 1
    part.write_bytes(b"of another copy")
    (served.folder / ".b.parquet.part.etag").write_text('"other"')
    fetch(profile, "wages", out=served.folder / "b.parquet", force=True)
    assert (served.folder / "b.parquet").read_bytes() == whole
    mined, direct = open_copy(profile, "wages"), Copy.open(pq.read_table(io.BytesIO(whole)))
    assert mined.mean()["wage"] == direct.mean()["wage"]
    served.sharing.remove("ann")
    with pytest.raises(AccessDenied):
        fetch(profile, "wages", out=served.folder / "c.parquet")


@pytest.mark.parametrize("name", ["2026/q1", "a/copy", "ä.x ?#%2F"])
def test_a_dataset_of_any_name_is_fetched(served, name):
    served.sharing.vault.dataset("wages").rename(name)
    with served.client("ann") as ann:
        address = f"/v1/datasets/{quote(name, safe='')}"
        got = ann.get(f"{address}/copy")
        assert got.status_code == 200
        assert "/" not in got.headers["content-disposition"]
        if not name.endswith("/copy"):
            assert ann.get(address).json()["name"] == name
    path = fetch(served.profile("ann"), name, out=served.folder / "a.parquet")
    assert path.read_bytes() == got.content


def test_the_access_log_names_who_and_no_secret(served):
    with served.client("ann") as ann:
        size = len(ann.get(COPY).content)
    lines = served.logged(lambda lines: len(lines) == 2)
    assert {(line.what, line.outcome, line.bytes) for line in lines} == {
        ("copy of wages as parquet", "begun", 0),
        ("GET /v1/datasets/wages/copy", "200", size),
    }
    assert {line.who.split()[0] for line in lines} == {"ann"}
    text = repr(lines)
    assert served.tokens["ann"] not in text
    assert served.tokens["ann"].split("_")[2] not in text


def test_an_owner_adds_grants_looks_and_ends_with_commands(served):
    vault = ["--vault", str(served.folder / "vault")]

    def run(*words):
        return typer.testing.CliRunner().invoke(cli.app, [*words, *vault])

    run("recipient", "add", "lab/1", "--note", "ask for Kim")
    run("grant", "wages", "lab/1", "--privacy", "0.6", "--until", "2999-01-01")
    served.tokens["lab"] = run("token", "lab/1", "--days", "2").output.split()[-1]
    id = served.tokens["lab"].split("_")[1]
    with served.client("lab") as lab:
        assert lab.get(COPY).status_code == 200
        assert json.loads(run("recipient", "list", "--json").output)["lab/1"] == [
            {"dataset": "wages", "privacy": 0.6, "noise": pytest.approx(1.5), "until": ANY}
        ]
        used = json.loads(run("recipient", "show", "lab/1", "--json").output)["tokens"]
        assert [(token["id"], token["state"]) for token in used] == [(id, "live")]
        lines = json.loads(run("log", "--who", "LAB", "--json").output)
        assert "copy of wages as parquet" in [line["what"] for line in lines]
        assert "copy of wages" in run("log", "--lines", "5").output
        assert "copy of wages" not in run("log", "--who", "eve").output
        unknown = run("recipient", "show", "lab/2")
        assert isinstance(unknown.exception, NoSuchRecipient)
        assert "did you mean 'lab/1'" in str(unknown.exception)
        run("revoke", "wages", "lab/1")
        assert lab.get(COPY).status_code == 404
        assert "ended" in run("recipient", "show", "lab/1").output
        assert lab.get("/v1/datasets").status_code == 200
        run("token", "lab/1", "--end", id)
        assert lab.get("/v1/datasets").status_code == 401
    run("recipient", "remove", "lab/1")
    assert "lab/1" not in run("recipient", "list").output
    assert recipients(served) == ["lab/1"]  # the ledger keeps what was fetched
    for wrong in (["token", "eve", "--end", id], ["token", "eve", "--days", "1000"],
                  ["recipient", "add", "The Owner"]):  # fmt: skip
        assert isinstance(run(*wrong).exception, VaultError)
