"""Annotations and labels of Kueue that ask for places in a topology."""

from typing import Final

POD_SET_PREFIX: Final = "kueue.x-k8s.io/podset-"  # of all of them except the offset
REQUIRED: Final = f"{POD_SET_PREFIX}required-topology"
PREFERRED: Final = f"{POD_SET_PREFIX}preferred-topology"
UNCONSTRAINED: Final = f"{POD_SET_PREFIX}unconstrained-topology"
SLICE_LEVEL: Final = f"{POD_SET_PREFIX}slice-required-topology"
SLICE_SIZE: Final = f"{POD_SET_PREFIX}slice-size"
SLICE_CONSTRAINTS: Final = f"{POD_SET_PREFIX}slice-required-topology-constraints"
GROUP_NAME: Final = f"{POD_SET_PREFIX}group-name"
REQUESTS: Final = (
    REQUIRED,
    PREFERRED,
    UNCONSTRAINED,
    SLICE_LEVEL,
    SLICE_CONSTRAINTS,
)  # of a pod with a place
INDEX_OFFSET: Final = "kueue.x-k8s.io/pod-index-offset"  # subtracted from the indices of a set's pods
GROUP_POD_INDEX: Final = "kueue.x-k8s.io/pod-group-pod-index"  # a label: the index of a pod in its group
GROUP_POD_INDEX_LABEL: Final = f"{GROUP_POD_INDEX}-label"  # an annotation: the label that has the index
