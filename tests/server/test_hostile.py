"""Hostile clients: too large, too slow, too many, and nonsense on every route."""

import random
import re
import socket
import string
from contextlib import suppress
from urllib.parse import quote, urlsplit

import httpx
import pytest

from cornerwave.access import Owners
from cornerwave.server import ClientLimits
from tests.server.conftest import serving
from tests.server.test_access_matrix import TABLE, routes_of
from tests.waiting import until

COPY = "/v1/datasets/wages/copy"
ASKED = {"dataset": "wages", "privacy": 0.7}


# --- sizes ----------------------------------------------------------------------------------


def test_a_body_that_is_too_large_or_malformed(served):
    def endless():
        for _ in range(200):
            yield b"x" * 1024

    with served.client("ann") as ann:
        post = ann.post
        assert post("/v1/requests", json={**ASKED, "reason": "x" * 400}).status_code == 201
        assert post("/v1/requests", json={**ASKED, "reason": "x" * 600}).status_code == 400
        assert post("/v1/requests", content=b"x" * 70_000).status_code == 413
        assert post("/v1/requests", content=endless()).status_code == 413
        for body in (b"", b"{", b"[]", b"null", b'{"dataset": 1}', b"\xff\xfe", b"[" * 20_000):
            refused = post("/v1/requests", content=body)
            assert refused.status_code == 400, body[:20]
            assert set(refused.json()) == {"errorCode", "message"}


@pytest.mark.parametrize(
    ("size", "where", "status"),
    [
        (7_000, "address", 404),
        (9_000, "address", 414),
        (9_000, "header", 404),
        (20_000, "header", 431),
    ],
)
def test_addresses_and_headers_that_are_too_long(served, size, where, status):
    path, headers = ("/" + "a" * size, {}) if where == "address" else ("/x", {"x-y": "a" * size})
    with served.client() as client:
        assert client.get(path, headers=headers).status_code == status


# --- time -----------------------------------------------------------------------------------


def connection(served):
    parts = urlsplit(served.url)
    return socket.create_connection((parts.hostname, parts.port), timeout=20)


def until_closed(opened):
    """Return what a server sends until it closes the connection; fails if it never does."""
    content = b""
    while True:
        try:
            more = opened.recv(1 << 16)
        except ConnectionResetError:
            return content
        if not more:
            return content
        content += more


@pytest.mark.service(head_seconds=0.3)
@pytest.mark.parametrize("sent", [b"", b"GET /heal", b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-a: "])
def test_a_head_that_never_ends_ends_the_connection(served, sent):
    with connection(served) as slow:
        slow.sendall(sent)
        assert until_closed(slow) == b""


@pytest.mark.service(head_seconds=0.3)
def test_a_second_head_that_never_ends(served):
    with connection(served) as slow:
        slow.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert b" 200 " in slow.recv(1 << 16)
        slow.sendall(b"GET /heal")
        assert b"HTTP" not in until_closed(slow)


def test_a_head_without_end_ends_the_connection(served):
    with connection(served) as large:
        with suppress(OSError):  # it may be closed before all is sent
            large.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-a: " + b"a" * 1_000_000)
        assert b" 200 " not in until_closed(large)


def test_many_requests_before_the_first_answer(served):
    asked = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
    with connection(served) as one:
        one.sendall(5 * asked + asked.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
        assert until_closed(one).count(b" 200 ") == 6
    pytest.importorskip("httptools")  # h11 reads one after the other
    with connection(served) as one:
        one.sendall(1000 * asked)
        assert until_closed(one).count(b" 200 ") <= ClientLimits().pipelined + 1


@pytest.mark.service(body_seconds=0.3)
def test_a_body_that_does_not_come(served):
    head = f"POST /v1/requests HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {served.tokens['ann']}"
    with connection(served) as slow:
        slow.sendall(f"{head}\r\ncontent-length: 100\r\nconnection: close\r\n\r\n{{".encode())
        assert b" 408 " in until_closed(slow)


@pytest.mark.service(stall_seconds=0.3)
def test_a_client_that_does_not_read_loses_its_connection(served):
    size = 30_000_000
    with served.client("ann") as ann:
        ann.get(COPY)
    [cached] = served.cached
    cached.write_bytes(bytes(size))  # as if it were a large copy
    asked = (
        f"GET {COPY} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {served.tokens['ann']}\r\n\r\n"
    )
    with connection(served) as idle:
        idle.sendall(asked.encode())
        # the access log has both answers when both have ended
        served.logged(lambda lines: [line.what for line in lines].count(f"GET {COPY}") == 2)
        assert len(until_closed(idle)) < size
    with served.client("ann") as ann:  # the control: one that reads gets all of it
        assert len(ann.get(COPY).content) == size


def test_too_many_connections_are_refused_and_do_no_harm(served):
    with serving(served.app, limit_concurrency=20, lifespan="off") as url:
        parts = urlsplit(url)
        address = (parts.hostname, parts.port)
        idle = [socket.create_connection(address) for _ in range(25)]
        until(lambda: httpx.get(f"{url}/healthz").status_code, lambda status: status == 503)
        for each in idle:
            each.close()
        until(lambda: httpx.get(f"{url}/healthz").status_code, lambda status: status == 200)


# --- nonsense -------------------------------------------------------------------------------

TEXTS = (
    "", " ", ".", "..", "../../etc/passwd", "..%2f..", "%00", "\0", "wages\0", "wages", "odd table",
    "' OR 1=1 --", "<script>alert(1)</script>",
    "{{7*7}}", "${7*7}", "%s%n", "\u202e", "\U0001f600",
    "-1", "0", "1e999", "nan", "inf", "-0.0", "9" * 400, "null", "true", "[]", "{}", "a" * 3000,
    "file:///etc/passwd", "http://127.0.0.1:1/", "//elsewhere", "\\\\host\\share", "cw_",
    "\r\nx: y",
)  # fmt: skip
HEADERS = {
    "range": ("bytes=", "bytes=-", "bytes=9-1", "bytes=0-0,1-1,2-2", "bytes=99999999999-",
              "bytes=" + "0-1," * 500, "pages=1", "bytes=a-b", "bytes=-99999999999"),
    "if-none-match": ('"x"', "*", "W/"),
    "if-range": ('"x"', "yesterday"),
    "content-type": ("application/json", "application/x-www-form-urlencoded", "multipart/form-data",
                     "multipart/form-data; boundary=x", "text/plain; charset=none", "/"),
    "delta-sharing-capabilities": ("responseformat=delta", "=;=;", "responseformat=" + "x" * 500),
    "host": ("[", "evil.example", "127.0.0.1:x", ""),
    "origin": ("null", "http://[", "https://evil.example"),
    "sec-fetch-site": ("cross-site", "same-origin", ""),
    "hx-request": ("true",),
    "expect": ("100-continue",),
    "x-forwarded-for": ("127.0.0.1, ::1",),
    "cookie": ("cornerwave=x; __Host-cornerwave=y", "=" * 50),
}  # fmt: skip
BODIES = (
    b"", b"{", b"[" * 500, b'{"dataset": {}, "privacy": []}', b'{"privacy": 1e999, "dataset": ""}',
    b'{"dataset": "wages", "privacy": NaN}', b"a=b&c=%zz&d", b"--x\r\n\r\n--x--", b"\xff" * 100,
    b"name=%00&privacy=nan&recipient=&until=9999-99-99",
    b"privacy=0.5&recipient=ann&until=0001-01-01",
    b'--x\r\ncontent-disposition: form-data; name="a"; filename="b"\r\n\r\nc\r\n--x--\r\n',
)  # fmt: skip
ALLOWED = {200, 201, 206, 303, 304, 400, 401, 403, 404, 405, 408, 409, 413, 414, 416, 422, 429, 431}


class Fuzzer:
    """Makes requests at random, from a seed."""

    def __init__(self, routes, seed):
        self._random, self._routes = random.Random(seed), routes

    def text(self):
        if self._random.random() < 0.2:
            return "".join(self._random.choices(string.printable, k=self._random.randrange(40)))
        return self._random.choice(TEXTS)

    def request(self):
        method, path = self._random.choice(self._routes)
        if self._random.random() < 0.1:
            method = self._random.choice(["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "FOO"])
        known = {
            "{share}": "cornerwave",
            "{schema}": "copies",
            "{table}": "wages",
            "{name}": "wages",
        }
        for part in re.findall(r"\{[^}]+\}", path):
            keep = part in known and self._random.random() < 0.5
            path = path.replace(part, known[part] if keep else quote(self.text(), safe=""), 1)
        names = (
            "format",
            "sp",
            "maxResults",
            "pageToken",
            "name",
            "path",
            "who",
            "p",
            "link",
            "next",
        )
        asked = [
            f"{self._random.choice(names)}={quote(self.text())}"
            for _ in range(self._random.randrange(3))
        ]
        chosen = self._random.sample(sorted(HEADERS), self._random.randrange(4))
        headers = {name: self._random.choice(HEADERS[name]) for name in chosen}
        body = self._random.choice(BODIES) if method not in ("GET", "HEAD") else b""
        return method, path + ("?" + "&".join(asked) if asked else ""), headers, body


def fuzzed(served, capfd, seeds):
    """Send nonsense as everybody; return the statuses."""
    app, found = served.app, set()
    signing_in = app.state.sign_in
    password = signing_in.use_link(
        Owners(served.sharing.vault).first_link(), "a password for tests"
    )
    session = signing_in.begin(password)
    everybody = {
        "ann": {"authorization": f"Bearer {served.tokens['ann']}"},
        "owner": {"cookie": f"cornerwave={session}", "sec-fetch-site": "same-origin"},
        "nobody": {},
    }
    routes = sorted(each for each in routes_of(app) if "sign-out" not in each[1])
    paths = (str(served.folder), "site-packages", "/src/cornerwave", "Traceback", 'File "')
    with served.client() as client:
        for seed in seeds:
            method, path, headers, body = Fuzzer(routes, seed).request()
            for who, more in everybody.items():
                try:
                    got = client.request(method, path, headers={**headers, **more}, content=body)
                except (httpx.InvalidURL, UnicodeEncodeError, httpx.LocalProtocolError):
                    break  # what this client cannot say
                found.add(got.status_code)
                what = (seed, who, method, path[:100], got.status_code)
                assert got.status_code in ALLOWED, what
                is_file = got.headers.get("content-type") == "application/octet-stream"
                assert is_file or not any(each in got.text for each in paths), what
        client.get("/the-end")
    lines = served.logged(lambda lines: "GET /the-end" in [line.what for line in lines[:1]])
    printed = "".join(capfd.readouterr()) + repr(lines)
    assert "internal fault" not in printed, printed[-3000:]
    assert not any(each in printed for each in paths)
    assert not any(text in printed for text in (session, served.tokens["ann"].split("_")[2]))
    return found


NO_WAITING = pytest.mark.service(false_tokens=10**6, wrong_passwords=10**6)


@NO_WAITING
def test_nonsense_on_every_route_is_refused_in_words(served, capfd):
    found = fuzzed(served, capfd, range(120))
    assert {200, 400, 401, 403, 404, 405} <= found  # it gets everywhere


@NO_WAITING
@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 4000, 1000))
def test_much_nonsense(served, capfd, first):
    fuzzed(served, capfd, range(10_000 + first, 11_000 + first))


def test_requests_that_are_not_http(served):
    for sent in (
        b"\0" * 50 + b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nx: " + b"a" * 100_000,
        b"\x16\x03\x01\x02\x00\x01" + bytes(200),
        b"GET /healthz HTTP/1.1\r\nhost: x\r\nhost: y\r\n\r\n",
        b"POST /v1/requests HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/requests HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n"
        b"transfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
    ):
        with connection(served) as strange:
            strange.sendall(sent)
            strange.shutdown(socket.SHUT_WR)
            answer = until_closed(strange)
        assert answer.count(b"HTTP/1.1 ") <= 1, sent  # nothing was smuggled in
        assert b" 500 " not in answer
    with served.client() as client:
        assert client.get("/healthz").status_code == 200


def test_a_query_is_answered_whatever_its_hints_say(served):
    hints = ({}, {"limitHint": -1}, {"predicateHints": ["x" * 1000]}, {"jsonPredicateHints": "{"})
    with served.client("ann") as ann:
        for hint in hints:
            assert ann.post(f"{TABLE}/query", json=hint).status_code == 200
