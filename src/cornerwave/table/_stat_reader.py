"""Reads a file of a statistics program in a process of its own: of some damaged ones ReadStat dies.

    argument (the reader's name, path, its options, rows at a time)
    output   (column names, value labels by column) if there are to be no rows, else parts of the
             rows, each a list of cells by column

It is run as a script and imports nothing of ours, so that it starts at once.
"""

import base64
import pickle
import sys
from collections.abc import Iterator
from typing import Any


def parts(read: str, path: str, options: dict[str, Any], many: int) -> Iterator[Any]:
    """Yield what the file says of itself, or its rows."""
    import pyreadstat

    reader = getattr(pyreadstat, read)
    if not many:
        _, about = reader(path, output_format="dict", metadataonly=True, **options)
        yield list(about.column_names), dict(about.variable_value_labels)
        return
    start, count = 0, many
    while count == many:
        rows, _ = reader(path, output_format="dict", row_offset=start, row_limit=many, **options)
        count = len(next(iter(rows.values()), ()))
        start += count
        if count:
            yield rows


if __name__ == "__main__":
    for part in parts(*pickle.loads(base64.b64decode(sys.argv[1]))):  # noqa: S301
        pickle.dump(part, sys.stdout.buffer)
