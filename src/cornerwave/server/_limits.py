"""How much of the service one client may take: sizes of requests, and time to send and to read.

settings    how uvicorn is run: everywhere the same
refusal     why a request is refused before anything of it is read
Guarded     closes connections whose client neither asks nor reads
"""

import asyncio
import resource
from typing import Any

from starlette.types import Scope

try:  # a fourth of the processor time
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as Protocol
except ImportError:
    from uvicorn.protocols.http.h11_impl import (  # type: ignore[assignment]
        H11Protocol as Protocol,
    )

MOST_BODY = 64 * 1024
"""Bytes of a request's body."""
MOST_ADDRESS, MOST_HEADERS = 8 * 1024, 16 * 1024
MOST_UNREAD = 64 * 1024
"""Bytes of a head that is not whole yet."""
MOST_WAITING = 16
"""Requests that a client may send on a connection before the first one is answered."""
BODY_SECONDS = 30.0
"""Seconds until a request's body must be here."""
HEAD_SECONDS = 15.0
"""Seconds until a request's head must be here, from the first moment of a connection."""
STALL_SECONDS = 120.0
"""Seconds that a client may take to read what is on its way, about 300 kB."""
MOST_CONNECTIONS = 4000
_SPARE = 200
"""Open files that are for the ledger, sources and copies that are made."""


def settings() -> dict[str, Any]:
    """Return how uvicorn is run; as many files may be open as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, 2 * MOST_CONNECTIONS + _SPARE)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return {
        "http": Guarded,
        "ws": "none",
        "access_log": False,  # it would hold the signatures of addresses
        "log_level": "error",  # its warnings are about clients, and there can be many
        "server_header": False,
        "timeout_keep_alive": 30,
        "limit_concurrency": (max(soft, wanted) - _SPARE) // 2,  # a connection and its file
    }


def refusal(scope: Scope) -> int:
    """Return the status for a request whose head is too large or announces too much, else 0."""
    address = len(scope.get("raw_path") or scope["path"]) + len(scope["query_string"])
    if address > MOST_ADDRESS:
        return 414
    if sum(len(name) + len(value) for name, value in scope["headers"]) > MOST_HEADERS:
        return 431
    announced = dict(scope["headers"]).get(b"content-length", b"0")
    return 413 if not announced.isdigit() or int(announced[:20]) > MOST_BODY else 0


class Guarded(Protocol):
    """A connection that ends if its client does not ask, or does not read, in good time."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        self._alarms: dict[str, asyncio.TimerHandle] = {}
        self._unread: int | None = None  # bytes of a head that is not whole
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """Wait until the head of a request is whole."""
        super().data_received(data)
        self._await_head()
        if self._unread is not None:
            self._unread += len(data)
            if self._unread > MOST_UNREAD:
                self.transport.abort()

    def on_message_begin(self) -> None:
        """Count what comes of a head."""
        self._unread = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Begin with a request, unless too many wait already."""
        self._unread = None
        if len(self.pipeline) >= MOST_WAITING:
            self.transport.abort()
        else:
            super().on_headers_complete()

    def on_response_complete(self) -> None:
        """Leave the time until the next request to uvicorn."""
        self._clear("head")
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Wait until the client reads."""
        super().pause_writing()
        self._set("read", STALL_SECONDS)

    def resume_writing(self) -> None:
        """Stop to wait: the client has read."""
        super().resume_writing()
        self._clear("read")

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop to wait for anything."""
        super().connection_lost(exc)
        self._clear("head")
        self._clear("read")

    def _await_head(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:  # a request is at work
            self._clear("head")
        else:
            self._set("head", HEAD_SECONDS)

    def _set(self, alarm: str, seconds: float) -> None:
        if alarm not in self._alarms:
            self._alarms[alarm] = self.loop.call_later(seconds, self.transport.abort)

    def _clear(self, alarm: str) -> None:
        if alarm in self._alarms:
            self._alarms.pop(alarm).cancel()
