"""What every route shares: who is asking, files with ranges, and errors in words.

Recipients get a status, a code and a sentence that reveals nothing about the table, the server
or its folders; the owner finds the rest in the server's output.
"""

import asyncio
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.types import Message, Receive, Scope, Send

from cornerwave.access import Token
from cornerwave.errors import (
    AccessDenied,
    LevelError,
    NoSuchDataset,
    NoSuchRecipient,
    OutputError,
    SourceError,
    TooManyRequests,
    VaultError,
)
from cornerwave.server._limits import ClientLimits
from cornerwave.server._service import DELTA, Permitted, Service

MakeCopy = Callable[[], AbstractAsyncContextManager[Path]]
RETRY_SECONDS = 5
MOST_ADDRESSES = 10_000
"""Addresses whose false tokens are counted; beyond it, counting begins again."""

_STATUS: tuple[tuple[type[Exception], int, str, str], ...] = (
    (AccessDenied, 401, "UNAUTHENTICATED", ""),
    (NoSuchDataset, 404, "RESOURCE_DOES_NOT_EXIST", ""),
    (NoSuchRecipient, 404, "RESOURCE_DOES_NOT_EXIST", ""),
    (LevelError, 400, "INVALID_PARAMETER_VALUE", ""),
    (
        SourceError,
        409,
        "SOURCE_CHANGED",
        "the table is not the one that was registered; contact its owner",
    ),
    (OutputError, 503, "TEMPORARILY_UNAVAILABLE", "the copy cannot be made now; try again later"),
    (TooManyRequests, 429, "TOO_MANY_REQUESTS", ""),
    (VaultError, 503, "TEMPORARILY_UNAVAILABLE", "the service cannot answer now; try again later"),
)


def service_of(request: Request) -> Service:
    """Return the service that an application was made for."""
    service: Service = request.app.state.service
    return service


def base_url(request: Request) -> str:
    """Return the address of the service, as recipients reach it."""
    public: str | None = request.app.state.public_url
    return public or str(request.base_url).rstrip("/")


class Failures:
    """False tokens by address, in this process: who sends too many has to wait."""

    def __init__(self, limits: ClientLimits) -> None:
        self._most, self._seconds = limits.false_tokens, limits.false_token_seconds
        self._lock = threading.Lock()
        self._times: dict[str, deque[float]] = {}

    def add(self, address: str) -> None:
        """Count a failure. Raises HTTPException, and counts none, after too many."""
        with self._lock:
            if len(self._times) > MOST_ADDRESSES:
                self._times.clear()
            times, at = self._times.setdefault(address, deque()), time.monotonic()
            while times and times[0] < at - self._seconds:
                times.popleft()
            if len(times) >= self._most:
                raise HTTPException(429, headers={"Retry-After": str(int(self._seconds))})
            times.append(at)


def bearer(request: Request) -> Token:
    """Return the token that a request carries. Raises AccessDenied for a false one, or none."""
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    try:
        if scheme.lower() != "bearer":
            raise AccessDenied("send your token: Authorization: Bearer cw_...")
        token = service_of(request).sharing.bearer(text.strip())
    except AccessDenied:
        failures: Failures = request.app.state.failures
        failures.add(request.client.host if request.client else "")
        raise
    request.state.who = token.holder
    return token


def bearer_if_any(request: Request) -> Token | None:
    """Return the token that a request carries, None without one. Raises AccessDenied."""
    return bearer(request) if "authorization" in request.headers else None


async def send_copy(
    request: Request, what: Permitted, format_: str, copy: MakeCopy | None = None
) -> Response:
    """Answer with a copy: whole, in part, or with 304 if the client has it.

    `copy` makes its file, if it is in none of the formats that a release writes.
    """
    service, etag = service_of(request), what.etag(format_)
    make = copy or partial(service.copy, what, format_)
    if _has(request, etag):
        return Response(status_code=304, headers={"ETag": etag})
    stack = AsyncExitStack()
    try:
        path = await _while_wanted(request, stack.enter_async_context(make()))
        if request.method == "HEAD":
            await anyio.to_thread.run_sync(service.check_again, what)
        else:
            await service.record(what, format_)
            if not path.exists():  # the owner has deleted the cache meanwhile
                path = await stack.enter_async_context(make())
    except BaseException:
        await stack.aclose()
        raise
    return CopyResponse(service, what, format_, path, stack)


def _has(request: Request, etag: str) -> bool:
    """Return whether a client has the copy already, as it states in If-None-Match."""
    known = request.headers.get("if-none-match", "").split(",")
    return any(each.strip().removeprefix("W/") == etag for each in known)


class CopyResponse(FileResponse):
    """A copy on its way: kept while it is sent, and ended when its permission ends."""

    def __init__(
        self, service: Service, what: Permitted, format_: str, path: Path, used: AsyncExitStack
    ) -> None:
        """`used` is closed when the file has been sent."""
        ending = "parquet" if format_ == DELTA else format_
        super().__init__(
            path,
            headers={
                "ETag": what.etag(format_),
                "Cache-Control": "private, no-cache",
                "Accept-Ranges": "bytes",
            },
            filename=f"{what.dataset.name.replace('/', '_')}.{ending}",
            media_type="application/octet-stream",
        )
        self.chunk_size = service.limits.chunk_bytes
        self._service, self._what, self._used = service, what, used

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file; a permission that ends meanwhile cuts the answer off."""
        checked = time.monotonic()

        async def permitted(message: Message) -> None:
            nonlocal checked
            if time.monotonic() > checked + self._service.limits.check_seconds:
                await anyio.to_thread.run_sync(self._service.check_again, self._what)
                checked = time.monotonic()
            await send(message)

        try:
            await super().__call__(scope, receive, permitted)
        finally:
            with anyio.CancelScope(shield=True):
                await self._used.aclose()


async def _while_wanted(request: Request, work: Any) -> Path:
    """Return the result of some work, or give it up when the client has gone."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise gone.exception() or HTTPException(499)
        path: Path = task.result()
        return path
    finally:  # what is done is not cancelled by this
        task.cancel()
        gone.cancel()


async def _gone(request: Request) -> None:
    """Return when the client has closed its connection; a body, which nobody reads, is skipped."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def refused(_request: Request, error: Exception) -> Response:
    """Return the answer to a request that is refused."""
    for kind, status, code, words in _STATUS:
        if isinstance(error, kind):
            if words:  # the owner has to know more than the recipient may
                print(f"cornerwave: {error}", file=sys.stderr)
            headers = {"Retry-After": str(RETRY_SECONDS)} if status == 503 else {}
            if status == 401:
                headers["WWW-Authenticate"] = "Bearer"
            return problem(status, code, words or str(error), headers)
    return fault(_request, error)


def fault(_request: Request, error: Exception) -> Response:
    """Return the answer to what should not happen: its place goes to stderr, but no value."""
    print(f"cornerwave: internal fault ({type(error).__name__})", file=sys.stderr)
    for frame in traceback.extract_tb(error.__traceback__):
        print(f"  {Path(frame.filename).name}:{frame.lineno} {frame.name}", file=sys.stderr)
    return problem(503, "INTERNAL", "the service has a fault, which was reported to its owner")


def http_problem(_request: Request, error: Exception) -> Response:
    """Return the answer to a request that HTTP itself refuses."""
    assert isinstance(error, HTTPException)
    words = {
        404: "there is nothing here",
        405: "this cannot be done here",
        408: "the request did not arrive in time",
        413: "the request is too large",
        414: "the address is too long",
        431: "the headers are too large",
        429: "too many false tokens; wait a minute",
    }
    headers = dict(error.headers or {})
    return problem(error.status_code, "REQUEST_REFUSED", words.get(error.status_code, ""), headers)


def invalid(_request: Request, _error: Exception) -> Response:
    """Return the answer to parameters that are not what they should be."""
    return problem(400, "INVALID_PARAMETER_VALUE", "a parameter is missing or not valid")


def problem(
    status: int, code: str, message: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """Return an error as JSON, in the words of the Delta Sharing protocol."""
    content = {"errorCode": code, "message": message}
    return JSONResponse(content, status_code=status, headers=dict(headers or {}))
