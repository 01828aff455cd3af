"""What simple commands do on simulated nodes."""

import pytest

from quorate.local.nodes.behavior import Run, run_of
from quorate.local.nodes.pod_types import Container

FOREVER = Run(None)


def a_container(*command: str, image: str = "busybox:1.37", args: tuple[str, ...] = ()) -> Container:
    return Container(name="main", image=image, command=command, args=args)


def script(text: str) -> Container:
    return a_container("/bin/sh", "-c", text)


@pytest.mark.parametrize(
    ("container", "run"),
    [
        (a_container("sleep", "60"), Run(60.0)),
        (a_container("/bin/sleep", "1m", "1.5s"), Run(61.5)),
        (a_container("sleep", "infinity"), FOREVER),
        (a_container("sleep"), None),
        (a_container("sleep", "soon"), None),
        (a_container("tail", "-f", "/dev/null"), FOREVER),
        (a_container("false"), Run(0.0, 1)),
        (a_container("true"), Run(0.0)),
        (a_container("python", "train.py"), None),
        (a_container(), None),
        (a_container("/bin/sh", args=("-c", "sleep 5")), Run(5.0)),
        (a_container(args=("pause",), image="registry.k8s.io/e2e-test-images/agnhost:2.53"), FOREVER),
        (a_container(image="registry.k8s.io/pause:3.10"), FOREVER),
        (a_container(image="docker.io/library/nginx@sha256:0"), FOREVER),
        (a_container("nginx", "-v", image="nginx"), None),
        (a_container(image="perf-tests/sleep:v0.1.0", args=("30s", "-grace", "0s")), Run(30.0)),
        (script("sleep 5"), Run(5.0)),
        (script("echo start; sleep 5; sleep 2\necho end"), Run(7.0)),
        (script("sleep 5 && exit 3"), Run(5.0, 3)),
        (script("exit 3; sleep 5"), Run(0.0, 3)),
        (script("false && sleep 5"), Run(0.0, 1)),
        (script("false; sleep 5"), Run(5.0)),
        (script("sleep 1; sleep infinity; exit 1"), FOREVER),
        (script("sleep 1  # a moment\n\nexit 300"), Run(1.0, 44)),
        (script("exit 1 || true"), None),
        (script("while true; do sleep 5; done"), None),
        (script("sleep $(cat time)"), None),
        (script("sleep 5; python train.py"), None),
        (script("echo 'open"), None),
        (script("sleep 1;" * 1_000), None),
    ],
    ids=lambda value: " ".join((*value.command, *value.args))[:40] if isinstance(value, Container) else "",
)  # fmt: skip
def test_a_simple_command(container: Container, run: Run | None) -> None:
    assert run_of([container]) == run


@pytest.mark.parametrize(
    ("containers", "run"),
    [
        ([a_container("sleep", "2"), script("sleep 5; exit 4")], Run(5.0, 4)),
        ([a_container("sleep", "2"), a_container("sleep", "infinity")], FOREVER),
        ([a_container("sleep", "2"), a_container("train")], None),
    ],
    ids=["the longest, and the first code", "one runs on", "one is not known"],
)
def test_containers_run_beside_each_other(containers: list[Container], run: Run | None) -> None:
    assert run_of(containers) == run
