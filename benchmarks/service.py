"""The service under load, on loopback: throughput, answers a second, memory, copies made once.

    python benchmarks/service.py            everything: about three minutes
    python benchmarks/service.py metadata   one part: downloads, metadata, making, memory

The service is the command `cornerwave serve` in a process of its own, and so is the plain static
server beside it (Starlette's StaticFiles on uvicorn). The client is this process: it reads from
many sockets in one loop and keeps nothing.
"""

import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cornerwave.access import Sharing
from cornerwave.vault import Vault

RECIPIENTS = 200
ROWS = 5_500_000
"""Four columns of noisy floats: a copy of about 100 MB."""
LARGE = 10
"""How many times larger the copy is whose memory is compared."""
REPEATS = 3
SECONDS = 3.0
"""How long answers are counted."""
COPY = "/v1/datasets/table/copy"
STATIC = """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.staticfiles import StaticFiles
app = Starlette()
app.mount("/", StaticFiles(directory=sys.argv[1]))
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), access_log=False, log_level="error")
"""


def show(what: str, value: str, target: str = "") -> None:
    print(f"{what:<66} {value:>12}   {target}", flush=True)


# --- servers ------------------------------------------------------------------------------


@contextmanager
def running(*command: str | Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server until the work with it is done."""
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.DEVNULL)
    try:
        while not _listens(port):
            assert process.poll() is None, "the server did not start"
            time.sleep(0.05)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def _listens(port: int) -> bool:
    with socket.socket() as trial:
        return trial.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@dataclass
class Served:
    """A vault with one table and its recipients, and a port for its service."""

    folder: Path
    tokens: list[str]
    port: int = field(default_factory=free_port)

    def service(self) -> AbstractContextManager[subprocess.Popen[bytes]]:
        return running(
            "-m", "cornerwave", "serve", "--port", str(self.port), "--vault", self.folder / "vault",
            port=self.port,
        )  # fmt: skip

    def head(self, path: str, who: int = 0) -> bytes:
        """Return a request."""
        token = self.tokens[who % len(self.tokens)]
        return (
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
            f"Authorization: Bearer {token}\r\n\r\n"
        ).encode()


def prepared(folder: Path, rows: int, recipients: int) -> Served:
    """Register a table and grant it, at one level, to some recipients."""
    rng, writer = np.random.default_rng(1), None
    path = folder / "table.parquet"
    for _ in range(0, rows, 500_000):
        part = pa.table({f"c{i}": rng.normal(size=500_000) for i in range(4)})
        writer = writer or pq.ParquetWriter(path, part.schema)
        writer.write_table(part)
    assert writer is not None
    writer.close()
    vault = Vault.create(folder / "vault")
    vault.register("table", path)
    sharing, tokens = Sharing(vault), []
    for i in range(recipients):
        sharing.add(f"r{i}")
        sharing.grant("table", f"r{i}", privacy=0.5)
        tokens.append(sharing.new_token(f"r{i}", days=1))
    return Served(folder, tokens)


def processor(process: subprocess.Popen[bytes]) -> float:
    """Return the seconds of processor time that a process has taken."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_memory(process: subprocess.Popen[bytes]) -> float:
    """Return the most memory that a process ever had, in MB."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1024


# --- clients ------------------------------------------------------------------------------


@dataclass
class Download:
    """One answer, whose body is counted and forgotten."""

    socket: socket.socket
    began: float
    head: bytes = b""
    left: int = -1
    status: int = 0
    first: float = 0.0
    took: float = 0.0

    def read(self, buffer: memoryview) -> bool:
        """Take what is there; return whether the answer is complete."""
        count = self.socket.recv_into(buffer)
        assert count, "the connection ended before its answer"
        if self.left < 0:
            self.head += bytes(buffer[:count])
            if b"\r\n\r\n" not in self.head:
                return False
            head, _, rest = self.head.partition(b"\r\n\r\n")
            self.first = time.perf_counter() - self.began
            self.status = int(head.split(b" ", 2)[1])
            self.left = int(re.findall(rb"content-length: (\d+)", head.lower())[0]) - len(rest)
        else:
            self.left -= count
        if self.left == 0:
            self.took = time.perf_counter() - self.began
        return self.left == 0


def download(port: int, requests: list[bytes]) -> tuple[float, list[Download]]:
    """Send all requests at once, each on its own connection; return the seconds until the end."""
    chosen, buffer = selectors.DefaultSelector(), memoryview(bytearray(1 << 20))
    began, all_ = time.perf_counter(), []
    for request in requests:
        opened = socket.create_connection(("127.0.0.1", port))
        opened.sendall(request)
        all_.append(Download(opened, began))
        chosen.register(opened, selectors.EVENT_READ, all_[-1])
    waiting = len(all_)
    while waiting:
        for key, _ in chosen.select():
            if key.data.read(buffer):
                chosen.unregister(key.fileobj)
                key.data.socket.close()
                waiting -= 1
    return time.perf_counter() - began, all_


def ask(port: int, requests: list[bytes], seconds: float) -> list[float]:
    """Ask again and again on open connections; return how long each answer took."""
    chosen, buffer = selectors.DefaultSelector(), memoryview(bytearray(1 << 16))
    opened = [socket.create_connection(("127.0.0.1", port)) for _ in requests]
    asked: list[Download] = []

    def send(n: int) -> Download:
        began = time.perf_counter()
        opened[n].sendall(requests[n])
        return Download(opened[n], began)

    for n, connection in enumerate(opened):
        chosen.register(connection, selectors.EVENT_READ, n)
        asked.append(send(n))
    took: list[float] = []
    ends = time.perf_counter() + seconds
    while time.perf_counter() < ends:
        for key, _ in chosen.select(1):
            answer = asked[key.data]
            if answer.read(buffer):
                assert answer.status == 200, answer.status
                took.append(answer.took)
                asked[key.data] = send(key.data)
    for connection in opened:
        connection.close()
    return took


# --- parts --------------------------------------------------------------------------------


def downloads() -> None:
    """200 recipients fetch a cached copy at once, beside the same file from a static server."""
    with tempfile.TemporaryDirectory() as name:
        served = prepared(Path(name), ROWS, RECIPIENTS)
        with served.service() as service:
            _, [first] = download(served.port, [served.head(COPY)])
            show("first request: the copy is made, checked and sent, seconds", f"{first.took:.1f}")
            [cached] = (Path(name) / "vault" / "cache").glob("*.parquet")
            size, ours, theirs = cached.stat().st_size, [], []
            requests = [served.head(COPY, i) for i in range(RECIPIENTS)]
            with plain_server(cached) as (_, port, request):
                for _ in range(REPEATS):
                    took, plain = download(port, [request] * RECIPIENTS)
                    theirs.append((took, *_first(plain)))
                    took, all_ = download(served.port, requests)
                    assert {each.status for each in all_} == {200}
                    ours.append((took, *_first(all_)))
            peak = peak_memory(service)
    what = f"{RECIPIENTS} recipients x {size / 1e6:.0f} MB at once, MB/s"
    (took, p50, p99), (their_time, their_p50, their_p99) = (
        map(min, zip(*side, strict=True)) for side in (ours, theirs)
    )
    show(what, f"{size * RECIPIENTS / 1e6 / took:,.0f}")
    show("throughput, ours / a static server's", f"{their_time / took:.2f}", ">= 0.8")
    show("first byte, p50; p99, seconds", f"{p50:.1f}; {p99:.1f}")
    show("  of the static server's", f"{their_p50:.1f}; {their_p99:.1f}")
    show("peak memory of the service, MB", f"{peak:.0f}", "< 1000")


def _first(all_: list[Download]) -> tuple[float, float]:
    """Return the median and the 99th percentile of the seconds until the first byte."""
    ordered = sorted(each.first for each in all_)
    return _at(ordered, 0.5), _at(ordered, 0.99)


def metadata() -> None:
    """Answers a second to 32 recipients who ask all the time, beside a static server's.

    Processor time says more than answers a second where others are at work too.
    """
    with tempfile.TemporaryDirectory() as name:
        served, small = prepared(Path(name), 500_000, 32), Path(name) / "small.json"
        small.write_text("x" * 250)
        tables = "/delta-sharing/shares/cornerwave/schemas/copies/tables"
        with served.service() as service, plain_server(small) as (plain, port, request):
            download(served.port, [served.head(COPY)])
            for path in ("/v1/datasets/table", tables, f"{tables}/table/metadata"):
                requests = [served.head(path, i) for i in range(32)]
                both = [
                    (asked(service, served.port, requests), asked(plain, port, [request] * 32))
                    for _ in range(REPEATS)
                ]
                ours, theirs = zip(*both, strict=True)
                took, their = (max((t for t, _ in side), key=len) for side in (ours, theirs))
                cpu, their_cpu = (1000 * min(c for _, c in side) for side in (ours, theirs))
                p50, p99 = (1000 * _at(sorted(took), share) for share in (0.5, 0.99))
                what = path.rpartition("/")[2]
                show(f"GET {what}, answers a second", f"{len(took) / SECONDS:,.0f}", "2,000")
                show("  ours / a static server's of 250 bytes", f"{len(took) / len(their):.2f}")
                show("  processor time of an answer; a static server's, ms",
                     f"{cpu:.2f}; {their_cpu:.2f}")  # fmt: skip
                show("  p50; p99, ms", f"{p50:.0f}; {p99:.0f}")


def asked(
    server: subprocess.Popen[bytes], port: int, requests: list[bytes]
) -> tuple[list[float], float]:
    """Return how long each answer took, and the processor time of one, in seconds."""
    before = processor(server)
    took = ask(port, requests, SECONDS)
    return took, (processor(server) - before) / len(took)


@contextmanager
def plain_server(file: Path) -> Iterator[tuple[subprocess.Popen[bytes], int, bytes]]:
    """Serve one file; yield the server, its port, and the request for it."""
    port = free_port()
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        os.link(file, Path(folder) / "file")
        with running("-c", STATIC, folder, str(port), port=port) as process:
            yield process, port, f"GET /file HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()


def making() -> None:
    """50 first requests at once for a copy that is not there."""
    with tempfile.TemporaryDirectory() as name:
        served = prepared(Path(name), 500_000, 50)
        with served.service():
            took, all_ = download(served.port, [served.head(COPY, i) for i in range(50)])
        assert {each.status for each in all_} == {200}
        made = len(list((Path(name) / "vault" / "cache").glob("*.parquet")))
        with served.service():
            again, _ = download(served.port, [served.head(COPY, i) for i in range(50)])
    show("50 first requests at once: copies made", f"{made}", "1")
    show("  seconds; the same once it is cached", f"{took:.1f}; {again:.1f}")


def memory() -> None:
    """Peak memory after making and sending a copy, and one ten times as large."""
    peaks = []
    for rows in (ROWS, LARGE * ROWS):
        with tempfile.TemporaryDirectory() as name:
            served = prepared(Path(name), rows, 10)
            with served.service() as service:
                download(served.port, [served.head(COPY)])
                download(served.port, [served.head(COPY, i) for i in range(10)])
                peaks.append(peak_memory(service))
    show(f"peak memory, a copy of 100 MB; {LARGE} times as large, MB",
         f"{peaks[0]:.0f}; {peaks[1]:.0f}", "< 1000")  # fmt: skip


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else float("nan")


PARTS = {"downloads": downloads, "metadata": metadata, "making": making, "memory": memory}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
