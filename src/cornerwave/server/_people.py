"""The console: recipients, their tokens and profile files, and the access log."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from cornerwave.access import LIVE, MOST_DAYS, Sharing, profile_text
from cornerwave.errors import CornerwaveError, NoSuchRecipient, VaultError
from cornerwave.ledger import MOST_ON_PAGE, MOST_WORDS, Access, Terms, now
from cornerwave.server._page import (
    Fields,
    PageNumber,
    acting,
    go,
    page,
    router,
    signed_in,
    status_of,
    terms_in,
    words_of,
)
from cornerwave.server._replies import base_url, service_of

pages = router(signed_in)
DAYS = 90
"""How long a token lasts if nothing else is chosen."""
SHOWN, SEARCHED = 300, 20_000
"""Lines of the access log on a page, and lines that are searched for them."""


@pages.get("/recipients")
def recipients(request: Request, who: str = "", at: PageNumber = 1) -> Response:
    """List the recipients, a page at a time; `who` is a part of their names."""
    return _recipients(request, who=who, number=at)


def _recipients(
    request: Request, *, who: str = "", number: int = 1, error: CornerwaveError | None = None
) -> Response:
    sharing, datasets = service_of(request).sharing, service_of(request).vault.datasets()
    found, at = sharing.recipient_page(number, part=who), sharing.clock()
    names = [each.name for each in found.items]
    tokens = sharing.tokens(names)
    last = sharing.last_used(tokens)
    used = {each.recipient: "" for each in tokens}
    for each in tokens:
        used[each.recipient] = max(used[each.recipient], last.get(each.id, ""))
    live = Counter(each.recipient for each in tokens if each.state(at) == LIVE)
    grants = sharing.grants(recipient=names)
    granted = Counter(each.recipient for each in grants if each.state(at) == LIVE)
    held = Counter(line.recipient for each in datasets for line in each.held_by(names))
    elsewhere = Counter(
        line.recipient
        for each in datasets
        for line in each.held_without("recipient", most=MOST_ON_PAGE)
    )
    return page(
        request,
        "recipients.html",
        status=status_of(error) if error else 200,
        rows=[(name, granted[name], live[name], used.get(name, ""), held[name]) for name in names],
        found=found,
        who=who,
        holders=sorted(elsewhere.items())[:MOST_ON_PAGE],
        error=words_of(error) if error else "",
    )


@pages.post("/recipients")
def add(request: Request, fields: Fields) -> Response:
    """Add a recipient."""
    name = fields.get("name", "").strip()
    try:
        note = fields.get("note", "")[:MOST_WORDS]
        acting(request).add(name, note=note, **terms_in(fields))
    except CornerwaveError as error:
        return _recipients(request, error=error)
    return go("/recipient", name=name)


@pages.get("/recipient")
def recipient(request: Request, name: str = "") -> Response:
    """Show a recipient: grants, copies and tokens; of who holds copies made elsewhere, these."""
    return _recipient(request, name)


def _recipient(request: Request, name: str, error: CornerwaveError | None = None) -> Response:
    sharing = service_of(request).sharing
    datasets, at = sharing.vault.datasets(), sharing.clock()
    held = [(each, line) for each in datasets for line in each.held_by([name])]
    if not held:
        _known(request, name)
    is_known = name in sharing.recipients()
    by_id = {each.id: each for each in datasets}
    tokens = sharing.tokens(name)
    used = sharing.last_used(tokens)
    return page(
        request,
        "recipient.html",
        status=status_of(error) if error else 200,
        error=words_of(error) if error else "",
        name=name,
        terms=sharing.recipient(name).terms if is_known else None,
        grants=[
            (each, by_id.get(each.dataset), each.state(at))
            for each in reversed(sharing.grants(recipient=name))
        ],
        held=held,
        is_known=is_known,
        tokens=[(each, each.state(at), used.get(each.id)) for each in reversed(tokens)],
        days=DAYS,
        most_days=MOST_DAYS,
    )


@pages.post("/recipient/terms")
def change(request: Request, fields: Fields) -> Response:
    """Change why and until when a recipient may have anything."""
    name = fields.get("name", "")
    _known(request, name)
    try:
        acting(request).change(name, Terms.of(**terms_in(fields)))
    except CornerwaveError as error:
        return _recipient(request, name, error)
    return go("/recipient", name=name)


@pages.post("/recipient/remove")
def remove(request: Request, fields: Fields) -> Response:
    """Remove a recipient: grants and tokens end, the ledger keeps what they hold."""
    acting(request).remove(fields.get("name", ""))
    return go("/recipients")


@pages.post("/recipient/token")
def new_token(request: Request, fields: Fields) -> Response:
    """Make a token, and show it this once."""
    name, text = fields.get("name", ""), fields.get("days", "")
    try:
        days = int(text) if text.isdecimal() and len(text) < 6 else 0
        token = acting(request).new_token(name, days=days)
    except NoSuchRecipient:
        raise
    except VaultError as error:
        return _recipient(request, name, error)
    expires = service_of(request).sharing.bearer(token).expires
    profile = profile_text(base_url(request), token, expires)
    return page(request, "token.html", name=name, token=token, profile=profile, expires=expires)


@pages.post("/recipient/token/end")
def end_token(request: Request, fields: Fields) -> Response:
    """End a token."""
    name = fields.get("name", "")
    _known(request, name)
    acting(request).end_token(name, fields.get("token", ""))
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
    content = profile_text(base_url(request), text, token.expires)
    return Response(content, media_type="application/json", headers=headers)


def _known(request: Request, name: str) -> Sharing:
    """Return who may have what, if there is a recipient of this name."""
    sharing = service_of(request).sharing
    if not sharing.is_recipient(name):
        raise NoSuchRecipient("there is no such recipient")
    return sharing


# --- the access log -----------------------------------------------------------------------


@pages.get("/log")
def log(request: Request, who: str = "", console: str = "") -> Response:
    """Show the access log, the newest lines first."""
    service = service_of(request)
    service.log.flush()
    lines = [
        line
        for line in service.sharing.accesses(SEARCHED)
        if (console or " /console" not in line.what) and who.casefold() in line.who.casefold()
    ]
    called = {each.id: each.name for each in service.vault.datasets()}
    shown = [replace(line, what=_named(line.what, called)) for line in lines[:SHOWN]]
    return page(request, "log.html", lines=shown, who=who, console=bool(console))


def _named(what: str, called: Mapping[str, str]) -> str:
    """Return what somebody did with the name of the dataset instead of its id."""
    return _ID.sub(lambda found: f"/{called.get(found[1], found[1])}", what)


_ID = re.compile(r"(?<=/datasets)/([0-9a-f]{32})\b")


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
