"""What a steward decides in the console: a privacy for a use, every choice, and the next wave."""

import json
import re
from html import unescape

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cornerwave.choices import DECLARED, SETTINGS
from cornerwave.levels import Privacy
from tests.console.client import TestClient
from tests.console.conftest import PASSWORD, World, sign_in_as
from tests.console.test_console_pages import columns_page, form_of, text_of

COLUMNS = "/console/register/columns"
APART = {"do-1": "category", "follows-1": ""}
"""The region is drafted as one that follows from the city: here it is a category of its own."""


@pytest.fixture
def towns(world: World):
    """A table whose city names its region."""
    rng = np.random.default_rng(2)
    city = rng.integers(0, 12, 1200)
    rows = {
        "city": [f"city {c}" for c in city],
        "region": [f"region {c // 4}" for c in city],
        "wage": rng.normal(3000, 400, 1200),
    }
    path = world.tables / "towns.parquet"
    pq.write_table(pa.table(rows), path)
    return path


# --- which privacy ------------------------------------------------------------------------


def test_the_slider_recommends_a_privacy_for_each_use(world: World, owner: TestClient):
    address = f"/console/datasets/{world.people.id}/privacy"
    page = owner.get(address).text
    found = dict(re.findall(r'privacy\?p=[\d.]+">(\w+): ([\d.]+)</a>', page))
    assert list(found) == ["internal", "partner", "public"]
    assert float(found["internal"]) < float(found["partner"]) < float(found["public"])
    part = text_of(owner.get(f"{address}/part?p={found['partner']}"))
    assert "partner keeps every limit" in part
    assert "not public" in part
    assert "(limit ±" in part
    lowest = text_of(owner.get(f"{address}/part?p=0.05"))
    assert all(f"not {use}" in lowest for use in found)
    # the figures are at a click
    assert "noise" not in page.partition("<details")[0].partition("<main")[2]


def test_without_its_table_the_slider_says_what_was_not_compared(world, owner, towns):
    made = world.vault.register("towns", towns)
    towns.rename(world.tables / "elsewhere.parquet")
    page = text_of(owner.get(f"/console/datasets/{made.id}/privacy"))
    assert "Not compared with the limits, since the table is not at its place: records" in page


# --- every choice -------------------------------------------------------------------------


def test_every_choice_of_a_schema_file_has_its_field(world: World, owner: TestClient, towns):
    page = columns_page(world, owner, towns).text
    names = set(re.findall(r'name="([^"]+)"', page))
    for choice in DECLARED.values():
        if choice.key == "do":
            assert f'value="{choice.value}"' in page, choice.name
        elif choice.name == "key_as_is":
            assert 'value="key as it is"' in page
        elif choice.name == "together":
            assert {"more_together"} <= names
        elif choice.is_of_column:
            ends = ("-low", "-high") if choice.name == "clip" else ("",)
            assert {f"{choice.name}{end}-2" for end in ends} <= names, choice.name
        else:
            assert choice.key in names, choice.name
    assert 'value="key hidden"' in page
    for name in SETTINGS:
        assert (f"read {name}" in names) is (name not in ("query", "order_by"))


def test_what_few_tables_need_is_registered_from_its_field(world: World, owner: TestClient):
    rng = np.random.default_rng(8)
    begun, held = rng.integers(0, 900, 900), rng.random(900) < 0.5
    age = rng.integers(20, 80, 900)
    rows = {
        "begun": pa.array(begun.astype(float)),
        "ended": pa.array(begun + rng.gamma(2, 20, 900)),
        "held": pa.array(np.where(held, "yes", "no")),
        "fine": pa.array(rng.gamma(2, 30, 900), mask=~held),
        "age": pa.array(age),
        "band": pa.array([f"{a // 20 * 20} and more" for a in age]),
    }
    path = world.tables / "jail.parquet"
    pq.write_table(pa.table(rows), path)
    plain = {f"do-{i}": "perturb" for i in (0, 1, 3, 4)} | {"do-2": "category", "do-5": "derive"}
    fields = {
        key: value
        for key, value in form_of(columns_page(world, owner, path).text).items()
        if not key.startswith(("relative_to", "present_if", "follows", "transform"))
    }
    chosen = {
        **fields, **plain, "name": "jail", "relative_to-1": "begun", "present_if-3": "held",
        "follows-5": "age", "describe-4": "Age in years, " + "at the last birthday " * 40,
        "order": "shuffle", "released_type-4": "int16",
    }  # fmt: skip
    done = owner.post(COLUMNS, data=chosen)
    assert done.status_code == 200, text_of(done)
    schema = world.vault.dataset("jail").frozen.schema
    assert schema.relative == {"ended": "begun"}
    assert schema.present_if == {"fine": "held"}
    assert schema.column("band").follows == "age"
    assert len(schema.column("age").describe) > 255
    assert schema.order == "shuffle"


def test_cells_are_read_as_the_form_states(world: World, owner: TestClient):
    rng = np.random.default_rng(3)
    path = world.tables / "odd.csv"
    rows = [
        f"{x:.2f};{y}" for x, y in zip(rng.normal(5, 1, 300), rng.permutation(300), strict=True)
    ]
    path.write_text("\n".join(["wage;id", *[row.replace(".", ",") for row in rows]]) + "\n")
    fields = form_of(columns_page(world, owner, path).text)
    again = owner.post(COLUMNS, data={**fields, "act": "read", "read missing": "-9,?"})
    assert again.status_code == 200, text_of(again)
    assert form_of(again.text)["read missing"] == "-9,?"
    wrong = owner.post(COLUMNS, data={**fields, "act": "read", "read encoding": "letters"})
    assert wrong.status_code == 400
    assert "encoding 'letters' is not known" in text_of(wrong)
    chosen = {**form_of(again.text), "do-1": "key", "do-0": "perturb", "name": "odd"}
    done = owner.post(COLUMNS, data=chosen)
    assert done.status_code == 200, text_of(done)
    assert world.vault.dataset("odd").frozen.reading.missing == ("-9", "?")


# --- columns that are refreshed as one, and other choices afterwards ------------------------


def test_a_trial_offers_to_refresh_columns_as_one(world: World, owner: TestClient, towns):
    fields = {**form_of(columns_page(world, owner, towns).text), "name": "towns", **APART}
    tried = owner.post(COLUMNS, data={**fields, "act": "try"})
    assert "Refresh them as one, and try again" in text_of(tried)
    [group] = re.findall(r'name="join" value="([^"]+)"', tried.text)
    joined = owner.post(COLUMNS, data={**fields, "join": unescape(group)})
    assert "Nothing was recorded" in text_of(joined)
    assert "city + region" in text_of(joined)
    assert "Refresh them as one, and try again" not in text_of(joined)


def test_groups_can_be_written(world: World, owner: TestClient, towns):
    fields = {**form_of(columns_page(world, owner, towns).text), "name": "towns", **APART}
    wrong = owner.post(COLUMNS, data={**fields, "more_together": "city, town"})
    assert wrong.status_code == 400
    assert "there is no column 'town'" in text_of(wrong)
    done = owner.post(COLUMNS, data={**fields, "more_together": "city, region\n"})
    assert done.status_code == 200, text_of(done)
    assert world.vault.dataset("towns").frozen.schema.together == (("city", "region"),)


def test_choices_are_changed_while_nobody_holds_a_copy(world: World, owner: TestClient, towns):
    first = world.vault.register("towns", towns)
    page = owner.get(f"/console/datasets/{first.id}").text
    assert "Refresh city and region as one" in page
    address = re.search(r'href="(/console/register/columns\?[^"]+together=1)"', page)
    assert address is not None
    form = owner.get(address[1].replace("&amp;", "&"))
    assert "It is registered instead of towns" in text_of(form)
    [group] = re.findall(r'name="together" value="([^"]+)" checked', form.text)
    fields = form_of(form.text) | {"together": unescape(group)}
    assert json.loads(fields["together"]) == ["city", "region"]
    refused = owner.post(COLUMNS, data={**fields, "do-2": "unit"})  # nobody has two rows
    assert refused.status_code == 400
    tried = owner.post(COLUMNS, data={**fields, "act": "try"})
    assert "Nothing was recorded" in text_of(tried)
    looks = {**form_of(tried.text), "describe-2": "Euros a month", "act": "try"}
    assert "Nothing was recorded" in text_of(owner.post(COLUMNS, data=looks))
    assert world.vault.dataset("towns").id == first.id  # as it was
    done = owner.post(COLUMNS, data=fields)
    assert done.status_code == 200, text_of(done)
    made = world.vault.dataset("towns")
    assert made.frozen.schema.together == (("city", "region"),)
    form = owner.get(f"{COLUMNS}?path={towns}&instead={made.id}").text
    looks = {**form_of(form), "describe-2": "Euros a month", "together": '["city", "region"]'}
    assert owner.post(COLUMNS, data=looks).status_code == 200
    again = world.vault.dataset("towns")
    assert again.id == made.id  # nothing that noise depends on differs
    assert again.frozen.schema.column("wage").describe == "Euros a month"
    made = again
    made.release(to="partner", privacy=0.5).to_arrow()
    assert "Change the choices" not in owner.get(f"/console/datasets/{made.id}").text
    late = owner.get(f"{COLUMNS}?path={towns}&instead={made.id}")
    assert late.status_code == 400
    assert "hoices can be changed while nobody holds a copy" in text_of(late)


# --- the next wave ------------------------------------------------------------------------


def test_the_next_wave_says_what_differs_from_the_schema_file(world, owner: TestClient, towns):
    schema = world.vault.register("towns", towns).schema_file()
    rng = np.random.default_rng(9)
    city = rng.integers(0, 12, 900)
    wave = {
        "City": [f"city {c}" for c in city],
        "region": [f"region {c // 4}" for c in city],
        "wage": rng.normal(3100, 420, 900),
        "union": rng.choice(["yes", "no"], 900),
    }
    path = world.tables / "wave.parquet"
    pq.write_table(pa.table(wave), path)
    files = {"schema": ("towns.toml", schema.encode(), "application/toml")}
    filled = owner.post("/console/register/schema", data={"path": str(path)}, files=files)
    said = text_of(filled)
    assert "it has no decision for 'City', 'union'" in said
    assert "the table has no column 'city'" in said
    assert "'City' may be 'city' under another name" in said
    fields = form_of(filled.text)
    assert (fields["do-0"], fields["do-1"], fields["do-3"]) == ("", "category", "")
    chosen = {**fields, "do-0": "category", "do-3": "category", "name": "wave"}
    assert owner.post(COLUMNS, data=chosen).status_code == 200
    same = columns_page(world, owner, towns)
    assert "may be" not in text_of(same)


# --- people -------------------------------------------------------------------------------


def test_who_holds_copies_made_elsewhere_has_a_page(world: World, owner: TestClient):
    world.people.release(to="ministry", privacy=0.4).to_arrow()
    page = owner.get("/console/recipient?name=ministry")
    assert page.status_code == 200
    assert "ministry holds copies that were released on the command line" in text_of(page)
    assert "New token" not in page.text
    assert owner.get("/console/recipient?name=nobody").status_code == 404
    assert owner.post("/console/recipient/token", data={"name": "ministry"}).status_code == 400


def test_approving_asks_once(world: World, owner: TestClient):
    world.sharing.ask("partner", "people", privacy=0.4, reason="a study")
    page = owner.get(f"/console/datasets/{world.people.id}").text
    asked = page.partition('<details class="sure">')[2].partition("</details>")[0]
    assert "what was fetched cannot be taken back" in asked
    assert asked.count('value="approve"') == page.count('value="approve"') == 1
    [request] = world.sharing.requests(dataset=world.people.id)
    fields = {"request": request.id, "privacy": "0.4", "asked": "0.4", "act": "approve"}
    assert owner.post(f"/console/datasets/{world.people.id}/answer", data=fields).status_code == 303
    level = world.people.level_of(Privacy(0.4))
    assert world.sharing.permitted("partner")[world.people.id].spec.level == level


def test_the_access_log_names_who_asked_and_for_what(world: World, owner: TestClient):
    token = world.sharing.new_token("partner", days=1)
    world.sharing.grant("people", "partner", privacy=0.5)
    sign_in_as(world, "bea", "viewer").get(f"/console/datasets/{world.people.id}")
    headers = {"Authorization": f"Bearer {token}"}
    assert world.browser().get("/v1/datasets/people", headers=headers).status_code == 200
    wrong = {"username": "bea", "password": "not this one at all"}
    assert world.browser().post("/console/sign-in", data=wrong).status_code == 403
    right = {"username": "bea", "password": PASSWORD}
    assert world.browser().post("/console/sign-in", data=right).status_code == 303
    log = text_of(owner.get("/console/log?console=1"))
    assert "bea GET /console/datasets/people 200" in log
    assert re.search(r"partner \(\w+\) GET /v1/datasets/people 200", log)
    assert "anybody POST /console/sign-in 403" in log
    assert "bea POST /console/sign-in 303" in log
