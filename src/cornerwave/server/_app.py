"""The application: routes, errors, limits and the access log around them."""

import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from cornerwave.errors import AccessDenied, CornerwaveError
from cornerwave.ledger import now
from cornerwave.server import (
    _console,
    _delta_sharing,
    _downloads,
    _explorer,
    _page,
    _people,
    _registering,
)
from cornerwave.server._limits import Body, ClientLimits, refusal
from cornerwave.server._proxy import Peer, SignInHeader
from cornerwave.server._replies import Failures, base_url, fault, http_problem, invalid, refused
from cornerwave.server._service import Service
from cornerwave.server._sign_in import SignIn
from cornerwave.vault import Vault
from cornerwave.version import __version__

# --------------------------------------------------------------------------------------------------
# What can be asked of the service, as a page: the OpenAPI document in words, without a script.


router = APIRouter(include_in_schema=False)

OpenApi = dict[str, Any]
"""An OpenAPI document, or an object in it."""


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
    about = document["info"]
    return _page.page(request, "docs.html", groups=groups, base=base_url(request), about=about)


def _operations(document: OpenApi) -> Iterator[Operation]:
    for path, methods in document["paths"].items():
        for method, about in methods.items():
            named = [(p["name"], p["in"], _type(p["schema"])) for p in about.get("parameters", ())]
            yield Operation(
                group=about["tags"][0],
                method=method.upper(),
                path=path,
                what=about["description"].replace("`", ""),
                parameters=(*named, *_body(document, about)),
            )


def _body(document: OpenApi, about: OpenApi) -> Iterator[tuple[str, str, str]]:
    """Yield the fields of a request's body."""
    for content in about.get("requestBody", {}).get("content", {}).values():
        name = content["schema"]["$ref"].rsplit("/", 1)[-1]
        for field, schema in document["components"]["schemas"][name]["properties"].items():
            yield field, "body", _type(schema)


def _type(schema: OpenApi) -> str:
    """Return what a value may be, in words.

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
# The application, and what is done for every request.


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
    limits: ClientLimits | None = None,
    sign_in_header: SignInHeader | None = None,
    clock: Callable[[], datetime] = now,
) -> FastAPI:
    """Return the service of a vault as an ASGI application.

    `allowed` are the folders that tables may be registered from in the console, `sign_in_header`
    is by what proxies state who is signed in there, `clock` gives the time by which grants, tokens,
    addresses and sessions end.
    """
    limits, vault = limits or ClientLimits(), vault.under("")  # recipients fetch, no owner releases
    service = Service(vault, cache_bytes=cache_bytes, limits=limits, clock=clock)

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
    app.state.service, app.state.failures = service, Failures(limits)
    app.state.public_url = public_url.rstrip("/") if public_url else None
    app.state.sign_in = SignIn(vault, limits=limits, clock=clock)
    app.state.sign_in_header = sign_in_header
    app.state.allowed = tuple(Path(folder).resolve() for folder in allowed)
    for part in (_downloads.router, _delta_sharing.router):  # first what is asked for most
        app.include_router(part)
    for room in (_console, _people, _registering, _explorer):
        app.include_router(room.pages)
    for part in (_page.outside, _page.inside, _page.open_to_all, router):
        app.include_router(part)
    app.add_exception_handler(CornerwaveError, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http_problem)

    @app.get("/healthz", include_in_schema=False)
    async def health() -> dict[str, str]:
        await service.check_ledger()
        return {"status": "ok"}

    # from the inside out: who is at the other end is noted before a header may state another client
    app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=_trusted())
    app.add_middleware(Peer)
    app.add_middleware(_Around, service=service)
    return app


def _trusted() -> str:
    """Return the proxies whose X-Forwarded-For is read, as uvicorn's setting names them."""
    return os.environ.get("FORWARDED_ALLOW_IPS", "127.0.0.1")


class _Around:
    """Limits bodies, adds headers that browsers heed, and notes each answer in the access log."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._log, self._limits = app, service.log, service.limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        sent, body = {"status": 0, "bytes": 0}, Body(receive, self._limits)

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent["status"] = message["status"]
                message["headers"] = [*message.get("headers", []), *SECURITY_HEADERS]
            elif message["type"] == "http.response.body":
                sent["bytes"] += len(message.get("body", b""))
            await send(message)

        try:
            if status := refusal(scope, self._limits):
                answer = http_problem(Request(scope), HTTPException(status))
                await answer(scope, receive, noted)
            else:
                await self._app(scope, body, noted)
        except Exception as error:  # not further: a log of it would show its message
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
