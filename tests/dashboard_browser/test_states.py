"""Jobs that cannot start or run: their states in the lists and in the overview of the page."""

import re
from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.dashboard_browser.pages import dashboard
from tests.e2e.test_explained_states import WORLD, a_job
from tests.e2e.test_states_in_lists import GANG, LONG, QUOTA, SLOW


def test_the_page_says_which_jobs_cannot_start_or_run(chromium: Browser, tmp_path: Path) -> None:
    with dashboard(chromium, tmp_path, "--nodes", "3") as board:
        world = tmp_path / "world.yaml"
        world.write_text(f"{WORLD.replace(QUOTA, '{name: cpu, nominalQuota: 200}')}---{GANG}")
        board.kubectl("apply", "--filename", str(world))
        four = a_job("four", cpu="6", annotations=LONG)
        four["spec"] |= {"parallelism": 4, "completions": 4}
        jobs = [
            four,
            a_job("too-small", cpu="12"),
            a_job("picky", nodeSelector={"disk": "nvme"}),
            a_job("slow", annotations=SLOW),
            a_job("fine", annotations=LONG),
            a_job("huge", cpu="300"),
            a_job("next", cpu="190"),
        ]
        board.create({"apiVersion": "v1", "kind": "List", "items": jobs})
        with board.page() as page:
            page.goto("/")
            tiles = page.get_by_label("Workloads by state").get_by_role("listitem")
            for text in ("3Stuck", "1Never fits", "1Queued", "1Running", "1Admitted"):
                expect(tiles.filter(has_text=re.compile(f"^{text}"))).to_have_count(1)
            for code in ("Nodes lack room", "Quota exceeded", "Quota short", "Pods starting"):
                expect(page.get_by_role("link", name=code)).to_be_visible()
            page.screenshot(path=tmp_path / "overview.png")
            page.get_by_role("link", name="Nodes lack room").click()
            rows = page.get_by_role("table").get_by_role("row")
            for name in ("four", "too-small", "picky"):
                expect(rows.filter(has_text=name)).to_contain_text("Stuck")
            page.goto("/workloads?sort=position")
            expect(rows.filter(has_text="huge")).to_contain_text("Never fits")
            expect(rows.filter(has_text="huge")).not_to_contain_text("next in queue")
            page.screenshot(path=tmp_path / "workloads.png")
            rows.filter(has_text="huge").get_by_role("link").first.click()
            expect(page.get_by_text("It can never start like this")).to_be_visible()
            expect(page.get_by_text("in the queue", exact=True)).to_have_count(0)
            page.goto("/queues/research")
            waiting = page.get_by_role("listitem").filter(has_text="team/huge")
            expect(waiting).to_contain_text("Never fits")
            page.screenshot(path=tmp_path / "queue.png")
            page.goto("/gangs")
            expect(page.get_by_role("row").filter(has_text="gang-")).to_contain_text("Never fits")
            page.screenshot(path=tmp_path / "gangs.png")
