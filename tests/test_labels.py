"""What columns mean, and the numbers that labels stand for: stated once, carried by copies."""

import csv
import json
import tomllib

import numpy as np
import pandas as pd
import pyreadstat
import pytest

from cornerwave.columns import Finish
from cornerwave.dictionary import dictionary_of
from cornerwave.errors import AlreadyRegistered, ColumnError, CornerwaveWarning, SourceError
from cornerwave.inspection import draft, inspect
from cornerwave.outputs import read_metadata
from cornerwave.sources import open_to_inspect
from cornerwave.spec import CopyMetadata, CopySpec
from tests.test_cli import run  # noqa: F401

ROWS = 600
random = np.random.default_rng(3)
AGE = random.integers(18, 90, ROWS)
FRAME = pd.DataFrame(
    {
        "age": AGE,
        "wage": np.round(20.0 * AGE + random.normal(0, 300, ROWS), 2),
        "sex": random.choice([1, 2], ROWS).astype(float),
        "job": random.permutation([7.0] * 2 + [8.0] * 4 + [3.0, 5.0] * (ROWS // 2 - 3)),
        "party": random.choice([1, 2], ROWS).astype(float),
    }
)
VALUES = {
    "sex": {1: "male", 2: "female", 9: "CANARY not asked"},
    "job": {3: "clerk", 5: "baker", 7: "CANARY mayor of Ulm", 8: "CANARY vicar"},
    "party": {1: "left", 2: "right"},
    "age": {99: "99 or older"},
}
MEANINGS = {"age": "Age in years", "wage": "Wage\n a  month = net", "sex": "Sex"}
DESCRIBE = {"age": "Age in years", "wage": "Wage, 1 = 1 euro", "job": "ä \U0001f600"}


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "study.sav"
    pyreadstat.write_sav(FRAME, path, column_labels=MEANINGS, variable_value_labels=VALUES)
    return path


def released(dataset, path, **choices):
    dataset.release(to="ann", privacy=0.5, **choices).write(path)
    return path


def test_descriptions_are_in_every_kind_of_copy(vault, tmp_path):
    dataset = vault.register("t", FRAME, describe=DESCRIBE, released_as={"age": "years"})
    for ending in ("csv", "parquet", "xlsx", "dta"):
        stated = read_metadata(released(dataset, tmp_path / f"c.{ending}"))
        found = {n: c.description for n, c in stated.columns.items() if c.description}
        assert found == {"years": "Age in years", "wage": "Wage, 1 = 1 euro", "job": "ä \U0001f600"}
    _, about = pyreadstat.read_dta(str(tmp_path / "c.dta"), metadataonly=True)
    assert about.column_names_to_labels["years"] == "Age in years"
    raw = dataset.release(to="bob", privacy=0.5, raw=True).metadata
    assert raw["columns"]["years"]["description"] == "Age in years"


def test_noise_does_not_depend_on_descriptions(vault):
    plain = vault.register("t", FRAME)
    first = plain.release(to="ann", privacy=0.5).to_arrow()
    with pytest.raises(AlreadyRegistered, match="or another description"):
        vault.register("t", FRAME, describe=DESCRIBE)
    described = plain.release(to="ann", privacy=0.5, describe=DESCRIBE)
    assert described.to_arrow().replace_schema_metadata() == first.replace_schema_metadata()
    assert described.metadata["columns"]["age"]["description"] == "Age in years"
    assert "description" not in plain.release(to="ann", privacy=0.5).metadata["columns"]["age"]


def test_the_same_table_has_the_same_id_with_and_without(vault):
    one = vault.register("t", FRAME, describe=DESCRIBE, dry_run=True)
    assert vault.register("t", FRAME).id == one.id
    assert one.frozen.identity() == vault.dataset("t", source=FRAME).frozen.identity()
    # a choice on which noise depends makes another
    assert vault.register("u", FRAME, hide_missing=["sex"], categorical=["sex"], dry_run=True,
                          unrelated=["t"]).id != one.id  # fmt: skip


@pytest.mark.parametrize("text", ["", "a\nb", "\x1b[2J", "x" * 1001, "\u202e"])
def test_what_is_no_description_is_refused(vault, text):
    with pytest.raises(ColumnError, match=r"'age': describe must be one line of text, at most"):
        vault.register("t", FRAME, describe={"age": text})
    dataset = vault.register("t", FRAME)
    with pytest.raises(ColumnError, match="describe must be one line"):
        dataset.release(to="a", privacy=0.5, describe={"age": text})
    stated = {"columns": {"age": {"description": text}}}
    with pytest.raises(SourceError, match="'description' must be one line"):
        CopyMetadata.read(stated, "x")
    assert CopyMetadata.read({"columns": {"age": {"description": "x" * 1000}}}, "x")


def test_only_columns_of_copies_are_described(vault):
    with pytest.raises(ColumnError, match="'wage' is dropped, but describe needs"):
        vault.register("t", FRAME, drop=["wage"], describe={"wage": "x"})
    with pytest.raises(ColumnError, match="no column 'wages'"):
        vault.register("t", FRAME, describe={"wages": "x"})
    dataset = vault.register("t", FRAME, drop=["wage"])
    with pytest.raises(ColumnError, match="'wage' is not a column of copies"):
        dataset.release(to="a", privacy=0.5, describe={"wage": "x"})


def test_a_spec_is_read_as_it_was_written(vault):
    spec = vault.register("t", FRAME).release(to="a", privacy=0.5, describe=DESCRIBE).spec
    assert CopySpec.of_json(json.loads(json.dumps(spec.to_json()))) == spec
    assert "descriptions" not in CopySpec(spec.level, Finish()).to_json()


class TestFilesWithLabels:
    def test_inspect_drafts_what_the_file_states(self, study):
        text = draft(inspect(open_to_inspect(study)))
        columns = {each["name"]: each for each in tomllib.loads(text)["column"]}
        found = {n: c["description"] for n, c in columns.items() if "description" in c}
        assert found == {"age": "Age in years", "wage": "Wage a month = net", "sex": "Sex"}
        assert "must not name people" in text

    def test_a_file_states_nothing_that_its_owner_did_not_choose(self, vault, study, tmp_path):
        with pytest.warns(CornerwaveWarning, match="states what 3 columns mean"):
            dataset = vault.register("t", study)
        stated = read_metadata(released(dataset, tmp_path / "c.parquet"))
        assert not any(each.description for each in stated.columns.values())

    @pytest.mark.parametrize("ending", ["sav", "dta"])
    def test_values_have_their_numbers_again(self, vault, study, tmp_path, ending):
        dataset = vault.register("t", study, describe={"age": "Age"}, min_count=5, keep=["party"])
        path = released(dataset, tmp_path / f"c.{ending}")
        load = pyreadstat.read_sav if ending == "sav" else pyreadstat.read_dta
        values, about = load(str(path), output_format="dict")
        assert about.variable_value_labels == {
            "sex": {1: "male", 2: "female"},
            "job": {3: "clerk", 5: "baker", 9: "(other)"},
        }
        assert {*values["sex"]} == {1, 2}
        assert {*values["party"]} == {"left", "right"}  # kept: nobody counted its values

    @pytest.mark.slow
    def test_labels_of_values_that_copies_cannot_show_are_nowhere(self, vault, study, tmp_path):
        """Neither that of a value without a row, nor that of one that is pooled."""
        dataset = vault.register("t", study, describe={"age": "Age"}, min_count=5)
        kept = dataset.entry.frozen
        for ending in ("sav", "dta", "csv", "parquet"):
            path = released(dataset, tmp_path / f"c.{ending}", dictionary=True)
            beside = tmp_path / f"c.{ending}.meta.json"
            content = path.read_bytes() + (beside.read_bytes() if beside.exists() else b"")
            assert b"CANARY" not in content
            assert b"baker" in content or ending == "parquet"
        assert "CANARY" not in kept
        loose = vault.register("u", study, describe={"age": "Age"}, unrelated=["t"])
        shown = released(loose, tmp_path / "u.sav").read_bytes()
        assert b"CANARY mayor" in shown  # a row holds it, and it is not pooled
        assert b"CANARY not asked" not in shown

    def test_the_copy_is_that_of_the_same_table_without_numbers(self, vault, study, tmp_path):
        names = {name: labels for name, labels in VALUES.items() if name != "age"}
        plain = FRAME.assign(**{n: FRAME[n].map(labels) for n, labels in names.items()})
        labelled = vault.register("t", study, describe={"age": "Age"})
        assert vault.register("t", plain, describe={"age": "Age"}).id == labelled.id


@pytest.mark.usefixtures("study")
@pytest.mark.slow
def test_the_command_line_and_the_pages(run, tmp_path):  # noqa: F811
    assert run("init").code == 0
    assert run("inspect", "study.sav", "--out", "s.toml").code == 0
    done = run("register", "study", "study.sav", "--schema", "s.toml")
    assert done.code == 0, done.err
    assert "described in copies, in your words: age, wage, sex" in done.err
    again = tomllib.loads(run("schema", "study").out)["column"]
    assert again[1]["description"] == "Wage a month = net"
    asked = ("release", "study", "--to", "ann", "--privacy", "0.5", "--dictionary")
    done = run(*asked, "--out", "c.csv", "--describe", "wage=Wage = income")
    assert done.code == 0, done.err
    made = dictionary_of(tmp_path / "c.csv")
    assert {e.column: e.description for e in made.entries}["wage"] == "Wage = income"
    page = (tmp_path / "c.csv.dictionary.html").read_text(encoding="utf-8")
    assert "what it means" in page
    assert "Age in years" in page
    with (tmp_path / "c.csv.dictionary.csv").open(encoding="utf-8") as file:
        rows = {row["column"]: row for row in csv.DictReader(file)}
    assert rows["sex"]["description"] == "Sex"
    remade = run("again", "study", "ann", "--out", "again.csv")
    assert remade.code == 0, remade.err
    assert (tmp_path / "again.csv.meta.json").read_text() == (
        tmp_path / "c.csv.meta.json"
    ).read_text()
    assert run("report", "study", "--out", "r.html").code == 0
    assert "Wage a month = net" in (tmp_path / "r.html").read_text(encoding="utf-8")
