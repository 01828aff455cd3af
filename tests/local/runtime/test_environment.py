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
