"""Injection into pods."""

from quorate.api import codec
from quorate.api.core.pod import Pod
from quorate.controllers.jobframework.podset_info import PodSetInfo, read_template
from quorate.controllers.pods.pod_writes import ungate
from quorate.controllers.pods.queued_pod import role_hash, role_of
from quorate.kube.patches import merged
from quorate.kube.writes import Patch
from tests.controllers.pods.notation import a_pod


def started(pod: Pod) -> Pod:
    """Return the pod as stored after it is ungated with the node selector ``zone=b``."""
    patch = ungate(pod, PodSetInfo(name=role_of(pod), count=1, node_selector={"zone": "b"}))
    assert isinstance(patch, Patch)
    metadata = codec.to_builtins(pod.metadata)
    spec = merged(read_template(pod.written), patch.body["spec"])
    return codec.convert(Pod, {"metadata": merged(metadata, patch.body.get("metadata", {})), "spec": spec})


def test_the_injection_does_not_change_the_role() -> None:
    pod = a_pod("a", role="")
    after = started(pod)
    assert role_hash(read_template(after.written)) != role_of(pod)
    assert role_of(after) == role_of(pod)
    assert role_of(started(a_pod("a", role="leader"))) == "leader"
