"""Reading one's own writes, told by hand what a watch shows."""

from collections.abc import Callable, Hashable, Iterable

from quorate.api.core import Pod
from quorate.api.meta import Key, ObjectMeta, at_epoch
from quorate.kube.informer import Change
from quorate.local.own_writes import IndexedCache, MutationCache


class Shown:
    """A cache that shows what it is told to, when it is told to."""

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


def an_ahead() -> tuple[Shown, MutationCache[Pod]]:
    shown = Shown()
    cache: IndexedCache[Pod] = shown
    return shown, MutationCache(cache, lambda pod: pod.metadata.labels["group"])


def test_what_was_written_is_seen_before_the_watch_shows_it() -> None:
    shown, ahead = an_ahead()
    shown.show(a_pod("a", 1))
    ahead.record(a_pod("b", 2))
    ahead.record(a_pod("a", 3, group="h"))
    assert [pod.metadata.name for pod in ahead.by_group("g")] == ["b"]
    assert [pod.metadata.name for pod in ahead.by_group("h")] == ["a"]
    assert ahead.get(Key("ns", "a")) == a_pod("a", 3, group="h")


def test_the_watch_is_believed_once_it_has_come_as_far() -> None:
    shown, ahead = an_ahead()
    ahead.record(a_pod("a", 2))
    shown.show(a_pod("a", 5))
    assert ahead.get(Key("ns", "a")) == a_pod("a", 5)


def test_an_older_version_shown_by_the_watch_is_not_believed() -> None:
    shown, ahead = an_ahead()
    ahead.record(a_pod("a", 5))
    shown.show(a_pod("a", 2))
    assert ahead.get(Key("ns", "a")) == a_pod("a", 5)


def test_an_answer_that_comes_after_the_watch_is_old_news() -> None:
    shown, ahead = an_ahead()
    shown.show(a_pod("a", 2))
    shown.show_gone(a_pod("a", 2))
    ahead.record(a_pod("a", 2))
    assert ahead.get(Key("ns", "a")) is None


def test_what_the_watch_shows_gone_is_gone() -> None:
    shown, ahead = an_ahead()
    shown.show(a_pod("a", 1))
    ahead.record(a_pod("a", 2))
    shown.show_gone(a_pod("a", 1))
    assert ahead.get(Key("ns", "a")) is None
    assert ahead.by_group("g") == []


def test_an_object_whose_last_finalizer_we_took_is_not_kept_alive() -> None:
    shown, ahead = an_ahead()
    shown.show(a_pod("a", 1))
    shown.show_gone(a_pod("a", 1))
    ahead.record(a_pod("a", 2, deleted=True))
    assert ahead.by_group("g") == []


def test_what_never_shows_is_forgotten_when_the_watch_has_passed_it() -> None:
    shown, ahead = an_ahead()
    ahead.record(a_pod("a", 2))
    shown.show(a_pod("b", 3))
    assert ahead.get(Key("ns", "a")) is None
