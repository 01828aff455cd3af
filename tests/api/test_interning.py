"""``CompactMapping`` behaves like other mappings and shares memory."""

import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType

import msgspec
import pytest

from quorate.api import codec
from quorate.api.batch import intern_raw
from quorate.api.core.pod import Pod
from quorate.api.interning import CompactMapping, InternCache, intern_strings
from quorate.api.kueue import Workload
from quorate.webhooks.volcano.quota_pod import QuotaPod

LABELS = {"app": "train", "index": "3"}


def test_compact_mapping_behaves_like_a_dict() -> None:
    texts = intern_strings(LABELS)
    assert dict(texts) == LABELS
    assert (texts["index"], texts.get("app"), texts.get("zone", "-"), "zone" in texts, len(texts)) == (
        "3", "train", "-", False, 2,
    )  # fmt: skip
    with pytest.raises(KeyError, match="zone"):
        texts["zone"]
    assert codec.encode(texts) == codec.encode(LABELS)


@pytest.mark.parametrize(
    ("other", "equal"),
    [
        pytest.param(LABELS, True, id="a dict of the same"),
        pytest.param(intern_strings({"app": "train", "index": "3"}), True, id="an equal mapping"),
        pytest.param(intern_strings({"index": "3", "app": "train"}), True, id="in another order"),
        pytest.param(intern_strings({"app": "train", "index": "4"}), False, id="another value"),
        pytest.param(intern_strings({"app": "train"}), False, id="a missing key"),
    ],
)
def test_compact_mappings_are_equal_by_content(other: object, equal: bool) -> None:
    assert (intern_strings(LABELS) == other) is equal


def test_keys_and_values_are_interned() -> None:
    one, other = (
        intern_strings({"app": "train", "index": "a-1"}),
        intern_strings({"app": "train", "index": "a-2"}),
    )
    assert isinstance(one, CompactMapping)
    assert one["app"] is other["app"]
    assert [a is b for a, b in zip(one, other, strict=True)] == [True, True]


def calls_of(work: Callable[[], object]) -> int:
    """Return the number of calls of Python functions."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("entries", [2, 60, 20_000])
def test_mappings_are_compared_without_a_search_per_entry(entries: int) -> None:
    """A pod may have tens of thousands of labels, and each update is compared with the pod before."""
    texts = {f"key-{number}": "x" for number in range(entries)}
    one, other = intern_strings(texts), intern_strings(dict(reversed(texts.items())))
    assert calls_of(lambda: one == other) < 10
    assert one == other == texts
    assert one != {**texts, "key-1": "y"}
    assert isinstance(one, CompactMapping) is (entries <= 64)


def test_a_large_pod_is_decoded_once() -> None:
    """Its parts are not encoded and decoded again to be shared; the parts of small pods are."""
    amounts = {f"example.com/{number}": "1" for number in range(codec.MAX_QUANTITIES)}
    body = {"metadata": {"name": "p"}, "spec": {"containers": [{"resources": {"requests": amounts}}]}}
    content = codec.encode(body)
    most = 8 * len(amounts)  # once read, once written
    assert calls_of(lambda: codec.decode(Pod, content)) < most
    assert calls_of(lambda: codec.decode(QuotaPod, content)) < most
    assert codec.decode(Pod, content).spec is codec.decode(Pod, content).spec


def contents(count: int, size: int = 1) -> list[bytes]:
    return [f"{number} ".encode() + size * b"x" for number in range(count)]


def test_used_content_stays_shared_and_the_rest_is_dropped() -> None:
    made: list[bytes] = []

    def make(content: bytes) -> bytearray:
        made.append(content)
        return bytearray(content)

    cache = InternCache(make, entries=10)
    kept = cache(b"used")
    for content in contents(100):
        assert cache(content) == content
        assert cache(b"used") is kept
    assert made == [b"used", *contents(100)]
    assert cache(contents(100)[0]) == contents(100)[0]
    assert made[-1] == contents(100)[0]  # again


@pytest.mark.parametrize("size", [10, 1000, 100_000])
def test_a_cache_is_bounded_in_number_and_bytes(size: int) -> None:
    made = dict.fromkeys(contents(300, size), 0)

    def make(content: bytes) -> bytearray:
        made[content] += 1
        return bytearray()

    cache = InternCache(make, entries=100, size_bytes=30_000)
    for content in (*made, *reversed(made)):
        cache(content)
    shared = [content for content, times in made.items() if times == 1]
    assert len(shared) <= 100
    assert sum(map(len, shared)) <= 30_000
    assert len(shared) >= (0 if size > 15_000 else min(50, 15_000 // (size + 4)) - 1)


@pytest.mark.large
def test_large_objects_that_come_and_go_are_not_kept() -> None:
    """400 pods and templates of 100 kB each: less than half of them is kept."""
    labels = {f"key-{number}": "x" * 60 for number in range(1000)}
    tracemalloc.start()
    try:
        for number in range(400):
            body = {
                "metadata": {"name": "p", "labels": {**labels, "n": str(number)}},
                "spec": {"nodeSelector": {**labels, "n": str(number)}},
            }
            codec.decode(Pod, codec.encode(body))
            intern_raw(msgspec.Raw(codec.encode(body)))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 60 * 2**20


def a_finished_workload(number: int, places: str = "") -> bytes:
    condition = (
        '{"type": "%s", "status": "True", "reason": "Done", "message": "as asked",'
        ' "lastTransitionTime": "2026-11-29T23:00:00Z"}'
    )
    conditions = ", ".join(condition % type_ for type_ in ("QuotaReserved", "Admitted", "Finished"))
    return (
        f'{{"metadata": {{"name": "{number}", "namespace": "n", "uid": "{number}", "labels": {{"a": "b"}}}},'
        f'"spec": {{"queueName": "team"}}, "status": {{"conditions": [{conditions}],'
        '"admission": {"clusterQueue": "all", "podSetAssignments": [{"name": "main",'
        f'"flavors": {{"cpu": "spot"}}, "resourceUsage": {{"cpu": "2"}}, "count": 2 {places}}}]}}}}}}'
    ).encode()


def test_finished_workloads_share_all_but_their_identity() -> None:
    """The controllers keep 15,000 in a benchmark; each took 3,000 bytes."""
    count = 1000
    kept = [codec.decode(Workload, a_finished_workload(number)) for number in range(10)]
    texts = [a_finished_workload(number) for number in range(10, count + 10)]
    tracemalloc.start()
    try:
        kept += [codec.decode(Workload, text) for text in texts]
        bytes_each = tracemalloc.get_traced_memory()[0] / count
    finally:
        tracemalloc.stop()
    assert bytes_each < 1000
    assert codec.decode(Workload, codec.encode(kept[-1])) == kept[-1]


def test_places_of_workloads_are_not_kept_for_others() -> None:
    places = ', "topologyAssignment": {"levels": ["rack"], "slices": []}'
    one, other = (codec.decode(Workload, a_finished_workload(number, places)) for number in range(2))
    assert one.status.admission is not None
    assert other.status.admission is not None
    assert one.status.admission == other.status.admission
    assert one.status.admission.pod_set_assignments is not other.status.admission.pod_set_assignments
