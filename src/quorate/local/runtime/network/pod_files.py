"""Contents of /etc/hosts and /etc/resolv.conf of a pod, as a kubelet writes them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quorate.local.runtime.pod_types import Pod

CLUSTER_DOMAIN: Final = "cluster.local"
HOSTS: Final = Path("/etc/hosts")
RESOLV_CONF: Final = Path("/etc/resolv.conf")
MAX_HOSTNAME_LENGTH: Final = 63
MAX_NAMESERVERS: Final = 3
CLUSTER_OPTIONS: Final = ("ndots:5",)
LOOPBACK_HOSTS: Final = (
    ("127.0.0.1", "localhost"),
    ("::1", "localhost ip6-localhost ip6-loopback"),
    ("fe00::0", "ip6-localnet"),
    ("fe00::0", "ip6-mcastprefix"),
    ("fe00::1", "ip6-allnodes"),
    ("fe00::2", "ip6-allrouters"),
)


@dataclass(frozen=True, slots=True)
class ResolverConfiguration:
    """The directives of a resolv.conf."""

    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def to_text(self) -> str:
        lines = [f"search {' '.join(self.searches)}"] if self.searches else []
        lines += [f"nameserver {address}" for address in self.nameservers]
        lines += [f"options {' '.join(self.options)}"] if self.options else []
        return "\n".join(lines) + "\n"


def parse_resolv_conf(text: str) -> ResolverConfiguration:
    """Read a resolv.conf; the last of several search lists counts, as for the C library."""
    nameservers: list[str] = []
    searches: tuple[str, ...] = ()
    options: list[str] = []
    for line in text.splitlines():
        match line.split():
            case ["nameserver", address, *_]:
                nameservers.append(address)
            case ["search" | "domain", *domains]:
                searches = tuple(domains)
            case ["options", *values]:
                options += values
    return ResolverConfiguration(tuple(nameservers), searches, tuple(options))


def resolver_configuration(
    pod: Pod, cluster_server: str, host: ResolverConfiguration
) -> ResolverConfiguration:
    """Return the resolv.conf of a pod by its dnsPolicy and dnsConfig.

    ``cluster_server``: the address of the cluster's DNS server; empty if it has none.
    """
    policy = pod.spec.dns_policy
    if not cluster_server or (policy == "ClusterFirst" and pod.spec.host_network):
        policy = policy if policy == "None" else "Default"
    match policy:
        case "None":
            base = ResolverConfiguration()
        case "Default":
            base = host
        case _:
            domains = (
                f"{pod.metadata.namespace}.svc.{CLUSTER_DOMAIN}",
                f"svc.{CLUSTER_DOMAIN}",
                CLUSTER_DOMAIN,
            )
            base = ResolverConfiguration(
                (cluster_server,), _distinct((*domains, *host.searches)), CLUSTER_OPTIONS
            )
    config = pod.spec.dns_config
    return ResolverConfiguration(
        _distinct((*base.nameservers, *config.get("nameservers", ())))[:MAX_NAMESERVERS],
        _distinct((*base.searches, *config.get("searches", ()))),
        _merged_options(base.options, config.get("options", ())),
    )


def _distinct(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _merged_options(base: Sequence[str], configured: Iterable[dict[str, str]]) -> tuple[str, ...]:
    """Return the options; a configured option replaces one of the same name."""
    options = {option.partition(":")[0]: option for option in base}
    for option in configured:
        name, value = option.get("name", ""), option.get("value") or ""
        options[name] = f"{name}:{value}" if value else name
    return tuple(options.values())


def pod_hostname(pod: Pod) -> str:
    """Return the hostname of a pod, cut as a kubelet cuts it."""
    name = pod.spec.hostname_override or pod.spec.hostname or pod.metadata.name
    return name[:MAX_HOSTNAME_LENGTH].rstrip("-.")


def hosts_text(pod: Pod, address: str, host_text: str) -> str:
    """Return the hosts file of a pod; with the network of the host it begins with the file of the host."""
    if pod.spec.host_network:
        lines = ["# Kubernetes-managed hosts file (host network).", *host_text.splitlines()]
    else:
        lines = ["# Kubernetes-managed hosts file.", *("\t".join(entry) for entry in LOOPBACK_HOSTS)]
        lines.append("\t".join((address, *_own_names(pod))))
    if pod.spec.host_aliases:
        lines += ["", "# Entries added by HostAliases."]
        lines += [
            "\t".join((alias.get("ip", ""), *alias.get("hostnames", ()))) for alias in pod.spec.host_aliases
        ]
    return "\n".join(lines) + "\n"


def _own_names(pod: Pod) -> Iterator[str]:
    hostname = pod_hostname(pod)
    if pod.spec.subdomain and not pod.spec.hostname_override:
        yield f"{hostname}.{pod.spec.subdomain}.{pod.metadata.namespace}.svc.{CLUSTER_DOMAIN}"
    yield hostname


def write_pod_files(directory: Path, pod: Pod, address: str, cluster_server: str) -> tuple[Path, Path]:
    """Write the hosts file and the resolv.conf of a pod; return their paths."""
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    hosts, resolv_conf = directory / "hosts", directory / "resolv.conf"
    hosts.write_text(hosts_text(pod, address, _read(HOSTS)))
    resolv_conf.write_text(resolver_configuration(pod, cluster_server, host_resolver()).to_text())
    return hosts, resolv_conf


def host_resolver() -> ResolverConfiguration:
    """Return the resolv.conf of the host."""
    return parse_resolv_conf(_read(RESOLV_CONF))


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # a machine without the file
        return ""
