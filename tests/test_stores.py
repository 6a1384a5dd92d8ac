"""Tables and copies in stores: streamed, pinned, published whole or not at all."""

import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather as paft
import pyarrow.fs as pafs
import pyarrow.parquet as papq
import pytest

from cornerwave.dictionary import write_dictionary
from cornerwave.errors import (
    CornerwaveError,
    ExtraMissing,
    OutputError,
    OutputExists,
    SourceChanged,
    SourceError,
    SourceLost,
)
from cornerwave.outputs import CopyFile, _uploads, read_metadata
from cornerwave.sources import _stores, open_source, place_of
from cornerwave.spec import CopyMetadata
from tests import stores
from tests.conftest import ledger_lines, make_people

PEOPLE = make_people(900)
COLUMNS = ["age", "wage", "height"]


@pytest.fixture
def site(tmp_path, monkeypatch):
    with stores.https_server(tmp_path, monkeypatch) as running:
        yield running


def written(table, ending):
    sink = io.BytesIO()
    if ending == "parquet":
        papq.write_table(table, sink, row_group_size=300)
    elif ending == "arrow":
        paft.write_feather(table, sink, compression="uncompressed")
    elif ending == "jsonl.gz":
        lines = "".join(f"{json.dumps(row, default=str)}\n" for row in table.to_pylist())
        return gzip.compress(lines.encode())
    else:
        pacsv.write_csv(table, sink)
    content = sink.getvalue()
    if ending == "csv.gz":
        return gzip.compress(content)
    if ending == "csv.zip":
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("people.csv", content)
        return packed.getvalue()
    return content


def rows(source):
    return pa.concat_tables(source.groups(source.schema.names, 200)).to_pydict()


def slowly(*values):
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


ENDINGS = ["parquet", "arrow", "csv", "csv.gz", "csv.zip", "jsonl.gz"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_in_s3_is_read(bucket, ending):
    address = bucket.put(f"in/people.{ending}", written(PEOPLE, ending))
    source = open_source(address)
    assert str(source.path) == address
    assert rows(source) == PEOPLE.to_pydict()


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("gives_parts", [True, *slowly(False)])
def test_a_file_on_the_web_is_read(site, ending, gives_parts):
    site.gives_parts = gives_parts
    site.files[f"/people.{ending}"] = written(PEOPLE, ending)
    assert rows(open_source(f"{site.address}/people.{ending}")) == PEOPLE.to_pydict()


def test_a_folder_in_s3_is_read_in_the_order_of_its_names(bucket):
    for year in (2024, 2023):
        part = PEOPLE.slice(0 if year == 2023 else 400, 400)
        bucket.put(f"all/year={year}/part.parquet", written(part, "parquet"))
    bucket.put("all/_SUCCESS", b"x")
    bucket.put("all-other/part.parquet", written(PEOPLE, "parquet"))
    found = rows(open_source(bucket.address("all")))
    assert found["id"] == PEOPLE["id"].to_pylist()[:800]
    assert found["year"] == [2023] * 400 + [2024] * 400


def test_a_large_file_is_read_in_parts(bucket, at_a_time, monkeypatch):
    at_a_time(READ_AHEAD=1 << 14, CSV_BLOCK=1 << 13)
    fetched = []
    part = _stores.StoredFile.part

    def counted(self, start, stop):
        fetched.append(stop - start)
        return part(self, start, stop)

    monkeypatch.setattr(_stores.StoredFile, "part", counted)
    content = written(make_people(12000), "csv")
    assert rows(open_source(bucket.put("people.csv", content))) == make_people(12000).to_pydict()
    assert fetched.count(1 << 14) > len(content) >> 14


@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv"])
def test_an_object_that_is_replaced_while_it_is_read_is_refused(bucket, ending, at_a_time):
    at_a_time(READ_AHEAD=1 << 12)
    address = bucket.put(f"people.{ending}", written(PEOPLE, ending))
    source = open_source(address)
    batches = source.batches(COLUMNS)
    bucket.put(f"people.{ending}", written(PEOPLE.slice(1), ending))
    with pytest.raises(SourceError, match="was replaced"):
        list(batches)


def test_a_file_that_is_replaced_on_the_web_is_refused(site):
    site.files["/people.parquet"] = written(PEOPLE, "parquet")
    source = open_source(f"{site.address}/people.parquet")
    site.files["/people.parquet"] = written(PEOPLE.slice(1), "parquet")
    with pytest.raises(SourceError, match="was replaced"):
        rows(source)


def test_a_file_without_a_version_is_read_at_once(site):
    """Parts that nothing tells apart could be those of two files; a download is one."""
    site.tells_versions = False
    site.files["/people.csv"] = written(PEOPLE, "csv")
    source = open_source(f"{site.address}/people.csv")
    del site.files["/people.csv"]
    assert rows(source) == PEOPLE.to_pydict()


def test_a_connection_that_breaks_halfway_is_tried_again_and_then_refused(site):
    site.files["/people.parquet"] = written(PEOPLE, "parquet")
    source = open_source(f"{site.address}/people.parquet")
    breaks = []

    def once(_):
        site.breaks_after = 10 if not breaks else None
        breaks.append(1)

    site.before = once
    assert rows(source) == PEOPLE.to_pydict()
    site.before, site.breaks_after = (lambda _: None), 10
    with pytest.raises(SourceLost, match="connection was lost"):
        rows(source)


def test_a_lost_connection_is_not_a_changed_table(site, vault):
    site.files["/people.csv"] = written(PEOPLE, "csv")
    dataset = vault.register("people", f"{site.address}/people.csv", drop=["id"])
    site.breaks_after = 10
    with pytest.raises(SourceLost):
        dataset.release(to="a", privacy=0.5).to_arrow()
    assert dataset.holdings == []


@pytest.mark.parametrize(
    "target", ["file:///etc/passwd", "http://localhost/x.csv", "ftp://localhost/x.csv", "data:,a"]
)
def test_a_redirect_leads_nowhere_but_to_https(site, target):
    site.redirects["/x.csv"] = target
    with pytest.raises(SourceError, match=r"leads away from https|cannot be read"):
        open_source(f"{site.address}/x.csv")


def test_a_redirect_to_https_is_followed(site):
    site.files["/there.csv"] = written(PEOPLE, "csv")
    site.redirects["/x.csv"] = f"{site.address}/there.csv"
    assert rows(open_source(f"{site.address}/x.csv")) == PEOPLE.to_pydict()


def test_a_signature_is_used_but_neither_kept_nor_shown(site, vault):
    site.files["/people.csv"] = written(PEOPLE, "csv")
    signed = f"{site.address}/people.csv?X-Signature=s3cr3t"
    dataset = vault.register("people", signed, drop=["id"])
    assert any("s3cr3t" in asked for asked in site.asked)
    assert "s3cr3t" not in repr(dataset._entry) + repr(dataset.source)
    del site.files["/people.csv"]
    with pytest.raises(CornerwaveError) as refused:
        vault.dataset("people").release(to="a", privacy=0.5).to_arrow()
    assert "s3cr3t" not in str(refused.value)
    with pytest.raises(CornerwaveError) as refused:
        open_source(signed)
    assert "s3cr3t" not in str(refused.value)


@pytest.mark.parametrize(
    "address",
    [
        "s3://KEY:xyzzy-plugh@bucket/x.csv",
        "https://user:xyzzy-plugh@host/x.csv",
        "https://xyzzy-plugh@host/x.csv",
        "gs://a:xyzzy-plugh@bucket/x.csv",
        "postgresql://ada:xyzzy-plugh@host/db",
        "postgresql://ada:xyzzy@plugh@host/db",
        "postgresql://ada:xyzzy/plugh@host/db",
        "postgresql://ada:1/xyzzy-plugh@host/db",
        "postgresql://ada:xyzzy#plugh@host/db",
        "postgresql://ada@host/db?password=xyzzy-plugh",
        "postgresql://ada@host/db?sslpassword=xyzzy-plugh",
        "postgresql://ada@host/db?passfile=/xyzzy-plugh",
        "postgresql://[xyzzy-plugh/db",
        "https://host:xyzzy-plugh/x.csv",
        "ftp://xyzzy:plugh@host/x.csv",
        "file:///xyzzy-plugh",
        "http://host/xyzzy-plugh.csv",
        "s3://xyzzy-plugh\n/x.csv",
    ],
)
def test_a_password_in_an_address_is_refused_and_not_repeated(address):
    with pytest.raises(SourceError) as refused:
        open_source(address)
    text = str(refused.value)
    assert not re.search("xyzzy|plugh", text)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


def test_what_a_store_refuses_is_told_without_its_words(bucket, monkeypatch):
    with pytest.raises(SourceError, match="there is no file"):
        open_source(bucket.address("nothing.csv"))
    with pytest.raises(SourceError, match=r"download it first"):
        open_source(bucket.put("people.xlsx", b"x"))
    with pytest.raises(SourceError, match="is empty, or no record"):
        open_source(bucket.put("people.csv", b""))
    for name in stores.ACCESS:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(SourceError, match="AWS_ACCESS_KEY_ID"):
        open_source(bucket.address("people.csv"))


def test_a_store_that_does_not_answer_is_told(bucket, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr(_stores, "ATTEMPTS", 1)
    with pytest.raises(SourceError, match="does not answer"):
        open_source(bucket.address("people.csv"))


def test_a_missing_package_is_named(monkeypatch):
    _stores._client_of.cache_clear()
    monkeypatch.setitem(sys.modules, "botocore", None)
    monkeypatch.setitem(sys.modules, "botocore.config", None)
    with pytest.raises(ExtraMissing, match=r"cornerwave\[cloud\]"):
        open_source("s3://bucket/people.csv")


# --- copies -----------------------------------------------------------------------------


@pytest.fixture
def dataset(vault, bucket):
    address = bucket.put("in/people.parquet", written(PEOPLE, "parquet"))
    return vault.register("people", address, drop=["id"])


@pytest.fixture
def small_parts(at_a_time, monkeypatch):
    monkeypatch.setattr("moto.s3.models.S3_UPLOAD_PART_MIN_SIZE", 1)  # 5 MiB in earnest
    at_a_time(UPLOAD_PART=1 << 12)


@pytest.mark.parametrize("ending", ["parquet", "csv", *slowly("arrow", "csv.gz")])
@pytest.mark.usefixtures("small_parts")
@pytest.mark.first(1)
def test_a_copy_in_s3_has_the_bytes_of_one_on_disk(dataset, bucket, ending, tmp_path):
    release = dataset.release(to="partner", privacy=0.5)
    place = release.write(bucket.address(f"out/copy.{ending}"))
    local = release.write(tmp_path / f"copy.{ending}")
    assert str(place) == bucket.address(f"out/copy.{ending}")
    assert bucket.get(f"out/copy.{ending}") == local.read_bytes()
    beside = [f"out/copy.{ending}.meta.json"] if "csv" in ending else []
    assert bucket.keys() == ["in/people.parquet", f"out/copy.{ending}", *beside]
    assert read_metadata(place_of(str(place))) == read_metadata(local)
    assert bucket.uploads() == []
    release.write(str(place))  # the same again is no matter
    with pytest.raises(OutputExists):
        dataset.release(to="partner", privacy=0.6).write(str(place))
    assert bucket.get(f"out/copy.{ending}") == local.read_bytes()
    other = dataset.release(to="partner", privacy=0.6)
    other.write(str(place), force=True)
    assert bucket.get(f"out/copy.{ending}") != local.read_bytes()


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_changed_source_is_refused_with_nothing_to_see(
    dataset, bucket, vault, ending, small_parts
):
    changed = PEOPLE.set_column(2, "wage", pa.array(np.append(PEOPLE["wage"][:-1], 1.0)))
    bucket.put("in/people.parquet", written(changed, "parquet"))
    before = ledger_lines(vault.path / "ledger.db")
    with pytest.raises(SourceChanged):
        vault.dataset("people").release(to="a", privacy=0.5).write(bucket.address(f"c.{ending}"))
    assert bucket.keys() == ["in/people.parquet"]
    assert bucket.uploads() == []
    assert ledger_lines(vault.path / "ledger.db") == before


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("beside", [True, False])
def test_somebody_faster_is_not_overwritten(dataset, bucket, monkeypatch, beside):
    """The object appears after our last look: S3 itself refuses ours, and nothing is left."""
    publish = CopyFile.publish

    def late(self):
        bucket.put("copy.csv", b"theirs")
        if beside:
            bucket.put("copy.csv.meta.json", b"theirs too")
        publish(self)

    monkeypatch.setattr(CopyFile, "publish", late)
    with pytest.raises(OutputExists):
        dataset.release(to="a", privacy=0.5).write(bucket.address("copy.csv"))
    assert bucket.get("copy.csv") == b"theirs"
    assert bucket.uploads() == []
    more = ["copy.csv.meta.json"] if beside else []
    assert bucket.keys() == ["copy.csv", *more, "in/people.parquet"]
    assert not beside or bucket.get("copy.csv.meta.json") == b"theirs too"


def test_metadata_of_another_copy_are_refused_before_anything_is_recorded(dataset, bucket):
    bucket.put("copy.csv.meta.json", b"{}")
    release = dataset.release(to="a", privacy=0.5)
    with pytest.raises(OutputExists, match=r"copy\.csv\.meta\.json"):
        release.write(bucket.address("copy.csv"))
    assert dataset.holdings == []
    release.write(bucket.address("copy.csv"), force=True)
    bucket.client.delete_object(Bucket=bucket.name, Key="copy.csv")
    release.write(bucket.address("copy.csv"))  # what a killed process may leave is no matter


def test_the_ledger_speaks_before_the_copy_shows(dataset, bucket, monkeypatch):
    seen = []
    publish = CopyFile.publish

    def watched(self):
        seen.append(([held.recipient for held in dataset.holdings], bucket.keys()))
        publish(self)

    monkeypatch.setattr(CopyFile, "publish", watched)
    dataset.release(to="a", privacy=0.5).write(bucket.address("copy.parquet"))
    assert seen == [(["a"], ["in/people.parquet"])]


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_dictionary_lies_beside_a_copy_in_s3(dataset, bucket, tmp_path, ending):
    release = dataset.release(to="a", privacy=0.5, dictionary=True)
    here = write_dictionary(release.write(tmp_path / f"copy.{ending}"))
    there = write_dictionary(release.write(bucket.address(f"copy.{ending}")))
    assert [str(place) for place in there] == [bucket.address(path.name) for path in here]
    assert [bucket.get(path.name) for path in here] == [path.read_bytes() for path in here]
    bucket.put(here[0].name, b"another page")
    with pytest.raises(OutputExists, match="already exists"):
        write_dictionary(bucket.address(f"copy.{ending}"))
    assert bucket.get(here[0].name) == b"another page"
    write_dictionary(bucket.address(f"copy.{ending}"), force=True)
    assert bucket.get(here[0].name) == here[0].read_bytes()


def test_outputs_that_cannot_be_are_refused(dataset, bucket):
    release = dataset.release(to="a", privacy=0.5)
    for place in ("https://localhost/x.csv", bucket.address("x.pdf"), "s3://no-such-bucket/x.csv"):
        with pytest.raises(OutputError):
            release.write(place)
    with pytest.raises(OutputError, match="registered table itself"):
        release.write(bucket.address("in/people.parquet"), force=True)
    assert bucket.keys() == ["in/people.parquet"]
    assert dataset.holdings == []


# --- what Arrow's own file systems open: here one on disk, in the place of Google's and Azure's ---


@pytest.fixture(params=["gs://bucket", "abfs://bucket@account.dfs.core.windows.net"])
def stored(request, tmp_path, monkeypatch):
    (tmp_path / "bucket").mkdir()
    system = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())
    for module in (_stores, _uploads):
        monkeypatch.setattr(module, "arrow_filesystem", lambda at: (system, f"bucket/{at.path}"))
    return request.param, tmp_path / "bucket"


@pytest.mark.parametrize("ending", ["csv", *slowly("parquet")])
def test_other_stores_hold_tables_and_copies(stored, vault, ending):
    at, folder = stored
    (folder / f"people.{ending}").write_bytes(written(PEOPLE, ending))
    dataset = vault.register("people", f"{at}/people.{ending}", drop=["id"])
    assert dataset._entry.source == f"{at}/people.{ending}"
    release = vault.dataset("people").release(to="a", privacy=0.5)
    release.write(f"{at}/copy.{ending}")
    release.write(f"{at}/copy.{ending}")
    before = (folder / f"copy.{ending}").read_bytes()
    with pytest.raises(OutputExists):
        dataset.release(to="a", privacy=0.6).write(f"{at}/copy.{ending}")
    source = open_source(f"{at}/people.{ending}")
    (folder / f"people.{ending}").write_bytes(written(PEOPLE.slice(1), ending))
    with pytest.raises(SourceError, match="was replaced"):
        rows(source)
    with pytest.raises(SourceChanged):
        vault.dataset("people").release(to="b", privacy=0.5).write(f"{at}/other.{ending}")
    beside = [f"copy.{ending}.meta.json"] if ending == "csv" else []
    names = sorted(path.name for path in folder.iterdir())
    assert names == [f"copy.{ending}", *beside, f"people.{ending}"]
    assert (folder / f"copy.{ending}").read_bytes() == before


CHILD = """
import sys, time
from cornerwave.vault import Vault
from cornerwave.outputs import CopyFile, _uploads
_uploads.PART = 1 << 12
finish = CopyFile.finish
def slow(self):
    finish(self)
    print("sent", flush=True)
    time.sleep(60)
CopyFile.finish = slow
Vault.open(sys.argv[1]).dataset("people").release(to="a", privacy=0.5).write(sys.argv[2])
"""


@pytest.mark.slow
def test_a_killed_upload_shows_nothing_and_the_next_one_clears_it_away(
    dataset, bucket, vault, counted
):
    command = [sys.executable, "-c", CHILD, str(vault.path), bucket.address("copy.parquet")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "sent\n"
        os.kill(child.pid, signal.SIGKILL)
    assert bucket.keys() == ["in/people.parquet"]
    assert bucket.uploads() == ["copy.parquet"]
    assert vault.dataset("people").holdings == []
    dataset.release(to="a", privacy=0.5).write(bucket.address("copy.parquet"))
    assert bucket.keys() == ["copy.parquet", "in/people.parquet"]
    assert bucket.uploads() == []  # moto says that every upload began in 2010
    counted("kills")


@pytest.mark.parametrize("ending", ["xlsx", "dta", "sav"])
def test_files_of_programs_have_the_same_bytes_in_a_store(bucket, tmp_path, at_a_time, ending):
    """Though nobody can go back in an upload, and it is sent in parts."""
    at_a_time(UPLOAD_PART=1 << 23)
    table = PEOPLE.select(["id", *COLUMNS])
    for place in (tmp_path / f"a.{ending}", bucket.address(f"a.{ending}")):
        with CopyFile(place_of(place), table.schema, CopyMetadata()) as copy:
            copy.write(table.slice(0, 500))
            copy.write(table.slice(500))
            copy.finish()
            copy.publish()
    assert bucket.get(f"a.{ending}") == (tmp_path / f"a.{ending}").read_bytes()
    assert bucket.keys() == [f"a.{ending}", f"a.{ending}.meta.json"]
