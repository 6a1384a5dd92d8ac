"""The application: routes, errors, limits and the access log around them."""

import asyncio
import resource
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cornerwave.errors import AccessDenied, CornerwaveError
from cornerwave.server import (
    _administration,
    _console,
    _delta_sharing,
    _doors,
    _downloads,
    _explorer,
    _people,
    _registering,
)
from cornerwave.server import _app as _reference
from cornerwave.server._page import page
from cornerwave.server._replies import Failures, fault, http_problem, invalid, refused
from cornerwave.server._service import Service
from cornerwave.server._sign_in import SignIn
from cornerwave.vault import Vault
from cornerwave.version import __version__

# --------------------------------------------------------------------------------------------------
# What can be asked of the service, as a page: the OpenAPI document in words, without a script.


router = APIRouter(include_in_schema=False)


@dataclass(frozen=True)
class Operation:
    """One request: what it is for, its parameters, each with where it goes and what it may be."""

    group: str
    method: str
    path: str
    what: str
    parameters: tuple[tuple[str, str, str], ...]


@router.get("/docs")
def docs(request: Request) -> Response:
    """Show all requests."""
    document = request.app.openapi()
    groups: dict[str, list[Operation]] = {}
    for each in _operations(document):
        groups.setdefault(each.group, []).append(each)
    base = request.app.state.public_url or str(request.base_url).rstrip("/")
    return page(request, "docs.html", groups=groups, base=base, about=document["info"])


def _operations(document: dict[str, Any]) -> Iterator[Operation]:
    for path, methods in document["paths"].items():
        for method, said in methods.items():
            own = [(p["name"], p["in"], _type(p["schema"])) for p in said.get("parameters", ())]
            yield Operation(
                group=said["tags"][0],
                method=method.upper(),
                path=path,
                what=said["description"].replace("`", ""),
                parameters=(*own, *_body(document, said)),
            )


def _body(document: dict[str, Any], said: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the fields of a request's body."""
    for content in said.get("requestBody", {}).get("content", {}).values():
        name = content["schema"]["$ref"].rsplit("/", 1)[-1]
        for field, schema in document["components"]["schemas"][name]["properties"].items():
            yield field, "body", _type(schema)


def _type(schema: dict[str, Any]) -> str:
    """Say what a value may be.

    >>> _type({"enum": ["csv", "parquet"]})
    'csv, parquet'
    >>> _type({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1})
    'number, more than 0, less than 1'
    """
    if "anyOf" in schema:
        return _type(next(each for each in schema["anyOf"] if each.get("type") != "null"))
    if "enum" in schema:
        return ", ".join(schema["enum"])
    bounds = {
        "minimum": "at least {}",
        "exclusiveMinimum": "more than {}",
        "exclusiveMaximum": "less than {}",
        "maxLength": "at most {} characters",
    }
    words = [text.format(f"{schema[n]:g}") for n, text in bounds.items() if n in schema]
    return ", ".join([schema["type"], *words])


# --------------------------------------------------------------------------------------------------
# How much of the service one client may take: sizes of requests, and time to send and to read.
#
# settings    how uvicorn is run: everywhere the same
# refusal     why a request is refused before anything of it is read
# Guarded     closes connections whose client neither asks nor reads


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


SECURITY_HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; "
        b"img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; "
        b"base-uri 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
]


def application(
    vault: Vault,
    *,
    cache_bytes: int,
    public_url: str | None = None,
    allowed: Iterable[Path] = (),
) -> FastAPI:
    """Return the service of a vault as an ASGI application.

    `allowed` are the folders that tables may be registered from in the console.
    """
    service = Service(vault, cache_bytes=cache_bytes)

    @asynccontextmanager
    async def life(_app: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    app = FastAPI(
        title="Cornerwave",
        version=__version__,
        summary="Copies of tables, at the level that each recipient is trusted with.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # it would lead to whatever host a client names
        lifespan=life,
    )
    app.state.service, app.state.failures = service, Failures()
    app.state.public_url = public_url.rstrip("/") if public_url else None
    app.state.sign_in = SignIn(vault)
    app.state.allowed = tuple(Path(folder).resolve() for folder in allowed)
    for room in (_downloads, _delta_sharing, _administration):  # first what is asked for most
        app.include_router(room.router)
    for room in (_console, _people, _registering, _explorer):
        app.include_router(room.pages)
    app.include_router(_doors.outside)
    app.include_router(_doors.inside)
    app.add_exception_handler(CornerwaveError, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http_problem)

    app.include_router(_doors.open_to_all)
    app.include_router(_reference.router)

    @app.get("/healthz", include_in_schema=False)
    async def health() -> dict[str, str]:
        await service.check_ledger()
        return {"status": "ok"}

    app.add_middleware(_Around, service=service)
    return app


class _Around:
    """Limits bodies, adds headers that browsers heed, and notes each answer in the access log."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._log = app, service.log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        sent, taken = {"status": 0, "bytes": 0}, _Taken(receive)

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent["status"] = message["status"]
                message["headers"] = [*message.get("headers", []), *SECURITY_HEADERS]
            elif message["type"] == "http.response.body":
                sent["bytes"] += len(message.get("body", b""))
            await send(message)

        try:
            if status := refusal(scope):
                answer = http_problem(Request(scope), HTTPException(status))
                await answer(scope, receive, noted)
            else:
                await self._app(scope, taken, noted)
        except Exception as error:  # not further: whoever logs it would show its words
            if not sent["status"]:
                await fault(Request(scope), error)(scope, receive, noted)
            else:  # a permission ended, or a file cannot be read: the answer stays incomplete
                sent["status"] = 0
                if not isinstance(error.__cause__ or error, AccessDenied | HTTPException):
                    fault(Request(scope), error)
        finally:
            if not state.get("quiet"):  # style sheets, and parts of a page that follow a slider
                who = state.get("who", "anybody")
                what = f"{scope['method']} {scope['path']}"[:500]
                self._log.add(who, what, str(sent["status"] or "cut off"), sent["bytes"])


class _Taken:
    """What a client sends: not too much, and not too slowly."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._until = asyncio.get_running_loop().time() + BODY_SECONDS
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
        if self._bytes > MOST_BODY:
            raise HTTPException(413)
        return message
