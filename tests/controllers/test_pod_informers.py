"""One watch serves all controllers that read pods, and a selection of it has the pods of its selector."""

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.configuration import Configuration
from quorate.api.configuration.integrations import Integrations
from quorate.api.configuration.queueing import NodeFit
from quorate.api.core.pod import Pod
from quorate.api.names.kueue import POD_SET
from quorate.controllers.context import ControllerContext, event_recorder
from quorate.controllers.controller_table import ControllerRun
from quorate.controllers.informers import Informers, PodInformers, PodSelector, select_unscheduled
from quorate.controllers.process import reads_all_pods
from quorate.kube.client import Client
from quorate.kube.rest.config import RestConfig
from quorate.kube.selection import Selection
from quorate.local.server.registry.builtin import KINDS
from quorate.local.server.requests import selectors
from quorate.local.server.storage.store import Entry, Key
from quorate.observe.replica import Replica
from tests.kube.fake_server import Answer, FakeServer
from tests.kube.virtual_clock import VirtualClock
from tests.search import examples

PODS = next(kind for kind in KINDS if kind.resource == "pods")


class Recording(PodInformers):
    """Records the selections that controllers make, with their selectors."""

    def __init__(self, client: Client, *, reads_all: bool) -> None:
        self.selections: list[tuple[PodSelector, Selection[Pod]]] = []
        super().__init__(client, reads_all=reads_all)

    def select(self, name: str, selector: PodSelector, *args: Any, **options: Any) -> Selection[Pod]:
        selection = super().select(name, selector, *args, **options)
        self.selections.append((selector, selection))
        return selection


def selections(*, reads_all: bool) -> list[tuple[PodSelector, Selection[Pod]]]:
    """Return those of all controllers; none of them runs."""
    client, clock = Client(RestConfig("http://127.0.0.1:9"), random.Random(1)), VirtualClock()
    informers = Informers(client, reads_all_pods=reads_all)
    informers.pods = recording = Recording(client, reads_all=reads_all)
    informers.unscheduled_pods = select_unscheduled(recording)
    replica = Replica("standalone")
    context = ControllerContext(
        client,
        clock,
        event_recorder(client, clock),
        Configuration(),
        informers,
        random.Random(1),
        replica.recorder.record,
        replica.recorder.forget,
    )
    run = ControllerRun(context, replica)
    run.enabled_controllers()
    return recording.selections


def test_all_selections_share_the_watch_of_all_pods() -> None:
    made = selections(reads_all=True)
    assert len(made) > 5
    assert len({id(selection.informer) for _, selection in made}) == 1


WITHOUT_NODES = Configuration(node_fit=NodeFit(mode="Off"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("configuration", "flavor", "want"),
    [
        pytest.param(WITHOUT_NODES, {}, False, id="no flavor depends on nodes"),
        pytest.param(WITHOUT_NODES, {"topologyName": "racks"}, True, id="a flavor with a topology"),
        pytest.param(Configuration(), {}, True, id="a flavor that is checked against nodes"),
        pytest.param(
            Configuration(integrations=Integrations(frameworks=("pod",))), {}, True, id="plain pods"
        ),
    ],
)
def test_pods_have_one_watch_if_a_controller_reads_all(
    configuration: Configuration, flavor: dict[str, str], want: bool
) -> None:
    async def run() -> bool:
        flavors = [{"metadata": {"name": "main", "resourceVersion": "1"}, "spec": flavor}]
        answer = Answer(200, {"metadata": {"resourceVersion": "1"}, "items": flavors})
        async with FakeServer(lambda _: answer) as server, server.client() as client:
            return await reads_all_pods(client, configuration)

    assert asyncio.run(run()) is want


SELECTIONS = selections(reads_all=False)
METADATA = st.fixed_dictionaries(
    {"name": st.just("p"), "namespace": st.just("ns")},
    optional={"labels": st.dictionaries(st.sampled_from([POD_SET, "app"]), st.just("a"))},
)
SPECS = st.fixed_dictionaries(
    {"schedulerName": st.sampled_from(["default-scheduler", "volcano", "kube-batch", "quorate"])},
    optional={"nodeName": st.just("n")},
)
STATUSES = st.fixed_dictionaries(
    {"phase": st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"])},
    optional={"nominatedNodeName": st.just("m")},
)


@examples(300)
@given(metadata=METADATA, spec=SPECS, status=STATUSES)
def test_a_server_sends_every_pod_of_a_selection(
    metadata: dict[str, Any], spec: dict[str, Any], status: dict[str, Any]
) -> None:
    body = {"metadata": metadata, "spec": spec, "status": status}
    pod = codec.convert(Pod, body)
    entry = Entry(Key("pods", "ns", "p"), 1, codec.encode(body), metadata.get("labels", {}))
    for selector, selection in SELECTIONS:
        if selection.selects(pod):
            assert selectors.parse(PODS, *selector).matches(entry), selector
