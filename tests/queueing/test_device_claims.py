"""Devices that pods claim count against quota, as the configuration maps their classes."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.core import PodResourceClaim
from quorate.api.core.device_claims import DeviceClass, ResourceClaimSpec, ResourceClaimTemplate
from quorate.api.meta import Key, at_epoch
from quorate.placement.filters.devices.quantities import INT64_MAX
from quorate.queueing.decisions import Hold, Reserve
from quorate.queueing.pending.device_claims import (
    CountedClaim,
    classes_by_extended_resource,
    device_requests,
    devices_of,
)
from quorate.queueing.pending.device_sources import ClaimProblem
from tests.queueing.world import World

Json = dict[str, Any]
GPUS = {"gpu.example.com": "example.com/gpu", "big-gpu.example.com": "example.com/gpu", "nic": "nics"}


def requests(text: str) -> list[Json]:
    """Return the requests of a claim; ``gpu.example.com=2``: two devices of the class."""
    given = (word.partition("=") for word in text.split())
    return [{"name": f"r{at}", "exactly": exactly(*each[::2])} for at, each in enumerate(given)]


def exactly(name: str, count: str = "1", **fields: Any) -> Json:
    return {"deviceClassName": name, "allocationMode": "ExactCount", "count": int(count or 1), **fields}


def a_claim(requests: list[Json]) -> ResourceClaimSpec:
    return codec.convert(ResourceClaimSpec, {"devices": {"requests": requests}})


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param(requests("gpu.example.com=2"), {"gpu.example.com": 2}, id="a count"),
        pytest.param(requests("gpu.example.com=2 nic=1 gpu.example.com=1"), {"gpu.example.com": 3, "nic": 1},
                     id="several requests"),
        pytest.param([{"exactly": {"deviceClassName": "nic"}}], {"nic": 1}, id="the defaults of the server"),
        pytest.param(requests(f"nic={INT64_MAX} nic=1"), {"nic": INT64_MAX}, id="a sum beyond its range"),
        pytest.param([], {}, id="no requests"),
        pytest.param([{"firstAvailable": [{"name": "a"}]}],
                     "devices.requests[0]: FirstAvailable device selection is not supported (write exactly)",
                     id="first"),
        pytest.param([*requests("nic=1"), {"name": "r"}], "devices.requests[1].exactly is missing",
                     id="nothing"),
        pytest.param([*requests("nic=1"), {"exactly": exactly("nic", "5", adminAccess=True)}], {"nic": 1},
                     id="administrator access"),
        pytest.param([{"exactly": exactly("nic", adminAccess=True, allocationMode="All")}], {},
                     id="administrator access to all devices"),
        pytest.param([{"exactly": exactly("nic", allocationMode="All")}],
                     "devices.requests[0].exactly.allocationMode: AllocationMode 'All' is not supported "
                     "(write ExactCount)",
                     id="all devices"),
    ],
)  # fmt: skip
def test_a_claim_requests_devices_of_classes(given: list[Json], want: object) -> None:
    assert devices_of(a_claim(given)) == want


SHORT = ClaimProblem("devices.requests[1]", "1 device(s) match but 3 requested", 2)
TEMPLATES = {
    "one": CountedClaim(devices_of(a_claim(requests("gpu.example.com")))),
    "mixed": CountedClaim(devices_of(a_claim(requests("big-gpu.example.com=2 nic=4")))),
    "unmapped": CountedClaim(devices_of(a_claim(requests("fpga")))),
    "all": CountedClaim(devices_of(a_claim([{"exactly": exactly("nic", allocationMode="All")}]))),
    "parts": CountedClaim({}, {"gpu.memory": 5, "nics": 1}),
    "short": CountedClaim({}, {}, (SHORT,)),
}


@pytest.mark.parametrize(
    ("claims", "want", "findings"),
    [
        pytest.param("one", {"example.com/gpu": 1}, (), id="one claim"),
        pytest.param("one one mixed", {"example.com/gpu": 4, "nics": 4}, (),
                     id="two classes of one resource"),
        pytest.param("", {}, (), id="no claim"),
        pytest.param("one unmapped", {"example.com/gpu": 1},
                     ("DeviceClass fpga is not mapped in DRA configuration for podset main (claim c1)",),
                     id="a class without a mapping"),
        pytest.param("none", {}, ("pod set main: claim c0: ResourceClaimTemplate none does not exist",),
                     id="no such template"),
        pytest.param("all", {},
                     ("pod set main: claim c0: ResourceClaimTemplate all: devices.requests[0].exactly."
                      "allocationMode: AllocationMode 'All' is not supported (write ExactCount)",),
                     id="not counted"),
        pytest.param("parts parts mixed", {"example.com/gpu": 2, "gpu.memory": 10, "nics": 6}, (),
                     id="parts of devices"),
        pytest.param("one short", {"example.com/gpu": 1},
                     ("spec.podSets[3].template.spec.resourceClaims[1].devices.requests[1]: Internal error: "
                      "ResourceClaimTemplate short: 1 device(s) match but 3 requested",),
                     id="too few devices"),
        pytest.param("=shared", {},
                     ("KueueDRAIntegration feature does not support use of resource claims: pod set main: "
                      "claim c0 names ResourceClaim shared (name a ResourceClaimTemplate)",),
                     id="a claim by its name"),
    ],
)  # fmt: skip
def test_claims_of_a_pod_count_against_quota(
    claims: str, want: dict[str, int], findings: tuple[str, ...]
) -> None:
    listed = [
        PodResourceClaim(name=f"c{at}", resource_claim_name=name[1:])
        if name.startswith("=")
        else PodResourceClaim(name=f"c{at}", resource_claim_template_name=name)
        for at, name in enumerate(claims.split())
    ]
    found = device_requests("main", 3, listed, TEMPLATES.get, GPUS, "does not exist")
    assert (found.amounts, found.findings) == (want, findings)
    assert found.short_by == 2 * ("short" in claims)


def a_world(gates: dict[str, bool], count: int = 1, quota: int = 4) -> World:
    """Return a world with a workload of ``count`` pods, each with a claim of template ``two``."""
    claims = [{"name": "gpu", "resourceClaimTemplateName": "two"}]
    pod = {"containers": [{"requests": {"cpu": 1}}], "resourceClaims": claims}
    mappings = [{"name": "example.com/gpu", "deviceClassNames": ["gpu.example.com"]}]
    return World(
        {
            "flavors": ["default"],
            "clusterQueues": {"cq": {"quota": [{"default": {"cpu": 100, "example.com/gpu": quota}}]}},
            "workloads": [{"name": "w", "queue": "cq", "podSets": [{"count": count, "pod": pod}]}],
            "config": {"featureGates": gates, "resources": {"deviceClassMappings": mappings}},
        }
    )


def decided(world: World) -> str:
    """Return the admitted devices or the message of the pending workload; empty: nothing was decided."""
    decisions = world.admission_cycle.run(world.now).decisions
    if not decisions:
        return ""
    (decision,) = decisions
    if isinstance(decision, Reserve):
        (pod_set,) = decision.admission.pod_set_assignments
        return f"admitted with {pod_set.resource_usage.get('example.com/gpu', 0)}"
    assert isinstance(decision, Hold)
    return decision.message


def a_template(namespace: str, count: int = 2) -> ResourceClaimTemplate:
    spec = {"spec": {"devices": {"requests": requests(f"gpu.example.com={count}")}}}
    return codec.convert(
        ResourceClaimTemplate, {"metadata": {"name": "two", "namespace": namespace}, "spec": spec}
    )


def namespace_of(world: World) -> str:
    (entry,) = world.state.ledger.entries.values()
    return entry.key.namespace


@pytest.mark.parametrize(
    ("count", "want"),
    [
        (2, "admitted with 4"),
        (3, "couldn't assign flavors to pod set main: insufficient quota for example.com/gpu in flavor "
            "default, previously considered podsets requests (0) + current podset request (6) > maximum "
            "capacity (4)"),
    ],
)  # fmt: skip
def test_devices_of_all_pods_need_quota(count: int, want: str) -> None:
    world = a_world({}, count)
    world.state.request_updates.put_claim_template(a_template(namespace_of(world)))
    assert decided(world) == want


def test_a_workload_waits_for_its_template() -> None:
    world = a_world({})
    assert decided(world).endswith("pod set main: claim gpu: ResourceClaimTemplate two does not exist")
    world.state.request_updates.put_claim_template(a_template("elsewhere"))
    assert decided(world) == "", "a template of another namespace changes nothing"
    world.state.request_updates.put_claim_template(a_template(namespace_of(world)))
    assert decided(world) == "admitted with 2"


def test_a_template_that_is_deleted_holds_the_workload_again() -> None:
    world = a_world({}, quota=1)
    namespace = namespace_of(world)
    world.state.request_updates.put_claim_template(a_template(namespace))
    assert "insufficient quota for example.com/gpu" in decided(world)
    world.state.request_updates.remove_claim_template(Key(namespace, "two"))
    assert decided(world).endswith("ResourceClaimTemplate two does not exist")


@pytest.mark.parametrize(
    ("holds", "want"),
    [
        (True, "Workload uses DRA resources but the KueueDRAIntegration feature gate is not enabled: pod set "
               "main claims devices (gpu)"),
        (False, "admitted with 0"),
    ],
)  # fmt: skip
def test_claims_are_not_counted_with_the_gate_off(holds: bool, want: str) -> None:
    gates = {"KueueDRAIntegration": False, "KueueDRARejectWorkloadsWhenDRADisabled": holds}
    assert decided(a_world(gates)) == want


def test_a_workload_with_uncounted_devices_is_inadmissible() -> None:
    world = a_world({"KueueDRAIntegration": False})
    (hold,) = world.admission_cycle.run(world.now).decisions
    assert isinstance(hold, Hold)
    assert hold.condition_reason == "Inadmissible"


def a_class(name: str, resource: str, created: int = 0) -> DeviceClass:
    metadata = {"name": name, "creationTimestamp": at_epoch(created)}
    return codec.convert(DeviceClass, {"metadata": metadata, "spec": {"extendedResourceName": resource}})


@pytest.mark.parametrize(
    ("classes", "want"),
    [
        pytest.param([a_class("b", "r"), a_class("a", "r")], {"r": "a"}, id="equal times: the first by name"),
        pytest.param([a_class("a", "r", 1), a_class("b", "r", 2)], {"r": "b"}, id="the newest"),
        pytest.param([a_class("a", "")], {}, id="a class without an extended resource"),
    ],
)
def test_one_class_backs_an_extended_resource(classes: list[DeviceClass], want: dict[str, str]) -> None:
    assert classes_by_extended_resource(classes) == want


@pytest.mark.parametrize(
    ("gates", "want"),
    [
        ({}, "admitted with example.com/gpu=3"),
        ({"KueueDRAIntegrationExtendedResource": False}, "admitted with example.com/gpu=1 vendor/gpu=2"),
        ({"KueueDRAIntegration": False, "KueueDRARejectWorkloadsWhenDRADisabled": False},
         "admitted with vendor/gpu=2"),
    ],
)  # fmt: skip
def test_an_extended_resource_of_a_mapped_class_counts_as_its_resource(
    gates: dict[str, bool], want: str
) -> None:
    pod = {
        "containers": [{"requests": {"vendor/gpu": 2}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "two"}],
    }
    mappings = [{"name": "example.com/gpu", "deviceClassNames": ["gpu.example.com"]}]
    world = World(
        {
            "flavors": ["default"],
            "clusterQueues": {"cq": {"quota": [{"default": {"vendor/gpu": 9, "example.com/gpu": 9}}]}},
            "workloads": [{"name": "w", "queue": "cq", "podSets": [{"count": 1, "pod": pod}]}],
            "config": {"featureGates": gates, "resources": {"deviceClassMappings": mappings}},
        }
    )
    world.state.request_updates.put_claim_template(a_template(namespace_of(world), count=1))
    world.state.request_updates.put_device_class(a_class("gpu.example.com", "vendor/gpu"))
    (decision,) = world.admission_cycle.run(world.now).decisions
    assert isinstance(decision, Reserve), decision
    (pod_set,) = decision.admission.pod_set_assignments
    usage = " ".join(f"{name}={amount}" for name, amount in sorted(pod_set.resource_usage.items()))
    assert f"admitted with {usage}" == want


def test_an_extended_resource_of_devices_counts_in_sidecars_and_overhead_too() -> None:
    world = World(
        {
            "flavors": ["default"],
            "clusterQueues": {"cq": {"quota": [{"default": {"example.com/gpu": 9}}]}},
            "workloads": [
                {
                    "name": "w",
                    "queue": "cq",
                    "podSets": [
                        {
                            "count": 1,
                            "pod": {
                                "overhead": {"vendor/gpu": 1},
                                "initContainers": [{"restartPolicy": "Always", "limits": {"vendor/gpu": 2}}],
                                "containers": [{"limits": {"vendor/gpu": 3}}],
                            },
                        }
                    ],
                }
            ],
            "config": {
                "resources": {
                    "deviceClassMappings": [
                        {"name": "example.com/gpu", "deviceClassNames": ["gpu.example.com"]}
                    ]
                }
            },
        }
    )
    world.state.request_updates.put_device_class(a_class("gpu.example.com", "vendor/gpu"))
    (decision,) = world.admission_cycle.run(world.now).decisions
    assert isinstance(decision, Reserve), decision
    (pod_set,) = decision.admission.pod_set_assignments
    assert {name: str(amount) for name, amount in pod_set.resource_usage.items()} == {"example.com/gpu": "6"}
