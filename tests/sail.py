"""Sail, which speaks Spark Connect without Java: a server of our own for quick tests.

It has an environment of its own, made by `make test`: it takes an older PySpark than we test with.
"""

import os
import socket
import subprocess
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / ".sail" / "bin" / "python"

KNOWN_WARNINGS = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:google.*"),
]
"""Of PySpark's own, for every module that uses it."""


@contextmanager
def server(environment: Mapping[str, str] = MappingProxyType({})) -> Iterator[str]:
    """The address of a new server, which is stopped at the end."""
    port = _free_port()
    command = [PYTHON, "-W", "ignore", "-m", "pysail", "spark", "server"]
    process = subprocess.Popen(
        [*command, "--ip", "127.0.0.1", "--port", str(port)],
        env={
            **os.environ,
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
            "OPENBLAS_NUM_THREADS": "1",
            **environment,
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(port, process)
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@contextmanager
def session(url: str) -> Iterator[Any]:
    """A session of a server."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pyspark.sql.connect.session import SparkSession

        spark = SparkSession.builder.remote(url).create()
    yield spark
    spark.stop()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)  # until it listens
    raise RuntimeError("Sail does not start; `make test` makes its environment, .sail")
