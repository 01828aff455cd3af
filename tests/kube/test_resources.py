"""Paths, bodies and references of resources, and the lines of a watch."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.core import Namespace, Pod
from quorate.api.events import ObjectReference
from quorate.api.meta import ObjectMeta, Uid
from quorate.kube import resources
from quorate.kube.errors import AnswerTooLarge
from quorate.kube.resources import CLUSTER_QUEUES, JOBS, NODES, PODS, SERVICES, Resource, untyped
from quorate.kube.rest.bounded_reads import Lines


@pytest.mark.parametrize(
    ("resource", "parts", "path"),
    [
        pytest.param(PODS, (), "/api/v1/pods", id="all namespaces"),
        pytest.param(PODS, ("ns",), "/api/v1/namespaces/ns/pods", id="in a namespace"),
        pytest.param(JOBS, ("ns", "a"), "/apis/batch/v1/namespaces/ns/jobs/a", id="in an API group"),
        pytest.param(NODES, ("", "n"), "/api/v1/nodes/n", id="cluster-scoped"),
        pytest.param(NODES, ("ns", "n"), "/api/v1/nodes/n", id="namespace of a cluster-scoped kind"),
        pytest.param(
            CLUSTER_QUEUES, ("", "q", "status"),
            "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/q/status", id="a subresource",
        ),
        pytest.param(PODS, ("ns", "a/../b"), "/api/v1/namespaces/ns/pods/a%2F..%2Fb", id="names are quoted"),
    ],
)  # fmt: skip
def test_the_path_of_a_resource(resource: Resource[Any], parts: tuple[str, ...], path: str) -> None:
    assert resource.path(*parts) == path


def test_every_kind_is_declared_under_its_own_name() -> None:
    declared = [value for value in vars(resources).values() if isinstance(value, Resource)]
    assert PODS in declared
    assert NODES in declared
    typed = [resource for resource in declared if resource is not SERVICES]  # a Service stays JSON
    assert [resource.kind for resource in typed] == [resource.type.__name__ for resource in typed]
    assert len({(resource.path(), resource.type.__module__) for resource in declared}) == len(declared)


def test_a_body_has_its_api_version_and_kind() -> None:
    config_map = untyped("", "v1", "configmaps", "ConfigMap", True)
    namespaces = resources.NAMESPACES
    typed = Namespace(metadata=ObjectMeta(name="a"))
    assert msgspec.json.decode(namespaces.encode(typed)) == {
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"},
    }  # fmt: skip
    assert msgspec.json.decode(config_map.encode({"data": {"x": "y"}})) == {
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"x": "y"},
    }  # fmt: skip


def test_a_reference_identifies_the_object() -> None:
    pod = Pod(metadata=ObjectMeta(name="a", namespace="ns", uid=Uid("u1")))
    assert resources.reference_to(PODS, pod.metadata) == ObjectReference(
        api_version="v1", kind="Pod", namespace="ns", name="a", uid=Uid("u1")
    )


@given(st.lists(st.binary(max_size=6).filter(lambda line: b"\n" not in line)), st.data())
def test_lines_are_the_same_whatever_the_chunks_are(lines: list[bytes], data: st.DataObject) -> None:
    text = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)))))
    ends = [*cuts, len(text)]
    stream = Lines("WATCH /pods")
    got = [line for start, end in zip([0, *cuts], ends, strict=True) for line in stream.feed(text[start:end])]
    assert got == [line for line in lines if line]


@given(st.lists(st.binary(min_size=1, max_size=6)))
def test_an_incomplete_line_has_at_most_the_limit(chunks: list[bytes]) -> None:
    stream, pending = Lines("WATCH /pods", limit=10), b""
    for chunk in chunks:
        first, *rest = chunk.split(b"\n")
        if len(pending + first) > 10:
            with pytest.raises(AnswerTooLarge):
                [*stream.feed(chunk)]
            return
        [*stream.feed(chunk)]
        pending = rest[-1] if rest else pending + first
