"""Plain downloads: what a recipient may fetch, the copies as files, and requests for more."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Depends, Query
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from cornerwave.access import Request as Asked
from cornerwave.kinds import JsonObject
from cornerwave.ledger import MOST_WORDS, Page
from cornerwave.server._replies import base_url, bearer, bearer_if_any, send_copy, service_of
from cornerwave.server._service import Permitted

router = APIRouter(prefix="/v1", tags=["downloads"])
PageNumber = Annotated[int, Query(ge=1, le=10**9)]
Format = Literal["parquet", "arrow", "csv", "csv.gz"]


def permitted(request: Request, name: str) -> Permitted:
    """Return what the sender of a request may fetch of a dataset."""
    what = service_of(request).permitted(name, bearer_if_any(request))
    request.state.who = what.who
    return what


ThisCopy = Annotated[Permitted, Depends(permitted)]


@dataclass(frozen=True)
class MyRequest:
    """A request as its recipient sees it."""

    id: str
    dataset: str
    privacy: float
    reason: str
    at: str
    state: str
    answer: str

    @classmethod
    def of(cls, asked: Asked) -> "MyRequest":
        """Return what the recipient wrote and was answered."""
        return cls(
            id=asked.id,
            dataset=asked.name,
            privacy=asked.privacy,
            reason=asked.reason,
            at=asked.at,
            state=asked.state,
            answer=asked.answer,
        )


@router.get("/datasets", response_model=None)
def datasets(request: Request, page: PageNumber = 1) -> Response:
    """List what you may fetch, 100 on a page; without a token, what is public.

    The header `Link` has the address of the next page, if there is one.
    """
    found = service_of(request).offered_page(bearer_if_any(request), page)
    return JSONResponse([_described(each) for each in found.items], headers=_links(request, found))


# A name may have slashes, so that it is a path, and what follows it comes first.


@router.get("/datasets/{name:path}/copy", response_model=None)
@router.head("/datasets/{name:path}/copy", response_model=None, include_in_schema=False)
async def copy(
    request: Request, what: ThisCopy, format: Annotated[Format, Query()] = "parquet"
) -> Response:
    """Download your copy. Ranges, resuming and `If-None-Match` work; its ETag never changes."""
    return await send_copy(request, what, format)


@router.get("/datasets/{name:path}", response_model=None)
def dataset(what: ThisCopy) -> Response:
    """Describe what you may fetch of a dataset."""
    return JSONResponse(_described(what))


@router.get("/requests")
def requests(request: Request, response: Response, page: PageNumber = 1) -> list[MyRequest]:
    """List what you have asked for, the newest first, 100 on a page.

    The header `Link` has the address of the next page, if there is one.
    """
    sharing = service_of(request).sharing
    found = sharing.request_page(page, recipient=bearer(request).recipient)
    response.headers.update(_links(request, found))
    return [MyRequest.of(each) for each in found.items]


@router.post("/requests", status_code=201)
def ask(
    request: Request,
    dataset: Annotated[str, Body(max_length=255)],
    privacy: Annotated[float, Body(gt=0, lt=1)],
    reason: Annotated[str, Body(max_length=MOST_WORDS)] = "",
) -> MyRequest:
    """Ask the owner for a dataset, or for a better level of it.

    The answer is the same whether the dataset exists or not.
    """
    recipient = bearer(request).recipient
    sharing = service_of(request).sharing
    return MyRequest.of(sharing.ask(recipient, dataset, privacy=privacy, reason=reason))


def _links(request: Request, found: Page[Any]) -> dict[str, str]:
    """Return the header that leads to the next page of a list."""
    if found.number >= found.last:
        return {}
    address = f"{base_url(request)}{request.url.path}?page={found.number + 1}"
    return {"Link": f'<{address}>; rel="next"'}


def _described(what: Permitted) -> JsonObject:
    frozen, release = what.dataset.frozen, what.release
    return {
        "name": what.dataset.name,
        "privacy": release.privacy,
        "noise": release.level.noise,
        "rows": release.rows.rows,
        "edition": release.rows.edition,
        "columns": [column.name for column in frozen.schema.shown],
        "until": what.grant.until,
        "formats": ["parquet", "arrow", "csv", "csv.gz"],
        "etag": what.etag("parquet"),
    }
