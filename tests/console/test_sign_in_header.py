"""Sign-in by the header of a proxy: believed from those that were named, once, and no other way."""

import http.client
from urllib.parse import urlsplit

import pytest

from cornerwave import cli
from cornerwave.access import FIRST, OWNER, VIEWER, Owners
from cornerwave.errors import VaultError
from cornerwave.server import SignInHeader, _proxy
from cornerwave.server._page import address_of
from tests.console.conftest import FROM_HERE, PASSWORD, World, sign_in_as
from tests.server.conftest import serving

HEADER = "X-Forwarded-User"
PUBLIC = "https://data.example.org"
PROXY, LOCAL_IP = "10.0.0.2", "127.0.0.1"


@pytest.fixture
def behind(world: World) -> World:
    """A service behind a proxy, with an owner and a viewer who have set no password."""
    world.app.state.public_url = PUBLIC
    world.app.state.sign_in_header = SignInHeader.of(HEADER, [PROXY, "10.1.0.0/24"])
    for name, role in (("anna@example.org", OWNER), ("cora", VIEWER), ("jörg", OWNER)):
        Owners(world.vault.under(FIRST)).add(name, role=role)
    return world


def asked(world, name, *, peer=PROXY, path="/console", method="GET", headers=None, data=None):
    browser = world.browser(PUBLIC, peer=peer)
    values = [name] if isinstance(name, str) else name
    given = [(HEADER, each.encode()) for each in values]
    given += [*FROM_HERE.items(), *(headers or {}).items()]
    browser.headers.clear()
    return browser.request(method, path, headers=given, data=data)


def test_the_proxy_states_who_it_is(behind: World):
    answer = asked(behind, "anna@example.org")
    assert answer.status_code == 200
    assert "anna@example.org" in answer.text
    assert "Sign out" not in answer.text  # the proxy does that
    assert "set-cookie" not in answer.headers
    assert "jörg" in asked(behind, "jörg").text
    fields = {"name": "first"}
    to = {"path": "/console/recipients", "method": "POST", "data": fields}
    assert asked(behind, "cora", **to).status_code == 403
    assert asked(behind, "anna@example.org", **to).status_code == 303
    assert behind.vault.acts()[-1].who == "anna@example.org"
    Owners(behind.vault.under(FIRST)).remove("anna@example.org")
    assert asked(behind, "anna@example.org").status_code == 403


@pytest.mark.parametrize("peer", ["10.0.0.3", "127.0.0.1", "::1", "10.1.1.1", "", "testclient"])
def test_the_header_is_refused_from_elsewhere(behind: World, peer):
    for name in ("anna@example.org", FIRST, "nobody", ""):
        assert asked(behind, name, peer=peer).status_code == 403
        assert asked(behind, name, peer=peer, path="/console/sign-in").status_code == 403
    assert asked(behind, [], peer=peer).status_code == 303  # without it: sign in
    for proxy in (PROXY, "10.1.0.77", f"::ffff:{PROXY}"):  # the control
        assert asked(behind, "anna@example.org", peer=proxy).status_code == 200


@pytest.mark.parametrize(
    "names",
    [
        ["anna@example.org", "anna@example.org"],
        ["cora", "anna@example.org"],
        ["cora, anna@example.org"],
        ["nobody"],
        ["ANNA@example.org"],
        [""],
    ],
)
def test_what_is_not_the_name_of_one_owner_is_refused(behind: World, names):
    assert asked(behind, names).status_code == 403
    to = {"path": "/console/recipients", "method": "POST", "data": {"name": "first"}}
    assert asked(behind, names, **to).status_code == 403
    assert "first" not in behind.sharing.recipients()


def test_it_counts_before_a_session_and_a_session_without_it(behind: World):
    browser = behind.browser(PUBLIC, peer=PROXY)
    secret = Owners(behind.vault.under(FIRST)).new_link("cora")
    fields = {"link": secret, "password": PASSWORD, "again": PASSWORD}
    assert browser.post("/console/welcome", data=fields).status_code == 303
    assert "cora" in browser.get("/console").text
    assert "anna@example.org" in browser.get("/console", headers={HEADER: "anna@example.org"}).text
    assert browser.get("/console", headers={HEADER: "nobody"}).status_code == 403
    elsewhere = behind.browser(PUBLIC, peer="10.0.0.9")
    elsewhere.cookies = browser.cookies
    assert elsewhere.get("/console").status_code == 200
    assert elsewhere.get("/console", headers={HEADER: "cora"}).status_code == 403


def test_forms_of_other_sites_are_refused_behind_a_proxy_too(behind: World):
    to = {"path": "/console/recipients", "method": "POST", "data": {"name": "first"}}
    other = {"sec-fetch-site": "cross-site"}
    browser = behind.browser(PUBLIC, peer=PROXY)
    given = {**other, HEADER: "anna@example.org"}
    assert browser.post(to["path"], data=to["data"], headers=given).status_code == 403
    assert behind.sharing.recipients() == ["partner", "university"]


def test_without_the_option_the_header_means_nothing(world: World):
    browser = sign_in_as(world, "anna", OWNER)
    stranger = world.browser()
    assert stranger.get("/console", headers={HEADER: "anna"}).status_code == 303
    assert browser.get("/console", headers={HEADER: "nobody"}).status_code == 200


@pytest.mark.parametrize("peer_counts", [True, False])
def test_no_header_makes_a_client_a_proxy(behind: World, monkeypatch, peer_counts):
    """The client is taken from X-Forwarded-For; who is at the other end is what counts here."""
    found = {}
    if not peer_counts:  # the control: a service that looks at the client instead
        monkeypatch.setattr(_proxy, "peer_of", address_of)
    with serving(behind.app, lifespan="off") as url:
        for proxies in ([PROXY], [LOCAL_IP]):
            behind.app.state.sign_in_header = SignInHeader.of(HEADER, proxies)
            line = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
            sent = {HEADER: "anna@example.org", "X-Forwarded-For": PROXY, **FROM_HERE}
            line.request("GET", "/console", headers=sent)
            found[proxies[0]] = line.getresponse().status
            line.close()
    assert found == ({PROXY: 403, LOCAL_IP: 200} if peer_counts else {PROXY: 200, LOCAL_IP: 403})


@pytest.mark.parametrize(
    ("name", "proxies"),
    [
        ("Cookie", ["127.0.0.1"]),
        ("X-Forwarded-For", ["127.0.0.1"]),
        ("two words", ["127.0.0.1"]),
        ("", ["127.0.0.1"]),
        (HEADER, []),
        (HEADER, ["proxy.example.org"]),
        (HEADER, ["10.0.0.1/8"]),
    ],
)
def test_options_that_cannot_be_are_refused(name, proxies):
    with pytest.raises(VaultError):
        SignInHeader.of(name, proxies)


def test_the_command_wants_both_options(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for words in (["--sign-in-header", HEADER], ["--proxy", "127.0.0.1"]):
        with pytest.raises(SystemExit) as done:
            cli.main(["serve", *words])
        assert done.value.code == 2
        assert "--" in capsys.readouterr().err
