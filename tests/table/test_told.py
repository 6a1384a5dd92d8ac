"""Metadata that came with a file: what a release writes passes, anything else is refused."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from cornerwave.errors import SourceError
from cornerwave.miner import Copy
from cornerwave.table import METADATA_KEY, check_metadata, metadata_path, read_metadata

FIELDS: dict[str, list[Any]] = {
    "dataset": [7, None, [], "two\nlines", "\x1b[2J"],
    "noise": [0, -1, float("nan"), float("inf"), 10**400, "1", None, True, [1.0]],
    "privacy": [-0.1, 1.1, "half", None, float("nan")],
    "retention": [2, "x", None],
    "rows": [-1, 1.5, "x", True, 2**64],
    "columns": [[], "x", None, 1],
}
COLUMN: dict[str, list[Any]] = {
    "role": ["owner", None, 1, []],
    "type": [1, None, {}],
    "unit": [1, []],
    "transform": ["sqrt", 1, []],
    "base": ["odd", 1],
    "categories": [-1, 1.5, "x", [1]],
    "together": ["c", [1], [["c"]], {"c": 1}],
    "rounded": [-1, "x", float("inf"), 10**400, True],
    "clipped": [1, [1], ["a", "b"], [0, [1]], "ab"],
    "missing": ["gone", 1, True],
    "pooled": ["x", 7, []],
}


@pytest.mark.parametrize(("field", "value"), [(f, v) for f, vs in FIELDS.items() for v in vs])
def test_a_wrong_field_is_refused(field: str, value: Any) -> None:
    with pytest.raises(SourceError, match=f"the metadata of x is damaged: '{field}' must be"):
        check_metadata({"noise": 1.0, **{field: value}}, "x")


@pytest.mark.parametrize(("field", "value"), [(f, v) for f, vs in COLUMN.items() for v in vs])
def test_a_wrong_field_of_a_column_is_refused(field: str, value: Any) -> None:
    with pytest.raises(SourceError, match=f"column 'c': '{field}' must be"):
        check_metadata({"columns": {"c": {field: value}}}, "x")


@pytest.mark.parametrize("told", [[], None, 1, "x", [["noise", 1.0]]])
def test_what_is_not_a_table_of_fields_is_refused(told: Any) -> None:
    with pytest.raises(SourceError, match="not a list of fields"):
        check_metadata(told, "x")
    with pytest.raises(SourceError, match="is not described by fields"):
        check_metadata({"columns": {"c": told}}, "x")


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
