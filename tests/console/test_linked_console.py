"""Linked tables in the console and over Delta Sharing: granted, listed and read together."""

import json

import pytest
from starlette.testclient import TestClient

from cornerwave.access import LIVE
from cornerwave.levels import Privacy
from tests.console.conftest import World
from tests.test_linked_copies import clinic

SHARE = "/delta-sharing/shares/cornerwave"


@pytest.fixture
def linked(world: World) -> World:
    patients, visits = clinic(600)
    for name, frame in (("patients", patients), ("visits", visits)):
        frame.to_parquet(world.tables / f"{name}.parquet")
    world.vault.register_linked(
        "clinic",
        {name: world.tables / f"{name}.parquet" for name in ("patients", "visits")},
        unit="patient",
        key="visit",
        drop=["day"],
    )
    return world


def live(world: World) -> list[tuple[str, int]]:
    names = {each.id: each.name for each in world.vault.datasets()}
    found = world.sharing.grants(recipient="partner")
    return [
        (names[each.dataset], each.spec.level.thousandths)
        for each in found
        if each.state(world.clock()) == LIVE
    ]


def test_the_console_lists_linked_tables_together_and_grants_all(
    linked: World, owner: TestClient
) -> None:
    page = owner.get("/console").text
    assert "clinic: 2 linked tables" in page
    assert page.index("clinic: 2 linked tables") < page.index("clinic.patients</a>")
    chosen = linked.vault.linked("clinic")
    place = f"/console/datasets/{chosen['visits'].id}"
    assert "one of the linked tables clinic" in owner.get(place).text
    fields = {"recipient": "partner", "privacy": "0.5"}
    assert owner.post(f"{place}/grant", data=fields).status_code == 303
    (one, level), (two, same) = live(linked)
    assert {one, two} == {"clinic.patients", "clinic.visits"}
    assert level == same
    assert owner.post(f"{place}/revoke", data=fields).status_code == 303
    assert live(linked) == []


def test_linked_tables_are_one_schema_of_delta_sharing(linked: World) -> None:
    linked.sharing.grant_linked("clinic", "partner", privacy=0.5)
    linked.sharing.grant("people", "partner", privacy=0.5)
    token = linked.sharing.new_token("partner", days=1)
    client = TestClient(linked.app, headers={"Authorization": f"Bearer {token}"})
    schemas = client.get(f"{SHARE}/schemas").json()["items"]
    assert {each["name"] for each in schemas} == {"copies", "clinic"}
    tables = client.get(f"{SHARE}/schemas/clinic/tables").json()["items"]
    assert [each["name"] for each in tables] == ["patients", "visits"]
    alone = client.get(f"{SHARE}/schemas/copies/tables").json()["items"]
    assert [each["name"] for each in alone] == ["people"]
    assert len(client.get(f"{SHARE}/all-tables").json()["items"]) == 3
    answer = client.get(f"{SHARE}/schemas/clinic/tables/visits/metadata")
    about = json.loads(answer.text.splitlines()[1])["metaData"]
    assert "cost" in about["schemaString"]
    for path in ("copies/tables/visits/metadata", "clinic/tables/people/metadata", "ward/tables"):
        assert client.get(f"{SHARE}/schemas/{path}").status_code == 404
    # somebody who may not read them does not learn that they exist
    other = linked.sharing.new_token("university", days=1)
    client = TestClient(linked.app, headers={"Authorization": f"Bearer {other}"})
    names = [each["name"] for each in client.get(f"{SHARE}/schemas").json()["items"]]
    assert names == ["copies"]
    assert client.get(f"{SHARE}/schemas/clinic/tables").status_code == 404


def test_ended_grants_are_those_of_all_tables(linked: World) -> None:
    linked.sharing.grant_linked("clinic", "partner", privacy=0.8)
    assert len(live(linked)) == 2
    linked.sharing.grant_linked("clinic", "partner", privacy=0.5)
    assert len(live(linked)) == 2  # they replace the others
    linked.sharing.revoke("clinic", "partner")
    assert live(linked) == []


def test_approving_a_request_for_one_table_grants_all(linked: World, owner: TestClient) -> None:
    """By the name of all, or of one of them: at one level, the least that all of them reach."""
    sharing = linked.sharing
    chosen = linked.vault.linked("clinic")
    for name in ("clinic", "clinic.visits"):
        asked = sharing.ask("partner", name, privacy=0.6, reason="for a thesis")
        place = f"/console/datasets/{chosen['patients'].id}"
        page = owner.get(place).text
        assert "asks for all tables of clinic at privacy 0.6" in page
        [alone, *_] = sharing.foreseen(asked)
        level = chosen.level_of(Privacy(0.6))
        assert (alone.before, alone.after) == (1.0, chosen.privacy_of(level))
        fields = {"request": asked.id, "asked": "0.6", "privacy": "0.6", "act": "approve"}
        assert owner.post(f"{place}/answer", data=fields).status_code == 303
        held = [("clinic.patients", level.thousandths), ("clinic.visits", level.thousandths)]
        assert sorted(live(linked)) == held
        assert "asks for all tables" not in owner.get(place).text
        sharing.revoke("clinic", "partner")
    # a single dataset is granted alone
    asked = sharing.ask("partner", "people", privacy=0.5)
    sharing.answer(asked.id)
    assert [name for name, _ in live(linked)] == ["people"]
