"""Faults on purpose: what fails gives a clear status, and never a partial or wrong copy."""

import asyncio
import hashlib
import json
import resource
import shutil
import sqlite3
import threading
import time
from contextlib import closing, contextmanager
from datetime import timedelta

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cornerwave.access import _permissions
from cornerwave.ledger import now
from cornerwave.server import _cache as _access_log
from cornerwave.server import _replies, _service
from cornerwave.server._cache import Abandoned, CopyCache
from cornerwave.vault import Release

COPY = "/v1/datasets/wages/copy"
QUERY = "/delta-sharing/shares/cornerwave/schemas/copies/tables/odd_table/query"


def holders(served, name="wages"):
    return [held.recipient for held in served.sharing.vault.dataset(name).holdings]


def all_at_once(work, count):
    """Run some work in threads that begin together; return what came of it."""
    found, gate = [], threading.Barrier(count)

    def run():
        gate.wait()
        found.append(work())

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


# --- the cache and the ledger ---------------------------------------------------------------


def test_the_cache_may_be_deleted_while_the_service_runs(served, monkeypatch):
    cache, true, made = served.folder / "vault" / "cache", Release.make, []
    with served.client("ann") as ann:
        first = ann.get(COPY)
        shutil.rmtree(cache)
        again = ann.get(COPY)
        assert (again.status_code, again.content) == (200, first.content)

        def make(release, path, **more):
            made.append(path)
            true(release, path, **more)
            if len(made) == 1:
                shutil.rmtree(cache)

        monkeypatch.setattr(Release, "make", make)
        shutil.rmtree(cache)
        again = ann.get(COPY)  # it went once more while the copy was being made
        assert (again.status_code, again.content, len(made)) == (200, first.content, 2)
        shutil.rmtree(cache)
        cache.write_text("in its place")  # the control: a cache that cannot be
        assert ann.get(COPY).status_code == 503


def test_health_is_answered_while_the_ledger_is_locked(served, monkeypatch):
    if not (served.folder / "vault" / "ledger.db").exists():
        pytest.skip("a lock on the file of SQLite")
    monkeypatch.setattr(_service, "HEALTH_SECONDS", 0.2)
    vault, asked = served.sharing.vault, []
    true = type(vault).states
    monkeypatch.setattr(
        type(vault), "states", lambda self, ids: asked.append(ids) or true(self, ids)
    )
    place = served.folder / "vault" / "ledger.db"
    with closing(sqlite3.connect(place, timeout=60)) as other, served.client() as client:
        client.timeout = 20
        assert client.get("/healthz").status_code == 200
        served.sharing.add("somebody new")  # what was read before is no longer current
        other.execute("BEGIN EXCLUSIVE")
        asked.clear()
        for _ in range(3):
            got = client.get("/healthz")
            assert (got.status_code, got.headers["retry-after"]) == (503, "5")
        assert len(asked) == 2  # once without waiting, and once in a thread: for all who ask
        other.rollback()
        monkeypatch.setattr(_service, "HEALTH_SECONDS", 20)
        assert client.get("/healthz").status_code == 200


# --- while a copy is made -------------------------------------------------------------------


@pytest.mark.parametrize("ends", ["grant", "token", "nothing"])
def test_nothing_leaves_if_permission_ends_while_the_copy_is_made(served, monkeypatch, ends):
    true = Release.make

    def make(release, path, **more):
        true(release, path, **more)
        if ends == "grant":
            served.sharing.revoke("wages", "ann")
        if ends == "token":
            [token] = served.sharing.tokens("ann")
            served.sharing.end_token("ann", token.id)

    monkeypatch.setattr(Release, "make", make)
    with served.client("ann") as ann:
        got = ann.get(COPY)
    if ends == "nothing":  # the control: the same way lets a copy out
        assert got.status_code == 200
        assert holders(served) == ["ann"]
    else:
        assert got.status_code == 401
        assert got.json()["errorCode"] == "UNAUTHENTICATED"
        assert holders(served) == []


def test_first_delta_queries_at_once_convert_once(served, monkeypatch):
    true, calls = _service.write_offered, []

    def write(*given):
        calls.append(given)
        true(*given)

    monkeypatch.setattr(_service, "write_offered", write)
    with served.client("ann") as ann:
        texts = all_at_once(lambda: ann.post(QUERY).text, 8)
    assert len(calls) == 1
    sizes = {json.loads(text.splitlines()[-1])["file"]["size"] for text in texts}
    [offered] = (served.folder / "vault" / "cache").glob("*.delta.parquet")
    assert sizes == {offered.stat().st_size}


def test_a_client_that_goes_away_ends_the_making(tmp_path):
    """One that stays, or comes meanwhile, gets its copy."""
    cache, path = CopyCache(tmp_path, 10**6), tmp_path / "key.csv"
    seen = []

    def make(part, watch):
        seen.append("began")
        for _ in range(200):
            time.sleep(0.005)
            watch(1)
        part.write_bytes(b"whole")

    async def one_leaves(others):
        waiting = [asyncio.create_task(cache.file(path, make)) for _ in range(1 + others)]
        await asyncio.sleep(0.1)
        waiting[0].cancel()
        return await asyncio.gather(*waiting, *cache._making.values(), return_exceptions=True)

    gone = asyncio.run(one_leaves(others=0))
    assert isinstance(gone[-1], Abandoned)
    assert (cache.made, path.exists(), seen) == (0, False, ["began"])
    assert not list(tmp_path.glob("work/*/*"))
    stays = asyncio.run(one_leaves(others=1))
    assert stays[1] == path
    assert (cache.made, path.read_bytes()) == (1, b"whole")


def test_a_cache_that_made_and_forgot_many_copies_keeps_few_files(tmp_path):
    """Locks cannot be removed while others may wait for them, so there is a bounded number."""
    cache = CopyCache(tmp_path, 10**4)

    async def make_all():
        for number in range(600):
            name = hashlib.sha256(str(number).encode()).hexdigest()[:40]
            await cache.file(tmp_path / f"{name}.csv", lambda path, _: path.write_bytes(b"x" * 100))
        cache._forget()

    asyncio.run(make_all())
    assert cache.made == 600
    assert len(list(tmp_path.glob("*.csv"))) == 100
    assert 200 < len(list(tmp_path.glob("*.lock"))) <= 256


def test_a_source_that_changes_between_two_requests(served):
    with served.client("ann") as ann, served.client("bob") as bob:
        first = ann.get(COPY)
        pq.write_table(pa.table({"wage": [1.0, 2.0, 3.0] * 1000}), served.folder / "wages.parquet")
        assert bob.get(COPY).status_code == 409  # at another level, so it would have to be made
        assert ann.get(COPY).content == first.content  # which never changes
    assert holders(served) == ["ann"]


@contextmanager
def largest_file(size):
    """No file may grow beyond some bytes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("address", [COPY, f"{COPY}?format=csv", "/v1/datasets/odd table/copy"])
def test_a_full_disk_is_temporary_and_leaves_nothing(served, address):
    with served.client("ann") as ann:
        with largest_file(5000):
            refused = ann.get(address)
        assert refused.status_code == 503
        assert refused.headers["retry-after"]
        assert str(served.folder) not in refused.text
        assert holders(served) == []
        cache = served.folder / "vault" / "cache"
        assert [path for path in cache.rglob("*") if path.is_file() and path.stat().st_size] == []
        assert ann.get(address).status_code == 200


def test_a_lost_database_is_temporary(served):
    ledger = served.folder / "vault" / "ledger.db"
    if not ledger.exists():
        pytest.skip("PostgreSQL is killed in test_killed.py")
    with served.client("ann") as ann:
        assert ann.get(COPY).status_code == 200
        ledger.rename(ledger.with_suffix(".away"))
        refused = ann.get(COPY)
        assert refused.status_code == 503
        assert "ledger" not in refused.text
        ledger.with_suffix(".away").rename(ledger)
        assert ann.get(COPY).status_code == 200


def test_what_is_written_together_is_written_in_few_groups_and_fails_together():
    groups = []

    def write(items):
        groups.append(items)
        time.sleep(0.02)
        if "false" in items:
            raise ValueError("not written")

    async def written():
        grouped = _access_log.Grouped(write)
        await asyncio.gather(*(grouped.write("true") for _ in range(20)))
        assert sum(map(len, groups)) == 20
        assert len(groups) < 10
        with pytest.raises(ValueError, match="not written"):
            await grouped.write("false")
        first, second = (asyncio.create_task(grouped.write(word)) for word in ("true", "gone"))
        await asyncio.sleep(0)
        second.cancel()  # a client goes away while its line waits
        await first
        await grouped.write("true")  # and goes on
        grouped.close()

    asyncio.run(written())


@pytest.mark.parametrize("path", ["/v1/datasets/a%00b", "/%ff%fe", "/v1/%f0%9f%98%80%0a%1b[2J"])
def test_no_address_keeps_the_access_log_from_being_written(served, path):
    with served.client() as nobody:
        assert nobody.get(path).status_code == 404
    deadline = time.monotonic() + 20
    while not (lines := served.sharing.accesses(1)):
        assert time.monotonic() < deadline
        served.app.state.service.log.flush()
    assert lines[0].outcome == "404"
    assert lines[0].what.isprintable()


# --- while a copy is sent -------------------------------------------------------------------


@pytest.mark.parametrize("ends", ["grant", "token", "clock", "nothing"])
def test_a_download_is_cut_off_when_its_permission_ends(served, monkeypatch, ends):
    monkeypatch.setattr(_replies.CopyResponse, "chunk_size", 1000)
    monkeypatch.setattr(_replies, "CHECK_SECONDS", -1)
    service, checks = served.app.state.service, []
    true = service.check_again

    def check(what):
        checks.append(what)
        if len(checks) == 5 and ends == "grant":
            served.sharing.revoke("wages", "ann")
        if len(checks) == 5 and ends == "token":
            served.sharing.end_token("ann", served.sharing.tokens("ann")[0].id)
        if len(checks) == 5 and ends == "clock":
            monkeypatch.setattr(_permissions, "now", lambda: now() + timedelta(days=2))
        true(what)

    monkeypatch.setattr(service, "check_again", check)
    with served.client("ann") as ann:
        if ends == "nothing":
            assert ann.get(COPY).status_code == 200
            return
        with pytest.raises(httpx.RemoteProtocolError):  # fewer bytes than were announced
            ann.get(COPY)
        assert len(checks) == 5
        assert ann.get(COPY).status_code in (401, 404)
    assert holders(served) == ["ann"]  # the first bytes have left
    monkeypatch.undo()
    ends_at = time.monotonic() + 20
    while "cut off" not in {line.outcome for line in served.sharing.accesses()}:
        assert time.monotonic() < ends_at
        service.log.flush()
    assert not service.cache._used.total()


def test_a_clock_that_jumps_opens_nothing_and_ends_what_has_ended(served, monkeypatch):
    with served.client("ann") as ann, served.client() as guesser:
        for ahead, status in ((0, 200), (2, 401), (-2, 200), (0, 200)):
            monkeypatch.setattr(
                _permissions, "now", lambda days=ahead: now() + timedelta(days=days)
            )
            assert ann.get(COPY).status_code == status, ahead
        # how often somebody guesses is counted by a clock that does not jump
        false = {"Authorization": "Bearer cw_x"}
        found = [guesser.get("/v1/datasets", headers=false).status_code for _ in range(25)]
        true = time.time
        monkeypatch.setattr(time, "time", lambda: true() + 3600)
        assert found[-1] == 429
        assert guesser.get("/v1/datasets", headers=false).status_code == 429


# --- names and faults -----------------------------------------------------------------------


def test_names_that_become_the_same_for_delta_sharing(served):
    vault, tables = served.sharing.vault, "/delta-sharing/shares/cornerwave/all-tables"
    for name, first in (("a b", 1.0), ("a_b", 5.0)):
        values = pa.table({"x": [first * (i * i % 97) for i in range(500)]})
        pq.write_table(values, served.folder / f"{name}.parquet")
        vault.register(name, served.folder / f"{name}.parquet", shuffle=True)
        served.sharing.grant(name, "eve", privacy=0.5)
    with served.client("eve") as eve:
        found = {each["name"]: each["id"] for each in eve.get(tables).json()["items"]}
        own = {n for n in found if n.startswith("a_b")}
        assert own == {f"a_b_{vault.dataset(n).id[:8]}" for n in ("a b", "a_b")}
        schema = "/delta-sharing/shares/cornerwave/schemas/copies/tables"
        for name in own:
            text = eve.post(f"{schema}/{name}/query").text
            address = json.loads(text.splitlines()[-1])["file"]["url"]
            assert eve.get(address).status_code == 200
            assert found[name] == json.loads(text.splitlines()[1])["metaData"]["id"]
        assert eve.get(f"{schema}/a_b/metadata").status_code == 404  # neither of the two


def test_a_fault_in_a_route_is_told_without_its_words(served, capfd):
    def broken() -> None:
        raise ValueError("SECRET-0001")

    served.app.add_api_route("/broken", broken)
    with served.client() as client:
        got = client.get("/broken")
    assert got.status_code == 503
    assert got.json()["errorCode"] == "INTERNAL"
    said = capfd.readouterr().err
    assert "internal fault (ValueError)" in said
    assert "broken" in said
    assert "SECRET" not in got.text + said
