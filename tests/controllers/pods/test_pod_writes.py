"""Injection into pods."""

import msgspec

from quorate.api import codec
from quorate.controllers.jobframework.podset_info import PodSetInfo, read_template
from quorate.controllers.pods.pod_writes import ungate
from quorate.controllers.pods.queued_pod import QueuedPod
from quorate.controllers.pods.roles import role_hash, role_of
from quorate.kube.patches import merged
from quorate.kube.writes import Patch
from tests.controllers.pods.notation import a_pod


def started(pod: QueuedPod) -> QueuedPod:
    """Return the pod as stored after it is ungated with the node selector ``zone=b``."""
    patch = ungate(pod, PodSetInfo(name=role_of(pod), count=1, node_selector={"zone": "b"}))
    assert isinstance(patch, Patch)
    metadata = codec.to_builtins(pod.metadata)
    return msgspec.structs.replace(
        pod,
        metadata=codec.convert(type(pod.metadata), merged(metadata, patch.body.get("metadata", {}))),
        spec=msgspec.Raw(codec.encode(merged(read_template(pod.spec), patch.body["spec"]))),
    )


def test_the_injection_does_not_change_the_role() -> None:
    pod = a_pod("a", role="")
    after = started(pod)
    assert role_hash(read_template(after.spec)) != role_of(pod)
    assert role_of(after) == role_of(pod)
    assert role_of(started(a_pod("a", role="leader"))) == "leader"
