"""The console's pages: templates, errors in words, who may see them, and signing in.

A page is for owners alone and is never kept by a browser. Each role may do what `permits` states of
a route: by default every owner sees a page, and only the role of an owner sends a form. Forms are
taken from the console's own pages only: browsers send where a request comes from (Sec-Fetch-Site,
or Origin).
"""

import hashlib
import ipaddress
from collections.abc import Callable, Coroutine, Mapping
from importlib.resources import files
from typing import Annotated, Any, TypedDict, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from fastapi import APIRouter, Depends, Query
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from cornerwave.access import APPROVER, FIRST, OWNER, VIEWER, Approvals, Person, Sharing
from cornerwave.choices import DECLARED
from cornerwave.document import ShareRow
from cornerwave.documents import share_strip, style_sheet
from cornerwave.errors import (
    AccessDenied,
    CornerwaveError,
    NoSuchDataset,
    NoSuchRecipient,
    TooManyRequests,
    VaultError,
)
from cornerwave.ledger import Record
from cornerwave.server._proxy import SignInHeader
from cornerwave.server._replies import fault, service_of
from cornerwave.server._sign_in import LEAST_LETTERS, SESSION_HOURS, USED, SignIn
from cornerwave.version import __version__

PREFIX = "/console"
SECURE_COOKIE, LOCAL_COOKIE = "__Host-cornerwave", "cornerwave"
"""The session over https, and over http on this machine alone."""
MOST_FIELDS = 20_000
_PASSED_ON = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
"""Headers that proxies add to what they pass on."""

_STATIC = files(__package__) / "static"
STATIC: Mapping[str, tuple[bytes, str]] = {
    "pages.css": (style_sheet().encode(), "text/css"),
    "console.css": ((_STATIC / "console.css").read_bytes(), "text/css"),
    "htmx.min.js": ((_STATIC / "htmx.min.js").read_bytes(), "text/javascript"),
}
"""What pages load, and its type."""


class SignInNeeded(Exception):
    """A page was asked for without a session."""


# --- doors --------------------------------------------------------------------------------


def is_secure(request: Request) -> bool:
    """Return whether the browser speaks https, to the service or to a proxy before it."""
    public: str | None = request.app.state.public_url
    return request.url.scheme == "https" or bool(public and public.startswith("https:"))


def private_line(request: Request) -> None:
    """Raise HTTPException for plain http from elsewhere: passwords would travel in the open."""
    if not (is_secure(request) or _is_here(request)):
        raise HTTPException(403, "open the console over https, or on the machine that serves it")


def _is_here(request: Request) -> bool:
    """Return whether a browser on this machine asks: by the address at the other end.

    A proxy may be on this machine too, so what one passes on is from elsewhere. And a name other
    than this machine's own, though it leads here, is one that some site has chosen (DNS rebinding).
    """
    try:
        host = request.url.hostname
    except ValueError:
        return False
    passed_on = any(header in request.headers for header in _PASSED_ON)
    named = host in ("127.0.0.1", "::1", "localhost")
    return named and not passed_on and is_loopback(address_of(request))


def address_of(request: Request) -> str:
    """Return the address that a request came from, '' if it has none."""
    return request.client.host if request.client else ""


def is_loopback(address: str) -> bool:
    """Return whether an address is one of the machine itself.

    >>> [is_loopback(a) for a in ("127.0.0.1", "::1", "::ffff:127.0.0.1", "10.0.0.1", "localhost")]
    [True, True, True, False, False]
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return (getattr(parsed, "ipv4_mapped", None) or parsed).is_loopback


def from_proxy(request: Request) -> None:
    """Note who a proxy states to be signed in, if one does. Raises AccessDenied."""
    header: SignInHeader | None = request.app.state.sign_in_header
    request.state.stated_owner = None if header is None else header.owner(request)


def same_origin(request: Request) -> None:
    """Raise HTTPException for a form that another site has sent."""
    if request.method in ("GET", "HEAD"):
        return
    site = request.headers.get("sec-fetch-site")
    if site is None:
        public = _place(request.app.state.public_url or "")
        here = {request.headers.get("host", ""), public} - {""}
        fits = _place(request.headers.get("origin", "")) in here
    else:
        fits = site == "same-origin"
    if not fits:
        raise HTTPException(403, "this form was not sent from the console")


def _place(address: str) -> str:
    """Return host and port of an address, '' if it is not valid.

    >>> _place("https://data.example.org:8443"), _place("http://[")
    ('data.example.org:8443', '')
    """
    try:
        return urlsplit(address).netloc
    except ValueError:
        return ""


_DOORS = (private_line, from_proxy, same_origin)


def router(*dependencies: Callable[..., Any]) -> APIRouter:
    """Return a router for pages of the console, behind these doors."""
    return APIRouter(
        prefix=PREFIX,
        route_class=ConsoleRoute,
        dependencies=[Depends(each) for each in (*_DOORS, *dependencies)],
        include_in_schema=False,
    )


def cookie_of(request: Request) -> str:
    """Return the name of the session's cookie."""
    return SECURE_COOKIE if is_secure(request) else LOCAL_COOKIE


def sign_in_of(request: Request) -> SignIn:
    """Return how the owners of this service sign in."""
    signing_in: SignIn = request.app.state.sign_in
    return signing_in


Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


def permits(role: str) -> Callable[[Endpoint], Endpoint]:
    """Return what marks a route as one for a role, and for those that may do more."""

    def marked(endpoint: Endpoint) -> Endpoint:
        endpoint.least_role = role  # type: ignore[attr-defined]
        return endpoint

    return marked


def signed_in(request: Request) -> None:
    """Raise SignInNeeded without a session, AccessDenied for a role that may not do this."""
    signing_in = sign_in_of(request)
    person = signing_in.person(request.cookies.get(cookie_of(request), ""))
    if (name := request.state.stated_owner) is not None:  # which counts before a session
        person = signing_in.people().get(name)
        if person is None:
            raise AccessDenied("who is signed in at the proxy is not an owner of this vault")
    if person is None:
        raise SignInNeeded
    request.state.who, request.state.person = person.name, person
    reads = request.method in ("GET", "HEAD")
    default = VIEWER if reads else OWNER
    role = getattr(request.scope["endpoint"], "least_role", default)
    if not person.may(role):
        raise AccessDenied(f"this needs the role {role}; {person.name} has the role {person.role}")


def person_of(request: Request) -> Person | None:
    """Return who is signed in; None for nobody."""
    person: Person | None = getattr(request.state, "person", None)
    return person


def approvals_of(request: Request) -> Approvals:
    """Return what waits for a second person, for what the person decides who is signed in."""
    sharing = acting(request)
    return Approvals(sharing.vault, clock=sharing.clock)


def acting(request: Request) -> Sharing:
    """Return who may have what, for what the person does who is signed in."""
    sharing = service_of(request).sharing
    return Sharing(sharing.vault.under(request.state.who), clock=sharing.clock)


async def _fields(request: Request) -> dict[str, str]:
    """Return the fields of a form; of several with one name the last."""
    form = await request.form(max_fields=MOST_FIELDS, max_files=0)
    return {name: value for name, value in form.items() if isinstance(value, str)}


async def _ticked(request: Request) -> dict[str, list[str]]:
    """Return all values of each field of a form."""
    form = await request.form(max_fields=MOST_FIELDS, max_files=0)
    return {name: [str(value) for value in form.getlist(name)] for name in form}


Fields = Annotated[dict[str, str], Depends(_fields)]
Ticked = Annotated[dict[str, list[str]], Depends(_ticked)]


PageNumber = Annotated[int, Query(ge=1, le=10**9)]
"""Which page of a long list."""


class TermFields(TypedDict):
    """Why and until when, as a form states it."""

    purpose: str
    contract: str
    until: str | None


def terms_in(fields: Mapping[str, str]) -> TermFields:
    """Return the terms that a form states."""
    return {
        "purpose": fields.get("purpose", ""),
        "contract": fields.get("contract", ""),
        "until": fields.get("until") or None,
    }


# --- pages --------------------------------------------------------------------------------


def page(request: Request, template: str, *, status: int = 200, **shown: Any) -> Response:
    """Return a page."""
    person = person_of(request)
    text = _templates.get_template(template).render(
        here=request.url.path,
        me=person,
        by_proxy=getattr(request.state, "stated_owner", None) is not None,
        may_change=person is not None and person.may(OWNER),
        may_answer=person is not None and person.may(APPROVER),
        **shown,
    )
    return HTMLResponse(text, status, headers={"Cache-Control": "no-store"})


def go(path: str, **query: str) -> Response:
    """Return the answer to a form that was done: look here."""
    return RedirectResponse(PREFIX + path + (f"?{urlencode(query)}" if query else ""), 303)


class ConsoleRoute(APIRoute):
    """A route whose refusals are pages."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        handler = super().get_route_handler()

        async def answered(request: Request) -> Response:
            try:
                return await handler(request)
            except SignInNeeded:
                return _to_sign_in(request)
            except RequestValidationError:
                return problem_page(request, 400, "a field of the form is missing or not valid")
            except HTTPException as error:
                words = _WORDS.get(error.status_code, error.detail)
                return problem_page(request, error.status_code, words, error.headers)
            except TooManyRequests as error:
                wait = service_of(request).limits.wrong_password_seconds
                return problem_page(request, 429, str(error), {"Retry-After": str(int(wait))})
            except CornerwaveError as error:
                return problem_page(request, status_of(error), words_of(error))
            except Exception as error:
                fault(request, error)
                return problem_page(request, 503, "the service has a fault; its output shows where")

        return answered


_WORDS = {400: "this form cannot be read"}


def status_of(error: CornerwaveError) -> int:
    """Return the status of a refusal."""
    if isinstance(error, AccessDenied):
        return 403
    return 404 if isinstance(error, NoSuchDataset | NoSuchRecipient) else 400


def words_of(error: CornerwaveError) -> str:
    """Return a refusal in words, with the names of the fields of the pages that help."""
    fields = [name for choice in error.use if (name := _field_of(choice))]
    return f"{error} ({', '.join(fields)})" if fields else str(error)


def _field_of(name: str) -> str:
    """Return what the pages call a choice; '' if they have none.

    >>> [_field_of(name) for name in ("few_rows", "shuffle", "categorical", "force")]
    ['few rows: accept', 'order of the rows: shuffle', 'what: category', '']
    """
    if name not in DECLARED:
        return "unrelated datasets" if name == "unrelated" else ""
    choice = DECLARED[name]
    label = f"{choice.label[:1].lower()}{choice.label[1:]}"
    return (
        f"{label}: {choice.value}" if choice.value in choice.words and choice.key != name else label
    )


def problem_page(
    request: Request, status: int, words: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a page that explains what is wrong."""
    answer = page(request, "problem.html", status=status, words=words)
    answer.headers.update(headers or {})
    return answer


def _to_sign_in(request: Request) -> Response:
    sought = request.url.path if request.method == "GET" else PREFIX
    target = f"{PREFIX}/sign-in?{urlencode({'next': sought})}"
    if "hx-request" in request.headers:  # a part of a page: the whole page has to go there
        return Response(status_code=401, headers={"HX-Redirect": f"{PREFIX}/sign-in"})
    return RedirectResponse(target, 303)


def _static(name: str) -> str:
    """Return the address of something that pages load; it changes with the content."""
    return f"{PREFIX}/static/{name}?{hashlib.sha256(STATIC[name][0]).hexdigest()[:12]}"


def _when(time: str | None) -> str:
    """Write a time as people read it, in UTC."""
    return (time or "never")[:16].replace("T", " ")


def _rail(**row: Any) -> Markup:
    return Markup(share_strip(ShareRow(**row)))  # noqa: S704 (the kit escapes its texts)


def _size(number: int) -> str:
    """Write a number of bytes.

    >>> _size(812), _size(5_300_000)
    ('812 B', '5.3 MB')
    """
    for unit, one in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= one:
            return f"{number / one:.3g} {unit}"
    return f"{number} B"


_templates = Environment(
    loader=PackageLoader("cornerwave.server", "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.globals |= {"static": _static, "rail": _rail, "version": __version__}
_templates.filters |= {"when": _when, "size": _size, "quoted": lambda text: quote(text, safe="")}


# --- signing in and out, and what every page loads --------------------------------------------


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
    if (name := sign_in_of(request).link_of(link)) is None:
        raise AccessDenied(USED)
    return page(request, "welcome.html", name=name, link=link, least=LEAST_LETTERS, error="")


@outside.post("/welcome")
def set_password(request: Request, fields: Fields) -> Response:
    """Set the password and sign in."""
    link = fields.get("link", "")
    try:
        _check_twice(fields)
        password = sign_in_of(request).use_link(link, fields.get("password", ""))
    except VaultError as error:
        name = sign_in_of(request).link_of(link)
        shown = {"name": name, "link": link, "least": LEAST_LETTERS, "error": str(error)}
        return page(request, "welcome.html", status=400, **shown)
    return _let_in(request, PREFIX, password)


@outside.get("/sign-in")
def ask_password(request: Request, next: str = PREFIX) -> Response:
    """Ask for the name and the password."""
    return _sign_in_page(request, _within(next))


def _sign_in_page(request: Request, target: str, name: str = "", error: str = "") -> Response:
    shown = {"next": target, "name": name or FIRST, "error": error}
    known = sign_in_of(request).has_password
    return page(request, "sign_in.html", status=403 if error else 200, known=known, **shown)


@outside.post("/sign-in")
def sign_in(request: Request, fields: Fields) -> Response:
    """Begin a session for who knows the password."""
    signing_in, target = sign_in_of(request), _within(fields.get("next", ""))
    name = fields.get("username", "").strip() or FIRST
    try:
        with signing_in.counted(address_of(request)):
            password = signing_in.check(fields.get("password", ""), name=name)
    except AccessDenied as error:
        return _sign_in_page(request, target, name, str(error))
    return _let_in(request, target, password)


@inside.post("/sign-out")
@permits(VIEWER)
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
@permits(VIEWER)
def change_password(request: Request, fields: Fields) -> Response:
    """Change the password; every other session ends."""
    signing_in = sign_in_of(request)
    try:
        _check_twice(fields)
        with signing_in.counted(address_of(request)):
            password = signing_in.change(
                fields.get("old", ""), fields.get("password", ""), name=request.state.who
            )
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
    request.state.who = password.of  # for the access log
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
    within = target == PREFIX or target.startswith(f"{PREFIX}/")
    return target if within and plain else PREFIX
