"""The fields of Configuration that are checked but that nothing here acts on yet, as data.

A field leaves this table on the day something honours it.
"""

from typing import Any, Final

from quorate.api.names import is_dns_subdomain, is_qualified_name
from quorate.api.strict import (
    Place,
    Reader,
    checked,
    choice,
    duration,
    integer,
    label_selector,
    list_of,
    map_of,
    number,
    shaped,
    text,
)

_custom_label = checked(
    {
        "name": shaped(str.isidentifier, "a name of letters, digits and _ that starts with a letter"),
        "sourceLabelKey": shaped(is_qualified_name, "the key of a label"),
        "sourceAnnotationKey": shaped(is_qualified_name, "the key of an annotation"),
        "sourceKind": choice(("ClusterQueue", "LocalQueue", "Cohort", "Workload")),
        "trackedValues": list_of(text, most=16),
    }
)


def _custom_labels(place: Place) -> None:
    list_of(_custom_label, most=20)(place)
    labels = [item for item in place.items() if isinstance(item.value, dict)]
    names: list[object] = []
    of_kind: dict[str, int] = {}
    for item in labels:
        label = item.value
        if label.get("name") in names:
            item.entry("name").refuse("names two labels (choose another)")
        names.append(label.get("name"))
        if label.get("sourceLabelKey") and label.get("sourceAnnotationKey"):
            item.entry("sourceAnnotationKey").refuse("contradicts sourceLabelKey (give one of the two)")
        kind, tracked = str(label.get("sourceKind") or "ClusterQueue"), label.get("trackedValues")
        if kind == "Workload" and not (isinstance(tracked, list) and 1 <= len(tracked) <= 12):
            item.entry("trackedValues").refuse("must list 1 to 12 values for sourceKind Workload")
        of_kind[kind] = of_kind.get(kind, 0) + 1
        if of_kind[kind] > (most := 2 if kind == "Workload" else 6):
            item.refuse(f"is one label too many for sourceKind {kind}, at most {most}")


CUSTOM_LABELS: Final[Reader[None]] = _custom_labels

_every_version: Final[dict[str, Reader[Any]]] = {
    "clientConnection": checked({"qps": number, "burst": integer()}),
    "pprofBindAddress": text,
    "controller": checked({"groupKindConcurrency": map_of(integer(least=1)), "cacheSyncTimeout": duration()}),
    "multiKueue": checked(
        {
            "gcInterval": duration(),
            "origin": text,
            "workerLostTimeout": duration(),
            "dispatcherName": text,
            "externalFrameworks": list_of(checked({"name": text})),
            "clusterProfile": checked({"credentialsProviders": list_of(map_of(lambda place: place.value))}),
            "incrementalDispatcherConfig": checked({"stepSize": integer(least=1)}),
        }
    ),
}
UNUSED: Final[dict[str, dict[str, Reader[Any]]]] = {
    "v1beta1": _every_version
    | {
        "queueVisibility": checked(
            {
                "clusterQueues": checked({"maxCount": integer(least=0, most=4000)}),
                "updateIntervalSeconds": integer(least=1),
            }
        ),
    },
    "v1beta2": _every_version,
}

POD_OPTIONS: Final = checked({"namespaceSelector": label_selector, "podSelector": label_selector})
DEVICE_CLASS_MAPPINGS: Final = list_of(
    checked(
        {
            "name": shaped(is_qualified_name, "the name of a resource"),
            "deviceClassNames": list_of(
                shaped(is_dns_subdomain, "the name of a DeviceClass"), least=1, most=8
            ),
            "sources": list_of(map_of(lambda place: place.value)),
        }
    ),
    most=16,
)
