"""hosts and resolv.conf of a pod are those that a kubelet writes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.meta import Uid
from quorate.local.runtime.network.pod_files import (
    ResolverConfiguration,
    hosts_text,
    parse_resolv_conf,
    resolver_configuration,
)
from quorate.local.runtime.pod_types import Pod, PodMeta, PodSpec

SERVER = "10.244.0.1"
HOST = ResolverConfiguration(("192.0.2.1",), ("example.org",), ("edns0",))
CLUSTER_SEARCH = "search team.svc.cluster.local svc.cluster.local cluster.local example.org\n"


def a_pod(name: str = "worker-0-x7f2p", **fields: Any) -> Pod:
    return Pod(metadata=PodMeta(uid=Uid("uid"), namespace="team", name=name), spec=PodSpec(**fields))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, f"{CLUSTER_SEARCH}nameserver 10.244.0.1\noptions ndots:5\n"),
        ({"dns_policy": "Default"}, "search example.org\nnameserver 192.0.2.1\noptions edns0\n"),
        ({"host_network": True}, "search example.org\nnameserver 192.0.2.1\noptions edns0\n"),
        (
            {"host_network": True, "dns_policy": "ClusterFirstWithHostNet"},
            f"{CLUSTER_SEARCH}nameserver 10.244.0.1\noptions ndots:5\n",
        ),
        (
            {
                "dns_policy": "None",
                "dns_config": {
                    "nameservers": ["192.0.2.7"],
                    "searches": ["lab.example"],
                    "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
                },
            },
            "search lab.example\nnameserver 192.0.2.7\noptions ndots:2 edns0\n",
        ),
        (
            {"dns_config": {"options": [{"name": "ndots", "value": "1"}], "searches": ["svc.cluster.local"]}},
            f"{CLUSTER_SEARCH}nameserver 10.244.0.1\noptions ndots:1\n",
        ),
    ],
)
def test_resolv_conf_follows_policy_and_configuration(fields: dict[str, Any], expected: str) -> None:
    assert resolver_configuration(a_pod(**fields), SERVER, HOST).to_text() == expected


def test_without_a_server_of_the_cluster_the_host_resolves() -> None:
    assert resolver_configuration(a_pod(), "", HOST) == HOST


word = st.text("abcdefghij0123456789.-", min_size=1, max_size=12)


@given(
    st.lists(word, max_size=3).map(tuple),
    st.lists(word, max_size=6).map(tuple),
    st.lists(word, max_size=3).map(tuple),
)
def test_a_written_resolv_conf_reads_back(
    servers: tuple[str, ...], searches: tuple[str, ...], options: tuple[str, ...]
) -> None:
    written = ResolverConfiguration(servers, searches, options)
    assert parse_resolv_conf(written.to_text()) == written


def test_hosts_name_the_pod_and_its_aliases() -> None:
    aliases = [{"ip": "192.0.2.9", "hostnames": ["db", "db.lab"]}]
    text = hosts_text(a_pod(hostname="worker-0", subdomain="workers", host_aliases=aliases), "10.244.0.7", "")
    assert "127.0.0.1\tlocalhost\n" in text
    assert "10.244.0.7\tworker-0.workers.team.svc.cluster.local\tworker-0\n" in text
    assert text.endswith("# Entries added by HostAliases.\n192.0.2.9\tdb\tdb.lab\n")


def test_a_hostname_override_replaces_the_hostname_and_the_domain() -> None:
    text = hosts_text(a_pod(hostname="a", subdomain="b", hostname_override="db.lab"), "10.244.0.7", "")
    assert text.endswith("10.244.0.7\tdb.lab\n")


def test_hosts_of_a_pod_with_the_network_of_the_host_are_those_of_the_host() -> None:
    text = hosts_text(a_pod(host_network=True), "127.0.0.1", "127.0.0.1 localhost\n192.0.2.1 machine\n")
    assert text.endswith("127.0.0.1 localhost\n192.0.2.1 machine\n")


def test_the_hostname_is_the_name_of_the_pod_cut_to_63_characters() -> None:
    long = a_pod("a" * 62 + "-" + "b" * 10)
    assert hosts_text(long, "10.244.0.7", "").endswith(f"10.244.0.7\t{'a' * 62}\n")
