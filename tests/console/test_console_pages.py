"""The console's pages: what they show, what their forms do, and what no page may show."""

import asyncio
import csv
import errno
import io
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cornerwave.access import Grant, Recipient
from cornerwave.access import Request as Asked
from cornerwave.dossier import check_signature
from cornerwave.errors import CornerwaveWarning, collecting_warnings, warn
from cornerwave.ledger import Records
from cornerwave.levels import Level
from cornerwave.outlook import outlook_of
from cornerwave.privacy import Coalition
from cornerwave.spec import CopySpec
from tests.console.client import TestClient
from tests.console.conftest import LOCAL, World, table
from tests.tables import STRANGE_NAMES


def pages_of(world: World) -> list[str]:
    address = f"/console/datasets/{world.people.id}"
    return [
        "/console",
        address,
        f"{address}/explore",
        f"{address}/explore/part?who=partner&who=university",
        f"{address}/privacy",
        f"{address}/privacy/part?p=0.3",
        f"{address}/report",
        "/console/register",
        f"/console/register/columns?path={world.tables / 'people.parquet'}",
        "/console/recipients",
        "/console/recipient?name=partner",
        "/console/log",
        "/console/ledger",
        "/console/password",
        "/console/datasets/nothing",
        "/console/sign-in",
    ]


def text_of(answer):
    """The words of a page, without its tags."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", answer.text)).split())


def released(world: World) -> None:
    for name, privacy in (("partner", 0.5), ("university", 0.5)):
        world.sharing.grant("people", name, privacy=privacy)
        world.people.release(to=name, privacy=privacy).to_arrow()


class Inline(HTMLParser):
    """Collects what a strict policy forbids: inline scripts, styles and handlers."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attrs):
        names = dict(attrs)
        if tag == "style" or (tag == "script" and "src" not in names):
            self.found.append(tag)
        self.found += [name for name in names if name == "style" or name.startswith("on")]


def test_no_page_shows_a_cell_or_carries_a_script_or_style(world: World, owner: TestClient):
    released(world)
    wages = pq.read_table(world.tables / "people.parquet")["wage"].to_pylist()
    cells = {f"{wage:.4f}"[:9] for wage in wages}
    for path in pages_of(world):
        answer = owner.get(path)
        assert answer.status_code in (200, 404), path
        inline = Inline()
        inline.feed(answer.text)
        assert inline.found == [], path
        assert "SECRET" not in answer.text, path
        assert not any(cell in answer.text for cell in cells), path
    found = Inline()
    found.feed("<p style='x'><script>1</script><b onclick='1'>")
    assert found.found == ["style", "script", "onclick"]


def test_names_are_never_taken_for_html(world: World, owner: TestClient):
    wicked = "<img src=x onerror=alert(1)>'\"&"
    assert owner.post("/console/recipients", data={"name": wicked}).status_code == 303
    world.sharing.grant("people", wicked, privacy=0.4)
    world.sharing.ask(wicked, "people", privacy=0.3, reason=wicked)
    world.people.release(to=wicked, privacy=0.4).to_arrow()
    part = f"/console/datasets/{world.people.id}/explore/part?who={wicked}"
    for path in [*pages_of(world), part]:
        assert "<img" not in owner.get(path).text, path
    page = owner.get("/console/recipient", params={"name": wicked})
    assert wicked in unescape(page.text)


def test_granting_and_revoking(world: World, owner: TestClient):
    address = f"/console/datasets/{world.people.id}"
    fields = {"recipient": "partner", "privacy": "0.4", "until": "2999-01-01", "round": "age"}
    assert owner.post(f"{address}/grant", data=fields).status_code == 303
    grant = world.sharing.permitted("partner")[world.people.id]
    assert world.people.privacy_of(grant.spec.level) == 0.4
    assert grant.until.startswith("2999-01-01")
    assert grant.spec.finish.round == {"age"}
    assert "until 2999-01-01" in text_of(owner.get(address))
    assert owner.post(f"{address}/revoke", data={"recipient": "partner"}).status_code == 303
    assert world.sharing.permitted("partner") == {}


def test_terms_are_stated_in_forms_and_shown(world: World, owner: TestClient):
    place = f"/console/datasets/{world.people.id}"
    why = {"purpose": "a <study>", "contract": "DSA 7", "until": "2999-01-01"}
    owner.post(f"{place}/grant", data={"recipient": "partner", "privacy": "0.4", **why})
    [grant] = [each for each in world.sharing.grants(recipient="partner") if not each.revoked]
    assert grant.terms.in_words == "for a <study>, by DSA 7, until 2999-01-01"
    for page in (place, "/console/recipient?name=partner"):
        assert "for a &lt;study&gt;<small> by DSA 7" in owner.get(page).text
    terms = {"name": "partner", "purpose": "a pilot", "contract": "", "until": "2001-01-01"}
    assert owner.post("/console/recipient/terms", data=terms).status_code == 303
    assert world.sharing.recipient("partner").terms.in_words == "for a pilot, until 2001-01-01"
    assert world.people.id not in world.sharing.permitted("partner")
    refused = owner.post("/console/recipient/terms", data={**terms, "until": "soon"})
    assert (refused.status_code, "is not a valid date" in refused.text) == (400, True)


def test_a_dossier_is_a_file_that_the_public_key_checks(
    world: World, owner: TestClient, tmp_path: Path
):
    place = f"/console/datasets/{world.people.id}"
    refused = owner.get(f"{place}/dossier.html")
    assert (refused.status_code, "nothing to state" in refused.text) == (404, True)
    assert "dossier.html" not in owner.get(place).text
    world.people.release(to="partner", privacy=0.5).to_arrow()
    assert f"{place}/dossier.html" in owner.get(place).text
    answer = owner.get(f"{place}/dossier.html")
    assert answer.headers["content-disposition"] == 'attachment; filename="people-dossier.html"'
    (tmp_path / "x.html").write_bytes(answer.content)
    key = owner.get("/console/ledger/public-key.pem").content
    assert check_signature(tmp_path / "x.html", key).holds
    assert "SECRET" not in answer.text


def test_a_grant_that_cannot_be_is_refused_in_words(world: World, owner: TestClient):
    for field, value, words in (
        ("privacy", "much", "privacy must be a number"),
        ("privacy", "1.5", "privacy"),
        ("privacy", "nan", "privacy"),
        ("until", "2001-01-01", "this time has passed"),
        ("until", "soon", "is not a valid date"),
        ("recipient", "nobody here", "there is no recipient"),
        ("round", "no such column", "no such column"),
    ):
        fields = {"recipient": "partner", "privacy": "0.4", field: value}
        answer = owner.post(f"/console/datasets/{world.people.id}/grant", data=fields)
        assert answer.status_code in (400, 404), value
        assert words.casefold() in text_of(answer).casefold()
    assert world.sharing.grants() == []


def test_requests_say_what_coalitions_could_recover_then(world: World, owner: TestClient):
    released(world)
    address = f"/console/datasets/{world.people.id}"
    for privacy in (0.2, 0.7):
        world.sharing.ask("partner", "people", privacy=privacy, reason="for a paper")
    text = text_of(owner.get(address))
    assert "leave 50% hidden today, and 20% if you approve" in text
    assert "Nobody gains from this but partner" in text
    better, worse = world.sharing.requests()
    approve = {"request": better.id, "asked": "0.2", "privacy": "0.3", "act": "approve"}
    assert owner.post(f"{address}/answer", data=approve).status_code == 303
    grant = world.sharing.permitted("partner")[world.people.id]
    assert world.people.privacy_of(grant.spec.level) == 0.3  # changed by the owner
    decline = {"request": worse.id, "act": "decline", "privacy": "x", "words": "not now"}
    assert owner.post(f"{address}/answer", data=decline).status_code == 303
    assert [each.state for each in world.sharing.requests()] == ["approved", "declined"]
    assert "not now" in text_of(owner.get(address))
    again = owner.post(f"{address}/answer", data=approve)
    assert again.status_code == 400
    assert "no open request" in text_of(again)


def test_a_request_shows_each_coalition_and_what_cannot_be(world: World, owner: TestClient):
    released(world)
    address = f"/console/datasets/{world.people.id}"
    world.sharing.ask("university", "people", privacy=0.4)
    text = text_of(owner.get(address))
    assert "university and partner 50% 40%" in text
    world.sharing.ask("partner", "people", privacy=0.9995)
    assert "It cannot be approved as it is: " in text_of(owner.get(address))


def test_a_dataset_shows_its_holders_and_editions(world: World, owner: TestClient):
    released(world)
    page = f"/console/datasets/{world.people.id}"
    assert "1 registered 400 400 – –" in text_of(owner.get(page))
    more = world.tables / "more.parquet"
    pq.write_table(table(seed=3), more)
    world.vault.dataset("people").append(more)
    world.vault.dataset("people").release(to="partner", privacy=0.5, batch=2).to_arrow()
    text = text_of(owner.get(page))
    assert "2 appended 800 400 – –" in text
    assert "it is version 1" in text
    assert "partner 0.5 1 frame" in text
    assert "partner 0.5 batch 2 frame" in text
    assert "800 rows · 3 columns · edition 2" in text_of(owner.get("/console"))
    assert "batch 2 frame" in text_of(owner.get("/console/ledger"))


def test_a_request_for_what_is_not_there_is_declined(world: World, owner: TestClient):
    world.sharing.ask("partner", "<b>no such table", privacy=0.4, reason="please")
    assert "partner asks for <b>no such table at privacy 0.4" in text_of(owner.get("/console"))
    [asked] = world.sharing.requests()
    fields = {"request": asked.id, "words": "there is none"}
    assert owner.post("/console/decline", data=fields).status_code == 303
    assert world.sharing.requests()[0].answer == "there is none"
    assert "no such table" not in text_of(owner.get("/console"))


def test_the_explorer_says_what_the_theorems_say(world: World, owner: TestClient):
    released(world)
    world.people.release(to="public", privacy=0.8).to_arrow()
    part = f"/console/datasets/{world.people.id}/explore/part"
    text = text_of(owner.get(part, params={"who": ["partner", "university", "public"]}))
    theorem = Coalition.of([(held.recipient, held.spec.level) for held in world.people.holdings])
    assert "Together they leave 50% hidden: exactly what partner alone leaves" in text
    found = re.search(r"independently for each copy it would be ([\d.]+)%", text)
    assert abs(float(found[1]) / 100 - theorem.independent_privacy) < 0.01
    assert float(found[1]) < 40
    alone = text_of(owner.get(part, params={"who": "partner"}))
    assert "partner alone leaves 50% hidden" in alone
    assert "not ±" not in alone
    assert "not ±" in text
    assert "Tick a recipient" in text_of(owner.get(part))
    assert "Tick a recipient" in text_of(owner.get(part, params={"who": "no such one"}))


def test_the_explorer_counts_who_may_fetch_but_has_not_yet(world: World, owner: TestClient):
    world.sharing.grant("people", "partner", privacy=0.3)
    text = text_of(owner.get(f"/console/datasets/{world.people.id}/explore"))
    assert "partner 30% hidden · granted, not fetched yet" in text


def test_the_slider_says_what_the_outlook_says(world: World, owner: TestClient):
    path = f"/console/datasets/{world.people.id}/privacy/part"
    for p in (0.1, 0.5, 0.83):
        found = outlook_of(world.people.frozen, p)
        text = text_of(owner.get(path, params={"p": p}))
        assert f"× {found.mean_error:.2f}" in text
        assert f"× {found.regression_error:.2f}" in text
        assert found.in_words("wage") in text
        right, blind = found.right["city"], found.blind["city"]
        assert f"{right:.0%} of the time; {blind:.0%} without a copy" in text


def test_the_slider_stays_on_its_scale(world: World, owner: TestClient):
    for p in ("-1", "0", "1", "7", "nan", "inf", "-inf", "0.0001"):
        for part in ("privacy", "privacy/part"):
            answer = owner.get(f"/console/datasets/{world.people.id}/{part}", params={"p": p})
            assert answer.status_code == 200, (p, part)


def test_columns_are_drawn_as_noise_makes_them(world: World, owner: TestClient):
    place = world.tables / "others.parquet"
    pq.write_table(table(seed=1), place)
    others = world.vault.register("others", place, drop=["name"], few_rows=True)
    path = f"/console/datasets/{others.id}/privacy/part"
    low, high = (owner.get(path, params={"p": p}).text for p in (0.1, 0.9))
    assert low.count("Histogram of") == high.count("Histogram of") == 2
    assert low != high
    owner.get(f"/console/datasets/{world.people.id}/privacy/part")  # another one is kept now
    place.unlink()
    gone = owner.get(path)
    assert gone.status_code == 200
    assert "no longer at its place" in text_of(gone)


def test_recipients_tokens_and_their_profile_file(world: World, owner: TestClient):
    assert (
        owner.post("/console/recipients", data={"name": "hospital", "note": "x"})
        .headers["location"]
        .endswith("name=hospital")
    )
    made = owner.post("/console/recipient/token", data={"name": "hospital", "days": "30"})
    [token] = set(re.findall(r"cw_[0-9a-f]{12}_[0-9a-f]{64}_[0-9a-f]{8}", made.text))
    assert world.sharing.bearer(token).recipient == "hospital"
    assert made.headers["cache-control"] == "no-store"
    sent = owner.post("/console/recipient/profile", data={"token": token})
    assert 'filename="hospital.share"' in sent.headers["content-disposition"]
    profile = json.loads(sent.text)
    assert profile["bearerToken"] == token
    assert profile["endpoint"] == f"{LOCAL}/delta-sharing/"
    page = owner.get("/console/recipient?name=hospital").text
    assert token not in page
    id = token.split("_")[1]
    assert id in page
    end = {"name": "hospital", "token": id}
    assert owner.post("/console/recipient/token/end", data=end).status_code == 303
    assert owner.post("/console/recipient/profile", data={"token": token}).status_code == 403
    other = owner.post("/console/recipient/token/end", data={**end, "name": "partner"})
    assert other.status_code == 400
    assert owner.post("/console/recipient/remove", data={"name": "hospital"}).status_code == 303
    assert "hospital" not in world.sharing.recipients()


def test_a_token_needs_an_end(world: World, owner: TestClient):
    for days in ("", "0", "-3", "367", "many", "9" * 30):
        answer = owner.post("/console/recipient/token", data={"name": "partner", "days": days})
        assert answer.status_code == 400, days
    assert world.sharing.tokens("partner") == []


def test_the_access_log_is_shown_filtered_and_exported(world: World, owner: TestClient):
    world.sharing.grant("people", "partner", privacy=0.5)
    token = world.sharing.new_token("partner", days=1)
    carried = {"Authorization": f"Bearer {token}"}
    got = world.browser().get("/v1/datasets/people/copy?format=csv", headers=carried)
    assert got.status_code == 200
    shown = text_of(owner.get("/console/log"))
    assert "copy of people as csv" in shown
    assert "/console/" not in shown.replace("/console/log", "")
    assert "copy of people" not in text_of(owner.get("/console/log?who=university"))
    assert "GET /console/log" in text_of(owner.get("/console/log?console=1"))
    lines = list(csv.reader(io.StringIO(owner.get("/console/log.csv").text)))
    assert lines[0] == ["at", "who", "what", "outcome", "bytes"]
    whole = [line for line in lines if line[2] == "GET /v1/datasets/people/copy"]
    assert whole[0][3] == "200"
    assert int(whole[0][4]) == len(got.content)
    assert token not in str(lines)
    assert "copy of people as csv" in text_of(owner.get(f"/console/datasets/{world.people.id}"))


def test_searching_the_access_log_reads_a_bounded_part_of_it(
    world: World, owner: TestClient, monkeypatch
):
    true, asked = Records.accesses, []

    def accesses(records, *, who=None, most=None):
        asked.append(most)
        return true(records, who=who, most=most)

    monkeypatch.setattr(Records, "accesses", accesses)
    assert owner.get("/console/log?who=partner").status_code == 200
    assert asked
    assert None not in asked


def test_a_report_is_kept_under_the_head_that_it_is_of(world: World, owner: TestClient):
    released(world)
    service = world.app.state.service
    earlier = service.dataset(world.people.id)
    world.people.rename("persons")
    asyncio.run(service.report(earlier))
    shown = text_of(owner.get(f"/console/datasets/{world.people.id}/report"))
    assert "copies of persons" in shown
    assert "copies of people" not in shown


def test_a_report_that_cannot_be_kept_is_refused_in_words(
    world: World, owner: TestClient, monkeypatch
):
    released(world)
    address = f"/console/datasets/{world.people.id}/report"

    def full(path, *given, **named):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        assert "No space left on device" in text_of(owner.get(address))
    assert owner.get(address).status_code == 200  # the control


def test_no_cell_of_the_exported_log_is_a_formula(world: World, owner: TestClient):
    world.browser().request("+CMD|X", "/v1/datasets")
    world.browser().request("-1", "/v1/datasets")
    for line in csv.reader(io.StringIO(owner.get("/console/log.csv").text)):
        assert not any(cell[:1] in tuple("=+-@") for cell in line), line


def test_the_ledger_is_checked_against_itself_and_earlier_heads(world: World, owner: TestClient):
    before = owner.get("/console/ledger/heads.txt").text
    released(world)
    page = text_of(owner.get("/console/ledger"))
    assert "The ledger is whole" in page
    assert page.count("university") == 1
    kept = owner.post("/console/ledger", data={"heads": before})
    assert "heads are still in the ledger" in text_of(kept)
    false = re.sub(r"[0-9a-f]{8}(?=\t)", "00000000", before)
    assert "heads are still in the ledger" not in text_of(
        owner.post("/console/ledger", data={"heads": false})
    )
    assert "not a head" in text_of(owner.post("/console/ledger", data={"heads": "nonsense"}))


def test_a_ledger_changed_from_outside_is_seen(world: World, owner: TestClient, outside_writer):
    released(world)
    outside_writer(world)
    page = text_of(owner.get("/console/ledger"))
    assert "The ledger is whole" not in page


# --- registering --------------------------------------------------------------------------


def form_of(page):
    """The fields of the form on a page, as a browser would send them."""
    fields = {}
    for each in re.findall(r"<input [^>]+>", page):
        named = dict(re.findall(r'(\w+)="([^"]*)"', each))
        if named["type"] != "checkbox":
            fields[named["name"]] = named.get("value", "")
    for name, options in re.findall(r'<select name="([^"]+)"[^>]*>(.*?)</select>', page, re.S):
        chosen = re.search(r'<option value="([^"]*)" selected', options)
        first = re.search(r'<option value="([^"]*)"', options)
        fields[name] = (chosen or first)[1]
    return {name: unescape(value) for name, value in fields.items()}


def columns_page(world, owner, path):
    return owner.get("/console/register/columns", params={"path": str(path)})


def test_a_table_is_registered_column_by_column(world: World, owner: TestClient):
    rng = np.random.default_rng(5)
    path = world.tables / "clinic.parquet"
    n = 300
    gaps = pa.array(rng.normal(size=n), mask=rng.random(n) < 0.2)
    pq.write_table(
        pa.table(
            {
                "id": rng.permutation(n),
                "size": np.exp(rng.normal(0, 2, n)),
                "visits": gaps,
                "ward": rng.choice(["a", "b"], n),
                "name": [f"CELL-{i}" for i in rng.permutation(n)],
            }
        ),
        path,
    )
    assert str(path) in owner.get("/console/register").text
    page = columns_page(world, owner, path)
    assert "looks like an identifier" in page.text
    assert "long-tailed" in page.text
    assert "CELL" not in page.text
    fields = form_of(page.text)
    assert fields["do-4"] == ""  # undecided: nothing is registered without a decision
    refused = owner.post("/console/register/columns", data=fields)
    assert refused.status_code == 400
    assert "choose what to do with it" in text_of(refused)
    chosen = {
        "do-0": "key", "transform-1": "log1p", "hide_missing-2": "on", "uniform-3": "on",
        "do-4": "drop",
    }  # fmt: skip
    done = owner.post("/console/register/columns", data={**fields, **chosen, "name": "clinic"})
    assert done.status_code == 200
    assert "clinic is registered" in text_of(done)
    assert "key, a pseudonym in copies: id" in text_of(done)
    dataset = world.vault.dataset("clinic")
    assert "a pseudonym in copies" in text_of(owner.get(f"/console/datasets/{dataset.id}"))
    schema = dataset.frozen.schema
    assert {c.name: c.role for c in schema.columns} == {
        "id": "key",
        "size": "perturbed",
        "visits": "perturbed",
        "ward": "category",
        "name": "dropped",
    }
    assert schema.column("size").transform == "log1p"
    assert schema.column("visits").hide_missing
    assert schema.column("ward").base == "uniform"
    twice = owner.post("/console/register/columns", data={**fields, **chosen, "name": "people"})
    assert twice.status_code == 400
    kept = form_of(twice.text)
    assert kept["transform-1"] == "log1p"  # what was chosen stays chosen
    assert kept["do-4"] == "drop"


def test_the_form_proposes_the_unit_and_the_pages_state_what_copies_show_of_persons(
    world: World, owner: TestClient
):
    rng = np.random.default_rng(8)
    person = rng.permutation(np.repeat(np.arange(300), 5))
    height, level = rng.normal(170, 10, 300)[person], rng.normal(size=300)[person]
    path = world.tables / "visits.parquet"
    weight = level + 0.3 * rng.normal(size=1500)
    pq.write_table(pa.table({"person": person, "height": height, "weight": weight}), path)
    page = columns_page(world, owner, path)
    assert "proposed as the unit" in text_of(page)
    fields = form_of(page.text)
    assert fields["do-0"] == "unit"
    refused = owner.post("/console/register/columns", data={**fields, "do-0": "drop"})
    assert "name 'person' as the unit" in text_of(refused)
    assert "(what: unit, rows are independent)" in text_of(refused)
    done = owner.post("/console/register/columns", data={**fields, "name": "visits"})
    assert done.status_code == 200, text_of(done)
    stated = "unit: person, a pseudonym in copies; 300 persons, typically 5 rows each"
    assert stated in text_of(done)
    dataset = world.vault.dataset("visits")
    shown = text_of(owner.get(f"/console/datasets/{dataset.id}"))
    assert "names the person that rows belong to, a pseudonym in copies" in shown
    assert stated in shown


def test_a_key_leaves_as_it_is_if_the_form_says_so_and_the_page_says_what_that_reveals(
    world: World, owner: TestClient
):
    order = np.random.default_rng(9).permutation(2000)
    walk = np.cumsum(np.random.default_rng(10).normal(size=2000))
    path = world.tables / "walk.parquet"
    pq.write_table(pa.table({"id": order, "walk": walk[order]}), path)
    fields = form_of(columns_page(world, owner, path).text) | {"name": "walk", "do-1": "perturb"}
    done = owner.post("/console/register/columns", data={**fields, "do-0": "key as it is"})
    assert done.status_code == 200, text_of(done)
    assert "unchanged: id" in text_of(done)
    assert "rows sorted by it reveal" in text_of(done)
    assert world.vault.dataset("walk").frozen.schema.unchanged == ["id"]


def test_how_copies_look_is_decided_in_the_form(world: World, owner: TestClient):
    rng = np.random.default_rng(8)
    path = world.tables / "flats.parquet"
    flats = {
        "rent": rng.gamma(5, 200, 300),
        "area": rng.normal(70, 20, 300),
        "built": pa.array(rng.integers(0, 20_000, 300).astype("int32"), pa.date32()),
    }
    pq.write_table(pa.table(flats), path)
    fields = form_of(columns_page(world, owner, path).text) | {"do-2": "perturb", "name": "flats"}
    looks = {
        "clip-low-0": "0", "clip-high-0": "", "released_as-0": "rent in euros",
        "round-1": "false", "clip-low-2": "1980-01-01", "clip-high-2": "2020-12-31",
    }  # fmt: skip
    for wrong in (
        {"clip-low-0": "much"},
        {"clip-low-0": "2020-31-01"},
        {"clip-low-0": "9", "clip-high-0": "1"},
    ):
        refused = owner.post("/console/register/columns", data={**fields, **looks, **wrong})
        assert refused.status_code == 400, wrong
        assert form_of(refused.text)["released_as-0"] == "rent in euros"  # what was chosen stays
    done = owner.post("/console/register/columns", data={**fields, **looks})
    assert done.status_code == 200, text_of(done)
    schema = world.vault.dataset("flats").frozen.schema
    assert schema.column("rent").clip == (0.0, None)
    assert schema.column("area").round is False
    copy = world.vault.dataset("flats").release(to="partner", privacy=0.5).to_arrow()
    assert copy.column_names == ["rent in euros", "area", "built"]
    assert min(copy["rent in euros"].to_pylist()) >= 0
    assert {day.year for day in copy["built"].to_pylist()} <= set(range(1980, 2021))


def test_columns_with_names_that_nobody_expects(world: World, owner: TestClient):
    rng = np.random.default_rng(6)
    path = world.tables / "strange.parquet"
    pq.write_table(pa.table({name: rng.normal(size=200) for name in STRANGE_NAMES}), path)
    fields = form_of(columns_page(world, owner, path).text)
    fields |= {"do-2": "drop", "name": "strange"}
    assert owner.post("/console/register/columns", data=fields).status_code == 200
    columns = world.vault.dataset("strange").frozen.schema.columns
    assert [c.name for c in columns if c.role == "dropped"] == [STRANGE_NAMES[2]]


def test_the_warnings_of_registration_are_shown(world: World, owner: TestClient):
    rng = np.random.default_rng(7)
    one = rng.normal(size=200)
    path = world.tables / "twins.parquet"
    pq.write_table(pa.table({"one": one, "twice": 2 * one, "other": rng.normal(size=200)}), path)
    fields = form_of(columns_page(world, owner, path).text)
    done = owner.post("/console/register/columns", data={**fields, "name": "twins"})
    assert "Please note" in text_of(done)
    assert "twice" in text_of(done).partition("Please note")[2]


def test_work_in_other_threads_keeps_its_warnings_while_one_collects():
    """Those of the one that collects are not shown elsewhere, and it gets no others."""
    with collecting_warnings() as collected, ThreadPoolExecutor(1) as other:
        warn("for the page")
        with pytest.warns(CornerwaveWarning, match="for the terminal"):
            other.submit(warn, "for the terminal").result()
    assert collected == ["for the page"]
    with pytest.warns(CornerwaveWarning, match="later"):
        warn("later")


def test_a_table_that_another_dataset_has_can_be_declared_unrelated(world: World, owner):
    rng = np.random.default_rng(9)
    one = rng.normal(size=400)
    world.vault.register("one", pa.table({"x": one}), few_rows=True)
    path = world.tables / "other.parquet"
    pq.write_table(pa.table({"y": 2.54 * one}), path)
    fields = form_of(columns_page(world, owner, path).text) | {"name": "other"}
    refused = owner.post("/console/register/columns", data=fields)
    assert refused.status_code == 400
    assert "'y' is a function of 'x' of dataset 'one'" in text_of(refused)
    assert 'name="unrelated" value="one">' in refused.text
    assert "recipients of both can average the noise" in text_of(refused)
    again = {**fields, "name": "people", "unrelated": "one"}  # a name that is taken
    assert 'value="one" checked' in owner.post("/console/register/columns", data=again).text
    done = owner.post("/console/register/columns", data={**fields, "unrelated": "one"})
    assert done.status_code == 200
    assert world.vault.dataset("other").entry.unrelated == (world.vault.dataset("one").id,)


def test_a_table_whose_columns_changed_meanwhile_is_asked_about_again(world: World, owner):
    path = world.tables / "people.parquet"
    fields = form_of(columns_page(world, owner, path).text)
    pq.write_table(pq.read_table(path).rename_columns(["a", "b", "c", "d"]), path)
    answer = owner.post("/console/register/columns", data={**fields, "do-3": "drop"})
    assert answer.status_code == 400
    assert "other columns now" in text_of(answer)


def test_nothing_outside_the_allowed_folders_can_be_named(world: World, owner: TestClient):
    secret = world.tables.parent / "secret.parquet"
    pq.write_table(pa.table({"x": np.arange(100.0)}), secret)
    (world.tables / "link.parquet").symlink_to(secret)
    (world.tables / ".hidden.csv").write_text("x\n1\n")
    tried = [
        secret,
        world.tables / ".." / "secret.parquet",
        world.tables / "link.parquet",
        world.tables / "nothing.parquet",
        "/etc/passwd",
        "",
        "\0",
        "postgresql://localhost/x",
        "x" * 5000,
    ]
    for path in map(str, tried):
        for answer in (
            columns_page(world, owner, path),
            owner.post("/console/register/columns", data={"path": path, "name": "x"}),
        ):
            assert answer.status_code == 400, path
            assert "no such table in a folder" in text_of(answer), path
    assert ".hidden.csv" not in owner.get("/console/register").text
    assert len(world.vault.datasets()) == 1


def test_without_an_allowed_folder_nothing_is_registered_here(world: World, owner: TestClient):
    world.app.state.allowed = ()
    assert "No folder is allowed" in text_of(owner.get("/console/register"))
    assert columns_page(world, owner, world.tables / "people.parquet").status_code == 400


# --- hostile requests ---------------------------------------------------------------------

ODD = ["", "\0", "\ud7ff", "x" * 3000, "../..", "%00", "<b>", "1e999", "-1", "[]", "ü\n\t"]


def test_odd_forms_and_addresses_are_refused_in_words(world: World, owner: TestClient):
    address = f"/console/datasets/{world.people.id}"
    posts = [
        "/console/recipients",
        "/console/recipient/token",
        "/console/recipient/token/end",
        "/console/recipient/profile",
        "/console/recipient/remove",
        "/console/register/columns",
        "/console/ledger",
        "/console/password",
        f"{address}/grant",
        f"{address}/revoke",
        f"{address}/answer",
    ]
    names = ("name", "days", "token", "path", "heads", "recipient", "privacy", "until", "request")
    for odd in ODD:
        for path in posts:
            answer = owner.post(path, data=dict.fromkeys(names, odd) | {"act": "approve"})
            assert answer.status_code < 500, (path, odd)
            assert "Traceback" not in answer.text
        for path in (
            f"{address}/explore?who=",
            f"{address}/privacy?p=",
            "/console/recipient?name=",
        ):
            assert owner.get(path + quote(odd)).status_code < 500, (path, odd)
    for body, kind in (
        (b"\xff\xfe=%ff", "application/x-www-form-urlencoded"),
        (b"{", "application/json"),
        (b"--x\r\n\r\n", "multipart/form-data; boundary=x"),
        (b"junk", "multipart/form-data"),
    ):
        answer = owner.post("/console/recipients", content=body, headers={"content-type": kind})
        assert answer.status_code in (303, 400), kind
    assert owner.post("/console/ledger", data={"heads": "x" * 100_000}).status_code == 413
    for host in ("[", "", "evil.example", "127.0.0.1.evil.example", "127.0.0.1@evil.example"):
        assert world.browser().get("/console", headers={"host": host}).status_code in (
            303,
            400,
            403,
        )


# --- what everybody may see -----------------------------------------------------------------


def test_all_requests_stand_on_a_page_without_a_script(world: World):
    """Each operation of the OpenAPI document, for everybody, from any address."""
    for base in (LOCAL, "http://data.example.org"):
        reader = world.browser(base)
        page, document = reader.get("/docs"), reader.get("/openapi.json").json()
        assert page.status_code == 200
        for path, methods in document["paths"].items():
            for method, about in methods.items():
                assert f"{method.upper()}</span> <code>{path}</code>" in page.text
                for parameter in about.get("parameters", ()):
                    assert f"<code>{parameter['name']}</code>" in page.text
        assert "<script" not in page.text
        assert "cdn" not in page.text
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
        [style] = re.findall(r'href="(/console/static/console.css[^"]*)"', page.text)
        assert reader.get(style).status_code == 200


def test_the_first_page_leads_to_the_console(world: World):
    answer = world.browser().get("/")
    assert (answer.status_code, answer.headers["location"]) == (303, "/console")


def test_only_the_explorer_and_the_slider_have_a_script(world: World, owner: TestClient):
    released(world)
    with_script = {path for path in pages_of(world) if "<script" in owner.get(path).text}
    assert {path.rpartition("/")[2] for path in with_script} == {"explore", "privacy"}


def many(world: World, count: int) -> list[str]:
    """Add recipients with a grant, an open request and a copy each, without a line for each act."""
    names = [f"clinic {n:03}" for n in range(count)]
    spec, at = CopySpec(Level.of(privacy=0.5).on_lattice(), format="csv"), "2030-01-01T00:00:00"
    with world.vault.records.together() as records:
        for n, name in enumerate(names):
            of = world.people.id
            records.put(Recipient(name, at).record())
            records.put(Grant(f"{n:012x}", of, name, spec, at).record())
            records.put(Asked(f"{n:012x}", of, "people", name, 0.4, "a study", at).record())
    world.people.hold([(name, spec) for name in [*names, "Elsewhere"]])
    return names


def test_recipients_are_listed_a_page_at_a_time(world: World, owner: TestClient, monkeypatch):
    """What a page reads does not depend on how many pages there are."""
    names, checked = many(world, 230), []
    read = Records._checked
    monkeypatch.setattr(Records, "_checked", lambda r, row: checked.append(row) or read(r, row))
    pages = [owner.get("/console/recipients", params={"at": n}).text for n in (1, 2, 3)]
    assert len(checked) < 3 * 250
    for n, text in enumerate(pages):
        shown = re.findall(r"recipient\?name=([^\"]*)", text)
        known = [*names, "partner", "university"][n * 100 : n * 100 + 100]
        # the last one holds a copy and is no recipient
        assert shown == [*map(quote, known), "Elsewhere"]
    assert "page 2 of 3, 232 in all" in pages[1]
    assert 'href="/console/recipients?who=&amp;at=3"' in pages[1]
    assert 'rel="next"' not in pages[2]
    row = re.findall(r"clinic 000</a></td>(.*?)</tr>", pages[0])[0]
    assert re.findall(r">([^<>]+)<", row) == ["1", "1", "0", "never"]
    found = owner.get("/console/recipients", params={"who": "CLINIC 10"}).text
    assert re.findall(r"name=(clinic%2010\d)", found) == [f"clinic%2010{n}" for n in range(10)]
    assert "No recipient is found" in owner.get("/console/recipients?who=_%25").text
    assert owner.get("/console/recipients?at=0").status_code == 400


def test_a_dataset_lists_requests_and_grants_a_page_at_a_time(world: World, owner: TestClient):
    many(world, 130)
    place = f"/console/datasets/{world.people.id}"
    first, last = (owner.get(place, params={"asked": n, "granted": n}).text for n in (1, 2))
    assert (first.count('name="asked"'), last.count('name="asked"')) == (100, 30)
    assert first.count("Revoke what") == 100
    assert f'href="{place}?asked=2#requests"' in first
    assert "and 101 more" in first  # of the holders of the level
    assert "130 open requests" in owner.get("/console").text
