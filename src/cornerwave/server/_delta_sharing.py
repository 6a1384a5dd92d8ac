"""The Delta Sharing protocol: recipients read their copies with the clients they have.

One share, a table per dataset in one schema, and a schema for each family of linked tables with
their names; version 0 for edition 1 and so on: a copy of an
edition never changes. Both response formats, `parquet` and `delta`, are lines of JSON with signed
addresses of files.
"""

import base64
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from anyio.to_thread import run_sync as in_thread
from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from cornerwave.access import SHARING_PATH, Token
from cornerwave.errors import LevelError, NoSuchDataset, OutputError
from cornerwave.kinds import Json, JsonObject
from cornerwave.server._replies import base_url, bearer, send_copy, service_of
from cornerwave.server._service import DELTA, Permitted, Service
from cornerwave.sources import METADATA_KEY
from cornerwave.vault import Dataset

# --------------------------------------------------------------------------------------------------
# A copy in types that Delta Lake knows.
#
# Delta has no unsigned integers, no time of day, no durations and no nanoseconds: such columns
# are offered in the next larger type that holds the same values.


@dataclass(frozen=True)
class Facts:
    """What clients of Delta Sharing learn about a copy, which never changes."""

    schema: str
    rows: int
    size: int
    stated: str

    @classmethod
    def of(cls, path: Path) -> "Facts":
        """Read them in the copy's file."""
        metadata = pq.read_metadata(path)
        schema = schema_string(metadata.schema.to_arrow_schema())
        stated = (metadata.metadata or {}).get(METADATA_KEY, b"{}").decode()
        return cls(schema, metadata.num_rows, path.stat().st_size, stated)


async def _facts(service: Service, what: Permitted) -> Facts:
    """Return what clients learn about a copy, which is made if necessary."""
    async with _copy(service, what) as path:
        await in_thread(service.check_again, what)
        return await in_thread(Facts.of, path)


@asynccontextmanager
async def _copy(service: Service, what: Permitted) -> AsyncIterator[Path]:
    """Yield the file of a copy; nothing has left yet, and nothing is recorded."""
    async with service.copy(what, "parquet") as path:
        if await in_thread(is_offered, path):
            yield path
            return
        async with service.cache.file(
            f"{what.key(DELTA)}.delta.parquet",
            lambda part, watch: write_offered(path, part, watch),
        ) as converted:
            yield converted


_NAMES = {
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
}
_INSTEAD = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}


def offered_type(type_: pa.DataType) -> pa.DataType:
    """Return the type in which a column is offered to clients of Delta Sharing."""
    types = pa.types
    if types.is_dictionary(type_):
        return offered_type(type_.value_type)
    if types.is_timestamp(type_):
        return pa.timestamp("us", "UTC")
    if types.is_time(type_):
        return pa.string()
    if types.is_duration(type_):
        return pa.int64()
    if types.is_decimal(type_):
        return pa.decimal128(min(type_.precision, 38), type_.scale)
    if types.is_fixed_size_binary(type_):
        return pa.binary()
    return _INSTEAD.get(type_, type_)


def offered_schema(schema: pa.Schema) -> pa.Schema:
    """Return a copy's columns in the types in which they are offered."""
    fields = [part.with_type(offered_type(part.type)) for part in schema]
    return pa.schema(fields, schema.metadata)


def schema_string(schema: pa.Schema) -> str:
    """Return the columns as Delta writes them down."""
    fields = [
        {"name": part.name, "type": _name(part.type), "nullable": True, "metadata": {}}
        for part in offered_schema(schema)
    ]
    return json.dumps({"type": "struct", "fields": fields})


def _name(type_: pa.DataType) -> str:
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    return _NAMES.get(type_, "string")


def is_offered(copy: Path) -> bool:
    """Return whether a Parquet copy has no other types than those that are offered."""
    schema = pq.read_schema(copy)
    return bool(offered_schema(schema).equals(schema))


def write_offered(copy: Path, out: Path, progress: Callable[[int], None]) -> None:
    """Write a Parquet copy in the types in which it is offered, row group by row group."""
    file = pq.ParquetFile(copy)
    schema = offered_schema(file.schema_arrow)
    try:
        with pq.ParquetWriter(out, schema, compression="zstd") as writer:
            for group in range(file.num_row_groups):
                table = file.read_row_group(group)
                columns = [_cast(table.column(part.name), part.type) for part in schema]
                writer.write_table(pa.Table.from_arrays(columns, schema=schema))
                progress(table.num_rows)
    except OSError as error:
        raise OutputError(f"a copy cannot be written: {error.strerror}") from None


def _cast(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_duration(column.type):
        column = column.cast(pa.duration("us"), safe=False).cast(pa.int64())
    if pa.types.is_timestamp(type_) and column.type.tz is None:
        column = pc.assume_timezone(column.cast(pa.timestamp("us"), safe=False), "UTC")
    return column.cast(type_, safe=False)


# --------------------------------------------------------------------------------------------------
# The protocol.


SHARE, SCHEMA = "cornerwave", "copies"
MOST_RESULTS = 500
_HISTORY = ("timestamp", "startingTimestamp", "startingVersion", "endingVersion", "endingTimestamp")
"""How clients ask for earlier versions, or for changes."""
router = APIRouter(prefix=SHARING_PATH, tags=["Delta Sharing"])
MaxResults = Annotated[int | None, Query(alias="maxResults", ge=0)]
PageToken = Annotated[str | None, Query(alias="pageToken", max_length=200)]


def checked(request: Request, share: str = SHARE) -> Token:
    """Return whose request it is. Raises AccessDenied; NoSuchDataset for another share."""
    token = bearer(request)
    if share != SHARE:
        raise NoSuchDataset("there is no such share")
    return token


def permitted(request: Request, share: str, schema: str, table: str) -> Permitted:
    """Return the copy that a table is. Raises NoSuchDataset if it may not be read."""
    token = checked(request, share)
    what = table_names(service_of(request).offered(token)).get((schema, table))
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
    """List schemas: one for tables by themselves, and one for each family of linked tables."""
    offered = table_names(service_of(request).offered(checked(request, share)))
    names = dict.fromkeys([SCHEMA, *(schema for schema, _ in offered)])
    return _page([{"name": name, "share": SHARE} for name in names], most, page)


@router.get("/shares/{share}/schemas/{schema}/tables", response_model=None)
def tables(
    request: Request, share: str, schema: str, most: MaxResults = None, page: PageToken = None
) -> Response:
    """List tables: a copy of each dataset that you may fetch."""
    all_tables = _tables(request, checked(request, share))
    here = [each for each in all_tables if each["schema"] == schema]
    if not here and schema != SCHEMA:
        raise NoSuchDataset("there is no such schema, or you may not read it")
    return _page(here, most, page)


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
    facts = await _facts(service_of(request), what)
    return _lines(request, what, _head(what, facts, delta=_wants_delta(request)))


@router.post("/shares/{share}/schemas/{schema}/tables/{table}/query", response_model=None)
async def query(request: Request, what: ThisTable) -> Response:
    """Return the signed address of a table's file; hints are for larger tables than a file."""
    _check_version(what, await _asked(request))
    service, delta = service_of(request), _wants_delta(request)
    facts = await _facts(service, what)  # a copy that cannot be made is refused here already
    name = f"{request.path_params['table']}.parquet"
    address = f"{base_url(request)}{SHARING_PATH}/files/{name}?sp={service.ticket(what)}"
    content: JsonObject = {"partitionValues": {}, "stats": json.dumps({"numRecords": facts.rows})}
    added: JsonObject = {
        "path": address,
        "size": facts.size,
        "modificationTime": 0,
        "dataChange": True,
    }
    action: JsonObject = {"deltaSingleAction": {"add": {**content, **added}}}
    file: JsonObject = {
        "id": what.key(DELTA),
        "size": facts.size,
        **(action if delta else {**content, "url": address}),
        "expirationTimestamp": int(service.signer.ends() * 1000),
    }
    return _lines(request, what, [*_head(what, facts, delta=delta), {"file": file}])


def redeemed(request: Request, sp: Annotated[str, Query(max_length=2000)]) -> Permitted:
    """Return what a signed address permits now."""
    what = service_of(request).redeem(sp)
    request.state.who = what.who
    return what


@router.get("/files/{name}", response_model=None)
@router.head("/files/{name}", response_model=None, include_in_schema=False)
async def file(
    request: Request, name: str, what: Annotated[Permitted, Depends(redeemed)]
) -> Response:
    """Send a file by its signed address; the grant is checked again for this request."""
    return await send_copy(request, what, DELTA, partial(_copy, service_of(request), what))


def _tables(request: Request, token: Token) -> list[dict[str, str]]:
    of = {"share": SHARE, "shareId": SHARE}
    offered = table_names(service_of(request).offered(token))
    return [
        {"name": name, "schema": schema, **of, "id": each.dataset.id}
        for (schema, name), each in offered.items()
    ]


def _page(items: Sequence[JsonObject], most: int | None, page: str | None) -> Response:
    """Return some items, and where the others begin."""
    try:
        start = int(base64.urlsafe_b64decode(page.encode())) if page else 0
    except ValueError:
        raise NoSuchDataset("there is no such page") from None
    end = start + min(MOST_RESULTS if most is None else most, MOST_RESULTS)
    answer: dict[str, Json] = {"items": list(items[max(start, 0) : end])}
    if end < len(items):
        answer["nextPageToken"] = base64.urlsafe_b64encode(str(end).encode()).decode()
    return JSONResponse(answer)


def _wants_delta(request: Request) -> bool:
    """Return whether a client takes the format `delta`, and not `parquet`."""
    wanted = request.headers.get("delta-sharing-capabilities", "").lower()
    parts = dict(part.partition("=")[::2] for part in wanted.replace(" ", "").split(";"))
    return parts.get("responseformat", "parquet").split(",")[0] == DELTA


def _head(what: Permitted, facts: Facts, *, delta: bool) -> list[JsonObject]:
    """Return the lines that describe a table, with what the copy states about itself."""
    schema, configuration = facts.schema, {METADATA_KEY.decode(): facts.stated}
    about: JsonObject = {
        "id": what.dataset.id,
        "format": {"provider": "parquet", "options": {}},
        "partitionColumns": [],
    }
    if delta:
        protocol = {"deltaProtocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
        described: JsonObject = {
            **about,
            "schemaString": schema,
            "configuration": configuration,
            "createdTime": 0,
        }
        files = {"version": _version(what), "size": facts.size, "numFiles": 1}
        return [{"protocol": protocol}, {"metaData": {**files, "deltaMetadata": described}}]
    described = {**about, "schemaString": schema, "configuration": configuration}
    described["version"] = _version(what)
    return [{"protocol": {"minReaderVersion": 1}}, {"metaData": described}]


async def _asked(request: Request) -> Mapping[str, object]:
    """Return the body of a query."""
    try:
        asked = json.loads(await request.body() or b"{}")
    except (ValueError, RecursionError):
        asked = None
    if not isinstance(asked, dict):
        raise LevelError("the body of a query must be a JSON object")
    return asked


def _check_version(what: Permitted, asked: Mapping[str, object]) -> None:
    """Raise LevelError for a version that is not the last: a grant is for the table as it is."""
    wanted = asked.get("version")
    elsewhere = wanted is not None and str(wanted) != str(_version(what))
    if elsewhere or any(asked.get(name) is not None for name in _HISTORY):
        raise LevelError(f"only the last version, {_version(what)}, can be read")


def _version(what: Permitted) -> int:
    return what.release.rows.edition - 1


def _versioned(what: Permitted) -> dict[str, str]:
    return {"Delta-Table-Version": str(_version(what))}


def _lines(request: Request, what: Permitted, lines: Sequence[JsonObject]) -> Response:
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    format_ = DELTA if _wants_delta(request) else "parquet"
    headers = {**_versioned(what), "delta-sharing-capabilities": f"responseformat={format_}"}
    return Response(text, media_type="application/x-ndjson", headers=headers)


def table_names(offered: Sequence[Permitted]) -> dict[tuple[str, str], Permitted]:
    """Return what is offered by schema and table, in names that clients of Delta Sharing can write.

    Of tables whose names become the same, each gets the beginning of its dataset's id.
    """
    plain = [_schema_and_table(each.dataset) for each in offered]
    return {
        (schema, name)
        if plain.count((schema, name)) == 1
        else (schema, f"{name}_{each.dataset.id[:8]}"): each
        for (schema, name), each in zip(plain, offered, strict=True)
    }


def _schema_and_table(dataset: Dataset) -> tuple[str, str]:
    """Return the schema of a dataset, that of its family if it is a linked table, and its name."""
    family = dataset.frozen.family
    if family is None:
        return SCHEMA, _plain(dataset.name)
    called = _plain(dataset.name.rpartition(".")[0])
    # a family cannot take the schema of the tables by themselves
    return f"{called}_{family.id[:8]}" if called == SCHEMA else called, _plain(family.table)


def _plain(name: str) -> str:
    """Return a name of letters, digits, - and _ alone.

    >>> _plain("people 2026/q1.csv")
    'people_2026_q1_csv'
    """
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)
