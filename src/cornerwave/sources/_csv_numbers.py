"""Whether all cells of a CSV column are plain numbers, in one look at their bytes.

    whole      -?(0|[1-9][0-9]*)        of at most 18 digits
    decimal    whole(.[0-9]+)?([eE][+-]?[0-9]+)?

Most columns of most tables are; all others take the slower tests, type by type.
"""

import numpy as np
import pyarrow as pa

from cornerwave import _core

OTHER, DECIMAL, WHOLE = 0, 1, 2


def plain_numbers(cells: pa.Array) -> tuple[int, int]:
    """Return what all cells of text are at least, and how many there are; none is WHOLE.

    A cell without text is missing.
    """
    _, offsets, data = cells.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int32)[cells.offset : cells.offset + len(cells) + 1]
    content = np.frombuffer(data, dtype=np.uint8) if data else np.empty(0, dtype=np.uint8)
    return _core.kind_of_cells(bounds, content)
