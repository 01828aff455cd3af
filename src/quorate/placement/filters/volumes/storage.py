"""An index of persistent volume claims, persistent volumes and storage classes."""

from collections.abc import Iterator, Mapping

from quorate.api.core.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass
from quorate.api.meta import Key


class StorageIndex:
    """Finds the volumes that a claim may be bound to.

    ``version`` is incremented with every change.
    """

    def __init__(self) -> None:
        self.version = 0
        self._claims: dict[Key, PersistentVolumeClaim] = {}
        self._volumes: dict[str, PersistentVolume] = {}
        self._classes: dict[str, StorageClass] = {}
        self._reserved: dict[Key, set[str]] = {}  # names of volumes, by the claim in their ``claimRef``
        self._unreserved: dict[str, set[str]] = {}  # names of volumes without a ``claimRef``, by class

    @property
    def claims(self) -> Mapping[Key, PersistentVolumeClaim]:
        return self._claims

    @property
    def volumes(self) -> Mapping[str, PersistentVolume]:
        return self._volumes

    def class_of(self, claim: PersistentVolumeClaim) -> StorageClass | None:
        return self._classes.get(claim.spec.storage_class_name or "")

    def candidate_volumes(self, claim: PersistentVolumeClaim) -> Iterator[PersistentVolume]:
        """Yield the unreserved volumes of the claim's class and those reserved for it, by name."""
        unreserved = self._unreserved.get(claim.spec.storage_class_name or "", set())
        for name in sorted(unreserved | self._reserved.get(claim.metadata.key, set())):
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
            self._name_set(self._volumes[name]).discard(name)
        self._volumes[name] = volume
        self._name_set(volume).add(name)
        self.version += 1

    def remove_volume(self, name: str) -> None:
        volume = self._volumes.pop(name, None)
        if volume is not None:
            self._name_set(volume).discard(name)
            self.version += 1

    def set_class(self, class_: StorageClass) -> None:
        self._classes[class_.metadata.name] = class_
        self.version += 1

    def remove_class(self, name: str) -> None:
        self._classes.pop(name, None)
        self.version += 1

    def _name_set(self, volume: PersistentVolume) -> set[str]:
        """Return the set of names that the volume's own name belongs to."""
        reference = volume.spec.claim_ref
        if reference is None:
            return self._unreserved.setdefault(volume.spec.storage_class_name, set())
        return self._reserved.setdefault(Key(reference.namespace, reference.name), set())
