"""Rows as CSV text: what Arrow's writer gives, but doubles in a third of its time.

Text is quoted, and a missing value is an empty field without quotes. A double is the shortest
number that is read back as the same one; only beyond 1e-6 and 1e15 it has an exponent.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave import _core
from cornerwave.arrays import Ints, Words
from cornerwave.columns import is_text, one_chunk

LONGEST, SPARE = 25, 32
"""Letters of the longest double, -0.0000012345678901234567, and bytes that writing it may touch."""


@cache
def _powers() -> Words:
    """Return 10^-292 to 10^324 as 128 bits each, rounded up, the first of them 1."""
    return np.array([_power(k) for k in range(-292, 325)], dtype=np.uint64)


def _power(k: int) -> tuple[int, int]:
    shift = 127 - (k * 1741647 >> 19)
    top: int = 10 ** max(k, 0) << max(shift, 0)
    bottom: int = 10 ** max(-k, 0) << max(-shift, 0)
    return divmod(-(-top // bottom), 1 << 64)


def csv_header(names: Sequence[str]) -> bytes:
    """Return the line of column names."""
    quoted = ['"' + name.replace('"', '""') + '"' for name in names]
    return (",".join(quoted) + "\n").encode()


def csv_text(table: pa.Table) -> Any:
    """Return the bytes of the rows' text. Raises ArrowException for a type that has none."""
    doubles = [pa.types.is_float64(kind) for kind in table.schema.types]
    columns = [one_chunk(column) for column in table.columns]
    numbers = [c.to_numpy(zero_copy_only=False) for c, d in zip(columns, doubles, strict=True) if d]
    texts = [_cells(c) for c, double in zip(columns, doubles, strict=True) if not double]
    floats = np.stack(numbers) if numbers else np.empty((0, len(table)))
    starts, ends, content = _side_by_side(texts, len(table))
    room = len(table) * len(columns) + LONGEST * floats.size + SPARE + int((ends - starts).sum())
    out = np.empty(room, dtype=np.uint8)
    are_doubles = np.array(doubles, dtype=np.bool_)
    return out[: _core.write_csv(are_doubles, floats, starts, ends, content, _powers(), out)]


def _cells(column: pa.Array) -> tuple[Ints, Ints, Any]:
    """Return where the text of each cell begins and ends, and all of it; values of a
    dictionary are there once."""
    if pa.types.is_dictionary(column.type):
        begins, closes, content = _cells(column.dictionary)
        codes = column.indices.fill_null(len(begins)).to_numpy(zero_copy_only=False)
        return np.append(begins, 0)[codes], np.append(closes, 0)[codes], content
    texts = column.cast(pa.large_string())
    if is_text(column.type) or _is_bytes(column.type):
        texts = _quoted(texts)
    texts = texts.fill_null("")
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    content = np.frombuffer(data, dtype=np.uint8) if data else np.empty(0, dtype=np.uint8)
    return bounds[:-1], bounds[1:], content


def _is_bytes(type_: pa.DataType) -> bool:
    return "binary" in str(type_)


def _quoted(texts: pa.Array) -> pa.Array:
    quote = pa.scalar('"', pa.large_string())
    doubled = pc.replace_substring(texts, '"', '""')
    return pc.binary_join_element_wise(quote, doubled, quote, pa.scalar("", pa.large_string()))


def _side_by_side(columns: Sequence[tuple[Ints, Ints, Any]], rows: int) -> tuple[Ints, Ints, Any]:
    """Return the bounds of the cells of all columns, (columns, rows), and one text of them all.

    It is 8 bytes longer, since it is read by words.
    """
    starts, ends = np.empty((2, len(columns), rows), dtype=np.int64)
    before = 0
    for place, (begins, closes, content) in enumerate(columns):
        starts[place], ends[place] = begins + before, closes + before
        before += len(content)
    contents = [content for _, _, content in columns]
    return starts, ends, np.concatenate([*contents, np.zeros(8, np.uint8)])
