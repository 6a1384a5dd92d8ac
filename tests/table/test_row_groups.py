"""Row groups that were encoded apart make the file that one writer makes of them."""

import io
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import numpy as np
import polars
import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from cornerwave.outputs import _formats as _row_groups
from cornerwave.outputs import parquet_settings
from cornerwave.outputs._formats import RowGroups

ROWS = 60
METADATA = {b"what": b"a copy", b"long": b"x" * 300}


def table_of_all_kinds():
    numbers = np.arange(ROWS) * 1.5
    columns = {
        "float": pa.array(numbers, mask=numbers % 7 == 0),
        "text": pa.array([None if n % 7 == 0 else f"s{n % 5}" for n in range(ROWS)]),
        "apart": pa.array([f"d{n % 3}" for n in range(ROWS)]).dictionary_encode(),
        "small": pa.array(range(ROWS), pa.int8()),
        "flag": pa.array([n % 3 == 0 for n in range(ROWS)]),
        "nothing": pa.nulls(ROWS),
        "moment": pa.array(range(ROWS), pa.timestamp("ns", "UTC")),
        "price": pa.array([Decimal(n) for n in range(ROWS)], pa.decimal128(20, 2)),
        "code": pa.array([b"abc"] * ROWS, pa.binary(3)),
    }
    schema = [pa.field(name, array.type) for name, array in columns.items()]
    schema.append(pa.field("never missing", pa.float64(), nullable=False))
    return pa.table([*columns.values(), pa.array(numbers)], schema=pa.schema(schema))


TABLE = table_of_all_kinds()


def parts_of(table, rows):
    return [table.slice(start, rows) for start in range(0, len(table), rows)]


def joined(parts, schema=TABLE.schema):
    file = io.BytesIO()
    groups = RowGroups(file, schema, parquet_settings(schema), METADATA)
    with ThreadPoolExecutor(3) as pool:
        for encoded in pool.map(groups.encode, parts):
            groups.append(encoded)
    groups.close()
    return file.getvalue()


def written(parts, schema=TABLE.schema):
    file = io.BytesIO()
    with papq.ParquetWriter(file, schema, store_schema=False, **parquet_settings(schema)) as writer:
        writer.add_key_value_metadata(METADATA)
        for part in parts:
            writer.write_table(part)
    return file.getvalue()


@pytest.mark.parametrize("rows", [ROWS, 17, 1])
def test_the_bytes_are_those_of_one_writer(rows):
    parts = parts_of(TABLE, rows)
    file = joined(parts)
    assert file == written(parts)
    assert papq.read_table(io.BytesIO(file)).num_rows == ROWS


def test_a_file_without_rows():
    assert joined([]) == written([])


def test_many_columns():
    wide = pa.table({f"column {n}": np.arange(6) + n / 7 for n in range(300)})
    parts = parts_of(wide, 2)
    assert joined(parts, wide.schema) == written(parts, wide.schema)


def test_another_library_reads_it():
    numbers = TABLE.select(["float", "small", "never missing"])
    found = polars.read_parquet(joined(parts_of(numbers, 17), numbers.schema))
    assert found.to_dict(as_series=False) == numbers.to_pydict()


def test_pages_whose_offsets_are_not_moved_are_not_read(monkeypatch):
    """The control: the footer is what finds the pages."""
    monkeypatch.setattr(_row_groups, "_move", lambda group, by: None)
    file = joined(parts_of(TABLE, 17))
    assert file != written(parts_of(TABLE, 17))
    try:
        found = papq.read_table(io.BytesIO(file)).column("float")
    except OSError:
        return
    assert not found.equals(TABLE.column("float"))
