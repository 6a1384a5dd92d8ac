"""Who gets in where: one table over every route; a route that is not in it fails."""

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from cornerwave.ledger import Terms, now

DELTA = "/delta-sharing/shares/cornerwave"
TABLE = f"{DELTA}/schemas/copies/tables/wages"
WHO = ("ann", "eve", "expired", "revoked", "false", "nobody")
"""ann has a grant of `wages`, eve none; the others have tokens that opened once, or none."""
OPEN, TOKEN, GRANT = "open", "token", "grant"

ROUTES = {
    # route: (method, address, who gets in)
    "GET /healthz": ("GET", "/healthz", "whatever"),
    "GET /openapi.json": ("GET", "/openapi.json", "whatever"),
    "GET /docs": ("GET", "/docs", "whatever"),
    "GET /": ("GET", "/", "elsewhere"),
    "GET /v1/datasets": ("GET", "/v1/datasets", OPEN),
    "GET /v1/datasets/{name:path}": ("GET", "/v1/datasets/wages", GRANT),
    "GET /v1/datasets/{name:path}/copy": ("GET", "/v1/datasets/wages/copy", GRANT),
    "HEAD /v1/datasets/{name:path}/copy": ("HEAD", "/v1/datasets/wages/copy", GRANT),
    "GET /v1/requests": ("GET", "/v1/requests", TOKEN),
    "POST /v1/requests": ("POST", "/v1/requests", "asking"),
    "GET /delta-sharing/shares": ("GET", "/delta-sharing/shares", TOKEN),
    "GET /delta-sharing/shares/{share}": ("GET", DELTA, TOKEN),
    "GET /delta-sharing/shares/{share}/schemas": ("GET", f"{DELTA}/schemas", TOKEN),
    "GET /delta-sharing/shares/{share}/schemas/{schema}/tables": (
        "GET",
        f"{DELTA}/schemas/copies/tables",
        TOKEN,
    ),
    "GET /delta-sharing/shares/{share}/all-tables": ("GET", f"{DELTA}/all-tables", TOKEN),
    "GET /delta-sharing/shares/{share}/schemas/{schema}/tables/{table}/version": (
        "GET",
        f"{TABLE}/version",
        GRANT,
    ),
    "HEAD /delta-sharing/shares/{share}/schemas/{schema}/tables/{table}": ("HEAD", TABLE, GRANT),
    "GET /delta-sharing/shares/{share}/schemas/{schema}/tables/{table}/metadata": (
        "GET",
        f"{TABLE}/metadata",
        GRANT,
    ),
    "POST /delta-sharing/shares/{share}/schemas/{schema}/tables/{table}/query": (
        "POST",
        f"{TABLE}/query",
        GRANT,
    ),
    "GET /delta-sharing/files/{name}": ("GET", "/delta-sharing/files/x.parquet?sp=x.y", "signed"),
    "HEAD /delta-sharing/files/{name}": ("HEAD", "/delta-sharing/files/x.parquet?sp=x.y", "signed"),
}
EXPECTED = {
    # who gets in: status for each of WHO
    "whatever": (200,) * 6,
    "elsewhere": (303,) * 6,
    OPEN: (200, 200, 401, 401, 401, 200),
    TOKEN: (200, 200, 401, 401, 401, 401),
    GRANT: (200, 404, 401, 401, 401, 404),
    "delta grant": (200, 404, 401, 401, 401, 401),
    "asking": (201, 201, 401, 401, 401, 401),  # also for what does not exist
    "signed": (401,) * 6,
}
ASKED = {"dataset": "wages", "privacy": 0.7}


def routes_of(router):
    """Every method and path, also of routers that are part of another."""
    for route in router.routes:
        if within := getattr(route, "original_router", None):
            yield from routes_of(within)
        else:
            yield from ((method, route.path) for method in route.methods)


def test_every_route_is_in_the_table(served):
    found = {
        f"{method} {path}"
        for method, path in routes_of(served.app)
        if not path.startswith("/console")  # for the owner: tests/console/test_sign_in.py
    }
    assert found - {"HEAD /openapi.json"} == set(ROUTES)


def test_every_route_is_documented(served):
    text = (Path(__file__).parents[2] / "docs" / "service.md").read_text(encoding="utf-8")
    for _, path in routes_of(served.app):
        if path.startswith(("/v1", "/docs", "/openapi.json", "/healthz")):
            assert path.replace("{name:path}", "NAME") in text, path


@pytest.fixture
def outsiders(served):
    sharing = served.sharing
    for who in ("expired", "revoked"):
        sharing.add(who)
        sharing.grant("wages", who, privacy=0.6)
    served.tokens["expired"] = sharing.new_token("expired", days=0.5)
    served.tokens["revoked"] = sharing.new_token("revoked", days=1)
    sharing.remove("revoked")
    served.tokens["false"] = served.tokens["ann"][:-1] + "x"
    served.clock.ahead = timedelta(days=0.6)  # ends the one of half a day alone
    return served


@pytest.mark.service(false_tokens=1000)  # who guesses is below
@pytest.mark.parametrize("place", range(len(WHO)), ids=WHO)
def test_the_matrix(outsiders, place):
    who, found = WHO[place], {}
    with outsiders.client(None if who == "nobody" else who) as client:
        for route, (method, address, _) in ROUTES.items():
            body = ASKED if address == "/v1/requests" and method == "POST" else None
            found[route] = client.request(method, address, json=body).status_code
    wanted = {route: _expected(route, kind)[place] for route, (_, _, kind) in ROUTES.items()}
    assert found == wanted


def _expected(route, kind):
    return EXPECTED["delta grant" if kind == GRANT and "delta-sharing" in route else kind]


def query(served, who):
    with served.client(who) as client:
        text = client.post(f"{TABLE}/query").text
    return re.search(r'"url":"([^"]+)"', text)[1]


def test_a_signed_address_opens_without_a_header_until_its_grant_ends(served):
    address = query(served, "ann")
    with served.client() as nobody:
        assert nobody.get(address).status_code == 200
        assert nobody.get(address.replace("sp=", "sp=x")).status_code == 401
        assert nobody.get(address[:-3] + "abc").status_code == 401
        served.sharing.revoke("wages", "ann")
        assert nobody.get(address).status_code == 401


def test_the_end_of_a_recipient_is_checked_with_every_request(served):
    """Their grant and their token have no end yet."""
    address = query(served, "ann")
    end = served.sharing.clock() + timedelta(minutes=5)
    served.sharing.change("ann", Terms.of(until=end))
    with served.client() as nobody, served.client("ann") as ann:
        for minutes, status in ((0, 200), (6, 401), (0, 200)):
            served.clock.ahead = timedelta(minutes=minutes)
            assert nobody.get(address).status_code == status
            assert ann.get("/v1/datasets").status_code == status


def test_a_signed_address_ends_with_its_time_and_with_its_token(served):
    address = query(served, "ann")
    with served.client() as nobody:
        for minutes, status in ((14, 200), (16, 401), (0, 200)):
            served.clock.ahead = timedelta(minutes=minutes)
            assert nobody.get(address).status_code == status, minutes
        for _ in range(2):  # two newer tokens end the first
            served.sharing.new_token("ann", days=1)
        assert nobody.get(address).status_code == 401


def test_two_tokens_live_at_a_time(served):
    sharing = served.sharing
    second = sharing.new_token("ann", days=1)
    assert sharing.bearer(served.tokens["ann"]).recipient == "ann"
    third = sharing.new_token("ann", days=1)
    states = [token.state(now()) for token in sharing.tokens("ann")]
    assert states == ["ended", "live", "live"]
    assert {sharing.bearer(text).recipient for text in (second, third)} == {"ann"}


def test_who_guesses_tokens_has_to_wait(served):
    with served.client("ann") as ann, served.client() as guesser:
        for _ in range(25):
            last = guesser.get("/v1/datasets", headers={"Authorization": "Bearer cw_x"}).status_code
        assert last == 429
        # a true token is not refused for what others try from the same address
        assert ann.get("/v1/datasets").status_code == 200


def test_a_token_of_the_owner_that_an_earlier_version_made_opens_nothing(served):
    served.sharing.grant("wages", "anybody with a token", privacy=0.9)
    records = served.sharing.vault.records
    with served.client("eve") as eve:
        assert eve.get("/v1/datasets/wages").status_code == 200  # the control
        [token] = records.find("token", of="eve")
        records.put(replace(token, of="the owner"))
        assert eve.get("/v1/datasets/wages").status_code == 401
