"""Fields of Configuration that are checked, but that change nothing: each is answered with a warning."""

from typing import Final

from quorate.api.names import is_qualified_name
from quorate.api.strict import (
    Place,
    Reader,
    checked,
    choice,
    integer,
    label_selector,
    list_of,
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

QUEUE_VISIBILITY: Final = checked(
    {
        "clusterQueues": checked({"maxCount": integer(least=0, most=4000)}),
        "updateIntervalSeconds": integer(least=1),
    }
)
POD_OPTIONS: Final = checked({"namespaceSelector": label_selector, "podSelector": label_selector})
