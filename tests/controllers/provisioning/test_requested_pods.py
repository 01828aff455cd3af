"""The pods of a ProvisioningRequest and their templates."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from quorate.api.kueue import PodSet, Workload
from quorate.controllers.jobframework.podset_info import FlavorNotFound, InjectionConflict
from quorate.controllers.provisioning.requested_pods import pod_template, requested_pods
from tests.controllers.objects import a_flavor, a_workload, template
from tests.controllers.provisioning.provisioning_objects import a_config


def pods(
    name: str, count: int = 1, image: str = "busybox", gpu: str = "", role: str = "", **spec: Any
) -> PodSet:
    resources = {"requests": {"cpu": "1"}, "limits": {"gpu": gpu} if gpu else {}}
    containers = [{"name": "main", "image": image, "resources": resources}]
    return PodSet(name=name, count=count, template=template({"role": role}, containers, **spec))


def reserved(*pod_sets: PodSet) -> Workload:
    return a_workload(pod_sets=pod_sets, admitted_to=["spot"] * len(pod_sets))


@pytest.mark.parametrize(
    ("pod_sets", "config", "want"),
    [
        pytest.param([pods("a", 2), pods("b", 3)], {}, "2 of a, 3 of b", id="all pod sets"),
        pytest.param([pods("a", 0), pods("b", 3)], {}, "3 of b", id="pod set without pods"),
        pytest.param(
            [pods("a", 2), pods("b", gpu="1")],
            {"managedResources": ["gpu"]},
            "1 of b",
            id="only pods with a managed resource",
        ),
        pytest.param([pods("a", 2)], {"managedResources": ["gpu"]}, "", id="no managed resource"),
        pytest.param(
            [pods("a", 2), pods("b", 3)],
            {"podSetMergePolicy": "IdenticalPodTemplates"},
            "5 of a+b",
            id="identical templates",
        ),
        pytest.param(
            [pods("a", 2), pods("b", image="other")],
            {"podSetMergePolicy": "IdenticalPodTemplates"},
            "2 of a, 1 of b",
            id="templates with different images",
        ),
        pytest.param(
            [pods("a", 2), pods("b", image="other", role="x"), pods("c", 4)],
            {"podSetMergePolicy": "IdenticalWorkloadSchedulingRequirements"},
            "7 of a+b+c",
            id="identical scheduling requirements",
        ),
        pytest.param(
            [pods("a", 2), pods("b", nodeSelector={"zone": "z"})],
            {"podSetMergePolicy": "IdenticalWorkloadSchedulingRequirements"},
            "2 of a, 1 of b",
            id="different node selectors",
        ),
    ],
)
def test_pods_are_selected_and_merged(pod_sets: Sequence[PodSet], config: dict[str, Any], want: str) -> None:
    requested = requested_pods(reserved(*pod_sets), a_config(**config).spec)
    assert ", ".join(f"{each.count} of {'+'.join(each.covers)}" for each in requested) == want


def test_the_admitted_count_is_requested() -> None:
    workload = a_workload(pod_sets=[pods("a", 2)], admitted_to=["spot"])
    workload = msgspec.structs.replace(
        workload, spec=msgspec.structs.replace(workload.spec, pod_sets=(pods("a", 5),))
    )
    (requested,) = requested_pods(workload, a_config().spec)
    assert requested.count == 2


def test_a_template_has_the_scheduling_requirements_of_its_flavor() -> None:
    pod_set = pods("a", gpu="2", nodeSelector={"zone": "z"}, schedulingGates=[{"name": "gate"}])
    stale = json.loads(bytes(pod_set.template))
    stale["metadata"]["annotations"] = {"kueue.x-k8s.io/workload": "old", "own": "kept"}
    pod_set = PodSet(name="a", count=1, template=msgspec.Raw(json.dumps(stale).encode()))
    (requested,) = requested_pods(reserved(pod_set), a_config().spec)
    content = pod_template(requested, {"spot": a_flavor("spot", node_labels={"tier": "spot"})})
    assert isinstance(content, dict)
    assert content["metadata"] == {"labels": {"role": ""}, "annotations": {"own": "kept"}}
    assert content["spec"]["nodeSelector"] == {"zone": "z", "tier": "spot"}
    assert "schedulingGates" not in content["spec"]
    (container,) = content["spec"]["containers"]
    assert container["resources"] == {"requests": {"cpu": "1", "gpu": "2"}, "limits": {"gpu": "2"}}


def test_a_limit_of_the_pod_is_requested_if_no_container_requests_the_resource() -> None:
    limits = {"cpu": "4", "memory": "1Gi"}
    (requested,) = requested_pods(reserved(pods("a", resources={"limits": limits})), a_config().spec)
    content = pod_template(requested, {"spot": a_flavor("spot")})
    assert isinstance(content, dict)
    assert content["spec"]["resources"] == {"limits": limits, "requests": {"memory": "1Gi"}}


def test_a_template_needs_its_flavor_and_must_not_contradict_it() -> None:
    (requested,) = requested_pods(reserved(pods("a", nodeSelector={"tier": "solid"})), a_config().spec)
    assert pod_template(requested, {}) == FlavorNotFound("spot")
    content = pod_template(requested, {"spot": a_flavor("spot", node_labels={"tier": "spot"})})
    assert isinstance(content, InjectionConflict)
    assert "tier" in content.message
