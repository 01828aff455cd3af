"""Pods with network namespaces of their own, connected by a bridge in the network namespace of the node."""

import asyncio
import ipaddress
import os
import shutil
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from socket import if_nameindex, socket
from typing import Final

from quorate.local.connections import CONNECT_TIMEOUT_S, Streams, connect, new_socket, relay
from quorate.local.runtime.network.namespaces import (
    IpCommandFailed,
    NetworkThreads,
    NodeNamespaces,
    create_namespace,
    ip,
    is_namespace,
    remove_namespace,
)
from quorate.local.runtime.network.pod_files import write_pod_files
from quorate.local.runtime.network.types import (
    HOST_ADDRESS,
    PodNetworkError,
    PodNetworkNamespace,
)
from quorate.local.runtime.pod_types import Pod


class HostPorts:
    """Listens on the loopback device of the host for the pods of a node, and relays connections to them."""

    def __init__(self, open_socket_to: Callable[[str], Awaitable[socket]]) -> None:
        """``open_socket_to`` returns a socket that can connect to the address of a pod."""
        self._open_socket_to = open_socket_to
        self._servers: dict[str, list[asyncio.Server]] = {}  # by uid of the pod

    async def open(self, uid: str, address: str, ports: Mapping[int, int]) -> None:
        """Listen on the ports of the host for a pod.  Raises ``PodNetworkError`` if a port is in use."""
        if uid in self._servers:
            return
        servers = self._servers[uid] = []
        for host_port, port in ports.items():
            serve = partial(self._serve, (address, port))
            try:
                servers.append(await asyncio.start_server(serve, HOST_ADDRESS, host_port))
            except OSError as error:
                self.close(uid)
                problem = os.strerror(error.errno).lower() if error.errno else str(error)
                raise PodNetworkError(f"cannot open hostPort {host_port}: {problem}") from error

    def close(self, uid: str) -> None:
        for server in self._servers.pop(uid, ()):
            server.close()

    def close_all(self) -> None:
        for uid in list(self._servers):
            self.close(uid)

    async def _serve(
        self, target: tuple[str, int], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            await relay((reader, writer), await self._connect(target))
        except OSError:
            writer.transport.abort()  # the client sees a reset, as from a host without the process

    async def _connect(self, target: tuple[str, int]) -> Streams:
        opened = await self._open_socket_to(target[0])
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            return await connect(opened, target)


PROGRAM: Final = "slirp4netns"
DEVICE: Final = "egress"


class EgressUnavailable(Exception):
    """There is no way out; the message says why."""


async def start_egress(node: Path, network: str, log: Path) -> asyncio.subprocess.Process:
    """Start slirp4netns, through which pods reach other networks, and return its process.

    Its device is in the network namespace ``node``, for addresses in ``network``: it is a port of the bridge,
    and its gateway has an address in the network of the pods.  So no rules for forwarding and address
    translation are needed.  The process ends with the kubelet, also if that is killed.

    ``log``: the file for its output. Raises ``EgressUnavailable``.
    """
    if shutil.which(PROGRAM) is None or shutil.which("setpriv") is None:
        raise EgressUnavailable(f"{PROGRAM} is not installed")
    ready, writer = os.pipe()
    reports = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        process = await asyncio.create_subprocess_exec(
            "setpriv", "--pdeathsig", "KILL",
            PROGRAM, "--netns-type=path", f"--ready-fd={writer}", f"--cidr={network}",
            "--disable-host-loopback", "--disable-dns", str(node), DEVICE,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=reports,
            pass_fds=(writer,),
        )  # fmt: skip
    finally:
        os.close(writer)
        os.close(reports)
    if await asyncio.to_thread(_is_ready, ready):
        return process
    await _end(process)
    reason = (await asyncio.to_thread(log.read_text, errors="replace")).strip().rpartition("\n")[2]
    raise EgressUnavailable(f"{PROGRAM}: {reason or 'not ready'}")


async def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()


def _is_ready(ready: int) -> bool:
    """Return True once the program has written, False once it has ended."""
    try:
        return os.read(ready, 1) == b"1"
    finally:
        os.close(ready)


POD_NETWORK: Final = ipaddress.IPv4Network("10.244.0.0/16")
NODE_ADDRESS: Final = str(POD_NETWORK[1])
EGRESS_ADDRESS: Final = str(POD_NETWORK[2])  # as slirp4netns chooses it
EGRESS_LOG: Final = "egress.log"
FIRST_PLACE: Final = 4  # slirp4netns may answer at the two addresses after that of the node
SERVICE_NETWORK: Final = "10.96.0.0/16"
API_SERVICE_ADDRESS: Final = ("10.96.0.1", 443)
BRIDGE: Final = "bridge"
BRIDGE_ADDRESS: Final = "02:00:0a:f4:00:01"
LINK_PREFIX: Final = "pod"
NAMESPACE: Final = "netns"
ADDRESS: Final = "address"


class BridgeNetwork:
    """A ``PodNetwork`` of namespaces; the directory of each pod records its address.

    The process must be in the mount namespace of the node. Calls for the same pod must not overlap.
    """

    node_address = NODE_ADDRESS

    def __init__(self, state: Path, node: NodeNamespaces, api_server: tuple[str, int]) -> None:
        """``api_server``: its address in the network of the host."""
        self._state = state
        self._api_server = api_server
        self.node = node
        self._threads = NetworkThreads()
        self._used: set[int] = set()  # places in the network of the addresses of pods
        self._last = FIRST_PLACE - 1
        self._egress: asyncio.subprocess.Process | None = None
        self._host_ports = HostPorts(self.open_socket_to)
        self._no_egress = ""  # why pods do not reach other networks

    @property
    def description(self) -> str:
        own = f"pods have addresses of their own in {POD_NETWORK} and resolve names of services"
        if self._egress is not None:
            return f"{own}; they reach networks outside of the cluster through slirp4netns"
        return f"{own}; without hostNetwork: true they reach no other network ({self._no_egress})"

    @property
    def has_egress(self) -> bool:
        """Return True if pods reach networks outside of the cluster."""
        return self._egress is not None

    async def start(self) -> None:
        """Create the bridge, or take over the networks of pods that an earlier kubelet made.

        Raises ``PodNetworkError``.
        """
        if shutil.which("ip") is None:
            raise PodNetworkError("ip is not installed (package iproute2)")
        self._used = await asyncio.to_thread(_take_over, self._state)
        self._last = max(self._used, default=FIRST_PLACE - 1)
        try:
            await self._threads.run(self.node.network, partial(_prepare_node, frozenset(self._used)))
        except (OSError, IpCommandFailed) as error:
            raise PodNetworkError(f"the bridge of the pods cannot be made: {error}") from error
        try:
            self._egress = await start_egress(self.node.network, str(POD_NETWORK), self._state / EGRESS_LOG)
            await self._threads.run(self.node.network, partial(ip, f"link set {DEVICE} master {BRIDGE} up"))
        except (OSError, EgressUnavailable, IpCommandFailed) as error:
            self._no_egress = str(error)

    async def close(self) -> None:
        self._host_ports.close_all()
        if self._egress is not None:
            await _end(self._egress)
        self._threads.close()

    async def create(self, pod: Pod) -> PodNetworkNamespace:
        directory = self._state / pod.metadata.uid
        if pod.spec.host_network:
            files = await asyncio.to_thread(write_pod_files, directory, pod, HOST_ADDRESS, "")
            return PodNetworkNamespace(None, HOST_ADDRESS, self._api_server, *files)
        try:
            place = await asyncio.to_thread(_recorded_place, directory)
            if place is None:
                place = self._allocate()
                await self._connect(directory, place)
            address = str(POD_NETWORK[place])
            files = await asyncio.to_thread(write_pod_files, directory, pod, address, NODE_ADDRESS)
            await self._host_ports.open(pod.metadata.uid, address, _host_ports(pod))
        except (OSError, IpCommandFailed) as error:
            raise PodNetworkError(f"failed to set up the network of the pod: {error}") from error
        return PodNetworkNamespace(directory / NAMESPACE, address, API_SERVICE_ADDRESS, *files)

    async def release(self, uid: str) -> None:
        self._host_ports.close(uid)
        directory = self._state / uid
        place = await asyncio.to_thread(_recorded_place, directory)
        if place is not None:
            await self._disconnect(directory, place)
        await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)

    async def open_socket(self, uid: str) -> socket:
        if await asyncio.to_thread(_shares_host, self._state / uid):
            return new_socket()
        return await self.run_in(self.namespace(uid), new_socket)

    async def open_socket_to(self, host: str) -> socket:
        return await self.run_in_node(new_socket) if _is_of_cluster(host) else new_socket()

    def namespace(self, uid: str) -> Path:
        """Return the path of the namespace of a pod."""
        return self._state / uid / NAMESPACE

    async def run_in_node(self, function: Callable[[], socket]) -> socket:
        """Return what ``function`` returns in the network of the node, such as a listening socket."""
        return await self.run_in(self.node.network, function)

    async def run_in(self, namespace: Path, function: Callable[[], socket]) -> socket:
        return await self._threads.run(namespace, function)

    def _allocate(self) -> int:
        """Return the next free place in the network, so that an address is not reused soon."""
        size = POD_NETWORK.num_addresses - 1 - FIRST_PLACE  # the last address is that of broadcasts
        for step in range(size):
            place = FIRST_PLACE + (self._last + 1 - FIRST_PLACE + step) % size
            if place not in self._used:
                self._used.add(place)
                self._last = place
                return place
        raise PodNetworkError(f"all addresses of {POD_NETWORK} are in use")

    async def _connect(self, directory: Path, place: int) -> None:
        """Create a namespace, connect it to the bridge and record its address; clean up after a failure."""
        namespace = directory / NAMESPACE
        try:
            await asyncio.to_thread(directory.mkdir, mode=0o755, parents=True, exist_ok=True)
            await self._threads.run(self.node.network, partial(remove_namespace, namespace))  # of a crash
            await self._threads.run(self.node.network, partial(create_namespace, namespace))
            await self._threads.run(self.node.network, partial(_add_link, place, namespace))
            await self._threads.run(namespace, partial(_configure_pod, place, self.has_egress))
            await asyncio.to_thread((directory / ADDRESS).write_text, str(place))
        except BaseException:
            await self._disconnect(directory, place)
            raise

    async def _disconnect(self, directory: Path, place: int) -> None:
        with suppress(IpCommandFailed):  # the link may have ended with the namespace of the pod
            await self._threads.run(self.node.network, partial(ip, f"link del {_link(place)}"))
        await asyncio.to_thread(remove_namespace, directory / NAMESPACE)
        self._used.discard(place)


def _prepare_node(used: frozenset[int]) -> None:
    """Create the bridge if it does not exist, and delete links of pods that have no record."""
    links = {name for _, name in if_nameindex()}
    kept = {BRIDGE, *map(_link, used)}
    for name in sorted(links - kept):
        if name.startswith(LINK_PREFIX):
            with suppress(IpCommandFailed):  # it may end by itself meanwhile
                ip(f"link del {name}")
    if BRIDGE not in links:
        ip(
            "link set lo up",
            # With an address of its own: else it is that of a port and changes with the pods, which then send
            # to the old one for half a minute.
            f"link add {BRIDGE} address {BRIDGE_ADDRESS} type bridge",
            f"addr add {NODE_ADDRESS}/{POD_NETWORK.prefixlen} dev {BRIDGE}",
            f"link set {BRIDGE} up",
            # Each address of a service is an address of the node, on which it may listen.
            f"route add local {SERVICE_NETWORK} dev lo",
        )


def _link(place: int) -> str:
    return f"{LINK_PREFIX}{place}"


def _add_link(place: int, namespace: Path) -> None:
    peer = f'peer name eth0 netns "{namespace}"'
    ip(f"link add {_link(place)} master {BRIDGE} up type veth {peer}")


def _configure_pod(place: int, has_egress: bool) -> None:
    ip(
        "link set lo up",
        f"addr add {POD_NETWORK[place]}/{POD_NETWORK.prefixlen} dev eth0",
        "link set eth0 up",
        # Without a way out connections fail at once instead of after minutes.
        f"route add default via {EGRESS_ADDRESS}" if has_egress else "route add unreachable default",
        f"route add {SERVICE_NETWORK} via {NODE_ADDRESS}",
    )


def _is_of_cluster(host: str) -> bool:
    try:
        address = ipaddress.IPv4Address(host)
    except ValueError:  # a name, or IPv6
        return False
    return address in POD_NETWORK or address in ipaddress.IPv4Network(SERVICE_NETWORK)


def _shares_host(directory: Path) -> bool:
    """Return True if the files of a pod are here and no network of its own."""
    return directory.is_dir() and not (directory / NAMESPACE).exists()


def _recorded_place(directory: Path) -> int | None:
    """Return the place of the address of a pod with a whole network, else None."""
    try:
        place = int((directory / ADDRESS).read_text())
    except (OSError, ValueError):
        return None
    return place if is_namespace(directory / NAMESPACE) else None


def _take_over(state: Path) -> set[int]:
    """Return the places of the pods that have a network; delete what is left of other pods."""
    state.mkdir(mode=0o755, parents=True, exist_ok=True)
    places = set()
    for directory in state.iterdir():
        place = _recorded_place(directory)
        if place is not None:
            places.add(place)
        elif (directory / NAMESPACE).exists():
            remove_namespace(directory / NAMESPACE)
            shutil.rmtree(directory, ignore_errors=True)
    return places


def _host_ports(pod: Pod) -> dict[int, int]:
    """Return the TCP ports of a pod by port of the host."""
    return {
        port.host_port: port.container_port
        for container in (*pod.spec.init_containers, *pod.spec.containers)
        for port in container.ports
        if port.host_port and port.protocol == "TCP"
    }
