from typing import Any

import pytest

from quorate.api import codec
from quorate.api.quantity import parse_quantity
from quorate.local.controllers.access import Secret
from quorate.local.controllers.services import Service
from quorate.local.runtime.containers.environment import (
    ConfigError,
    PodFacts,
    ReferencedObjects,
    environment_of,
    expand,
    file_variable,
    service_variables,
)
from quorate.local.runtime.pod_types import ConfigMap, Pod

FACTS = PodFacts("10.0.0.1", "10.244.0.7", {"cpu": parse_quantity("4"), "memory": parse_quantity("8Gi")})


def a_pod(**container: Any) -> Pod:
    body = {
        "metadata": {"name": "p", "namespace": "ns", "annotations": {"note": 'say "hi"'}},
        "spec": {"nodeName": "here", "containers": [{"name": "main", **container}]},
    }
    return codec.decode(Pod, codec.encode(body))


def variables(objects: ReferencedObjects = ReferencedObjects({}, {}), **container: Any) -> dict[str, str]:  # noqa: B008
    pod = a_pod(**container)
    return environment_of(pod, pod.spec.containers[0], objects, (), FACTS)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("$(A)", "1"),
        ("$$(A)", "$(A)"),
        ("$(B)", "$(B)"),
        ("$A ${A} $(A)$(A)", "$A ${A} 11"),
        ("$", "$"),
        ("$(A", "$(A"),
    ],
)
def test_expand(text: str, want: str) -> None:
    assert expand(text, {"A": "1"}) == want


def test_fields_and_amounts() -> None:
    def field(path: str) -> dict[str, Any]:
        return {"fieldRef": {"fieldPath": path}}

    def amount(resource: str, divisor: str) -> dict[str, Any]:
        return {"resourceFieldRef": {"resource": resource, "divisor": divisor}}

    sources = {
        "NODE": field("spec.nodeName"),
        "IP": field("status.podIP"),
        "HOST": field("status.hostIP"),
        "NOTES": field("metadata.annotations"),
        "NOTE": field("metadata.annotations['note']"),
        "MEMORY": amount("limits.memory", "1Mi"),
        "CPU": amount("limits.cpu", "0"),
        "SMALL": amount("requests.cpu", "1"),
    }
    declared = [{"name": name, "valueFrom": source} for name, source in sources.items()]
    assert variables(env=declared, resources={"requests": {"cpu": "100m"}}) == {
        "NODE": "here",
        "IP": "10.244.0.7",
        "HOST": "10.0.0.1",
        "NOTES": 'note="say \\"hi\\""',
        "NOTE": 'say "hi"',
        "MEMORY": "8192",  # without a limit: what the node has
        "CPU": "4",
        "SMALL": "1",  # rounded up
    }


def test_a_container_without_a_limit_has_the_limit_of_its_pod() -> None:
    pod = codec.decode(
        Pod,
        b'{"metadata":{},"spec":{"resources":{"limits":{"cpu":"3","memory":"1Gi"}},"containers":'
        b'[{"name":"main","resources":{"limits":{"cpu":"2"}},"env":['
        b'{"name":"CPU","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu"}}},'
        b'{"name":"MEMORY","valueFrom":{"resourceFieldRef":{"resource":"limits.memory","divisor":"1Mi"}}}]}]}}',
    )
    values = environment_of(pod, pod.spec.containers[0], ReferencedObjects({}, {}), (), FACTS)
    assert values == {"CPU": "2", "MEMORY": "1024"}


FILE = """# of init containers
  A='one' # and a comment

B='two
lines'
C= 'cut'
A='again'
"""


@pytest.mark.parametrize(("name", "want"), [("A", "one"), ("B", "two\nlines"), ("C", ""), ("D", "")])
def test_variables_of_files(name: str, want: str) -> None:
    assert file_variable(FILE, name) == want


@pytest.mark.parametrize("line", ["A=bare", 'A="x"', "A = 'x'", "A='x", "A='x'y", "='x'", "A", "A="])
def test_files_with_other_lines_are_refused(line: str) -> None:
    with pytest.raises(ValueError, match="no variable in single quotes"):
        file_variable(f"{line}\nB='x'\n", "B")
    assert file_variable(f"B='x'\n{line}\n", "B") == "x"


def test_keys_of_files() -> None:
    def value(text: str | None, **selector: Any) -> dict[str, str]:
        source = {"volumeName": "v", "path": "p", "key": "K", **selector}
        objects = ReferencedObjects({}, {}, {("v", "p"): text})
        return variables(objects, env=[{"name": "X", "valueFrom": {"fileKeyRef": source}}])

    assert value("K='1'\n") == {"X": "1"}
    assert value("", optional=True) == {}
    with pytest.raises(ConfigError, match='key "K" not found in file "p" of volume "v"'):
        value("")
    for unreadable in ("K=1\n", None):
        with pytest.raises(ConfigError, match="couldn't parse env file"):
            value(unreadable, optional=True)


def test_a_later_source_wins() -> None:
    objects = ReferencedObjects(
        {"c": codec.decode(ConfigMap, b'{"metadata":{},"data":{"A":"config","B":"config"}}')},
        {"s": codec.decode(Secret, b'{"metadata":{},"data":{"B":"c2VjcmV0"}}')},
    )
    sources = [{"configMapRef": {"name": "c"}}, {"prefix": "X_", "secretRef": {"name": "s"}}]
    assert variables(objects, envFrom=sources, env=[{"name": "A", "value": "own $(B)"}]) == {
        "A": "own config",
        "B": "config",
        "X_B": "secret",
    }


def test_what_is_missing_is_named_unless_it_is_optional() -> None:
    def key(**selector: Any) -> list[dict[str, Any]]:
        return [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k", **selector}}}]

    there = ReferencedObjects({"c": codec.decode(ConfigMap, b'{"metadata":{}}')}, {})
    absent = ReferencedObjects({"c": None}, {})
    with pytest.raises(ConfigError, match='configmap "c" not found'):
        variables(absent, env=key())
    with pytest.raises(ConfigError, match="couldn't find key k in ConfigMap ns/c"):
        variables(there, env=key())
    assert variables(absent, env=key(optional=True)) == {}


def test_services_of_the_namespace_are_variables() -> None:
    spec = b'{"clusterIP":"10.96.0.9","ports":[{"port":5432}]}'
    text = b'{"metadata":{"name":"my-db","namespace":"ns"},"spec":' + spec + b"}"
    found = service_variables(a_pod(), [codec.decode(Service, text)])
    assert found["MY_DB_SERVICE_HOST"] == "10.96.0.9"
    assert found["MY_DB_SERVICE_PORT"] == "5432"
    assert found["MY_DB_PORT_5432_TCP_ADDR"] == "10.96.0.9"
    assert service_variables(a_pod(), [codec.decode(Service, text.replace(b'"ns"', b'"other"'))]) == {}
