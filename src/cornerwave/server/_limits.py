"""How much of the service one client may take: sizes of requests, and time to send and to read.

ClientLimits      every limit, in one place
settings    how uvicorn is run: everywhere the same
Guarded     closes connections whose client neither asks nor reads
Body        a request's body: not too much, and not too slowly
"""

import asyncio
import resource
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypedDict

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope

try:  # a fourth of the processor time
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as Protocol
except ImportError:
    from uvicorn.protocols.http.h11_impl import (  # type: ignore[assignment]
        H11Protocol as Protocol,
    )

_SPARE_FILES = 200
"""Open files that are left for the ledger, for sources and for copies that are made."""


@dataclass(frozen=True)
class ClientLimits:
    """What a client may do, and how often the service looks; times are in seconds."""

    address_bytes: int = 8 * 1024
    header_bytes: int = 16 * 1024
    body_bytes: int = 64 * 1024
    head_bytes: int = 64 * 1024
    """Bytes of a request's head that is not complete yet."""
    head_seconds: float = 15.0
    """Until a request's head must have arrived, from the first moment of a connection."""
    body_seconds: float = 30.0
    stall_seconds: float = 120.0
    """To read what is on its way, about 300 kB."""
    pipelined: int = 16
    """Requests on one connection before the first one is answered."""
    connections: int = 4000
    chunk_bytes: int = 256 * 1024
    """Bytes of a copy that are sent at a time."""
    check_seconds: float = 1.0
    """How often a permission is checked again while a copy is being sent."""
    health_seconds: float = 2.0
    """A ledger that has not answered by then is not healthy."""
    false_tokens: int = 20
    false_token_seconds: float = 60.0
    """After so many false tokens from one address in so many seconds it has to wait."""
    wrong_passwords: int = 8
    wrong_password_seconds: float = 300.0


class UvicornSettings(TypedDict):
    """How uvicorn is run."""

    http: Any
    ws: Literal["none"]
    access_log: bool
    log_level: str
    server_header: bool
    proxy_headers: bool
    timeout_keep_alive: int
    limit_concurrency: int


def settings(limits: ClientLimits | None = None) -> UvicornSettings:
    """Return how uvicorn is run; as many files may be open as the system allows."""
    limits = limits or ClientLimits()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, 3 * limits.connections + _SPARE_FILES)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return {
        "http": partial(Guarded, limits=limits),
        "ws": "none",
        "access_log": False,  # it would hold the signatures of addresses
        "log_level": "error",  # its warnings are about clients, and there can be many
        "server_header": False,
        "proxy_headers": False,  # the application reads them, after it has noted the connection
        "timeout_keep_alive": 30,
        # each connection may send a file of the cache, and lock it
        "limit_concurrency": (max(soft, wanted) - _SPARE_FILES) // 3,
    }


def refusal(scope: Scope, limits: ClientLimits) -> int:
    """Return the status for a request whose head is too large or announces too much, else 0."""
    address = len(scope.get("raw_path") or scope["path"]) + len(scope["query_string"])
    if address > limits.address_bytes:
        return 414
    if sum(len(name) + len(value) for name, value in scope["headers"]) > limits.header_bytes:
        return 431
    announced = dict(scope["headers"]).get(b"content-length", b"0")
    too_much = not announced.isdigit() or int(announced[:20]) > limits.body_bytes
    return 413 if too_much else 0


class Guarded(Protocol):
    """A connection that ends if its client does not ask, or does not read, in good time."""

    def __init__(self, *given: Any, limits: ClientLimits, **named: Any) -> None:
        super().__init__(*given, **named)
        self._limits = limits
        self._alarms: dict[str, asyncio.TimerHandle] = {}
        self._unread: int | None = None  # bytes of a head that is not complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """Wait until the head of a request is complete."""
        super().data_received(data)
        self._await_head()
        if self._unread is not None:
            self._unread += len(data)
            if self._unread > self._limits.head_bytes:
                self.transport.abort()

    def on_message_begin(self) -> None:
        """Count what comes of a head."""
        self._unread = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Begin with a request, unless too many wait already."""
        self._unread = None
        if len(self.pipeline) >= self._limits.pipelined:
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
        self._set("read", self._limits.stall_seconds)

    def resume_writing(self) -> None:
        """Stop waiting: the client has read."""
        super().resume_writing()
        self._clear("read")

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting for anything."""
        super().connection_lost(exc)
        self._clear("head")
        self._clear("read")

    def _await_head(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:  # a request is at work
            self._clear("head")
        else:
            self._set("head", self._limits.head_seconds)

    def _set(self, alarm: str, seconds: float) -> None:
        if alarm not in self._alarms:
            self._alarms[alarm] = self.loop.call_later(seconds, self.transport.abort)

    def _clear(self, alarm: str) -> None:
        if alarm in self._alarms:
            self._alarms.pop(alarm).cancel()


class Body:
    """Receives a request's body: not too much, and not too slowly."""

    def __init__(self, receive: Receive, limits: ClientLimits) -> None:
        self._receive, self._limits = receive, limits
        self._until = asyncio.get_running_loop().time() + limits.body_seconds
        self._bytes, self._ended = 0, False

    async def __call__(self) -> Message:
        if self._ended:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            raise HTTPException(408) from None
        self._bytes += len(message.get("body", b""))
        self._ended = not message.get("more_body", False)
        if self._bytes > self._limits.body_bytes:
            raise HTTPException(413)
        return message
