"""Write pictures of the dashboard's views: ``python -m tests.dashboard_browser.screenshots DIRECTORY``."""

import sys
import tempfile
from pathlib import Path
from typing import Final

from playwright.sync_api import Page

from tests.dashboard_browser.pages import DESKTOP, PHONE, TOPOLOGY, dashboard, fill, running_chromium

# By name of the picture: the address, and a text that appears once the view is there.
VIEWS: Final = {
    "overview": ("/?resource=cpu", "Quota by cohort"),
    "queue": ("/queues/vision", "Quota and use"),
    "workloads": ("/workloads?sort=position", "train-0"),
    "workload": ("", "Why it waits"),
    "gangs": ("/gangs", "climate"),
    "nodes": ("/nodes?gang.pods=2&gang.cpu=1", "It fits"),
    "submit": ("/submit", "Not checked yet"),
    "what-if": ("/what-if", "No comparison yet"),
}
SETTLED_MS: Final = 500  # until charts are drawn


def take(page: Page, place: str, text: str, path: Path) -> None:
    if not place:
        page.goto("/workloads?q=train-4")
        place = str(page.get_by_role("table").get_by_role("link").first.get_attribute("href"))
    page.goto(place)
    page.get_by_text(text).first.wait_for()
    page.get_by_text("Live", exact=True).wait_for()
    page.wait_for_timeout(SETTLED_MS)
    page.screenshot(path=path)


def write(directory: Path) -> None:
    """Write one picture of each view: wide and light, wide and dark for the overview, and narrow."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        running_chromium() as browser,
        dashboard(browser, Path(scratch), *TOPOLOGY) as board,
    ):
        fill(board)
        with board.page() as page:
            page.goto("/workloads?q=train-4")
            page.get_by_role("table").get_by_text("Queued").wait_for()
            for name, (place, text) in VIEWS.items():
                take(page, place, text, directory / f"dashboard-{name}.png")
        with board.page(theme="dark") as page:
            take(page, *VIEWS["overview"], directory / "dashboard-overview-dark.png")
        with board.page(size=PHONE) as page:
            for name, (place, text) in VIEWS.items():
                take(page, place, text, directory / f"dashboard-{name}-phone.png")
        with board.page(size=DESKTOP, anonymous=True) as page:
            page.goto("/")
            page.get_by_label("Token", exact=True).wait_for()
            page.screenshot(path=directory / "dashboard-login.png")


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    write(target)
