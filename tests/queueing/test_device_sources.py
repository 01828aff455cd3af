"""Claims for counters and capacities of devices, and claims that too few devices match."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.configuration.queueing import DeviceSource
from quorate.api.core.device_claims import (
    DeviceClass,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    ResourceSlice,
)
from quorate.placement.claim_requirements import DeviceId
from quorate.placement.filters.devices.pools import DeviceCatalog
from quorate.queueing.decisions import Hold, Reserve
from quorate.queueing.pending.device_sources import charges, matched_counts
from tests.queueing.world import World

Json = dict[str, Any]
DRIVER = "gpu.example.com"


def a_slice(devices: str, name: str = "s", pool: str = "pool", count: int = 1, driver: str = DRIVER) -> Json:
    """``a:mig=10`` is the device ``a`` of type ``mig`` that consumes 10 of the counter ``memory``.

    ``a:mig/10`` has the capacity 10 that several claims may share.
    """
    written = []
    for word in devices.split():
        device, _, rest = word.partition(":")
        kind, sign, amount = rest.partition("=" if "=" in rest else "/")
        body: Json = {"name": device, "attributes": {"type": {"string": kind}}}
        if sign == "=":
            body["consumesCounters"] = [{"counterSet": "set", "counters": {"memory": {"value": amount}}}]
        elif sign == "/":
            body |= {"allowMultipleAllocations": True, "capacity": {"memory": {"value": amount}}}
        written.append(body)
    pool_body = {"name": pool, "generation": 1, "resourceSliceCount": count}
    spec = {"driver": driver, "pool": pool_body, "allNodes": True, "devices": written}
    return {"metadata": {"name": name}, "spec": spec}


def a_catalog(*slices: Json) -> DeviceCatalog:
    catalog = DeviceCatalog()
    for piece in slices:
        catalog.set_slice(codec.convert(ResourceSlice, piece))
    return catalog


def of_type(kind: str) -> str:
    return f"device.attributes['{DRIVER}'].type == '{kind}'"


def a_request(device_class: str, count: int = 1, select: str = "", **fields: Any) -> Json:
    selectors = [{"cel": {"expression": select}}] if select else []
    exactly = {"deviceClassName": device_class, "count": count, "selectors": selectors, **fields}
    return {"name": "r", "exactly": exactly}


def a_claim(*requests: Json) -> ResourceClaimSpec:
    return codec.convert(ResourceClaimSpec, {"devices": {"requests": requests}})


def a_class(name: str, *expressions: str) -> DeviceClass:
    selectors = [{"cel": {"expression": text}} for text in expressions]
    return codec.convert(DeviceClass, {"metadata": {"name": name}, "spec": {"selectors": selectors}})


def a_source(kind: Any, expression: str = "true", resource: str = "gpu.memory") -> DeviceSource:
    return DeviceSource(kind=kind, resource=resource, name="memory", driver=DRIVER, expression=expression)


CLASSES = {
    each.metadata.name: each
    for each in (
        a_class("mig", of_type("mig")),
        a_class("share"),
        a_class("gpu"),
        a_class("wrong", "device."),
    )
}
SOURCES = {"mig": (a_source("counter"),), "share": (a_source("capacity"),)}
MIG = a_slice("a:gpu=40Gi b:mig=5Gi c:mig=10Gi")
SHARES = a_slice("a:gpu/80Gi b:gpu/40Gi")
OF_DRIVER = "memory of driver gpu.example.com"


def unmatched(at: int, device_class: str, matching: int, count: int, more: str = "") -> str:
    return (
        f"devices.requests[{at}].exactly.selectors: insufficient matching devices for CEL selector in "
        f"DeviceClass {device_class}: {matching} device(s) match in the cluster but {count} requested{more} "
        f"({count - matching} short)"
    )


@pytest.mark.parametrize(
    ("requests", "slices", "want"),
    [
        pytest.param([a_request("mig")], [MIG], "gpu.memory=10Gi", id="the largest counter that matches"),
        pytest.param([a_request("mig", 2)], [MIG], "gpu.memory=20Gi", id="times the count"),
        pytest.param([a_request("mig"), a_request("mig")], [MIG], "gpu.memory=20Gi", id="several requests"),
        pytest.param([a_request("mig", adminAccess=True)], [MIG], "", id="administrator access"),
        pytest.param([a_request("mig")], [a_slice("b:mig")],
                     f"devices.requests[0]: none of 1 matching devices consumes counter {OF_DRIVER}",
                     id="no such counter"),
        pytest.param([a_request("mig", 3)], [MIG], "devices.requests[0]: insufficient matching devices for "
                     "counter memory of driver gpu.example.com: 2 device(s) match but 3 requested (1 short)",
                     id="too few partitions"),
        pytest.param([a_request("mig")], [a_slice("b:mig=5Gi", count=2)],
                     "devices.requests[0]: insufficient matching devices for counter memory of driver "
                     "gpu.example.com: 0 device(s) match but 1 requested (1 short)", id="an incomplete pool"),
        pytest.param([a_request("mig")], [a_slice("b:mig=5Gi", driver="other")],
                     "devices.requests[0]: insufficient matching devices for counter memory of driver "
                     "gpu.example.com: 0 device(s) match but 1 requested (1 short)", id="another driver"),
        pytest.param([a_request("mig", 1, of_type("none"))], [MIG],
                     unmatched(0, "mig", 0, 1), id="a selector without devices"),
        pytest.param([a_request("share")], [SHARES], "gpu.memory=80Gi", id="the largest capacity"),
        pytest.param([a_request("share", capacity={"requests": {"memory": "20Gi"}})], [SHARES],
                     "gpu.memory=20Gi", id="the requested capacity"),
        pytest.param([a_request("share", 2, capacity={"requests": {f"{DRIVER}/memory": "20Gi"}})], [SHARES],
                     "gpu.memory=40Gi", id="a qualified name, times the count"),
        pytest.param([a_request("share", capacity={"requests": {"memory": "90Gi"}})], [SHARES],
                     f"devices.requests[0]: 90Gi of capacity {OF_DRIVER} cannot be satisfied by any of 2 "
                     "matching devices, of which the largest has 80Gi", id="too large a capacity"),
        pytest.param([a_request("share")], [MIG],
                     f"devices.requests[0]: none of 3 matching devices has capacity {OF_DRIVER}",
                     id="no such capacity"),
        pytest.param([a_request("gpu", 9)], [MIG], "", id="whole devices without a selector"),
        pytest.param([a_request("gpu", 3, of_type("gpu"))], [MIG, a_slice("a:gpu", "t", "other")],
                     unmatched(0, "gpu", 2, 3), id="whole devices"),
        pytest.param([a_request("gpu", 1, "true"), a_request("gpu", 1, of_type("gpu"))],
                     [a_slice("a:gpu b:mig")], "", id="another choice of devices satisfies both"),
        pytest.param([a_request("gpu", 1, of_type("gpu")), a_request("gpu", 1, of_type("gpu"))],
                     [a_slice("a:gpu b:mig")],
                     unmatched(1, "gpu", 0, 1), id="one device for two requests"),
        pytest.param([a_request("gpu", 1, of_type("gpu")), a_request("gpu", 1, of_type("gpu"))],
                     [a_slice("a:gpu/80Gi")], "", id="a device that requests share"),
        pytest.param([a_request("gpu", 1, of_type("gpu"), adminAccess=True),
                      a_request("gpu", 1, of_type("gpu"))],
                     [a_slice("a:gpu b:mig")], "", id="administrator access takes no device"),
        pytest.param([a_request("gpu", 1, "device.attributes['x'].y == 1")], [a_slice("a:gpu")],
                     unmatched(0, "gpu", 0, 1, " (a selector failed for gpu.example.com/pool/a: ..."),
                     id="a selector that fails"),
        pytest.param([a_request("gpu", 1, "device.driver ==")], [MIG],
                     "devices.requests[0]: CEL compilation failed: device.driver ==: ...",
                     id="an invalid selector"),
        pytest.param([a_request("wrong", 1, "true")], [MIG],
                     "devices.requests[0]: CEL compilation failed: device.: ...", id="an invalid class"),
        pytest.param([a_request("gpu", 1, "[1].exists(each, each == 2)")], [MIG], "",
                     id="a selector that is not evaluated selects all"),
        pytest.param([a_request("gpu", 1, "unknown(device)")], [MIG], "",
                     id="a selector with a function that only Kubernetes has"),
        pytest.param([a_request("gpu", 1, "dyn(optional.none())")], [a_slice("a:gpu")],
                     unmatched(0, "gpu", 0, 1, " (a selector failed for gpu.example.com/pool/a: ..."),
                     id="a selector without a value"),
        pytest.param([a_request("fpga", 1, "true")], [MIG],
                     "devices.requests[0]: failed to get DeviceClass fpga: it does not exist",
                     id="no such class"),
    ],
)  # fmt: skip
def test_what_a_claim_counts_of_devices(requests: list[Json], slices: list[Json], want: str) -> None:
    amounts, problems = charges(a_claim(*requests), SOURCES, CLASSES, a_catalog(*slices))
    shown = [f"{name}={amount >> 30}Gi" for name, amount in amounts.items()]
    for problem in problems:
        text = f"{problem.field}: {problem.text}"
        begin, dots, _ = want.partition("...")
        if dots and text.startswith(begin):
            text = f"{begin}..."  # the rest is the text of the runtime
        shown.append(f"{text} ({problem.short_by} short)" if problem.short_by else text)
    assert " ".join(shown) == want


REQUESTS = st.lists(st.tuples(st.integers(1, 3), st.sets(st.sampled_from("abcde"))), max_size=4)


@given(requests=REQUESTS)
def test_no_choice_of_devices_satisfies_more_requests(requests: list[tuple[int, set[str]]]) -> None:
    """Hall's theorem: all requests are satisfied if each set of them matches as many devices as it counts."""
    devices = [(count, [DeviceId("d", "p", name) for name in sorted(names)]) for count, names in requests]
    satisfied = matched_counts(devices) == [count for count, _ in requests]
    assert satisfied == all(
        sum(count for count, _ in chosen) <= len(set().union(*(names for _, names in chosen)))
        for bits in range(1 << len(requests))
        for chosen in [[each for at, each in enumerate(requests) if bits >> at & 1]]
    )


@given(
    counts=st.lists(st.integers(1, 2), min_size=1, max_size=3),
    memory=st.lists(st.integers(1, 99), min_size=2, max_size=5),
    shares=st.booleans(),
)
def test_what_requests_count_adds_up_and_suffices(counts: list[int], memory: list[int], shares: bool) -> None:
    """Claims count what one claim with all their requests does, and enough for any device."""
    sign, name = ("/", "share") if shares else ("=", "mig")
    catalog = a_catalog(a_slice(" ".join(f"d{at}:mig{sign}{amount}" for at, amount in enumerate(memory))))
    requests = [a_request(name, count) for count in counts]
    together, problems = charges(a_claim(*requests), SOURCES, CLASSES, catalog)
    alone = [charges(a_claim(each), SOURCES, CLASSES, catalog)[0]["gpu.memory"] for each in requests]
    assert not problems
    assert together == {"gpu.memory": sum(alone)}
    assert all(amount == count * max(memory) for amount, count in zip(alone, counts, strict=True))


@given(order=st.permutations([MIG, a_slice("x:mig=7Gi", "t", "p2"), a_slice("y:mig=9Gi", "u", "p3", 2)]))
def test_the_order_of_slices_changes_nothing(order: Sequence[Json]) -> None:
    claim = a_claim(a_request("mig", 4))
    assert charges(claim, SOURCES, CLASSES, a_catalog(*order)) == charges(
        claim, SOURCES, CLASSES, a_catalog(*sorted(order, key=str))
    )


SOURCE = {"name": "memory", "driver": DRIVER, "expression": "true"}
MAPPING = {"name": "gpu.memory", "deviceClassNames": ["mig"], "sources": [{"counter": SOURCE}]}


def a_world(pod: Json, quota: str = "30Gi", count: int = 1) -> World:
    """Return a world with a workload of ``count`` pods."""
    return World(
        {
            "flavors": ["default"],
            "clusterQueues": {"cq": {"quota": [{"default": {"gpu.memory": quota}}]}},
            "workloads": [{"name": "w", "queue": "cq", "podSets": [{"count": count, "pod": pod}]}],
            "config": {"resources": {"deviceClassMappings": [MAPPING]}},
        }
    )


def a_world_with_claims(quota: str = "30Gi", count: int = 1) -> World:
    """Return a world with a workload of ``count`` pods, each with a claim of template ``part``."""
    claims = [{"name": "gpu", "resourceClaimTemplateName": "part"}]
    world = a_world({"resourceClaims": claims}, quota, count)
    (entry,) = world.state.ledger.entries.values()
    spec = {"spec": {"devices": {"requests": [a_request("mig")]}}}
    metadata = {"name": "part", "namespace": entry.key.namespace}
    template = codec.convert(ResourceClaimTemplate, {"metadata": metadata, "spec": spec})
    world.state.request_updates.put_claim_template(template)
    world.state.request_updates.put_device_class(a_class("mig", of_type("mig")))
    return world


def decided(world: World) -> str:
    """Return the admitted amount or the message of the pending workload; empty: nothing was decided."""
    decisions = world.admission_cycle.run(world.now).decisions
    if not decisions:
        return ""
    (decision,) = decisions
    if isinstance(decision, Reserve):
        (pod_set,) = decision.admission.pod_set_assignments
        return f"admitted with {pod_set.resource_usage['gpu.memory']}"
    assert isinstance(decision, Hold)
    return decision.message


SHORT = (
    "spec.podSets[0].template.spec.resourceClaims[0].devices.requests[0]: Internal error: "
    "ResourceClaimTemplate part: insufficient matching devices for counter memory of driver gpu.example.com: "
    "0 device(s) match but 1 requested"
)


def test_a_workload_waits_for_the_devices_of_its_claims() -> None:
    world = a_world_with_claims(count=2)
    assert decided(world) == SHORT
    updates = world.state.request_updates
    updates.put_resource_slice(codec.convert(ResourceSlice, a_slice("a:gpu=40Gi")))
    assert decided(world) == "", "a slice without a device of the class changes nothing"
    updates.put_resource_slice(codec.convert(ResourceSlice, a_slice("b:mig=5Gi", "t", "p2")))
    assert decided(world) == "admitted with 10Gi"


def test_a_slice_that_is_deleted_holds_the_workload_again() -> None:
    world = a_world_with_claims(quota="1Gi")
    updates = world.state.request_updates
    updates.put_resource_slice(codec.convert(ResourceSlice, a_slice("b:mig=5Gi")))
    assert "insufficient quota for gpu.memory" in decided(world)
    updates.remove_resource_slice("s")
    assert decided(world) == SHORT


def test_without_slices_only_claims_of_classes_with_sources_wait() -> None:
    world = a_world_with_claims()
    updates = world.state.request_updates
    updates.set_unreadable("resourceslices", True)
    assert decided(world) == (
        "spec.podSets[0].template.spec.resourceClaims[0].devices.requests[0]: Internal error: "
        "ResourceClaimTemplate part: its devices are not known: resourceslices cannot be read (Forbidden)"
    )
    requests = [a_request("mig"), a_request("gpu", 3, of_type("gpu"))]
    _, problems = charges(a_claim(*requests), SOURCES, CLASSES, a_catalog(), {"resourceslices"})
    assert [problem.field for problem in problems] == ["devices.requests[0]"]
    updates.put_resource_slice(codec.convert(ResourceSlice, a_slice("b:mig=5Gi")))
    updates.set_unreadable("resourceslices", False)
    assert decided(world) == "admitted with 5Gi"


def test_a_template_that_cannot_be_read_is_not_said_to_be_missing() -> None:
    world = a_world({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "part"}]})
    updates = world.state.request_updates
    assert decided(world) == "pod set main: claim gpu: ResourceClaimTemplate part does not exist"
    updates.set_unreadable("resourceclaimtemplates", True)
    assert decided(world) == (
        "pod set main: claim gpu: ResourceClaimTemplate part is not known: "
        "resourceclaimtemplates cannot be read (Forbidden)"
    )


def test_another_selector_of_the_class_counts_other_devices() -> None:
    world = a_world_with_claims()
    updates = world.state.request_updates
    updates.put_resource_slice(codec.convert(ResourceSlice, a_slice("a:gpu=40Gi b:vgpu=20Gi")))
    assert decided(world) == SHORT
    updates.put_device_class(a_class("mig", of_type("vgpu")))
    assert decided(world) == "admitted with 20Gi"


def test_an_extended_resource_does_not_get_a_part_of_a_device() -> None:
    world = a_world({"containers": [{"requests": {"vendor/gpu": 1}}]})
    body = {"metadata": {"name": "mig"}, "spec": {"extendedResourceName": "vendor/gpu"}}
    world.state.request_updates.put_device_class(codec.convert(DeviceClass, body))
    assert decided(world) == (
        "extended resource vendor/gpu resolves to DeviceClass mig with a counter source configured "
        "(claim devices by a ResourceClaimTemplate)"
    )
