"""The shapes of all pods, which follow from the pods, from selectors, and from what they claim.

A pod with claims has other requirements when a claim, a volume or a class changes, and any pod has another
shape when a new selector tells pods apart by their labels.  The model then sets these pods again.
"""

from collections.abc import Callable, Collection, Iterable, Iterator

from quorate.api.core.pod import Pod
from quorate.api.meta import Key
from quorate.placement.claim_requirements import DeviceDemand, VolumeRequirements
from quorate.placement.filters.devices.demand import claim_keys, device_demand
from quorate.placement.filters.devices.index import DeviceIndex
from quorate.placement.filters.volumes.requirements import volume_requirements
from quorate.placement.filters.volumes.storage import StorageIndex
from quorate.placement.shapes import NodeGroupRule, Shape, Shapes


class PodShapes:
    """The shape of each pod, and the pods that a changed claim, volume, class or selector concerns."""

    def __init__(self, storage: StorageIndex, devices: DeviceIndex) -> None:
        self.shapes = Shapes()  # shared with those of pods that do not exist yet
        self._generation = self.shapes.generation  # of the shapes of all pods
        self._storage = storage
        self._volumes: dict[Key, VolumeRequirements] = {}  # of pods with claims, as in their shapes
        self._volumes_version = storage.version  # of the storage that ``_volumes`` follows from
        self._device_index = devices
        self._devices: dict[Key, DeviceDemand] = {}  # of pods with claims for devices, as in their shapes
        self._pods_of_claim: dict[Key, set[Key]] = {}

    def of(self, key: Key, pod: Pod, node_groups: NodeGroupRule | None = None) -> Shape:
        volumes = volume_requirements(pod, self._storage)
        if pod.spec.volumes:
            self._volumes[key] = volumes
        if not pod.spec.resource_claims:
            return self.shapes.of(pod, volumes, node_groups)
        devices = self._demand(pod)
        shape = self.shapes.of(pod, volumes, node_groups, devices=devices)
        self._devices[key] = devices
        self._device_index.expect(devices)
        for claim in claim_keys(pod):
            if isinstance(claim, Key):
                self._pods_of_claim.setdefault(claim, set()).add(key)
        return shape

    @property
    def pods_with_claims(self) -> Collection[Key]:
        """The pods that name resource claims."""
        return self._devices.keys()

    def _demand(self, pod: Pod) -> DeviceDemand:
        return device_demand(pod, self._device_index.claims, self._device_index.classes)

    def remove(self, key: Key, pod: Pod) -> None:
        self._volumes.pop(key, None)
        if self._devices.pop(key, None) is not None:
            for claim in claim_keys(pod):
                if isinstance(claim, Key) and (users := self._pods_of_claim.get(claim)) is not None:
                    users.discard(key)
                    if not users:
                        del self._pods_of_claim[claim]

    def with_changed_devices(self, pod_of: Callable[[Key], Pod | None]) -> Iterator[tuple[Key, Pod]]:
        """Yield the pods with other demands for devices than in their shapes, once."""
        claims = self._device_index.take_changed_claims()
        changed = (
            sorted(self._devices)
            if claims is None
            else sorted({key for claim in claims for key in self._pods_of_claim.get(claim, ())})
        )
        for key in changed:
            pod = pod_of(key)
            assert pod is not None, f"{key} has claims and is not known"
            if self._demand(pod) != self._devices[key]:
                yield key, pod

    def with_changed_volumes(self, pod_of: Callable[[Key], Pod | None]) -> Iterator[tuple[Key, Pod]]:
        """Yield the pods that have other volume requirements than in their shapes, once."""
        if self._volumes_version == self._storage.version:
            return
        self._volumes_version = self._storage.version
        for key, volumes in list(self._volumes.items()):
            pod = pod_of(key)
            assert pod is not None, f"{key} has volumes and is not known"
            if volume_requirements(pod, self._storage) != volumes:
                yield key, pod

    @property
    def is_outdated(self) -> bool:
        """Whether shapes may lack labels or the namespace that selectors now read."""
        return self._generation != self.shapes.generation

    def take_added_keys(self) -> set[str] | None:
        """Return the label keys that selectors read since this was asked; see ``is_distinguished``."""
        self._generation = self.shapes.generation
        return self.shapes.take_added_keys()

    def drop_unused_keys(self, pods: Iterable[Pod]) -> None:
        """Drop label keys that only selectors of removed pods read; ``pods`` are all that exist."""
        if self.shapes.has_unused_keys:
            self.shapes.retain_keys(pod.spec for pod in pods)
