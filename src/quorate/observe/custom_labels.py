"""Custom labels of series; their values are labels and annotations of queues, cohorts and workloads."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from quorate.api.configuration.metric_labels import CustomLabel, LabelSource
from quorate.api.meta import ObjectMeta

UNTRACKED: Final = "kueue.x-k8s.io/_UNTRACKED_VALUE_"  # replaces every value that is not tracked
_KEYS: Final[Mapping[LabelSource, tuple[tuple[str, ...], ...]]] = {
    "ClusterQueue": (("cluster_queue",), ("preempting_cluster_queue",)),
    "Cohort": (("cohort",),),
    "LocalQueue": (("name", "namespace"),),
    "Workload": (),
}  # labels of a series that name the source object; the first that it has

Values = Mapping[str, str]  # by the name of the label
_NONE: Final[Values] = {}


class CustomLabels:
    """The configured labels, and their values on existing objects."""

    def __init__(self, labels: Sequence[CustomLabel] = ()) -> None:
        self._of_source: dict[LabelSource, list[CustomLabel]] = {}
        for label in labels:
            self._of_source.setdefault(label.source, []).append(label)
        self._values: dict[tuple[LabelSource, tuple[str, ...]], Values] = {}  # of existing objects

    @property
    def is_empty(self) -> bool:
        """Return True if no custom labels are configured."""
        return not self._of_source

    def names(self, sources: Iterable[LabelSource]) -> tuple[str, ...]:
        """Return the label names in the order of the sources, then of the configuration."""
        return tuple(
            f"custom_{label.name}" for source in sources for label in self._of_source.get(source, ())
        )

    def values_of(self, source: LabelSource, metadata: ObjectMeta | None) -> Values:
        """Return the values of one object; all are empty without metadata."""
        return {f"custom_{label.name}": _value(label, metadata) for label in self._of_source.get(source, ())}

    def put(self, source: LabelSource, key: tuple[str, ...], metadata: ObjectMeta | None) -> None:
        """Store the values of an object, or drop them without metadata; ``key`` as in series labels."""
        if source not in self._of_source:
            return
        if metadata is None:
            self._values.pop((source, key), None)
        else:
            self._values[source, key] = self.values_of(source, metadata)

    def of(
        self, sources: Iterable[LabelSource], labels: Mapping[str, str], about: Mapping[str, str] = _NONE
    ) -> Values:
        """Return the custom label values of a series, from objects of ``sources``.

        ``labels`` are the labels of the series; ``about`` has further labels that identify such an object.
        """
        if not self._of_source:
            return _NONE
        named, values = {**labels, **about}, dict[str, str]()
        for source in sources:
            values |= self._values.get((source, _key(source, named)), self.values_of(source, None))
        return values


def _key(source: LabelSource, labels: Mapping[str, str]) -> tuple[str, ...]:
    for names in _KEYS[source]:
        if all(name in labels for name in names):
            return tuple(labels[name] for name in names)
    return ()


def _value(label: CustomLabel, metadata: ObjectMeta | None) -> str:
    if metadata is None:
        return ""
    value = (metadata.annotations if label.from_annotation else metadata.labels).get(label.key, "")
    return value if not label.tracked_values or value in label.tracked_values else UNTRACKED
