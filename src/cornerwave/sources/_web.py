"""Files on the web: parts of one and the same file, over https alone."""

import http.client
import os
import shutil
import tempfile
import urllib.error
import urllib.request
import weakref
from collections.abc import Mapping
from typing import Any

from cornerwave import sizes
from cornerwave.errors import SourceError
from cornerwave.sources._places import Address
from cornerwave.sources._stores import REPLACED, SECONDS, Lost, StoredFile, StoreRefused


class _HttpsAlone(urllib.request.HTTPRedirectHandler):
    """Follows a redirect to https, and to nothing else: not to a file, not in the clear."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, hdrs: Any, new: str) -> Any:
        """Refuse what leaves https."""
        if not new.lower().startswith("https://"):
            raise SourceError("the server leads away from https, which is not followed")
        return super().redirect_request(req, fp, code, msg, hdrs, new)


def web_file(address: Address) -> StoredFile:
    """Return a file on the web. Raises StoreRefused."""
    with _answer(address, {"Range": "bytes=0-0"}) as answer:
        if answer.status != 206:
            return _downloaded(address, answer)
        version = _version(answer)
        size = _total(answer)
    if not any(version):  # parts of one file could not be distinguished from those of another
        with _answer(address, {}) as answer:
            return _downloaded(address, answer)

    def fetch(start: int, stop: int) -> bytes:
        asked = {"Range": f"bytes={start}-{stop - 1}"}
        if version[0] and not version[0].startswith("W/"):
            asked["If-Match"] = version[0]
        with _answer(address, asked) as part:
            if part.status != 206 or _version(part) != version or _total(part) != size:
                raise StoreRefused(REPLACED)
            try:
                return bytes(part.read())
            except (http.client.HTTPException, OSError):
                raise Lost from None

    return StoredFile(address, size, fetch)


def _version(answer: Any) -> tuple[str, str]:
    return answer.headers.get("ETag", ""), answer.headers.get("Last-Modified", "")


def _total(answer: Any) -> int:
    size = answer.headers.get("Content-Range", "").rpartition("/")[2]
    if not size.isdigit():
        raise SourceError("the server does not state how long the file is; download it first")
    return int(size)


def _answer(address: Address, headers: Mapping[str, str]) -> Any:
    query = f"?{address.query}" if address.query else ""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        _HttpsAlone(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    try:
        request = urllib.request.Request(  # noqa: S310 - an address is https, and so are redirects
            f"{address}{query}", headers={**headers, "Accept-Encoding": "identity"}
        )
        return opener.open(request, timeout=SECONDS)
    except urllib.error.HTTPError as error:
        error.close()
        raise (Lost if error.code >= 500 else StoreRefused)(error.code) from None
    except (OSError, http.client.HTTPException):
        raise Lost from None


def _downloaded(address: Address, answer: Any) -> StoredFile:
    """Return a file of a server that gives no parts: all of it, in a file without a name."""
    with tempfile.TemporaryFile() as held:
        try:
            shutil.copyfileobj(answer, held, sizes.READ_AHEAD)
        except (http.client.HTTPException, OSError):
            raise Lost from None
        held.flush()
        size, announced = held.tell(), answer.headers.get("Content-Length")
        if announced is not None and announced != str(size):
            raise Lost
        kept = os.dup(held.fileno())
    file = StoredFile(address, size, lambda start, stop: os.pread(kept, stop - start, start))
    weakref.finalize(file, os.close, kept)
    return file
