"""Which pods are asked for, and what their templates say."""

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
        pytest.param([pods("a", 0), pods("b", 3)], {}, "3 of b", id="one without pods"),
        pytest.param(
            [pods("a", 2), pods("b", gpu="1")], {"managedResources": ["gpu"]}, "1 of b", id="by resource"
        ),
        pytest.param([pods("a", 2)], {"managedResources": ["gpu"]}, "", id="no managed resource"),
        pytest.param(
            [pods("a", 2), pods("b", 3)],
            {"podSetMergePolicy": "IdenticalPodTemplates"},
            "5 of a+b",
            id="equal",
        ),
        pytest.param(
            [pods("a", 2), pods("b", image="other")],
            {"podSetMergePolicy": "IdenticalPodTemplates"},
            "2 of a, 1 of b",
            id="another image",
        ),
        pytest.param(
            [pods("a", 2), pods("b", image="other", role="x"), pods("c", 4)],
            {"podSetMergePolicy": "IdenticalWorkloadSchedulingRequirements"},
            "7 of a+b+c",
            id="equal to the scheduler",
        ),
        pytest.param(
            [pods("a", 2), pods("b", nodeSelector={"zone": "z"})],
            {"podSetMergePolicy": "IdenticalWorkloadSchedulingRequirements"},
            "2 of a, 1 of b",
            id="another place",
        ),
    ],
)
def test_the_pods_that_are_asked_for(pod_sets: Sequence[PodSet], config: dict[str, Any], want: str) -> None:
    asked = requested_pods(reserved(*pod_sets), a_config(**config).spec)
    assert ", ".join(f"{each.count} of {'+'.join(each.covers)}" for each in asked) == want


def test_as_many_as_were_admitted() -> None:
    workload = a_workload(pod_sets=[pods("a", 2)], admitted_to=["spot"])
    workload = msgspec.structs.replace(
        workload, spec=msgspec.structs.replace(workload.spec, pod_sets=(pods("a", 5),))
    )
    (asked,) = requested_pods(workload, a_config().spec)
    assert asked.count == 2


def test_a_template_is_what_the_pods_will_be() -> None:
    pod_set = pods("a", gpu="2", nodeSelector={"zone": "z"}, schedulingGates=[{"name": "gate"}])
    stale = json.loads(bytes(pod_set.template))
    stale["metadata"]["annotations"] = {"kueue.x-k8s.io/workload": "old", "own": "kept"}
    pod_set = PodSet(name="a", count=1, template=msgspec.Raw(json.dumps(stale).encode()))
    (asked,) = requested_pods(reserved(pod_set), a_config().spec)
    content = pod_template(asked, {"spot": a_flavor("spot", node_labels={"tier": "spot"})})
    assert isinstance(content, dict)
    assert content["metadata"] == {"labels": {"role": ""}, "annotations": {"own": "kept"}}
    assert content["spec"]["nodeSelector"] == {"zone": "z", "tier": "spot"}
    assert "schedulingGates" not in content["spec"]
    (container,) = content["spec"]["containers"]
    assert container["resources"] == {"requests": {"cpu": "1", "gpu": "2"}, "limits": {"gpu": "2"}}


def test_a_template_waits_for_its_flavor_and_may_contradict_it() -> None:
    (asked,) = requested_pods(reserved(pods("a", nodeSelector={"tier": "solid"})), a_config().spec)
    assert pod_template(asked, {}) == FlavorNotFound("spot")
    content = pod_template(asked, {"spot": a_flavor("spot", node_labels={"tier": "spot"})})
    assert isinstance(content, InjectionConflict)
    assert "tier" in content.message
