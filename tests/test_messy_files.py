"""From a messy file to copies: what was found is frozen, shown and settable."""

import tomllib

import numpy as np
import pandas as pd
import pyarrow.csv as pacsv
import pytest

from cornerwave.errors import CornerwaveWarning, SourceError
from tests import test_cli

run = test_cli.run

ROWS = 600
rng = np.random.default_rng(7)
WAGE = np.round(rng.lognormal(8, 1, ROWS), 2)
AGE = rng.integers(18, 90, ROWS)
TOWN = rng.choice(["Köln", "Ulm", "Zürich"], ROWS)
BORN = rng.integers(0, 9000, ROWS).astype("datetime64[D]").astype(str)
MARKED = np.where(rng.random(ROWS) < 0.1, "?", "")


def plain(path):
    rows = zip(WAGE, AGE, MARKED, TOWN, BORN, strict=True)
    lines = (f"{w:.2f},{'' if m else a},{t},{b}\n" for w, a, m, t, b in rows)
    path.write_text("wage,age,town,born\n" + "".join(lines), encoding="utf-8")
    return path


def german(path):
    rows = zip(WAGE, AGE, MARKED, TOWN, BORN, strict=True)
    lines = (f"{_german(w)};{m or a};{t};{b[8:]}.{b[5:7]}.{b[:4]}\n" for w, a, m, t, b in rows)
    path.write_bytes(("wage;age;town;born\n" + "".join(lines)).encode("cp1252"))
    return path


def _german(number):
    return f"{number:,.2f}".replace(",", "_").replace(".", ",").replace("_", ".")


def bytes_of(dataset, path):
    return dataset.release(to="ann", privacy=0.5).write(path).read_bytes()


class TestFrozen:
    def test_a_spelling_is_frozen_and_not_part_of_the_identity(self, vault, tmp_path):
        with pytest.warns(CornerwaveWarning, match="read as cp1252"):
            messy = vault.register("t", german(tmp_path / "g.csv"), reading={"missing": ["?"]})
        frozen = vault.dataset("t").frozen.reading
        assert (frozen.delimiter, frozen.encoding) == (";", "cp1252")
        assert (frozen.decimal, frozen.thousands) == (",", ".")
        assert (frozen.date_format, frozen.missing) == (("%d.%m.%Y",), ("?",))
        clean = vault.register("t", plain(tmp_path / "p.csv"))
        assert clean.id == messy.id
        again = vault.dataset("t", source=tmp_path / "g.csv")
        first = bytes_of(again, tmp_path / "a.csv")
        frame = vault.dataset("t", source=pacsv.read_csv(tmp_path / "p.csv"))
        assert bytes_of(frame, tmp_path / "b.csv") == first

    def test_a_release_reads_as_the_registration_did(self, vault, tmp_path):
        """Half of the rows are ambiguous by themselves; what was found first still holds."""
        days = np.where(np.arange(ROWS) < ROWS // 2, "31", "01")
        text = "".join(f"{d}/02/20{i % 90 + 10}\n" for i, d in enumerate(days))
        lines = text.replace("31/02", "31/03").splitlines()
        rows = "".join(f"{line};{w}\n" for line, w in zip(lines, WAGE, strict=True))
        path = tmp_path / "t.csv"
        path.write_text("born;wage\n" + rows)
        dataset = vault.register("t", path, keep_order=True)
        assert dataset.frozen.reading.date_format == ("%d/%m/%Y",)
        again = vault.dataset("t")
        assert again.source.reading == dataset.frozen.reading
        bytes_of(again, tmp_path / "a.csv")

    def test_another_spelling_at_the_same_place_is_not_the_table(self, vault, tmp_path):
        path = plain(tmp_path / "t.csv")
        vault.register("t", path)
        path.write_text(path.read_text(encoding="utf-8").replace(",", ";"), encoding="utf-8")
        with pytest.raises(SourceError, match="this is not the registered table"):
            bytes_of(vault.dataset("t"), tmp_path / "a.csv")


OWN_MARKS = """
[[column]]
name = "degrees"
do = "perturb"

[[column]]
name = "code"
do = "category"
missing = []

[[column]]
name = "child*"
do = "perturb"
missing = ["-9"]

[reading]
missing = ["NA"]
"""


class TestMarksOfColumns:
    """-9 is a temperature, and in another column it says that there was no answer."""

    def registered(self, run, tmp_path):
        degrees = rng.integers(-20, 35, ROWS)
        children = np.where(rng.random(ROWS) < 0.1, -9, rng.integers(0, 12, ROWS))
        code = rng.choice(["DE", "NA", "US"], ROWS)  # Namibia is a country
        table = pd.DataFrame({"degrees": degrees, "children": children, "code": code})
        table.to_csv(tmp_path / "t.csv", index=False)
        (tmp_path / "t.toml").write_text(OWN_MARKS)
        assert run("init").code == 0
        done = run("register", "t", "t.csv", "--schema", "t.toml")
        assert done.code == 0, done.err
        assert "missing values stay missing: children" in done.err
        return table

    def test_the_schema_of_a_dataset_says_them(self, run, tmp_path):
        self.registered(run, tmp_path)
        said = tomllib.loads(run("schema", "t", "--out", "again.toml") and read(tmp_path))
        marks = {column["name"]: column.get("missing") for column in said["column"]}
        assert marks == {"degrees": None, "children": ["-9"], "code": []}
        assert said["reading"]["missing"] == ["NA"]
        assert run("unregister", "t").code == 0
        again = run("register", "t", "t.csv", "--schema", "again.toml")
        assert again.code == 0, again.err
        assert run("schema", "t").out == read(tmp_path)

    def test_an_audit_reads_the_original_as_its_copies_say(self, run, tmp_path):
        self.registered(run, tmp_path)
        assert run("release", "t", "--to", "ann", "--privacy", "0.3", "--out", "a.csv").code == 0
        audited = run("audit", "t.csv", "a.csv")
        assert audited.code == 0, audited.out
        # and had it read -9 as a number, it would have said so
        assert run("audit", "t.csv", "a.csv", "--missing", "NA").code != 0


def read(folder):
    return (folder / "again.toml").read_text(encoding="utf-8")


class TestCommands:
    def test_a_draft_registers_once_it_is_decided(self, run, tmp_path):
        german(tmp_path / "g.csv")
        assert run("init").code == 0
        assert run("inspect", "g.csv", "--out", "g.toml").code == 0
        drafted = tomllib.loads((tmp_path / "g.toml").read_text(encoding="utf-8"))
        assert drafted["reading"] == {
            "delimiter": ";",
            "encoding": "cp1252",
            "decimal": ",",
            "thousands": ".",
            "date_format": ["%d.%m.%Y"],
            "missing": [],
        }
        [age] = [column for column in drafted["column"] if column["name"] == "age"]
        assert age["missing"] == ["?"]
        text = (tmp_path / "g.toml").read_text(encoding="utf-8")
        marks = (MARKED == "?").sum()
        assert f"# proposed: {marks} cells; take out what is a value" in text
        assert "# g.csv is not UTF-8; it is read as cp1252" in text
        decided = text.replace('do = "decide"', 'do = "perturb"')  # a date of birth
        (tmp_path / "g.toml").write_text(decided, encoding="utf-8")
        done = run("register", "g", "g.csv", "--schema", "g.toml")
        assert done.code == 0, done.err
        assert "perturbed: wage, age, born" in done.err

    def test_without_a_schema_marks_are_values_and_that_is_said(self, run, tmp_path):
        german(tmp_path / "g.csv")
        assert run("init").code == 0
        done = run("register", "g", "g.csv")
        assert done.code == 0
        assert "declare '?' as missing" in done.err or "'?' may be codes of missing" in done.err
        assert "refreshed: age, town" in done.err

    def test_options_say_what_a_schema_file_would(self, run, tmp_path):
        german(tmp_path / "g.csv")
        assert run("init").code == 0
        said = ("--delimiter", ";", "--encoding", "cp1252", "--decimal", ",", "--thousands", ".",
                "--date-format", "%d.%m.%Y", "--missing", "?,NA,-9")  # fmt: skip
        done = run("register", "g", "g.csv", *said)
        assert done.code == 0, done.err
        assert "warning" not in done.err
        assert run("release", "g", "--to", "ann", "--privacy", "0.3", "--out", "a.csv").code == 0
        audited = run("audit", "g.csv", "a.csv", *said)
        assert audited.code == 0, audited.out
        assert run("attack", "a.csv", "--truth", "g.csv", *said).code == 0

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            (("--delimiter", "ab"), "one character"),
            (("--delimiter", ","), "record"),
            (("--encoding", "klingon"), "'klingon' is not known"),
            (("--encoding", "utf-8"), "is not UTF-8 text"),
            (("--encoding", "utf-16"), "g.csv"),
            (("--decimal", "x"), "decimal must be"),
            (("--thousands", "."), "different characters"),
            (("--date-format", "%q"), "needs a day"),
            (("--sheet", "x"), "does not apply"),
        ],
    )
    def test_wrong_settings_are_refused_in_one_line(self, run, tmp_path, options, says):
        german(tmp_path / "g.csv")
        assert run("init").code == 0
        for command in (("register", "g", "g.csv"), ("inspect", "g.csv")):
            done = run(*command, *options)
            assert done.code == 2, (command, done.out)
            assert says in done.err
            assert done.err.count("\n") == 1
            assert "Köln" not in done.err

    def test_a_schema_file_states_all_choices(self, run, tmp_path):
        german(tmp_path / "g.csv")
        assert run("init").code == 0
        (tmp_path / "s.toml").write_text('[reading]\ndecimal = ","\n')
        done = run("register", "g", "g.csv", "--schema", "s.toml", "--decimal", ".")
        assert (done.code, "a schema file states all choices" in done.err) == (2, True)
        for text in ("reading = 1", "[reading]\nx = 1", "[reading]\ndecimal = 1"):
            (tmp_path / "s.toml").write_text(text)
            done = run("register", "g", "g.csv", "--schema", "s.toml")
            assert done.code == 2
            assert "s.toml" in done.err


def test_a_frame_takes_no_spelling(vault):
    with pytest.raises(SourceError, match="does not apply"):
        vault.register("t", pd.DataFrame({"a": [1.0, 2.0]}), reading={"decimal": ","})


def test_an_unknown_setting_in_python_is_a_mistake(vault, tmp_path):
    with pytest.raises(TypeError, match="separator"):
        vault.register("t", plain(tmp_path / "p.csv"), reading={"separator": ","})
