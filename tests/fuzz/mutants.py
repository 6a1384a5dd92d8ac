"""Damage: bytes, words of 32 and 64 bits, text, values of JSON and TOML, tables of odd types."""

import datetime
import gzip
import json
import random
import re
import sqlite3
import zipfile
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cornerwave.outputs import read_metadata
from cornerwave.sources import METADATA_KEY, open_source
from cornerwave.spec import (
    ColumnMetadata,
    CopyMetadata,
    Kind,
    ListOf,
    Number,
    OneOf,
    OrNull,
    SpreadKind,
    TableOf,
    Text,
    Whole,
    kinds_of,
)
from tests.fuzz.world import ROWS, people, write_table

Mutation = Callable[[Path, random.Random], str]
"""Damages a file and says how."""

# --- bytes ------------------------------------------------------------------------------

_WORDS = (0, 1, -1, 2**31 - 1, -(2**31), 2**16, 100_000, 2**40, -(2**63), 2**63 - 1)


def bytes_of(path: Path, chance: random.Random) -> str:
    """Change some bytes."""
    content = bytearray(path.read_bytes())
    done = [_change(content, chance) for _ in range(chance.choice((1, 1, 1, 2, 4, 16)))]
    path.write_bytes(bytes(content))
    return ", ".join(done)


def words_of(path: Path, chance: random.Random) -> str:
    """Replace an aligned word: lengths and offsets of binary formats are such words."""
    content = bytearray(path.read_bytes())
    size = chance.choice((4, 8))
    at = chance.randrange(0, max(len(content) - size, 1), size)
    value = chance.choice(_WORDS) & (256**size - 1)
    content[at : at + size] = value.to_bytes(size, "little")
    path.write_bytes(bytes(content))
    return f"word of {size} at {at} is {value}"


def _change(content: bytearray, chance: random.Random) -> str:
    at = chance.randrange(len(content) + 1)
    long = chance.choice((1, 1, 2, 8, 64, len(content) // 3))
    match chance.randrange(7):
        case 0 if at < len(content):
            content[at] ^= 1 << chance.randrange(8)
            return f"bit at {at}"
        case 1:
            content[at : at + long] = bytes(chance.randrange(256) for _ in range(long))
            return f"{long} random at {at}"
        case 2:
            del content[at : at + long]
            return f"{long} deleted at {at}"
        case 3:
            content[at:at] = content[at : at + long]
            return f"{long} repeated at {at}"
        case 4:
            del content[at:]
            return f"cut at {at}"
        case 5:
            start = chance.randrange(len(content) + 1)
            content[at : at + long] = content[start : start + long]
            return f"{long} copied from {start} to {at}"
        case _:
            content[at : at + long] = bytes(long)
            return f"{long} zeros at {at}"


def zipped(path: Path, chance: random.Random) -> str:
    """Change what a compressed file holds, rather than its compressed bytes."""
    inside = path.with_name("inside")
    inside.write_bytes(gzip.decompress(path.read_bytes()))
    done = text_of(inside, chance)
    path.write_bytes(gzip.compress(inside.read_bytes()))
    inside.unlink()
    return done


# --- arguments --------------------------------------------------------------------------

_ARGUMENTS = (
    "", " ", "-1", "0", "1", "nan", "inf", "1e999", "0.5", "x", "/", ".", "..", "~", "a=b", "=",
    "age=", "age=log1p", "city=rank", "age=1:0", "age=:", "age=nan:inf", "born=2024-01-01:",
    "wage=x:y", ",", "city,flag", "age", "wage", "height", "city", "flag", "born", "id", "note",
    "nope", "\n", "\x1b[2J", "\ud800", "n" * 300, "people", "people.csv", "parts", "schema.toml",
    "batch.toml", "heads.txt", "ann0.8.parquet", ".cornerwave", ".cornerwave/key", "/dev/null",
    ".cornerwave/ledger.db", "ann", "--json", "--force", "--external", "--head", "--threads",
    "--vault", "--source", "--key", "--out", "--round", "--clip", "--min-count", "--keep", "--drop",
    "--categorical", "--hide-missing", "--help", "x.txt", "x.csv", "no/where.csv", "sqlite://",
    "postgresql://nobody@localhost:1/none",
)  # fmt: skip


def nothing(path: Path, chance: random.Random) -> str:
    """Leave every file as it is."""
    return "no damage"


def arguments_of(words: list[str], chance: random.Random) -> list[str]:
    """Return other words after the command: replaced, added, removed, swapped."""
    words = list(words)
    for _ in range(chance.choice((1, 1, 2, 3))):
        at = chance.randrange(1, len(words) + 1)
        match chance.randrange(5):
            case 0:
                words.insert(at, chance.choice(_ARGUMENTS))
            case 1:
                words[at:at] = [chance.choice(_ARGUMENTS), chance.choice(_ARGUMENTS)]
            case 2:
                del words[at : at + 1]
            case _:
                words[at : at + 1] = [chance.choice(_ARGUMENTS)]
    return words


# --- text -------------------------------------------------------------------------------

_FIELDS = (
    '""', '"', "'", "", " ", "NA", "nan", "inf", "-inf", "-1", "1e155", "1e308", "-1e400",
    "9" * 25, "0x1F", "1,000", "2024-02-30", "0000-00-00", "9999-12-31", "25:61", "true",
    "\x00", "\ufeff", "\u202e", "💥", "\r", '"a\nb"', "\t", ";", "=1+1", "-0.0", "007", "x" * 5000,
)  # fmt: skip


def text_of(path: Path, chance: random.Random) -> str:
    """Change fields and lines of a CSV file."""
    lines = path.read_bytes().decode("utf-8", "replace").split("\n")
    done = []
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(len(lines))
        what = chance.randrange(8)
        if what == 0:
            del lines[at : at + chance.choice((1, 1, len(lines)))]
            lines = lines or [""]
        elif what == 1:
            lines.insert(at, lines[chance.randrange(len(lines))])
        elif what == 2:  # every cell of a column
            column, field = chance.randrange(8), chance.choice(_FIELDS)
            lines = lines[:1] + [_with(line, column, field) for line in lines[1:]]
        elif what == 3:
            lines = [line.replace(",", chance.choice((";", "\t", "|", ",,"))) for line in lines]
        else:
            lines[at] = _with(lines[at], chance.randrange(9), chance.choice(_FIELDS))
        done.append(f"{what} in line {at}")
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))
    return ", ".join(done)


_CELLS = (
    "null", "true", "1e999", "-0", "NaN", "Infinity", "007", "1.5", '"1.5"', '""', '"\\ud800"',
    '"\\u0000"', "[]", "{}", '[1, {"a": []}]', '{"a": {"b": 1}, "a.b": 2}', '{"": 1}', "9" * 400,
    '"2024-02-30"', "[" * 9_000, '{"a":' * 2_000,
)  # fmt: skip


def lines_of(path: Path, chance: random.Random) -> str:
    """Change values, names and lines of a file of JSON lines."""
    lines = path.read_text(encoding="utf-8").split("\n")
    done = []
    for _ in range(chance.choice((1, 1, 2, 5))):
        at, what = chance.randrange(len(lines)), chance.randrange(6)
        name, cell = chance.choice(list(people().column_names)), chance.choice(_CELLS)
        if what == 0:
            lines[at] = chance.choice(
                ("", "null", "[]", "{}", '{"age": 1} {}', "\ufeff{}", "x" * 99)
            )
        elif what == 1:
            lines = [line.replace(f'"{name}"', json.dumps(chance.choice(_NAMES))) for line in lines]
        elif what == 2:
            lines[at] = lines[at].replace("{", f'{{"more": {cell}, ', 1)
        else:
            changed = range(len(lines)) if what == 3 else [at]
            for each in changed:
                lines[each] = re.sub(
                    rf'"{name}": ("[^"]*"|[^,}}]*)',
                    lambda _, n=name, c=cell: f'"{n}": {c}',
                    lines[each],
                )
        done.append(f"{what} of {name!r} in line {at}")
    path.write_text("\n".join(lines), encoding="utf-8")
    return ", ".join(done)


def latin_text_of(path: Path, chance: random.Random) -> str:
    """Change fields and lines of a file with semicolons in Windows-1252."""
    text = path.read_bytes().decode("cp1252").replace(",", "\0").replace(";", ",")
    path.write_text(text, encoding="utf-8")
    done = text_of(path, chance)
    text = path.read_bytes().decode().replace(",", ";").replace("\0", ",")
    path.write_bytes(text.encode("cp1252", "replace"))
    return done


def sheet_of(path: Path, chance: random.Random) -> str:
    """Change what a workbook holds, rather than its compressed bytes."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = chance.choice(sorted(parts))
    content = bytearray(parts[name])
    done = _change(content, chance)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for each, old in parts.items():
            archive.writestr(each, bytes(content) if each == name else old)
    return f"{name}: {done}"


def _with(line: str, column: int, field: str) -> str:
    fields = line.split(",")
    fields[min(column, len(fields) - 1)] = field
    return ",".join(fields)


_TOML = (
    "true", "0", "-1", "2", "1e400", "nan", "-inf", '""', '"x"', "[]", "{}", "[[]]", "[1]",
    '[["city"]]', '[["city", "city"]]', '[["city", "nope"]]', '[["city", "flag"]]', '"uniform"',
    "{ a = 1 }", "2024-01-01", '"\\n"',
    '"wage"', '"rank"', '"log1p"', '"keep"', '"key"', '"perturb"', '"category"', '"drop"',
    '"utf-7"', '"idna"', '"hex"', '";"', '"%d"', '"%d.%m.%y"', '["%Y%m%d"]', '"utf-16"',
    '"../up.csv"', '"/"', '"."', '".hidden.csv"', '"nul\\u0000.csv"', '"people.parquet"',
    "1" * 400, "1" * 5000, "0.5", "1e-320", "999999999999999999999", "[" * 2000,
    "{a=" * 500, '"' + "n" * 400 + '.csv"', '"\\ud83d"', "[ [ [ ] ] ]",
)  # fmt: skip


_KEYS = (
    *("column", "copy", "min_count", "together", "name", "to", "out", "privacy"),
    *("reading", "delimiter", "encoding", "decimal", "date_format", "missing"),
)
_PROJECT_KEYS = (
    *("vault", "recipients", "table", "name", "source", "schema", "unrelated", "edition", "append"),
    *("update", "advancing", "copy", "to", "privacy", "noise", "out", "round", "clip", "raw"),
    *("dictionary", "another", "grant", "until", "column", "do", "min_count"),
)


def project_of(path: Path, chance: random.Random) -> str:
    """Do so in a project file."""
    return toml_of(path, chance, _PROJECT_KEYS)


def toml_of(path: Path, chance: random.Random, keys: Sequence[str] = _KEYS) -> str:
    """Give other values, or change lines."""
    lines = path.read_text(encoding="utf-8").splitlines()
    done = []
    for _ in range(chance.choice((1, 1, 2))):
        at = chance.randrange(len(lines))
        what = chance.randrange(6)
        if what == 0:
            del lines[at]
            lines = lines or [""]
        elif what == 1:
            lines.insert(at, lines[chance.randrange(len(lines))])
        elif what == 2:
            lines.insert(at, f"{chance.choice(keys)} = {chance.choice(_TOML)}")
        elif "=" in lines[at]:
            lines[at] = lines[at].partition("=")[0] + "= " + chance.choice(_TOML)
        done.append(f"{what} in line {at}")
    path.write_text("\n".join(lines), encoding="utf-8")
    return ", ".join(done)


# --- JSON -------------------------------------------------------------------------------

ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2.5, 1e308, -1e308, 1e-320, 10**400, float("nan"), float("inf"),
    "", "x", "log1p", "rank", "perturbed", "category", "kept", "key", "int64", "double", "null",
    "timestamp[us, tz=Nowhere]", "decimal128(99, 2)", "decimal128(5, -99)", "list<item: int64>",
    "dictionary<values=string, indices=int8, ordered=0>", [], {}, [[]], [None], ["city"],
    ["city", "city"], [1e400], {"a": {}}, "\ud800", "\x1b[2J", "x" * 10_000, "uniform", "hidden",
)  # fmt: skip


def near(kind: Kind) -> Iterator[Any]:
    """Yield values at the ends of what a kind allows, just beyond them, and some inside."""
    if isinstance(kind, OrNull):
        yield None
        yield from near(kind.kind)
    elif isinstance(kind, Number | Whole):
        ends = [kind.least, kind.most]
        middle = 1 if kind.least <= 1 <= kind.most else kind.least
        yield from (*ends, middle, kind.least - 1, kind.most * 2 + 1, str(middle), [middle], True)
    elif isinstance(kind, OneOf):
        yield from (*kind.values, "another", [kind.values[0]])
    elif isinstance(kind, ListOf):
        own = [value for value in near(kind.kind) if kind.kind.accepts(value)]
        for length in range(4):
            yield own[:1] * length
            yield own[:length]
            if all(isinstance(value, int | float) for value in own):
                yield sorted(own)[:length]
                yield sorted(own, reverse=True)[:length]
        yield from ([value] for value in near(kind.kind))
    elif isinstance(kind, TableOf):
        yield from ({name: value} for name in ("x", "age") for value in near(kind.kind))
    elif isinstance(kind, SpreadKind):
        factors = (1e-6, 1.0, 0.0, 1.5, "text")
        yield from ({"centre": c, "factor": f} for c in (0.0, -1e300, "text") for f in factors)
        yield from ({"centre": 1.0}, [0.0, 1.0])
    else:
        yield from ("text", "two\nlines", 7, ["text"])


KINDS_OF = {True: kinds_of(ColumnMetadata), False: kinds_of(CopyMetadata)}


def json_of(path: Path, chance: random.Random) -> str:
    """Replace, add or remove a value anywhere."""
    if chance.random() < 0.05:
        path.write_text(chance.choice(("[" * 100_000, "{}", "[]", "null", "1", '"x"', "")))
        return "another document"
    content = json.loads(path.read_text(encoding="utf-8"))
    done = [_replace(content, chance) for _ in range(chance.choice((1, 1, 2)))]
    path.write_text(json.dumps(content), encoding="utf-8")
    return ", ".join(done)


def _replace(content: Any, chance: random.Random) -> str:
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for name in list(node) if isinstance(node, dict) else range(len(node)):
            places.append((node, name))
            if isinstance(node[name], dict | list):
                walk(node[name])

    walk(content)
    if not places:
        return "nothing"
    node, name = chance.choice(places)
    if isinstance(node, dict) and chance.random() < 0.15:
        del node[name]
        return f"without {name}"
    node[name] = chance.choice(ODD_VALUES)
    return f"{name} = {str(node[name])[:40]!r}"


def field_of(path: Path, chance: random.Random) -> str:
    """Give any field that a copy can state, whether it does or not, a value of any type."""
    content = json.loads(path.read_text(encoding="utf-8"))
    columns = chance.random() < 0.7
    node = chance.choice(list(content["columns"].values())) if columns else content
    name = chance.choice(sorted(KINDS_OF[columns]))
    node[name] = chance.choice((*ODD_VALUES, *near(KINDS_OF[columns][name])))
    path.write_text(json.dumps(content), encoding="utf-8")
    return f"{name} = {str(node[name])[:40]!r}"


def odd_fields(told: dict[str, Any], *columns: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield metadata in which one field, of all that there are, has a value of each type."""
    for name, kind in {**KINDS_OF[False], "columns": Text()}.items():
        for value in (*ODD_VALUES, *near(kind)):
            yield f"{name} = {str(value)[:40]!r}", {**told, name: value}
    for column in columns:
        for name, kind in KINDS_OF[True].items():
            for value in (*ODD_VALUES, *near(kind)):
                own = {**told["columns"][column], name: value}
                changed = {**told, "columns": {**told["columns"], column: own}}
                yield f"{column}.{name} = {str(value)[:40]!r}", changed


def inner_json(path: Path, chance: random.Random) -> str:
    """Change what a Parquet or Arrow copy says about itself."""
    source, told = open_source(path), read_metadata(path)
    beside = path.with_name("told.json")
    beside.write_text(json.dumps(told.to_json()))
    done = chance.choice((json_of, field_of))(beside, chance)
    table = pa.Table.from_batches(list(source.batches(source.schema.names)))
    write_table(table.replace_schema_metadata({METADATA_KEY: beside.read_bytes()}), path)
    beside.unlink()
    return done


# --- tables -----------------------------------------------------------------------------

_EXTREMES = (
    0.0, -0.0, 1.0, -1.0, -2.0, 1e-320, 1e154, 1e155, 1e200, -1e308, 1.7e308, np.inf, -np.inf,
    np.nan, 2.0**53, 1e140, 9e139,
)  # fmt: skip


def _odd_columns(rows: int, chance: random.Random) -> list[Callable[[], Any]]:
    """Return makers of columns that few tables have."""
    whole = [chance.randrange(-5, 100) for _ in range(rows)]
    floats = [float(n) + chance.random() for n in whole]
    texts = [f"t{n % 7}" for n in whole]
    big = [chance.choice((-(2**63), 2**63 - 1, 2**53 + 1, 0)) for _ in range(rows)]
    moment = [datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=n) for n in whole]
    return [
        lambda: pa.array([chance.choice(_EXTREMES) for _ in range(rows)]),
        lambda: pa.array([chance.choice(_EXTREMES) * 1.0 for _ in range(1)] * rows),
        lambda: pa.array(np.array(floats) * chance.choice((1e139, 1e150, 1e160, 1e300, 1e-310))),
        lambda: pa.array(big),
        lambda: pa.array([n % 3 * (2**64 - 1) // 2 for n in range(rows)], pa.uint64()),
        lambda: pa.array(np.array(floats, np.float16)),
        lambda: pa.array(whole, pa.int8()),
        lambda: pa.array([None] * rows, pa.null()),
        lambda: pa.array([None] * rows, pa.float64()),
        lambda: pa.array([None] * rows, pa.string()),
        lambda: pa.array([[n] for n in whole]),
        lambda: pa.array([{"a": n} for n in whole]),
        lambda: pa.array([[("k", n)] for n in whole], pa.map_(pa.string(), pa.int64())),
        lambda: pa.array([bytes([n % 256, 255]) for n in whole]),
        lambda: pa.array([bytes([n % 256, 255]) for n in whole], pa.binary(2)),
        lambda: pa.array([bytes([n % 256, 255]) for n in whole], pa.binary_view()),
        lambda: pa.array(texts, pa.string_view()),
        lambda: pa.array(texts, pa.large_string()),
        lambda: pa.array(texts).dictionary_encode(),
        lambda: pa.DictionaryArray.from_arrays([n % 3 for n in range(rows)], ["a", None, "a"]),
        lambda: pa.array(whole).dictionary_encode(),
        lambda: pa.array(floats).dictionary_encode(),
        lambda: pa.array(moment),
        lambda: pa.array(moment, pa.timestamp("ns", tz="Europe/Berlin")),
        lambda: pa.array(big, pa.timestamp("s")),
        lambda: pa.array(big, pa.timestamp("us", tz="Nowhere/Land")),
        lambda: pa.array(big, pa.duration("ns")),
        lambda: pa.array([abs(n) for n in whole], pa.time64("us")),
        lambda: pa.array([n * 86_400_000 for n in whole], pa.int64()).cast(pa.date64()),
        lambda: pa.array([2**31 - 1] * rows, pa.int32()).cast(pa.date32()),
        lambda: pa.array([(n, n, n) for n in whole], pa.month_day_nano_interval()),
        lambda: pa.array([Decimal(n) for n in whole], pa.decimal128(38, 10)),
        lambda: pa.array([Decimal(10) ** 60 + n for n in whole], pa.decimal256(70, 0)),
        lambda: pa.array([Decimal(n) * 1000 for n in whole], pa.decimal128(9, -3)),
        lambda: pa.RunEndEncodedArray.from_arrays(pa.array([rows], pa.int32()), pa.array([1.5])),
        lambda: pa.array([b"0" * 16] * rows, pa.uuid()),
        lambda: pa.array([n % 2 for n in whole], pa.int8()).cast(pa.bool8()),
        lambda: pa.UnionArray.from_sparse(pa.array([0] * rows, pa.int8()), [pa.array(whole)]),
        lambda: pa.array([[n] for n in whole], pa.list_view(pa.int64())),
        lambda: pa.array(["x" * 3000 + str(n) for n in whole]),
        lambda: pa.array(["\ud800".encode("utf-8", "surrogatepass").decode("latin-1")] * rows),
        lambda: pa.Array.from_buffers(
            pa.string(), rows, pa.array([f"t{n}" for n in whole], pa.binary()).buffers()
        ),
        lambda: pa.array(["a\x00b", "\x1b[2J", "", " ", "\n"] * rows).slice(0, rows),
    ]  # fmt: skip


_NAMES = ("age", "wage", "height", "city", "flag", "born", "id", "", "new\nline", "\x1b[2J", "x")


def table_of(path: Path, chance: random.Random) -> str:
    """Write another table: odd types, odd values, no rows, no columns, names twice."""
    rows = chance.choice((0, 1, 2, 3, 19, 20, 99, 100, ROWS, ROWS, ROWS, ROWS))
    table = people().slice(0, rows)
    done = [f"{rows} rows"]
    for _ in range(chance.choice((0, 1, 1, 2, 3))):
        makers = _odd_columns(rows, chance)
        kind = chance.randrange(len(makers))
        name = chance.choice(_NAMES)
        try:
            column = makers[kind]()
        except (pa.ArrowException, ValueError, OverflowError):
            continue
        if name in table.column_names and chance.random() < 0.9:
            table = table.set_column(table.column_names.index(name), name, column)
        else:
            table = table.append_column(name, column)
        done.append(f"{name!r}: {column.type} ({kind})")
    if chance.random() < 0.1:
        table = table.select(chance.sample(range(table.num_columns), chance.choice((0, 1, 2))))
        done.append("few columns")
    try:
        write_table(table, path, **_options(path, chance))
    except (pa.ArrowException, ValueError, OSError):
        return "not a file of this format"
    return ", ".join(done)


def _options(path: Path, chance: random.Random) -> dict[str, Any]:
    if path.suffix == ".arrow":
        compression = chance.choice((None, "lz4", "zstd"))
        return {"options": pa.ipc.IpcWriteOptions(compression=compression)}
    if path.suffix == ".parquet":
        return {
            "compression": chance.choice(("none", "snappy", "zstd", "gzip")),
            "use_dictionary": chance.random() < 0.5,
            "data_page_version": chance.choice(("1.0", "2.0")),
            "store_schema": chance.random() < 0.7,
        }
    return {}


def _another(column: pa.ChunkedArray, table: pa.Table, chance: random.Random) -> Any:
    """Return other values for a column, of its own type if it can have them."""
    rows = len(column)
    some = [chance.random() < 0.5 for _ in range(rows)]
    numbers = [name for name in table.column_names if pa.types.is_floating(table[name].type)]
    choices: list[Callable[[], Any]] = [
        lambda: pa.chunked_array([pa.nulls(rows, column.type)]),
        lambda: column.take(pa.array([0] * rows)),
        lambda: column.take(pa.array([i // (rows // 2 + 1) for i in range(rows)])),
        lambda: column.take(pa.array(chance.sample(range(rows), rows))),
        lambda: pa.array([None if i else v for i, v in enumerate(column.to_pylist())], column.type),
        lambda: pa.array(
            [None if s else v for s, v in zip(some, column.to_pylist(), strict=True)], column.type
        ),
        lambda: table[chance.choice(numbers)],
        lambda: column.cast(pa.string()),
        lambda: column.cast(pa.float32()),
        lambda: column.cast(pa.int8(), safe=False),
        lambda: column.dictionary_encode(),
        *(
            (lambda by=by: pa.array(column.to_numpy(zero_copy_only=False) * by))
            for by in (0.0, -1.0, 1e-300, 1e-160, 1e100, 1e138, 1e155, 1e250, np.inf)
        ),
        *(
            (lambda to=to: pa.array(column.to_numpy(zero_copy_only=False) * 0.0 + to))
            for to in (-1.0, 1e139, -1e-320)
        ),
        lambda: pa.array(
            [chance.choice(_EXTREMES) if s and chance.random() < 0.05 else v
             for s, v in zip(some, column.to_pylist(), strict=True)], pa.float64(),
        ),
    ]  # fmt: skip
    return chance.choice(choices)()


def values_of(path: Path, chance: random.Random) -> str:
    """Give columns other values, and keep everything else, what a copy says too."""
    source = open_source(path)
    table = pa.Table.from_batches(list(source.batches(source.schema.names)))
    table = table.replace_schema_metadata(source.schema.metadata)
    done = []
    for _ in range(chance.choice((1, 1, 2, 3))):
        place = chance.randrange(table.num_columns)
        name = table.column_names[place]
        try:
            with np.errstate(all="ignore"):
                column = _another(table.column(place), table, chance)
        except (pa.ArrowException, TypeError, ValueError, IndexError, OverflowError):
            continue
        table = table.set_column(place, name, column)
        done.append(f"{name}: {column.type}")
    if chance.random() < 0.2:
        table = table.slice(0, chance.choice((0, 1, 2, 30, 100, 130)))
        done.append(f"{table.num_rows} rows")
    if chance.random() < 0.1:
        table = table.take(pa.array([i // 2 for i in range(table.num_rows)], pa.int64()))
        done.append("rows twice")
    try:
        write_table(table, path)
    except (pa.ArrowException, ValueError, OSError):
        return "not a file of this format"
    return ", ".join(done)


def bare_words(path: Path, chance: random.Random) -> str:
    """Write the table without compression, then damage a word or some bytes of it."""
    options = {"options": pa.ipc.IpcWriteOptions()} if path.suffix == ".arrow" else {}
    if path.suffix == ".parquet":
        options = {"compression": "none", "use_dictionary": chance.random() < 0.5}
    table = people()
    if chance.random() < 0.5:
        table = table.set_column(5, "city", table.column("city").dictionary_encode())
    if chance.random() < 0.3:
        table = table.set_column(8, "note", table.column("note").cast(pa.string_view()))
    if chance.random() < 0.3:
        table = table.append_column("list", pa.array([[1, 2]] * ROWS))
    write_table(table, path, **options)
    return (words_of if chance.random() < 0.8 else bytes_of)(path, chance)


def stream(path: Path, chance: random.Random) -> str:
    """Write a stream of Arrow batches, which is not an Arrow file."""
    with pa.ipc.new_stream(path, people().schema) as file:
        file.write_table(people())
    return "a stream"


# --- the ledger -------------------------------------------------------------------------

_SQL = (
    "NULL", "0", "-1", "''", "'x'", "x'00ff'", "1e400", "9223372036854775807", "'{}'", "'[]'",
    "'null'", "'7'", "printf('%.*c', 100000, '[')",
)  # fmt: skip
_PLANTED = (
    "CREATE TRIGGER t AFTER INSERT ON cornerwave_line BEGIN DELETE FROM cornerwave_line; END",
    "CREATE VIEW v AS SELECT 1",
    "DROP TABLE cornerwave_line",
    "DROP INDEX cornerwave_line_recipient",
    "DELETE FROM cornerwave_chain",
    "DELETE FROM cornerwave_vault",
    "INSERT INTO cornerwave_vault SELECT * FROM cornerwave_vault",
    "DELETE FROM cornerwave_line WHERE number = 1",
    "UPDATE cornerwave_line SET number = number + 1",
    "PRAGMA user_version = 7",
)


def ledger_of(path: Path, chance: random.Random) -> str:
    """Change a cell of the ledger, or what the database is made of."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        statement = chance.choice(_PLANTED)
        if chance.random() < 0.75:
            table = chance.choice(("vault", "chain", "line"))
            names = [row[1] for row in connection.execute(f"PRAGMA table_info(cornerwave_{table})")]
            statement = (
                f"UPDATE cornerwave_{table} SET {chance.choice(names)} = {chance.choice(_SQL)} "
                "WHERE rowid IN (SELECT rowid FROM cornerwave_"
                f"{table} ORDER BY rowid LIMIT 1 OFFSET {chance.randrange(4)})"
            )
        try:
            connection.execute(statement)
        except sqlite3.Error:
            return "nothing"
        return statement
    finally:
        connection.close()
