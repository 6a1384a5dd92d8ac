"""Metadata that came with a file: what a release writes passes, anything else is refused."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from cornerwave.choices import Choices, ReadingSettings
from cornerwave.columns import Finish, step_of
from cornerwave.errors import SourceError
from cornerwave.levels import LATTICE, Level, retention
from cornerwave.miner import Copy
from cornerwave.outputs import metadata_path, read_metadata
from cornerwave.sources import METADATA_KEY
from cornerwave.spec import ColumnMetadata, CopyMetadata, kinds_of
from cornerwave.vault import Registration, Vault
from tests.fuzz.mutants import ODD_VALUES, near

KINDS = {"": kinds_of(CopyMetadata), "c": kinds_of(ColumnMetadata)}
CASES = [(column, field) for column, kinds in KINDS.items() for field in kinds]


def stating(column: str, field: str, value: Any) -> dict[str, Any]:
    return {"columns": {column: {field: value}}} if column else {field: value}


@pytest.mark.parametrize(("column", "field"), CASES)
def test_a_field_has_its_kind_or_is_refused_without_its_value(column: str, field: str) -> None:
    """The values to try come from the declarations, so that no field can be forgotten."""
    kind, refused, accepted = KINDS[column][field], 0, 0
    for value in (*ODD_VALUES, *near(kind)):
        stated = stating(column, field, value)
        if kind.accepts(value):
            accepted += 1
            read = CopyMetadata.read(stated, "x")
            assert CopyMetadata.read(json.loads(json.dumps(read.to_json())), "x") == read
        else:
            refused += 1
            where = f"column {column!r}: " if column else ""
            says = f"the metadata of x is damaged: {where}{field!r} must be {kind.allowed}"
            with pytest.raises(SourceError, match=f"^{re.escape(says)}$"):
                CopyMetadata.read(stated, "x")
    assert refused
    assert accepted


@pytest.mark.parametrize("told", [[], None, 1, "x", [["noise", 1.0]]])
def test_what_is_not_a_table_of_fields_is_refused(told: Any) -> None:
    with pytest.raises(SourceError, match="not a table of fields"):
        CopyMetadata.read(told, "x")
    with pytest.raises(SourceError, match="is not described by fields"):
        CopyMetadata.read({"columns": {"c": told}}, "x")
    if not isinstance(told, dict):
        with pytest.raises(SourceError, match="'columns' must be a table of columns"):
            CopyMetadata.read({"columns": told}, "x")


def test_what_a_release_writes_comes_back_byte_for_byte(tmp_path: Path) -> None:
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
    people = vault.register_as(
        "people", tmp_path / "people.csv", Registration(choices, reading=reading)
    )
    finish = Finish(frozenset({"age"}), {"height": (100.0, 250.0)})
    [release] = people.release_many([("ann", Level.of(noise=1))], finish=finish, dictionary=True)
    told = read_metadata(Path(release.write(tmp_path / "ann.parquet")))
    assert told is not None
    schema = papq.read_schema(tmp_path / "ann.parquet")
    text = json.dumps(told.to_json()).encode()
    assert schema.metadata[METADATA_KEY] == text
    written = {field for own in told.to_json()["columns"].values() for field in own}
    assert {"marks", "scores", "source", "clipped", "together", "about"} <= written


@pytest.mark.parametrize("noise", [LATTICE[0], LATTICE[-1]])
def test_every_level_of_the_lattice_and_step_of_a_type_is_accepted(noise: float) -> None:
    for type_ in (pa.int64(), pa.timestamp("ns"), pa.decimal256(76, 76), pa.decimal256(76, -76)):
        columns = {"c": {"rounded": float(step_of(type_) or 0)}}
        told = {"noise": noise, "retention": retention(noise), "columns": columns}
        assert CopyMetadata.read(told, "x").noise == noise


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("noise", 1001, "'noise' must be a finite number greater than 0, at most 1000"),
        ("retention", 1e-150, "'retention' must be a number from 0.01 to 1"),
        ("columns", {"c": {"rounded": 1e300}}, "'rounded' must be a step from 1e-100 to 1e100"),
        ("columns", {"c": {"rounded": 1e-150}}, "'rounded' must be a step from 1e-100 to 1e100"),
    ],
)
def test_what_no_copy_has_is_refused_in_words(field: str, value: Any, says: str) -> None:
    with pytest.raises(SourceError, match=says):
        CopyMetadata.read({field: value}, "x")


def test_fields_that_are_not_declared_are_ignored() -> None:
    told = {"noise": 1, "later": [1], "columns": {"c": {"role": "kept", "later": {}}}}
    known = CopyMetadata(noise=1, columns={"c": ColumnMetadata(role="kept")})
    assert CopyMetadata.read(told, "x") == known


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
