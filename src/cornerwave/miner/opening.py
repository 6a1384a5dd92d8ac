"""How a copy says how it was made: in its file, beside it, or in its recipient's words."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from numpy.typing import NDArray

from cornerwave.errors import ColumnError, LevelError, SourceError
from cornerwave.levels import Level
from cornerwave.table import METADATA_KEY, Source, open_source, read_metadata, type_named


def table_of(array: NDArray[Any], names: Sequence[str] | None) -> pa.Table:
    """Return an array (rows, columns), or (rows,), as a table with these names."""
    if array.ndim not in (1, 2):
        raise SourceError(f"an array of numbers has rows and columns, not shape {array.shape}")
    array = array.reshape(len(array), -1)
    names = [str(i) for i in range(array.shape[1])] if names is None else list(names)
    if len(names) != array.shape[1]:
        raise ColumnError(f"{len(names)} names for {array.shape[1]} columns")
    return pa.table([pa.array(column) for column in array.T], names=names)


def open_copy(what: Any, metadata: Mapping[str, Any] | None) -> Source:
    """Open a path or a frame; a CSV by the types that its metadata tell, as they were."""
    if not isinstance(what, str | Path) or not str(what).lower().endswith((".csv", ".csv.gz")):
        return open_source(what)
    said = metadata or (read_metadata(Path(what)) if Path(what).is_file() else None) or {}
    types = {name: _type_of(known) for name, known in said.get("columns", {}).items()}
    told = {name: type_ for name, type_ in types.items() if type_ is not None}
    return open_source(what, told if told and len(told) == len(types) else None)


def _type_of(known: Mapping[str, Any]) -> pa.DataType | None:
    """Return the type of a column in a CSV copy; None if its metadata do not tell."""
    if "type" not in known:
        return None
    if known["role"] == "perturbed" and not known.get("rounded"):
        return pa.float64()
    type_ = type_named(known["type"])
    is_text = type_ in (pa.large_string(), pa.string_view())
    return pa.string() if is_text else type_


def metadata_of(source: Source) -> dict[str, Any] | None:
    """Return what a copy says of itself; None if it says nothing."""
    inside = (source.schema.metadata or {}).get(METADATA_KEY)
    if inside:
        return dict(json.loads(inside))
    return read_metadata(source.path) if source.path and source.path.is_file() else None


def level_of(source: Source, said: Mapping[str, Any] | None, given: Level | None) -> Level:
    """Return the level of a copy. Raises SourceError if nobody says, LevelError if two differ."""
    if said is None and given is None:
        raise SourceError(
            f"{source.name} does not say how noisy it is: it is no copy made by a release, or its "
            ".meta.json is missing; say noise= or privacy="
        )
    if said is None or "noise" not in said:
        if given is None:
            raise SourceError("the metadata has no 'noise'; say noise= or privacy=")
        return given
    level = Level.of(noise=said["noise"])
    if given is not None and not math.isclose(given.noise, level.noise, rel_tol=1e-9):
        raise LevelError(f"the copy says noise {level.noise!r}, you say {given.noise!r}")
    return level
