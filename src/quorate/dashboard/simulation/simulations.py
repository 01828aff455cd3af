"""Simulations in processes of their own, with a deadline: forecasts and what-if comparisons."""

import asyncio
import os
import sys

import msgspec

from quorate.dashboard.limits import MOST_LOGGED
from quorate.dashboard.simulation.simulation_process import Failure, Outcome, Task
from quorate.kube.log import logger


async def simulate(task: Task, deadline_s: float) -> Outcome:
    """Return what the process answers; a ``Failure`` if it does not in time."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "quorate.dashboard.simulation.simulation_process",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        # Libraries that reserve memory for each core would use up the limit.
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )
    try:
        async with asyncio.timeout(deadline_s):
            out, err = await process.communicate(msgspec.json.encode(task))
    except TimeoutError:
        return Failure(f"the simulation did not end within {deadline_s:g} s")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        written = err.decode(errors="replace").strip()[-MOST_LOGGED:]
        logger(__name__).error("simulation failed", code=process.returncode, written=written)
        return Failure("the simulation ended with an error; the log of the dashboard has it")
    outcome: Outcome = msgspec.json.decode(out, type=Outcome)
    return outcome
