"""Metadata that came with a file: what a release writes passes, anything else is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from cornerwave.columns import Choices, Finish
from cornerwave.errors import SourceError
from cornerwave.levels import Level
from cornerwave.miner import Copy
from cornerwave.outputs import METADATA_KEY, check_metadata, metadata_path, read_metadata
from cornerwave.outputs._copy_metadata import COLUMN_FIELDS, FIELDS
from cornerwave.sources import ReadingSettings
from cornerwave.vault import Vault

WRONG: dict[str, list[Any]] = {
    "dataset": [7, None, [], "two\nlines", "\x1b[2J"],
    "noise": [0, -1, float("nan"), float("inf"), 10**400, "1", None, True, [1.0]],
    "privacy": [-0.1, 1.1, "half", None, float("nan")],
    "retention": [2, "x", None, 0, 1e-320],
    "rows": [-1, 1.5, "x", True, 2**64],
    "edition": [0, "2", 1.5],
    "batch": [0, [], True],
    "order": ["random", 1, []],
    "noise_format": [0, "1"],
    "missing": ["NA", [1], {"NA": 1}, None],
    "columns": [[], "x", None, 1],
}
WRONG_OF_COLUMN: dict[str, list[Any]] = {
    "hidden": [-0.1, 2, "x", None, True],
    "excess": [1, [1.0], {"c": "x"}, {"c": float("nan")}],
    "source": [1, None, "a\nb"],
    "marks": [5, "NA", None, [5], {"NA": 1}],
    "knots": [1, "x", [], [1.0], [2.0, 1.0], [1.0, 1.0], [1.0, "x"], [0.0, 1e301]],
    "scores": [0, 1, 2.0, "x", True, 10**9, [3]],
    "about": [1, None, []],
    "role": ["owner", None, 1, []],
    "type": [1, None, {}],
    "unit": [1, []],
    "pseudonym": ["yes", 1],
    "transform": ["sqrt", 1, []],
    "base": ["odd", 1],
    "categories": [-1, 1.5, "x", [1]],
    "together": ["c", [1], [["c"]], {"c": 1}],
    "rounded": [0, 1e-320, -1, "x", float("inf"), 10**400, True],
    "clipped": [1, [1], ["a", "b"], [0, [1]], "ab", [2, 1], [0, 10**400], [float("nan"), 1]],
    "missing": ["gone", 1, True],
    "pooled": ["x", 7, [], 1, 0.0],
}


@pytest.mark.parametrize(("field", "value"), [(f, v) for f, vs in WRONG.items() for v in vs])
def test_a_wrong_field_is_refused(field: str, value: Any) -> None:
    with pytest.raises(SourceError, match=f"the metadata of x is damaged: '{field}' must be"):
        check_metadata({"noise": 1.0, **{field: value}}, "x")


@pytest.mark.parametrize(
    ("field", "value"), [(f, v) for f, vs in WRONG_OF_COLUMN.items() for v in vs]
)
def test_a_wrong_field_of_a_column_is_refused(field: str, value: Any) -> None:
    with pytest.raises(SourceError, match=f"column 'c': '{field}' must be"):
        check_metadata({"columns": {"c": {field: value}}}, "x")


@pytest.mark.parametrize("told", [[], None, 1, "x", [["noise", 1.0]]])
def test_what_is_not_a_table_of_fields_is_refused(told: Any) -> None:
    with pytest.raises(SourceError, match="not a list of fields"):
        check_metadata(told, "x")
    with pytest.raises(SourceError, match="is not described by fields"):
        check_metadata({"columns": {"c": told}}, "x")


def test_every_field_is_tried_above() -> None:
    assert WRONG.keys() == FIELDS.keys()
    assert WRONG_OF_COLUMN.keys() == COLUMN_FIELDS.keys()


def test_every_field_that_a_release_writes_is_checked(tmp_path: Path) -> None:
    """A field that a release adds without a line for it here could be of any type."""
    rng, rows = np.random.default_rng(3), 400
    wage = np.where(rng.random(rows) < 0.1, "?", rng.lognormal(7, 1, rows).round(2).astype(str))
    (tmp_path / "people.csv").write_text(
        "id,wage,age,height,city,team\n"
        + "".join(
            f"{i},{wage[i]},{rng.integers(18, 90)},{rng.normal(170, 9):.1f},"
            f"c{rng.integers(3)},t{rng.integers(2)}\n"
            for i in range(rows)
        )
    )
    vault = Vault.create(tmp_path / "vault")
    choices = Choices(
        key="id",
        transform={"wage": "rank", "age": "log1p"},
        together=(("city", "team"),),
        released_as={"height": "tall"},
        few_rows=True,
    )
    reading = ReadingSettings(missing=("NA",), column_missing=(("wage", ("?",)),))
    people = vault.register_as("people", tmp_path / "people.csv", choices, reading=reading)
    finish = Finish(frozenset({"age"}), {"height": (100.0, 250.0)})
    [release] = people.release_many([("ann", Level.of(noise=1))], finish=finish, dictionary=True)
    told = read_metadata(Path(release.write(tmp_path / "ann.parquet")))
    assert told is not None
    written = {field for own in told["columns"].values() for field in own}
    assert {"marks", "scores", "source", "clipped", "together", "about"} <= written
    assert written <= COLUMN_FIELDS.keys()
    assert {"order", "missing", "edition"} <= told.keys() <= FIELDS.keys()


def test_fields_that_nobody_knows_are_left_alone() -> None:
    told = {"noise": 1, "later": [1], "columns": {"c": {"role": "kept", "later": {}}}}
    assert check_metadata(told, "x") == told


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "1" * 5000, "\udcff", '{"noise": 0}'])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_files(tmp_path: Path, text: str, ending: str) -> None:
    path, table = tmp_path / f"copy.{ending}", pa.table({"x": [1.0, 2.0]})
    content = text.encode("utf-8", "surrogateescape")
    if ending == "parquet":
        papq.write_table(table.replace_schema_metadata({METADATA_KEY: content}), path)
    else:
        path.write_text("x\n1.0\n2.0\n")
        metadata_path(path).write_bytes(content)
    if not text:
        assert read_metadata(path) is None
        return
    for reads in (read_metadata, Copy.open):
        with pytest.raises(SourceError, match="damaged"):
            reads(path)


def test_a_frame_and_what_is_given_are_checked_too() -> None:
    told = {METADATA_KEY: json.dumps({"noise": "much"}).encode()}
    for frame, given in (
        (pa.table({"x": [1.0]}).replace_schema_metadata(told), None),
        (pa.table({"x": [1.0]}), {"noise": "much"}),
    ):
        with pytest.raises(SourceError, match="'noise' must be a finite number"):
            Copy.open(frame, metadata=given)
