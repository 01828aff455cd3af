"""The day of a user in the page: check a job, submit it, read its manifest and its output."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.dashboard_browser.pages import DESKTOP, PHONE, Dashboard, dashboard, overflow, violations

QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: research}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - {name: default, resources: [{name: cpu, nominalQuota: "8"}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: lab, namespace: default}
spec: {clusterQueue: research}
"""


@pytest.fixture(scope="module")
def board(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    directory = tmp_path_factory.mktemp("submit")
    with dashboard(chromium, directory, "--runtime", "process", "--node", "cpu=8,memory=8Gi") as running:
        manifests = directory / "queues.yaml"
        manifests.write_text(QUEUES)
        running.kubectl("create", "--filename", str(manifests))
        yield running


def write_job(page: Page, name: str, command: str, cpus: str) -> None:
    page.goto("/")
    page.get_by_role("link", name="Submit", exact=True).click()
    page.get_by_label("Command").fill(command)
    page.get_by_label("Name").fill(name)
    page.get_by_label("CPUs of each pod").fill(cpus)


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_job_is_checked_before_it_is_submitted(board: Dashboard, size: tuple[int, int]) -> None:
    with board.page(size=size) as page:
        write_job(page, "large", "python train.py", "9")
        page.get_by_role("button", name="Check").click()
        answer = page.get_by_role("region", name="It can never start")
        expect(answer).to_contain_text("at most 8 cpu")
        page.get_by_label("CPUs of each pod").fill("8")
        page.get_by_role("button", name="Check").click()
        expect(page.get_by_role("region", name="It would start now")).to_contain_text("quota of research")
        expect(page.get_by_role("region", name="The job as YAML")).to_contain_text("kind: Job")
        page.get_by_label("CPUs of each pod").fill("many")
        page.get_by_role("button", name="Check").click()
        expect(page.get_by_role("region", name="Refused")).to_contain_text("--cpus many: is no quantity")
        assert violations(page) == []
        assert overflow(page) <= 0
    assert board.kubectl("get", "jobs", "--output", "name") == ""


def test_a_submitted_job_shows_its_manifest_and_its_output(board: Dashboard) -> None:
    with board.page() as page:
        write_job(page, "greeting", "sh -c 'echo hello from $HOSTNAME; sleep 600'", "1")
        page.get_by_role("button", name="Submit").click()
        page.get_by_role("link", name="Show its workload").click()
        page.get_by_role("table").get_by_role("link", name="greeting").click()
        page.get_by_role("button", name="Log of greeting").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("hello from greeting")
        assert violations(page) == []
        dialog.get_by_role("button", name="Close").click()
        page.get_by_role("region", name="YAML").get_by_role("button", name="Show").click()
        expect(page.get_by_role("region", name="Job as YAML")).to_contain_text("name: greeting")
        expect(page.get_by_role("region", name="Workload as YAML")).to_contain_text("queueName: lab")
        assert violations(page) == []
        assert overflow(page) <= 0
