"""Spark's engine on a real cluster of two workers: faults, and where the key could get to."""

import base64
import os
import shutil
import subprocess
import sys
import threading
import warnings
import zlib
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from cornerwave.audit import BLOCK_ROWS
from cornerwave.columns import Finish
from cornerwave.engines import SamplePass
from cornerwave.engines import spark as engine
from cornerwave.errors import ClusterError, ColumnError, SourceChanged, SourceError
from cornerwave.spec import CopySpec
from cornerwave.spine.survey import Sampler
from cornerwave.vault import Vault, write_all_spark
from tests import sail, spark_cluster
from tests.engines import through_spark
from tests.engines.audits import is_same_audit
from tests.engines.everyone import CHOICES, LEVELS, ROWS, by_key, changed, everyone
from tests.engines.faults import failing_once, wait_for, waiting
from tests.panels import panel

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("java") is None, reason="Java is not installed"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with spark_cluster.cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture(scope="module")
def spark(cluster):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield cluster.session()


@pytest.fixture(scope="module")
def connect(cluster):
    """A session by Spark Connect, of Spark's own server."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with sail.session(cluster.connect_server()) as session:
            yield session


@pytest.fixture
def dataset(vault, parquet):
    return vault.register("people", parquet, key="id", **CHOICES)


@pytest.fixture
def shared(tmp_path):
    """A folder through which the machines and a test talk."""
    folder = tmp_path / "shared"
    folder.mkdir()
    return folder


def copy_of(dataset, tmp_path):
    """The rows of a copy that the local engine makes, by their key."""
    path = dataset.release(to="here", noise=1.0).write(tmp_path / "here.parquet")
    return by_key(papq.read_table(path))


def is_copy(folder, wanted):
    assert {path.name[:5] for path in folder.iterdir()} == {"part-"}
    assert not list(folder.parent.glob(".*.part*"))
    return by_key(papq.read_table(folder)).equals(wanted, check_metadata=False)


@contextmanager
def meanwhile(work):
    """Do something beside; what goes wrong there goes wrong here."""
    caught = []

    def run():
        try:
            work()
        except BaseException as error:
            caught.append(error)

    beside = threading.Thread(target=run)
    beside.start()
    try:
        yield
    finally:
        beside.join()
    if caught:
        raise caught[0]


@pytest.mark.parametrize("by_frame", [True, False])
@pytest.mark.parametrize("shuffle", [True, False])
def test_the_cluster_gives_the_dataset_and_the_copies_of_the_local_engine(
    spark, vault, parquet, tmp_path, at_a_time, by_frame, shuffle
):
    at_a_time(SHUFFLE_CELLS=13 * 400)
    other = Vault.create(tmp_path / "other", key_file=vault.path / "key")
    here = vault.register("people", parquet, key="id", shuffle=shuffle, **CHOICES)
    source = spark.read.parquet(str(parquet)).repartition(4) if by_frame else parquet
    there = other.register("people", source, spark=spark, key="id", shuffle=shuffle, **CHOICES)
    assert there.frozen.to_json() == here.frozen.to_json()
    copies = [(r, tmp_path / r.recipient) for r in there.release_many(LEVELS)]
    write_all_spark(copies, spark=spark)
    for release, folder in copies:
        [local] = here.release_many({release.recipient: release.level})
        wanted = papq.read_table(local.write(tmp_path / f"{release.recipient}.parquet"))
        found = papq.read_table(folder)
        if by_frame and not shuffle:  # in the order of its partitions
            wanted, found = by_key(wanted), by_key(found)
        assert found.equals(wanted, check_metadata=False)


def test_persons_have_the_noise_and_the_histories_of_the_local_engine(spark, vault, tmp_path):
    table = panel(200, np.arange(200) % 9 + 1)
    table = table.append_column("id", pa.array([f"v{n}" for n in range(table.num_rows)]))
    file = tmp_path / "panel.parquet"
    papq.write_table(table, file, row_group_size=150)
    other = Vault.create(tmp_path / "other", key_file=vault.path / "key")
    here = vault.register("people", file, key="id", unit="patient", keep_order=True)
    frame = spark.read.parquet(str(file)).repartition(4)
    there = other.register("people", frame, key="id", unit="patient", keep_order=True)
    assert there.frozen.to_json() == here.frozen.to_json()
    found = there.release(to="here", noise=1.0).write_spark(tmp_path / "copy")
    wanted = papq.read_table(here.release(to="here", noise=1.0).write(tmp_path / "one.parquet"))
    assert by_key(papq.read_table(found)).equals(by_key(wanted), check_metadata=False)


@pytest.mark.parametrize("by_frame", [True, False])
def test_a_server_of_spark_connect_gives_the_dataset_and_the_copies_of_the_local_engine(
    connect, vault, parquet, tmp_path, by_frame
):
    other = Vault.create(tmp_path / "other", key_file=vault.path / "key")
    here = vault.register("people", parquet, key="id", **CHOICES)
    source = connect.read.parquet(str(parquet)).repartition(4) if by_frame else parquet
    there = other.register("people", source, spark=connect, key="id", **CHOICES)
    assert there.frozen.to_json() == here.frozen.to_json()
    copy = tmp_path / "copy"
    there.release(to="here", noise=1.0).write_spark(copy, spark=connect)
    assert is_copy(copy, copy_of(here, tmp_path))


@pytest.mark.parametrize("by_frame", [True, False])
def test_a_changed_cell_is_refused_and_nothing_is_left(
    spark, vault, dataset, tmp_path, untouched, by_frame
):
    other = tmp_path / "other.parquet"
    papq.write_table(changed(everyone()), other, row_group_size=300)
    source = spark.read.parquet(str(other)).repartition(3) if by_frame else other
    moved = vault.dataset("people", source=source)
    with untouched(), pytest.raises(SourceChanged, match="a value differs"):
        moved.release(to="near", privacy=0.5).write_spark(tmp_path / "copy", spark=spark)
    assert not list(tmp_path.glob(".copy*"))


def test_types_names_and_moments_come_through_as_the_docs_say(spark, tmp_path):
    assert through_spark.types_through(spark, tmp_path) == through_spark.told()


def test_a_type_that_is_not_read_is_named(spark, vault):
    frame = spark.sql("SELECT 1 AS id, 2.5 AS x, make_interval(1) AS since")
    with pytest.raises(SourceError, match="'since' has the type interval of Spark"):
        vault.register("people", frame, key="id")


def test_a_key_that_is_repeated_on_two_machines_is_found(spark, vault, parquet):
    frame = spark.read.parquet(str(parquet))
    twice = frame.unionAll(frame.limit(2)).repartition(4)
    with pytest.raises(ColumnError, match="'id' is not unique: 2 rows repeat a key"):
        vault.register("people", twice, key="id", **CHOICES)


def test_a_task_that_fails_is_tried_again(spark, vault, dataset, parquet, tmp_path, shared):
    wanted, frame = copy_of(dataset, tmp_path), spark.read.parquet(str(parquet)).repartition(4)
    source = frame.mapInArrow(failing_once(str(shared)), frame.schema)
    moved = vault.dataset("people", source=source)
    folder = moved.release(to="near", noise=1.0).write_spark(tmp_path / "copy")
    assert is_copy(folder, wanted)
    assert len(list(shared.glob("task-*"))) > 4
    assert (shared / "failed").exists()


def test_a_task_that_runs_twice_counts_once(spark, vault, dataset, parquet, tmp_path, shared):
    wanted, frame = copy_of(dataset, tmp_path), spark.read.parquet(str(parquet)).repartition(4)
    source = frame.mapInArrow(waiting(str(shared), for_twin=True), frame.schema)
    moved = vault.dataset("people", source=source)
    folder = moved.release(to="near", noise=1.0).write_spark(tmp_path / "copy")
    assert is_copy(folder, wanted)
    assert (shared / "go").exists()  # which only the twin makes
    assert len(list(folder.iterdir())) == 4


def test_a_worker_may_die(cluster, spark, vault, dataset, parquet, tmp_path, shared):
    wanted, frame = copy_of(dataset, tmp_path), spark.read.parquet(str(parquet)).repartition(4)
    source = frame.mapInArrow(waiting(str(shared)), frame.schema)
    moved = vault.dataset("people", source=source)
    killed = []

    def kill():
        wait_for(shared / "here")
        where = (shared / "where").read_text()
        [address] = [each for each in spark_cluster.ADDRESSES if f"worker-{each}" in where]
        cluster.kill_worker(address)
        killed.append(address)
        (shared / "go").touch()

    with meanwhile(kill):
        folder = moved.release(to="near", noise=1.0).write_spark(tmp_path / "copy")
    assert is_copy(folder, wanted)
    cluster.start_workers(*killed)


# --- secrets ----------------------------------------------------------------------------


def spellings(secret):
    """A secret in every form in which it could be written down."""
    part = secret[:16]
    numbers, signed = list(part), [b - 256 if b > 127 else b for b in part]
    found = [part, part[::-1], part.hex().encode(), part.hex().upper().encode()]
    found += [repr(part)[2:-1].encode()]
    for shift in range(3):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            found.append(encode(b"\0" * shift + part)[4:-4])
    for listed in (numbers, signed):
        found += [between.join(map(str, listed)).encode() for between in (",", ", ", " ")]
    return found


def sightings(secrets, contents):
    """Where some of these secrets are seen, in any spelling."""
    needles = [needle for secret in secrets for needle in spellings(secret)]
    return sorted(place for place, content in contents if any(n in content for n in needles))


def files_below(folder):
    for path in sorted(folder.rglob("*")):
        try:
            if path.is_file():
                yield str(path.relative_to(folder)), path.read_bytes()
        except OSError:  # gone by now
            continue


@pytest.fixture
def travelled(monkeypatch):
    """Pieces of all jobs that travel: secrets are packed in them."""
    found, sent = [], engine.sent

    def noticed(job):
        content = sent(job) + noticed.more
        found.extend(content[at : at + 32] for at in (64, len(content) // 2))
        return content

    noticed.more = b""
    noticed.found = found
    monkeypatch.setattr(engine, "sent", noticed)
    return noticed


def secrets_of(vault, dataset):
    recipe = dataset.recipe([CopySpec(level, Finish()) for _, level in LEVELS])
    derived = [*recipe.row_secrets.reveal().values(), *recipe.noise_secrets.reveal().values()]
    return [vault._key._secret, *derived]


def released_and_searched(cluster, spark, vault, parquet, shared, tmp_path, secrets):
    """Release while the disks are searched for some secrets; return where these were seen."""
    frame = spark.read.parquet(str(parquet)).repartition(4)
    source = frame.mapInArrow(waiting(str(shared)), frame.schema)
    moved, seen = vault.dataset("people", source=source), []

    def search():
        wait_for(shared / "here")
        seen.extend(sightings(secrets(), files_below(cluster.folder)))
        (shared / "go").touch()

    with meanwhile(search):
        moved.release(to="near", noise=1.0).write_spark(tmp_path / "copy")
    return seen


def test_no_secret_is_written_anywhere(
    cluster, spark, vault, dataset, parquet, tmp_path, shared, travelled, capfd
):
    known = secrets_of(vault, dataset)
    arguments = (cluster, spark, vault, parquet, shared, tmp_path)
    assert released_and_searched(*arguments, lambda: known + travelled.found) == []
    assert len(travelled.found) >= 2
    secrets = dataset.recipe([CopySpec(LEVELS[0][1], Finish())]).row_secrets
    schema, types = dataset.frozen.schema, dataset.frozen.source_types
    frame = engine.of_frame(spark.read.parquet(str(parquet)))
    table = engine.Cluster(frame, schema, types, secrets)
    job = engine.sent(engine.PassJob(table.table, SamplePass(Sampler(schema, secrets))))
    table._frame().mapInArrow(engine._task(job), "b long, k int, f binary").explain("extended")
    said = [("explain", capfd.readouterr().out.encode()), *cluster.pages().items()]
    said += [("configuration", repr(spark.sparkContext.getConf().getAll()).encode())]
    said += files_below(cluster.folder)
    assert sightings(known + travelled.found, said) == []
    # the search sees what is there: the application's name, and what is said at DEBUG
    named = sightings([b"cornerwave tests"], said)
    assert "configuration" in named
    assert any("/environment" in place for place in named)
    assert any(place.startswith("events/") for place in named)
    assert "MapInArrow cornerwave" in dict(said)["explain"].decode()
    talkative = [place for place, content in said if b" DEBUG " in content]
    assert {"driver.log", "master.log"} <= set(talkative)
    assert any(place.startswith("work-") for place in talkative)


def test_a_large_job_would_be_written_to_disks_and_is_refused(
    cluster, spark, vault, dataset, parquet, tmp_path, shared, travelled, monkeypatch
):
    travelled.more = pa.array(range(200_000)).buffers()[1].to_pybytes()
    assert zlib.decompress(zlib.compress(b"job") + travelled.more) == b"job"
    arguments = (cluster, spark, vault, parquet, shared, tmp_path)
    with pytest.raises(ClusterError, match=r"spark\.io\.encryption\.enabled is true"):
        dataset.release(to="near", noise=1.0).write_spark(tmp_path / "copy", spark=spark)
    monkeypatch.setattr(engine, "LARGEST_CLOSURE", 1 << 30)
    seen = released_and_searched(*arguments, lambda: travelled.found[::2])
    assert any(place.startswith("local-") for place in seen)


def test_no_cell_is_in_an_error_on_any_page(cluster, spark, vault, dataset, tmp_path):
    cell = "Ms Sekret-Zelle"
    table = everyone()
    codes = pa.array([cell, *["1"] * (ROWS - 1)])
    table = table.set_column(table.column_names.index("code"), "code", codes)
    papq.write_table(table, tmp_path / "other.parquet")
    moved = vault.dataset("people", source=spark.read.parquet(str(tmp_path / "other.parquet")))
    with pytest.raises(SourceChanged, match="'code' no longer holds") as caught:
        moved.release(to="near", privacy=0.5).write_spark(tmp_path / "copy")
    assert cell not in repr(caught.value)
    logs = [(name, said) for name, said in files_below(cluster.folder) if name.endswith("log")]
    said = [*logs, *cluster.pages().items()]
    assert [place for place, content in said if cell.encode() in content] == []


def test_a_local_master_runs_the_python_that_runs_the_command(vault, parquet, tmp_path):
    """From an environment that is not activated: the first `python3` knows no Cornerwave."""
    bare = tmp_path / "bin" / "python3"
    bare.parent.mkdir()
    bare.write_text(
        "#!/bin/sh\necho \"ModuleNotFoundError: No module named 'pyarrow'\" >&2; exit 1\n"
    )
    bare.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    around = {**kept, "PATH": f"{bare.parent}:{os.environ['PATH']}", "SPARK_LOCAL_IP": "127.0.0.1"}
    place = ["--vault", vault.path, "--engine", "spark", "--master", "local[2]"]
    words = ["register", "people", parquet, "--key", "id", "--keep", "seen", "--keep", "code"]
    command = [sys.executable, "-W", "ignore", "-m", "cornerwave", *words, *place]
    done = subprocess.run(command, env=around, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert vault.dataset("people").frozen.rows == ROWS


def test_an_audit_of_frames_has_the_figures_of_an_audit_here(spark, connect):
    """Of two blocks, on a classic session, and of one by Spark Connect."""
    is_same_audit(spark, BLOCK_ROWS + 5000)
    is_same_audit(connect, 3000)
