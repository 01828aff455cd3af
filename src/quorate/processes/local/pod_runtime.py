"""How pods of a local cluster run: simulated, or as processes of this machine."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from quorate.api.quantity import InvalidQuantity, Quantity, parse_quantity
from quorate.api.syntax import is_dns_subdomain
from quorate.inspect.errors import UsageError
from quorate.local.nodes import NodePool
from quorate.local.runtime.containers.sandbox import RuntimeUnavailable, find_tools
from quorate.local.runtime.network.namespaces import (
    NamespacesUnavailable,
    end_namespaces,
    join_or_create,
)
from quorate.local.runtime.node import default_node_name
from quorate.local.runtime.supervisor import ProcessRuntime
from quorate.processes.local.cluster_description import ClusterDescription, simulated_pools


class Runtime(StrEnum):
    """Whether pods run as processes of this machine, or are simulated."""

    SIMULATED = "simulated"
    PROCESS = "process"


@dataclass(frozen=True, slots=True)
class RuntimeOptions:
    runtime: Runtime = Runtime.SIMULATED
    node_name: str = ""
    node: str = ""
    images: Sequence[str] = ()

    def nodes(
        self, options: ClusterDescription, described: ClusterDescription
    ) -> tuple[tuple[NodePool, ...], ProcessRuntime | None]:
        """Return the simulated nodes, and the node of this machine if pods run on it.

        ``options`` are the options of the command line. ``described`` is read from a file: the node of this
        machine then has the sum of its equal nodes, and its pools are simulated. Raises ``UsageError``.
        """
        if self.runtime is Runtime.SIMULATED:
            if self.node_name or self.node or self.images:
                raise UsageError("--node-name, --node and --image need --runtime process")
            return simulated_pools(options.override(described)), None
        if self.node_name and not is_dns_subdomain(self.node_name):
            raise UsageError(f"--node-name: {self.node_name!r} is no name of a node (write this-machine)")
        try:
            find_tools()
        except RuntimeUnavailable as error:
            raise UsageError(f"--runtime process: {error}") from error
        pools = simulated_pools(options) if options.has_nodes else simulated_pools(described)[1:]
        resources = _amounts(described) | _parse_resources(self.node)
        name = self.node_name or default_node_name()
        return pools, ProcessRuntime(name, resources, _parse_images(self.images))


def why_no_pod_networks() -> str:
    """Return why pods cannot run as processes with networks of their own here, or an empty string."""
    with tempfile.TemporaryDirectory() as state:
        try:
            find_tools()
            join_or_create(Path(state))
        except (RuntimeUnavailable, NamespacesUnavailable) as reason:
            return str(reason)
        end_namespaces(Path(state))
    return ""


def _amounts(described: ClusterDescription) -> dict[str, str]:
    """Return what the equal nodes of a description have together: the node of this machine replaces them."""
    count = described.nodes if described.nodes is not None else 1
    amounts: dict[str, str] = {}
    for name, amount in (("cpu", described.cpu), ("memory", described.memory)):
        if amount is not None:
            amounts[name] = str(Quantity(amount.nanos * count, amount.form))
    if described.pods is not None:
        amounts["pods"] = str(described.pods * count)
    return amounts


def _parse_resources(text: str) -> dict[str, str]:
    resources = {}
    for part in filter(None, text.split(",")):
        name, separator, amount = part.partition("=")
        try:
            is_negative = parse_quantity(amount) < Quantity(0)
        except InvalidQuantity as error:
            raise UsageError(f"--node {name}: {error}") from error
        if is_negative:
            raise UsageError(f"--node {name}: {amount!r} is negative (write 0 or more)")
        if not (name and separator):
            raise UsageError(f"--node: {part!r} is not RESOURCE=AMOUNT (write cpu=4,memory=8Gi)")
        resources[name] = amount
    return resources


def _parse_images(texts: Sequence[str]) -> Mapping[str, Path]:
    images = {}
    for text in texts:
        name, separator, directory = text.partition("=")
        path = Path(directory).expanduser().absolute()
        if not (name and separator) or not path.is_dir():
            raise UsageError(f"--image: {text!r} is not NAME=DIRECTORY with a directory that exists")
        images[name] = path
    return images
