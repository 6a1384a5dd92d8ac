"""The owner's sign-in: no default password, one link, sessions, forms from here only."""

import re
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from argon2 import PasswordHasher, Type

from cornerwave.access import FIRST
from cornerwave.errors import AccessDenied
from cornerwave.server import SignIn, first_link
from cornerwave.vault import Vault
from tests.console.client import TestClient
from tests.console.conftest import LOCAL, PASSWORD, QUICK, World, sign_in


def secret_of(link):
    [secret] = parse_qs(urlsplit(link).query)["link"]
    return secret


def set_password(browser, secret, password=PASSWORD, again=None):
    fields = {"link": secret, "password": password, "again": again or password}
    return browser.post("/console/welcome", data=fields)


def test_there_is_no_password_until_the_link_was_used_and_it_works_once(world: World):
    browser = world.browser()
    assert "No password has been set" in browser.get("/console/sign-in").text
    for guess in ("", "admin", "password", "cornerwave"):
        assert browser.post("/console/sign-in", data={"password": guess}).status_code == 403
    secret = secret_of(first_link(world.vault, LOCAL))
    assert browser.get("/console/welcome", params={"link": secret}).status_code == 200
    assert set_password(browser, secret).status_code == 303
    assert browser.get("/console").status_code == 200
    assert first_link(world.vault, LOCAL) is None
    stranger = world.browser()
    assert stranger.get("/console/welcome", params={"link": secret}).status_code == 403
    assert set_password(stranger, secret, "another password").status_code == 403


def test_a_false_link_opens_nothing(world: World):
    first_link(world.vault, LOCAL)
    for false in ("", "x", "wrong" * 9):
        assert set_password(world.browser(), false).status_code == 403


def test_a_link_ends_with_the_next_one_and_with_time(world: World):
    old, new = (secret_of(first_link(world.vault, LOCAL)) for _ in range(2))
    assert set_password(world.browser(), old).status_code == 403
    world.clock.ahead = timedelta(hours=24, minutes=1)
    assert set_password(world.browser(), new).status_code == 403
    world.clock.ahead = timedelta(hours=23)
    assert set_password(world.browser(), new).status_code == 303


def test_a_weak_or_mistyped_password_is_refused_and_the_link_stays(world: World):
    secret = secret_of(first_link(world.vault, LOCAL))
    for password, again in (("short", "short"), ("a" * 40, "a" * 40), (PASSWORD, PASSWORD + "x")):
        assert set_password(world.browser(), secret, password, again).status_code == 400
    assert set_password(world.browser(), secret).status_code == 303


def test_only_an_argon2id_hash_is_kept(world: World, owner: TestClient):
    [kept] = world.vault.records.find("password", id="owner")
    assert kept.content["hash"].startswith("$argon2id$")
    assert (PasswordHasher().type, PasswordHasher().memory_cost) == (Type.ID, 64 * 1024)  # KiB
    assert PASSWORD not in str(kept)
    cookie = owner.cookies["cornerwave"]
    assert cookie not in str(world.vault.records.find("session"))


def test_the_cookie_is_a_host_cookie_over_https(world: World):
    sign_in(world, world.browser())
    browser = world.browser("https://console.example")
    answer = browser.post("/console/sign-in", data={"password": PASSWORD}).headers["set-cookie"]
    assert answer.startswith("__Host-cornerwave=")
    assert {"secure", "httponly", "samesite=strict", "path=/"} <= parts_of(answer)
    assert "domain" not in answer.lower()
    assert browser.get("/console").status_code == 200


def test_the_cookie_has_a_plain_name_on_loopback_alone(world: World):
    sign_in(world, world.browser())
    answer = world.browser().post("/console/sign-in", data={"password": PASSWORD})
    assert answer.headers["set-cookie"].startswith("cornerwave=")
    assert {"httponly", "samesite=strict", "path=/"} <= parts_of(answer.headers["set-cookie"])
    elsewhere = world.browser("http://console.example")
    assert elsewhere.get("/console/sign-in").status_code == 403
    refused = elsewhere.post("/console/sign-in", data={"password": PASSWORD})
    assert refused.status_code == 403
    assert "set-cookie" not in refused.headers


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:8000", "http://localhost:8000", "http://[::1]"]
)
def test_plain_http_is_for_the_serving_machine_whatever_the_host_header_says(world, address):
    sign_in(world, world.browser())
    fields = {"password": PASSWORD}
    for peer in ("192.168.1.7", "10.0.0.2", "::ffff:10.0.0.2", "fe80::1", "testclient", ""):
        refused = world.browser(address, peer=peer).post("/console/sign-in", data=fields)
        assert (refused.status_code, "set-cookie" in refused.headers) == (403, False), peer
    for peer in ("127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"):
        let_in = world.browser(address, peer=peer).post("/console/sign-in", data=fields)
        assert let_in.status_code == 303, peer


def test_what_a_proxy_on_the_serving_machine_passes_on_is_from_elsewhere(world: World):
    sign_in(world, world.browser())
    for header in ("X-Forwarded-For", "Forwarded", "Via", "X-Real-IP"):
        browser = world.browser()
        browser.headers[header] = "127.0.0.1"
        assert browser.get("/console/sign-in").status_code == 403, header
    world.app.state.public_url = "https://data.example.org"  # it ends TLS, as its owner says
    browser = world.browser(peer="10.0.0.2")
    browser.headers["X-Forwarded-For"] = "198.51.100.7"
    assert browser.get("/console/sign-in").status_code == 200


def parts_of(cookie):
    return {part.strip().lower() for part in cookie.split(";")}


def test_too_many_wrong_passwords_have_to_wait(world: World, owner: TestClient):
    stranger = world.browser()
    tries = [
        stranger.post("/console/sign-in", data={"password": "wrong"}).status_code
        for _ in range(8 + 2)
    ]
    assert tries == [403] * 8 + [429] * 2
    right = stranger.post("/console/sign-in", data={"password": PASSWORD})
    assert right.status_code == 429
    assert int(right.headers["retry-after"]) > 0
    assert owner.get("/console").status_code == 200  # who is in stays in


def test_a_session_ends_with_time(world: World, owner: TestClient):
    world.clock.ahead = timedelta(hours=11, minutes=59)
    assert owner.get("/console").status_code == 200
    world.clock.ahead = timedelta(hours=12, minutes=1)
    assert owner.get("/console").status_code == 303


def test_signing_out_ends_the_session_for_who_copied_the_cookie_too(world: World, owner):
    thief = world.browser()
    thief.cookies.set("cornerwave", owner.cookies["cornerwave"])
    assert thief.get("/console").status_code == 200
    assert owner.post("/console/sign-out").status_code == 303
    assert owner.get("/console").status_code == 303
    assert thief.get("/console").status_code == 303


def test_a_new_password_ends_every_other_session(world: World, owner: TestClient):
    other = sign_in(world, world.browser())
    wrong = {"old": "not it at all", "password": "a newer password", "again": "a newer password"}
    assert owner.post("/console/password", data=wrong).status_code == 400
    assert other.get("/console").status_code == 200
    assert owner.post("/console/password", data={**wrong, "old": PASSWORD}).status_code == 303
    assert owner.get("/console").status_code == 200
    assert other.get("/console").status_code == 303
    assert other.post("/console/sign-in", data={"password": PASSWORD}).status_code == 403


def test_a_lost_password_is_replaced_by_a_link_that_is_asked_for(world: World, owner: TestClient):
    secret = secret_of(first_link(world.vault, LOCAL, again=True))
    assert owner.get("/console").status_code == 200  # until it is used
    assert set_password(world.browser(), secret, "a newer password").status_code == 303
    assert owner.get("/console").status_code == 303


ORIGINS = [
    ({"sec-fetch-site": "same-site"}, 403),
    ({"sec-fetch-site": "cross-site"}, 403),
    ({"sec-fetch-site": "none"}, 403),
    ({"sec-fetch-site": "cross-site", "origin": LOCAL}, 403),
    ({"origin": "http://127.0.0.1:9999"}, 403),
    ({"origin": "https://evil.example"}, 403),
    ({"origin": "null"}, 403),
    ({}, 403),
    ({"sec-fetch-site": "same-origin"}, 303),
    ({"origin": LOCAL}, 303),
]


def test_forms_are_taken_from_the_console_alone(world: World, owner: TestClient):
    browser = world.browser()
    del browser.headers["sec-fetch-site"]
    browser.cookies.set("cornerwave", owner.cookies["cornerwave"])
    for number, (headers, status) in enumerate(ORIGINS):
        name = f"added {number}"
        answer = browser.post("/console/recipients", data={"name": name}, headers=headers)
        assert answer.status_code == status, headers
        assert (name in world.sharing.recipients()) == (status == 303), headers


OPEN = {"/console/static/{name}", "/console/welcome", "/console/sign-in"}


def console_routes(routes):
    for route in routes:
        if (router := getattr(route, "original_router", None)) is not None:
            yield from console_routes(router.routes)
        elif getattr(route, "path", "").startswith("/console"):
            for method in route.methods - {"HEAD"}:
                yield method, route.path


def test_no_page_is_shown_without_a_session(world: World, owner: TestClient):
    stranger, seen = world.browser(), 0
    stranger.cookies.set("cornerwave", "x" * 43)
    for method, path in console_routes(world.app.routes):
        if path in OPEN:
            continue
        at = path.replace("{id}", world.people.id)
        answer = stranger.request(method, at)
        assert answer.status_code == 303, (method, at)
        assert answer.headers["location"].startswith("/console/sign-in"), (method, at)
        part = stranger.request(method, at, headers={"hx-request": "true"})
        assert part.status_code == 401
        assert part.headers["hx-redirect"] == "/console/sign-in"
        if method == "GET":  # and with one it is
            assert owner.get(at).status_code in (200, 303, 400, 404), at
        seen += 1
    assert seen > 20


def test_signing_in_leads_nowhere_else(world: World, owner: TestClient):
    for sought, leads in (
        ("/console/log", "/console/log"),
        ("https://evil.example/", "/console"),
        ("//evil.example", "/console"),
        ("/console//evil", "/console"),
        ("/v1/datasets", "/console"),
        ("/console\\@evil", "/console"),
        ("/consolexyz", "/console"),
    ):
        fields = {"password": PASSWORD, "next": sought}
        answer = world.browser().post("/console/sign-in", data=fields)
        assert answer.headers["location"] == leads


def test_sign_in_is_kept_in_either_database(ledger_place, tmp_path):
    ledger = ledger_place if isinstance(ledger_place, str) else None
    vault = Vault.create(tmp_path / "other vault", ledger=ledger)
    one, other = (
        SignIn(vault, hasher=QUICK),
        SignIn(vault, hasher=QUICK),
    )  # as two processes of a service
    one.use_link(secret_of(first_link(vault, LOCAL)), PASSWORD)
    session = one.begin(other.check(PASSWORD))
    assert other.person(session).name == FIRST
    other.end(session)
    assert one.person(session) is None
    with pytest.raises(AccessDenied):
        other.check("something else")


def test_the_policy_forbids_what_is_inline_and_pages_are_not_kept(world: World, owner):
    answer = owner.get("/console")
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "style-src 'self'" in policy
    assert "unsafe" not in policy
    assert answer.headers["cache-control"] == "no-store"
    for address in re.findall(r'(?:href|src)="(/console/static/[^"]+)"', answer.text):
        assert owner.get(address).status_code == 200
    assert owner.get("/console/static/../_page.py").status_code == 404
