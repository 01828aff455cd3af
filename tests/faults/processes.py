"""Run the controllers as a separate process, as in production, which SIGKILL ends."""

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from typing import Any

from quorate.api.configuration import Configuration
from tests.e2e.test_controllers_command import kubeconfig
from tests.faults.proxy import ClientEndpoint

KILLED = -9


async def run_until_exit(
    endpoint: ClientEndpoint, token: str, configuration: Configuration, directory: Path
) -> str:
    """Run the controllers until the process ends; return its log if it had an internal error.

    A process without an API server at its start reports that and ends; its supervisor restarts it.
    """
    file = directory / "configuration.yaml"
    file.write_text(json.dumps(_as_file(configuration)))  # JSON is YAML
    command = (sys.executable, "-m", "quorate", "controllers", "--no-webhooks", "--config", str(file))
    process = await asyncio.create_subprocess_exec(
        *command,
        "--kubeconfig",
        str(kubeconfig(directory, endpoint.url, token)),
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=PIPE,
    )

    def kill() -> None:
        if process.returncode is None:
            process.kill()

    endpoint.on_kill = kill
    try:
        _, stderr = await process.communicate()
    finally:
        kill()
        await process.wait()
    log = stderr.decode()
    if "Traceback" in log or process.returncode not in (KILLED, 1):
        return f"the process ended with status {process.returncode} and logged: {log}"
    return ""


def _as_file(configuration: Configuration) -> dict[str, Any]:
    body: dict[str, Any] = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
    rules = configuration.wait_for_pods_ready
    if rules is None:
        return body
    requeuing = rules.requeuing_strategy
    ready: dict[str, Any] = {
        "timeout": f"{rules.timeout_s}s",
        "recoveryTimeout": f"{rules.recovery_timeout_s}s",
        "blockAdmission": rules.block_admission is not None,
        "requeuingStrategy": {
            "timestamp": requeuing.timestamp,
            "backoffLimitCount": requeuing.backoff_limit_count,
        },
    }
    if rules.block_admission is not None:
        ready["blockAdmissionScope"] = rules.block_admission
    return body | {"waitForPodsReady": ready}
