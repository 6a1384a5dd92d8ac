"""The Delta Sharing protocol: recipients read their copies with the clients they have.

One share, one schema, a table per dataset, version 0 for edition 1 and so on: a copy of an
edition never changes. Both response formats, `parquet` and `delta`, are lines of JSON with signed
addresses of files.
"""

import base64
import json
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from cornerwave.access import SHARING_PATH, Token
from cornerwave.errors import LevelError, NoSuchDataset
from cornerwave.server._replies import bearer, send_copy, service_of
from cornerwave.server._service import DELTA, LIFETIME, Facts, Permitted, table_names

SHARE, SCHEMA = "cornerwave", "copies"
MOST_RESULTS = 500
_HISTORY = ("timestamp", "startingTimestamp", "startingVersion", "endingVersion", "endingTimestamp")
"""How clients ask for earlier versions, or for changes."""
router = APIRouter(prefix=SHARING_PATH, tags=["Delta Sharing"])
MaxResults = Annotated[int | None, Query(alias="maxResults", ge=0)]
PageToken = Annotated[str | None, Query(alias="pageToken", max_length=200)]


@router.get("/shares", response_model=None)
async def shares(request: Request, most: MaxResults = None, page: PageToken = None) -> Response:
    """List shares: there is one."""
    await _checked(request)
    return _page([{"name": SHARE, "id": SHARE}], most, page)


@router.get("/shares/{share}", response_model=None)
async def share(request: Request, share: str) -> Response:
    """Describe the share."""
    await _checked(request, share)
    return JSONResponse({"share": {"name": SHARE, "id": SHARE}})


@router.get("/shares/{share}/schemas", response_model=None)
async def schemas(
    request: Request, share: str, most: MaxResults = None, page: PageToken = None
) -> Response:
    """List schemas: there is one."""
    await _checked(request, share)
    return _page([{"name": SCHEMA, "share": SHARE}], most, page)


@router.get("/shares/{share}/schemas/{schema}/tables", response_model=None)
async def tables(
    request: Request, share: str, schema: str, most: MaxResults = None, page: PageToken = None
) -> Response:
    """List tables: a copy of each dataset that you may fetch."""
    return _page(await _tables(request, await _checked(request, share, schema)), most, page)


@router.get("/shares/{share}/all-tables", response_model=None)
async def all_tables(
    request: Request, share: str, most: MaxResults = None, page: PageToken = None
) -> Response:
    """List the tables of all schemas."""
    return _page(await _tables(request, await _checked(request, share)), most, page)


@router.get("/shares/{share}/schemas/{schema}/tables/{table}/version", response_model=None)
@router.head("/shares/{share}/schemas/{schema}/tables/{table}", include_in_schema=False)
async def version(request: Request, share: str, schema: str, table: str) -> Response:
    """Say the version of a table: one for each edition."""
    what = await _found(request, share, schema, table)
    _check_version(what, request.query_params)
    return Response(headers=_versioned(what))


@router.get("/shares/{share}/schemas/{schema}/tables/{table}/metadata", response_model=None)
async def metadata(request: Request, share: str, schema: str, table: str) -> Response:
    """Describe a table: its columns and types."""
    what = await _found(request, share, schema, table)
    _check_version(what, request.query_params)
    facts = await service_of(request).facts(what)
    return _lines(request, what, _head(what, facts, delta=_wants_delta(request)))


@router.post("/shares/{share}/schemas/{schema}/tables/{table}/query", response_model=None)
async def query(request: Request, share: str, schema: str, table: str) -> Response:
    """Give the signed address of a table's file; hints are for larger tables than a file."""
    what = await _found(request, share, schema, table)
    _check_version(what, await _asked(request))
    service, delta = service_of(request), _wants_delta(request)
    async with service.copy(what, DELTA):  # a copy that cannot be made is refused here already
        facts = await service.facts(what)
    lines, size, id = _head(what, facts, delta=delta), facts.size, what.key(DELTA)
    address = _address(request, service.ticket(what, DELTA), f"{table}.parquet")
    stats = json.dumps({"numRecords": facts.rows})
    if delta:
        add = {
            "path": address,
            "partitionValues": {},
            "size": size,
            "modificationTime": 0,
            "dataChange": True,
            "stats": stats,
        }
        file = {"id": id, "size": size, "deltaSingleAction": {"add": add}}
    else:
        file = {"id": id, "url": address, "partitionValues": {}, "size": size, "stats": stats}
    ends = {"expirationTimestamp": _ends()}
    return _lines(request, what, [*lines, {"file": {**file, **ends}}])


@router.get("/files/{name}", response_model=None)
@router.head("/files/{name}", response_model=None, include_in_schema=False)
async def file(request: Request, name: str, sp: Annotated[str, Query(max_length=2000)]) -> Response:
    """Send a file by its signed address; the grant is checked again for this very request."""
    service = service_of(request)
    what, format_ = await service.soon(lambda: service.redeem(sp))
    request.state.who = what.who
    return await send_copy(request, what, format_, what.dataset.name)


def _ends() -> int:
    return int((time.time() + LIFETIME) * 1000)


def _address(request: Request, ticket: str, name: str) -> str:
    base = request.app.state.public_url or str(request.base_url).rstrip("/")
    return f"{base}{SHARING_PATH}/files/{name}?sp={ticket}"


async def _checked(request: Request, share: str = SHARE, schema: str = SCHEMA) -> Token:
    """Return whose request it is. Raises AccessDenied; NoSuchDataset for another share."""
    token = await service_of(request).soon(lambda: bearer(request))
    assert token is not None
    if (share, schema) != (SHARE, SCHEMA):
        raise NoSuchDataset("there is no such share or schema")
    return token


async def _offered(request: Request, token: Token) -> dict[str, Permitted]:
    service = service_of(request)
    return await service.soon(lambda: table_names(service.offered(token)))


async def _found(request: Request, share: str, schema: str, table: str) -> Permitted:
    token = await _checked(request, share, schema)
    what = (await _offered(request, token)).get(table)
    if what is None:
        raise NoSuchDataset("there is no such table, or you may not read it")
    request.state.who = what.who
    return what


async def _tables(request: Request, token: Token) -> list[dict[str, str]]:
    of = {"schema": SCHEMA, "share": SHARE, "shareId": SHARE}
    offered = await _offered(request, token)
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
        told = {**files, "deltaMetadata": described}
        return [{"protocol": protocol}, {"metaData": told}]
    described = {**about, "schemaString": schema, "configuration": {}}
    described["version"] = _version(what)
    return [{"protocol": {"minReaderVersion": 1}}, {"metaData": described}]


async def _asked(request: Request) -> Mapping[str, Any]:
    """Return what the body of a query says."""
    try:
        said = json.loads(await request.body() or b"{}")
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise LevelError("the body of a query is an object of JSON")
    return said


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
