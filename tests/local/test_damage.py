"""Full disks, damaged files and low limits: what a cluster says, and that nothing is lost silently."""

import asyncio
import logging
import resource
import sqlite3
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.inspect.errors import user_message
from quorate.kube.errors import Unreachable
from quorate.local.directory import ClusterDirectory, DirectoryUnusable
from quorate.local.server.connections import MIN_FILES, FileLimitTooLow, raise_file_limit
from quorate.local.server.storage.database import DatabaseUnusable, StorageFailed
from quorate.local.server.storage.store import Key, Store
from quorate.processes.local.queueing_cluster import _patiently
from tests.kube.virtual_clock import VirtualClock
from tests.local.api_client import ApiClient, run_with_server

pytestmark = pytest.mark.slow

PATH = "/api/v1/namespaces/default/configmaps"


def a_config_map(name: str, size: int = 10) -> dict[str, object]:
    return {"metadata": {"name": name}, "data": {"a": "x" * size}}


async def fill(path: Path, count: int, *, stop: bool = True) -> Store:
    store = Store(path)
    await store.start()
    for number in range(count):
        await store.create(Key("configmaps", "default", f"c{number}"), a_config_map(f"c{number}", 5000))
    if stop:
        await store.stop()
    return store


def limit_pages(store: Store, pages: int) -> None:
    """Let the database be full beyond a number of pages, as a disk is."""
    store._database._executor.submit(
        store._database._connection.execute, f"PRAGMA max_page_count = {pages}"
    ).result()


def test_a_full_disk_refuses_writes_and_is_logged_once_until_there_is_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        store = await fill(tmp_path / "cluster.db", 3, stop=False)
        limit_pages(store, 1)
        for number in range(4):
            with pytest.raises(StorageFailed, match="make room there") as refused:
                await store.create(Key("configmaps", "default", f"n{number}"), a_config_map("n", 10**6))
            assert refused.value.is_full
            assert not store.is_writable
        assert len(store.entries("configmaps")) == 3
        limit_pages(store, 10**6)
        await store.create(Key("configmaps", "default", "last"), a_config_map("last"))
        assert store.is_writable
        await store.stop()

    with caplog.at_level(logging.ERROR):
        asyncio.run(scenario())
    assert [record.getMessage() for record in caplog.records] == ["the database cannot be written"]
    assert len(Store(tmp_path / "cluster.db").entries("configmaps")) == 4


def test_a_full_disk_is_answered_with_507_and_the_server_is_not_ready(tmp_path: Path) -> None:
    stores: list[Store] = []
    original = Store.start

    async def start(store: Store) -> None:
        stores.append(store)
        await original(store)

    async def scenario(client: ApiClient) -> None:
        limit_pages(stores[0], 1)
        code, status = await client.send("POST", PATH, a_config_map("a", 10**6))
        assert (code, status["reason"]) == (507, "InsufficientStorage")
        assert (await client.send("GET", "/readyz"))[0] == 500
        limit_pages(stores[0], 10**6)
        await client.create(PATH, a_config_map("b"))
        assert (await client.send("GET", "/readyz"))[0] == 200

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "start", start)
        run_with_server(scenario, tmp_path / "cluster.db")


def test_a_compaction_on_a_full_disk_stops_no_later_write_and_revives_no_object(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = Store(tmp_path / "cluster.db", min_history=2, history_bytes=1)
        await store.start()
        key = Key("configmaps", "default", "a")
        entry = await store.create(key, a_config_map("a"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("quorate.local.server.storage.database._delete_compacted", refuse)
            for _ in range(250):
                entry = await store.update(key, a_config_map("a"), entry.revision)
        await store.delete(key, entry.revision)
        other = await store.create(Key("configmaps", "default", "b"), a_config_map("b"))
        for _ in range(250):
            other = await store.update(other.key, a_config_map("b"), other.revision)
        await store.stop()

    def refuse(*_: object) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    asyncio.run(scenario())
    assert [entry.key.name for entry in Store(tmp_path / "cluster.db").entries("configmaps")] == ["b"]


def copy_files(path: Path, copy: Path) -> None:
    for file in path.parent.glob("cluster.*"):
        (copy.parent / file.name).write_bytes(file.read_bytes())


def remove_log(path: Path) -> None:
    path.with_name("cluster.db-wal").unlink()


def cut_log(path: Path) -> None:
    log = path.with_name("cluster.db-wal")
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])


def damage_log(path: Path) -> None:
    log = path.with_name("cluster.db-wal")
    content = bytearray(log.read_bytes())
    content[len(content) // 2 :] = b"\xff" * (len(content) - len(content) // 2)
    log.write_bytes(content)


@pytest.mark.parametrize("damage", [remove_log, cut_log, damage_log])
def test_a_lost_or_damaged_write_ahead_log_is_said(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    path, copy = tmp_path / "cluster.db", tmp_path / "crashed" / "cluster.db"
    copy.parent.mkdir()

    async def crash() -> None:
        store = await fill(path, 40, stop=False)
        copy_files(path, copy)
        await store.stop()

    asyncio.run(crash())
    damage(copy)
    with pytest.raises(
        DatabaseUnusable, match=r"changes are missing.*cluster.db-wal is missing or damaged"
    ) as lost:
        Store(copy)
    assert user_message(lost.value) == str(lost.value)
    (copy.parent / "cluster.revision").unlink()
    assert len(Store(copy).entries("configmaps")) < 40, "the user accepted the loss"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"hi\n" * 3000, id="another file"),
        pytest.param(b"SQLite format 3\0" + b"\xff" * 9000, id="a damaged header"),
    ],
)
def test_a_database_that_cannot_be_read_is_said(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "cluster.db"
    path.write_bytes(content)
    with pytest.raises(DatabaseUnusable, match=r"cluster.db: .*the file is damaged \(restore it, or"):
        Store(path)


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, bytes]]:
    """Return the files of a database with 40 objects: after a crash, and after a regular end."""
    live = tmp_path_factory.mktemp("live") / "cluster.db"

    def files() -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in live.parent.glob("cluster.*")}

    async def crash() -> dict[str, bytes]:
        store = await fill(live, 40, stop=False)
        crashed = files()
        await store.stop()
        return crashed

    return [asyncio.run(crash()), files()]


@settings(max_examples=60)
@given(data=st.data())
def test_no_damage_loses_an_object_without_a_word(
    databases: list[dict[str, bytes]], data: st.DataObject
) -> None:
    files = dict(data.draw(st.sampled_from(databases)))
    name = data.draw(st.sampled_from(sorted(name for name in files if name.startswith("cluster.db"))))
    content, damage = bytearray(files[name]), data.draw(st.sampled_from([b"", b"\xff", b"\0"]))
    at = data.draw(st.integers(0, len(content)))
    size = data.draw(st.sampled_from([1, 100, 4096, 20_000])) if damage else len(content)
    content[at : at + size] = damage * len(content[at : at + size])  # without damage, the rest is cut off
    with TemporaryDirectory() as directory:
        for file, original in (files | {name: bytes(content)}).items():
            (Path(directory) / file).write_bytes(original)
        try:
            entries = Store(Path(directory) / "cluster.db").entries("configmaps")
        except DatabaseUnusable:
            return
        assert {entry.decode()["data"]["a"] for entry in entries} == {"x" * 5000}
        assert len(entries) == 40


@pytest.mark.parametrize("content", [b"\xff\0", b'"\xff"', b"[]", b'{"metadata":5}'])
def test_rows_that_are_not_objects_are_said(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "cluster.db"
    asyncio.run(fill(path, 2))
    with sqlite3.connect(path) as database:
        database.execute("UPDATE revisions SET object = ?", (content,))
    database.close()
    with pytest.raises(DatabaseUnusable, match="the file is damaged"):
        Store(path)


@pytest.mark.parametrize("content", [b"", b"garbage"])
@pytest.mark.parametrize("name", ["ca.crt", "ca.key", "server.crt", "server.key", "token", "tokens.key"])
def test_a_damaged_file_of_the_directory_is_named_and_can_be_deleted(
    tmp_path: Path, name: str, content: bytes
) -> None:
    if (name, content) == ("token", b"garbage"):
        return  # any text is a token
    with ClusterDirectory(tmp_path).lock(0.0) as locked:
        locked.credentials(0.0)
        locked.server_keys(0.0)
        (tmp_path / name).write_bytes(content)
        read = locked.server_keys if name == "tokens.key" else locked.credentials
        with pytest.raises(DirectoryUnusable, match=rf"{name}: it is damaged: .*\(delete it") as damaged:
            read(0.0)
        assert user_message(damaged.value) == str(damaged.value)
        (tmp_path / name).unlink()
        assert locked.credentials(0.0).token
        assert locked.server_keys(0.0).tokens


@pytest.mark.parametrize("content", [b"", b"hello\n", b"[1]"])
def test_a_damaged_record_of_the_running_process_is_replaced(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "running.json").write_bytes(content)
    directory = ClusterDirectory(tmp_path)
    assert directory.running() is None
    with directory.lock(0.0):
        assert directory.running() is not None


def test_too_few_open_files_are_said_before_anything_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, MIN_FILES - 1))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    with pytest.raises(FileLimitTooLow, match=f"ulimit -n {MIN_FILES}") as low:
        raise_file_limit()
    assert user_message(low.value) == str(low.value)


def test_a_server_that_answers_late_is_waited_for_and_one_that_never_does_is_not() -> None:
    clock, answers = VirtualClock(), iter([False, False, True])

    async def work() -> None:
        clock.pass_time(50.0)
        if not next(answers, False):
            raise Unreachable("GET /", "server", "Connection timeout")

    async def scenario() -> None:
        await _patiently(work, clock)
        with pytest.raises(Unreachable):
            await _patiently(work, clock)

    asyncio.run(scenario())
