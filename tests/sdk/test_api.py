"""The Python API: the examples of its page, and what importing it costs."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import quorate
from quorate.kube.errors import NotFound
from quorate.sdk.cluster import JobFailed
from quorate.testing.server import ClusterServer, ClusterSettings
from tests.e2e.commands import poll
from tests.simulate.worlds import FLAVOR, queue

ROOT = Path(__file__).parents[2]
EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "docs/reference/python.md").read_text(), re.DOTALL)
HEAVY = ("aiohttp", "asyncio", "msgspec", "numpy", "pandas", "typer", "yaml", "quorate.sdk", "quorate.api")


def test_the_example_of_a_simulation_is_correct() -> None:
    exec(compile(EXAMPLES[0], "python.md", "exec"), {})


@pytest.mark.slow
@pytest.mark.no_cover
def test_the_example_on_a_cluster_is_correct(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ClusterServer(tmp_path / "server")
    try:
        settings = ClusterSettings(nodes=1, cpu="8", memory="16Gi", pods=110, speed=10.0, configuration=None)
        cluster = server.start(settings)
        monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
        cluster.apply(FLAVOR + queue("research", 4))
        exec(compile(EXAMPLES[1], "python.md", "exec"), {})
        with pytest.raises(LookupError, match=r"no local queue 'reserch' .* \(did you mean research\?\)"):
            quorate.submit(_job("large", cpu="5"), queue="reserch")
        (waiting,) = quorate.submit(_job("large", cpu="5"), queue="research")
        cluster.wait_for("job", "large", "spec.suspend=true")
        poll(lambda: quorate.explain(waiting)[0].can_never_fit, bool, within_s=60)
        by_text = quorate.Cluster(str(cluster.kubeconfig))
        assert by_text.explain(waiting)[0].can_never_fit
        with pytest.raises(NotFound, match=r"no workload or job 'lagre' .* \(did you mean large\?\)"):
            by_text.explain("lagre")
        everything = by_text.explain()
        assert [each.object.name for each in everything if each.can_never_fit] == [
            by_text.explain(waiting)[0].object.name
        ]
        assert all(each.state != "Finished" for each in everything)
        with pytest.raises(TimeoutError, match=r"job.batch/large: not as asked within 0.1 s"):
            quorate.wait(waiting, timeout=0.1)
        assert "<td>NeverFits</td>" in quorate.explain(waiting)._repr_html_()
        (failing,) = quorate.submit(_failing("failing"), queue="research")
        ended = quorate.wait(failing, timeout=60)
        assert (ended.succeeded, ended.explanations[0].state) == (False, "Finished")
        assert f"<td>{failing}</td><td>failed</td>" in ended._repr_html_()
        with pytest.raises(JobFailed, match=f"{failing} failed: .*") as raised:
            quorate.wait(failing, timeout=60, check=True)
        assert raised.value.ended.explanations[0].object == ended.explanations[0].object
    finally:
        server.close()


def _failing(name: str) -> dict[str, Any]:
    job = _job(name, cpu="1")
    job["spec"]["backoffLimit"] = 0
    job["spec"]["template"]["metadata"] = {"annotations": {"simulate.quorate.dev/exit-code": "1"}}
    return job


def _job(name: str, cpu: str) -> dict[str, Any]:
    container = {"name": "main", "image": "train", "resources": {"requests": {"cpu": cpu}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template},
    }


def test_importing_quorate_imports_nothing_heavy() -> None:
    program = "import sys, quorate; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    imported = done.stdout.split()
    assert "quorate" in imported
    assert [name for name in imported if name.startswith(HEAVY)] == []


def test_the_names_are_those_of_the_api() -> None:
    assert sorted(quorate.__all__) == [
        "Cluster", "InvalidWorld", "Scenario", "__version__", "explain", "simulate", "submit", "wait",
    ]  # fmt: skip
    for name in quorate.__all__:
        assert getattr(quorate, name) is not None
    with pytest.raises(AttributeError, match="'quorate' has no attribute 'absent'"):
        _ = quorate.absent  # type: ignore[attr-defined]


def test_completion_offers_the_public_names_only() -> None:
    program = "import quorate, quorate.sdk.api; print(dir(quorate) == sorted(quorate.__all__))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_simulate_is_a_function_after_its_package_was_imported() -> None:
    program = """if True:
        import quorate.simulate.inputs.world
        scenario = quorate.Scenario().queue("a", {"cpu": 1}).jobs("b", queue="a", runs="1m")
        print(quorate.simulate(scenario).scenario.summary.duration_s)
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "60.0\n"
