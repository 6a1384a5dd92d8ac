"""The owner's work over REST: recipients, tokens, grants, requests and the access log.

All of it needs a token of the owner (`Sharing.new_token(OWNER, ...)`), which opens nothing else.
Names are parameters, not parts of a path: they may have slashes.
"""

from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Query
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from cornerwave.access import (
    MOST_DAYS,
    MOST_WORDS,
    OPEN,
    OWNER,
    Grant,
    Sharing,
    Token,
    profile_text,
)
from cornerwave.access import Request as Asked
from cornerwave.errors import (
    AccessDenied,
    CornerwaveError,
    LedgerDamaged,
    LevelError,
    NoSuchDataset,
)
from cornerwave.server._page import status_of, words_of
from cornerwave.server._replies import any_bearer, problem, service_of

Name = Annotated[str, Query(max_length=255)]
Given = Annotated[str, Body(max_length=255)]
MOST_LINES = 10_000


def owner(request: Request) -> None:
    """Raise AccessDenied unless the request carries a token of the owner."""
    if any_bearer(request).recipient != OWNER:
        raise AccessDenied("this needs a token of the owner")
    request.state.who = "owner"


class OwnerRoute(APIRoute):
    """A route whose refusals say why: they are for the owner."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        handler = super().get_route_handler()

        async def answered(request: Request) -> Response:
            try:
                return await handler(request)
            except (AccessDenied, LedgerDamaged):
                raise
            except CornerwaveError as error:
                status = status_of(error)
                code = "RESOURCE_DOES_NOT_EXIST" if status == 404 else "INVALID_PARAMETER_VALUE"
                return problem(status, code, words_of(error))

        return answered


router = APIRouter(
    prefix="/v1/owner",
    tags=["for the owner"],
    route_class=OwnerRoute,
    dependencies=[Depends(owner)],
)


@router.get("/datasets")
def datasets(request: Request) -> list[dict[str, Any]]:
    """List the datasets, with their holders."""
    return [
        {
            "name": each.name,
            "id": each.id,
            "rows": each.frozen.rows,
            "closed": each.closed or None,
            "highest_privacy": each.frozen.hidden.highest,
            "holders": sorted({held.recipient for held in each.holdings}),
        }
        for each in service_of(request).vault.datasets()
    ]


@router.get("/recipients")
def recipients(request: Request) -> list[str]:
    """List the recipients."""
    return _sharing(request).recipients()


@router.post("/recipients", status_code=201)
def add(
    request: Request, name: Given, note: Annotated[str, Body(max_length=MOST_WORDS)] = ""
) -> dict[str, Any]:
    """Add a recipient."""
    _sharing(request).add(name, note=note)
    return {"name": name}


@router.delete("/recipients", status_code=204)
def remove(request: Request, name: Name) -> None:
    """Remove a recipient: grants and tokens end; the ledger keeps what was fetched."""
    _sharing(request).remove(name)


@router.get("/tokens")
def tokens(request: Request, recipient: Name) -> list[dict[str, Any]]:
    """List a recipient's tokens: never the tokens themselves."""
    sharing = _sharing(request)
    return [
        {**_described(each), "last_used": sharing.last_used(each)}
        for each in sharing.tokens(recipient)
    ]


@router.post("/tokens", status_code=201)
def new_token(
    request: Request, recipient: Given, days: Annotated[float, Body(gt=0, le=MOST_DAYS)]
) -> dict[str, Any]:
    """Make a token, which is shown this once, and its profile file."""
    sharing = _sharing(request)
    text = sharing.new_token(recipient, days=days)
    made = sharing.bearer(text)
    base = request.app.state.public_url or str(request.base_url)
    return {**_described(made), "token": text, "profile": profile_text(base, text, made.expires)}


@router.delete("/tokens", status_code=204)
def end_token(request: Request, recipient: Name, id: Name) -> None:
    """End a token, at once."""
    _sharing(request).end_token(recipient, id)


@router.get("/grants")
def grants(request: Request, recipient: Name | None = None) -> list[dict[str, Any]]:
    """List grants, ended ones too."""
    return [_granted(request, each) for each in _sharing(request).grants(recipient=recipient)]


@router.post("/grants", status_code=201)
def grant(
    request: Request,
    dataset: Given,
    recipient: Given,
    privacy: Annotated[float | None, Body()] = None,
    noise: Annotated[float | None, Body()] = None,
    until: Annotated[str | None, Body(max_length=40)] = None,
    round: Annotated[tuple[str, ...], Body()] = (),
) -> dict[str, Any]:
    """Permit a recipient a dataset, at a privacy or a noise."""
    made = _sharing(request).grant(
        dataset, recipient, privacy=privacy, noise=noise, until=until, round=round
    )
    return _granted(request, made)


@router.delete("/grants", status_code=204)
def revoke(request: Request, dataset: Name, recipient: Name) -> None:
    """End what a recipient may fetch of a dataset, at once."""
    _sharing(request).revoke(dataset, recipient)


@router.get("/requests")
def requests(request: Request) -> list[dict[str, Any]]:
    """List what recipients ask for, and what each coalition could recover if it were approved."""
    sharing = _sharing(request)
    return [_asked(sharing, each) for each in sharing.requests()]


@router.post("/requests")
def answer(
    request: Request,
    id: Given,
    approve: Annotated[bool, Body()],
    privacy: Annotated[float | None, Body()] = None,
    until: Annotated[str | None, Body(max_length=40)] = None,
    words: Annotated[str, Body(max_length=MOST_WORDS)] = "",
) -> dict[str, Any]:
    """Approve a request, at another privacy if one is given, or decline it."""
    done = _sharing(request).answer(
        id, privacy=privacy, until=until, decline=not approve, words=words
    )
    return {"id": done.id, "state": done.state}


@router.get("/log")
def log(
    request: Request, most: Annotated[int, Query(ge=1, le=MOST_LINES)] = 1000
) -> list[dict[str, Any]]:
    """Return the access log, the newest lines first."""
    service = service_of(request)
    service.log.flush()
    return [
        {"at": line.at, "who": line.who, "what": line.what, "outcome": line.outcome}
        | {"bytes": line.bytes}
        for line in service.sharing.accesses(most)
    ]


def _sharing(request: Request) -> Sharing:
    return service_of(request).sharing


def _described(token: Token) -> dict[str, Any]:
    return {
        "id": token.id,
        "recipient": token.recipient,
        "since": token.at,
        "expires": token.expires,
        "revoked": token.revoked,
    }


def _granted(request: Request, grant: Grant) -> dict[str, Any]:
    service = service_of(request)
    state = service.vault.states([grant.dataset]).get(grant.dataset)
    dataset = state and service.dataset_at(grant.dataset, state)
    return {
        "id": grant.id,
        "dataset": dataset and dataset.name,
        "recipient": grant.recipient,
        "noise": grant.spec.level.noise,
        "privacy": dataset and dataset.privacy_of(grant.spec.level),
        "since": grant.at,
        "until": grant.until,
        "revoked": grant.revoked,
    }


def _asked(sharing: Sharing, asked: Asked) -> dict[str, Any]:
    said = {**asdict(asked), "dataset": asked.name, "coalitions": None}
    if asked.state == OPEN:
        with suppress(LevelError, NoSuchDataset):  # it cannot be approved as it is
            said["coalitions"] = [asdict(each) for each in sharing.foreseen(asked)]
    return said
