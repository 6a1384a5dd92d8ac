"""Fetch a copy from a Cornerwave service with a profile file (`.share`).

A download that was cut off goes on where it ended, if the copy is still the same; the file
appears when it is whole.
"""

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from cornerwave.errors import AccessDenied, NoSuchDataset, OutputError, SourceError
from cornerwave.miner._copy import Copy

CHUNK = 1 << 20
SECONDS = 60.0
"""How long the service may be silent; a copy that is being made takes longer."""
MAKING_SECONDS = 3600.0
_SHARING = "/delta-sharing"


@dataclass(frozen=True)
class Offer:
    """A copy that a recipient may fetch."""

    name: str
    privacy: float
    rows: int
    edition: int
    until: str | None

    @classmethod
    def of(cls, answer: Any) -> "Offer":
        """Read a part of the service's answer."""
        until = answer["until"]
        return cls(
            str(answer["name"]),
            float(answer["privacy"]),
            int(answer["rows"]),
            int(answer["edition"]),
            None if until is None else str(until),
        )


@dataclass(frozen=True)
class LevelRequest:
    """What a recipient asked for, and the owner's answer."""

    dataset: str
    privacy: float
    state: str
    answer: str

    @classmethod
    def of(cls, answer: Any) -> "LevelRequest":
        """Read a part of the service's answer."""
        words = (str(answer[name]) for name in ("state", "answer"))
        return cls(str(answer["dataset"]), float(answer["privacy"]), *words)


@contextmanager
def _understood() -> Iterator[None]:
    """Turn an answer that is not one of this service into a SourceError."""
    try:
        yield
    except (ValueError, KeyError, TypeError):
        raise SourceError(
            "the service's answer cannot be read; check the profile's address, or ask its owner"
        ) from None


@dataclass(frozen=True)
class Profile:
    """Where a service is, and the token that it knows a recipient by."""

    address: str
    token: str

    @classmethod
    def read(cls, path: str | Path) -> "Profile":
        """Read a profile file. Raises SourceError."""
        try:
            profile = json.loads(Path(path).read_text(encoding="utf-8"))
            address, token = str(profile["endpoint"]).rstrip("/"), str(profile["bearerToken"])
        except (OSError, ValueError, KeyError, TypeError):
            raise SourceError(f"{path} cannot be read as a profile of a sharing service") from None
        if urlsplit(address).scheme not in ("http", "https") or not token.isprintable():
            raise SourceError(f"{path}: the endpoint is not the address of a service")
        return cls(address.removesuffix(_SHARING), token)

    def datasets(self) -> list[Offer]:
        """Return what the recipient may fetch. Raises SourceError."""
        return [Offer.of(each) for each in self._all("/v1/datasets")]

    def ask(self, dataset: str, *, privacy: float, reason: str = "") -> LevelRequest:
        """Ask the owner for another level of a dataset. Raises NoSuchDataset, SourceError."""
        request = {"dataset": dataset, "privacy": privacy, "reason": reason}
        body, headers = json.dumps(request).encode(), {"Content-Type": "application/json"}
        with self._get("/v1/requests", headers, SECONDS, body) as answer, _understood():
            return LevelRequest.of(json.load(answer))

    def asked(self) -> list[LevelRequest]:
        """Return what the recipient has asked for, the oldest first, and the answers.

        Raises SourceError.
        """
        return [LevelRequest.of(each) for each in self._all("/v1/requests")][::-1]

    def _all(self, path: str) -> list[Any]:
        """Return a list of the service, page by page."""
        every, page, has_more = list[Any](), 1, True
        while has_more:
            with self._get(f"{path}?page={page}", {}, SECONDS) as answer, _understood():
                every += json.load(answer)
                has_more = 'rel="next"' in answer.headers.get("Link", "")
            page += 1
        return every

    def _get(
        self, path: str, headers: dict[str, str], seconds: float, body: bytes | None = None
    ) -> Any:
        asked = Request(self.address + path, data=body, headers=headers)  # noqa: S310
        asked.add_unredirected_header("Authorization", f"Bearer {self.token}")
        try:
            return urlopen(asked, timeout=seconds)  # noqa: S310
        except HTTPError as error:
            raise _refusal(error) from None
        except (URLError, OSError, ValueError):
            raise SourceError(f"no answer from {self.address}; try again later") from None


def fetch(
    profile: str | Path,
    dataset: str | None = None,
    *,
    out: str | Path,
    force: bool = False,
    progress: Callable[[float], None] = lambda _bytes: None,
    found: Callable[[float], None] = lambda _bytes: None,
) -> Path:
    """Fetch a copy into a file; its ending names the format. Raises AccessDenied, OutputError.

    `dataset` may be left out if there is only one. `found` gets the number of bytes.
    """
    opened, path = Profile.read(profile), Path(out).absolute()
    if path.exists() and not force:
        raise OutputError(f"{path} exists already; choose another name", use=("force",))
    name = dataset if dataset is not None else _only(opened.datasets())
    address = f"/v1/datasets/{quote(name, safe='')}/copy?format={_format(path)}"
    part = path.with_name(f".{path.name}.part")
    _download(opened, address, part, progress, found)
    part.replace(path)
    return path


def open_copy(profile: str | Path, dataset: str | None = None) -> Copy:
    """Fetch a copy into memory and open it. `fetch` keeps a file."""
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as folder:
        path = fetch(profile, dataset, out=Path(folder) / "copy.parquet")
        return Copy.open(pq.read_table(path))


def _download(
    profile: Profile,
    address: str,
    part: Path,
    progress: Callable[[float], None],
    found: Callable[[float], None],
) -> None:
    """Add to a partial file what is missing; begin anew if the copy is another one."""
    mark = part.with_name(part.name + ".etag")
    try:
        # not the last byte: a range that begins at the end would be refused
        have, etag = part.stat().st_size - 1, mark.read_text(encoding="ascii")
    except (OSError, UnicodeError):
        have, etag = 0, ""
    headers = {"Range": f"bytes={have}-", "If-Range": etag} if have > 0 and etag else {}
    with profile._get(address, headers, MAKING_SECONDS) as answer:
        goes_on = answer.status == 206
        left = int(answer.headers["Content-Length"])
        found(left + (have if goes_on else 0))
        progress(have if goes_on else 0)
        try:
            mark.write_text(answer.headers["ETag"] or "", encoding="ascii")
            with part.open("r+b" if goes_on else "wb") as file:
                file.seek(have if goes_on else 0)
                while chunk := answer.read(CHUNK):
                    file.write(chunk)
                    left -= len(chunk)
                    progress(len(chunk))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise OutputError(
                f"the download ended early ({error.strerror}); run it again"
            ) from None
    if left:
        raise OutputError("the download ended early; run it again, and it goes on")
    mark.unlink()


def _format(path: Path) -> str:
    from cornerwave.sources import format_of

    return format_of(path)


def _only(offers: Sequence[Offer]) -> str:
    names = [each.name for each in offers]
    if len(names) != 1:
        have = f"there are {', '.join(names)}" if names else "there is nothing to fetch"
        raise NoSuchDataset(f"name the dataset; {have}")
    return names[0]


def _refusal(error: HTTPError) -> Exception:
    """Return our error for an answer of the service; its words are made for recipients."""
    try:
        words = str(json.loads(error.read(10_000))["message"])
    except (OSError, ValueError, KeyError, TypeError):
        words = f"the service answered with status {error.code}"
    kinds: dict[int, type[Exception]] = {401: AccessDenied, 403: AccessDenied, 404: NoSuchDataset}
    return kinds.get(error.code, SourceError)(words)
