"""What would be answered wrongly is refused; beside each refusal stands what it would have said.

In each test the honest way agrees with the original, and the refused one, forced, does not.
"""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as papq
import pytest
from miner_world import agrees

from cornerwave import Vault
from cornerwave.errors import ColumnError, LevelError, SourceError
from cornerwave.ledger import Key
from cornerwave.miner import Copy
from cornerwave.outputs import metadata_path, read_metadata
from cornerwave.sources import METADATA_KEY
from cornerwave.vault import Dataset

ROWS = 20_000


def _people(seed: int = 1, rows: int = ROWS) -> pa.Table:
    rng = np.random.default_rng(seed)
    grade = rng.integers(0, 4, rows)
    age = rng.integers(18, 60, rows) + 5 * grade
    wage = 400.0 * age + rng.gamma(2.0, 3000, rows)
    return pa.table({"age": age, "wage": wage, "grade": np.array(list("abcd"))[grade]})


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("vault")
    return Vault.create(folder / "v", key=Key(bytes(range(32)))).register("people", _people())


@pytest.fixture(scope="module")
def ages() -> np.ndarray:
    return _people()["age"].to_numpy()


@pytest.fixture
def copy(dataset: Dataset, tmp_path: Path) -> Path:
    release = dataset.release(to="partner", privacy=0.5, raw=True)
    return Path(release.write(tmp_path / "copy.parquet"))


def _without_metadata(table: pa.Table, path: Path) -> Path:
    papq.write_table(table.replace_schema_metadata(None), path)
    return path


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_folder_of_two_levels_is_refused(
    dataset: Dataset, ages: np.ndarray, tmp_path: Path, ending: str
) -> None:
    both = tmp_path / "both"
    both.mkdir()
    paths = [
        dataset.release(to="partner", privacy=privacy).write(both / f"{privacy}.{ending}")
        for privacy in (0.3, 0.8)
    ]
    for read in (Copy.open, read_metadata):
        with pytest.raises(SourceError, match="the files of both differ in their noise: they are"):
            read(both)
    for path in paths:
        own = Copy.open(path).covariance(["age"], of="table")
        assert agrees(own, ages.var(ddof=1))
    # what it would have said: the variance of two mixed levels, less the noise of the first
    forced = [dataset.release(to="x", privacy=p).to_arrow().select(["age"]) for p in (0.3, 0.8)]
    mixed = pa.concat_tables(forced).replace_schema_metadata(None)
    wrong = Copy.open(mixed, noise=Copy.open(paths[0]).level.noise, metadata={})
    assert not agrees(wrong.covariance(["age"], of="table"), ages.var(ddof=1))


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_one_copy_in_several_files_is_that_copy(
    dataset: Dataset, ages: np.ndarray, tmp_path: Path, ending: str
) -> None:
    path = Path(dataset.release(to="partner", privacy=0.5).write(tmp_path / f"copy.{ending}"))
    folder = tmp_path / "parts"
    folder.mkdir()
    for part in range(2):
        file, start = folder / f"part-{part}.{ending}", part * ROWS // 2
        if ending == "parquet":
            papq.write_table(papq.read_table(path).slice(start, ROWS // 2), file)
        else:
            names, *rows = path.read_text().splitlines(keepends=True)
            file.write_text("".join([names, *rows[start : start + ROWS // 2]]))
            metadata_path(file).write_bytes(metadata_path(path).read_bytes())
    assert agrees(Copy.open(folder).covariance(["age"], of="table"), ages.var(ddof=1))


def test_files_without_metadata_are_not_taken_for_a_part_of_a_copy(
    copy: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    copy.rename(folder / "a.parquet")
    _without_metadata(papq.read_table(folder / "a.parquet"), folder / "b.parquet")
    with pytest.raises(SourceError, match="the files of folder have different metadata"):
        Copy.open(folder)


def test_the_batches_of_a_dataset_are_one_copy(tmp_path: Path) -> None:
    """Each has its own rows and the noise of the same path."""
    first, second = _people(2, 6000), _people(3, 4000)
    dataset = Vault.create(tmp_path / "v", key=Key(bytes(range(32)))).register("people", first)
    dataset.append(second)
    folder = tmp_path / "batches"
    folder.mkdir()
    for batch in (1, 2):
        release = dataset.release(to="partner", privacy=0.5, batch=batch)
        release.write(folder / f"{batch}.parquet")
    copy, age = Copy.open(folder), pa.concat_tables([first, second])["age"].to_numpy()
    assert agrees(copy.mean(["age"], of="table"), age.mean())
    assert copy.edition == 2
    dataset.release(to="partner", privacy=0.5, edition=2).write(folder / "all.parquet")
    with pytest.raises(SourceError, match="differ in their edition and batch"):
        Copy.open(folder)  # rows of a batch would count twice


def test_a_frame_that_was_filtered_before_is_refused(copy: Path, ages: np.ndarray) -> None:
    whole = papq.read_table(copy)
    older = whole.filter(pc.greater(whole["age"], 50))
    with pytest.raises(SourceError, match=rf"has {len(older):,} rows, but its metadata .* 20,000"):
        Copy.open(older).mean(["age"])
    truth = ages[ages > 50].mean()
    wrong = Copy.open(older, subset=True).mean(["age"], of="table")
    assert not agrees(wrong, truth)
    # the honest ways: ask the whole copy, or take rows without looking at them
    means = Copy.open(whole).group_means("age", by="grade", of="table")
    grades = _people()["grade"].to_numpy()
    assert agrees(means, np.array([ages[grades == g].mean() for g in "abcd"]))
    some = Copy.open(whole.slice(0, ROWS // 2), subset=True)
    assert agrees(some.mean(["age"], of="table"), ages[: ROWS // 2].mean())


@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv"])
def test_a_file_with_other_rows_than_it_states_is_refused(
    dataset: Dataset, tmp_path: Path, ending: str
) -> None:
    path = Path(dataset.release(to="partner", privacy=0.5).write(tmp_path / f"copy.{ending}"))
    Copy.open(path).mean()
    told = read_metadata(path)
    assert told is not None
    for ask in (
        lambda copy: copy.mean(),
        lambda copy: copy.frequencies("grade"),
        lambda copy: copy.group_means("age", by="grade"),
        lambda copy: copy.regression("wage", on=["age", "grade"]),
        lambda copy: copy.distribution("age"),
    ):
        with pytest.raises(SourceError, match="has 20,000 rows, but its metadata states 20,001"):
            ask(Copy.open(path, metadata={**told.to_json(), "rows": ROWS + 1}))


def test_a_derived_column_is_refused(copy: Path, ages: np.ndarray) -> None:
    whole = papq.read_table(copy)
    age = pc.cast(whole["age"], pa.float64())
    squared = whole.append_column("squared", pc.multiply(age, age))
    opened = Copy.open(squared)
    assert "squared" not in opened.columns
    assert list(opened.mean().labels[0]) == ["age", "wage"]
    for ask in (
        lambda: opened.mean(["squared"]),
        lambda: opened.regression("wage", on=["squared"]),
        lambda: opened.original_mean("squared"),
    ):
        with pytest.raises(ColumnError, match="'squared' is a key, or was added to the copy"):
            ask()
    assert agrees(opened.mean(["age"], of="table"), ages.mean())
    # what it would have said: the square of noise counts as age
    level = opened.level.noise
    wrong = Copy.open(squared, noise=level, metadata={"noise": level})
    squares = wrong.mean(["squared"], of="table")
    assert not agrees(squares, (ages.astype(float) ** 2).mean())
    # a multiple has the noise of its column, if one says so
    doubled = whole.append_column("doubled", pc.multiply(age, 2.0))
    told = json.loads(whole.schema.metadata[METADATA_KEY])
    told["columns"]["doubled"] = {"role": "perturbed"}
    said = Copy.open(doubled, metadata=told)
    assert agrees(said.covariance(["doubled"], of="table"), (2.0 * ages).var(ddof=1))


def test_the_privacy_of_a_whole_copy_is_not_taken_for_its_noise(
    dataset: Dataset, ages: np.ndarray, tmp_path: Path
) -> None:
    release = dataset.release(to="partner", privacy=0.5, raw=True)
    path = Path(release.write(tmp_path / "copy.csv"))
    noise, stated = Copy.open(path).level.noise, dataset.frozen.hidden.promised(release.level)
    assert noise > 1.1  # the grade tells some of the age
    assert 0.5 <= stated < 0.51  # a level of little more noise may promise a little more
    Copy.open(path, privacy=stated)
    with pytest.raises(LevelError, match=rf"states privacy {stated}, but privacy 0\.6 was given"):
        Copy.open(path, privacy=0.6)
    metadata_path(path).unlink()
    with pytest.raises(
        LevelError, match=r"privacy 0\.5 does not state how noisy copy\.csv is"
    ) as e:
        Copy.open(path, privacy=0.5)
    assert "Pass noise=" in str(e.value)
    right, wrong = (Copy.open(path, noise=v, metadata={}) for v in (noise, 1.0))
    assert agrees(right.covariance(["age"], of="table"), ages.var(ddof=1))
    assert not agrees(wrong.covariance(["age"], of="table"), ages.var(ddof=1))
