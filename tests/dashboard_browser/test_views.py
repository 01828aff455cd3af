"""The views of one cluster: what they show, how they are moved between, and what tenants see."""

import json
import re
from collections.abc import Iterator
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.dashboard_browser.pages import (
    DESKTOP,
    PHONE,
    THEMES,
    TOPOLOGY,
    WITHIN_MS,
    Dashboard,
    dashboard,
    fill,
    job,
    overflow,
    violations,
)

LIVE_MS: Final = 2_000
KUEUE: Final = "kueue.x-k8s.io/v1beta2"
VIEWS: Final = {
    "/": "Quota by cohort",
    "/queues": "Cluster queues",
    "/queues/vision": "Quota and use",
    "/workloads": "red / main",
    "/gangs": "Pod groups",
    "/nodes": "Does a gang fit?",
    "/submit": "Not checked yet",
    "/what-if": "No comparison yet",
}


@pytest.fixture(scope="module")
def board(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    with dashboard(chromium, tmp_path_factory.mktemp("views"), *TOPOLOGY) as running:
        fill(running)
        with running.page() as page:
            page.goto("/workloads?q=train-4")
            page.get_by_role("table").get_by_text("Queued").wait_for()
        yield running


def first_workload(page: Page, query: str) -> str:
    """Return the address of the first workload that matches."""
    page.goto(f"/workloads?q={query}")
    return str(page.get_by_role("table").get_by_role("link").first.get_attribute("href"))


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_no_view_has_accessibility_violations_or_is_too_wide(
    board: Dashboard, size: tuple[int, int], theme: str
) -> None:
    with board.page(size=size, theme=theme) as page:
        places = {**VIEWS, first_workload(page, "train-4"): "Why it waits"}
        page.goto("/gangs")
        gang = page.get_by_role("link", name="climate").first.get_attribute("href")
        places[str(gang)] = "Timeline"
        for place, text in places.items():
            page.goto(place)
            page.get_by_text(text).first.wait_for()
            expect(page.get_by_text("Live", exact=True)).to_be_visible()
            assert violations(page) == [], place
            assert overflow(page) <= 0, place
    with board.page(size=size, theme=theme, anonymous=True) as page:
        page.goto("/")
        page.get_by_label("Token", exact=True).wait_for()
        assert violations(page) == [], "login"


def test_the_overview_shows_what_is_borrowed_what_waits_and_what_is_stopped(board: Dashboard) -> None:
    with board.page() as page:
        page.goto("/?resource=cpu")
        expect(
            page.get_by_role("img", name="tas-flavor, cpu: 56 of 40 reserved, 16 borrowed")
        ).to_be_visible()
        expect(page.get_by_role("img", name="16 lent to others")).to_be_visible()
        expect(page.get_by_role("region", name="Needs attention")).to_contain_text("reports stopped (Hold)")


def test_changes_appear_within_two_seconds_without_a_reload(board: Dashboard) -> None:
    with board.page() as page:
        page.goto("/workloads?namespace=red")
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
        page.get_by_role("link", name="train-0").wait_for()
        board.create(job("red", "sudden", "main", pods=30, cpu=2))
        page.get_by_role("link", name="sudden").wait_for(timeout=LIVE_MS)
        board.kubectl("delete", "job", "sudden", "--namespace", "red", "--wait=false")
        expect(page.get_by_role("link", name="sudden")).to_have_count(0, timeout=LIVE_MS)


def test_addresses_hold_the_view_and_its_filters_and_the_back_button_returns(board: Dashboard) -> None:
    with board.page() as page:
        page.goto("/")
        page.get_by_role("link", name="Workloads", exact=True).click()
        page.get_by_label("State", exact=True).select_option("Queued")
        page.get_by_label("Text", exact=True).fill("train")
        page.wait_for_url("**/workloads?state=Queued&q=train")
        page.get_by_role("table").get_by_role("link", name="train-4").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("train-4")
        deep = page.url
        page.go_back()
        page.wait_for_url("**/workloads?state=Queued&q=train")
        expect(page.get_by_label("Text", exact=True)).to_have_value("train")
        page.go_back()
        expect(page.get_by_role("heading", name="Quota by cohort")).to_be_visible()
    with board.page() as page:
        page.goto(deep)
        expect(page.get_by_role("heading", level=1)).to_contain_text("train-4")
        expect(page.get_by_role("region", name="Why it waits")).to_contain_text("short by")


def test_the_page_is_used_with_the_keyboard_alone(board: Dashboard) -> None:
    with board.page() as page:
        page.goto("/")
        page.get_by_text("Live", exact=True).wait_for()
        page.keyboard.press("/")
        page.get_by_role("combobox", name="Search").wait_for()
        page.keyboard.type("vision")
        expect(page.get_by_role("option", selected=True)).to_contain_text("vision")
        page.keyboard.press("Enter")
        page.wait_for_url("**/queues/vision")
        page.keyboard.press("g")
        page.keyboard.press("w")
        page.wait_for_url("**/workloads")
        table = page.get_by_role("table")
        table.get_by_role("link").first.wait_for()
        table.focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        expect(page.locator("[data-index='1'] a")).to_be_focused()
        page.keyboard.press("Enter")
        page.wait_for_url("**/workloads/*/*")
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_contain_text("Go to Queues")


def test_the_theme_is_kept(board: Dashboard) -> None:
    with board.page(theme="light") as page:
        page.goto("/")
        page.get_by_role("button", name="Theme").click()
        page.get_by_role("menuitem", name="Dark").click()
        page.reload()
        expect(page.locator("html")).to_have_attribute("data-mantine-color-scheme", "dark")


def test_a_gang_is_placed_on_the_heat_map(board: Dashboard) -> None:
    with board.page() as page:
        page.goto("/nodes")
        page.get_by_label("Pods", exact=True).fill("2")
        page.get_by_role("textbox", name="cpu").fill("1")
        page.get_by_role("button", name="Find places").click()
        expect(page.get_by_text("It fits")).to_be_visible()
        page.get_by_role("button", name="pods of the gang").first.wait_for()
        page.get_by_label("Pods", exact=True).fill("500")
        page.get_by_role("button", name="Find places").click()
        expect(page.get_by_text("It does not fit")).to_be_visible()


def test_what_if_compares_quotas_and_names_mistakes(board: Dashboard) -> None:
    with board.page() as page:
        page.goto("/what-if")
        found = json.loads(board.kubectl("get", "clusterqueue", "vision", "--output", "json"))
        found["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "200"
        manifest = {
            "apiVersion": found["apiVersion"],
            "kind": "ClusterQueue",
            "metadata": {"name": "vision"},
            "spec": found["spec"],
        }
        page.get_by_label("Manifests as YAML").fill(json.dumps(manifest))
        page.get_by_role("button", name="Compare").click()
        expect(page.get_by_role("region", name="All jobs").first).to_contain_text("Mean wait")
        assert violations(page) == []
        page.get_by_label("Manifests as YAML").fill("kind: [")
        page.get_by_role("button", name="Compare").click()
        expect(page.get_by_role("heading", name="The manifests have mistakes")).to_be_visible()


def test_stopping_a_queue_asks_first_and_shows_at_once(board: Dashboard) -> None:
    with board.page() as page:
        page.goto("/queues/language")
        page.get_by_role("button", name="Stop").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("HoldAndDrain")
        assert violations(page) == []
        dialog.get_by_role("button", name="Stop").click()
        page.get_by_role("button", name="Resume").click()
        page.get_by_role("dialog").get_by_role("button", name="Resume").click()
        page.get_by_role("button", name="Stop").wait_for()


def test_a_tenant_sees_its_own_workloads_only(board: Dashboard) -> None:
    rules = [
        {"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloads", "localqueues"], "verbs": ["get", "list"]}
    ]
    home = {"name": "tenant", "namespace": "red"}
    rbac = "rbac.authorization.k8s.io"
    board.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": home})
    board.create({"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": home, "rules": rules})
    subject = {"kind": "ServiceAccount", **home}
    role = {"apiGroup": rbac, "kind": "Role", "name": "tenant"}
    board.create(
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": home,
            "subjects": [subject],
            "roleRef": role,
        }
    )
    with board.page(anonymous=True) as page:
        page.goto("/workloads")
        page.get_by_label("Token", exact=True).fill("wrong")
        page.get_by_role("button", name="Log in with the token").click()
        page.get_by_text("does not accept this token").wait_for()
        page.get_by_label("Token", exact=True).fill(board.token("red", "tenant"))
        page.get_by_role("button", name="Log in with the token").click()
        page.get_by_role("link", name="train-0").wait_for()
        expect(page.get_by_role("link", name="translate-0")).to_have_count(0)
        shown = [page.goto(place) and page.locator("main").inner_text() for place in VIEWS]
        assert not any("translate" in str(text) or "weekly" in str(text) for text in shown)
        page.goto("/nodes")
        expect(page.get_by_text("You may not list nodes")).to_be_visible()
        for path in ("workloads?namespace=blue", "search?q=translate", "workloads?q=translate"):
            answer = page.request.get(f"/api/v1/{path}")
            assert "translate-0" not in answer.text(), path
        other = json.loads(
            board.kubectl("get", "workloads.kueue.x-k8s.io", "--namespace", "blue", "--output", "json")
        )
        names = [each["metadata"]["name"] for each in other["items"]]
        statuses = {page.request.get(f"/api/v1/workloads/blue/{name}").status for name in names}
        assert statuses == {404}
        page.get_by_role("button", name="User").click()
        page.get_by_role("menuitem", name="Log out").click()
        page.get_by_label("Token", exact=True).wait_for(timeout=WITHIN_MS)
        assert page.request.get("/api/v1/workloads").status == 401


TOO_WIDE = """() => [...document.querySelectorAll(".scroll-x")]
    .filter(table => table.scrollWidth > table.clientWidth).map(table => table.textContent)"""
CUT_OFF = """() => [...document.querySelectorAll(".as-cards td, [role=row] [role=cell]")]
    .filter(cell => cell.getBoundingClientRect().right > innerWidth + 1).map(cell => cell.textContent)"""


def test_the_rows_of_lists_are_cards_on_a_phone(board: Dashboard) -> None:
    with board.page(size=PHONE) as page:
        lists = {
            "/queues": ("red/main", "Waiting"),
            first_workload(page, "train-0"): ("train-0", "Node"),
        }
        for place, (text, label) in lists.items():
            page.goto(place)
            page.get_by_text(text).first.wait_for()
            cell = page.locator(f"td[data-label='{label}']").first
            expect(cell).to_be_visible()
            shown = cell.evaluate("cell => getComputedStyle(cell, '::before').content")
            assert shown == f'"{label}"', "each value has the name of its column beside it"
            assert page.evaluate(TOO_WIDE) == [], place
            assert page.evaluate(CUT_OFF) == [], place
            assert overflow(page) <= 0, place
            heights = page.locator(".as-cards tr").evaluate_all("rows => rows.map(row => row.clientHeight)")
            assert max(heights) < PHONE[1] / 3, "several rows are visible at a time"


def test_lists_say_how_old_their_data_are_once_the_page_does_not_follow_the_cluster(board: Dashboard) -> None:
    with board.page() as page:
        page.goto("/queues")
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
        expect(page.get_by_text("As it was")).to_have_count(0)
        page.route("**/api/v1/events", lambda route: route.abort())
        page.reload()
        lists = page.get_by_text(re.compile("^As it was [0-9]+s ago$"))
        expect(lists).to_have_count(2)  # cluster queues and local queues
        page.goto("/workloads")
        expect(lists).to_have_count(1)
        page.unroute("**/api/v1/events")
        expect(lists).to_have_count(0)


@pytest.fixture
def twins(board: Dashboard) -> Iterator[None]:
    """Run a job of one pod with two containers, which uses one cpu of a quota of a thousand."""
    quota = {"name": "cpu", "nominalQuota": 1000}, {"name": "memory", "nominalQuota": "1000Gi"}
    flavor = {"name": "tas-flavor", "resources": [*quota]}
    group = {"coveredResources": ["cpu", "memory"], "flavors": [flavor]}
    version = {"apiVersion": "kueue.x-k8s.io/v1beta2"}
    where = {"name": "large", "namespace": "blue"}
    running = job("blue", "twins", "large", pods=1, cpu=1)
    containers = running["spec"]["template"]["spec"]["containers"]
    containers.append({"name": "sidecar", "image": "example.com/logs:1"})
    objects = [
        {**version, "kind": "ClusterQueue", "metadata": {"name": "large"},
         "spec": {"namespaceSelector": {}, "resourceGroups": [group]}},
        {**version, "kind": "LocalQueue", "metadata": where, "spec": {"clusterQueue": "large"}},
        running,
    ]  # fmt: skip
    board.create({"apiVersion": "v1", "kind": "List", "items": objects})
    ready = "--for=jsonpath={.status.ready}=1"
    board.kubectl("wait", "job/twins", "--namespace=blue", "--timeout=60s", ready)
    yield
    board.kubectl("delete", "job/twins", "localqueue/large", "clusterqueue/large", "--namespace=blue")


@pytest.mark.usefixtures("twins")
def test_the_log_of_a_pod_with_several_containers_is_that_of_the_chosen_one(board: Dashboard) -> None:
    with board.page() as page:
        page.goto(first_workload(page, "twins"))
        page.get_by_role("button", name="Log of twins").click()
        choice = page.get_by_role("dialog").get_by_label("Container")
        expect(choice).to_have_value("main")
        with page.expect_request("**/log?container=sidecar"):
            choice.select_option("sidecar")
        assert violations(page) == []


@pytest.mark.usefixtures("twins")
def test_one_cpu_of_a_thousand_is_seen(board: Dashboard) -> None:
    with board.page() as page:
        page.goto("/queues?resource=cpu")
        bar = page.get_by_role("img", name="tas-flavor, cpu: 1 of 1,000 reserved")
        width = bar.locator("[data-kind='admitted']").evaluate("bar => bar.getBoundingClientRect().width")
        assert width >= 3


def test_a_queue_draws_what_runs_until_when_and_what_is_planned(board: Dashboard) -> None:
    quota = [{"name": "plain", "resources": [{"name": "cpu", "nominalQuota": 2}]}]
    groups = [{"coveredResources": ["cpu"], "flavors": quota}]
    board.create(
        {
            "apiVersion": "v1",
            "kind": "List",
            "items": [
                {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": "plain"}},
                {
                    "apiVersion": KUEUE,
                    "kind": "ClusterQueue",
                    "metadata": {"name": "planned", "annotations": {"quorate.dev/backfill": "EASY"}},
                    "spec": {"namespaceSelector": {}, "resourceGroups": groups},
                },
                {
                    "apiVersion": KUEUE,
                    "kind": "LocalQueue",
                    "metadata": {"name": "planned", "namespace": "red"},
                    "spec": {"clusterQueue": "planned"},
                },
            ],
        }
    )
    limited = {"kueue.x-k8s.io/max-exec-time-seconds": "3600"}
    for name, cpu in (("runs", 1), ("large", 2)):
        manifest = job("red", name, "planned", pods=1, cpu=cpu, **limited)
        template = manifest["spec"]["template"]
        del template["metadata"]["annotations"]["kueue.x-k8s.io/podset-preferred-topology"]
        del template["spec"]["containers"][0]["resources"]["requests"]["memory"]
        board.create(manifest)
        if name == "runs":
            starts = "--for=jsonpath={.spec.suspend}=false"
            board.kubectl("wait", "job/runs", "--namespace=red", "--timeout=60s", starts)
    with board.page() as page:
        page.goto("/queues/planned")
        rows = page.get_by_role("table", name="Running workloads and planned starts").get_by_role("row")
        expect(rows).to_have_count(2)
        moment = r"(\d{4}-\d\d-\d\d )?\d\d:\d\d UTC \(declared\)"  # with the day unless it is today
        expect(rows.first).to_contain_text(re.compile(f"until {moment}"))
        expect(rows.last).to_contain_text(re.compile(f"planned {moment}"))
        assert violations(page) == []
        rows.last.get_by_role("link").click()
        sentence = re.compile(r"planned start .* \(declared\), needs 2 of 2 cpu")
        expect(page.get_by_text(sentence)).to_be_visible()
