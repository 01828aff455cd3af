"""The log of a container: options against a model that reads the whole file."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorate.local.container_logs import (
    CHUNK_BYTES,
    InvalidLogOption,
    LogOptions,
    log_chunks,
    read_options,
)

NOW = datetime(2026, 11, 28, 16, 0, 10, tzinfo=UTC)


def stamp(second: int) -> str:
    return f"2026-11-28T16:00:{second:02}.000000000Z"


def read(path: Path, options: LogOptions) -> str:
    async def collect() -> bytes:
        return b"".join([chunk async for chunk in log_chunks(path, options, lambda: False)])

    return asyncio.run(collect()).decode()


lines = st.lists(
    st.tuples(
        st.integers(0, 59),
        st.sampled_from(["stdout", "stderr"]),
        st.sampled_from("FFFP"),
        st.text("ab ", max_size=5),
    ),
    max_size=12,
).map(lambda drawn: sorted(drawn, key=lambda line: line[0]))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines,
    st.none() | st.integers(0, 14),
    st.none() | st.integers(1, 60),
    st.none() | st.integers(0, 59),
    st.sampled_from(["", "stdout", "stderr"]),
    st.booleans(),
)
def test_options_select_what_a_model_selects(
    tmp_path: Path,
    written: list[tuple[int, str, str, str]],
    tail: int | None,
    limit: int | None,
    since: int | None,
    stream: str,
    timestamps: bool,
) -> None:
    path = tmp_path / "0.log"
    path.write_text("".join(f"{stamp(at)} {name} {tag} {text}\n" for at, name, tag, text in written))
    options = LogOptions(
        tail_lines=tail,
        limit_bytes=limit,
        since="" if since is None else stamp(since),
        stream=stream,
        timestamps=timestamps,
    )
    expected, continues = "", False
    for at, name, tag, text in written if tail is None else written[len(written) - min(tail, len(written)) :]:
        if at >= (since or 0) and stream in ("", name):
            prefix = f"{stamp(at)} " if timestamps and not continues else ""
            expected += prefix + text + ("\n" if tag == "F" else "")
            continues = tag == "P"
    assert read(path, options) == expected[:limit]


def test_the_tail_of_a_large_log_is_found_without_reading_it_all(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    line = f"{stamp(1)} stdout F " + "x" * 1000 + "\n"
    path.write_text(line * (3 * CHUNK_BYTES // len(line)) + f"{stamp(2)} stdout F last\n")
    assert read(path, LogOptions(tail_lines=1)) == "last\n"
    assert len(read(path, LogOptions(tail_lines=100)).splitlines()) == 100


def test_a_line_that_a_crash_cut_off_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_text(f"{stamp(1)} stdout F whole\n{stamp(2)} stdout F cut")
    assert read(path, LogOptions()) == "whole\ncut\n"
    path.write_text("2026-11")
    assert read(path, LogOptions()) == ""


def test_following_ends_with_the_container_after_its_last_line(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_text(f"{stamp(1)} stdout F first\n")
    runs = [True]

    async def follow() -> list[bytes]:
        chunks = []
        async for chunk in log_chunks(path, LogOptions(follow=True), lambda: runs[0]):
            chunks.append(chunk)
            if len(chunks) == 1:
                with path.open("a") as file:
                    file.write(f"{stamp(2)} stdout F last\n")
                runs[0] = False
        return chunks

    assert b"".join(asyncio.run(follow())) == b"first\nlast\n"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, LogOptions()),
        ({"follow": "true", "tailLines": "5"}, LogOptions(follow=True, tail_lines=5)),
        ({"sinceSeconds": "10"}, LogOptions(since=stamp(0))),
        ({"sinceTime": "2026-11-28T17:00:05+01:00"}, LogOptions(since=stamp(5))),
        ({"stream": "Stderr", "timestamps": "1"}, LogOptions(stream="stderr", timestamps=True)),
    ],
)
def test_options_are_read_from_the_query(query: dict[str, str], expected: LogOptions) -> None:
    assert read_options(query, NOW) == expected


@pytest.mark.parametrize(
    "query",
    [
        {"tailLines": "x"},
        {"tailLines": "-1"},
        {"limitBytes": "0"},
        {"sinceSeconds": "0"},
        {"sinceTime": "yesterday"},
        {"sinceSeconds": "1", "sinceTime": "2026-11-28T17:00:05Z"},
    ],
)
def test_invalid_options_are_refused(query: dict[str, str]) -> None:
    with pytest.raises(InvalidLogOption):
        read_options(query, NOW)


@pytest.mark.parametrize("seconds", ["9" * 14, "9" * 400])
def test_a_time_before_all_logs_is_no_limit(seconds: str) -> None:
    assert read_options({"sinceSeconds": seconds}, NOW).since < stamp(0)
