"""Tables in the console: the form begins with the draft or a schema file, and what comes after."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cornerwave.vault import Vault
from tests.console.client import TestClient
from tests.console.conftest import ROWS, World, table
from tests.console.test_console_pages import columns_page, form_of, text_of

COLUMNS = "/console/register/columns"
SHOP = """
min_count = 3
together = [["city", "kind"]]
[reading]
missing = ["?"]
[[column]]
name = "id"
do = "key"
hidden = true
[[column]]
name = "price"
do = "perturb"
transform = "log1p"
clip = [0, inf]
decimals = 2
as = "euro"
[[column]]
name = "c*"
do = "category"
[[column]]
name = "kind"
do = "decide"
"""


@pytest.fixture
def shop(world: World):
    rng = np.random.default_rng(4)
    path = world.tables / "shop.csv"
    price, city = np.round(rng.gamma(2, 50, 800), 2), rng.choice(["x", "y", "?"], 800)
    kinds, ids = rng.choice(["new", "old"], 800), rng.permutation(800)
    rows = [f"a{i},{p},{c},{k}" for i, p, c, k in zip(ids, price, city, kinds, strict=True)]
    path.write_text("\n".join(["id,price,city,kind", *rows, ""]))
    return path


def upload(owner: TestClient, path, text: str):
    files = {"schema": ("last.toml", text.encode(), "application/toml")}
    return owner.post("/console/register/schema", data={"path": str(path)}, files=files)


def test_the_form_begins_with_what_inspect_drafts(world: World, owner: TestClient, shop):
    fields = form_of(columns_page(world, owner, shop).text)
    assert (fields["do-1"], fields["transform-1"], fields["decimals-1"]) == ("perturb", "rank", "2")
    chosen = {**fields, "do-0": "key", "name": "shop"}
    done = owner.post(COLUMNS, data=chosen)
    assert done.status_code == 200, text_of(done)
    column = world.vault.dataset("shop").frozen.schema.column("price")
    assert (column.transform, column.decimals) == ("rank", 2)


def test_a_schema_file_fills_the_form(world: World, owner: TestClient, shop):
    filled = upload(owner, shop, SHOP)
    assert filled.status_code == 200, text_of(filled)
    fields = form_of(filled.text)
    expected = {
        "do-0": "key hidden", "do-1": "perturb", "do-2": "category", "do-3": "",
        "transform-1": "log1p", "clip-low-1": "0", "clip-high-1": "", "decimals-1": "2",
        "released_as-1": "euro", "min_count": "3",
    }  # fmt: skip
    assert expected.items() <= fields.items()
    assert "refresh city and kind as one" in text_of(filled)
    done = owner.post(
        COLUMNS,
        data={**fields, "do-3": "category", "name": "shop", "together": '["city", "kind"]'},
    )
    assert done.status_code == 200, text_of(done)
    frozen = world.vault.dataset("shop").frozen
    assert frozen.schema.key == "id"
    assert frozen.schema.pseudonym is None  # not in copies
    assert frozen.schema.together == (("city", "kind"),)
    assert frozen.reading.missing == ("?",)  # as the file states
    price = frozen.schema.column("price")
    assert (price.transform, price.clip, price.released_as) == ("log1p", (0.0, None), "euro")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[column", "last.toml is not TOML"),
        ('[[column]]\nname = "wages"\ndo = "drop"', ""),  # of another table: nothing to take
        ('[[column]]\nname = "id"\ndo = "hide"', "do must be"),
        ('[[column]]\nname = "price"\ndo = "perturb"\ndecimals = 99', "from 1 to 15"),
        ("[reading]\nencoding = 7", "encoding must be"),
        ("\x00\xff", "not TOML"),
        ("", ""),
    ],
)
@pytest.mark.first(3)
def test_a_schema_file_that_is_wrong_is_refused_in_words(owner: TestClient, shop, text, why):
    answer = upload(owner, shop, text)
    assert answer.status_code == (400 if why else 200)
    assert why.lower() in text_of(answer).lower()


@pytest.mark.parametrize("wrong", ["{", "7", '{"delimiter": "letters"}', '{"nothing": "x"}', "[]"])
def test_reading_settings_that_no_form_made_are_refused(world: World, owner, shop, wrong):
    fields = form_of(columns_page(world, owner, shop).text)
    for act in ("register", "try", "download"):
        answer = owner.post(COLUMNS, data={**fields, "reading": wrong, "act": act})
        assert answer.status_code == 400, act


def test_groups_that_no_form_made_are_refused(world: World, owner: TestClient, shop):
    fields = form_of(columns_page(world, owner, shop).text) | {"do-0": "key"}
    for wrong in ("{", "7", '["city", 7]', '["none", "city"]', '[["city"]]'):
        answer = owner.post(COLUMNS, data={**fields, "together": wrong})
        assert answer.status_code == 400, wrong


def test_trying_records_nothing_and_says_what_would_be(world: World, owner: TestClient, shop):
    before = world.vault.heads()
    fields = form_of(columns_page(world, owner, shop).text) | {"do-0": "key", "name": "shop"}
    tried = owner.post(COLUMNS, data={**fields, "act": "try"})
    assert tried.status_code == 200
    assert "Nothing was recorded" in text_of(tried)
    assert "key, a pseudonym in copies: id" in text_of(tried)
    assert [each.name for each in world.vault.datasets()] == ["people"]
    assert world.vault.heads() == before
    again = form_of(tried.text)
    assert again["do-0"] == "key"  # what was chosen stays chosen
    done = owner.post(COLUMNS, data=again)
    assert done.status_code == 200, text_of(done)
    assert {each.name for each in world.vault.datasets()} == {"people", "shop"}


def test_the_form_and_the_dataset_give_the_schema_file_that_makes_it_again(
    world: World, owner: TestClient, shop, tmp_path
):
    fields = form_of(upload(owner, shop, SHOP).text) | {"do-3": "category", "name": "shop"}
    fields |= {"together": '["city", "kind"]'}
    sent = owner.post(COLUMNS, data={**fields, "act": "download"})
    assert sent.status_code == 200
    assert 'filename="shop.toml"' in sent.headers["content-disposition"]
    (tmp_path / "shop.toml").write_text(sent.text)
    owner.post(COLUMNS, data=fields)
    made = world.vault.dataset("shop")
    assert owner.get(f"/console/datasets/{made.id}/schema.toml").text == made.schema_file()
    other = Vault.create(tmp_path / "other", key_file=world.vault.path / "key")
    again = other.register("shop", shop, schema=tmp_path / "shop.toml")
    assert again.id == made.id  # nothing that noise depends on differs
    assert again.schema_file() == made.schema_file()


def test_a_table_grows_and_changes_in_the_console(world: World, owner: TestClient):
    rng = np.random.default_rng(6)
    first = pa.table({"id": np.arange(600), "x": rng.normal(size=600), "y": rng.normal(size=600)})
    pq.write_table(first, world.tables / "one.parquet")
    dataset = world.vault.register("grows", world.tables / "one.parquet", key="id")
    more = pa.table({"id": np.arange(600, 700), "x": rng.normal(size=100), "y": np.zeros(100)})
    more = more.set_column(2, "y", pa.array(rng.normal(size=100)))
    pq.write_table(more, world.tables / "two.parquet")
    address = f"/console/datasets/{dataset.id}"
    answer = owner.post(f"{address}/grow", data={"path": str(world.tables / "two.parquet")})
    assert "Edition 2 is there" in text_of(answer), text_of(answer)
    assert "100 rows came; the table has 700 now" in text_of(answer)
    whole = pa.concat_tables([first, more])
    changed = whole.column("x").to_numpy().copy()
    changed[:60] = rng.normal(size=60)
    pq.write_table(whole.set_column(1, "x", pa.array(changed)), world.tables / "three.parquet")
    fields = {"path": str(world.tables / "three.parquet"), "act": "update"}
    answer = owner.post(f"{address}/grow", data=fields)
    assert "Edition 3 is there" in text_of(answer), text_of(answer)
    kinds = [each.kind for each in world.vault.dataset("grows").editions]
    assert kinds == ["registered", "appended", "updated"]
    for wrong in ("/etc/passwd", "", str(world.tables / "none.parquet"), "\x00"):
        refused = owner.post(f"{address}/grow", data={"path": wrong})
        assert refused.status_code == 400, wrong
        assert "no such table in a folder that the service may read" in text_of(refused)
    again = owner.post(f"{address}/grow", data={"path": str(world.tables / "two.parquet")})
    assert again.status_code in (400, 409)  # its keys are there already
    assert len(world.vault.dataset("grows").editions) == 3


def test_a_dataset_is_forgotten_while_nobody_holds_it_and_closed_after(world: World, owner):
    address = f"/console/datasets/{world.people.id}"
    assert "Unregister people" in owner.get(address).text
    world.people.release(to="partner", privacy=0.5).to_arrow()
    assert "Unregister people" not in owner.get(address).text
    refused = owner.post(f"{address}/unregister")
    assert refused.status_code in (400, 409)
    assert "was released to 1 recipient" in text_of(refused)
    assert owner.post(f"{address}/close").status_code == 303
    assert "nothing more is released" in text_of(owner.get(address))
    assert world.vault.dataset("people").closed
    pq.write_table(table(3), world.tables / "other.parquet")
    made = world.vault.register(
        "other", world.tables / "other.parquet", drop=["name"], few_rows=True
    )
    assert owner.post(f"/console/datasets/{made.id}/unregister").status_code == 303
    assert [each.name for each in world.vault.datasets()] == ["people"]


def test_who_holds_copies_made_elsewhere_is_among_the_recipients(world: World, owner: TestClient):
    world.people.release(to="<ministry>", privacy=0.4).to_arrow()
    world.people.release(to="partner", privacy=0.5).to_arrow()
    page = owner.get("/console/recipients")
    assert "Who holds copies made elsewhere" in text_of(page)
    assert "&lt;ministry&gt;" in page.text
    assert "<ministry>" not in page.text
    assert text_of(page).count("partner") == 1  # is a recipient already
    assert owner.post("/console/recipients", data={"name": "<ministry>"}).status_code == 303
    after = owner.get("/console/recipients")
    assert "Who holds copies made elsewhere" not in text_of(after)
    assert "<ministry>" in world.sharing.recipients()
    shown = owner.get("/console/recipient", params={"name": "<ministry>"})
    assert "0.4" in text_of(shown)


def test_nobody_changes_a_table_without_signing_in(world: World):
    browser, address = world.browser(), f"/console/datasets/{world.people.id}"
    for path in (f"{address}/grow", f"{address}/close", f"{address}/unregister"):
        assert browser.post(path, data={"path": "x"}).status_code == 303
    assert browser.get(f"{address}/schema.toml").status_code == 303
    files = {"schema": ("a.toml", b"", "application/toml")}
    assert browser.post("/console/register/schema", files=files).status_code == 303
    assert not world.vault.dataset("people").closed
    assert world.vault.dataset("people").rows == ROWS
