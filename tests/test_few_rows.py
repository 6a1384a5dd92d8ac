"""Small tables: below 500 rows the owner is warned, below 100 asked, wherever a table enters."""

import json
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from cornerwave import Vault, cli
from cornerwave.audit import audit
from cornerwave.columns import LEAST_ROWS, SAFE_ROWS
from cornerwave.errors import ColumnError, CornerwaveWarning, SourceError
from cornerwave.inspection import draft, inspect
from cornerwave.ledger import Key
from cornerwave.sources import open_source
from cornerwave.vault import dataset_id

SECRET = Key(bytes(range(32)))


def table_of(rows):
    rng = np.random.default_rng(rows)
    return pa.table({"age": rng.normal(40, 9, rows), "sex": rng.choice(["f", "m"], rows)})


def register(vault, rows, **choices):
    return vault.register(f"t{rows}", table_of(rows), **choices)


def test_a_table_below_a_hundred_rows_is_refused_unless_accepted(vault, untouched):
    with untouched():
        with pytest.raises(SourceError, match=f"has {LEAST_ROWS - 1} rows, and needs at") as e:
            register(vault, LEAST_ROWS - 1)
        with pytest.raises(SourceError, match="needs at least 100"):
            register(vault, 4, dry_run=True)
    assert e.value.use == ("few_rows",)
    dataset = register(vault, LEAST_ROWS - 1, few_rows=True)
    assert dataset.release(to="ann", privacy=0.5).to_arrow().num_rows == LEAST_ROWS - 1


def test_the_least_number_of_rows_is_what_an_audit_needs(tmp_path):
    vault = Vault.create(tmp_path / "v", key=SECRET)
    for rows, enough in ((LEAST_ROWS - 1, False), (LEAST_ROWS, True)):
        copy = register(vault, rows, few_rows=True).release(to="ann", privacy=0.5)
        path = copy.write(tmp_path / f"{rows}.parquet")
        if enough:
            assert audit(table_of(rows), [path]).rows == rows
        else:
            with pytest.raises(SourceError, match="an audit needs at least 100"):
                audit(table_of(rows), [path])


@pytest.mark.parametrize("rows", [LEAST_ROWS, SAFE_ROWS - 1])
def test_a_table_below_five_hundred_rows_is_warned_of_unless_accepted(vault, rows):
    register(vault, rows, few_rows=True, dry_run=True)
    with pytest.warns(CornerwaveWarning, match=f"has {rows} rows, fewer than 500") as caught:
        register(vault, rows)
    assert caught[0].filename == __file__


def test_larger_tables_are_registered_without_a_word(vault):
    register(vault, SAFE_ROWS)


def test_the_choice_changes_no_copy(tmp_path):
    """The same dataset and the same noise, with and without it, and no golden vector moves."""
    copies = []
    for few_rows in (False, True):
        vault = Vault.create(tmp_path / str(few_rows), key=SECRET)
        dataset = register(vault, SAFE_ROWS, few_rows=few_rows)
        assert dataset.frozen.schema.few_rows == few_rows
        assert "few_rows" not in json.loads(dataset.frozen.identity())
        copies.append((dataset.id, dataset.release(to="ann", privacy=0.5).to_arrow()))
    assert copies[0] == copies[1]
    again = Vault.create(tmp_path / "again", key=SECRET)
    found = register(again, SAFE_ROWS)
    assert (
        register(again, SAFE_ROWS, few_rows=True).id == found.id == dataset_id(SECRET, found.frozen)
    )


def test_the_schema_file_of_a_small_table_registers_it_again(tmp_path, vault):
    dataset = register(vault, 30, few_rows=True)
    path = tmp_path / "schema.toml"
    path.write_text(dataset.schema_file())
    assert "few_rows = true\n" in path.read_text()
    assert vault.register("t30", table_of(30), schema=path).id == dataset.id
    path.write_text(dataset.schema_file().replace("few_rows = true\n", ""))
    with pytest.raises(SourceError, match="needs at least 100"):
        vault.register("t30", table_of(30), schema=path)
    path.write_text(dataset.schema_file().replace("few_rows = true", 'few_rows = "yes"'))
    with pytest.raises(ColumnError, match="few_rows must be true or false, without quotes"):
        vault.register("t30", table_of(30), schema=path)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (30, "registration refuses fewer than 100 unless few_rows accepts them"),
        (300, "registration warns of fewer than 500 unless few_rows accepts them"),
        (SAFE_ROWS, None),
    ],
)
def test_inspect_says_it_before(tmp_path, vault, rows, words):
    found = inspect(open_source(table_of(rows)))
    said = [line for line in found.warnings if line.startswith("few rows")]
    text = draft(found)
    assert (
        ("few_rows" in found.asks)
        == ("# few_rows = true" in text)
        == bool(said)
        == (words is not None)
    )
    if words is not None:
        assert words in said[0]
        path = tmp_path / "draft.toml"
        path.write_text(text.replace("# few_rows = true", "few_rows = true"))
        vault.register("t", table_of(rows), schema=path)


def test_the_command_line_asks_in_its_own_words(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    papq.write_table(table_of(63), "dead.parquet")
    papq.write_table(table_of(300), "some.parquet")

    def run(*arguments):
        with warnings.catch_warnings(), pytest.raises(SystemExit) as stop:
            cli.main(arguments)
        return stop.value.code or 0, " ".join(capfd.readouterr().err.split())

    assert run("init")[0] == 0
    code, said = run("register", "dead", "dead.parquet")
    assert code == 2
    assert "the table has 63 rows, and needs at least 100" in said
    assert "--few-rows" in said
    assert run("register", "dead", "dead.parquet", "--few-rows")[0] == 0
    code, said = run("register", "some", "some.parquet")
    assert code == 0
    assert "the table has 300 rows, fewer than 500" in said
    assert run("inspect", "dead.parquet", "--out", "dead.toml")[0] == 0
    code, said = run("register", "again", "dead.parquet", "--schema", "dead.toml")
    assert code == 2
    assert "few_rows = true" in said
