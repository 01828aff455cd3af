"""What is charged for a template is what a kube-apiserver stores for a pod of it."""

from collections.abc import Collection, Iterator
from copy import deepcopy
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.configuration.feature_gates import Gates
from quorate.api.configuration.queueing import ResourceOptions
from quorate.api.core import LimitRange, RuntimeClass
from quorate.api.kueue import Workload
from quorate.api.quantity import NANOS, parse_quantity
from quorate.local.server.admission.limit_ranger import set_defaults
from quorate.local.server.registry.defaults.cluster import default_limit_range
from quorate.local.server.registry.defaults.pods import default_pod, default_pod_on_read
from quorate.queueing.pending.shape import ShapeRegistry
from tests.api.core.stored_pods import DEFAULTS, Json, Row, amounts_of, read_table

OVERHEADS, ROWS = read_table()
POD_LEVEL = ("cpu", "memory", "hugepages-2Mi")


def registry_of(row: Row) -> ShapeRegistry:
    registry = ShapeRegistry(ResourceOptions(), Gates())
    for number, limits in enumerate(row.limit_ranges):
        body = {"metadata": {"namespace": "ns", "name": f"l{number}"}, "spec": {"limits": limits}}
        registry.put_limit_range(codec.convert(LimitRange, body))
    for name, overhead in OVERHEADS.items():
        body = {"metadata": {"name": name}, "overhead": {"podFixed": overhead}}
        registry.put_runtime_class(codec.convert(RuntimeClass, body))
    return registry


def workload_of(row: Row) -> Workload:
    pod_set = {"name": "main", "count": 1, "template": {"spec": row.spec}}
    body = {"metadata": {"namespace": "ns", "name": "w"}, "spec": {"podSets": [pod_set]}}
    return codec.convert(Workload, body)


def findings_of(row: Row) -> tuple[str, ...]:
    registry, workload = registry_of(row), workload_of(row)
    return (
        *registry.shape_of(workload).invalid_requests,
        *registry.limit_range_violations(workload),
    )


def requested(stored: Json, *, least_sum: bool = False) -> dict[str, int]:
    """Return what the stored pod requests in base units, added up without the code under test.

    ``least_sum``: at least what the containers request, of a pod that no server stores.
    """
    names = {name for part in _parts(stored) for name in part}
    return {name: _rounded_up(name, _requested(stored, name, least_sum=least_sum)) for name in names}


def _parts(stored: Json) -> Iterator[Json]:
    for container in (*stored.get("initContainers", ()), *stored["containers"]):
        yield container.get("requests", {})
    requests = stored.get("resources", {}).get("requests", {})
    yield {name: amount for name, amount in requests.items() if name in POD_LEVEL}
    yield stored.get("overhead", {})


def _requested(stored: Json, name: str, *, least_sum: bool) -> Fraction:
    def amount(part: Json) -> Fraction:
        return Fraction(parse_quantity(part.get(name, 0)).nanos, NANOS)

    overhead = amount(stored.get("overhead", {}))
    pod = stored.get("resources", {}).get("requests", {})
    sidecars, peak = Fraction(0), Fraction(0)
    for container, restart in zip(stored.get("initContainers", ()), stored["restarts"], strict=True):
        own = amount(container.get("requests", {}))
        peak = max(peak, sidecars + own)
        sidecars += own if restart else 0
    together = sidecars + sum(amount(container.get("requests", {})) for container in stored["containers"])
    if name in pod and name in POD_LEVEL:
        return (max(amount(pod), peak, together) if least_sum else amount(pod)) + overhead
    return max(peak, together) + overhead


def _rounded_up(name: str, amount: Fraction) -> int:
    return -int(-amount * (1000 if name == "cpu" else 1) // 1)


def test_what_is_charged_is_what_the_api_server_stores() -> None:
    compared = 0
    for row in ROWS:
        if row.stored is None:
            continue
        restarts = [each.get("restartPolicy") == "Always" for each in row.pod.get("initContainers", ())]
        want = requested(row.stored | {"restarts": restarts})
        (pod_set,) = registry_of(row).shape_of(workload_of(row)).pod_sets
        if row.is_ambiguous:
            assert all(pod_set.per_pod[name] >= amount for name, amount in want.items()), row
        else:
            assert pod_set.per_pod == want, row
        compared += 1
    assert compared > 100


QUANTITIES: dict[Collection[str], st.SearchStrategy[str]] = {
    "cpu": st.sampled_from(["0.0001", "100m", "250m", "1", "1500m", "2"]),
    "memory": st.sampled_from(["0.5", "64Mi", "100Mi", "1Gi"]),
    "example.com/gpu": st.sampled_from(["1", "2"]),
    "ephemeral-storage": st.just("1Gi"),
}
AMOUNTS = st.fixed_dictionaries({}, optional=QUANTITIES)
RESOURCES = st.fixed_dictionaries({}, optional={"requests": AMOUNTS, "limits": AMOUNTS})
CONTAINER = st.fixed_dictionaries({}, optional={"resources": RESOURCES})
INIT = st.fixed_dictionaries({}, optional={"resources": RESOURCES, "restartPolicy": st.just("Always")})
PODS = st.fixed_dictionaries(
    {"containers": st.lists(CONTAINER, min_size=1, max_size=2)},
    optional={
        "initContainers": st.lists(INIT, max_size=3),
        "resources": RESOURCES,
        "overhead": st.fixed_dictionaries({}, optional=QUANTITIES),
    },
)
LIMIT_RANGES = st.lists(
    st.fixed_dictionaries(
        {"type": st.just("Container")},
        optional=dict.fromkeys(DEFAULTS, AMOUNTS),
    ),
    max_size=1,
)


@given(pod=PODS, limits=LIMIT_RANGES)
def test_what_is_charged_is_what_the_local_server_stores_whatever_it_would_refuse(
    pod: Json, limits: list[Json]
) -> None:
    row = Row([limits], pod)
    stored: Json = {"metadata": {}, "spec": deepcopy(row.spec)}
    limit_range: Json = {"spec": {"limits": deepcopy(limits)}}
    default_limit_range(limit_range)
    default_pod(stored)
    set_defaults(stored, [limit_range["spec"]["limits"]])
    default_pod_on_read(stored)
    restarts = [each.get("restartPolicy") == "Always" for each in pod.get("initContainers", ())]
    spec = amounts_of(stored["spec"])
    want = requested({**spec, "restarts": restarts}, least_sum=True)
    (pod_set,) = registry_of(row).shape_of(workload_of(row)).pod_sets
    assert pod_set.per_pod == want


def test_no_workload_is_held_of_which_the_api_server_takes_the_pods() -> None:
    for row in ROWS:
        if row.stored is not None and not row.is_ambiguous:
            assert findings_of(row) == (), row


def test_a_workload_is_held_of_which_pods_violate_a_limit_range() -> None:
    refused = [row for row in ROWS if row.is_out_of_bounds and not row.is_ambiguous]
    assert len(refused) > 50
    for row in refused:
        assert registry_of(row).limit_range_violations(workload_of(row)), row
