"""The mutation cache, with watch events delivered by hand."""

from collections.abc import Callable, Hashable, Iterable

from quorate.api.core import Pod
from quorate.api.meta import Key, ObjectMeta, at_epoch
from quorate.kube.informer import Change
from quorate.local.own_writes import IndexedCache, MutationCache


class ManualCache:
    """A cache that changes when the test delivers an event."""

    def __init__(self) -> None:
        self.pods: dict[Key, Pod] = {}
        self._tell: Callable[[Change[Pod]], None]
        self._values_of: Callable[[Pod], Iterable[Hashable]]

    def get(self, key: Key) -> Pod | None:
        return self.pods.get(key)

    def add_index(self, name: str, values_of: Callable[[Pod], Iterable[Hashable]]) -> None:
        self._values_of = values_of

    def by_index(self, name: str, value: Hashable) -> list[Pod]:
        return [pod for pod in self.pods.values() if value in self._values_of(pod)]

    def subscribe(self, on_change: Callable[[Change[Pod]], None]) -> None:
        self._tell = on_change

    def show(self, pod: Pod) -> None:
        old = self.pods.get(pod.metadata.key)
        self.pods[pod.metadata.key] = pod
        self._tell(Change(old, pod))

    def show_gone(self, pod: Pod) -> None:
        old = self.pods.pop(pod.metadata.key)
        self._tell(Change(old, None))


def a_pod(name: str, version: int, group: str = "g", deleted: bool = False) -> Pod:
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace="ns",
            resource_version=str(version),
            labels={"group": group},
            deletion_timestamp=at_epoch(0) if deleted else None,
        )
    )


def a_mutation_cache() -> tuple[ManualCache, MutationCache[Pod]]:
    shown = ManualCache()
    cache: IndexedCache[Pod] = shown
    return shown, MutationCache(cache, lambda pod: pod.metadata.labels["group"])


def test_own_writes_are_visible_before_the_watch_delivers_them() -> None:
    shown, ahead = a_mutation_cache()
    shown.show(a_pod("a", 1))
    ahead.record(a_pod("b", 2))
    ahead.record(a_pod("a", 3, group="h"))
    assert [pod.metadata.name for pod in ahead.by_group("g")] == ["b"]
    assert [pod.metadata.name for pod in ahead.by_group("h")] == ["a"]
    assert ahead.get(Key("ns", "a")) == a_pod("a", 3, group="h")


def test_the_watch_takes_over_once_it_has_caught_up() -> None:
    shown, ahead = a_mutation_cache()
    ahead.record(a_pod("a", 2))
    shown.show(a_pod("a", 5))
    assert ahead.get(Key("ns", "a")) == a_pod("a", 5)


def test_an_older_version_from_the_watch_is_ignored() -> None:
    shown, ahead = a_mutation_cache()
    ahead.record(a_pod("a", 5))
    shown.show(a_pod("a", 2))
    assert ahead.get(Key("ns", "a")) == a_pod("a", 5)


def test_a_response_that_arrives_after_the_watch_event_is_ignored() -> None:
    shown, ahead = a_mutation_cache()
    shown.show(a_pod("a", 2))
    shown.show_gone(a_pod("a", 2))
    ahead.record(a_pod("a", 2))
    assert ahead.get(Key("ns", "a")) is None


def test_a_deletion_from_the_watch_removes_the_object() -> None:
    shown, ahead = a_mutation_cache()
    shown.show(a_pod("a", 1))
    ahead.record(a_pod("a", 2))
    shown.show_gone(a_pod("a", 1))
    assert ahead.get(Key("ns", "a")) is None
    assert ahead.by_group("g") == []


def test_an_object_without_finalizers_that_was_deleted_is_not_kept() -> None:
    shown, ahead = a_mutation_cache()
    shown.show(a_pod("a", 1))
    shown.show_gone(a_pod("a", 1))
    ahead.record(a_pod("a", 2, deleted=True))
    assert ahead.by_group("g") == []


def test_versions_that_the_watch_skipped_are_dropped() -> None:
    shown, ahead = a_mutation_cache()
    ahead.record(a_pod("a", 2))
    shown.show(a_pod("b", 3))
    assert ahead.get(Key("ns", "a")) is None
