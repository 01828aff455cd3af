"""Expressions are evaluated once for devices that are equal in what they read."""

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.configuration.queueing import ResourceOptions
from quorate.api.core import PodResourceClaim
from quorate.api.core.device_claims import Device, DeviceClass, ResourceClaimTemplate, ResourceSlice
from quorate.api.meta import Key
from quorate.placement.filters.devices.pools import DeviceCatalog
from quorate.placement.filters.devices.selectors import (
    MAX_MATCHES,
    Selector,
    SelectorProblem,
    compiled,
    reads_of,
)
from quorate.queueing.pending.device_quota import DeviceQuota

DRIVER: Final = "gpu.example.com"
ATTRIBUTES: Final = f"device.attributes['{DRIVER}']"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(f"{ATTRIBUTES}.type == 'a'", f"{DRIVER}/type", id="an attribute"),
        pytest.param('device.capacity["d"].memory > 1 && d.x', "d/memory", id="a capacity"),
        pytest.param(f"device.driver == '{DRIVER}' || device.allowMultipleAllocations", "", id="the driver"),
        pytest.param(f"has({ATTRIBUTES}.type)", f"{DRIVER}/type", id="whether it has an attribute"),
        pytest.param(f"{ATTRIBUTES}.type.startsWith('a')", f"{DRIVER}/type", id="a function of a value"),
        pytest.param(f"size({ATTRIBUTES}) == 1", "everything", id="a map"),
        pytest.param(f"{ATTRIBUTES}.size() == 1", "everything", id="a function of a map"),
        pytest.param(f"{ATTRIBUTES}.size () == 1", "everything", id="a function of a map after a space"),
        pytest.param(f"{ATTRIBUTES}.size // \n () == 1", "everything", id="a comment"),
        pytest.param(f"{ATTRIBUTES}['ty' + 'pe'] == 'a'", "everything", id="a computed name"),
        pytest.param(f"'type' in {ATTRIBUTES}", "everything", id="whether a map has a key"),
        pytest.param("device == device", "everything", id="the whole device"),
        pytest.param("device.attributes['\\x61'].b", "everything", id="an escape"),
        pytest.param(
            "\"device.attributes['\" + string(size(device)) + \"'].x\" == ''", "everything", id="texts"
        ),
    ],
)
def test_what_an_expression_reads(text: str, want: str) -> None:
    reads = reads_of(text)
    names = sorted(reads.attributes | reads.capacity)
    assert ("everything" if reads.is_everything else " ".join(names)) == want


TERMS = st.sampled_from(
    [
        f"{ATTRIBUTES}.a == 1",
        f"{ATTRIBUTES}.b == 'x'",
        f"has({ATTRIBUTES}.b)",
        "device.attributes['other'].a == 2",
        f"device.capacity['{DRIVER}'].m.compareTo(quantity('2')) > 0",
        f"'b' in {ATTRIBUTES}",
        f"size({ATTRIBUTES}) == 2",
        "device.allowMultipleAllocations",
    ]
)
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "a": st.sampled_from([{"int": 1}, {"int": 2}]),
        "b": st.sampled_from([{"string": "x"}, {"string": "y"}]),
        "other/a": st.sampled_from([{"int": 1}, {"int": 2}]),
        "c": st.sampled_from([{"bool": True}, {"bool": False}]),
    },
)
DEVICES = st.builds(
    lambda attributes, memory, shares: codec.convert(
        Device,
        {
            "name": "d",
            "attributes": attributes,
            "capacity": {"m": {"value": str(memory)}},
            "allowMultipleAllocations": shares,
        },
    ),
    VALUES,
    st.integers(1, 4),
    st.booleans(),
)


@given(
    terms=st.lists(TERMS, min_size=1, max_size=3),
    joint=st.sampled_from([" && ", " || "]),
    devices=st.lists(DEVICES, min_size=1, max_size=6),
)
def test_the_result_for_a_device_does_not_depend_on_devices_before_it(
    terms: list[str], joint: str, devices: list[Device]
) -> None:
    text = joint.join(terms)
    selector = compiled(text)
    assert isinstance(selector, Selector)
    compiled.cache_clear()
    for device in devices:
        fresh = compiled(text)
        assert isinstance(fresh, Selector)
        assert selector.matches(DRIVER, device) == fresh.matches(DRIVER, device)
        compiled.cache_clear()


def a_slice(at: int, devices: int = 32, generation: int = 1) -> ResourceSlice:
    """Return the devices of one node, alternately of type ``a`` and ``b``, each with its own ``uuid``."""
    written: list[dict[str, Any]] = [
        {
            "name": f"d{device}",
            "attributes": {"type": {"string": "ab"[device % 2]}, "uuid": {"string": f"{at}-{device}"}},
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for device in range(devices)
    ]
    pool = {"name": f"n{at}", "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": f"n{at}", "pool": pool, "devices": written}
    return codec.convert(ResourceSlice, {"metadata": {"name": f"s{at}"}, "spec": spec})


def evaluations(*texts: str) -> int:
    selectors = [compiled(text) for text in texts]
    return sum(selector.evaluations for selector in selectors if isinstance(selector, Selector))


def test_expressions_are_evaluated_once_for_equal_devices() -> None:
    compiled.cache_clear()
    texts = [f"{ATTRIBUTES}.type == 'a' && {at} >= 0" for at in range(20)]
    catalog = DeviceCatalog()
    for at in range(100):
        catalog.set_slice(a_slice(at))
    for text in texts:
        assert catalog.select((text,)).matching == 1_600
    assert evaluations(*texts) == 20 * 2, "of 3,200 devices, two are different"
    catalog.set_slice(a_slice(7, devices=4, generation=2))
    for text in texts:
        assert catalog.select((text,)).matching == 1_586
    assert evaluations(*texts) == 20 * 2


def test_a_changed_pool_is_evaluated_alone() -> None:
    compiled.cache_clear()
    text = f"{ATTRIBUTES}.uuid != '3-0'"
    catalog = DeviceCatalog()
    for at in range(20):
        catalog.set_slice(a_slice(at))
    assert catalog.select((text,)).matching == 639
    assert evaluations(text) == 640
    catalog.set_slice(a_slice(3, devices=4, generation=2))
    assert catalog.select((text,)).matching == 611
    assert evaluations(text) <= 644


def a_quota(nodes: int, *expressions: str) -> DeviceQuota:
    """Return the quota of templates ``t0`` and so on, one for each expression, in namespace ``ns``."""
    quota = DeviceQuota(ResourceOptions(device_classes={"gpu": "gpus"}))
    quota.put_class(codec.convert(DeviceClass, {"metadata": {"name": "gpu"}}))
    for at, text in enumerate(expressions):
        exactly = {"deviceClassName": "gpu", "count": 1, "selectors": [{"cel": {"expression": text}}]}
        requests = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
        body = {"metadata": {"name": f"t{at}", "namespace": "ns"}, "spec": {"spec": requests}}
        quota.put_template(codec.convert(ResourceClaimTemplate, body))
    for at in range(nodes):
        quota.put_slice(a_slice(at))
    quota.update(UNITS)
    return quota


UNITS: Final = 20_000


def findings(quota: DeviceQuota, templates: int) -> list[str]:
    claims = [
        PodResourceClaim(name=f"c{at}", resource_claim_template_name=f"t{at}") for at in range(templates)
    ]
    return [text.rpartition(": ")[2] for text in quota.claimed("ns", "main", 0, claims).findings]


def test_templates_are_counted_in_slices_of_bounded_work() -> None:
    compiled.cache_clear()
    texts = [f"{ATTRIBUTES}.uuid == 'none' && {'true && ' * 200} {at} >= 0" for at in range(3)]
    quota = a_quota(60, *texts)
    assert findings(quota, 3) == ["its devices are being counted"] * 3
    steps, most, before, changed = 0, 0, evaluations(*texts), set[str]()
    while quota.is_stale:
        changed |= quota.update(UNITS)
        most, before, steps = max(most, evaluations(*texts) - before), evaluations(*texts), steps + 1
    assert evaluations(*texts) == 3 * 60 * 32
    assert most <= UNITS // 1_600 + 1, "an evaluation of 1,600 characters takes as many units"
    assert steps > 100
    assert changed == {"ns"}
    assert findings(quota, 3) == ["0 device(s) match in the cluster but 1 requested"] * 3


def test_a_slice_that_changes_while_templates_are_counted_counts() -> None:
    compiled.cache_clear()
    text = f"{ATTRIBUTES}.uuid == '59-0'"
    quota = a_quota(60, text)
    assert findings(quota, 1) == ["its devices are being counted"]
    for _ in range(3):
        quota.update(UNITS)
    quota.remove_slice("s59")
    while quota.is_stale:
        quota.update(UNITS)
    assert "0 device(s) match" in findings(quota, 1)[0]
    quota.put_slice(a_slice(59))
    before = evaluations(text)
    while quota.is_stale:
        quota.update(UNITS)
    assert findings(quota, 1) == []
    assert evaluations(text) - before <= 32, "only the devices of the slice are evaluated"


def test_a_template_that_is_replaced_while_it_is_counted_counts_as_it_is() -> None:
    compiled.cache_clear()
    quota = a_quota(60, f"{ATTRIBUTES}.uuid == '59-0'")
    assert findings(quota, 1) == ["its devices are being counted"]
    quota.update(UNITS)
    quota.remove_template(Key("ns", "t0"))
    quota.update(UNITS)
    assert not quota.is_stale
    assert findings(quota, 1) == ["ResourceClaimTemplate t0 does not exist"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"{ATTRIBUTES}.type.matches('(a{{1,500}})*b')", id="a counted repetition"),
        pytest.param(f"{ATTRIBUTES}.type.matches('a\\x7b1,500}}')", id="an escaped brace"),
        pytest.param(" || ".join([f"{ATTRIBUTES}.type.matches('a')"] * (MAX_MATCHES + 1)), id="many"),
        pytest.param("[1, 2].all // as in a loop\n (each, each > 0)", id="a loop after a comment"),
    ],
)
def test_an_expression_that_may_take_long_is_not_evaluated(text: str) -> None:
    problem = compiled(text)
    assert isinstance(problem, SelectorProblem)
    assert problem.is_unsupported
