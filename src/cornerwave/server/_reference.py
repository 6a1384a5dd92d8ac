"""What can be asked of the service, as a page: the OpenAPI document in words, without a script."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from cornerwave.server._page import page

router = APIRouter(include_in_schema=False)


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
    base = request.app.state.public_url or str(request.base_url).rstrip("/")
    return page(request, "docs.html", groups=groups, base=base, about=document["info"])


def _operations(document: dict[str, Any]) -> Iterator[Operation]:
    for path, methods in document["paths"].items():
        for method, said in methods.items():
            own = [(p["name"], p["in"], _type(p["schema"])) for p in said.get("parameters", ())]
            yield Operation(
                group=said["tags"][0],
                method=method.upper(),
                path=path,
                what=said["description"].replace("`", ""),
                parameters=(*own, *_body(document, said)),
            )


def _body(document: dict[str, Any], said: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the fields of a request's body."""
    for content in said.get("requestBody", {}).get("content", {}).values():
        name = content["schema"]["$ref"].rsplit("/", 1)[-1]
        for field, schema in document["components"]["schemas"][name]["properties"].items():
            yield field, "body", _type(schema)


def _type(schema: dict[str, Any]) -> str:
    """Say what a value may be.

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
