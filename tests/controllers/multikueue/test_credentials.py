"""Which credentials of a worker cluster are accepted; the messages are Kueue's."""

import subprocess
import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from quorate.api.configuration.multikueue import AccessPlugin
from quorate.api.kueue.multikueue import AccessProvider, ClusterProfile, ClusterProfileStatus
from quorate.api.meta import ObjectMeta
from quorate.controllers.multikueue.connection.credentials import (
    MAX_KUBECONFIG_BYTES,
    Unusable,
    kubeconfig_context,
    profile_context,
    read_kubeconfig_file,
)
from quorate.kube.rest.kubeconfig import KubeconfigContext

TOKEN = {"token": "abc"}
MERGES = b"a: &a {k: v}\n" + b"".join(
    f"{name}: &{name} {{<<: [{', '.join(8 * ['*' + former])}]}}\n".encode()
    for former, name in pairwise("abcdefghijklm")
)
NESTED_ALIASES = b"a0: &a0 [x, x]\n" + b"".join(
    f"a{level}: &a{level} [*a{level - 1}, *a{level - 1}]\n".encode() for level in range(1, 50)
)
SERVER = {"server": "https://10.10.10.10:6443"}


def kubeconfig(
    user: Mapping[str, Any] = TOKEN, cluster: Mapping[str, Any] = SERVER, context: str = "main", **more: Any
) -> bytes:
    document = {
        "current-context": context,
        "contexts": [{"name": "main", "context": {"cluster": "here", "user": "me"}}],
        "clusters": [{"name": "here", "cluster": dict(cluster)}],
        "users": [{"name": "me", "user": dict(user)}],
        **more,
    }
    return yaml.safe_dump(document).encode()


def problem(content: bytes) -> str:
    loaded = kubeconfig_context(content, allow_insecure=False)
    if isinstance(loaded, KubeconfigContext):
        return ""
    assert loaded.reason == "InsecureKubeConfig"
    return loaded.problem


@pytest.mark.parametrize(
    ("content", "want"),
    [
        pytest.param(kubeconfig(), "", id="a token and an address"),
        pytest.param(kubeconfig(cluster={"server": "https://Worker.Example.com"}), "", id="a host name"),
        pytest.param(kubeconfig(cluster={"server": "https://[::1]:6443"}), "", id="an IPv6 address"),
        pytest.param(kubeconfig({"tokenFile": "/f"}), "tokenFile is not allowed", id="a token file"),
        pytest.param(
            kubeconfig({"client-certificate": "/dev/zero"}),
            "client-certificate file paths are not allowed, use client-certificate-data",
            id="a file that never ends",
        ),
        pytest.param(
            kubeconfig(cluster={**SERVER, "insecure-skip-tls-verify": True}),
            "insecure TLS verification is not allowed for cluster here",
            id="certificates are not verified",
        ),
        pytest.param(
            kubeconfig(cluster={**SERVER, "certificate-authority": "/some/path"}),
            "certificate-authority file paths are not allowed, use certificate-authority-data "
            "for cluster here",
            id="a file of authorities",
        ),
        pytest.param(kubeconfig(cluster={}), "server URL is required for cluster here", id="no server"),
        pytest.param(
            kubeconfig(users=[{"name": "me", "user": TOKEN}, {"name": "x", "user": {"tokenFile": "/f"}}]),
            "tokenFile is not allowed",
            id="a user of no context",
        ),
        pytest.param(
            kubeconfig({"username": "a", "password": "b"}), "basic auth is not allowed", id="a password"
        ),
        pytest.param(
            kubeconfig(cluster={"server": "https://me:secret@10.0.0.1"}),
            "untrusted server endpoint",
            id="a password in the address",
        ),
        pytest.param(kubeconfig(cluster={"server": "10.0.0.1:1"}), "untrusted server endpoint", id="a host"),
        pytest.param(kubeconfig(cluster={"server": "https://[1"}), "untrusted server endpoint", id="no URL"),
        pytest.param(
            kubeconfig({"exec": {"command": "sh", "apiVersion": "v1"}}),
            "exec plugins are not allowed",
            id="a program",
        ),
        pytest.param(
            kubeconfig({"auth-provider": {"name": "gcp"}}), "auth providers are not allowed", id="a provider"
        ),
        pytest.param(
            kubeconfig(context="other"),
            "failed to parse kubeconfig(apiconfig): /kubeconfig: contexts: there is no context 'other' "
            "(there are: main)",
            id="a context that does not exist",
        ),
        pytest.param(
            b"[" * 100_000,
            "failed to parse kubeconfig(apiconfig): /kubeconfig: is nested more than 64 levels deep",
            id="nested too deeply",
        ),
        pytest.param(
            b"a: !!timestamp x",
            "failed to parse kubeconfig(apiconfig): /kubeconfig: is not YAML: AttributeError",
            id="what the YAML library cannot read",
        ),
        pytest.param(
            MERGES,
            "failed to parse kubeconfig(apiconfig): /kubeconfig: has an alias, *a: write its value instead",
            id="merge keys that would take years",
        ),
        pytest.param(
            NESTED_ALIASES,
            "failed to parse kubeconfig(apiconfig): /kubeconfig: has an alias, *a0: write its value instead",
            id="aliases that take years to compare",
        ),
    ],
)  # fmt: skip
def test_rules_for_kubeconfigs(content: bytes, want: str) -> None:
    assert problem(content) == want


def test_the_gate_for_insecure_kubeconfigs_skips_the_rules() -> None:
    loaded = kubeconfig_context(kubeconfig({"tokenFile": "/token"}), allow_insecure=True)
    assert isinstance(loaded, KubeconfigContext)
    assert loaded.user.token_file == "/token"


def test_no_text_shows_a_token() -> None:
    loaded = kubeconfig_context(kubeconfig({"token": "s3cr3t"}), allow_insecure=False)
    assert "s3cr3t" not in repr(loaded)


PLUGIN = AccessPlugin(
    name="cloud",
    exec={
        "command": "get-token",
        "apiVersion": "client.authentication.k8s.io/v1",
        "interactiveMode": "Always",
    },
)


def profile(
    access: tuple[AccessProvider, ...] = (), credential: tuple[AccessProvider, ...] = ()
) -> ClusterProfile:
    status = ClusterProfileStatus(access_providers=access, credential_providers=credential)
    return ClusterProfile(metadata=ObjectMeta(name="worker"), status=status)


def provider(name: str, server: Any = "https://10.0.0.1", **cluster: Any) -> AccessProvider:
    return AccessProvider(name=name, cluster={"server": server, **cluster})


def test_the_first_plugin_that_a_profile_supports_is_used() -> None:
    other = AccessPlugin(name="other", exec=PLUGIN.exec)
    both = profile((provider("cloud", "https://new"),), (provider("cloud", "https://old"),))
    loaded = profile_context(both, [other, PLUGIN])
    assert isinstance(loaded, KubeconfigContext)
    assert loaded.cluster.server == "https://new"  # accessProviders come before credentialProviders
    assert loaded.user.exec is not None
    assert (loaded.user.exec.command, loaded.user.exec.interactive_mode) == ("get-token", "Never")


def test_a_profile_cannot_switch_off_the_verification_of_certificates() -> None:
    insecure = {"server": "https://10.0.0.1", "insecure-skip-tls-verify": True}
    loaded = profile_context(profile((AccessProvider(name="cloud", cluster=insecure),)), [PLUGIN])
    assert isinstance(loaded, KubeconfigContext)
    assert not loaded.cluster.insecure_skip_tls_verify


@pytest.mark.parametrize(
    ("providers", "plugins", "want"),
    [
        pytest.param((provider("cloud"),), [], Unusable("BadClusterProfile", "no access provider configured"),
                     id="no plugin is configured"),
        pytest.param((provider("x"),), [PLUGIN],
                     Unusable("BadClusterProfile",
                              'no matching cluster accessor found for cluster profile "worker"'),
                     id="a provider without a plugin"),
        pytest.param((provider("cloud", "nowhere"),), [PLUGIN],
                     Unusable("BadRestConfig", "untrusted server endpoint"), id="no server"),
        pytest.param((provider("cloud", 1),), [PLUGIN],
                     Unusable("BadClusterProfile",
                              "access provider cloud: Expected `str`, got `int` - at `$.server`"),
                     id="a field of another type"),
    ],
)  # fmt: skip
def test_profiles_that_cannot_be_used(
    providers: tuple[AccessProvider, ...], plugins: list[AccessPlugin], want: Unusable
) -> None:
    assert profile_context(profile(providers), plugins) == want


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    allowed = tmp_path / "kubeconfigs"
    allowed.mkdir()
    (allowed / "worker").write_text("inside")
    (tmp_path / "kubeconfigs-other").write_text("beside")
    (tmp_path / "outside").write_text("outside")
    (allowed / "link-in").symlink_to(allowed / "worker")
    (allowed / "link-out").symlink_to(tmp_path / "outside")
    (allowed / "loop").symlink_to(allowed / "loop")
    (allowed / "large").write_bytes(b"a" * (MAX_KUBECONFIG_BYTES + 1))
    return allowed


REFUSED = "kubeconfig path is not under the allowed prefix: "


@pytest.mark.parametrize(
    ("location", "want"),
    [
        ("{folder}/worker", b"inside"),
        ("{folder}/link-in", b"inside"),
        ("{folder}/../kubeconfigs/worker", b"inside"),
        ("{folder}/link-out", REFUSED + '"{parent}/outside" is not under "{folder}"'),
        ("{folder}/../outside", REFUSED + '"{parent}/outside" is not under "{folder}"'),
        ("{parent}/kubeconfigs-other", REFUSED + '"{parent}/kubeconfigs-other" is not under "{folder}"'),
        ("../worker", REFUSED + 'path contains ".."'),
        ("worker", REFUSED + "path must be absolute"),
        ("", "kubeconfig path must not be empty"),
        ("{folder}/none",
         "cannot resolve kubeconfig path symlinks: lstat {folder}/none: no such file or directory"),
        ("{folder}", "read {folder}: is not a regular file"),
        ("{folder}/large", "read {folder}/large: is larger than 1048576 bytes"),
    ],
)  # fmt: skip
def test_paths_of_kubeconfigs(folder: Path, location: str, want: str | bytes) -> None:
    names = {"folder": folder, "parent": folder.parent}
    got = read_kubeconfig_file(location.format(**names), validate=True, folder=folder)
    if isinstance(want, str):
        assert got == Unusable("BadKubeConfig", want.format(**names))
    else:
        assert got == want


def test_a_loop_of_links_is_refused(folder: Path) -> None:
    got = read_kubeconfig_file(f"{folder}/loop", validate=True, folder=folder)
    assert isinstance(got, Unusable)
    assert got.problem.startswith("cannot resolve kubeconfig path symlinks: ")


def test_without_the_folder_no_path_is_allowed(tmp_path: Path) -> None:
    got = read_kubeconfig_file("/etc/passwd", validate=True, folder=tmp_path / "none")
    assert got == Unusable("BadKubeConfig", f'{REFUSED}"/etc/passwd" is not under "{tmp_path / "none"}"')


def test_without_validation_every_regular_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "worker").write_text("anywhere")
    assert read_kubeconfig_file(str(tmp_path / "worker"), validate=False) == b"anywhere"
    missing = read_kubeconfig_file("/none", validate=False)
    assert missing == Unusable("BadKubeConfig", "open /none: no such file or directory")
    endless = read_kubeconfig_file("/dev/zero", validate=False)
    assert endless == Unusable("BadKubeConfig", "read /dev/zero: is not a regular file")


THREADS = """
import sys, threading
from pathlib import Path
from quorate.kube.rest.kubeconfig import parse_kubeconfig
sys.setswitchinterval(1e-6)
begin = threading.Barrier(8)
def parse():
    begin.wait()
    parse_kubeconfig(b"clusters: [{name: a, cluster: {server: 'https://a'}}]", Path("a"))
threads = [threading.Thread(target=parse) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


@pytest.mark.slow
def test_the_first_kubeconfigs_of_a_process_may_be_parsed_in_several_threads() -> None:
    """A type that msgspec uses first in several threads at once crashed every third process."""
    runs = [subprocess.Popen([sys.executable, "-c", THREADS]) for _ in range(8)]
    assert [run.wait(timeout=60) for run in runs] == [0] * 8
