"""What the workers of all pods of a node share."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from quorate.api.quantity import Quantity
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.local.controllers.core_events import EventRecorder
from quorate.local.runtime.containers.cgroups import Cgroups
from quorate.local.runtime.containers.sandbox import Tools
from quorate.local.runtime.machine import DevicePool
from quorate.local.runtime.network.types import PodNetwork
from quorate.local.runtime.objects import ApiObjects


@dataclass(slots=True)
class NodeServices:
    name: str
    client: Client
    clock: Clock
    rng: random.Random
    state: Path
    network: PodNetwork
    tools: Tools
    images: Mapping[str, Path]  # root directories, by image
    objects: ApiObjects
    recorder: EventRecorder
    allocatable: Mapping[str, Quantity]
    home: str
    cgroups: Cgroups
    devices: DevicePool
    is_root: bool  # containers can run as other users
    is_stopping: bool = field(default=False)  # the cluster is stopped: all containers end
    stop_grace_s: float = field(default=5.0)  # the longest that containers get then

    def image_root(self, image: str) -> Path:
        """Return the root directory of an image: the host's, unless a directory was given for it."""
        without_tag = image.rpartition(":")[0] or image
        return self.images.get(image) or self.images.get(without_tag) or Path("/")
