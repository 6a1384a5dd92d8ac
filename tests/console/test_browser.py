"""The console in a real browser: Debian's Chromium, driven by Playwright."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from cornerwave.server import first_link
from tests.console.conftest import PASSWORD, World, table
from tests.console.test_console_pages import pages_of, released
from tests.server.conftest import serving

CHROMIUM = Path("/usr/bin/chromium")
pytestmark = pytest.mark.skipif(
    not CHROMIUM.exists(), reason=f"{CHROMIUM} is missing: apt-get install chromium"
)
expect.set_options(timeout=30_000)  # a busy machine is not a fault
PHONE = {"width": 390, "height": 800}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


@pytest.fixture
def address(world: World) -> Iterator[str]:
    """The address of a server for the world."""
    with serving(world.app, lifespan="off") as url:
        yield url


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A page on which nothing may go wrong: no script fails, and the policy forbids nothing."""
    context = chromium.new_context(viewport=PHONE)
    faults: list[str] = []
    opened = context.new_page()
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on(
        "console", lambda message: faults.append(message.text) if message.type == "error" else None
    )
    yield opened
    context.close()
    assert faults == []


def enter(page: Page, world: World, address: str) -> None:
    """Set the password by the first link."""
    page.goto(first_link(world.vault, address))
    page.get_by_label("New password").fill(PASSWORD)
    page.get_by_label("Once more").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Datasets")).to_be_visible()


def fits(page: Page) -> bool:
    """Whether a page is no wider than the screen."""
    return page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_ticking_recipients_explores_at_once_and_the_slider_follows(
    world: World, address: str, page: Page
) -> None:
    for name, privacy in (("partner", 0.5), ("university", 0.6)):
        world.sharing.grant("people", name, privacy=privacy)
    enter(page, world, address)
    page.get_by_role("link", name="Explore collusion").click()
    verdict = page.locator("#together .verdict")
    expect(verdict).to_contain_text("exactly what partner alone leaves")
    expect(verdict).to_contain_text("independently")
    page.evaluate("window.same = true")
    page.get_by_label("partner").uncheck()
    expect(verdict).to_contain_text("university alone leaves 60% hidden")
    page.get_by_label("partner").focus()
    page.keyboard.press("Space")
    expect(verdict).to_contain_text("Together they leave 50% hidden")
    assert page.evaluate("window.same")  # the page itself was never loaded again
    assert fits(page)
    page.goto(f"{address}/console/datasets/{world.people.id}/privacy")
    tile = page.locator(".tile strong").first
    expect(tile).to_have_text("50%")
    page.get_by_role("slider").focus()
    page.keyboard.press("ArrowRight")
    expect(tile).to_have_text("51%")
    assert fits(page)


@pytest.mark.slow
def test_a_steward_registers_grants_revokes_and_the_recipient_fetches(
    world: World, address: str, page: Page, tmp_path: Path
) -> None:
    pq.write_table(table(seed=1), world.tables / "staff.parquet")
    enter(page, world, address)

    page.get_by_role("link", name="Register a table").click()
    page.get_by_role("link", name="staff.parquet").click()
    page.get_by_role("group", name="name").get_by_label("What").select_option("drop")
    assert fits(page)
    page.get_by_role("button", name="Register").click()
    expect(page.locator(".verdict")).to_contain_text("staff is registered")
    page.get_by_role("link", name="Grant it to somebody").click()

    page.get_by_label("Recipient").select_option("partner")
    page.get_by_label("Privacy").fill("0.4")
    page.get_by_role("button", name="Grant", exact=True).click()
    expect(page.locator(".ladder")).to_contain_text("partner")
    assert fits(page)

    page.get_by_role("link", name="Recipients").click()
    page.get_by_role("link", name="partner").click()
    page.get_by_role("button", name="New token").click()
    token = page.locator("#token").inner_text()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download the profile").click()
    download.value.save_as(tmp_path / "partner.share")
    assert token in (tmp_path / "partner.share").read_text()

    copy = f"{address}/v1/datasets/staff/copy"
    carried = {"Authorization": f"Bearer {token}"}
    got = httpx.get(copy, headers=carried, timeout=60)
    assert got.status_code == 200
    assert httpx.get(copy, timeout=60).status_code == 404  # nobody without a token
    (tmp_path / "copy.parquet").write_bytes(got.content)
    assert pq.read_table(tmp_path / "copy.parquet").column_names == ["age", "wage", "city"]

    page.get_by_role("link", name="Datasets").click()
    page.get_by_role("link", name="staff", exact=True).click()
    expect(page.locator("body")).to_contain_text("1 recipient holds copies at 1 level")
    page.get_by_role("button", name="Revoke").click()
    expect(page.locator("#grants")).to_contain_text("ended")
    assert httpx.get(copy, headers=carried, timeout=60).status_code == 404
    expect(page.locator("body")).to_contain_text("1 recipient holds copies")  # the ledger stays

    page.get_by_role("link", name="Access log").click()
    expect(page.locator("table")).to_contain_text(re.compile("copy of staff"))
    page.get_by_role("link", name="Ledger").click()
    expect(page.locator(".verdict").first).to_contain_text("The ledger is whole")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Password")).to_be_visible()
    page.goto(f"{address}/console/log")
    expect(page.get_by_label("Password")).to_be_visible()


@pytest.mark.slow
def test_every_page_fits_on_a_phone(world: World, address: str, page: Page) -> None:
    released(world)
    world.sharing.ask("partner", "people", privacy=0.2, reason="x" * 300)
    page.emulate_media(color_scheme="dark")
    enter(page, world, address)
    for path in [*pages_of(world), "/docs"]:
        if "/part" not in path and "nothing" not in path:
            page.goto(f"{address}{path}")
            assert fits(page), path


@pytest.mark.slow
def test_forms_work_without_a_script(world: World, address: str, chromium: Browser) -> None:
    world.sharing.grant("people", "partner", privacy=0.5)
    world.sharing.grant("people", "university", privacy=0.6)
    context = chromium.new_context(viewport=PHONE, java_script_enabled=False)
    page = context.new_page()
    enter(page, world, address)
    page.get_by_role("link", name="Explore collusion").click()
    page.get_by_label("partner").uncheck()
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#together .verdict")).to_contain_text("university alone leaves")
    page.goto(f"{address}/console/datasets/{world.people.id}")
    page.get_by_role("button", name="Revoke").first.click()
    expect(page.locator("#grants")).to_contain_text("ended")
    context.close()
