"""The dashboard of a local cluster in Chromium."""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.e2e.commands import ROOT, cluster, kubectl

WITHIN_MS: Final = 30_000
DESKTOP: Final = (1360, 900)
PHONE: Final = (390, 844)
THEMES: Final = ("light", "dark")
AXE: Final = ROOT / "dashboard/node_modules/axe-core/axe.min.js"
WORLD: Final = Path(__file__).with_name("world.yaml")
TOPOLOGY: Final = ("--topology", "block=2,rack=2,host=4", "--node-cpu", "6")
# Without these flags Chromium looks for updates and addresses of its own on the network.
FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
LINK: Final = re.compile(r"http://\S+/login/once\?code=\S+")


@contextmanager
def running_chromium() -> Iterator[Browser]:
    path = shutil.which("chromium")
    assert path is not None, "chromium is not installed: apt-get install chromium"
    expect.set_options(timeout=WITHIN_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Dashboard:
    """A dashboard that runs; its link has logged ``state`` in, which is that of an administrator."""

    data_dir: Path
    base: str
    browser: Browser
    state: Any

    @contextmanager
    def page(
        self, *, size: tuple[int, int] = DESKTOP, theme: str = "light", anonymous: bool = False
    ) -> Iterator[Page]:
        """Open a page; at the end no error was in its console, and no request had left its origin."""
        width, height = size
        context = self.browser.new_context(
            base_url=self.base,
            viewport={"width": width, "height": height},
            color_scheme="dark" if theme == "dark" else "light",
            reduced_motion="reduce",
            storage_state=None if anonymous else self.state,
        )
        context.set_default_timeout(WITHIN_MS)
        problems = watched(context, self.base)
        try:
            yield context.new_page()
            assert not problems, problems
        finally:
            context.close()

    def kubectl(self, *arguments: str) -> str:
        return kubectl(self.data_dir, *arguments)

    def create(self, manifest: Any) -> None:
        """Create an object, or several, from Python values."""
        path = self.data_dir / "manifest.json"
        path.write_text(json.dumps(manifest))
        self.kubectl("create", "--filename", str(path))

    def token(self, namespace: str, account: str) -> str:
        path = self.data_dir / "token-request.json"
        path.write_text(
            json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})
        )
        url = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        answer = json.loads(self.kubectl("create", "--raw", url, "--filename", str(path)))
        return str(answer["status"]["token"])


def watched(context: BrowserContext, base: str) -> list[str]:
    """Collect errors of scripts, refusals of the content policy, and requests to other origins."""
    problems: list[str] = []

    def requested(url: str) -> None:
        if not url.startswith((base, "data:")):
            problems.append(f"request to {url}")

    context.on("weberror", lambda error: problems.append(str(error.error)))
    context.on(
        "console", lambda line: problems.append(line.text) if "Content Security" in line.text else None
    )
    context.on("request", lambda request: requested(request.url))
    return problems


@contextmanager
def dashboard(browser: Browser, directory: Path, *options: str) -> Iterator[Dashboard]:
    """Run ``quorate local up --dashboard``, and log in by the link that it prints."""
    data_dir = directory / "cluster"
    with cluster(data_dir, "--dashboard", "--dashboard-port", "0", *options) as process:
        assert process.stdout is not None
        link = next(found[0] for line in process.stdout if (found := LINK.search(line)))
        parts = urlsplit(link)
        base = f"{parts.scheme}://{parts.netloc}"
        context = browser.new_context()
        page = context.new_page()
        page.goto(link)
        page.get_by_role("navigation", name="Views").wait_for(timeout=WITHIN_MS)
        state = context.storage_state()
        context.close()
        yield Dashboard(data_dir, base, browser, state)


def fill(board: Dashboard) -> None:
    """Create the objects of ``world.yaml``, and jobs in order: some run, some wait, one evicts others."""
    board.kubectl("create", "--filename", str(WORLD))
    for at in range(4):
        board.create(job("red", f"train-{at}", "main", pods=7, cpu=2))
    for at in range(4):  # before the next one: jobs of the same second have no order
        starts = "--for=jsonpath={.spec.suspend}=false"
        board.kubectl("wait", f"job/train-{at}", "--namespace=red", "--timeout=60s", starts)
    board.create(job("red", "train-4", "main", pods=7, cpu=2))
    for at in range(2):
        board.create(job("blue", f"translate-{at}", "main", pods=4, cpu=3))
    board.create(job("blue", "weekly-report", "reports", pods=1, cpu=2))


def job(namespace: str, name: str, queue: str, *, pods: int, cpu: int, **labels: str) -> dict[str, Any]:
    """Return a Job with pods that run until they are deleted."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"kueue.x-k8s.io/queue-name": queue, **labels},
        },
        "spec": {
            "suspend": True,
            "parallelism": pods,
            "completions": pods,
            "template": {
                "metadata": {
                    "annotations": {
                        "simulate.quorate.dev/duration": "forever",
                        "kueue.x-k8s.io/podset-preferred-topology": "cloud.provider.com/topology-rack",
                    }
                },
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [
                        {
                            "name": "main",
                            "image": "example.com/train:1",
                            "resources": {"requests": {"cpu": str(cpu), "memory": f"{2 * cpu}Gi"}},
                        }
                    ],
                },
            },
        },
    }


def violations(page: Page) -> list[str]:
    """Return what axe-core finds wrong with the page as it is shown."""
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run()")
    return [
        f"{violation['id']}: {node['html'][:200]}: {node.get('failureSummary', '')[:300]}"
        for violation in found["violations"]
        for node in violation["nodes"]
    ]


def overflow(page: Page) -> int:
    """Return by how many pixels the page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))
