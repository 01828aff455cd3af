"""Expressions are evaluated once for devices that are equal in what they read."""

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.core.device_claims import Device, ResourceSlice
from quorate.placement.filters.devices.pools import DeviceCatalog
from quorate.placement.filters.devices.selectors import (
    MAX_MATCHES,
    Selector,
    SelectorProblem,
    compiled,
    reads_of,
)

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
