"""The console: recipients, their tokens and profile files, and the access log."""

import csv
import io
import re
from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from cornerwave.access import MOST_DAYS, Sharing, Token, profile_text
from cornerwave.errors import CornerwaveError, NoSuchRecipient, VaultError
from cornerwave.ledger import Access, Holding, now
from cornerwave.server._console import state_of
from cornerwave.server._page import Fields, go, page, router, signed_in, status_of, words_of
from cornerwave.server._replies import service_of

pages = router(signed_in)
DAYS = 90
SHOWN = 300
"""Lines of the access log on a page."""
SEARCHED = 20_000


@pages.get("/recipients")
def recipients(request: Request) -> Response:
    """List the recipients."""
    return _recipients(request)


def _recipients(request: Request, error: CornerwaveError | None = None) -> Response:
    sharing = service_of(request).sharing
    rows = []
    for name in sharing.recipients():
        live = [each for each in sharing.tokens(name) if each.is_live(now())]
        grants = [each for each in sharing.grants(recipient=name) if each.is_live(now())]
        used = max((sharing.last_used(each) or "" for each in sharing.tokens(name)), default="")
        rows.append((name, grants, live, used))
    status = status_of(error) if error else 200
    return page(
        request,
        "recipients.html",
        status=status,
        rows=rows,
        error=words_of(error) if error else "",
    )


@pages.post("/recipients")
def add(request: Request, fields: Fields) -> Response:
    """Add a recipient."""
    name = fields.get("name", "").strip()
    try:
        service_of(request).sharing.add(name, note=fields.get("note", "")[:500])
    except CornerwaveError as error:
        return _recipients(request, error)
    return go("/recipient", name=name)


@pages.get("/recipient")
def recipient(request: Request, name: str = "") -> Response:
    """Show a recipient: grants, copies and tokens."""
    return _recipient(request, name)


def _recipient(request: Request, name: str, error: CornerwaveError | None = None) -> Response:
    sharing = _known(request, name)
    vault = service_of(request).vault
    names = {each.id: each.name for each in vault.datasets()}
    held: list[tuple[str, str, Holding, float]] = [
        (each.name, each.id, line, each.privacy_of(line.spec.level))
        for each in vault.datasets()
        for line in each.holdings
        if line.recipient == name
    ]
    return page(
        request,
        "recipient.html",
        status=status_of(error) if error else 200,
        error=words_of(error) if error else "",
        name=name,
        grants=[
            (each, names.get(each.dataset, ""), state_of(each))
            for each in reversed(sharing.grants(recipient=name))
        ],
        held=held,
        tokens=[
            (each, _state(each), sharing.last_used(each)) for each in reversed(sharing.tokens(name))
        ],
        days=DAYS,
        most_days=MOST_DAYS,
    )


@pages.post("/recipient/remove")
def remove(request: Request, fields: Fields) -> Response:
    """Remove a recipient: grants and tokens end, what he holds stays in the ledger."""
    service_of(request).sharing.remove(fields.get("name", ""))
    return go("/recipients")


@pages.post("/recipient/token")
def new_token(request: Request, fields: Fields) -> Response:
    """Make a token, and show it this once."""
    name, text = fields.get("name", ""), fields.get("days", "")
    try:
        days = int(text) if text.isdecimal() and len(text) < 6 else 0
        token = service_of(request).sharing.new_token(name, days=days)
    except NoSuchRecipient:
        raise
    except VaultError as error:
        return _recipient(request, name, error)
    found = service_of(request).sharing.bearer(token)
    profile = _profile(request, token, found.expires)
    return page(
        request, "token.html", name=name, token=token, profile=profile, expires=found.expires
    )


@pages.post("/recipient/token/end")
def end_token(request: Request, fields: Fields) -> Response:
    """End a token."""
    name = fields.get("name", "")
    _known(request, name).end_token(name, fields.get("token", ""))
    return go("/recipient", name=name)


@pages.post("/recipient/profile")
def profile(request: Request, fields: Fields) -> Response:
    """Send the profile file of a token that the page has just shown."""
    text = fields.get("token", "")
    token = service_of(request).sharing.bearer(text)
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", token.recipient).strip("-") or "recipient"
    headers = {
        "Content-Disposition": f'attachment; filename="{name}.share"',
        "Cache-Control": "no-store",
    }
    content = _profile(request, text, token.expires)
    return Response(content, media_type="application/json", headers=headers)


def _profile(request: Request, token: str, expires: str) -> str:
    """Return a profile file as clients of Delta Sharing read it."""
    base = request.app.state.public_url or str(request.base_url)
    return profile_text(base, token, expires)


def _known(request: Request, name: str) -> Sharing:
    """Return who may have what, if there is a recipient of this name."""
    sharing = service_of(request).sharing
    if name not in sharing.recipients():
        raise NoSuchRecipient("there is no such recipient")
    return sharing


def _state(token: Token) -> str:
    if token.revoked:
        return "ended"
    return "live" if token.is_live(now()) else "expired"


# --- the access log -----------------------------------------------------------------------


@pages.get("/log")
def log(request: Request, who: str = "", console: str = "") -> Response:
    """Show the access log, the newest lines first."""
    service = service_of(request)
    service.log.flush()
    found = [
        line
        for line in service.sharing.accesses(SEARCHED)
        if (console or not _is_console(line)) and who.casefold() in line.who.casefold()
    ]
    return page(request, "log.html", lines=found[:SHOWN], who=who, console=bool(console))


@pages.get("/log.csv")
def log_csv(request: Request) -> Response:
    """Send the whole access log as CSV."""
    service = service_of(request)
    service.log.flush()
    name = f"cornerwave-access-{now():%Y-%m-%d}.csv"
    return StreamingResponse(
        _csv(service.sharing.accesses()),
        media_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _csv(lines: list[Access]) -> Iterator[str]:
    """Yield the lines of a CSV file; no cell is taken for a formula."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("at", "who", "what", "outcome", "bytes"))
    for line in lines:
        cells = (line.at, line.who, line.what, line.outcome)
        writer.writerow(
            [*("'" + c if c[:1] in ("=", "+", "-", "@") else c for c in cells), line.bytes]
        )
        yield text.getvalue()
        text.seek(0)
        text.truncate()
    yield text.getvalue()


def _is_console(line: Access) -> bool:
    return " /console" in line.what
