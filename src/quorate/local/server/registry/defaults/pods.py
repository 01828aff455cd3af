"""Pods, and the pod templates inside other kinds."""

from typing import Any

from quorate.api.quantity import Quantity, parse_quantity

Json = dict[str, Any]

NANOS_IN_MILLI = 1_000_000

TEMPLATE: Json = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
}
CONTAINER: Json = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
PROBE: Json = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
SILENCE: Json = {"tolerationSeconds": 300}
READABLE = 0o644

VOLUME_SOURCES: dict[str, Json] = {
    "secret": {"defaultMode": READABLE},
    "configMap": {"defaultMode": READABLE},
    "downwardAPI": {"defaultMode": READABLE},
    "projected": {"defaultMode": READABLE},
    "hostPath": {"type": ""},
}


def fill(target: Json, defaults: Json) -> None:
    for name, value in defaults.items():
        target.setdefault(name, value)


def template_spec(spec: Json) -> None:
    """What a pod's spec says when it says nothing, in a template as in a pod."""
    fill(spec, TEMPLATE)
    spec.setdefault("securityContext", {})
    if "serviceAccountName" in spec:
        spec["serviceAccount"] = spec["serviceAccountName"]
    elif "serviceAccount" in spec:
        spec["serviceAccountName"] = spec["serviceAccount"]
    for volume in spec.get("volumes", ()):
        _volume(volume)
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        _container(container)


def _volume(volume: Json) -> None:
    if not volume.keys() - {"name"}:
        volume["emptyDir"] = {}
    for source, defaults in VOLUME_SOURCES.items():
        if source in volume:
            fill(volume[source], defaults)


def _container(container: Json) -> None:
    fill(container, CONTAINER)
    if "image" in container:
        container.setdefault("imagePullPolicy", pull_policy(container["image"]))
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
    for variable in container.get("env", ()):
        field = variable.get("valueFrom", {}).get("fieldRef")
        if field is not None:
            field.setdefault("apiVersion", "v1")
    for amounts in container.get("resources", {}).values():
        if isinstance(amounts, dict):
            _round_up(amounts)
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if name in container:
            fill(container[name], PROBE)
            _http_get(container[name])
    for hook in container.get("lifecycle", {}).values():
        if isinstance(hook, dict):
            _http_get(hook)


def _round_up(amounts: Json) -> None:
    """Nothing is counted in less than thousandths."""
    for name, amount in amounts.items():
        quantity = parse_quantity(amount)
        if quantity.nanos % NANOS_IN_MILLI:
            amounts[name] = str(
                Quantity(-(-quantity.nanos // NANOS_IN_MILLI) * NANOS_IN_MILLI, quantity.form)
            )


def _http_get(handler: Json) -> None:
    if "httpGet" in handler:
        fill(handler["httpGet"], {"path": "/", "scheme": "HTTP"})


def pull_policy(image: str) -> str:
    """An image whose tag may move is pulled each time."""
    if "@" in image:
        return "IfNotPresent"
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def default(pod: Json) -> None:
    spec = pod.setdefault("spec", {})
    template_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    status = pod.get("status", {})
    for one, many in (("podIP", "podIPs"), ("hostIP", "hostIPs")):
        if one in status:
            status[many] = [{"ip": status[one]}, *status.get(many, ())[1:]]
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        resources = container.setdefault("resources", {})
        if "limits" in resources:
            resources["requests"] = resources["limits"] | resources.get("requests", {})
        if spec.get("hostNetwork"):
            for port in container.get("ports", ()):
                port.setdefault("hostPort", port.get("containerPort"))


def begin(pod: Json) -> None:
    """A new pod waits, whatever its author says of its status."""
    pod["status"] = {"phase": "Pending"}
    if pod["spec"]["terminationGracePeriodSeconds"] < 0:
        pod["spec"]["terminationGracePeriodSeconds"] = 1
    if pod["spec"].get("schedulingGates"):
        gated = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
        pod["status"]["conditions"] = [gated]
    pod["status"]["qosClass"] = qos_class(pod["spec"])


def qos_class(spec: Json) -> str:
    """Guaranteed if every container limits cpu and memory to what it asks for; BestEffort if none asks."""
    containers = [*spec.get("containers", ()), *spec.get("initContainers", ())]
    asked = [container.get("resources", {}) for container in containers]
    if not any(_computing(resources, kind) for resources in asked for kind in ("requests", "limits")):
        return "BestEffort"
    guaranteed = all(
        len(limits := _computing(resources, "limits")) == 2 and limits == _computing(resources, "requests")
        for resources in asked
    )
    return "Guaranteed" if guaranteed else "Burstable"


def _computing(resources: Json, kind: str) -> Json:
    amounts = resources.get(kind) or {}
    return {name: amounts[name] for name in ("cpu", "memory") if amounts.get(name, "0") != "0"}


def carry(new: Json, old: Json) -> None:
    """An update that leaves out what admission settled means no change of it."""
    for name in ("priority", "preemptionPolicy"):
        if name in old["spec"]:
            new["spec"].setdefault(name, old["spec"][name])
    tolerate_silence(new["spec"])


def carry_status(new: Json, old: Json) -> None:
    """A pod's quality of service is decided once."""
    if "qosClass" in old.get("status", {}):
        new["status"].setdefault("qosClass", old["status"]["qosClass"])


def tolerate_silence(spec: Json) -> None:
    """A pod leaves a node that nobody hears from after a while, unless it says otherwise."""
    tolerations = spec.setdefault("tolerations", [])
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(_tolerates(toleration, key) for toleration in tolerations):
            tolerations.append({"key": key, "operator": "Exists", "effect": "NoExecute"} | SILENCE)


def _tolerates(toleration: Json, key: str) -> bool:
    return toleration.get("key") in (None, key) and toleration.get("effect") in (None, "NoExecute")
