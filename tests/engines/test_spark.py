"""Spark's engine on Sail, which needs no Java: the same values as the local engine, bit for bit."""

import json
import sys
from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq
import pytest
from typer.testing import CliRunner

from cornerwave import cli
from cornerwave.engines import spark as engine
from cornerwave.errors import (
    ClusterError,
    ColumnError,
    OutputError,
    OutputExists,
    SourceChanged,
    SourceError,
)
from cornerwave.miner import Copy
from cornerwave.outputs import read_metadata
from cornerwave.privacy import FIRST
from cornerwave.vault import Vault, write_all_spark
from tests import sail
from tests.engines.audits import PRIVACY, audited, is_same_audit, table_and_copies
from tests.engines.everyone import CHOICES, LEVELS, ROWS, by_key, changed, everyone
from tests.panels import panel, with_gaps
from tests.test_nested import households

pytestmark = sail.KNOWN_WARNINGS


@pytest.fixture(scope="module")
def url():
    with sail.server() as address:
        yield address


@pytest.fixture(scope="module")
def spark(url):
    with sail.session(url) as session:
        yield session


@pytest.fixture
def other(vault, tmp_path):
    """A vault with the same key, and a ledger of its own."""
    return Vault.create(tmp_path / "other", key_file=vault.path / "key")


def frame_of(spark, parquet, parts=4):
    return spark.read.parquet(str(parquet)).repartition(parts)


def read(folder):
    assert sorted(p.name for p in folder.iterdir())[0] == "part-00000.parquet"
    return papq.read_table(folder)


def local_copies(dataset, tmp_path):
    for release in dataset.release_many(LEVELS):
        yield papq.read_table(release.write(tmp_path / f"{release.recipient}.parquet"))


def test_a_frame_gives_the_dataset_and_the_copies_of_the_local_engine(
    spark, vault, other, parquet, tmp_path
):
    here = vault.register("people", parquet, key="id", **CHOICES)
    there = other.register("people", frame_of(spark, parquet), key="id", **CHOICES)
    assert there.id == here.id
    assert there.frozen.to_json() == here.frozen.to_json()
    copies = [(r, tmp_path / r.recipient) for r in there.release_many(LEVELS)]
    write_all_spark(copies)
    for wanted, (release, folder) in zip(local_copies(here, tmp_path), copies, strict=True):
        assert by_key(read(folder)).equals(by_key(wanted), check_metadata=False)
        assert not set(wanted["id"].to_pylist()) & set(everyone()["id"].to_pylist())  # pseudonyms
        assert len(list(folder.iterdir())) > 1
        file = tmp_path / f"{release.recipient}.parquet"
        assert read_metadata(folder) == read_metadata(file)
        found, wanted_mean = (Copy.open(each).mean(["age"])["age"] for each in (folder, file))
        assert found.value == pytest.approx(wanted_mean.value, rel=1e-12)  # in another order
    assert [held.recipient for held in there.holdings] == ["near", "middle", "far"]
    assert {held.spec.format for held in there.holdings} == {"parquet parts"}


@pytest.mark.parametrize("shuffle", [True, False])
def test_persons_have_the_noise_and_the_histories_of_the_local_engine(
    spark, vault, other, tmp_path, at_a_time, shuffle
):
    at_a_time(SHUFFLE_CELLS=6 * 100)
    table = panel(90, np.arange(90) % 7 + 1)
    table = table.append_column("id", pa.array([f"v{n}" for n in range(table.num_rows)]))
    table = with_gaps(with_gaps(table, "stage"), "weight", share=0.1)
    file = written(table, tmp_path / "panel.parquet")
    choices = {"key": "id", "unit": "patient", "shuffle": shuffle, "keep_order": not shuffle}
    choices["hide_missing"] = ["weight"]
    here = vault.register("people", file, few_rows=True, **choices)
    there = other.register("people", frame_of(spark, file), few_rows=True, **choices)
    assert there.frozen.to_json() == here.frozen.to_json()
    assert here.frozen.persons.named(here.frozen.schema.perturbed) == ["height"]
    copies = [(r, tmp_path / r.recipient) for r in there.release_many(LEVELS)]
    write_all_spark(copies)
    for wanted, (_, folder) in zip(local_copies(here, tmp_path), copies, strict=True):
        assert by_key(read(folder)).equals(by_key(wanted), check_metadata=False)
        assert wanted["sex"].to_pylist() != table["sex"].to_pylist()


@pytest.mark.parametrize("time", [None, "when"])
def test_households_have_the_noise_and_the_histories_of_the_local_engine(
    spark, vault, other, tmp_path, time
):
    table = households(120, most=3, rows=3)
    table = table.append_column("id", pa.array([f"v{n}" for n in range(table.num_rows)]))
    if time is not None:
        when = np.random.default_rng(3).integers(0, 6, table.num_rows)
        table = table.append_column(time, pa.array(when))
    file = written(table, tmp_path / "homes.parquet")
    choices = {"key": "id", "unit": ["household", "person"], "keep_order": True, "few_rows": True}
    choices["time"] = time
    here = vault.register("homes", file, **choices)
    there = other.register("homes", frame_of(spark, file), **choices)
    assert there.frozen.to_json() == here.frozen.to_json()
    found = there.release(to="a", noise=1.0).write_spark(tmp_path / "copy")
    wanted = papq.read_table(here.release(to="a", noise=1.0).write(tmp_path / "a.parquet"))
    assert by_key(read(found)).equals(by_key(wanted), check_metadata=False)
    assert wanted["region"].to_pylist() != table["region"].to_pylist()


def later(rows=400, first="later 0"):
    """Rows that come later, with new keys, the first of which can be chosen."""
    keys = pa.array([first, *(f"later {n}" for n in range(1, rows))])
    return everyone(rows, seed=4).set_column(0, "id", keys)


def written(table, path):
    papq.write_table(table, path, row_group_size=150)
    return path


def said(edition):
    """What the ledger says of an edition, apart from time, place and the salt of its keys."""
    count = edition.keys and edition.keys.count
    return replace(edition, keys=count, source=None, at=None)


def test_a_frame_is_appended_and_all_rows_are_released(spark, vault, other, parquet, tmp_path):
    more = written(later(), tmp_path / "more.parquet")
    here = vault.register("people", parquet, key="id", **CHOICES)
    there = other.register("people", frame_of(spark, parquet), key="id", **CHOICES)
    assert said(here.append(more)) == said(there.append(frame_of(spark, more)))
    assert said(here.editions[0]) == said(there.editions[0])
    for rows in ({}, {"batch": 2}, {"edition": 1}):
        [local, cluster] = (each.release(to="near", noise=1.0, **rows) for each in (here, there))
        name = "-".join(["rows", *rows])
        folder = cluster.write_spark(tmp_path / name)
        wanted = papq.read_table(local.write(tmp_path / f"{name}.parquet"))
        assert by_key(read(folder)).equals(by_key(wanted), check_metadata=False)
        assert read_metadata(folder) == read_metadata(tmp_path / f"{name}.parquet")
    both = frame_of(spark, parquet).unionAll(frame_of(spark, more))
    moved = other.dataset("people", source=both)
    folder = moved.release(to="near", noise=1.0).write_spark(tmp_path / "moved")
    assert by_key(read(folder)).equals(by_key(read(tmp_path / "rows")), check_metadata=False)


def test_a_key_that_was_in_a_frame_is_no_new_one(spark, vault, parquet, tmp_path):
    dataset = vault.register("people", frame_of(spark, parquet), key="id", **CHOICES)
    repeated = written(later(first="p7"), tmp_path / "more.parquet")
    for batch in (repeated, frame_of(spark, repeated)):
        with pytest.raises(ColumnError, match="1 rows have keys that are or were"):
            dataset.append(batch)
    assert len(dataset.editions) == 1


@pytest.mark.slow
def test_row_groups_are_appended_by_their_place(spark, vault, other, parquet, tmp_path):
    choices = {**CHOICES, "drop": ["id"]}
    more = written(later(), tmp_path / "more.parquet")
    here = vault.register("people", parquet, **choices)
    there = other.register("people", parquet, spark=spark, **choices)
    assert said(here.append(more)) == said(there.append(more, spark=spark))
    folder = there.release(to="near", noise=1.0).write_spark(tmp_path / "copy", spark=spark)
    wanted = papq.read_table(here.release(to="near", noise=1.0).write(tmp_path / "near.parquet"))
    assert read(folder).equals(wanted, check_metadata=False)


def test_rows_in_the_order_of_those_that_are_there_are_refused(spark, vault, tmp_path):
    """Also those of a batch that begins beyond the first rows, of which the order is kept."""
    random, rows = np.random.default_rng(11), FIRST + 100
    x, y = random.normal(size=(2, rows))
    first = written(pa.table({"x": x, "y": y}), tmp_path / "first.parquet")
    later = {"x": x + 0.05 * random.normal(size=rows), "y": random.normal(size=rows)}
    again = written(pa.table(later), tmp_path / "again.parquet")
    mixed = random.permutation(rows)  # the control
    other = written(pa.table(later).take(pa.array(mixed)), tmp_path / "other.parquet")
    dataset = vault.register("x", first)
    for more in ({}, {"spark": spark}):
        with pytest.raises(SourceError, match="same places of other editions"):
            dataset.append(again, **more)
    assert dataset.append(other, spark=spark).number == 2


@pytest.mark.slow
def test_rows_that_changed_have_the_noise_of_the_local_engine(spark, vault, parquet, tmp_path):
    dataset = vault.register("people", frame_of(spark, parquet), key="id", **CHOICES)
    table = changed(changed(everyone()), "wage", 5)
    new = written(table, tmp_path / "new.parquet")
    with pytest.raises(SourceError, match="compared on one machine"):
        dataset.update(frame_of(spark, new))
    dataset.update(new, old=parquet)
    wanted = papq.read_table(dataset.release(to="here", noise=1.0).write(tmp_path / "a.parquet"))
    moved = vault.dataset("people", source=frame_of(spark, new))
    folder = moved.release(to="near", noise=1.0).write_spark(tmp_path / "copy")
    assert by_key(read(folder)).equals(by_key(wanted), check_metadata=False)


def test_frames_and_files_are_not_read_together(spark, vault, parquet, tmp_path):
    dataset = vault.register("people", frame_of(spark, parquet), key="id", **CHOICES)
    dataset.append(written(later(), tmp_path / "more.parquet"))
    with pytest.raises(SourceError, match="give one frame with all rows"):
        dataset.release(to="near", noise=1.0).write_spark(tmp_path / "copy")
    assert dataset.holdings == []


@pytest.mark.parametrize("key", ["id", pytest.param(None, marks=pytest.mark.slow)])
def test_row_groups_give_the_rows_in_their_order(spark, vault, other, parquet, tmp_path, key):
    choices = {**CHOICES, "key": key, "drop": ["id"] if key is None else []}
    here = vault.register("people", parquet, **choices)
    there = other.register("people", parquet, spark=spark, **choices)
    assert there.id == here.id
    assert there.frozen.to_json() == here.frozen.to_json()
    assert there._entry.marks == here._entry.marks
    copies = [(r, tmp_path / r.recipient) for r in there.release_many(LEVELS)]
    write_all_spark(copies, spark=spark)
    for wanted, (_, folder) in zip(local_copies(here, tmp_path), copies, strict=True):
        assert read(folder).equals(wanted, check_metadata=False)


@pytest.mark.parametrize("by_frame", [True, False])
def test_shuffled_rows_have_the_order_of_the_local_engine(
    spark, vault, parquet, tmp_path, at_a_time, by_frame
):
    at_a_time(SHUFFLE_CELLS=13 * 400)
    dataset = vault.register("people", parquet, key="id", shuffle=True, **CHOICES)
    [wanted, *_] = local_copies(dataset, tmp_path)
    source = frame_of(spark, parquet) if by_frame else None
    again = vault.dataset("people", source=source)
    folder = again.release(to="near", noise=0.25).write_spark(tmp_path / "copy", spark=spark)
    assert read(folder).equals(wanted, check_metadata=False)
    assert len(list(folder.iterdir())) == 4


def test_a_copy_is_made_again_the_same(spark, vault, parquet, tmp_path):
    dataset = vault.register("people", parquet, key="id", spark=spark, **CHOICES)
    for place in ("one", "two"):
        dataset.release(to="near", privacy=0.3).write_spark(tmp_path / place, spark=spark)
    one, two = (sorted((tmp_path / place).iterdir()) for place in ("one", "two"))
    assert [p.read_bytes() for p in one] == [p.read_bytes() for p in two]


def test_a_table_registered_here_is_released_from_a_frame(spark, vault, parquet, tmp_path):
    here = vault.register("people", parquet, key="id", **CHOICES)
    wanted = papq.read_table(here.release(to="near", noise=1.0).write(tmp_path / "near.parquet"))
    there = vault.dataset("people", source=frame_of(spark, parquet))
    folder = there.release(to="near", noise=1.0).write_spark(tmp_path / "near")
    assert by_key(read(folder)).equals(by_key(wanted), check_metadata=False)


@pytest.mark.parametrize("by_frame", [True, False])
@pytest.mark.parametrize("shuffle", [True, False])
def test_a_changed_cell_is_refused_and_nothing_is_left(
    spark, vault, parquet, tmp_path, untouched, by_frame, shuffle
):
    vault.register("people", parquet, key="id", shuffle=shuffle, **CHOICES)
    other = tmp_path / "other.parquet"
    papq.write_table(changed(everyone()), other, row_group_size=300)
    source = frame_of(spark, other) if by_frame else other
    dataset = vault.dataset("people", source=source)
    with untouched(), pytest.raises(SourceChanged, match="a value differs"):
        dataset.release(to="near", privacy=0.5).write_spark(tmp_path / "copy", spark=spark)


def test_rows_that_repeat_a_key_are_counted(spark, vault, parquet):
    frame = spark.read.parquet(str(parquet))
    twice = frame.unionAll(frame.limit(3)).repartition(3)
    with pytest.raises(ColumnError, match="'id' is not unique: 3 rows repeat a key"):
        vault.register("people", twice, key="id", **CHOICES)


def test_a_frame_needs_a_key(spark, vault, parquet):
    with pytest.raises(ColumnError, match="no fixed order; name the column that is their key"):
        vault.register("people", spark.read.parquet(str(parquet)), drop=["id"], **CHOICES)


def test_rows_in_order_are_noticed(spark, vault, tmp_path):
    table = everyone().sort_by("age")
    papq.write_table(table, tmp_path / "sorted.parquet", row_group_size=200)
    with pytest.raises(ColumnError, match="the order of the rows reveals 'age'"):
        vault.register("people", tmp_path / "sorted.parquet", spark=spark, key="id", **CHOICES)
    frame = spark.read.parquet(str(tmp_path / "sorted.parquet")).coalesce(1)
    with pytest.raises(ColumnError, match="the order of the rows reveals 'age'"):
        vault.register("people", frame, key="id", **CHOICES)


def test_waves_in_one_order_are_noticed_by_their_places(spark, vault, other, tmp_path):
    """Row groups of Parquet have places; the rows of a frame have none."""
    random = np.random.default_rng(1)
    person, rows = random.normal(size=1500), 6 * 1500
    x = np.tile(person, 6) + 0.5 * random.normal(size=rows)
    path = tmp_path / "waves.parquet"
    table = pa.table({"id": random.permutation(rows), "x": x})
    papq.write_table(table, path, row_group_size=1000)
    with pytest.raises(ColumnError, match="rows 1,500 rows apart leave") as here:
        vault.register("waves", path, key="id")
    with pytest.raises(ColumnError) as there:
        other.register("waves", path, key="id", spark=spark)
    assert str(there.value) == str(here.value)
    other.register("waves", spark.read.parquet(str(path)).repartition(3), key="id")


def test_a_frame_is_written_by_spark_alone(spark, vault, parquet, tmp_path):
    dataset = vault.register("people", frame_of(spark, parquet), key="id", **CHOICES)
    with pytest.raises(SourceError, match="released by Spark alone; call write_spark"):
        dataset.release(to="near", privacy=0.5).write(tmp_path / "copy.parquet")


def test_a_directory_is_replaced_by_force_if_it_is_a_copy(spark, vault, parquet, tmp_path):
    dataset = vault.register("people", parquet, spark=spark, key="id", **CHOICES)
    release = dataset.release(to="near", privacy=0.5)
    folder = release.write_spark(tmp_path / "copy", spark=spark)
    with pytest.raises(OutputExists, match="already exists"):
        release.write_spark(folder, spark=spark)
    release.write_spark(folder, spark=spark, force=True)
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(OutputExists, match="not a folder of a copy"):
        release.write_spark(folder, spark=spark, force=True)
    with pytest.raises(OutputError, match="the registered table itself"):
        release.write_spark(parquet / "copy", spark=spark)
    assert not list(tmp_path.glob(".*.part*"))


def test_other_files_are_refused(spark, vault, tmp_path):
    (tmp_path / "people.csv").write_text("a,b\n1,2\n3,5\n")
    with pytest.raises(SourceError, match="is not Parquet"):
        vault.register("people", tmp_path / "people.csv", spark=spark)


def test_a_job_that_spark_would_write_to_disk_needs_encryption(
    spark, vault, parquet, tmp_path, monkeypatch, untouched
):
    dataset = vault.register("people", parquet, key="id", **CHOICES)
    monkeypatch.setattr(engine, "LARGEST_CLOSURE", 20_000)
    release = dataset.release(to="near", privacy=0.5)
    with (
        untouched(),
        pytest.raises(ClusterError, match=r"spark\.io\.encryption\.enabled is true"),
    ):
        release.write_spark(tmp_path / "copy", spark=spark)
    spark.conf.set("spark.io.encryption.enabled", "true")
    try:
        release.write_spark(tmp_path / "copy", spark=spark)
    finally:
        spark.conf.unset("spark.io.encryption.enabled")


class TestNoCellInAnError:
    CELL = "Ms Sekret-Zelle"

    def told(self, caught):
        """All that an error says, with those that it came from."""
        found, error = [], caught.value
        while error is not None:
            found.append(str(error))
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        return "\n".join(found)

    def test_of_a_column_of_another_kind(self, spark, vault, parquet, tmp_path):
        vault.register("people", parquet, key="id", **CHOICES)
        table = everyone()
        ages = [self.CELL, *map(str, table.column("age").to_pylist()[1:])]
        table = table.set_column(table.column_names.index("town"), "town", pa.array(ages))
        moved = table.drop_columns(["age"]).append_column("age", pa.array(ages))
        papq.write_table(moved, tmp_path / "other.parquet")
        frame = spark.read.parquet(str(tmp_path / "other.parquet"))
        with pytest.raises(SourceChanged, match="'age' no longer holds numbers") as caught:
            vault.dataset("people", source=frame)
        assert self.CELL not in self.told(caught)

    def test_of_a_kept_column(self, spark, vault, parquet, tmp_path):
        vault.register("people", parquet, key="id", **CHOICES)
        table = everyone()
        codes = pa.array([self.CELL, *["1"] * (ROWS - 1)])
        table = table.set_column(table.column_names.index("code"), "code", codes)
        papq.write_table(table, tmp_path / "other.parquet")
        frame = spark.read.parquet(str(tmp_path / "other.parquet"))
        dataset = vault.dataset("people", source=frame)
        with pytest.raises(SourceChanged, match="'code' no longer holds") as caught:
            dataset.release(to="near", privacy=0.5).write_spark(tmp_path / "copy")
        assert self.CELL not in self.told(caught)

    def test_of_spark_itself(self, spark, vault, parquet):
        frame = spark.read.parquet(str(parquet))
        bad = frame.selectExpr("*", f"cast(concat('{self.CELL}', id) as int) as bad")
        with pytest.raises(ClusterError, match="could not do the work") as caught:
            vault.register("people", bad, key="id", **CHOICES)
        assert self.CELL not in self.told(caught)


def test_what_machines_send_cannot_run_code():
    import pickle

    from cornerwave.engines._on_worker import packed, unpacked
    from cornerwave.privacy import Hidden
    from cornerwave.spine.recipe import NoiseSecrets, Recipe

    class Bad:
        def __reduce__(self):
            return print, ("ran",)

    others = [pickle.dumps(each) for each in (Bad(), NoiseSecrets, Recipe, Hidden, eval)]
    for content in (*others, b"nonsense"):
        with pytest.raises(ClusterError, match="something else than a survey"):
            unpacked(content)
    kept = {"a": np.arange(3), "b": [Decimal("1.5")]}
    assert json.dumps(unpacked(packed(kept)), default=str) == json.dumps(kept, default=str)


@pytest.mark.parametrize(
    ("master", "named", "runs"),
    [
        ("local[2]", None, sys.executable),
        ("local-cluster[2,1,1024]", None, sys.executable),
        ("local[2]", "/opt/other/python", "python3"),  # as Spark reads it: the one that is named
        ("spark://head:7077", None, "python3"),
        ("yarn", None, "python3"),
    ],
)
def test_a_local_master_runs_the_running_python(monkeypatch, master, named, runs):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if named:
        monkeypatch.setenv("PYSPARK_PYTHON", named)
    context = SimpleNamespace(master=master, pythonExec="python3")
    engine._use_this_python(context)
    assert context.pythonExec == runs


def test_the_command_line_on_a_cluster(url, vault, parquet, tmp_path):
    place = ["--vault", str(vault.path), "--engine", "spark", "--master", url]
    columns = ["--key", "id", "--keep", "seen", "--keep", "code"]

    def run(*words):
        result = CliRunner().invoke(cli.app, words, catch_exceptions=False)
        assert result.exit_code == 0, result.output

    run("register", "people", str(parquet), *columns, *place)
    wanted = ["--to", "near", "--privacy", "0.5", "--out", str(tmp_path / "near")]
    run("release", "people", *wanted, *place)
    run("again", "people", "near", "--out", str(tmp_path / "again"), *place)
    before = sorted((tmp_path / "near").rglob("*"))
    again = CliRunner().invoke(cli.app, ["release", "people", *wanted, *place])
    assert isinstance(again.exception, OutputExists), again.output  # not a second copy inside it
    both = ["--to", "a", "--privacy", "0.5", "--to", "b", "--privacy", "0.6", *wanted[-2:]]
    refused = CliRunner().invoke(cli.app, ["release", "people", *both, *place])
    assert "one --out DIRECTORY for each --to" in str(refused.exception)
    assert sorted((tmp_path / "near").rglob("*")) == before
    run("release", "people", *wanted, "--force", *place)
    assert sorted((tmp_path / "near").rglob("*")) == before
    dataset = vault.dataset("people")
    release = dataset.release(to="near", privacy=0.5)
    copy = papq.read_table(release.write(tmp_path / "near.parquet"))
    for name in ("near", "again"):
        assert read(tmp_path / name).equals(copy, check_metadata=False)


def test_rows_of_a_person_are_refused_as_by_the_local_engine(spark, vault, other, tmp_path):
    """Dropped columns are looked at where they lie: both say the same, to the bit."""
    rng, person = np.random.default_rng(2), np.repeat(np.arange(300), 8)
    rows = {"id": [f"{n:05}" for n in range(len(person))], "person": person}
    rows |= {name: rng.normal(size=300)[person] for name in ("height", "weight")}
    rows["weight"] = rows["weight"] + rng.normal(size=len(person))
    path = written(pa.table(rows).take(pa.array(rng.permutation(len(person)))), tmp_path / "c.pq")
    said = []
    for owner, source, session in (
        (vault, path, None),
        (other, frame_of(spark, path), None),
        (other, path, spark),
    ):
        choices = {"key": "id", "drop": ["person"], "spark": session}
        with pytest.raises(ColumnError, match="same 'person' belong together") as refused:
            owner.register("clinic", source, **choices)
        said.append(str(refused.value))
    assert len(set(said)) == 1
    here = vault.register("clinic", path, key="id", drop=["person"], independent_rows=True)
    there = other.register(
        "clinic", frame_of(spark, path), key="id", drop=["person"], independent_rows=True
    )
    assert here.id == there.id


@pytest.mark.slow
def test_an_audit_of_frames_has_the_figures_of_an_audit_here(spark):
    is_same_audit(spark, 3000)


@pytest.mark.slow
def test_an_audit_of_frames_sees_independent_noise(spark):
    found = audited(spark, table_and_copies(3000, independent=True), privacy=PRIVACY)
    assert not found.sound
    assert "corner wave" in {check.name for check in found.faults}


def test_frames_of_other_rows_are_not_audited(spark):
    source, copy, _ = table_and_copies(300)
    twice = copy.set_column(0, "id", pa.array([0, *range(299)]))
    for other, error, message in (
        (copy.slice(1), SourceError, "not copies of the same rows"),
        (copy.set_column(0, "id", pa.array(range(1, 301))), SourceError, "the same keys in 'id'"),
        (twice, ColumnError, "copy 1: 'id' has duplicate or missing values"),
        (copy.drop_columns("id"), ColumnError, "copy 1 has no column 'id'"),
    ):
        with pytest.raises(error, match=message):
            audited(spark, [source, other])
