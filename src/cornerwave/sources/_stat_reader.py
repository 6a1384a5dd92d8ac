"""Reads a file of a statistics program in a process of its own: of some damaged ones ReadStat dies.

    argument  the keywords of `parts`, as JSON
    output    pickles: column names, the labels of values by column and those of columns, then
              parts of the rows, each a list of cells by column

It is run as a script and imports nothing of ours, so that it starts at once.
"""

import json
import pickle
import sys
from collections.abc import Iterator
from typing import Any


def parts(
    *,
    read: str,
    path: str,
    options: dict[str, str],
    columns: list[str] | None,
    cells: int,
    least_rows: int,
) -> Iterator[Any]:
    """Yield names and both kinds of labels, then the rows of these columns, or of all."""
    import pyreadstat

    reader = getattr(pyreadstat, read)
    _, about = reader(path, output_format="dict", metadataonly=True, **options)
    names = list(about.column_names)
    described = {n: text for n, text in about.column_names_to_labels.items() if text}
    yield names, dict(about.variable_value_labels), described
    wanted = names if columns is None else columns
    if not wanted:
        return
    many = max(least_rows, cells // len(wanted))
    some = {**options, "output_format": "dict", "usecols": wanted, "row_limit": many}
    start, count = 0, many
    while count == many:
        rows, _ = reader(path, row_offset=start, **some)
        count = len(next(iter(rows.values()), ()))
        start += count
        if count:
            yield rows


if __name__ == "__main__":
    for part in parts(**json.loads(sys.argv[1])):
        pickle.dump(part, sys.stdout.buffer)
