"""Defaults that are constants, by kind and path of the field, and the status of new objects.

In a path, ``[]`` stands for each item of a list, and ``?`` for an object that is not created if it is absent.
"""

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from quorate.api.codec import Json

HTTPS_PORT = 443
_WEBHOOK: Mapping[str, Any] = {
    "webhooks[].failurePolicy": "Fail",
    "webhooks[].matchPolicy": "Equivalent",
    "webhooks[].namespaceSelector": {},
    "webhooks[].objectSelector": {},
    "webhooks[].timeoutSeconds": 10,
    "webhooks[].rules[].scope": "*",
    "webhooks[].clientConfig?.service?.port": HTTPS_PORT,
}

_MATCHED_RESOURCES: Mapping[str, Any] = {
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "resourceRules[].scope": "*",
    "excludeResourceRules[].scope": "*",
}

CONSTANTS: Mapping[str, Mapping[str, Any]] = {
    "APIService": {"spec.service?.port": HTTPS_PORT},
    "CSIDriver": {
        "spec.attachRequired": True,
        "spec.fsGroupPolicy": "ReadWriteOnceWithFSType",
        "spec.podInfoOnMount": False,
        "spec.requiresRepublish": False,
        "spec.seLinuxMount": False,
        "spec.storageCapacity": False,
        "spec.volumeLifecycleModes": ["Persistent"],
    },
    "EndpointSlice": {"ports[].name": "", "ports[].protocol": "TCP"},
    "Endpoints": {"subsets[].ports[].protocol": "TCP"},
    "IngressClass": {"spec.parameters?.scope": "Cluster"},
    "MutatingWebhookConfiguration": {**_WEBHOOK, "webhooks[].reinvocationPolicy": "Never"},
    "PersistentVolume": {
        "spec.persistentVolumeReclaimPolicy": "Retain",
        "spec.volumeMode": "Filesystem",
        "status.phase": "Pending",
    },
    "PersistentVolumeClaim": {"spec.volumeMode": "Filesystem", "status.phase": "Pending"},
    "PodDisruptionBudget": {"spec": {}},
    "PodGroup": {"spec.disruptionMode": "Pod"},
    "PriorityClass": {"value": 0, "preemptionPolicy": "PreemptLowerPriority"},
    "StorageClass": {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
    "ValidatingAdmissionPolicy": {
        "spec.failurePolicy": "Fail",
        **{f"spec.matchConstraints?.{name}": value for name, value in _MATCHED_RESOURCES.items()},
    },
    "ValidatingAdmissionPolicyBinding": {
        f"spec.matchResources?.{name}": value for name, value in _MATCHED_RESOURCES.items()
    },
    "ValidatingWebhookConfiguration": _WEBHOOK,
}


def set_constants(kind: str) -> Callable[[Json], None]:
    """Return the function that sets the constant defaults of a kind."""
    fields = [(path.split("."), value) for path, value in CONSTANTS[kind].items()]

    def set_defaults(obj: Json) -> None:
        for (*parents, name), value in fields:
            for parent in _objects(obj, parents):
                parent.setdefault(name, copy.copy(value))

    return set_defaults


def new_status(**fields: object) -> Callable[[Json], None]:
    """Return the function that sets the status of a new object, which its creator cannot set."""

    def set_status(obj: Json) -> None:
        obj["status"] = copy.deepcopy(fields)

    return set_status


def _objects(obj: Json, parents: list[str]) -> Iterator[Json]:
    """Yield the objects at a path."""
    if not parents:
        yield obj
        return
    step, *rest = parents
    if step.endswith("[]"):
        for item in obj.get(step.removesuffix("[]")) or ():
            yield from _objects(item, rest)
    elif not step.endswith("?"):
        yield from _objects(obj.setdefault(step, {}), rest)
    elif child := obj.get(step.removesuffix("?")):
        yield from _objects(child, rest)
