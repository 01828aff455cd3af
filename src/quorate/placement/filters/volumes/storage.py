"""The claims, volumes and storage classes there are."""

from collections.abc import Iterator, Mapping

from quorate.api.core.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass
from quorate.api.meta import Key


class StorageIndex:
    """What claims are looked up in.  ``version`` moves with every change."""

    def __init__(self) -> None:
        self.version = 0
        self._claims: dict[Key, PersistentVolumeClaim] = {}
        self._volumes: dict[str, PersistentVolume] = {}
        self._classes: dict[str, StorageClass] = {}
        self._kept: dict[Key, set[str]] = {}  # names of volumes, by the claim they are for
        self._free: dict[str, set[str]] = {}  # names of volumes that are for no claim, by class

    @property
    def claims(self) -> Mapping[Key, PersistentVolumeClaim]:
        return self._claims

    @property
    def volumes(self) -> Mapping[str, PersistentVolume]:
        return self._volumes

    def class_of(self, claim: PersistentVolumeClaim) -> StorageClass | None:
        return self._classes.get(claim.spec.storage_class_name or "")

    def open_to(self, claim: PersistentVolumeClaim) -> Iterator[PersistentVolume]:
        """The volumes of its class that are for nobody, and those that are for the claim, by name."""
        free = self._free.get(claim.spec.storage_class_name or "", set())
        for name in sorted(free | self._kept.get(claim.metadata.key, set())):
            yield self._volumes[name]

    def set_claim(self, claim: PersistentVolumeClaim) -> None:
        self._claims[claim.metadata.key] = claim
        self.version += 1

    def remove_claim(self, key: Key) -> None:
        self._claims.pop(key, None)
        self.version += 1

    def set_volume(self, volume: PersistentVolume) -> None:
        name = volume.metadata.name
        if name in self._volumes:
            self._companions(self._volumes[name]).discard(name)
        self._volumes[name] = volume
        self._companions(volume).add(name)
        self.version += 1

    def remove_volume(self, name: str) -> None:
        volume = self._volumes.pop(name, None)
        if volume is not None:
            self._companions(volume).discard(name)
            self.version += 1

    def set_class(self, class_: StorageClass) -> None:
        self._classes[class_.metadata.name] = class_
        self.version += 1

    def remove_class(self, name: str) -> None:
        self._classes.pop(name, None)
        self.version += 1

    def _companions(self, volume: PersistentVolume) -> set[str]:
        reference = volume.spec.claim_ref
        if reference is None:
            return self._free.setdefault(volume.spec.storage_class_name, set())
        return self._kept.setdefault(Key(reference.namespace, reference.name), set())
