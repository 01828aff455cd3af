"""``/metrics`` for Prometheus."""

import platform
from collections.abc import Iterator

from aiohttp import web
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

import quorate
from quorate.kube.serving.delegated_auth import Access, PathAccess
from quorate.observe.catalogue import BY_NAME, FAMILIES, ROLE
from quorate.observe.gauges import readings
from quorate.observe.page import page
from quorate.observe.replica import Replica

_BUILD = {
    "git_version": f"v{quorate.__version__}",
    "compiler": platform.python_implementation(),
    "platform": f"{platform.system().lower()}/{platform.machine()}",
}  # Go's version and the commit have no counterpart here: those labels are empty


class Gauges(Collector):
    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    def collect(self) -> Iterator[GaugeMetricFamily]:
        recorder = self._replica.recorder
        families = {
            family.name: GaugeMetricFamily(family.name, family.help, labels=recorder.labels_of(family))
            for family in FAMILIES
            if family.kind == "gauge"
        }
        build = BY_NAME["kueue_build_info"]
        families[build.name].add_metric([_BUILD.get(label, "") for label in build.labels], 1.0)
        role, differences = self._replica.role, recorder.differences
        if differences is not None:
            families["quorate_audit_differences"].add_metric([role], differences)
        if self._replica.view is not None:
            for reading in readings(self._replica.view, recorder.preemption_skips):
                family = BY_NAME[f"kueue_{reading.name}"]
                custom = recorder.custom.of(family.sources, reading.labels)
                labels = {**custom, **reading.labels, ROLE: role}
                values = [labels[label] for label in recorder.labels_of(family)]
                families[family.name].add_metric(values, reading.value)
        yield from families.values()


def metrics(replica: Replica) -> web.Application:
    registry = replica.recorder.registry
    registry.register(Gauges(replica))

    async def answer(request: web.Request) -> web.Response:
        return await page(request, registry)

    app = web.Application()
    app.router.add_get("/metrics", answer)
    return app


def right_to_metrics(request: web.Request) -> Access:
    return PathAccess("get", request.path)
