"""The store: increasing revisions, conflicts, the log, compaction, restarts."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from quorate.local.server.storage.store import (
    HISTORY_BYTES,
    Change,
    Key,
    RevisionCompacted,
    StaleRevision,
    Store,
)


def run(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def synchronous(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return synchronous


def key(name: str, namespace: str = "default") -> Key:
    return Key("pods", namespace, name)


def an_object(name: str, **labels: str) -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"name": name, "labels": labels}}


@asynccontextmanager
async def open_store(
    path: Path | str = ":memory:", keep: int = 100, history_bytes: int = HISTORY_BYTES
) -> AsyncIterator[Store]:
    store = Store(path, keep, history_bytes)
    await store.start()
    try:
        yield store
    finally:
        await store.stop()


def describe(changes: list[Change]) -> list[str]:
    verbs = {(False, True): "created", (True, True): "changed", (True, False): "deleted"}
    return [f"{verbs[c.old is not None, c.new is not None]} {c.key.name}" for c in changes]


@run
async def test_a_write_gets_the_next_revision_as_resource_version() -> None:
    async with open_store() as store:
        first = await store.create(key("a"), an_object("a"))
        second = await store.update(key("a"), an_object("a", x="1"), first.revision)
        assert second.revision == first.revision + 1 == store.revision
        assert second.decode() == {"metadata": {"name": "a", "labels": {"x": "1"}, "resourceVersion": "2"}}


@run
async def test_the_second_write_from_one_revision_is_a_conflict() -> None:
    async with open_store() as store:
        created = await store.create(key("a"), an_object("a"))
        results = await asyncio.gather(
            store.update(key("a"), an_object("a", by="one"), created.revision),
            store.update(key("a"), an_object("a", by="two"), created.revision),
            store.create(key("a"), an_object("a", by="three")),
            return_exceptions=True,
        )
        assert [type(result) for result in results[1:]] == [StaleRevision, StaleRevision]
        current = store.get(key("a"))
        assert [late.current for late in results[1:] if isinstance(late, StaleRevision)] == [current, current]
        assert current is not None
        assert current.labels == {"by": "one"}
        assert store.revision == current.revision


@run
async def test_objects_are_listed_by_namespace_and_name() -> None:
    async with open_store() as store:
        for name, namespace in (("b", "y"), ("c", "x"), ("a", "y")):
            await store.create(key(name, namespace), an_object(name))
        assert [entry.key[1:] for entry in store.entries("pods")] == [("x", "c"), ("y", "a"), ("y", "b")]
        assert [entry.key.name for entry in store.entries("pods", "y")] == ["a", "b"]
        assert store.entries("pods", "z") == []


@run
async def test_a_list_at_an_old_revision_shows_the_old_state() -> None:
    async with open_store() as store:
        kept = await store.create(key("kept"), an_object("kept", version="old"))
        gone = await store.create(key("gone"), an_object("gone"))
        await store.update(key("kept"), an_object("kept", version="new"), kept.revision)
        await store.delete(key("gone"), gone.revision)
        await store.create(key("late"), an_object("late"))
        then = store.entries_at(gone.revision, "pods")
        assert [(entry.key.name, entry.labels) for entry in then] == [
            ("gone", {}),
            ("kept", {"version": "old"}),
        ]


@run
async def test_the_log_of_a_resource_lists_changes_in_order_and_wakes_watchers() -> None:
    async with open_store() as store:
        created = await store.create(key("a"), an_object("a"))
        change_event = store.changed("pods")
        await store.create(Key("nodes", "", "n"), an_object("n"))
        changed = await store.update(key("a"), an_object("a", x="1"), created.revision)
        await store.delete(key("a"), changed.revision)
        assert change_event.is_set()
        assert not store.changed("pods").is_set()
        assert describe(list(store.changes("pods", 0))) == ["created a", "changed a", "deleted a"]
        assert describe(list(store.changes("pods", created.revision))) == ["changed a", "deleted a"]


@run
async def test_compaction_drops_old_changes_but_no_object() -> None:
    async with open_store(keep=5) as store:
        await store.create(key("still"), an_object("still"))
        entry = await store.create(key("a"), an_object("a"))
        for turn in range(20):
            entry = await store.update(key("a"), an_object("a", turn=str(turn)), entry.revision)
        assert [entry.key.name for entry in store.entries("pods")] == ["a", "still"]
        with pytest.raises(RevisionCompacted):
            store.changes("pods", 1)
        with pytest.raises(RevisionCompacted):
            store.entries_at(1, "pods")
        assert len(store.changes("pods", store.oldest_revision)) >= 5


@run
async def test_compaction_bounds_the_log_in_bytes_too() -> None:
    large = {"kind": "Pod", "metadata": {"name": "a", "annotations": {"text": "x" * 10_000}}}
    async with open_store(keep=1000, history_bytes=1_500_000) as store:
        small = await store.create(key("small"), an_object("small"))
        entry = await store.create(key("a"), large)
        for _ in range(400):
            entry = await store.update(key("a"), large, entry.revision)
        kept = store.changes("pods", store.oldest_revision)
        assert 100 <= len(kept) <= 300
        assert store.entries("pods") == [entry, small]


@run
async def test_objects_revisions_and_the_log_survive_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    async with open_store(file, keep=5) as store:
        entry = await store.create(key("a"), an_object("a"))
        deleted = await store.create(key("b"), an_object("b"))
        for turn in range(12):
            entry = await store.update(key("a"), an_object("a", turn=str(turn)), entry.revision)
        await store.delete(key("b"), deleted.revision)
        before = (store.revision, store.oldest_revision, store.entries("pods"))
        log = list(store.changes("pods", store.oldest_revision))
    async with open_store(file, keep=5) as store:
        assert (store.revision, store.oldest_revision, store.entries("pods")) == before
        assert list(store.changes("pods", store.oldest_revision)) == log
        again = await store.create(key("b"), an_object("b"))
        assert again.revision == before[0] + 1
