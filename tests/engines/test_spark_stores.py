"""Copies that a cluster writes to S3, on Sail and moto: sent by machines, shown by the driver."""

import json

import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from cornerwave.errors import OutputError, OutputExists, SourceChanged
from cornerwave.outputs import read_metadata
from cornerwave.sources import open_source
from cornerwave.vault import write_all_spark
from tests import sail, stores
from tests.engines.everyone import CHOICES, LEVELS, by_key, changed, everyone

pytestmark = sail.KNOWN_WARNINGS


@pytest.fixture(scope="module")
def spark(s3):
    with sail.server(stores.environment(s3)) as url, sail.session(url) as session:
        yield session


@pytest.fixture
def dataset(vault, parquet):
    return vault.register("people", parquet, key="id", **CHOICES)


def files(bucket, folder):
    keys = bucket.keys()
    return [key for key in keys if key.startswith(f"{folder}/part-")]


def read(bucket, folder):
    parts = [pa.BufferReader(bucket.get(key)) for key in files(bucket, folder)]
    return pa.concat_tables([*map(papq.read_table, parts)])


def about(bucket, folder):
    return json.loads(bucket.get(f"{folder}/_copy.json"))


@pytest.mark.parametrize("by_frame", [pytest.param(True, marks=pytest.mark.slow), False])
def test_copies_in_s3_are_those_on_disk(spark, vault, dataset, parquet, bucket, tmp_path, by_frame):
    if by_frame:
        frame = spark.read.parquet(str(parquet)).repartition(4)
        dataset = vault.dataset("people", source=frame)
    releases = dataset.release_many(LEVELS)
    write_all_spark([(r, f"s3a://{bucket.name}/{r.recipient}") for r in releases], spark=spark)
    write_all_spark([(r, tmp_path / r.recipient) for r in releases], spark=spark)
    for release in releases:
        folder = release.recipient
        found, wanted = read(bucket, folder), papq.read_table(tmp_path / folder)
        if by_frame:
            found, wanted = by_key(found), by_key(wanted)
        assert found.equals(wanted, check_metadata=False)
        assert len(files(bucket, folder)) > 1
        names = [f"{folder}/{name}" for name in about(bucket, folder)["files"]]
        assert (about(bucket, folder)["state"], sorted(names)) == (
            "complete",
            files(bucket, folder),
        )
        opened = open_source(bucket.address(folder))
        assert sum(len(batch) for batch in opened.batches(["wage"])) == len(wanted)
        assert read_metadata(tmp_path / folder).noise == release.level.noise
    assert bucket.uploads() == []


def test_a_changed_cell_is_refused_and_nothing_is_left(spark, vault, dataset, bucket, tmp_path):
    other = tmp_path / "other.parquet"
    papq.write_table(changed(everyone()), other, row_group_size=300)
    moved = vault.dataset("people", source=other)
    with pytest.raises(SourceChanged, match="a value differs"):
        moved.release(to="near", noise=1.0).write_spark(bucket.address("copy"), spark=spark)
    assert (bucket.keys(), bucket.uploads()) == ([], [])
    assert dataset.holdings == []


def test_uploads_that_no_receipt_names_are_aborted(spark, dataset, bucket):
    """As those of a task that ran twice, or whose machine died."""
    late = {"Bucket": bucket.name, "Key": "copy/part-00000.parquet"}
    bucket.client.create_multipart_upload(**late)
    bucket.client.create_multipart_upload(**{**late, "Key": "copy2/part-00000.parquet"})
    dataset.release(to="near", noise=1.0).write_spark(bucket.address("copy"), spark=spark)
    assert bucket.uploads() == ["copy2/part-00000.parquet"]
    assert read(bucket, "copy").num_rows == dataset.rows


def test_what_is_there_is_replaced_by_force_alone(spark, dataset, bucket):
    release, place = dataset.release(to="near", noise=1.0), bucket.address("copy")
    release.write_spark(place, spark=spark)
    bucket.put("copy/part-99999.parquet", b"of a copy in more parts")
    with pytest.raises(OutputExists, match="replace it by force"):
        dataset.release(to="far", noise=4.0).write_spark(place, spark=spark)
    bucket.put("other/report.txt", b"something else")
    with pytest.raises(OutputExists, match="not a folder of a copy"):
        release.write_spark(bucket.address("other"), spark=spark, force=True)
    assert [held.recipient for held in dataset.holdings] == ["near"]
    dataset.release(to="far", noise=4.0).write_spark(place, spark=spark, force=True)
    assert "copy/part-99999.parquet" not in files(bucket, "copy")
    assert about(bucket, "copy")["state"] == "complete"
    assert read(bucket, "copy").num_rows == dataset.rows
    assert bucket.get("other/report.txt") == b"something else"


def test_of_two_writers_one_is_refused(spark, dataset, bucket, monkeypatch):
    """The second comes when the first has looked, and found nothing."""
    monkeypatch.setattr("cornerwave.outputs._folders.StoredFolder.check", lambda _: None)
    bucket.put("copy/_copy.json", b"of another")
    with pytest.raises(OutputExists, match="already exists"):
        dataset.release(to="near", noise=1.0).write_spark(bucket.address("copy"), spark=spark)
    assert bucket.keys() == ["copy/_copy.json"]


@pytest.mark.parametrize("shown", [0, 1])
def test_a_store_that_fails_halfway_shows_nothing(spark, dataset, bucket, monkeypatch, shown):
    from cornerwave.outputs import _folders as _stored_folder
    from cornerwave.sources import StoreRefused

    complete, done = _stored_folder.complete_upload, []

    def failing(address, *arguments, **options):
        if len(done) == shown:
            raise StoreRefused(503)
        done.append(complete(address, *arguments, **options))

    monkeypatch.setattr(_stored_folder, "complete_upload", failing)
    with pytest.raises(OutputError, match="answers 503"):
        dataset.release(to="near", noise=1.0).write_spark(bucket.address("copy"), spark=spark)
    assert (bucket.keys(), bucket.uploads()) == ([], [])


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("gs://bucket/copy", "a cluster writes to s3://"),
        ("postgresql://ada@localhost/db#copy", "is not a directory"),
        ("s3://no-such-bucket-4711/copy", "it is not there"),
    ],
)
def test_places_that_cannot_be_are_refused(spark, dataset, bucket, place, why):
    with pytest.raises(OutputError, match=why):
        dataset.release(to="near", noise=1.0).write_spark(place, spark=spark)
    assert dataset.holdings == []
