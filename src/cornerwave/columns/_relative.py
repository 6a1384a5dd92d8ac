"""Numbers and dates that are perturbed as their distance from another column.

    d = x - b        what has noise, a scale and gaps of its own, in place of x
    x' = b' + d'     what a copy shows, b' and d' as it has them

So copies keep the order of paired columns, as of an entry and an exit: on the scale of ranks a
distance that is never negative in the table is never negative in copies. b may be relative to
another column itself. A distance is missing where x or b is.

Each cell of x' is a function of the copy alone, and x' - b' is d' again, so that a set of copies
reveals the same as if it showed distances.

On ranks b' and d' lie in their own ranges, and yet a late b' with a long d' ends after everything
in the table. Such an x' is cut off at the end of the column's range, or at b' if that lies beyond,
which keeps the order: one more function of the copy alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Floats
from cornerwave.columns._encoded import one_chunk
from cornerwave.columns._types import to_floats
from cornerwave.errors import ColumnError

Relative = Mapping[str, str]
"""By a column, the one that it is perturbed as the distance from."""


def distance_name(name: str, base: str) -> str:
    """Return what a distance is called."""
    return f"{name} - {base}"


def chain(name: str, relative: Relative) -> Iterator[str]:
    """Yield a column, the one that it is relative to, and so on. Raises ColumnError in a circle."""
    seen = [name]
    yield name
    while (base := relative.get(seen[-1])) is not None:
        if base in seen:
            raise ColumnError(
                f"{base!r}: relative_to leads back to the column itself; one of the columns must "
                "be perturbed by itself",
                use=("relative_to",),
            )
        seen.append(base)
        yield base


def bases_first(relative: Relative) -> list[str]:
    """Return the columns that are relative to others, each after the one that it is relative to."""
    return sorted(relative, key=lambda name: len(list(chain(name, relative))))


def to_distances(numbers: Floats, names: Sequence[str], relative: Relative) -> None:
    """Replace the rows of numbers (N, rows) that are relative to others by their distances."""
    for name in reversed(bases_first(relative)):
        if name in names:
            x = numbers[names.index(name)]
            x -= numbers[names.index(relative[name])]
            x[np.isnan(x)] = np.nan  # the same bits on every machine


def to_values(distances: Mapping[str, Floats], relative: Relative) -> dict[str, Floats]:
    """Return columns with what is relative to others added to these: x = b + d."""
    values = dict(distances)
    for name in bases_first(relative):
        if name in values and relative[name] in values:
            values[name] = values[relative[name]] + values[name]
    return values


def cut_off(values: Floats, base: Floats, ends: tuple[float, float]) -> Floats:
    """Return b + d within two ends, but never on another side of b than before.

    >>> cut_off(np.array([5.0, 12.0, 14.0]), np.array([1.0, 9.0, 13.0]), (0.0, 10.0)).tolist()
    [5.0, 10.0, 13.0]
    """
    least, most = ends
    above = np.maximum(np.minimum(values, most), base)
    below = np.minimum(np.maximum(values, least), base)
    return np.asarray(np.where(values >= base, above, below))


def distances_in(table: pa.Table, names: Sequence[str], relative: Relative) -> list[Floats]:
    """Return columns of a table as numbers, or as distances if they are relative to others."""
    found = []
    for name in names:
        values = to_floats(one_chunk(table.column(name)), name)
        if name in relative:
            values = values - to_floats(one_chunk(table.column(relative[name])), relative[name])
        found.append(values)
    return found


def with_distances(table: pa.Table, relative: Relative) -> pa.Table:
    """Return a table with the distances of its columns as columns of their own."""
    for name, values in zip(relative, distances_in(table, list(relative), relative), strict=True):
        distance = pa.array(values, from_pandas=True)
        table = table.append_column(distance_name(name, relative[name]), distance)
    return table


def keeps_order(step: Fraction | None, of_base: Fraction | None) -> bool:
    """Whether no value of a step can be rounded below one of its base, which has another step."""
    return step is None or (of_base is not None and (of_base / step).denominator == 1)
