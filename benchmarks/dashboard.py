"""Time the dashboard in a real Chromium on campaigns of many submissions; prints a table in Markdown.

    python -m benchmarks.dashboard --make 10000 --place FOLDER      # fills FOLDER/10000 with a scripted guard
    python -m benchmarks.dashboard FOLDER/10000 FOLDER/100000 [--write docs/measurements/dashboard.md]

Each campaign is served by `serve` with the scripted guard of the tests, whose verdicts take no time, and opened by
a viewer. Exit status 1 where a page of at most 10,000 submissions opens or updates slower than in a second, or
anything is logged as an error, asked elsewhere, or found serious by axe-core.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any, Final

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

from benchmarks.load_campaign import KERNEL, create, fill, grow
from kernelarc_mcp.host.host import Host

_TESTS: Final = Path(__file__).resolve().parent.parent / "tests"
sys.path.insert(0, str(_TESTS))

from host_places import scripted_guard  # noqa: E402
from http_door import Door, door  # noqa: E402
from server_campaigns import Place  # noqa: E402

AGENTS: Final = 4
PARTS: Final = 4
OPENINGS: Final = 5
UPDATES: Final = 5
GOAL_SECONDS: Final = 1.0
GOAL_SUBMISSIONS: Final = 10_000
_PATIENCE_MS: Final = 120_000
_SEEN: Final = """ticket => new Promise(done => {
  const look = () => [...document.querySelectorAll('#stream tbody tr')].some(
    row => row.cells[0].textContent.split(' ')[0] === ticket && row.cells[2].className);
  if (look()) return done(Date.now());
  new MutationObserver((_, watcher) => { if (look()) { watcher.disconnect(); done(Date.now()); } })
    .observe(document.getElementById('stream'), { childList: true, subtree: true });
})"""


@dataclass(frozen=True)
class Measured:
    """One campaign."""

    submissions: int
    records: int
    confirmed: int
    kilobytes: float
    """Of the page's data."""
    opened: list[float]
    """Seconds from asking for the page to its tables and charts."""
    updated: list[float]
    """Seconds from a verdict's row in the ledger to its row on the page."""
    faults: list[str]


def main() -> None:
    """Fill a campaign, or measure some."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("campaigns", nargs="*", type=Path)
    parser.add_argument("--make", type=int, default=0, metavar="SUBMISSIONS")
    parser.add_argument("--place", type=Path, default=Path())
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    if asked.make:
        make(asked.place, asked.make)
        return
    rows = [measure(folder, asked.chromium) for folder in asked.campaigns]
    text = table(rows)
    print(text)
    if asked.write:
        asked.write.write_text(text, encoding="utf-8")
    sys.exit(any(_misses(row) for row in rows))


def make(place: Path, submissions: int) -> None:
    """Fill a campaign: one in fifty judged by the scripted guard, the rest refused by the gate."""
    place.mkdir(parents=True, exist_ok=True)
    folder = place / str(submissions)
    judged = max(AGENTS, submissions // 50 // PARTS // AGENTS)
    create(folder, AGENTS, 2 * submissions)
    guard = scripted_guard(place)
    for part in range(1, PARTS + 1):
        fill(folder, judged, guard)
        host = Host.open(folder)
        grow(host, submissions * part // PARTS)
        host.close()


def measure(folder: Path, chromium: str) -> Measured:
    """Serve a campaign and look at it."""
    host = Host.open(folder)
    viewer = host.issue_token(f"viewer-{time.time_ns()}", "viewer")
    for agent in host.agents():
        host.register(agent)
    guard = scripted_guard(folder.parent)
    with door(Place(folder, {"viewer": viewer}), guard) as found, _page(found, chromium) as seen:
        page, faults = seen
        opened = [_open(page, found, viewer) for _ in range(OPENINGS + 1)][1:]
        glance = page.evaluate("last")
        size = page.evaluate("JSON.stringify(last).length")
        updated = [_update(host, page, number) for number in range(UPDATES)]
        page.locator("#older").click()
        page.locator("#newest:not([disabled])").wait_for()
        serious = [
            f"axe: {one['id']}"
            for one in Axe().run(page).response["violations"]
            if one["impact"] in ("serious", "critical")
        ]
    host.close()
    return Measured(
        submissions=glance["attempts_used"],
        records=glance["records_in_all"],
        confirmed=glance["curve"]["confirmed_in_all"],
        kilobytes=size / 1e3,
        opened=opened,
        updated=updated,
        faults=[*faults, *serious],
    )


@contextmanager
def _page(found: Door, chromium: str) -> Iterator[tuple[Any, list[str]]]:
    """Yield a page, and a list of what it logs as an error or asks elsewhere."""
    faults: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(_PATIENCE_MS)
        page.on(
            "request",
            lambda one: (
                None if one.url.startswith((found.base, "data:")) else faults.append(one.url)
            ),
        )
        page.on("console", lambda one: faults.append(one.text) if one.type == "error" else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        yield page, faults
        browser.close()


def _open(page: Any, found: Door, viewer: str) -> float:
    page.goto("about:blank")
    began = time.monotonic()
    page.goto(f"{found.base}/#token={viewer}")
    # One piece of work of the page fills its tables and charts and then shows them.
    page.locator("#main:not([hidden])").wait_for()
    return time.monotonic() - began


def _update(host: Host, page: Any, number: int) -> float:
    """Submit a candidate that is found wrong at once; return how late the page shows it."""
    agent = host.agents()[number % AGENTS]
    unlike = f"{time.time_ns()}"
    ticket = host.submit(agent, source=KERNEL.format(unlike, "wrong"), summary="Timed.").ticket
    shown = page.evaluate(_SEEN, ticket) / 1e3
    with host.campaign.journal.reading() as state:
        settled = datetime.fromisoformat(state.attempts[ticket].settled_at).timestamp()
    return float(shown - settled)


def table(rows: list[Measured]) -> str:
    """Return the measurements as a document."""
    lines = [
        "# The dashboard with many submissions",
        "",
        "`python -m benchmarks.dashboard CAMPAIGN...`: a real Chromium beside the server on one machine; one submission in fifty was",
        "judged by the tests' scripted guard, the gate refused the rest. Opening is from asking for the page to its tables and charts,",
        f"medians (largest) of {OPENINGS} after a first one; updating is from a verdict's row in the ledger to its row on the page.",
        "",
        "| submissions | records | confirmed | data | opens (goal 1 s) | shows a verdict after (goal 1 s) | errors, requests elsewhere, serious findings of axe-core |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row.submissions:,} | {row.records} | {row.confirmed} | {row.kilobytes:.0f} kB"
            f" | {_times(row.opened)} | {_times(row.updated)} | {'; '.join(row.faults) or 'none'} |"
        )
    return "\n".join(lines) + "\n"


def _times(seconds: list[float]) -> str:
    return f"{median(seconds):.2f} s ({max(seconds):.2f})"


def _misses(row: Measured) -> bool:
    slow = max(median(row.opened), median(row.updated)) > GOAL_SECONDS
    return bool(row.faults) or (slow and row.submissions <= GOAL_SUBMISSIONS + 100)


if __name__ == "__main__":
    main()
