"""A small world to damage: tables, a vault, copies in every format, and the owner's files.

One row holds cells that must never be shown; so does the key file.
"""

import datetime
import json
import zipfile
from contextlib import chdir
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.ipc as paipc
import pyarrow.parquet as papq
import pyreadstat

from cornerwave.choices import Choices
from cornerwave.levels import Level
from cornerwave.vault import Registration, Vault, write_all

ROWS = 200
MARKED = 77
"""The row whose cells must never be shown."""
CELLS = ("qanary", "48213.06", "48213,06", "48,213")
FORMATS = ("csv", "csv.gz", "parquet", "arrow")
PROGRAMS = ("xlsx", "dta", "sav")

SCHEMA = """\
min_count = 2
together = [["city", "team"]]
few_rows = true

[[column]]
name = "id"
do = "key"
hidden = true

[[column]]
name = "age"
do = "perturb"
description = "Age in years"
hide_missing = false

[[column]]
name = "wage"
do = "perturb"
transform = "log1p"

[[column]]
name = "height"
do = "perturb"
hide_missing = true

[[column]]
name = "born"
do = "keep"

[[column]]
name = "city"
do = "category"

[[column]]
name = "team"
do = "category"

[[column]]
name = "flag"
do = "category"
base = "uniform"

[[column]]
name = "note"
do = "drop"
"""

BATCH = """\
[[copy]]
to = "carl"
privacy = 0.3
out = "carl.parquet"

[[copy]]
to = "dora"
noise = 4
"""


PROJECT = """\
recipients = ["ann", "eve"]

[[table]]
name = "people"
source = "people.parquet"

[table.schema]
few_rows = true

[[table.schema.column]]
name = "id"
do = "key"

[[table.schema.column]]
name = "wage"
do = "perturb"
transform = "log1p"

[[table.schema.column]]
name = "height"
do = "perturb"
transform = "rank"

[[table.schema.column]]
name = "born"
do = "drop"

[[table.schema.column]]
name = "note"
do = "drop"

[[table.schema.column]]
name = "age"
do = "perturb"

[[table.schema.column]]
name = "*"
do = "category"

[[table.copy]]
to = "ann"
privacy = 0.3
out = "ann0.3.parquet"

[[table.copy]]
to = "eve"
noise = 4
round = ["age"]
clip = { age = [0, inf] }
out = "eve.csv"

[[table.grant]]
to = "eve"
privacy = 0.8
until = 2100-01-31

[[table]]
name = "other"
source = "other.csv"
schema = "schema.toml"
unrelated = ["people"]

[[table.edition]]
append = "none-*.csv"
"""


def people(rows: int = ROWS, *, seed: int = 11) -> pa.Table:
    """Return people, one of whom is marked."""
    random = np.random.default_rng(seed)
    wage = np.where(random.random(rows) < 0.3, 0.0, np.round(random.lognormal(7, 1, rows), 2))
    ids = [f"p{row:04d}" for row in range(rows)]
    note = [f"note {row % 9}" for row in range(rows)]
    wage[MARKED], ids[MARKED], note[MARKED] = 48213.0625, "qanary-id", "qanary-note"
    days = random.integers(0, 300, rows)
    return pa.table(
        {
            "id": ids,
            "age": random.integers(18, 90, rows),
            "wage": wage,
            "height": pa.array(random.normal(170, 9, rows), mask=random.random(rows) < 0.1),
            "born": [datetime.date(1970, 1, 1) + datetime.timedelta(int(day)) for day in days],
            "city": np.array(["Ulm", "Bonn", "Jena"])[random.integers(0, 3, rows)],
            "team": np.array(["red", "blue"])[random.integers(0, 2, rows)],
            "flag": random.random(rows) < 0.5,
            "note": note,
        }
    )


def write_table(table: pa.Table, path: Path, **options: object) -> None:
    """Write a table as any tool could."""
    if path.suffix == ".parquet":
        papq.write_table(table, path, **options)
    elif path.suffix == ".arrow":
        with paipc.new_file(path, table.schema, **options) as file:
            file.write_table(table)
    elif path.suffix == ".gz":
        with pa.output_stream(path, compression="gzip") as file:
            pacsv.write_csv(table, file)
    else:
        pacsv.write_csv(table, path)


READING = """
[reading]
delimiter = ";"
encoding = "cp1252"
decimal = ","
thousands = ""
date_format = ["%d.%m.%Y"]
missing = ["?", "NA"]
"""


def write_messy(table: pa.Table, path: Path) -> None:
    """Write a table as a spreadsheet in Europe would."""
    frame = table.to_pandas()
    frame["born"] = [day.strftime("%d.%m.%Y") for day in frame["born"]]
    frame["city"] = frame["city"].replace("Ulm", "Köln")
    frame["flag"] = frame["flag"].map({True: "true", False: "false"})
    frame.to_csv(path, sep=";", decimal=",", encoding="cp1252", index=False)


def write_others(table: pa.Table, folder: Path) -> None:
    """Write a table as a workbook, and as statistics programs would."""
    frame = table.to_pandas()
    frame.to_excel(folder / "people.xlsx", index=False)
    frame["flag"] = frame["flag"].map({True: "true", False: "false"})
    pyreadstat.write_xport(frame, folder / "people.xpt")
    frame["flag"] = (frame["flag"] == "true").astype(int)
    labels = {"flag": {0: "no", 1: "yes"}}
    pyreadstat.write_sav(frame, folder / "people.sav", variable_value_labels=labels)
    pyreadstat.write_dta(frame, folder / "people.dta", variable_value_labels=labels)


def write_lines(table: pa.Table, path: Path) -> None:
    """Write a table as JSON lines."""
    path.write_text("".join(f"{json.dumps(row, default=str)}\n" for row in table.to_pylist()))


def make_world(folder: Path) -> None:
    """Fill a folder: sources, a vault with two datasets, copies of both, the owner's files."""
    for format_ in FORMATS:
        write_table(people(), folder / f"people.{format_}")
    write_messy(people(), folder / "messy.csv")
    write_others(people(), folder)
    write_lines(people(), folder / "people.jsonl")
    with zipfile.ZipFile(folder / "people.csv.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(folder / "people.csv", "people.csv")
    (folder / "texts").mkdir()
    for i, part in enumerate(("one", "two")):
        half = people().slice(i * ROWS // 2, ROWS // 2)
        write_table(half, folder / "texts" / f"{part}.csv")
    (folder / "messy.toml").write_text(SCHEMA + READING)
    write_table(people(seed=12), folder / "other.csv")
    (folder / "parts").mkdir()
    for i, part in enumerate(("one", "two")):
        half = people().slice(i * ROWS // 2, ROWS // 2)
        write_table(half, folder / "parts" / f"{part}.parquet")
    (folder / "schema.toml").write_text(SCHEMA)
    (folder / "batch.toml").write_text(BATCH)
    (folder / "cornerwave.toml").write_text(PROJECT)
    with chdir(folder):
        Vault.create("empty")
        vault = Vault.create()
        plain = Choices(
            key="id",
            drop=("note", "born"),
            transform={"wage": "log1p", "height": "rank"},
            few_rows=True,
        )
        vault.register_as("people", "people.parquet", Registration(plain))
        dataset = vault.dataset("people")
        asked = [(to, Level.of(privacy=p)) for to in ("ann", "bob") for p in (0.3, 0.8)]
        made = dataset.release_many(asked)
        names = [f"{to}{level.privacy:g}" for to, level in asked]
        for format_ in (*FORMATS, *PROGRAMS):
            pairs = zip(made, names, strict=True)
            write_all([(copy, f"{name}.{format_}") for copy, name in pairs], threads=1)
        heads = "".join(f"{head}\t{name}\n" for name, head in vault.heads().items())
        (folder / "heads.txt").write_text(heads)
