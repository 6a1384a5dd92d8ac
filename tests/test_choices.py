"""Every choice is declared once, and options, arguments, files, form and docs have it."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import typer.main

from cornerwave import cli
from cornerwave.choices import (
    COLUMN,
    DECLARED,
    HIDDEN,
    SETTINGS,
    TABLE,
    VALUES,
    Choice,
    ChoiceArguments,
    Choices,
    ReadingArguments,
    ReadingSettings,
    toml_text,
)
from cornerwave.columns import decide
from cornerwave.errors import ColumnError, SourceError
from cornerwave.schema_file import read_choices, schema_text
from cornerwave.vault import Vault

COMMANDS = Path(__file__).parents[1] / "docs" / "commands.md"
IN_PYTHON = {name: choice for name, choice in DECLARED.items() if choice.option is not None}


def options_of(command: str) -> dict[str, typer.main.TyperOption]:
    found = typer.main.get_command(cli.app).commands[command]
    return {option: each for each in found.params for option in each.opts}


def flag_of(choice: Choice) -> str:
    return f"--{(choice.option or choice.name).replace('_', '-')}"


# --- docs ---------------------------------------------------------------------------------


def rows_of_choices() -> list[str]:
    """The table of choices in docs/commands.md."""
    rows = ["| option | in a schema file | meaning |", "|---|---|---|"]
    for choice in (*DECLARED.values(), HIDDEN):
        metavar = "" if choice.is_flag else f" {choice.metavar}"
        option = f"`{flag_of(choice)}{metavar}`" if choice.name in IN_PYTHON else "–"
        example = f"`{choice.key} = {toml_text(choice.value)}`"
        rows.append(f"| {option.replace('|', BAR)} | {example} | {choice.help} |")
    return rows


def rows_of_reading() -> list[str]:
    """The table of reading settings in docs/commands.md."""
    rows = ["| option | key | meaning |", "|---|---|---|"]
    for each in SETTINGS.values():
        about = each.help.replace("|", BAR)
        rows.append(f"| `{flag_of(each)} {each.metavar}` | `{each.name}` | {about} |")
    return rows


BAR = "\\|"


def with_tables(text: str) -> str:
    """The page with its tables as the declarations have them."""
    for name, rows in (("choices", rows_of_choices()), ("reading", rows_of_reading())):
        start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, _, rest = text.partition(start)
        text = before + start + "\n".join(rows) + "\n" + end + rest.partition(end)[2]
    return text


def test_the_tables_of_the_docs_are_those_of_the_declarations() -> None:
    text = COMMANDS.read_text(encoding="utf-8")
    assert text == with_tables(text), "write them with `python -m tests.test_choices`"


# --- arguments and options ----------------------------------------------------------------


def test_register_takes_every_choice_as_a_typed_argument() -> None:
    assert set(ChoiceArguments.__annotations__) == set(IN_PYTHON)
    assert set(ReadingArguments.__annotations__) == {*SETTINGS, "column_missing"}


def test_an_argument_that_is_not_declared_is_refused(vault: Vault) -> None:
    with pytest.raises(TypeError, match="hide_mising"):
        vault.register("t", pa.table({"x": [1.0]}), hide_mising=["x"])  # type: ignore[call-arg]


def test_register_has_an_option_with_its_help_for_every_choice_and_setting() -> None:
    options = options_of("register")
    for choice in (*IN_PYTHON.values(), *SETTINGS.values()):
        assert (options[flag_of(choice)].help or "").startswith(choice.help)
    for command in ("inspect", "audit", "attack"):
        assert {flag_of(each) for each in SETTINGS.values()} <= set(options_of(command))


def test_every_help_is_one_sentence_without_its_full_stop() -> None:
    for choice in (*DECLARED.values(), *SETTINGS.values()):
        assert re.fullmatch(r"[A-Z].*[^.]", choice.help), choice.name


# --- schema file --------------------------------------------------------------------------

TYPES = pa.schema(
    [
        ("id", pa.int64()),
        ("x", pa.float64()),
        ("c", pa.string()),
        ("d", pa.string()),
        ("y", pa.float64()),
    ]
)
COLUMN_OF = {
    "key": "id",
    "key_as_is": "id",
    "unit": "id",
    "drop": "d",
    "keep": "d",
    "categorical": "c",
}
COLUMN_OF |= {"uniform": "c", "derive": "d", "sum_of": "x"}
MADE = {
    "follows": {"d": "c"},
    "relative_to": {"x": "y"},
    "sum_of": {"x": "y"},
    "present_if": {"x": "c"},
    "time": "x",
    "min_count": 5,
    "together": (("c", "d"),),
    "released_as": {"x": "NAME"},
}


BESIDE = {"derive": {"follows": {"d": "c"}}, "key_as_is": {"key": "id"}, "time": {"unit": ("id",)}}
"""What a choice needs beside it."""


def made_alone(choice: Choice) -> Choices:
    """Choices of which just one was made, on a column that it is for."""
    column = COLUMN_OF.get(choice.name, "x")
    value = choice.kind.parsed(choice.value)
    of_columns = {column: value} if choice.gives == VALUES else (column,)
    given = MADE.get(choice.name, True if choice.gives == TABLE else of_columns)
    chosen = {choice.name: column if choice.gives == COLUMN else given}
    return Choices(**BESIDE.get(choice.name, {}) | chosen)


@pytest.mark.parametrize("name", DECLARED)
def test_every_choice_is_written_to_a_schema_file_and_read_again(name: str, tmp_path: Path) -> None:
    schema = decide(TYPES, made_alone(DECLARED[name]))
    path = tmp_path / "schema.toml"
    path.write_text(schema_text(schema), encoding="utf-8")
    assert DECLARED[name].key in path.read_text(encoding="utf-8")
    again = decide(TYPES, read_choices(path, TYPES.names))
    assert schema_text(again) == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", DECLARED)
def test_a_schema_file_with_a_value_of_another_kind_is_refused(name: str, tmp_path: Path) -> None:
    choice = DECLARED[name]
    content = tomllib.loads(schema_text(decide(TYPES, Choices())))
    (content["column"][1] if choice.is_of_column else content)[choice.key] = [[7]]
    tables = [f"{key} = {toml_text(value)}" for key, value in content.items() if key != "column"]
    for entry in content["column"]:
        tables += ["[[column]]", *(f"{key} = {toml_text(value)}" for key, value in entry.items())]
    path = tmp_path / "schema.toml"
    path.write_text("\n".join(tables), encoding="utf-8")
    with pytest.raises(ColumnError, match=f"{choice.key} must be ") as caught:
        read_choices(path, TYPES.names)
    assert choice.kind.allowed in str(caught.value)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_reading_setting_of_another_kind_is_refused(name: str) -> None:
    with pytest.raises(SourceError, match=f"x: {name} must be text"):
        ReadingSettings.from_table({name: 7}, "x")


# --- arguments ----------------------------------------------------------------------------


def test_a_string_is_one_name_and_none_is_not_given() -> None:
    assert Choices.of(keep="age", transform=None) == Choices(keep=("age",))
    assert Choices.of(round=["x"], together=["a", "b"]) == Choices(
        round={"x": True}, together=(("a",), ("b",))
    )


def test_choices_of_files_forms_and_arguments_are_checked_alike() -> None:
    table = pa.table({"x": np.arange(3.0)})
    for wrong in ({"transform": {"x": "sqrt"}}, {"min_count": -1}, {"released_as": {"x": ""}}):
        with pytest.raises(ColumnError, match="must be"):
            decide(table.schema, Choices(**wrong))


if __name__ == "__main__":
    COMMANDS.write_text(with_tables(COMMANDS.read_text(encoding="utf-8")), encoding="utf-8")
