"""Pod templates in the form that a Workload can have.

A pod may repeat a variable, a port, a pull secret or a host alias.  In Kueue's definition of the Workload
these lists have keys, so the API server refuses a Workload with such a template.  Of items with one key the
last is used, as for the variables of a container, and in Kueue (``SanitizePodSets``).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from quorate.api import codec
from quorate.api.codec import Json
from quorate.api.kueue import PodSet
from quorate.controllers.jobframework.podset_info import read_template

Keys = Mapping[str, tuple[tuple[str, str], ...]]
"""By list: the fields of the key of its items, each with the value that it has if it is absent."""

_OF_CONTAINER: Final[Keys] = {"env": (("name", ""),), "ports": (("containerPort", ""), ("protocol", "TCP"))}
_OF_POD: Final[Keys] = {"imagePullSecrets": (("name", ""),), "hostAliases": (("ip", ""),)}
_CONTAINERS: Final = ("initContainers", "containers")


def with_unique_items(pod_sets: Iterable[PodSet]) -> tuple[PodSet, ...]:
    """Return pod sets with the templates that a Workload can have."""
    return tuple(_unique(pod_set) for pod_set in pod_sets)


def _unique(pod_set: PodSet) -> PodSet:
    template = read_template(pod_set.template)
    spec = template.get("spec") or {}
    unique = unique_spec(spec)
    if unique == spec:
        return pod_set
    return msgspec.structs.replace(pod_set, template=msgspec.Raw(codec.encode({**template, "spec": unique})))


def unique_spec(spec: Json) -> Json:
    """Return a pod spec without the items that a later item with the same key replaces.

    Lists that are not as a pod has them are left as they are: a job without a schema may have anything.
    """
    containers = {
        field: [_with_lists(each, _OF_CONTAINER) if isinstance(each, dict) else each for each in spec[field]]
        for field in _CONTAINERS
        if isinstance(spec.get(field), list)
    }
    return _with_lists({**spec, **containers}, _OF_POD)


def _with_lists(obj: Json, keys: Keys) -> Json:
    lists = {field: _last_items(obj[field], key) for field, key in keys.items() if obj.get(field)}
    return {**obj, **lists}


def _last_items(items: Any, key: tuple[tuple[str, str], ...]) -> Any:
    try:
        unique = {tuple(item.get(field, absent) for field, absent in key): item for item in items}
    except (AttributeError, TypeError):
        return items
    return list(unique.values())
