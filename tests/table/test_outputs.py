import errno
import fcntl
import gzip
import json
import os
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as papq
import pytest

from cornerwave.errors import OutputError, OutputExists
from cornerwave.outputs import (
    CopyFile,
    metadata_path,
    parquet_settings,
    read_metadata,
)
from cornerwave.outputs._destination import writing
from cornerwave.sources import format_of, open_source
from cornerwave.spec import ColumnMetadata, CopyMetadata

ENDINGS = ["csv", "csv.gz", "parquet", "pq", "arrow", "feather", "ipc", "xlsx", "dta", "sav"]
STATED = CopyMetadata(
    dataset="d", noise=0.1, rows=3, columns={"ä": ColumnMetadata(role="perturbed")}
)
TABLE = pa.table({"a": [1.5, 2.25, None], "b": ["x", 'y, "z"', "é\n"]})
BIG = pa.table({"a": np.random.default_rng(1).normal(size=50_000)})


@pytest.fixture(params=ENDINGS)
def path(request, tmp_path):
    return tmp_path / f"copy.{request.param}"


def opened(path, table=TABLE):
    copy = CopyFile(path, table.schema, STATED, force=True)
    copy.open()
    return copy


def check(path, *, force=False):
    CopyFile(path, TABLE.schema, STATED, force=force).check()


def finished(path, table=TABLE):
    copy = opened(path, table)
    for start in range(len(table)):
        copy.write(table.slice(start, 1))
    copy.finish()
    return copy


def publish(path, table=TABLE):
    copy = finished(path, table)
    copy.publish()
    copy.discard()


def files(folder):
    return sorted(file.name for file in folder.iterdir())


def visible(folder):
    return [name for name in files(folder) if not name.startswith(".")]


def test_what_was_written_is_read_again(path):
    publish(path)
    source = open_source(path)
    found = pa.concat_tables(source.groups(["a", "b"], 2))
    assert found.to_pydict() == TABLE.to_pydict()
    states = path.suffix in (".parquet", ".pq", ".arrow", ".feather", ".ipc")
    beside = [] if states else [metadata_path(path).name]
    assert files(path.parent) == [path.name, *beside]


def test_text_whose_values_stand_apart_is_read_as_text(path):
    apart = TABLE.set_column(1, "b", TABLE["b"].dictionary_encode())
    publish(path, apart)
    source = open_source(path)
    assert source.schema.field("b").type == pa.string()
    found = pa.concat_tables(source.groups(["a", "b"], 2))
    assert found.to_pydict() == TABLE.to_pydict()


def test_types_that_parquet_itself_does_not_have_are_kept(tmp_path):
    columns = {
        "took": pa.array([1, None], pa.duration("ms")),
        "text": pa.array(["x", None], pa.large_string()),
        "at": pa.array([1, None], pa.timestamp("us", tz="Europe/Berlin")),
        "kind": pa.array(["x", None]).dictionary_encode(),
    }
    publish(tmp_path / "t.parquet", pa.table(columns))
    found = papq.read_table(tmp_path / "t.parquet")
    plain_types = [*(column.type for column in list(columns.values())[:3]), pa.string()]
    assert found.schema.types == plain_types
    assert found.column("kind").to_pylist() == ["x", None]


def test_metadata_round_trip(path):
    publish(path)
    assert read_metadata(path) == STATED
    if ".csv" in path.name:
        assert json.loads(metadata_path(path).read_text("utf-8")) == STATED.to_json()
        metadata_path(path).unlink()
        assert read_metadata(path) is None


def test_a_file_that_says_nothing_of_itself(tmp_path):
    papq.write_table(TABLE, tmp_path / "t.parquet")
    with pa.ipc.new_file(tmp_path / "t.arrow", TABLE.schema) as file:
        file.write_table(TABLE)
    pacsv.write_csv(TABLE, tmp_path / "t.csv")
    assert [read_metadata(tmp_path / f"t.{e}") for e in ("parquet", "arrow", "csv")] == [None] * 3


def test_nothing_is_visible_before_it_is_published(path):
    copy = opened(path)
    assert visible(path.parent) == []
    [hidden] = path.parent.iterdir()
    assert hidden.stat().st_mode & 0o777 == 0o600
    copy.write(TABLE)
    assert visible(path.parent) == []
    copy.finish()
    assert visible(path.parent) == []
    copy.publish()
    assert path.name in visible(path.parent)
    copy.discard()
    assert path.exists()
    assert not [name for name in files(path.parent) if name.startswith(".")]


@pytest.mark.parametrize("stage", ["opened", "written", "finished"])
def test_a_discarded_copy_leaves_nothing(path, stage):
    copy = opened(path)
    if stage != "opened":
        copy.write(TABLE)
    if stage == "finished":
        copy.finish()
    copy.discard()
    assert files(path.parent) == []


def test_an_old_copy_stays_whole_until_the_new_one_is(path):
    publish(path)
    before = path.read_bytes()
    copy = finished(path, TABLE.slice(1))
    assert path.read_bytes() == before
    copy.publish()
    copy.discard()
    assert path.read_bytes() != before
    assert pa.concat_tables(open_source(path).groups(["a"], 9)).num_rows == 2


def test_permissions_are_those_of_any_new_file(path):
    old = os.umask(0o027)
    try:
        publish(path)
    finally:
        os.umask(old)
    assert path.stat().st_mode & 0o777 == 0o640
    if ".csv" in path.name:
        assert metadata_path(path).stat().st_mode & 0o777 == 0o640


def test_the_bytes_are_a_function_of_the_table(tmp_path):
    for ending in ENDINGS:
        one, other = tmp_path / f"one.{ending}", tmp_path / f"other.{ending}"
        publish(one)
        publish(other)
        assert one.read_bytes() == other.read_bytes(), ending


@pytest.mark.parametrize(
    ("endings", "format_"),
    [
        (("csv", "CSV"), "csv"),
        (("csv.gz", "csv.GZ"), "csv.gz"),
        (("parquet", "pq"), "parquet"),
        (("arrow", "feather", "ipc"), "arrow"),
        (("xlsx", "XLSX"), "xlsx"),
        (("dta",), "dta"),
        (("sav",), "sav"),
    ],
    ids=str,
)
def test_the_format_alone_decides_the_bytes(tmp_path, endings, format_):
    paths = [tmp_path / f"copy.{ending}" for ending in endings]
    for path in paths:
        assert format_of(path) == finished(path).format == format_
        publish(path)
    assert len({path.read_bytes() for path in paths}) == 1


def test_a_compressed_csv_is_the_csv(tmp_path):
    publish(tmp_path / "t.csv")
    publish(tmp_path / "t.csv.gz")
    assert (
        gzip.decompress((tmp_path / "t.csv.gz").read_bytes()) == (tmp_path / "t.csv").read_bytes()
    )


def test_floats_lie_side_by_side_in_parquet(tmp_path):
    publish(tmp_path / "t.parquet")
    group = papq.ParquetFile(tmp_path / "t.parquet").metadata.row_group(0)
    assert "BYTE_STREAM_SPLIT" in group.column(0).encodings
    assert group.column(0).compression == "ZSTD"
    assert parquet_settings(TABLE.schema)["use_dictionary"] == ["b"]


def test_refreshed_text_has_no_least_value_in_parquet(tmp_path):
    table = pa.table({"kept": ["x", "y"], "refreshed": pa.array(["x", "y"]).dictionary_encode()})
    publish(tmp_path / "t.parquet", table)
    group = papq.ParquetFile(tmp_path / "t.parquet").metadata.row_group(0)
    assert [group.column(i).is_stats_set for i in range(2)] == [True, False]


# --- leftovers --------------------------------------------------------------------------


def test_leftovers_of_dead_writers_are_removed(path):
    dead = path.with_name(f".{path.name}.0123456789abcdef.part")
    dead.write_bytes(b"half a copy")
    unrelated = path.with_name(f".other-{path.name}.0123456789abcdef.part")
    unrelated.write_bytes(b"somebody else's")
    publish(path)
    assert not dead.exists()
    assert unrelated.exists()


def test_a_live_writer_is_left_alone(path):
    first = opened(path)
    first.write(TABLE)
    publish(path, TABLE.slice(2))
    first.finish()
    first.publish()
    first.discard()
    assert pa.concat_tables(open_source(path).groups(["a"], 9)).num_rows == 3


def test_a_locked_part_of_another_process_is_left_alone(path):
    part = path.with_name(f".{path.name}.fedcba9876543210.part")
    with part.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        publish(path)
        assert part.exists()
    publish(path)
    assert not part.exists()


@pytest.mark.parametrize("name", ["a[1]*?.csv", "spaces and ünïcode.parquet", "[x].arrow"])
def test_names_that_look_like_patterns(tmp_path, name):
    path = tmp_path / name
    dead = path.with_name(f".{name}.0123456789abcdef.part")
    dead.touch()
    other = path.with_name(".a1xx.csv.0123456789abcdef.part")
    other.touch()
    publish(path)
    assert not dead.exists()
    assert other.exists()
    assert read_metadata(path) == STATED


KILLED = """
import os, sys
from pathlib import Path
import pyarrow as pa
from cornerwave.outputs import CopyFile
from cornerwave.spec import CopyMetadata

table = pa.table({"a": [1.0, 2.0]})
copy = CopyFile(Path(sys.argv[1]), table.schema, CopyMetadata())
copy.open()
copy.write(table)
if sys.argv[2] == "finished":
    copy.finish()
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize(
    ("ending", "stage"), [("csv", "written"), ("parquet", "written"), ("csv.gz", "finished")]
)
def test_a_killed_writer_leaves_nothing_visible_and_the_next_cleans_up(tmp_path, ending, stage):
    path = tmp_path / f"copy.{ending}"
    run = subprocess.run([sys.executable, "-c", KILLED, str(path), stage], check=False)
    assert run.returncode == -9
    assert visible(path.parent) == []
    assert len(files(path.parent)) == 1
    publish(path)
    assert all(not name.startswith(".") for name in files(path.parent))


# --- what is refused --------------------------------------------------------------------


def test_where_a_copy_can_be_written(path):
    check(path)
    path.touch()
    with pytest.raises(OutputExists, match=r"already exists.* force"):
        check(path)
    check(path, force=True)
    assert issubclass(OutputExists, FileExistsError)


@pytest.mark.parametrize("name", ["copy.txt", "copy", "copy.csv.bz2", "csv"])
def test_other_endings_are_refused(tmp_path, name):
    with pytest.raises(OutputError, match="ending must be one of"):
        check(tmp_path / name)


def test_directories_are_refused(path):
    path.mkdir()
    for force in (False, True):
        with pytest.raises(OutputExists, match="is a directory"):
            check(path, force=force)
    with pytest.raises(OutputError, match="no directory"):
        check(path.parent / "nowhere" / path.name)
    with pytest.raises(OutputError, match="cannot be written"):
        opened(path.parent / "nowhere" / path.name)


AS_NOBODY = """
import os, sys
from pathlib import Path
import pyarrow as pa
from cornerwave.errors import CornerwaveError
from cornerwave.outputs import CopyFile
from cornerwave.spec import ColumnMetadata, CopyMetadata
from cornerwave.sources import open_source

path = Path(sys.argv[1])
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
for attempt in (
    lambda path: CopyFile(path, pa.schema([("a", pa.int8())]), CopyMetadata()).check(),
    lambda path: CopyFile(path, pa.schema([("a", pa.int8())]), CopyMetadata()).open(),
    open_source,
):
    try:
        attempt(path)
    except CornerwaveError as error:
        print(error)
"""


@pytest.mark.parametrize("mode", [0o555, 0o000], ids=["cannot be written", "cannot be entered"])
def test_no_permission(mode):
    """Also where root runs the tests: another user makes the attempt."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        place = Path(folder, "locked")
        place.mkdir()
        place.chmod(mode)
        run = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, str(place / "copy.csv")],
            capture_output=True,
            text=True,
            check=False,
        )
        place.chmod(0o755)
        assert run.stderr == ""
        checked, made, opened = run.stdout.splitlines()
        assert ("no permission to write" if mode else "Permission denied") in checked
        assert "Permission denied" in made
        assert ("there is no file" if mode else "Permission denied") in opened
        assert files(place) == []


FULL = """
import os, resource, sys
from pathlib import Path
import numpy as np
import pyarrow as pa
from cornerwave.errors import OutputError
from cornerwave.outputs import CopyFile
from cornerwave.spec import CopyMetadata

path = Path(sys.argv[1])
table = pa.table({"a": np.random.default_rng(0).standard_normal(200_000)})
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
copy = None
try:
    copy = CopyFile(path, table.schema, CopyMetadata())
    copy.open()
    copy.write(table)
    copy.finish()
    copy.publish()
except OutputError as error:
    print(error)
finally:
    if copy:
        copy.discard()
"""


@pytest.mark.parametrize(
    ("ending", "limit"),
    [
        ("csv", 100_000),
        ("csv.gz", 100_000),
        ("parquet", 100_000),
        ("arrow", 100_000),
        ("arrow", 10),
    ],
)
@pytest.mark.first(1)
def test_a_full_disk_leaves_nothing(tmp_path, ending, limit):
    path = tmp_path / f"copy.{ending}"
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", FULL, str(path), str(limit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == (f"{path} cannot be written: File too large")
    assert run.stderr == ""
    assert files(path.parent) == []


def test_a_disk_that_is_really_full():
    """/dev/full says what a full disk says; the message is the one an owner would see."""

    def fill():
        with Path("/dev/full").open("wb", buffering=0) as file:
            file.write(b"x")

    with pytest.raises(OutputError, match="No space left"), writing(Path("copy.csv")):
        fill()


def test_bytes_go_to_the_disk_while_others_are_made(path, at_a_time, monkeypatch):
    if path.suffix in (".dta", ".sav"):
        pytest.skip("rows wait until all of them are known")
    synced = []
    at_a_time(SYNC_BYTES=1)
    monkeypatch.setattr(os, "fdatasync", synced.append)
    copy = opened(path, BIG)
    copy.write(BIG)
    copy._sink.wait()
    assert len(synced) == 1
    copy.finish()
    copy.discard()


@pytest.mark.parametrize("refuses", [True, False])
def test_a_disk_that_refuses_bytes_behind_the_writer(tmp_path, at_a_time, monkeypatch, refuses):
    """The system reports such an error once: the last fsync would not hear of it."""

    def fdatasync(_descriptor):
        if refuses:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    at_a_time(SYNC_BYTES=1)
    monkeypatch.setattr(os, "fdatasync", fdatasync)
    copy = opened(tmp_path / "copy.parquet", BIG)
    expected = pytest.raises(OutputError, match="Input/output") if refuses else nullcontext()
    with expected:
        copy.write(BIG)
        copy.finish()
        copy.publish()
    copy.discard()
    assert [file.name for file in tmp_path.iterdir()] == ([] if refuses else ["copy.parquet"])


def test_descriptors_are_given_back(path):
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        publish(path)
        copy = finished(path)
        copy.discard()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1
