"""A table that gets a new edition while it is served: recipients fetch the last one."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cornerwave.miner import fetch
from tests.server.conftest import ROWS

COPY = "/v1/datasets/wages/copy"
TABLE = "/delta-sharing/shares/cornerwave/schemas/copies/tables/wages"
MORE = 500


def append(served):
    path = served.folder / "more.parquet"
    pq.write_table(pa.table({"wage": np.random.default_rng(5).normal(size=MORE)}), path)
    served.sharing.vault.dataset("wages").append(path)


def version_of(client):
    versions = {
        client.get(f"{TABLE}/version").headers["delta-table-version"],
        client.head(TABLE).headers["delta-table-version"],
        client.post(f"{TABLE}/query").headers["delta-table-version"],
    }
    lines = client.get(f"{TABLE}/metadata").text.splitlines()
    versions.add(str(json.loads(lines[1])["metaData"]["version"]))
    [version] = versions
    return version


def test_a_new_edition_is_what_everybody_fetches_from_then_on(served):
    profile, old = served.profile("ann"), served.folder / "old.parquet"
    with served.client("ann") as ann:
        fetch(profile, "wages", out=old)
        tag = ann.head(COPY).headers["etag"]
        assert version_of(ann) == "0"
        append(served)
        assert version_of(ann) == "1"
        described = ann.get("/v1/datasets/wages").json()
        assert (described["edition"], described["rows"]) == (2, ROWS + MORE)
        again = ann.get(COPY, headers={"If-None-Match": tag})
        assert again.status_code == 200  # a copy has one ETag for ever, and this is another copy
        whole = ann.get(COPY, headers={"Range": "bytes=50-", "If-Range": tag})
        assert whole.content == again.content  # no piece of one edition is added to another's
    new = pq.read_table(fetch(profile, "wages", out=served.folder / "new.parquet"))
    before = pq.read_table(old)["wage"]
    assert new["wage"].slice(0, ROWS).equals(before)
    assert len(new) == ROWS + MORE
    held = served.sharing.vault.dataset("wages").holdings
    assert sorted(each.spec.edition for each in held) == [1, 2]


@pytest.mark.parametrize(
    "body",
    [{"version": 0}, {"version": 7}, {"startingVersion": 0}, {"timestamp": "2026-01-01T00:00:00Z"}],
)
def test_earlier_versions_are_refused(served, body):
    append(served)
    with served.client("ann") as ann:
        for refused in (
            ann.post(f"{TABLE}/query", json=body),
            ann.get(f"{TABLE}/metadata", params=body),
        ):
            assert refused.status_code == 400
            assert "last version, 1" in refused.json()["message"]
        hints = {"version": 1, "limitHint": 3, "predicateHints": ["wage > 1"]}
        assert ann.post(f"{TABLE}/query", json=hints).status_code == 200
        for nonsense in (b"[]", b"{", b"[" * 9000, b"\xff"):
            assert ann.post(f"{TABLE}/query", content=nonsense).status_code == 400
