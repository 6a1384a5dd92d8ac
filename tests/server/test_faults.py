"""Faults on purpose: what fails gives a clear status, and never a partial or wrong copy."""

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

from cornerwave.access import Sharing
from cornerwave.errors import VaultError
from cornerwave.server import ClientLimits, application
from cornerwave.server._service import Grouped
from cornerwave.vault import Dataset, Release, Vault
from tests.server.conftest import serving
from tests.waiting import SECONDS, until

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
        got = ann.get(COPY)
        assert (got.status_code, got.json()["errorCode"]) == (503, "TEMPORARILY_UNAVAILABLE")


def test_the_cache_may_be_deleted_while_a_holding_is_recorded(served, monkeypatch):
    cache, true, begun = served.folder / "vault" / "cache", Dataset.hold, []

    def hold(dataset, lines):
        true(dataset, lines)
        begun.append(lines)
        if len(begun) == 1:
            shutil.rmtree(cache)

    monkeypatch.setattr(Dataset, "hold", hold)
    with served.client("ann") as ann:
        first, again = ann.get(COPY), ann.get(COPY)
    assert (first.status_code, first.content) == (200, again.content)
    assert holders(served) == ["ann"]


@pytest.mark.service(cache_bytes=1)
def test_a_copy_on_its_way_is_not_removed_by_another_process(served, monkeypatch):
    vault, true, begun = Vault.open(served.folder / "vault"), Dataset.hold, []
    with serving(application(vault, cache_bytes=1)) as beside, served.client("ann") as ann:

        def hold(dataset, lines):
            begun.append(lines)
            if len(begun) == 1:  # the copy is made, and nothing of it has left
                got = httpx.get(f"{beside}{COPY}?format=csv", headers=ann.headers, timeout=60)
                assert got.status_code == 200
            true(dataset, lines)

        monkeypatch.setattr(Dataset, "hold", hold)
        assert ann.get(COPY).status_code == 200
        assert len(begun) == 2
    assert until(lambda: served.cached, lambda files: len(files) <= 1) is not None


@pytest.mark.service(health_seconds=0.2)
def test_health_is_answered_while_the_ledger_is_locked(served, monkeypatch):
    if not (served.folder / "vault" / "ledger.db").exists():
        pytest.skip("a lock on the file of SQLite")
    asked, true = [], Vault.states
    monkeypatch.setattr(Vault, "states", lambda self, ids: asked.append(ids) or true(self, ids))
    place = served.folder / "vault" / "ledger.db"
    with closing(sqlite3.connect(place, timeout=60)) as other, served.client() as client:
        client.timeout = 20
        until(lambda: client.get("/healthz").status_code, lambda status: status == 200)
        served.sharing.add("somebody new")  # what was read before is no longer current
        other.execute("BEGIN EXCLUSIVE")
        asked.clear()
        for _ in range(3):
            got = client.get("/healthz")
            assert (got.status_code, got.headers["retry-after"]) == (503, "5")
        assert len(asked) == 1  # for all who ask
        other.rollback()
        until(lambda: client.get("/healthz").status_code, lambda status: status == 200)


# --- while a copy is made -------------------------------------------------------------------


METADATA = "/delta-sharing/shares/cornerwave/schemas/copies/tables/wages/metadata"


@pytest.mark.parametrize("ends", ["grant", "token", "nothing"])
@pytest.mark.parametrize(("method", "address"), [("GET", COPY), ("HEAD", COPY), ("GET", METADATA)])
def test_nothing_leaves_if_permission_ends_while_the_copy_is_made(
    served, monkeypatch, method, address, ends
):
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
        got = ann.request(method, address)
    if ends == "nothing":  # the control: the same way lets a copy out
        assert got.status_code == 200
        assert holders(served) == (["ann"] if (method, address) == ("GET", COPY) else [])
    else:
        assert got.status_code == 401
        assert method == "HEAD" or got.json()["errorCode"] == "UNAUTHENTICATED"
        assert holders(served) == []


def test_first_delta_queries_at_once_convert_once(served, monkeypatch):
    calls, true = [], pq.ParquetWriter
    with served.client("ann") as ann:
        ann.get("/v1/datasets/odd table/copy")  # as it is
        monkeypatch.setattr(pq, "ParquetWriter", lambda *g, **m: calls.append(g) or true(*g, **m))
        texts = all_at_once(lambda: ann.post(QUERY).text, 8)
    assert len(calls) == 1
    sizes = {json.loads(text.splitlines()[-1])["file"]["size"] for text in texts}
    [offered] = (served.folder / "vault" / "cache").glob("*.delta.parquet")
    assert sizes == {offered.stat().st_size}


@pytest.mark.parametrize("others", [0, 1])
def test_a_client_that_goes_away_ends_the_making(served, monkeypatch, others):
    """One that stays, or comes meanwhile, gets its copy."""
    began, ended, true = threading.Event(), [], Release.make

    def make(release, path, *, progress):
        began.set()
        deadline = time.monotonic() + (SECONDS if not others else 1.0)
        try:
            while time.monotonic() < deadline:
                progress(1)  # raises when nobody waits any more
            true(release, path, progress=progress)
        finally:
            ended.append(path.exists())

    monkeypatch.setattr(Release, "make", make)
    with served.client("ann") as goes, served.client("ann") as stays:
        goes.timeout = httpx.Timeout(SECONDS, read=0.5)
        got = []
        staying = threading.Thread(target=lambda: got.append(stays.get(COPY).status_code))
        if others:
            staying.start()
            assert began.wait(SECONDS)
        with pytest.raises(httpx.ReadTimeout):
            goes.get(COPY)
        assert until(lambda: ended) == [bool(others)]
        if others:
            staying.join()
            assert got == [200]
        else:
            assert served.cached == []
            assert not list((served.folder / "vault" / "cache").glob("work/*/*"))
        monkeypatch.setattr(Release, "make", true)
        assert stays.get(COPY).status_code == 200


@pytest.mark.slow
def test_a_cache_that_made_and_forgot_many_copies_keeps_few_files(served, monkeypatch):
    """Locks cannot be removed while others may wait for them, so there is a bounded number."""
    monkeypatch.setattr(Release, "make", lambda _self, path, **_: path.write_bytes(b"x" * 100))
    vault = served.sharing.vault
    app = application(vault, cache_bytes=2000, limits=ClientLimits(chunk_bytes=1000))
    carried = {"Authorization": f"Bearer {served.tokens['ann']}"}
    with serving(app) as url, httpx.Client(base_url=url, headers=carried, timeout=60) as ann:
        for thousandth in range(1, 301):
            served.sharing.grant("wages", "ann", privacy=thousandth / 1000)
            assert ann.get(COPY).status_code == 200
        until(lambda: len(served.cached), lambda count: count <= 20)
    locks = list((served.folder / "vault" / "cache").glob("*.lock"))
    assert 100 < len(locks) <= 256


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


def test_holdings_of_many_are_written_in_few_groups_and_fail_together(served, monkeypatch):
    groups, failing, asked = [], threading.Event(), threading.Semaphore(0)
    true, write = Dataset.hold, Grouped.write
    with served.client("ann") as ann:
        assert ann.get(COPY).status_code == 200  # it is made

        def hold(dataset, lines):
            if not groups:
                for _ in range(20):  # until all of them have come
                    assert asked.acquire(timeout=SECONDS)
            groups.append(lines)
            if failing.is_set():
                raise VaultError("not written")
            true(dataset, lines)

        async def counted(*given):
            asked.release()
            await write(*given)

        monkeypatch.setattr(Dataset, "hold", hold)
        monkeypatch.setattr(Grouped, "write", counted)
        for status in (503, 200):
            groups.clear()
            failing.set() if status == 503 else failing.clear()
            found = all_at_once(lambda: ann.get(COPY).status_code, 20)
            assert found == [status] * 20
            assert sum(map(len, groups)) == 20
            assert len(groups) <= 2  # the first, and all that came while it waited


@pytest.mark.parametrize("path", ["/v1/datasets/a%00b", "/%ff%fe", "/v1/%f0%9f%98%80%0a%1b[2J"])
def test_no_address_keeps_the_access_log_from_being_written(served, path):
    with served.client() as nobody:
        assert nobody.get(path).status_code == 404
    [line] = served.logged()
    assert line.outcome == "404"
    assert line.what.isprintable()


# --- while a copy is sent -------------------------------------------------------------------


@pytest.mark.service(chunk_bytes=1000, check_seconds=-1)  # each piece that is sent is checked
@pytest.mark.parametrize("ends", ["grant", "token", "clock", "nothing"])
def test_a_download_is_cut_off_when_its_permission_ends(served, monkeypatch, ends):
    checks, true = [], Sharing.permitted_by

    def check(sharing, *given):
        checks.append(given)
        if len(checks) == 5 and ends == "grant":
            served.sharing.revoke("wages", "ann")
        if len(checks) == 5 and ends == "token":
            served.sharing.end_token("ann", served.sharing.tokens("ann")[0].id)
        if len(checks) == 5 and ends == "clock":
            served.clock.ahead = timedelta(days=2)
        return true(sharing, *given)

    monkeypatch.setattr(Sharing, "permitted_by", check)
    with served.client("ann") as ann:
        if ends == "nothing":
            assert ann.get(COPY).status_code == 200
            return
        with pytest.raises(httpx.RemoteProtocolError):  # fewer bytes than were announced
            ann.get(COPY)
        assert len(checks) == 5
        assert ann.get(COPY).status_code in (401, 404)
    assert holders(served) == ["ann"]  # the first bytes have left
    served.logged(lambda lines: "cut off" in {line.outcome for line in lines})


def test_a_clock_that_jumps_opens_nothing_and_ends_what_has_ended(served):
    false = {"Authorization": "Bearer cw_x"}
    with served.client("ann") as ann, served.client() as guesser:
        for ahead, status in ((0, 200), (2, 401), (-2, 200), (0, 200)):
            served.clock.ahead = timedelta(days=ahead)
            assert ann.get(COPY).status_code == status, ahead
        # how often somebody guesses is counted by a clock that does not jump
        for _ in range(25):
            last = guesser.get("/v1/datasets", headers=false).status_code
        assert last == 429
        served.clock.ahead = timedelta(hours=1)
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
        clashing = {n for n in found if n.startswith("a_b")}
        assert clashing == {f"a_b_{vault.dataset(n).id[:8]}" for n in ("a b", "a_b")}
        schema = "/delta-sharing/shares/cornerwave/schemas/copies/tables"
        for name in clashing:
            text = eve.post(f"{schema}/{name}/query").text
            address = json.loads(text.splitlines()[-1])["file"]["url"]
            assert eve.get(address).status_code == 200
            assert found[name] == json.loads(text.splitlines()[1])["metaData"]["id"]
        assert eve.get(f"{schema}/a_b/metadata").status_code == 404  # neither of the two


def test_a_fault_in_a_route_is_reported_without_its_words(served, capfd):
    def broken() -> None:
        raise ValueError("SECRET-0001")

    served.app.add_api_route("/broken", broken)
    with served.client() as client:
        got = client.get("/broken")
    assert got.status_code == 503
    assert got.json()["errorCode"] == "INTERNAL"
    errors = capfd.readouterr().err
    assert "internal fault (ValueError)" in errors
    assert "broken" in errors
    assert "SECRET" not in got.text + errors
