"""What a machine of a cluster found, as bytes, and what came back, read without running code.

Machines hold derived secrets, the driver holds the vault's key: what they send is read by a
reader that knows arrays, values of cells and the classes of a survey, and nothing else.
"""

import io
import json
import pickle
from collections.abc import Sequence
from dataclasses import is_dataclass
from importlib import import_module
from typing import Any

import pyarrow as pa

from cornerwave import errors
from cornerwave.errors import ClusterError, CornerwaveError
from cornerwave.keyed import Secrets

_VALUES = {
    "collections": ("Counter",),
    "datetime": ("date", "datetime", "time", "timedelta", "timezone"),
    "decimal": ("Decimal",),
    "numpy": ("ndarray", "dtype"),
    "numpy._core.multiarray": ("_reconstruct", "scalar"),
    "numpy._core.numeric": ("_frombuffer",),
}
_ROOMS = ("cornerwave.marks.", "cornerwave.moments.", "cornerwave.survey", "cornerwave.table.")


class _SurveyReader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name in _VALUES.get(module, ()):
            return getattr(import_module(module), name)
        if module.startswith(_ROOMS) and "." not in name:
            found = getattr(import_module(module), name, None)
            if isinstance(found, type) and is_dataclass(found) and not issubclass(found, Secrets):
                return found
        raise pickle.UnpicklingError("not part of a survey")


def packed(found: Any) -> bytes:
    """Return a survey or a sample as bytes."""
    return pickle.dumps(found, protocol=5)


def unpacked(content: bytes) -> Any:
    """Return what `packed` made. Raises ClusterError for anything else."""
    try:
        return _SurveyReader(io.BytesIO(content)).load()
    except Exception:  # whatever was sent: its words may quote a cell
        raise ClusterError("a machine of the cluster sent something else than a survey") from None


def packed_runs(runs: Sequence[tuple[int, pa.Table]]) -> list[tuple[int, bytes]]:
    """Return runs of rows as bytes."""
    return [(start, packed_table(table)) for start, table in runs]


def packed_table(table: pa.Table) -> bytes:
    """Return rows as bytes, in exactly their types."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def unpacked_table(content: bytes) -> pa.Table:
    """Return the rows that `packed_table` packed. Raises ClusterError for anything else."""
    try:
        table = pa.ipc.open_stream(content).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError):
        raise ClusterError("a machine of the cluster sent something else than rows") from None
    return table


def packed_error(error: CornerwaveError) -> bytes:
    """Return an error as bytes: its words are ours, and hold no cell."""
    told = {"kind": type(error).__name__, "message": str(error), "use": error.use}
    return json.dumps(told).encode()


def unpacked_error(content: bytes) -> CornerwaveError:
    """Return the error that `packed_error` packed."""
    told = json.loads(content)
    kind = getattr(errors, str(told["kind"]), None)
    known = isinstance(kind, type) and issubclass(kind, CornerwaveError)
    error: CornerwaveError = (kind if known else ClusterError)(  # type: ignore[misc]
        str(told["message"]), use=[str(choice) for choice in told["use"]]
    )
    return error
