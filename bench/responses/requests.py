"""``python -m bench.responses.requests PID URLS``: request each URL again and again until the input ends.

``URLS`` is a JSON object of names and URLs, all of the process ``PID``.  The output is a JSON object of names
and lists of waits: seconds from each request to its response, as wall time and as CPU time of the process.
"""

import asyncio
import sys
import time
from typing import Final

import aiohttp
import msgspec
import uvloop

Wait = tuple[float, float]

EVERY_S: Final = 0.01  # pause between a response and the next request to the same URL
_CPU_OF_PROCESS: Final = 2  # in the id of a clock of Linux, after the complement of the process id


def _now(pid: int) -> Wait:
    return time.monotonic(), time.clock_gettime(~pid << 3 | _CPU_OF_PROCESS)


async def _repeat(session: aiohttp.ClientSession, url: str, pid: int, waits: list[Wait]) -> None:
    while True:
        wall_s, cpu_s = _now(pid)
        async with session.get(url, raise_for_status=True) as response:
            await response.read()
        now_wall_s, now_cpu_s = _now(pid)
        waits.append((now_wall_s - wall_s, now_cpu_s - cpu_s))
        await asyncio.sleep(EVERY_S)


async def _run(pid: int, urls: dict[str, str]) -> dict[str, list[Wait]]:
    waits: dict[str, list[Wait]] = {name: [] for name in urls}
    async with aiohttp.ClientSession() as session:
        tasks = [asyncio.create_task(_repeat(session, url, pid, waits[name])) for name, url in urls.items()]
        ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        done, _ = await asyncio.wait([ended, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task in done:
                task.result()
            task.cancel()
    return waits


if __name__ == "__main__":
    given_urls = msgspec.json.decode(sys.argv[2], type=dict[str, str])
    found = uvloop.run(_run(int(sys.argv[1]), given_urls))
    sys.stdout.buffer.write(msgspec.json.encode(found))
