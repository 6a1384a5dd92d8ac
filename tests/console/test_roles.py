"""Who may do what in the console: one table over every route; a route that is not in it fails."""

import re

import pytest

from cornerwave.access import (
    APPROVER,
    FIRST,
    OWNER,
    ROLES,
    VIEWER,
    Approvals,
    Owners,
    Person,
    Sharing,
)
from cornerwave.errors import ApprovalNeeded
from tests.console.conftest import PASSWORD, World, sign_in_as
from tests.console.test_sign_in import OPEN, console_routes

NAMES = {OWNER: "anna", APPROVER: "bea", VIEWER: "cora"}
LEAST_ROLE = {
    # route: the least role that may
    "GET /console": VIEWER,
    "GET /console/": VIEWER,
    "GET /console/datasets/{id}": VIEWER,
    "POST /console/datasets/{id}/grant": OWNER,
    "POST /console/datasets/{id}/revoke": OWNER,
    "POST /console/datasets/{id}/answer": APPROVER,
    "POST /console/decline": APPROVER,
    "POST /console/second": APPROVER,
    "GET /console/datasets/{id}/report": VIEWER,
    "GET /console/datasets/{id}/dossier.html": VIEWER,
    "GET /console/ledger": VIEWER,
    "GET /console/ledger/public-key.pem": VIEWER,
    "POST /console/ledger": VIEWER,
    "GET /console/ledger/heads.txt": VIEWER,
    "GET /console/recipients": VIEWER,
    "POST /console/recipients": OWNER,
    "GET /console/recipient": VIEWER,
    "POST /console/recipient/terms": OWNER,
    "POST /console/recipient/remove": OWNER,
    "POST /console/recipient/token": OWNER,
    "POST /console/recipient/token/end": OWNER,
    "POST /console/recipient/profile": OWNER,
    "GET /console/log": VIEWER,
    "GET /console/log.csv": VIEWER,
    "GET /console/register": OWNER,
    "GET /console/register/columns": OWNER,
    "POST /console/register/schema": OWNER,
    "POST /console/register/columns": OWNER,
    "POST /console/datasets/{id}/grow": OWNER,
    "GET /console/datasets/{id}/schema.toml": VIEWER,
    "POST /console/datasets/{id}/close": OWNER,
    "POST /console/datasets/{id}/unregister": OWNER,
    "GET /console/datasets/{id}/explore": VIEWER,
    "GET /console/datasets/{id}/explore/part": VIEWER,
    "GET /console/datasets/{id}/privacy": VIEWER,
    "GET /console/datasets/{id}/privacy/part": VIEWER,
    "GET /console/password": VIEWER,
    "POST /console/password": VIEWER,
    "POST /console/sign-out": VIEWER,
}
LAST = ("POST /console/datasets/{id}/unregister", "POST /console/sign-out")
"""After these there is nothing left to look at."""


def routes_in(world):
    for method, path in console_routes(world.app.routes):
        if path not in OPEN:
            yield f"{method} {path}"


def refused(world, browser):
    """Send an empty form to every route; return those that a role is needed for."""
    found = set()
    for route in sorted(LEAST_ROLE, key=lambda each: (each in LAST, each)):
        method, path = route.split()
        answer = browser.request(method, path.replace("{id}", world.people.id), data={})
        if answer.status_code == 403 and "needs the role" in answer.text:
            found.add(route)
        else:
            assert answer.status_code in (200, 303, 400, 403, 404), (route, answer.status_code)
    return found


def test_every_route_is_in_the_table(world: World):
    assert set(routes_in(world)) == set(LEAST_ROLE)


@pytest.mark.parametrize("role", ROLES)
def test_the_server_refuses_what_a_role_may_not_do(world: World, role):
    browser = sign_in_as(world, NAMES[role], role)
    wanted = {
        route for route, least in LEAST_ROLE.items() if ROLES.index(least) < ROLES.index(role)
    }
    assert refused(world, browser) == wanted
    assert bool(wanted) == (role != OWNER)
    if role != OWNER:  # and nothing was done
        assert [each.name for each in world.vault.datasets()] == ["people"]
        assert not world.vault.dataset("people").closed


def test_the_table_notices_a_server_that_refuses_nothing(world: World, monkeypatch):
    browser = sign_in_as(world, "cora", VIEWER)
    monkeypatch.setattr(Person, "may", lambda self, role: True)
    assert refused(world, browser) == set()


def forms(page):
    return set(re.findall(r'<form method="post" action="/console([^"]*)"', page.text))


def test_pages_show_the_forms_that_a_role_may_send(world: World):
    world.sharing.grant("people", "partner", privacy=0.5)
    world.sharing.new_token("partner", days=3)
    world.sharing.ask("university", "people", privacy=0.4)
    world.sharing.ask("university", "nothing", privacy=0.4)
    here = f"/datasets/{world.people.id}"
    approvals = Approvals(world.vault.under(FIRST))
    approvals.change(below=0.3)
    with pytest.raises(ApprovalNeeded):
        Sharing(world.vault.under(FIRST)).grant("people", "university", privacy=0.2)
    pages = ["", here, "/recipients", "/recipient?name=partner", "/ledger", "/log", "/password"]
    pages += [f"{here}/explore", f"{here}/privacy", f"{here}/report"]
    shown = {}
    for role, name in NAMES.items():
        browser = sign_in_as(world, name, role)
        shown[role] = set().union(*(forms(browser.get(f"/console{page}")) for page in pages))
        assert all(name in browser.get(f"/console{page}").text for page in pages)
    routes = {f"POST /console{p.replace(world.people.id, '{id}')}" for p in shown[OWNER]}
    elsewhere = {"columns", "schema", "profile"}  # forms of pages that come after another form
    posts = {r for r in LEAST_ROLE if r.startswith("POST") and r.rsplit("/", 1)[1] not in elsewhere}
    assert routes == posts
    for role, found in shown.items():
        for path in found:
            least = LEAST_ROLE[f"POST /console{path.replace(world.people.id, '{id}')}"]
            assert ROLES.index(least) >= ROLES.index(role), (role, path)
    assert shown[VIEWER] == {"/sign-out", "/password", "/ledger"}
    assert shown[APPROVER] == shown[VIEWER] | {"/decline", "/second", f"{here}/answer"}


def test_each_signs_in_by_their_own_name_and_password(world: World):
    sign_in_as(world, "anna", OWNER)
    for name, password, status in (
        ("anna", PASSWORD, 303),
        ("anna", "another password", 403),
        (FIRST, PASSWORD, 403),  # has set none
        ("nobody", PASSWORD, 403),
    ):
        fields = {"username": name, "password": password}
        assert world.browser().post("/console/sign-in", data=fields).status_code == status, name


def test_a_link_is_for_one_person(world: World):
    owners = Owners(world.vault.under(FIRST))
    old, secret = owners.add("anna", role=VIEWER), owners.new_link("anna")
    browser = world.browser()
    assert browser.get("/console/welcome", params={"link": old}).status_code == 403
    assert "anna" in browser.get("/console/welcome", params={"link": secret}).text
    fields = {"link": secret, "password": PASSWORD, "again": PASSWORD}
    assert browser.post("/console/welcome", data=fields).status_code == 303
    assert world.browser().post("/console/welcome", data=fields).status_code == 403
    assert browser.get("/console/register").status_code == 403


def test_a_new_password_ends_the_sessions_of_its_owner_alone(world: World):
    anna, bea = sign_in_as(world, "anna", OWNER), sign_in_as(world, "bea", VIEWER)
    fields = {"old": PASSWORD, "password": "a newer password", "again": "a newer password"}
    assert bea.post("/console/password", data=fields).status_code == 303
    assert anna.get("/console").status_code == 200
    given = {"username": "bea", "password": PASSWORD}
    assert world.browser().post("/console/sign-in", data=given).status_code == 403


def test_who_is_removed_or_gets_another_role_is_at_once(world: World):
    anna, bea = sign_in_as(world, "anna", OWNER), sign_in_as(world, "bea", VIEWER)
    owners = Owners(world.vault.under("anna"))
    assert bea.post("/console/recipients", data={"name": "first"}).status_code == 403
    owners.add("bea", role=OWNER)
    assert bea.post("/console/recipients", data={"name": "first"}).status_code == 303
    owners.remove("bea")
    assert bea.get("/console").headers["location"].startswith("/console/sign-in")
    given = {"username": "bea", "password": PASSWORD}
    assert world.browser().post("/console/sign-in", data=given).status_code == 403
    assert anna.get("/console").status_code == 200


def test_the_ledger_states_who_did_what_in_the_console(world: World):
    anna, bea = sign_in_as(world, "anna", OWNER), sign_in_as(world, "bea", APPROVER)
    here = f"/console/datasets/{world.people.id}"
    anna.post(f"{here}/grant", data={"recipient": "partner", "privacy": "0.5"})
    anna.post(f"{here}/revoke", data={"recipient": "partner"})
    anna.post("/console/recipient/token", data={"name": "partner", "days": "3"})
    asked = world.sharing.ask("university", "people", privacy=0.4)
    fields = {"request": asked.id, "privacy": "0.4", "asked": "0.4", "act": "approve"}
    assert bea.post(f"{here}/answer", data=fields).status_code == 303
    bea.post(f"{here}/revoke", data={"recipient": "university"})  # refused
    anna.post(f"{here}/close", data={})
    did = [(act.who, act.what, act.about) for act in world.vault.acts() if act.who != FIRST]
    [token] = world.sharing.tokens("partner")
    assert did == [
        ("anna", "granted people to partner at privacy 0.5", ""),
        ("anna", "revoked people from partner", ""),
        ("anna", f"made the token {token.id} for partner", ""),
        ("bea", f"approved the request {asked.id} of university for people at privacy 0.4", ""),
        ("anna", "closed", "people"),
    ]
    page = anna.get("/console/ledger").text
    assert "approved the request" in page
    assert "The ledger is whole" in page
    world.app.state.service.log.flush()
    assert {"anna", "bea"} <= {line.who for line in world.sharing.accesses()}


def test_one_asks_in_the_console_and_another_approves(world: World):
    Approvals(world.vault.under(FIRST)).change(below=0.5)
    anna, bea = sign_in_as(world, "anna", OWNER), sign_in_as(world, "bea", APPROVER)
    cora = sign_in_as(world, "cora", VIEWER)
    here = f"/console/datasets/{world.people.id}"
    answer = anna.post(f"{here}/grant", data={"recipient": "partner", "privacy": "0.4"})
    assert answer.status_code == 303
    assert world.sharing.grants() == []
    [waits] = Approvals(world.vault).waiting()
    for browser in (anna, bea, cora):
        for page in ("/console", here):
            text = browser.get(page).text
            assert "grant people to partner at privacy 0.4" in text
            assert ("Approve</button>" in text) == (browser is bea)
    fields = {"proposal": waits.id, "act": "approve"}
    assert anna.post("/console/second", data=fields).status_code == 403
    assert cora.post("/console/second", data=fields).status_code == 403
    assert world.sharing.grants() == []
    assert bea.post("/console/second", data=fields).status_code == 303
    assert [each.recipient for each in world.sharing.grants()] == ["partner"]
    assert bea.post("/console/second", data=fields).status_code == 400
    did = [(act.who, act.what) for act in world.vault.acts()][-2:]
    assert [who for who, _ in did] == ["anna", "bea"]
    assert all(waits.id in what for _, what in did)
    asked = world.sharing.ask("university", "people", privacy=0.3)
    fields = {"request": asked.id, "privacy": "0.3", "asked": "0.3", "act": "approve"}
    assert bea.post(f"{here}/answer", data=fields).status_code == 303
    assert len(world.sharing.grants()) == 1
    [waits] = Approvals(world.vault).waiting()
    anna.post("/console/second", data={"proposal": waits.id, "act": "approve"})
    assert len(world.sharing.grants()) == 2
    assert world.sharing.requests()[-1].state == "approved"
