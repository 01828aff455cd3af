"""What the cluster says besides nodes and pods of where pods can be, told to the model of the gang core.

Claims, volumes and storage classes, the drivers of nodes, and the labels of namespaces.
"""

import asyncio
from typing import Any

from quorate.api.core import Namespace
from quorate.api.core.volumes import CSINode
from quorate.gang.model import Model
from quorate.kube.client import Client
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import (
    CSI_NODES,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
)


class SurroundingsFeed:
    """The informers and what they feed; running them is the caller's."""

    def __init__(self, client: Client, model: Model, changed: asyncio.Event) -> None:
        self._model = model
        self._changed = changed
        self._namespaces = Informer(client, NAMESPACES)
        self._claims = Informer(client, PERSISTENT_VOLUME_CLAIMS)
        self._volumes = Informer(client, PERSISTENT_VOLUMES)
        self._classes = Informer(client, STORAGE_CLASSES)
        self._drivers = Informer(client, CSI_NODES)
        self._namespaces.subscribe(self._on_namespace)
        self._claims.subscribe(self._on_claim)
        self._volumes.subscribe(self._on_volume)
        self._classes.subscribe(self._on_class)
        self._drivers.subscribe(self._on_drivers)

    @property
    def informers(self) -> tuple[Informer[Any], ...]:
        return (self._namespaces, self._classes, self._drivers, self._volumes, self._claims)

    def _on_namespace(self, change: Change[Namespace]) -> None:
        labels = {} if change.new is None else change.new.metadata.labels
        if labels != ({} if change.old is None else change.old.metadata.labels):
            self._model.constraints.set_namespace(change.key.name, labels)
            self._changed.set()

    def _on_claim(self, change: Change[Any]) -> None:
        if change.new is None:
            self._model.storage.remove_claim(change.key)
        else:
            self._model.storage.set_claim(change.new)
        self._changed.set()

    def _on_volume(self, change: Change[Any]) -> None:
        if change.new is None:
            self._model.storage.remove_volume(change.key.name)
        else:
            self._model.storage.set_volume(change.new)
        self._changed.set()

    def _on_class(self, change: Change[Any]) -> None:
        if change.new is None:
            self._model.storage.remove_class(change.key.name)
        else:
            self._model.storage.set_class(change.new)
        self._changed.set()

    def _on_drivers(self, change: Change[CSINode]) -> None:
        if change.new is None:
            self._model.constraints.remove_drivers(change.key.name)
        elif change.old is None or change.old.spec != change.new.spec:
            self._model.constraints.set_drivers(change.new)
        else:
            return
        self._changed.set()
