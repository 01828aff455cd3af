"""Ten thousand workloads: the list scrolls, and draws the visible rows only."""

import subprocess
import sys
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, CDPSession, Page, expect

from tests.dashboard_browser.create_workloads import workload
from tests.dashboard_browser.pages import Dashboard, dashboard
from tests.e2e.commands import EXAMPLE, ROOT

COUNT: Final = 10_000
ROWS_MAX: Final = 60  # in the document
UPDATE_MS: Final = 100  # of scripting
PAINT_MS: Final = 1_000


def test_ten_thousand_workloads_are_scrolled_through(chromium: Browser, tmp_path: Path) -> None:
    with dashboard(chromium, tmp_path, "--without-controllers") as board, board.page() as page:
        board.kubectl("create", "--filename", str(EXAMPLE / "cluster-queues.yaml"))
        module = "tests.dashboard_browser.create_workloads"
        command = [sys.executable, "-m", module, str(board.data_dir / "kubeconfig"), str(COUNT)]
        subprocess.run(command, check=True, cwd=ROOT)
        page.goto("/workloads?sort=name")
        expect(page.get_by_text("10,000 workloads")).to_be_visible()
        table = page.get_by_role("table")
        expect(table).to_have_attribute("aria-rowcount", str(COUNT + 1))
        height = int(table.evaluate("table => table.scrollHeight"))
        for part in (0.1, 0.5, 0.25, 0.9, 1.0):
            table.evaluate("(table, top) => (table.scrollTop = top)", int(height * part))
            expect(table.get_by_role("link").first).to_be_visible()
            assert page.locator("[data-index]").count() <= ROWS_MAX
        expect(page.get_by_role("link", name="work-09999")).to_be_visible()
        page.get_by_role("link", name="work-09999").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("work-09999")
        page.go_back()
        expect(page.get_by_role("link", name="work-09999")).to_be_visible()  # where it was
        assert min(scripting_of_an_update(page, board, at) for at in range(3)) <= UPDATE_MS
        assert min(first_paint(page) for _ in range(3)) <= PAINT_MS


def scripting_of_an_update(page: Page, board: Dashboard, at: int) -> float:
    """Return the ms of scripting from the creation of a workload until the list counts it."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    before = script_ms(session)
    board.create(workload(COUNT + at))
    expect(page.get_by_text(f"{COUNT + at + 1:,} workloads")).to_be_visible()
    took = script_ms(session) - before
    session.detach()
    return took


def script_ms(session: CDPSession) -> float:
    metrics = session.send("Performance.getMetrics")["metrics"]
    return 1000 * next(float(each["value"]) for each in metrics if each["name"] == "ScriptDuration")


def first_paint(page: Page) -> float:
    """Return the ms from a reload to the first contents."""
    page.reload()
    page.get_by_role("table").get_by_role("link").first.wait_for()
    paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
    return float(page.evaluate(paint))
