"""Defaults of pods and pod templates."""

import re

from quorate.api.codec import Json
from quorate.local.server.registry.defaults import pod_resources

POD_SPEC_DEFAULTS: Json = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
}
CONTAINER_DEFAULTS: Json = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
PROBE_DEFAULTS: Json = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}
NOT_READY_TOLERATION: Json = {"tolerationSeconds": 300}
DEFAULT_FILE_MODE = 0o644

VOLUME_SOURCES: dict[str, Json] = {
    "secret": {"defaultMode": DEFAULT_FILE_MODE},
    "configMap": {"defaultMode": DEFAULT_FILE_MODE},
    "downwardAPI": {"defaultMode": DEFAULT_FILE_MODE},
    "projected": {"defaultMode": DEFAULT_FILE_MODE},
    "hostPath": {"type": ""},
}


IMAGE_NAME = re.compile(r"([A-Za-z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*(:[A-Za-z0-9_.-]+)?$")


def set_missing(target: Json, defaults: Json) -> None:
    for name, value in defaults.items():
        target.setdefault(name, value)


def default_pod_spec(spec: Json) -> None:
    """Set the defaults of a pod spec, in a pod and in a template."""
    set_missing(spec, POD_SPEC_DEFAULTS)
    spec.setdefault("securityContext", {})
    if "serviceAccountName" in spec:
        spec["serviceAccount"] = spec["serviceAccountName"]
    elif "serviceAccount" in spec:
        spec["serviceAccountName"] = spec["serviceAccount"]
    for volume in spec.get("volumes", ()):
        _default_volume(volume)
    for field in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(field, ()):
            _default_container(container)
    pod_resources.default_amounts(spec)


def _default_volume(volume: Json) -> None:
    if not volume.keys() - {"name"}:
        volume["emptyDir"] = {}
    for source, defaults in VOLUME_SOURCES.items():
        if source in volume:
            set_missing(volume[source], defaults)
    sources = [volume, *volume.get("projected", {}).get("sources", ())]
    for item in (item for source in sources for item in source.get("downwardAPI", {}).get("items", ())):
        if "fieldRef" in item:
            item["fieldRef"].setdefault("apiVersion", "v1")
    for source in sources:
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)


def _default_container(container: Json) -> None:
    set_missing(container, CONTAINER_DEFAULTS)
    if "image" in container:
        container.setdefault("imagePullPolicy", pull_policy(container["image"]))
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
    for variable in container.get("env", ()):
        source = variable.get("valueFrom", {})
        if "fieldRef" in source:
            source["fieldRef"].setdefault("apiVersion", "v1")
        if "fileKeyRef" in source:
            source["fileKeyRef"].setdefault("optional", False)
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if name in container:
            set_missing(container[name], PROBE_DEFAULTS)
            if "grpc" in container[name]:
                container[name]["grpc"].setdefault("service", "")
            _default_http_get(container[name])
    lifecycle = container.get("lifecycle", {})
    if lifecycle.pop("stopSignal", None) is not None and not lifecycle:  # of a feature gate that is off
        del container["lifecycle"]
    for hook in lifecycle.values():
        if isinstance(hook, dict):
            _default_http_get(hook)


def _default_http_get(handler: Json) -> None:
    if "httpGet" in handler:
        set_missing(handler["httpGet"], {"path": "/", "scheme": "HTTP"})


def pull_policy(image: str) -> str:
    """Return Always for an image with a tag that may move, else IfNotPresent."""
    if "@" in image or not IMAGE_NAME.match(image):
        return "IfNotPresent"
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def default_pod(pod: Json) -> None:
    spec = pod.setdefault("spec", {})
    default_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    status = pod.get("status", {})
    for one, many in (("podIP", "podIPs"), ("hostIP", "hostIPs")):
        if one in status:
            status[many] = [{"ip": status[one]}, *status.get(many, ())[1:]]
    for condition in status.get("conditions", ()):
        condition.setdefault("lastProbeTime", None)  # as the server writes it, so that it is no change
    pod_resources.default_requests(spec)
    if spec.get("hostNetwork"):
        for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
            for port in container.get("ports", ()):
                port.setdefault("hostPort", port.get("containerPort"))


def default_pod_on_read(pod: Json) -> None:
    """Apply the defaults of amounts to what admission has set, as a server does that reads a pod."""
    pod_resources.default_amounts(pod["spec"])
    pod_resources.default_requests(pod["spec"])


def prepare_pod_for_create(pod: Json) -> None:
    """Set the status of a new pod: Pending, its QoS class, and whether it is gated."""
    pod["status"] = {"phase": "Pending"}
    _correct_grace_period(pod["spec"])
    if pod["spec"].get("schedulingGates"):
        gated_condition = {
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": pod["metadata"]["creationTimestamp"],
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
        pod["status"]["conditions"] = [gated_condition]
    pod["status"]["qosClass"] = pod_resources.qos_class(pod["spec"])


def prepare_pod_for_update(new: Json, old: Json) -> None:
    """Restore what admission has set and the update leaves out."""
    for name in ("priority", "preemptionPolicy"):
        if name in old["spec"]:
            new["spec"].setdefault(name, old["spec"][name])
    _correct_grace_period(new["spec"])
    add_default_tolerations(new["spec"])


def _correct_grace_period(spec: Json) -> None:
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1


def prepare_pod_for_resize(new: Json, old: Json) -> None:
    """Keep all but the resources of the pod and of its containers, which keep their order and names."""
    spec = {name: value for name, value in old["spec"].items() if name != "resources"}
    if "resources" in new["spec"]:
        spec["resources"] = new["spec"]["resources"]
    for field in ("containers", "initContainers"):
        was = old["spec"].get(field, ())
        resized = [
            _with_resources(was[index] if index < len(was) else container, container)
            for index, container in enumerate(new["spec"].get(field, ()))
        ]
        if resized or field in spec:
            spec[field] = resized
    pod_resources.default_requests(spec)
    new["spec"] = spec
    new["metadata"] = dict(old["metadata"])


def prepare_pod_for_ephemeral_containers(new: Json, old: Json) -> None:
    """Keep all but the ephemeral containers of the pod."""
    containers = new["spec"].get("ephemeralContainers")
    new["spec"] = {name: value for name, value in old["spec"].items() if name != "ephemeralContainers"}
    if containers:
        new["spec"]["ephemeralContainers"] = containers
    new["metadata"] = dict(old["metadata"])


def _with_resources(container: Json, resized: Json) -> Json:
    if container.get("name") != resized.get("name"):
        container = {**container, "name": resized.get("name")}  # which validation refuses
    return {**container, "resources": resized.get("resources", {})}


def prepare_pod_for_status_update(new: Json, old: Json) -> None:
    """Keep the QoS class, which never changes."""
    if "qosClass" in old.get("status", {}):
        new["status"].setdefault("qosClass", old["status"]["qosClass"])


def add_default_tolerations(spec: Json) -> None:
    """Tolerate a node that is not ready or unreachable for 300 seconds, unless the pod specifies it."""
    tolerations = spec.setdefault("tolerations", [])
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(_tolerates(toleration, key) for toleration in tolerations):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute"} | NOT_READY_TOLERATION
            )


def _tolerates(toleration: Json, key: str) -> bool:
    return toleration.get("key") in (None, key) and toleration.get("effect") in (None, "NoExecute")
