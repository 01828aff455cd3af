"""The schedule of a queue: its time axis is readable on a phone and on a wide screen."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from quorate.api.meta import at_epoch
from quorate.kube.clock import WallClock
from tests.dashboard_browser.pages import PHONE, Dashboard, dashboard
from tests.e2e.queue_manifests import queue_of_one_cpu

WIDE = (1280, 900)


@pytest.fixture(scope="module")
def board(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    """Yield the dashboard of a cluster where one job runs, one is planned, and two windows follow."""
    directory = tmp_path_factory.mktemp("schedule")
    manifests = directory / "queue.yaml"
    manifests.write_text(queue_of_one_cpu("main"))
    with dashboard(chromium, directory) as found:
        found.kubectl("create", "--filename", str(manifests))
        found.kubectl("annotate", "clusterqueue", "research", "quorate.dev/backfill=EASY")
        for name in ("running", "planned"):
            found.create(a_job(name))
        for name, hours in (("tonight", 5), ("next-month", 720)):
            found.create(a_window(name, timedelta(hours=hours)))
        yield found


def a_job(name: str) -> Any:
    labels = {"kueue.x-k8s.io/queue-name": "main", "kueue.x-k8s.io/max-exec-time-seconds": "7200"}
    container = {"name": "main", "image": "train:1", "resources": {"requests": {"cpu": "1"}}}
    annotations = {"simulate.quorate.dev/duration": "forever"}
    template = {
        "metadata": {"annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    metadata = {"name": name, "namespace": "default", "labels": labels}
    spec = {"suspend": True, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def a_window(name: str, ahead: timedelta) -> Any:
    spec = {
        "purpose": "Maintenance",
        "start": f"{at_epoch(WallClock().now()) + ahead:%Y-%m-%dT%H:%M:%SZ}",
        "durationSeconds": 3600,
        "amounts": [{"flavor": "default", "resources": {"cpu": "1"}}],
    }
    return {
        "apiVersion": "quorate.dev/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": name},
        "spec": spec,
    }


def labels_of_axis(page: Page) -> list[tuple[float, float, str]]:
    """Return the left and right ends of the labels of the axis that are shown, and their texts."""
    labels = page.locator("[data-tick]").all()
    boxes = [(label.bounding_box(), label.inner_text()) for label in labels if label.is_visible()]
    return [(box["x"], box["x"] + box["width"], text) for box, text in boxes if box is not None]


@pytest.mark.parametrize("size", [PHONE, WIDE], ids=["phone", "wide"])
def test_the_labels_of_the_time_axis_are_apart_and_within_the_lane(
    board: Dashboard, size: tuple[int, int], tmp_path: Path
) -> None:
    with board.page(size=size) as page:
        page.goto("/queues/research")
        table = page.get_by_role("table", name="Running workloads and planned starts")
        table.get_by_text("planned").first.wait_for()
        table.screenshot(path=tmp_path / "schedule.png")
        labels = labels_of_axis(page)
        assert 2 <= len(labels) <= 6
        assert all(right < left for (_, right, _), (left, _, _) in pairwise(labels)), labels
        box = table.bounding_box()
        assert box is not None
        assert labels[0][0] >= box["x"] - 1
        assert labels[-1][1] <= box["x"] + box["width"] + 1
