"""The console's doors: setting the password, signing in and out, and what every page loads."""

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from cornerwave.errors import AccessDenied, TooManyRequests, VaultError
from cornerwave.ledger import Record
from cornerwave.server._page import (
    PREFIX,
    STATIC,
    Fields,
    address_of,
    cookie_of,
    go,
    is_secure,
    page,
    router,
    sign_in_of,
    signed_in,
)
from cornerwave.server._sign_in import LEAST_LETTERS, SESSION_HOURS, USED

outside, inside = router(), router(signed_in)
open_to_all = APIRouter(include_in_schema=False)
YEAR = 365 * 86400


@open_to_all.get("/")
def first_page() -> Response:
    """Lead a browser to the console."""
    return RedirectResponse(PREFIX, 303)


@open_to_all.get(f"{PREFIX}/static/{{name}}")
def static(request: Request, name: str) -> Response:
    """Send a style sheet or a script; its address changes when it does."""
    if name not in STATIC:
        raise HTTPException(404, "there is nothing here")
    request.state.quiet = True
    content, kind = STATIC[name]
    return Response(
        content, media_type=kind, headers={"Cache-Control": f"max-age={YEAR}, immutable"}
    )


@outside.get("/welcome")
def welcome(request: Request, link: str = "") -> Response:
    """Ask for a password, by the link that the service printed."""
    if not sign_in_of(request).is_link(link):
        raise AccessDenied(USED)
    return page(request, "welcome.html", link=link, least=LEAST_LETTERS, error="")


@outside.post("/welcome")
def set_password(request: Request, fields: Fields) -> Response:
    """Set the password and sign in."""
    link = fields.get("link", "")
    try:
        _check_twice(fields)
        password = sign_in_of(request).use_link(link, fields.get("password", ""))
    except VaultError as error:
        shown = {"link": link, "least": LEAST_LETTERS, "error": str(error)}
        return page(request, "welcome.html", status=400, **shown)
    return _let_in(request, PREFIX, password)


@outside.get("/sign-in")
def ask_password(request: Request, next: str = PREFIX) -> Response:
    """Ask for the password."""
    known = sign_in_of(request).has_password
    return page(request, "sign_in.html", next=_within(next), known=known, error="")


@outside.post("/sign-in")
def sign_in(request: Request, fields: Fields) -> Response:
    """Begin a session for who knows the password."""
    signing_in, target = sign_in_of(request), _within(fields.get("next", ""))
    try:
        with signing_in.counted(address_of(request)):
            password = signing_in.check(fields.get("password", ""))
    except AccessDenied as error:
        shown = {"next": target, "known": True, "error": str(error)}
        return page(request, "sign_in.html", status=403, **shown)
    return _let_in(request, target, password)


@inside.post("/sign-out")
def sign_out(request: Request) -> Response:
    """End the session."""
    name = cookie_of(request)
    sign_in_of(request).end(request.cookies.get(name, ""))
    answer = go("/sign-in")
    answer.delete_cookie(name, path="/", secure=is_secure(request), httponly=True)
    return answer


@inside.get("/password")
def ask_new_password(request: Request) -> Response:
    """Ask for the old and a new password."""
    return page(request, "password.html", least=LEAST_LETTERS, error="")


@inside.post("/password")
def change_password(request: Request, fields: Fields) -> Response:
    """Change the password; every other session ends."""
    signing_in = sign_in_of(request)
    try:
        _check_twice(fields)
        with signing_in.counted(address_of(request)):
            password = signing_in.change(fields.get("old", ""), fields.get("password", ""))
    except TooManyRequests:
        raise
    except (AccessDenied, VaultError) as error:
        shown = {"least": LEAST_LETTERS, "error": str(error)}
        return page(request, "password.html", status=400, **shown)
    return _let_in(request, PREFIX, password)


def _check_twice(fields: Fields) -> None:
    if fields.get("password") != fields.get("again"):
        raise VaultError("the two passwords differ")


def _let_in(request: Request, target: str, password: Record) -> Response:
    answer = RedirectResponse(target, 303)
    answer.set_cookie(
        cookie_of(request),
        sign_in_of(request).begin(password),
        max_age=SESSION_HOURS * 3600,
        path="/",
        secure=is_secure(request),
        httponly=True,
        samesite="strict",
    )
    return answer


def _within(target: str) -> str:
    """Return a path of the console, whatever was asked for.

    >>> _within("/console/log"), _within("//elsewhere"), _within("/console/../v1")
    ('/console/log', '/console', '/console')
    """
    plain = target.isprintable() and not any(part in target for part in ("..", "\\", "//"))
    own = target == PREFIX or target.startswith(f"{PREFIX}/")
    return target if own and plain else PREFIX
