"""Custom labels of series, and the sources of their values."""

import pytest

from quorate.api.configuration import default_configuration, load_configuration
from quorate.api.configuration.metric_labels import CustomLabel
from quorate.api.kueue import ClusterQueue
from quorate.api.meta import ObjectMeta
from quorate.kube.informer import Change
from quorate.observe.custom_labels import UNTRACKED, CustomLabels
from quorate.observe.recorder import Recorder
from quorate.queueing.state import State

TEAM = CustomLabel(name="team", key="team")
PAYER = CustomLabel(name="payer", key="example.com/payer", from_annotation=True)
SITE = CustomLabel(name="site", key="site", source="LocalQueue")
TIER = CustomLabel(name="tier", key="tier", source="Workload", tracked_values=("gold",))
ALL = CustomLabels((TEAM, TIER, SITE, PAYER))


def test_names_are_in_the_order_of_sources_and_configuration() -> None:
    assert ALL.names(("ClusterQueue", "Workload")) == ("custom_team", "custom_payer", "custom_tier")
    assert ALL.names(()) == ()


@pytest.mark.parametrize(
    ("tier", "want"),
    [
        pytest.param("gold", "gold", id="a tracked value"),
        pytest.param("tin", UNTRACKED, id="an untracked value"),
        pytest.param(None, UNTRACKED, id="no value"),
    ],
)
def test_untracked_values_are_merged(tier: str | None, want: str) -> None:
    metadata = ObjectMeta(name="w", labels={} if tier is None else {"tier": tier})
    assert ALL.values_of("Workload", metadata) == {"custom_tier": want}


def test_a_series_has_the_values_of_the_object_that_its_labels_identify() -> None:
    labels = CustomLabels((TEAM, SITE, PAYER))
    queue = ObjectMeta(name="q", labels={"team": "a"}, annotations={"example.com/payer": "b"})
    labels.put("ClusterQueue", ("q",), queue)
    labels.put("LocalQueue", ("l", "ns"), ObjectMeta(name="l", namespace="ns", labels={"site": "x"}))
    of_queue = {"custom_team": "a", "custom_payer": "b"}
    assert labels.of(("ClusterQueue",), {"cluster_queue": "q", "reason": ""}) == of_queue
    assert labels.of(("ClusterQueue",), {"preempting_cluster_queue": "q"}) == of_queue
    assert labels.of(("LocalQueue",), {"name": "l", "namespace": "ns"}) == {"custom_site": "x"}
    labels.put("ClusterQueue", ("q",), None)
    empty = {"custom_team": "", "custom_payer": ""}
    assert labels.of(("ClusterQueue",), {"cluster_queue": "q"}) == empty


def test_counters_of_another_value_are_kept_when_a_value_changes() -> None:
    recorder = Recorder(lambda: "leader", CustomLabels((TEAM,)))

    def a_queue(team: str) -> ClusterQueue:
        queue = ClusterQueue(metadata=ObjectMeta(name="q", labels={"team": team, "other": team}))
        recorder.custom.put("ClusterQueue", ("q",), queue.metadata)
        return queue

    def counted() -> dict[str, float]:
        name = "kueue_finished_workloads_total"
        return {
            sample.labels["custom_team"]: sample.value
            for family in recorder.registry.collect()
            for sample in family.samples
            if sample.name == name
        }

    first = a_queue("a")
    labels = {"cluster_queue": "q", "priority_class": ""}
    recorder.record("kueue_finished_workloads_total", labels)
    state = State(default_configuration())
    second = a_queue("b")
    recorder.cluster_queue_changed(Change(first, second), state)
    recorder.record("kueue_finished_workloads_total", labels)
    assert counted() == {"a": 1.0, "b": 1.0}
    recorder.cluster_queue_changed(Change(second, None), state)
    assert counted() == {}


@pytest.mark.parametrize("on", [True, False])
def test_custom_labels_require_their_feature_gate(on: bool) -> None:
    loaded = load_configuration(
        f"""
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
featureGates: {{CustomMetricLabels: {str(on).lower()}}}
metrics: {{customLabels: [{{name: team}}, {{name: payer, sourceAnnotationKey: example.com/payer}}]}}
"""
    )
    assert loaded.configuration.metrics.custom_labels == ((TEAM, PAYER) if on else ())
    warned = [warning for warning in loaded.warnings if "customLabels" in warning]
    assert warned == (
        [] if on else ["metrics.customLabels: has no effect without the gate CustomMetricLabels"]
    )


def test_objects_are_identified_by_the_labels_of_their_series() -> None:
    """A local queue and a cluster queue may have the same name."""
    labels = CustomLabels((TEAM, SITE))
    labels.put("LocalQueue", ("q", "ns"), ObjectMeta(name="q", namespace="ns", labels={"site": "x"}))
    assert labels.of(("ClusterQueue",), {"cluster_queue": "q"}) == {"custom_team": ""}
