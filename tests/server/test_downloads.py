"""Copies over plain HTTP: what leaves, to whom, and what the ledger says then."""

import io
import threading
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer.testing

from cornerwave import cli
from cornerwave.errors import AccessDenied, NoSuchDataset, OutputError
from cornerwave.miner import Copy, Profile, fetch, open_copy

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
        other = ann.get(COPY, headers={"Range": "bytes=50-", "If-Range": '"other"'})
        assert other.content == whole.content
        for path in (served.folder / "vault" / "cache").glob("*.parquet"):
            path.unlink()  # the cache may forget
        assert ann.get(COPY).headers["etag"] == tag
        assert ann.get(COPY).content == whole.content


def test_fifty_first_requests_make_a_copy_once(served):
    bodies = []

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
    assert served.app.state.service.cache.made == 1


def test_the_cache_is_bounded_and_forgets_the_oldest(served):
    cache = served.app.state.service.cache
    with served.client("ann") as ann:
        first = ann.get(COPY).content
        cache._limit = 2 * len(first)
        ann.get(COPY, params={"format": "csv"})
        ann.get(COPY, params={"format": "arrow"})
        ends = time.monotonic() + 10
        while _cached(served) > cache._limit and time.monotonic() < ends:
            time.sleep(0.05)  # a copy is in use until its last byte has left
        assert 0 < _cached(served) <= cache._limit
        assert ann.get(COPY).content == first


def _cached(served):
    folder = served.folder / "vault" / "cache"
    return sum(path.stat().st_size for path in folder.iterdir() if path.suffix != ".lock")


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
    with served.client("bob") as bob:
        asked = bob.post("/v1/requests", json={"dataset": "wages", "privacy": 0.7, "reason": "x"})
        assert asked.status_code == 201
        [open_] = served.sharing.requests()
        before, after = served.sharing.foreseen(open_)
        assert before is None
        assert after.joint_privacy == pytest.approx(0.7)
        served.sharing.answer(open_.id, privacy=0.8)
        assert bob.get("/v1/requests").json()[0]["state"] == "approved"
        assert bob.get("/v1/datasets/wages").json()["privacy"] == pytest.approx(0.8)
        hidden = bob.post("/v1/requests", json={"dataset": "odd table", "privacy": 0.7})
        assert hidden.status_code == 404


def test_a_recipient_asks_with_the_command(served, capsys):
    profile, run = str(served.profile("ann")), typer.testing.CliRunner().invoke
    asked = run(cli.app, ["request", profile, "odd table", "--privacy", "0.4", "--reason", "trial"])
    assert asked.exit_code == 0
    [open_] = served.sharing.requests()
    dataset = served.sharing.vault.dataset("odd table")
    assert dataset.privacy_of(open_.asked) == pytest.approx(0.4)
    assert open_.reason == "trial"
    served.sharing.answer(open_.id, decline=True, words="not now")
    listed = run(cli.app, ["request", profile]).output
    assert all(word in listed for word in ("odd table", "0.4", "declined", "not now"))
    with pytest.raises(NoSuchDataset):
        Profile.read(profile).ask("nothing", privacy=0.4)


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
    assert read[0] == 1000
    part.write_bytes(b"of another copy")
    (served.folder / ".b.parquet.part.etag").write_text('"other"')
    fetch(profile, "wages", out=served.folder / "b.parquet", force=True)
    assert (served.folder / "b.parquet").read_bytes() == whole
    mined, direct = open_copy(profile, "wages"), Copy.open(pq.read_table(io.BytesIO(whole)))
    assert mined.mean()["wage"] == direct.mean()["wage"]
    served.sharing.remove("ann")
    with pytest.raises(AccessDenied):
        fetch(profile, "wages", out=served.folder / "c.parquet")


def test_the_access_log_names_who_and_no_secret(served):
    with served.client("ann") as ann:
        ann.get(COPY)
    served.app.state.service.log.flush()
    lines = served.sharing.accesses()
    assert any(line.what == "copy of wages as parquet" and "ann" in line.who for line in lines)
    text = repr(lines)
    assert served.tokens["ann"] not in text
    assert served.tokens["ann"].split("_")[2] not in text
