"""The two jobs of examples/all-or-nothing in the page: their deadlock, and their completion."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.dashboard_browser.pages import WITHIN_MS, dashboard
from tests.e2e.commands import EXAMPLE

QUEUES = "cluster-queues"
JOBS = ("1-quick-job", "2-job1", "3-job2")
# Room for 22 pods of 316 MiB: 15 of one job and 7 of the other, if one of them is a batch of pods ahead.
NODES = ("--nodes", "2", "--node-memory", "3560000Ki", "--speed", "4")


@pytest.mark.parametrize("configuration", ["without-pods-ready", "with-pods-ready"])
def test_the_jobs_in_the_page(chromium: Browser, tmp_path: Path, configuration: str) -> None:
    config = EXAMPLE / f"{configuration}.yaml"
    with dashboard(chromium, tmp_path, *NODES, "--config", str(config)) as board, board.page() as page:
        page.goto("/workloads")
        page.get_by_text("No workloads yet").wait_for()
        # If the queues come last, both jobs are admitted at once: else one might get all its pods first.
        files = (*JOBS, QUEUES) if configuration == "without-pods-ready" else (QUEUES, *JOBS)
        for name in files:
            board.kubectl("create", "--filename", str(EXAMPLE / f"{name}.yaml"))
        row = {
            name: page.get_by_role("row").filter(has=page.get_by_role("link", name=name))
            for name in ("job1", "job2")
        }
        if configuration == "without-pods-ready":
            for each in row.values():
                expect(each).to_contain_text("Running in part", timeout=WITHIN_MS)
            page.get_by_role("link", name="job1").click()
            pods = page.get_by_role("region", name="Pods", exact=True)
            expect(pods.get_by_text("Pending").first).to_be_visible(timeout=WITHIN_MS)
            expect(pods).to_contain_text("of 20 ready")
            page.goto("/workloads?state=Finished")
            expect(page.get_by_role("link", name="quick-job")).to_be_visible(timeout=WITHIN_MS)
            expect(page.get_by_role("link", name="job1")).to_have_count(0)
        else:
            expect(row["job2"]).to_contain_text("Queued", timeout=WITHIN_MS)
            for each in row.values():
                expect(each).to_contain_text("Finished", timeout=WITHIN_MS)
