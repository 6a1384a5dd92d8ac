"""The Delta Sharing protocol: recipients read their copies with the clients they have.

One share, one schema, a table per dataset, version 0 for edition 1 and so on: a copy of an
edition never changes. Both response formats, `parquet` and `delta`, are lines of JSON with signed
addresses of files.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from cornerwave.access import SHARING_PATH, Token
from cornerwave.errors import LevelError, NoSuchDataset
from cornerwave.server._replies import base_url, bearer, send_copy, service_of
from cornerwave.server._service import DELTA, Facts, Permitted, table_names

SHARE, SCHEMA = "cornerwave", "copies"
MOST_RESULTS = 500
_HISTORY = ("timestamp", "startingTimestamp", "startingVersion", "endingVersion", "endingTimestamp")
"""How clients ask for earlier versions, or for changes."""
router = APIRouter(prefix=SHARING_PATH, tags=["Delta Sharing"])
MaxResults = Annotated[int | None, Query(alias="maxResults", ge=0)]
PageToken = Annotated[str | None, Query(alias="pageToken", max_length=200)]


def checked(request: Request, share: str = SHARE, schema: str = SCHEMA) -> Token:
    """Return whose request it is. Raises AccessDenied; NoSuchDataset for another share."""
    token = bearer(request)
    if (share, schema) != (SHARE, SCHEMA):
        raise NoSuchDataset("there is no such share or schema")
    return token


def permitted(request: Request, share: str, schema: str, table: str) -> Permitted:
    """Return the copy that a table is. Raises NoSuchDataset if it may not be read."""
    token = checked(request, share, schema)
    what = table_names(service_of(request).offered(token)).get(table)
    if what is None:
        raise NoSuchDataset("there is no such table, or you may not read it")
    return what


ThisTable = Annotated[Permitted, Depends(permitted)]


@router.get("/shares", response_model=None)
def shares(request: Request, most: MaxResults = None, page: PageToken = None) -> Response:
    """List shares: there is one."""
    checked(request)
    return _page([{"name": SHARE, "id": SHARE}], most, page)


@router.get("/shares/{share}", response_model=None)
def share(request: Request, share: str) -> Response:
    """Describe the share."""
    checked(request, share)
    return JSONResponse({"share": {"name": SHARE, "id": SHARE}})


@router.get("/shares/{share}/schemas", response_model=None)
def schemas(
    request: Request, share: str, most: MaxResults = None, page: PageToken = None
) -> Response:
    """List schemas: there is one."""
    checked(request, share)
    return _page([{"name": SCHEMA, "share": SHARE}], most, page)


@router.get("/shares/{share}/schemas/{schema}/tables", response_model=None)
def tables(
    request: Request, share: str, schema: str, most: MaxResults = None, page: PageToken = None
) -> Response:
    """List tables: a copy of each dataset that you may fetch."""
    return _page(_tables(request, checked(request, share, schema)), most, page)


@router.get("/shares/{share}/all-tables", response_model=None)
def all_tables(
    request: Request, share: str, most: MaxResults = None, page: PageToken = None
) -> Response:
    """List the tables of all schemas."""
    return _page(_tables(request, checked(request, share)), most, page)


@router.get("/shares/{share}/schemas/{schema}/tables/{table}/version", response_model=None)
@router.head("/shares/{share}/schemas/{schema}/tables/{table}", include_in_schema=False)
def version(request: Request, what: ThisTable) -> Response:
    """Return the version of a table: one for each edition."""
    _check_version(what, request.query_params)
    return Response(headers=_versioned(what))


@router.get("/shares/{share}/schemas/{schema}/tables/{table}/metadata", response_model=None)
async def metadata(request: Request, what: ThisTable) -> Response:
    """Describe a table: its columns and types."""
    _check_version(what, request.query_params)
    facts = await service_of(request).facts(what)
    return _lines(request, what, _head(what, facts, delta=_wants_delta(request)))


@router.post("/shares/{share}/schemas/{schema}/tables/{table}/query", response_model=None)
async def query(request: Request, what: ThisTable) -> Response:
    """Return the signed address of a table's file; hints are for larger tables than a file."""
    _check_version(what, await _asked(request))
    service, delta = service_of(request), _wants_delta(request)
    facts = await service.facts(what)  # a copy that cannot be made is refused here already
    address = _address(
        request, service.ticket(what, DELTA), f"{request.path_params['table']}.parquet"
    )
    file = {
        "id": what.key(DELTA),
        "size": facts.size,
        **(_delta_file if delta else _parquet_file)(address, facts),
        "expirationTimestamp": int(service.signer.ends() * 1000),
    }
    return _lines(request, what, [*_head(what, facts, delta=delta), {"file": file}])


def _parquet_file(address: str, facts: Facts) -> dict[str, Any]:
    return {"url": address, "partitionValues": {}, "stats": _stats(facts)}


def _delta_file(address: str, facts: Facts) -> dict[str, Any]:
    add = {
        "path": address,
        "partitionValues": {},
        "size": facts.size,
        "modificationTime": 0,
        "dataChange": True,
        "stats": _stats(facts),
    }
    return {"deltaSingleAction": {"add": add}}


def _stats(facts: Facts) -> str:
    return json.dumps({"numRecords": facts.rows})


def redeemed(request: Request, sp: Annotated[str, Query(max_length=2000)]) -> tuple[Permitted, str]:
    """Return what a signed address permits now."""
    what, format_ = service_of(request).redeem(sp)
    request.state.who = what.who
    return what, format_


@router.get("/files/{name}", response_model=None)
@router.head("/files/{name}", response_model=None, include_in_schema=False)
async def file(
    request: Request, name: str, found: Annotated[tuple[Permitted, str], Depends(redeemed)]
) -> Response:
    """Send a file by its signed address; the grant is checked again for this request."""
    return await send_copy(request, *found)


def _address(request: Request, ticket: str, name: str) -> str:
    return f"{base_url(request)}{SHARING_PATH}/files/{name}?sp={ticket}"


def _tables(request: Request, token: Token) -> list[dict[str, str]]:
    of = {"schema": SCHEMA, "share": SHARE, "shareId": SHARE}
    offered = table_names(service_of(request).offered(token))
    return [{"name": name, **of, "id": each.dataset.id} for name, each in offered.items()]


def _page(items: Sequence[dict[str, Any]], most: int | None, page: str | None) -> Response:
    """Return some items, and where the others begin."""
    try:
        start = int(base64.urlsafe_b64decode(page.encode())) if page else 0
    except ValueError:
        raise NoSuchDataset("there is no such page") from None
    end = start + min(MOST_RESULTS if most is None else most, MOST_RESULTS)
    answer: dict[str, Any] = {"items": list(items[max(start, 0) : end])}
    if end < len(items):
        answer["nextPageToken"] = base64.urlsafe_b64encode(str(end).encode()).decode()
    return JSONResponse(answer)


def _wants_delta(request: Request) -> bool:
    """Return whether a client takes the format `delta`, and not `parquet`."""
    wanted = request.headers.get("delta-sharing-capabilities", "").lower()
    parts = dict(part.partition("=")[::2] for part in wanted.replace(" ", "").split(";"))
    return parts.get("responseformat", "parquet").split(",")[0] == DELTA


def _head(what: Permitted, facts: Facts, *, delta: bool) -> list[dict[str, Any]]:
    """Return the lines that describe a table."""
    schema = facts.schema
    about = {
        "id": what.dataset.id,
        "format": {"provider": "parquet", "options": {}},
        "partitionColumns": [],
    }
    if delta:
        protocol = {"deltaProtocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
        described = {**about, "schemaString": schema, "configuration": {}, "createdTime": 0}
        files = {"version": _version(what), "size": facts.size, "numFiles": 1}
        return [{"protocol": protocol}, {"metaData": {**files, "deltaMetadata": described}}]
    described = {**about, "schemaString": schema, "configuration": {}}
    described["version"] = _version(what)
    return [{"protocol": {"minReaderVersion": 1}}, {"metaData": described}]


async def _asked(request: Request) -> Mapping[str, Any]:
    """Return the body of a query."""
    try:
        asked = json.loads(await request.body() or b"{}")
    except (ValueError, RecursionError):
        asked = None
    if not isinstance(asked, dict):
        raise LevelError("the body of a query must be a JSON object")
    return asked


def _check_version(what: Permitted, asked: Mapping[str, Any]) -> None:
    """Raise LevelError for a version that is not the last: a grant is for the table as it is."""
    wanted = asked.get("version")
    elsewhere = wanted is not None and str(wanted) != str(_version(what))
    if elsewhere or any(asked.get(name) is not None for name in _HISTORY):
        raise LevelError(f"only the last version, {_version(what)}, can be read")


def _version(what: Permitted) -> int:
    return what.release.rows.edition - 1


def _versioned(what: Permitted) -> dict[str, str]:
    return {"Delta-Table-Version": str(_version(what))}


def _lines(request: Request, what: Permitted, lines: Sequence[dict[str, Any]]) -> Response:
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    format_ = DELTA if _wants_delta(request) else "parquet"
    headers = {**_versioned(what), "delta-sharing-capabilities": f"responseformat={format_}"}
    return Response(text, media_type="application/x-ndjson", headers=headers)
