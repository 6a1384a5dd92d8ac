import os
import subprocess
import sys
import traceback
from datetime import date, timedelta
from pathlib import Path
from typing import ClassVar
from unittest.mock import ANY

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

from cornerwave.errors import (
    AlreadyRegistered,
    ColumnError,
    LevelError,
    NoSuchDataset,
    NoSuchRecipient,
    OutputError,
    OutputExists,
    SingularCovariance,
    SourceChanged,
    SourceError,
    UnsafeKey,
    VaultError,
    VaultExists,
    VaultMissing,
    WrongKey,
)
from cornerwave.ledger import Key
from cornerwave.levels import LATTICE, Level
from cornerwave.outputs import read_metadata
from cornerwave.vault import Release, Vault, key_place, vault_place, write_all
from tests.conftest import FRAME_KINDS, make_people, state

FORMATS = ["csv", "csv.gz", "parquet", "arrow"]


def read_copy(path):
    name = path.name
    if ".csv" in name:
        return pa.csv.read_csv(path)
    return pa.parquet.read_table(path) if "parquet" in name else pa.feather.read_table(path)


@pytest.fixture
def dataset(vault, people):
    return vault.register("people", people, drop=["id"], few_rows=True)


def changed_inside(parquet: bytes) -> bytes:
    """Return a file whose metadata is as it was, with one byte of its cells changed."""
    return parquet[:100] + bytes([parquet[100] ^ 1]) + parquet[101:]


class TestVault:
    def test_create_then_open(self, tmp_path):
        made = Vault.create(tmp_path / "v")
        made.register("x", pa.table({"x": [1.0, 2.0, 4.0]}), few_rows=True)
        assert [d.name for d in Vault.open(tmp_path / "v").datasets()] == ["x"]
        assert (tmp_path / "v").stat().st_mode & 0o777 == 0o700
        assert (tmp_path / "v" / "key").stat().st_mode & 0o777 == 0o600

    @pytest.mark.parametrize("left", ["key", "ledger.db"])
    def test_nothing_is_ever_replaced(self, tmp_path, left, untouched):
        Vault.create(tmp_path / "v")
        for path in (tmp_path / "v").iterdir():
            if path.name != left:
                path.unlink()
        with untouched(), pytest.raises(VaultExists, match="never replaced"):
            Vault.create(tmp_path / "v")

    def test_an_intact_vault_is_opened_if_that_is_fine(self, tmp_path, untouched):
        Vault.create(tmp_path / "v").register("x", pa.table({"x": [1.0, 2.0, 4.0]}), few_rows=True)
        with untouched():
            there = Vault.create(tmp_path / "v", exist_ok=True)
            assert [d.name for d in there.datasets()] == ["x"]
            for other in (
                {"key": Key.generate()},
                {"ledger": "postgresql://host/other"},
                {"new_ledger": True},
            ):
                with pytest.raises(VaultExists, match="never replaced"):
                    Vault.create(tmp_path / "v", exist_ok=True, **other)
        (tmp_path / "v" / "key").unlink()
        Key.generate().write(tmp_path / "v" / "key")
        with pytest.raises(WrongKey):
            Vault.create(tmp_path / "v", exist_ok=True)

    @pytest.mark.parametrize("ledger", ["mysql://host/ledger", "postgresql://@/nowhere?host=/no"])
    def test_a_wrong_address_leaves_no_key(self, tmp_path, ledger):
        with pytest.raises(VaultError, match=r"address|no connection"):
            Vault.create(tmp_path / "v", ledger=ledger)
        Vault.create(tmp_path / "v")

    def test_a_seeded_key_is_refused(self, tmp_path, untouched):
        with untouched(), pytest.raises(UnsafeKey, match="seed"):
            Vault.create(tmp_path / "v", key=Key.unsafe_from_seed(1))

    def test_a_seeded_key_written_to_a_file_cannot_be_told(self, tmp_path):
        # The limit of that refusal: bytes do not say where they come from.
        Key.unsafe_from_seed(1).write(tmp_path / "key")
        Vault.create(tmp_path / "v", key_file=tmp_path / "key")

    def test_a_key_file_elsewhere_must_be_named_again(self, tmp_path):
        Key.generate().write(tmp_path / "secret")
        Vault.create(tmp_path / "v", key_file=tmp_path / "secret")
        assert not (tmp_path / "v" / "key").exists()
        Vault.open(tmp_path / "v", key_file=tmp_path / "secret")
        with pytest.raises(VaultMissing, match="no key file"):
            Vault.open(tmp_path / "v")

    def test_another_key_is_refused(self, tmp_path, vault, dataset, untouched):
        dataset.release(to="a", noise=1.0).to_arrow()
        Key.generate().write(tmp_path / "other")
        with untouched(), pytest.raises(WrongKey, match="Use this vault"):
            Vault.open(vault.path, key_file=tmp_path / "other")

    @pytest.mark.parametrize("make", [lambda p: None, lambda p: p.mkdir(), lambda p: p.touch()])
    def test_a_place_without_a_vault_is_told(self, tmp_path, make):
        make(tmp_path / "v")
        with pytest.raises(VaultMissing, match="make one first"):
            Vault.open(tmp_path / "v")

    def test_a_place_that_cannot_be_made_is_told(self, tmp_path):
        (tmp_path / "file").touch()
        with pytest.raises(VaultError, match="no vault can be made"):
            Vault.create(tmp_path / "file" / "v")

    def test_places_come_from_the_option_then_the_environment(self, monkeypatch):
        assert vault_place() == Path(".cornerwave")
        assert key_place() is None
        monkeypatch.setenv("CORNERWAVE_VAULT", "/somewhere/v")
        monkeypatch.setenv("CORNERWAVE_KEY_FILE", "/somewhere/k")
        assert vault_place() == Path("/somewhere/v")
        assert vault_place("here") == Path("here")
        assert key_place() == Path("/somewhere/k")

    def test_nothing_shows_the_key(self, vault, dataset):
        release = dataset.release(to="a", noise=1.0)
        shown = "".join(map(repr, [vault, dataset, release, dataset._key, vars(dataset)]))
        for key in (vault._key, dataset._key):
            assert key._secret.hex() not in shown
            assert repr(key._secret)[2:-1] not in shown


class TestFrames:
    def test_the_kind_that_came_in_comes_out(self, vault, people, frame_kind):
        frame = frame_kind.of(people.drop(["id"]))
        dataset = vault.register("people", frame, few_rows=True)
        copy = dataset.release(to="a", privacy=0.5).to_frame()
        assert isinstance(copy, frame_kind.type)
        table = frame_kind.to_arrow(copy)
        assert table.column_names == ["age", "wage", "height"]
        assert table.num_rows == people.num_rows

    def test_every_kind_gives_the_same_copy(self, vault, people):
        table = people.drop(["id"])
        vault.register("people", table, few_rows=True)
        made = [
            vault.dataset("people", source=kind.of(table)).release(to="a", noise=1.0).to_arrow()
            for kind in FRAME_KINDS.values()
        ]
        assert all(copy.equals(made[0]) for copy in made)

    def test_batches_and_the_arrow_stream_are_the_copy(self, dataset):
        release = dataset.release(to="a", noise=1.0)
        whole = release.to_arrow()
        assert pa.Table.from_batches(list(release.batches())).equals(whole)
        assert pa.table(release).equals(whole)
        assert pa.RecordBatchReader.from_stream(release).read_all().equals(whole)

    def test_batches_outlive_their_file(self, dataset):
        batches = list(dataset.release(to="a", noise=1.0).batches())
        whole = dataset.release(to="a", noise=1.0).to_arrow()
        assert pa.Table.from_batches(batches).equals(whole)

    @pytest.mark.parametrize("take", [Release.to_arrow, lambda r: list(r.batches()), pa.table])
    def test_taking_a_copy_is_holding_it(self, dataset, take):
        release = dataset.release(to="ann", noise=1.0)
        assert dataset.holdings == []
        take(release)
        assert [(h.recipient, h.spec.level.noise) for h in dataset.holdings] == [("ann", 1.0)]

    def test_a_frame_must_be_given_again(self, vault, dataset, people):
        opened = Vault.open(vault.path).dataset("people")
        with pytest.raises(SourceError, match="give the frame"):
            opened.release(to="a", noise=1.0).to_arrow()
        assert opened.levels == []
        again = Vault.open(vault.path).dataset("people", source=people)
        copy = again.release(to="a", noise=1.0).to_arrow()
        assert copy.equals(dataset.release(to="a", noise=1.0).to_arrow())

    @pytest.mark.parametrize("strange", [5, None, {"x": object()}, [1, 2]])
    def test_what_is_no_table_is_refused(self, vault, strange):
        with pytest.raises(SourceError, match="neither a path nor a table"):
            vault.register("x", strange, few_rows=True)


class TestFiles:
    @pytest.mark.parametrize("ending", FORMATS)
    def test_every_format_holds_the_same_values(self, dataset, tmp_path, ending):
        release = dataset.release(to="a", noise=1.0)
        path = release.write(tmp_path / f"copy.{ending}")
        frame = release.to_arrow()
        assert read_copy(path).cast(frame.schema).equals(frame)

    def test_columns_without_a_gap_say_so(self, dataset, people, tmp_path):
        path = dataset.release(to="a", noise=1.0).write(tmp_path / "copy.parquet")
        gaps = {part.name: part.nullable for part in pa.parquet.read_schema(path)}
        assert gaps == {name: people[name].null_count > 0 for name in gaps}
        assert sorted(gaps.values()) == [False, False, True]

    @pytest.mark.parametrize("ending", FORMATS)
    @pytest.mark.first(2)
    def test_threads_change_no_byte_of_many_groups(self, vault, tmp_path, at_a_time, ending):
        at_a_time(GROUP_CELLS=2048)
        rng = np.random.default_rng(6)
        table = pa.table({"x": rng.normal(size=9_000), "g": rng.choice(["a", "b"], 9_000)})
        release = vault.register("long", table, few_rows=True).release(to="a", noise=1.0)
        paths = [release.write(tmp_path / f"{n}.{ending}", threads=n) for n in (1, 2, 5)]
        assert len({path.read_bytes() for path in paths}) == 1
        if ending == "parquet":
            assert pa.parquet.ParquetFile(paths[0]).num_row_groups == 9
        assert read_copy(paths[0]).num_rows == 9_000

    @pytest.mark.parametrize("ending", FORMATS)
    def test_bytes_are_the_same_again(self, dataset, tmp_path, ending):
        paths = [
            dataset.release(to=to, noise=1.0).write(tmp_path / f"{to}.{ending}", threads=threads)
            for to, threads in [("a", 1), ("b", 2), ("c", 3)]
        ]
        assert len({path.read_bytes() for path in paths}) == 1

    def test_csv_and_parquet_sources_give_one_copy(self, vault, people, tmp_path):
        pa.csv.write_csv(people, tmp_path / "people.csv")
        pa.parquet.write_table(people, tmp_path / "people.parquet")
        (tmp_path / "parts").mkdir()
        pa.parquet.write_table(people.slice(0, 100), tmp_path / "parts" / "1.parquet")
        pa.parquet.write_table(people.slice(100), tmp_path / "parts" / "2.parquet")
        vault.register("people", tmp_path / "people.csv", drop=["id"], few_rows=True)
        made = []
        for number, source in enumerate(["people.csv", "people.parquet", "parts"]):
            dataset = vault.dataset("people", source=tmp_path / source)
            out = tmp_path / f"out{number}.parquet"
            made.append(dataset.release(to="a", privacy=0.3).write(out).read_bytes())
        assert len(set(made)) == 1

    @pytest.mark.slow
    def test_a_new_process_makes_the_same_bytes(self, vault, people, tmp_path):
        pa.parquet.write_table(people, tmp_path / "people.parquet")
        dataset = vault.register("people", tmp_path / "people.parquet", key="id", few_rows=True)
        for noise in (2.0, 0.5):
            dataset.release(to="a", noise=noise).to_arrow()
        here = dataset.release(to="a", noise=1.0).write(tmp_path / "here.parquet")
        script = (
            "import sys; from cornerwave import Vault; "
            "Vault.open(sys.argv[1]).dataset('people').release(to='a', noise=1.0)"
            ".write(sys.argv[2], threads=1)"
        )
        there = tmp_path / "there.parquet"
        subprocess.run([sys.executable, "-c", script, vault.path, there], check=True)
        assert there.read_bytes() == here.read_bytes()

    @pytest.mark.parametrize("ending", FORMATS)
    def test_metadata_says_what_the_copy_is_and_no_more(self, dataset, tmp_path, ending):
        path = dataset.release(to="ann", privacy=0.8).write(tmp_path / f"copy.{ending}")
        assert read_metadata(path).to_json() == {
            "dataset": dataset.id,
            "noise": 4.0,
            "privacy": 0.8,
            "retention": pytest.approx(0.2**0.5),
            "rows": 300,
            "edition": 1,
            "order": None,
            "noise_format": 1,
            "columns": {
                name: {
                    "role": "perturbed",
                    "type": "int64" if name == "age" else "double",
                    "unit": None,
                    "transform": None,
                    "excess": ANY,
                    "hidden": 0.8,
                    "spread": {"centre": ANY, "factor": pytest.approx(0.2**0.5, rel=0.1)},
                    "rounded": 1.0 if name == "age" else None,
                    "clipped": None,
                    "missing": "shown",
                }
                for name in ("age", "wage", "height")
            },
        }

    def test_parquet_statistics_and_schema_hold_no_source_value(self, vault, tmp_path):
        table = pa.table({"x": [1.0, 2.0, 4.0, 77.03125]}).replace_schema_metadata(
            {"note": "canary-note"}
        )
        path = (
            vault.register("x", table, few_rows=True)
            .release(to="a", noise=1.0)
            .write(tmp_path / "c.parquet")
        )
        assert b"canary-note" not in path.read_bytes()
        statistics = pa.parquet.read_metadata(path).row_group(0).column(0).statistics
        assert statistics is None or statistics.max != 77.03125

    def test_permissions_follow_the_umask(self, dataset, tmp_path):
        before = os.umask(0o027)
        try:
            path = dataset.release(to="a", noise=1.0).write(tmp_path / "copy.csv")
        finally:
            os.umask(before)
        assert path.stat().st_mode & 0o777 == 0o640
        assert (tmp_path / "copy.csv.meta.json").stat().st_mode & 0o777 == 0o640

    def test_existing_files_stay_unless_forced(self, dataset, tmp_path, untouched):
        release = dataset.release(to="a", noise=1.0)
        path = release.write(tmp_path / "copy.parquet")
        right = path.read_bytes()
        assert release.write(path).read_bytes() == right  # it is this very copy
        for other in (b"something else", right + b"0", changed_inside(right)):
            path.write_bytes(other)
            with untouched(), pytest.raises(OutputExists, match="by force"):
                release.write(path)
            assert path.read_bytes() == other
        assert release.write(path, force=True).read_bytes() == right

    def test_a_refusal_after_a_release_loses_no_line(self, dataset, tmp_path):
        release = dataset.release(to="a", noise=1.0)
        path = release.write(tmp_path / "copy.parquet")
        pa.parquet.write_table(pa.parquet.read_table(path).slice(1), path)
        for again in (release, dataset.release(to="b", noise=1.0)):
            with pytest.raises(OutputExists):
                again.write(path)
        with pytest.raises(OutputExists):
            write_all([(r, path) for r in dataset.release_many({"c": Level(2.0)})])
        assert [(h.recipient, h.spec.level.noise) for h in dataset.holdings] == [("a", 1.0)]

    def test_a_release_refused_once_can_be_written_later(self, dataset, tmp_path):
        release = dataset.release(to="a", noise=1.0)
        (tmp_path / "copy.csv").touch()
        with pytest.raises(OutputExists):
            release.write(tmp_path / "copy.csv")
        assert dataset.levels == []
        release.write(tmp_path / "other.csv")
        assert dataset.levels == [Level(1.0)]

    @pytest.mark.parametrize(
        ("name", "says"),
        [
            ("copy.txt", "the ending must be one of"),
            ("nowhere/copy.csv", "there is no directory"),
            ("folder.csv", "is a directory"),
        ],
    )
    def test_strange_places_are_refused(self, dataset, tmp_path, untouched, name, says):
        (tmp_path / "folder.csv").mkdir()
        release = dataset.release(to="a", noise=1.0)
        with pytest.raises(OutputError, match=says):
            release.write(tmp_path / name, force=True)
        assert dataset.levels == []

    def test_a_copy_never_replaces_its_own_source(self, vault, people, tmp_path, untouched):
        source = tmp_path / "people.parquet"
        pa.parquet.write_table(people, source)
        dataset = vault.register("people", source, drop=["id"], few_rows=True)
        (tmp_path / "link.parquet").symlink_to(source)
        (tmp_path / "sub").mkdir()
        for place in (source, tmp_path / "sub" / ".." / source.name, tmp_path / "link.parquet"):
            with untouched(), pytest.raises(OutputError, match="the registered table itself"):
                dataset.release(to="a", noise=1.0).write(place, force=True)

    def test_a_copy_never_joins_its_own_source(self, vault, people, tmp_path, untouched):
        (tmp_path / "parts").mkdir()
        pa.parquet.write_table(people, tmp_path / "parts" / "1.parquet")
        dataset = vault.register("people", tmp_path / "parts", drop=["id"], few_rows=True)
        with untouched(), pytest.raises(OutputError, match="the registered table itself"):
            dataset.release(to="a", noise=1.0).write(tmp_path / "parts" / "2.parquet")


class TestMany:
    LEVELS: ClassVar = {"a": Level(1.0), "b": Level(4.0), "c": Level(0.5)}

    def test_one_pass_equals_one_by_one(self, dataset, tmp_path):
        releases = dataset.release_many(self.LEVELS)
        together = write_all([(r, tmp_path / f"{r.recipient}.parquet") for r in releases])
        for path, (to, level) in zip(together, self.LEVELS.items(), strict=True):
            alone = dataset.release(to=to, noise=level.noise).write(tmp_path / f"x-{to}.parquet")
            assert alone.read_bytes() == path.read_bytes()

    def test_the_source_is_read_once(self, dataset, tmp_path, monkeypatch):
        reads = []
        source = dataset.source
        opened = source.open
        object.__setattr__(source, "open", lambda columns: reads.append(1) or opened(columns))
        releases = dataset.release_many(self.LEVELS)
        write_all([(r, tmp_path / f"{r.recipient}.csv") for r in releases])
        assert len(reads) == 1

    def test_releases_made_one_after_another_are_written_together(self, dataset, tmp_path):
        one = dataset.release(to="a", noise=1.0)
        two = dataset.release(to="b", noise=0.5)
        write_all([(one, tmp_path / "1.parquet"), (two, tmp_path / "2.parquet")])
        for release, name in ((one, "1"), (two, "2")):
            assert read_copy(tmp_path / f"{name}.parquet").equals(release.to_arrow())

    def test_releases_of_two_datasets_are_not_mixed(self, vault, dataset, tmp_path, untouched):
        other = vault.register("other", pa.table({"x": [1.0, 2.0, 4.0]}), few_rows=True)
        pair = [dataset.release(to="a", noise=1.0), other.release(to="b", noise=1.0)]
        places = [(r, tmp_path / f"{r.recipient}.csv") for r in pair]
        with pytest.raises(OutputError, match="one dataset"):
            write_all(places)
        assert not list(tmp_path.glob("*.csv"))
        assert dataset.holdings == other.holdings == []

    def test_nothing_asked_for_is_refused(self, dataset):
        with pytest.raises(LevelError, match="no copy was asked for"):
            dataset.release_many({})
        assert write_all([]) == []

    @pytest.mark.parametrize("second", ["one.csv", "sub/../one.csv"])
    def test_two_copies_to_one_file_are_refused(self, dataset, tmp_path, second):
        (tmp_path / "sub").mkdir()
        pair = dataset.release_many({"a": Level(1.0), "b": Level(2.0)})
        with pytest.raises(OutputError, match="name a file for each"):
            write_all([(pair[0], tmp_path / "one.csv"), (pair[1], tmp_path / second)])
        assert dataset.levels == []
        assert not list(tmp_path.glob("*.csv"))

    def test_one_existing_file_holds_all_back(self, dataset, tmp_path, untouched):
        (tmp_path / "b.csv").touch()
        with untouched():
            releases = dataset.release_many(self.LEVELS)
            with pytest.raises(OutputExists):
                write_all([(r, tmp_path / f"{r.recipient}.csv") for r in releases])


class TestLevels:
    @pytest.mark.parametrize("noise", [0, -1.0, np.nan, np.inf, -np.inf, "much", None])
    def test_impossible_noise_is_refused(self, dataset, noise, untouched):
        with untouched(), pytest.raises(LevelError):
            dataset.release(to="a", noise=noise)

    @pytest.mark.parametrize("privacy", [0, 1, -0.5, 1.5, np.nan, np.inf])
    def test_impossible_privacy_is_refused(self, dataset, privacy, untouched):
        with untouched(), pytest.raises(LevelError, match="strictly between 0 and 1"):
            dataset.release(to="a", privacy=privacy)

    @pytest.mark.parametrize("noise", [0.0, -1.0, np.nan, np.inf])
    def test_an_impossible_level_cannot_even_be_made(self, dataset, noise, untouched):
        # In the ledger it would stop every later release of the dataset.
        with untouched(), pytest.raises(LevelError):
            dataset.release_many({"a": Level(noise)})

    def test_both_units_are_refused(self, dataset):
        with pytest.raises(LevelError, match="exactly one of noise and privacy"):
            dataset.release(to="a", noise=1.0, privacy=0.5)

    @pytest.mark.parametrize("to", ["", " a", "a ", "a\nb", "x" * 256, "\x1b[31m"])
    def test_strange_recipients_are_refused(self, dataset, to, untouched):
        with untouched(), pytest.raises(VaultError, match="a recipient's name has"):
            dataset.release(to=to, noise=1.0)

    @pytest.mark.parametrize("noise", [1e-12, 5e-324, 999.0])
    def test_extreme_levels_can_be_released(self, dataset, noise):
        copy = dataset.release(to="a", noise=noise).to_arrow()
        assert np.isfinite(copy["age"].to_numpy()).all()

    @pytest.mark.parametrize("noise", [999.1, 1e12, 1e300])
    def test_noise_beyond_the_lattice_is_refused(self, dataset, noise, untouched):
        with untouched(), pytest.raises(LevelError, match="beyond the highest level"):
            dataset.release(to="a", noise=noise)

    def test_a_level_in_between_becomes_the_noisier_one(self, dataset):
        release = dataset.release(to="a", privacy=0.7071)
        assert release.level.privacy == 0.708
        release.to_arrow()
        assert [held.spec.level for held in dataset.holdings] == [release.level]


class TestCoalition:
    def test_numbers_follow_the_theorems(self, dataset):
        for to, noise in {"a": 1.0, "b": 4.0, "c": 0.5}.items():
            dataset.release(to=to, noise=noise).to_arrow()
        found = dataset.coalition(["a", "b"])
        assert found.joint_privacy == found.best_privacy == 0.5
        assert found.best_member == "a"
        assert found.gain == 0
        assert found.independent_privacy == 0.445  # 1 / (1 + 1/1 + 1/4), on the lattice
        everybody = dataset.coalition(["a", "b", "c"])
        assert everybody.joint_privacy == 0.334
        assert everybody.independent_privacy == pytest.approx(
            1 / (1 + 1 + 0.25 + 666 / 334), abs=0.001
        )

    def test_all_copies_of_a_member_count(self, dataset):
        for noise in (4.0, 1.0):
            dataset.release(to="a", noise=noise).to_arrow()
        assert dataset.coalition(["a"]).joint_privacy == 0.5

    def test_strangers_are_refused(self, dataset):
        with pytest.raises(NoSuchRecipient, match="no recipients yet"):
            dataset.coalition(["eve"])
        dataset.release(to="ann", noise=1.0).to_arrow()
        with pytest.raises(NoSuchRecipient, match="not released to 'eve'; it has ann"):
            dataset.coalition(["ann", "eve"])
        with pytest.raises(NoSuchRecipient, match="at least one"):
            dataset.coalition([])


class TestRegisteredOnce:
    @pytest.mark.parametrize(
        "twin",
        [
            lambda t: t.take(np.random.default_rng(0).permutation(t.num_rows)),
            lambda t: t.rename_columns(["id", "x", "y", "z"]),
            lambda t: t.select(["wage"]),
            lambda t: t.select(["height"]).append_column("new", [np.arange(300.0) ** 2]),
        ],
        ids=["shuffled", "renamed", "a column", "a column and a new one"],
    )
    def test_the_same_values_are_refused(self, vault, dataset, people, twin, untouched):
        table = twin(people)
        drop = [name for name in ("id",) if name in table.column_names]
        with untouched(), pytest.raises(AlreadyRegistered, match="could average"):
            vault.register("twin", table, drop=drop, few_rows=True, keep_order=True)

    def test_another_table_is_not_refused(self, vault, dataset):
        vault.register("other", make_people(300, seed=8), drop=["id"], few_rows=True)

    def test_a_taken_name_is_refused(self, vault, dataset, untouched):
        with untouched(), pytest.raises(AlreadyRegistered, match="under another name"):
            vault.register("people", make_people(301), drop=["id"], few_rows=True)

    def test_unknown_datasets_are_told_what_there_is(self, vault, dataset):
        with pytest.raises(NoSuchDataset, match="it has people"):
            vault.dataset("poeple")


class TestColumns:
    def test_undecided_columns_are_named_with_the_options(self, vault, people, untouched):
        with (
            untouched(),
            pytest.raises(ColumnError, match="so it identifies people") as refusal,
        ):
            vault.register("people", people, few_rows=True)
        assert refusal.value.use == ("drop", "key", "min_count", "categorical")

    @pytest.mark.parametrize("role", ["key", "keep", "drop"])
    def test_unknown_columns_are_refused(self, vault, people, role, untouched):
        named = "nobody" if role == "key" else ["nobody"]
        with untouched(), pytest.raises(ColumnError, match="no column 'nobody'; the table has"):
            vault.register("people", people, **{role: named}, few_rows=True)

    def test_kept_columns_leave_as_they_are(self, vault, people):
        dataset = vault.register("people", people, keep=["id"], few_rows=True)
        copy = dataset.release(to="a", noise=1.0).to_arrow()
        assert copy["id"].equals(people["id"])
        assert not copy["age"].cast("double").equals(people["age"].cast("double"))

    def test_a_dropped_key_still_tells_the_rows_apart(self, vault, people):
        dataset = vault.register("people", people, key="id", drop=["id"], few_rows=True)
        copy = dataset.release(to="a", noise=1.0).to_arrow()
        assert copy.column_names == ["age", "wage", "height"]
        back = people.take(list(reversed(range(300))))
        mixed = vault.dataset("people", source=back).release(to="a", noise=1.0).to_arrow()
        assert mixed.take(list(reversed(range(300)))).equals(copy)

    def test_a_kept_column_that_changed_is_refused(self, vault, people, untouched):
        vault.register("people", people, keep=["id"], few_rows=True)
        ids = people["id"].to_pylist()
        ids[5] = "somebody else"
        changed = vault.dataset("people", source=people.set_column(0, "id", [ids]))
        with untouched(), pytest.raises(SourceChanged, match="a value differs"):
            changed.release(to="a", noise=1.0).to_arrow()

    @pytest.mark.parametrize(
        ("column", "says"),
        [
            ([1.0, np.inf, 2.0], "infinite"),
            ([1, 2**53 + 1, 2], "beyond 2\\^53"),
            ([[1], [2], [3]], "no decision"),
            ([1e-170, 2e-170, 3e-170], "vanishes"),
        ],
    )
    def test_columns_that_cannot_be_perturbed(self, vault, column, says, untouched):
        with untouched(), pytest.raises(ColumnError, match=says):
            vault.register("x", pa.table({"x": column}), few_rows=True)

    def test_no_numeric_column_is_refused(self, vault, untouched):
        with untouched(), pytest.raises(ColumnError, match="no column to perturb"):
            vault.register("x", pa.table({"x": ["a", "b"]}), keep=["x"], few_rows=True)

    def test_a_constant_column_warns_and_stays(self, vault):
        table = pa.table({"x": [1.0, 2.0, 4.0], "flat": [7] * 3})
        with pytest.warns(SingularCovariance, match="flat"):
            dataset = vault.register("x", table, few_rows=True)
        assert dataset.release(to="a", noise=1.0).to_arrow()["flat"].to_pylist() == [7.0] * 3

    def test_a_column_that_is_gone_is_refused(self, vault, people, dataset):
        with pytest.raises(SourceChanged, match="'wage' is gone"):
            vault.dataset("people", source=people.drop(["wage"]))


class TestOnePath:
    """The promise, through the owner's interface: all copies that anybody saw are on one path."""

    def test_orders_of_asking_leave_one_path(self, vault):
        x = np.random.default_rng(1).standard_normal(20_000)
        dataset = vault.register("x", pa.table({"x": x}), few_rows=True)
        noise = [LATTICE[k - 1] for k in (750, 500, 667, 333)]
        raw = {v: dataset.release(to="a", noise=v, raw=True).to_arrow() for v in noise}
        W = {v: raw[v]["x"].to_numpy() - x for v in noise}
        for u in noise:
            for v in noise:
                spread = np.sqrt((u * v + min(u, v) ** 2) / len(x))
                assert abs(np.mean(W[u] * W[v]) / x.var() - min(u, v)) < 6 * spread + 0.05 * min(
                    u, v
                )


class Provoked(Exception):
    pass


CANARY = 48213.0625
CANARY_TEXT = "canary-48213"


def text_of(error):
    return "".join(traceback.format_exception(error))


class TestNoCellIsShown:
    @pytest.fixture
    def table(self):
        return pa.table(
            {"name": [CANARY_TEXT, "b", "c"], "x": [CANARY, 2.0, 7.0], "n": [48213, 5, 9]}
        )

    SEAMS = (
        "cornerwave.spine.rows.fill_floats",
        "cornerwave.spine.recipe.Recipe.perturbed",
        "cornerwave.spine.recipe.Recipe._copy",
        "cornerwave.spine.rows.Encoded.fill_bits",
        "cornerwave.outputs.CopyFile.encode",
        "cornerwave.outputs.CopyFile.append",
        "cornerwave.outputs.CopyFile.publish",
    )

    @pytest.mark.parametrize("seam", SEAMS)
    def test_a_fault_inside_shows_its_place_only(self, vault, table, tmp_path, monkeypatch, seam):
        dataset = vault.register("x", table, keep=["name"], few_rows=True)

        def fault(*args, **kwargs):
            raise Provoked(f"{CANARY} {CANARY_TEXT}")

        monkeypatch.setattr(seam, fault)
        with pytest.raises(Exception, match="Provoked") as caught:
            dataset.release(to="a", noise=1.0).write(tmp_path / "copy.csv")
        shown = text_of(caught.value)
        assert "48213" not in shown
        assert "write" in shown
        assert not list(tmp_path.glob("*copy*"))

    @pytest.mark.parametrize(
        "seam", ["cornerwave.spine.rows.fill_floats", "cornerwave.spine.survey.kept_of"]
    )
    def test_a_fault_in_registration_shows_its_place_only(self, vault, table, monkeypatch, seam):
        def fault(*args, **kwargs):
            raise Provoked(f"{CANARY} {CANARY_TEXT}")

        monkeypatch.setattr(seam, fault)
        with pytest.raises(Exception, match="Provoked") as caught:
            vault.register("x", table, keep=["name"], few_rows=True)
        assert "48213" not in text_of(caught.value)

    def test_arrows_own_words_are_not_passed_on(self, vault, table):
        small = table.set_column(2, "n", pa.array([4, 5, 9], pa.int8()))
        vault.register("x", small, keep=["name", "n"], few_rows=True)
        with pytest.raises(SourceChanged) as caught:
            vault.dataset("x", source=table).release(to="a", noise=1.0).to_arrow()
        assert "48213" not in text_of(caught.value)

    def test_a_frame_of_mixed_values_is_refused_without_them(self, vault):
        import pandas as pd

        frame = pd.DataFrame({"x": pd.Series([1.5, CANARY_TEXT, object()], dtype=object)})
        with pytest.raises(SourceError) as caught:
            vault.register("x", frame, few_rows=True)
        assert "48213" not in text_of(caught.value)

    def test_refused_columns_show_no_cell(self, vault, table):
        for bad in ([48213, 2**60 + 48213, 1], [CANARY, np.inf, 1.0]):
            with pytest.raises(ColumnError) as caught:
                vault.register("x", table.append_column("bad", [bad]), drop=["name"], few_rows=True)
            assert "48213" not in text_of(caught.value)
        with pytest.raises(ColumnError) as caught:
            vault.register("x", pa.concat_tables([table, table]), key="name", few_rows=True)
        assert "48213" not in text_of(caught.value)


def test_nothing_of_the_table_is_in_the_vault(vault, tmp_path):
    table = pa.table({"id": ["canary-a", "canary-b", "c"], "x": [48213.0625, 2.0, 11.5]})
    vault.register("x", table, key="id", few_rows=True)
    content = b"".join(path.read_bytes() for path in vault.path.rglob("*") if path.is_file())
    assert b"canary" not in content
    assert b"48213.0625" not in content
    assert state(tmp_path)


class TestAgain:
    """A line of the ledger is the release: key and ledger make the very file again."""

    @pytest.mark.parametrize("ending", FORMATS)
    def test_the_same_bytes_without_remembering_options(self, vault, people, tmp_path, ending):
        pa.parquet.write_table(people, tmp_path / "people.parquet")
        dataset = vault.register("people", tmp_path / "people.parquet", drop=["id"], few_rows=True)
        path = tmp_path / f"copy.{ending}"
        options = {"round": ["age"], "clip": {"wage": (0, 5000.5), "age": (None, 90)}}
        dataset.release(to="ann", privacy=0.4, **options).write(path)
        dataset.release(to="bob", privacy=0.4).write(tmp_path / f"bob.{ending}")
        [(release, format_)] = Vault.open(vault.path).dataset("people").again("ann")
        assert format_ == ending
        again = release.write(tmp_path / f"again.{format_}")
        assert again.read_bytes() == path.read_bytes()
        assert again.read_bytes() != (tmp_path / f"bob.{ending}").read_bytes()
        assert len(dataset.holdings) == 2  # made again, it is no other holding

    def test_two_recipients_of_a_level_hold_the_same_bytes(self, dataset, tmp_path):
        one, two = (
            dataset.release(to=to, privacy=0.4).write(tmp_path / f"{to}.parquet").read_bytes()
            for to in ("ann", "bob")
        )
        assert one == two

    def test_clipped_dates_come_back_as_they_count(self, vault, tmp_path):
        days = [date(2020, 1, 1) + timedelta(days=n) for n in range(50)]
        pa.parquet.write_table(pa.table({"day": days}), tmp_path / "t.parquet")
        dataset = vault.register("t", tmp_path / "t.parquet", few_rows=True, keep_order=True)
        bounds = {"day": (date(2020, 1, 1), None)}
        release = dataset.release(to="a", privacy=0.9, clip=bounds, round=["day"])
        made = release.write(tmp_path / "a.csv").read_bytes()
        [(again, _)] = dataset.again("a")
        assert again.write(tmp_path / "b.csv").read_bytes() == made

    def test_strangers_hold_nothing(self, dataset):
        with pytest.raises(NoSuchRecipient, match="no recipients yet"):
            dataset.again("eve")

    def test_the_ledger_knows_its_own_copies_only(self, vault, dataset, tmp_path):
        path = dataset.release(to="a", privacy=0.5).write(tmp_path / "c.parquet")
        stated = read_metadata(path)
        assert dataset.knows(stated.dataset, stated.noise)
        assert not dataset.knows(stated.dataset, 4.0)
        assert not dataset.knows("00" * 16, stated.noise)


def test_a_file_name_with_a_nul_is_refused(vault: Vault, tmp_path: Path) -> None:
    dataset = vault.register("x", pa.table({"x": [1.0, 2.0, 4.0]}), few_rows=True)
    with pytest.raises(OutputError, match="NUL"):
        dataset.release(to="a", privacy=0.5).write(tmp_path / "a\0.csv")
