"""The dashboard in a real Chromium; skipped where there is none, or no playwright."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from host_places import make_campaign, opened, planned, scripted_guard
from http_door import Door, door
from server_campaigns import Place

from kernelarc_mcp.dashboard.stream import STREAM
from kernelarc_mcp.host.host import Host

sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright (extra `browser`)")
axe_api = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium on the PATH")
MARKUP = "<img src=x onerror=alert(1)>"
PATIENCE_MS = 90_000
REFUSED = "def nothing_{}():\n    pass\n"
"""No entry point: the gate refuses it at once."""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """Return a server of a campaign whose guard does what candidates say."""
    place = tmp_path_factory.mktemp("browser")
    tokens = dict(make_campaign(place / "campaign", attempts=1000))
    with opened(place / "campaign") as host:
        tokens["viewer"] = host.issue_token("viewer", "viewer")
    with door(Place(place / "campaign", tokens), scripted_guard(place)) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Return a running Chromium."""
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(params=["light", "dark"])
def page(request: pytest.FixtureRequest, here: Door, browser: Any) -> Iterator[Any]:
    """Return a page that may only ask its own server, and logs no error."""
    context = browser.new_context(color_scheme=request.param)
    opened_page = context.new_page()
    opened_page.set_default_timeout(PATIENCE_MS)
    asked: list[str] = []
    said: list[str] = []
    opened_page.on("request", lambda one: asked.append(one.url))
    opened_page.on("console", lambda one: said.append(one.text) if one.type == "error" else None)
    opened_page.on("pageerror", lambda error: said.append(str(error)))
    yield opened_page
    context.close()
    assert said == []
    assert all(url.startswith((here.base, "data:")) for url in asked), asked


def submit(folder: Path, number: int, plan: str) -> None:
    host = Host.open(folder)
    try:
        host.submit("ada", source=planned(number, plan), summary=MARKUP)
    finally:
        host.close()


def test_the_page_shows_a_verdict_when_it_comes(here: Door, page: Any) -> None:
    page.goto(f"{here.base}/#token={here.place.tokens['viewer']}")
    page.get_by_role("heading", name="test: add").wait_for()
    assert page.url == f"{here.base}/", "the token does not stay in the address"
    rows = page.locator("#stream tbody tr")
    judged = page.locator("#stream tbody tr:has(td.REVERT)").count()
    submit(here.place.folder, judged, "gain:-30")
    page.locator("#stream tbody tr:has(td.REVERT)").nth(judged).wait_for()
    assert MARKUP in rows.first.inner_text(), "what agents say is text, never markup"
    assert "REVERT" not in page.title() and page.title().endswith(" test")
    news = page.locator("#news")
    sync_api.expect(news).to_contain_text(
        "Shown to be slower than the record.", timeout=PATIENCE_MS
    )
    for place in ("by-attempt", "by-seconds", "lineage", "roofline"):
        assert page.locator(f"#{place} canvas").count() >= 1
    assert "unknown, not zero" in page.locator("#cost-notes").inner_text()
    assert not page.get_by_role("button", name="Older").is_visible(), "all fits on one page"


def test_who_has_no_token_is_asked_for_one(here: Door, page: Any) -> None:
    page.goto(here.base)
    page.get_by_label("Token of this campaign").fill(here.place.tokens["viewer"])
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Agents").wait_for()
    assert not page.get_by_label("Token of this campaign").is_visible()


def test_older_submissions_are_read_in_pages_and_stay_while_others_come(
    here: Door, page: Any
) -> None:
    host = Host.open(here.place.folder)
    try:
        for number in range(STREAM):
            host.submit("bob", source=REFUSED.format(number), summary=f"try {number}")
    finally:
        host.close()
    page.goto(f"{here.base}/#token={here.place.tokens['viewer']}")
    page.get_by_role("button", name="Older").click()
    newest = page.get_by_role("button", name="Newest")
    sync_api.expect(newest).to_be_enabled(timeout=PATIENCE_MS)
    before = page.locator("#where").inner_text()
    row = page.locator("#stream tbody tr").first.inner_text()
    submit(here.place.folder, 900 + int(before.split()[-1].rstrip(".")), "wrong")
    sync_api.expect(page.locator("#news")).to_contain_text("REVERT", timeout=PATIENCE_MS)
    assert page.locator("#stream tbody tr").first.inner_text() == row
    newest.click()
    assert page.locator("#stream tbody tr").first.inner_text() != row


def test_the_page_has_no_serious_fault_of_accessibility(here: Door, page: Any) -> None:
    page.goto(f"{here.base}/#token={here.place.tokens['viewer']}")
    page.get_by_role("heading", name="Device and trust").wait_for()
    found = axe_api.Axe().run(page)
    serious = [
        f"{one['id']}: {one['help']}"
        for one in found.response["violations"]
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == []
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
