"""Operators in Go beside a local cluster: each is built once from its module and kept in ``.clients``."""

import base64
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from quorate.sdk.cluster import Cluster
from tests.clients.environments import DIRECTORY, run
from tests.observe.listening import free_port

BUILT_WITHIN_S: Final = 900.0  # without compiled modules
READY_WITHIN_S: Final = 60.0


@dataclass(frozen=True)
class Operator:
    """Where the parts of an operator are in its module, and the Configuration that it reads."""

    module: str
    version: str
    package: str
    definitions: str  # a glob
    flag: str  # names the kubeconfig
    webhooks: str = ""
    configuration: str = ""  # its apiVersion
    certificates: str = "internalCertManagement"  # the field of the Configuration that turns its own off
    arguments: tuple[str, ...] = ()
    namespace: str = ""  # of its lease


OPERATORS: Final = {
    "jobset": Operator(
        "sigs.k8s.io/jobset", "v0.12.0", ".", "config/components/crd/bases/*.yaml", "-kubeconfig",
        webhooks="config/components/webhook/manifests.yaml", configuration="config.jobset.x-k8s.io/v1alpha1",
    ),
    "mpi": Operator(
        "github.com/kubeflow/mpi-operator", "v0.8.2", "./cmd/mpi-operator",
        "manifests/base/kubeflow.org_mpijobs.yaml", "-kubeConfig",
        arguments=("-monitoring-port", "0"), namespace="mpi-operator",
    ),
    "trainer": Operator(
        "github.com/kubeflow/trainer/v2", "v2.3.0", "./cmd/trainer-controller-manager",
        "manifests/base/crds/trainer*.yaml", "-kubeconfig",
        webhooks="manifests/base/webhook/manifests.yaml",
        configuration="config.trainer.kubeflow.org/v1alpha1", certificates="certManagement",
        namespace="kubeflow-system",
    ),
    "lws": Operator(
        "sigs.k8s.io/lws", "v0.7.0", "./cmd", "config/crd/bases/*.yaml", "-kubeconfig",
        webhooks="config/webhook/manifests.yaml", configuration="config.lws.x-k8s.io/v1alpha1",
    ),
    "kuberay": Operator(
        "github.com/ray-project/kuberay/ray-operator", "v1.5.0", ".", "config/crd/bases/*.yaml",
        "-kubeconfig",
        arguments=(
            "-enable-leader-election=false", "-use-kubernetes-proxy", "-metrics-addr", "0",
            "-health-probe-bind-address", "127.0.0.1:0",
        ),
    ),
}  # fmt: skip


@contextmanager
def running(name: str, kubeconfig: Path, *arguments: str) -> Iterator[None]:
    """Run an operator beside the cluster; the block begins when its kinds and webhooks are served."""
    operator = OPERATORS[name]
    sources, program = _built(name, operator)
    cluster = Cluster(kubeconfig)
    if operator.namespace:
        cluster.in_namespace(operator.namespace)
    for path in sorted(sources.glob(operator.definitions)):
        cluster.apply(path.read_text())
    directory = kubeconfig.parent / name
    directory.mkdir()
    command = [str(program), operator.flag, str(kubeconfig), *operator.arguments, *arguments]
    port = free_port()
    if operator.configuration:
        configuration = _configuration(operator, port, _certificates(directory))
        (directory / "configuration.yaml").write_text(yaml.safe_dump(configuration))
        command += ["-config", str(directory / "configuration.yaml")]
    environment = {**os.environ, "TMPDIR": str(directory)}
    log = directory / "operator.log"
    with (
        log.open("w") as output,
        subprocess.Popen(command, env=environment, stdout=output, stderr=output) as process,
    ):
        try:
            if operator.webhooks:
                _until_listening(port, process, log)
                cluster.apply(_webhooks(sources / operator.webhooks, name, port, directory))
            yield
        finally:
            process.terminate()


def not_built_reason(name: str) -> str:
    """Return why the program of an operator is not there yet; empty if it is."""
    program = _program(name)
    return "" if program.exists() else f"no program {program}, which the first test of its page builds"


def _program(name: str) -> Path:
    return DIRECTORY / "operators" / f"{name}-{OPERATORS[name].version}"


def _built(name: str, operator: Operator) -> tuple[Path, Path]:
    """Return the sources and the program; skip without Go, or if a module cannot be had."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("Go is not installed")
    download = [go, "mod", "download", "-json", f"{operator.module}@{operator.version}"]
    DIRECTORY.mkdir(exist_ok=True)
    answer = subprocess.run(download, cwd=DIRECTORY, capture_output=True, text=True, timeout=300, check=False)
    found: dict[str, Any] = json.loads(answer.stdout or "{}")
    if "Dir" not in found:
        pytest.skip(f"{operator.module} cannot be had: {found.get('Error', answer.stderr.strip())}")
    program = _program(name)
    if not program.exists():
        copy = DIRECTORY / "operators" / f"{name}-sources"  # go.sum of a module may have to be completed
        shutil.copytree(found["Dir"], copy, dirs_exist_ok=True)
        run(["chmod", "-R", "u+w", copy], dict(os.environ))
        build = [go, "build", "-mod=mod", "-buildvcs=false", "-o", str(program), operator.package]
        run(build, dict(os.environ), within_s=BUILT_WITHIN_S, directory=copy)
    return Path(found["Dir"]), program


def _certificates(directory: Path) -> Path:
    """Make a certificate for 127.0.0.1 where controller-runtime looks for it by default, too."""
    target = directory / "k8s-webhook-server" / "serving-certs"
    target.mkdir(parents=True)
    options = ["-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(target / "tls.key"), "-out", str(target / "tls.crt")]
    run(["openssl", "req", *options, *names, *files], dict(os.environ))
    return target


def _configuration(operator: Operator, port: int, certificates: Path) -> dict[str, Any]:
    webhook: dict[str, Any] = {"port": port}
    if operator.certificates == "internalCertManagement":
        webhook["certDir"] = str(certificates)
    return {
        "apiVersion": operator.configuration,
        "kind": "Configuration",
        "webhook": webhook,
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": "127.0.0.1:0"},
        operator.certificates: {"enable": False},
        "leaderElection": {"leaderElect": False},
    }


def _webhooks(path: Path, name: str, port: int, directory: Path) -> list[dict[str, Any]]:
    """Return the webhook configurations of the file, for a server on this machine."""
    (certificate,) = directory.glob("k8s-webhook-server/*/tls.crt")
    bundle = base64.b64encode(certificate.read_bytes()).decode()
    objects = [each for each in yaml.safe_load_all(path.read_text()) if each and "webhooks" in each]
    for each in objects:
        each["metadata"] = {"name": f"{name}-{each['kind'].lower()}"}
        for webhook in each["webhooks"]:
            service = webhook["clientConfig"].pop("service")
            url = f"https://127.0.0.1:{port}{service['path']}"
            webhook["clientConfig"] = {"url": url, "caBundle": bundle}
    return objects


def _until_listening(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    while process.poll() is None and time.monotonic() < deadline:
        with socket.socket() as connection:
            if connection.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError(log.read_text()[-2000:])
