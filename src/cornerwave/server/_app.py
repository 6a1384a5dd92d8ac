"""The application: routes, errors, limits and the access log around them."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cornerwave.errors import AccessDenied, CornerwaveError
from cornerwave.owner import Vault
from cornerwave.server import (
    _administration,
    _console,
    _delta_sharing,
    _doors,
    _downloads,
    _explorer,
    _people,
    _reference,
    _registering,
)
from cornerwave.server._limits import BODY_SECONDS, MOST_BODY, refusal
from cornerwave.server._replies import Failures, fault, http_problem, invalid, refused
from cornerwave.server._service import Service
from cornerwave.server._sign_in import SignIn
from cornerwave.version import __version__

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
