"""REST configurations from kubeconfig files, plugins and service accounts."""

import asyncio
import base64
import random
import ssl
import textwrap
from pathlib import Path

import pytest

from quorate.api.meta import Key
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.errors import Unreachable
from quorate.kube.resources import PODS
from quorate.kube.rest.config import (
    OVERRIDES,
    Overrides,
    RestConfig,
    in_cluster_config,
    load_anonymous_config,
    load_rest_config,
)
from quorate.kube.rest.credentials import Token, TokenFile
from quorate.kube.rest.kubeconfig import InvalidKubeconfig
from quorate.kube.serving import certificates
from quorate.kube.serving.tls import KeyPair, load_certificate
from quorate.local.certificates import new_authority, new_server_certificate
from tests.kube.fake_server import Answer, FakeServer, pod

SECRET = "s3cr3t-t0ken"
SERVER = "server: https://127.0.0.1:6443/"


def write(path: Path, user: str, cluster: str = SERVER) -> Path:
    path.write_text(
        textwrap.dedent("""\
        apiVersion: v1
        kind: Config
        current-context: main
        contexts:
        - name: main
          context: {{cluster: here, user: me, namespace: research}}
        - name: stray
          context: {{cluster: there, user: me}}
        clusters:
        - name: here
          cluster: {{{cluster}}}
        users:
        - name: me
          user: {{{user}}}
        """).format(cluster=cluster, user=user)
    )
    return path


def load(path: Path, context: str = "") -> RestConfig:
    return asyncio.run(load_rest_config(path, context))


@pytest.mark.parametrize(
    ("user", "header"),
    [
        pytest.param(f"token: {SECRET}", f"Bearer {SECRET}", id="a token"),
        pytest.param("tokenFile: token.txt", f"Bearer {SECRET}", id="a token file next to the kubeconfig"),
        pytest.param("username: me, password: pw", "Basic bWU6cHc=", id="a password"),
        pytest.param("", "", id="no credentials"),
    ],
)
def test_the_user_determines_the_authorization_header(tmp_path: Path, user: str, header: str) -> None:
    (tmp_path / "token.txt").write_text(f"{SECRET}\n")
    cluster = load(write(tmp_path / "config", user))
    assert cluster.credentials.authorization() == header
    assert (cluster.server, cluster.namespace) == ("https://127.0.0.1:6443", "research")
    assert SECRET not in repr(cluster)


def test_plain_http_has_no_tls(tmp_path: Path) -> None:
    assert load(write(tmp_path / "config", "", "server: 'http://127.0.0.1:8001'")).tls is None


def test_certificates_are_read_inline_or_from_relative_files(tmp_path: Path) -> None:
    pair = new_authority(WallClock().now())
    (tmp_path / "ca.pem").write_bytes(pair.certificate)
    (tmp_path / "key.pem").write_bytes(pair.key)
    data = base64.b64encode(pair.certificate).decode()
    path = write(
        tmp_path / "config",
        f"client-certificate-data: {data}, client-key: key.pem",
        "server: 'https://127.0.0.1:1', certificate-authority: ca.pem, tls-server-name: api.local",
    )
    cluster = load(path)
    assert cluster.tls is not None
    assert [authority["subject"] for authority in cluster.tls.get_ca_certs()] == [
        ((("commonName", "quorate-local-ca"),),)
    ]
    assert cluster.tls_server_name == "api.local"


def shown_certificate(client: ssl.SSLContext, server: ssl.SSLContext) -> object:
    """Return the certificate that a client shows to a server, after a handshake in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client.check_hostname = False
    one = client.wrap_bio(to_client, to_server)
    other = server.wrap_bio(to_server, to_client, server_side=True)
    for each in (one, other, one, other, one):
        try:
            each.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return other.getpeercert()


def certificate_server(authority: KeyPair, now: float) -> ssl.SSLContext:
    """Return the TLS context of a server that asks for certificates of ``authority``."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.maximum_version = ssl.TLSVersion.TLSv1_2  # its handshake ends with the certificates
    load_certificate(server, certificates.new_server_certificate(authority, "server", ["127.0.0.1"], now))
    server.load_verify_locations(cadata=authority.certificate.decode())
    server.verify_mode = ssl.CERT_OPTIONAL
    return server


def test_the_configuration_without_credentials_has_no_client_certificate(tmp_path: Path) -> None:
    now = WallClock().now()
    authority = certificates.new_authority("test", now)
    client_pair = certificates.new_client_certificate(authority, "administrator", now)
    server = certificate_server(authority, now)
    fields = {
        "client-certificate-data": client_pair.certificate,
        "client-key-data": client_pair.key,
        "certificate-authority-data": authority.certificate,
    }
    data = {name: base64.b64encode(content).decode() for name, content in fields.items()}
    user = ", ".join(f"{name}: {data[name]}" for name in ("client-certificate-data", "client-key-data"))
    path = write(
        tmp_path / "config",
        f"{user}, token: {SECRET}",
        f"server: 'https://127.0.0.1:1', certificate-authority-data: {data['certificate-authority-data']}",
    )
    own, anonymous = load(path), load_anonymous_config(path)
    assert own.tls is not None
    assert anonymous.tls is not None
    assert shown_certificate(own.tls, server)
    assert shown_certificate(anonymous.tls, server) is None
    assert anonymous.credentials.authorization() == ""
    assert (anonymous.server, anonymous.namespace) == (own.server, own.namespace)


def test_verification_is_skipped_on_request_only(tmp_path: Path) -> None:
    insecure = load(
        write(tmp_path / "config", "", "server: 'https://127.0.0.1:1', insecure-skip-tls-verify: true")
    )
    secure = load(write(tmp_path / "config", ""))
    assert insecure.tls is not None
    assert secure.tls is not None
    assert (insecure.tls.verify_mode, secure.tls.verify_mode) == (ssl.CERT_NONE, ssl.CERT_REQUIRED)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a: [", r":2: is not YAML: ", id="not YAML"),
        pytest.param("just text", "expected a mapping with clusters, users and contexts", id="not a mapping"),
        pytest.param(
            "{current-context: x, contexts: [{name: y, context: {}}]}",
            r"contexts: there is no context 'x' \(there are: y\)",
            id="an unknown context",
        ),
        pytest.param(
            "contexts: 5",
            r"Expected `array`, got `int` - at `\$.contexts`",
            id="a section that is not a list",
        ),
    ],
)
def test_a_file_that_is_not_a_kubeconfig_is_rejected(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(InvalidKubeconfig, match=message):
        load(tmp_path / "config")


@pytest.mark.parametrize(
    ("user", "cluster", "message"),
    [
        pytest.param("", "server: 127.0.0.1", "is no http:// or https:// URL", id="no URL"),
        pytest.param("", "server: 'https://x:99999'", "is no http:// or https:// URL", id="no port"),
        pytest.param(
            "", "server: 'https://x', proxy-url: 'http://y:z'", "proxy-url", id="no port of a proxy"
        ),
        pytest.param(
            "", "server: 'https://x', certificate-authority-data: '%%'", "is not base64", id="base64"
        ),
        pytest.param("", "server: 'https://x', certificate-authority: no.pem", "No such file", id="missing"),
        pytest.param("client-certificate-data: QQ==", "server: 'https://x'", "no client-key", id="no key"),
        pytest.param("tokenFile: no.txt", "server: 'https://x'", "No such file", id="missing token"),
    ],
)
def test_unusable_fields_are_rejected(tmp_path: Path, user: str, cluster: str, message: str) -> None:
    with pytest.raises(InvalidKubeconfig, match=message):
        load(write(tmp_path / "config", user, cluster))


def test_a_context_with_an_unknown_cluster_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidKubeconfig, match=r"no cluster 'there' \(there are: here\)"):
        load(write(tmp_path / "config", ""), context="stray")


def test_a_context_is_that_of_the_first_existing_file_of_the_environment_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "config", f"token: {SECRET}")
    other = write(tmp_path / "other", "token: other")
    other.write_text(other.read_text().replace("main", "second").replace("stray", "third"))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'none'}:{path}:{other}")
    assert asyncio.run(load_rest_config()).credentials.authorization() == f"Bearer {SECRET}"
    assert asyncio.run(load_rest_config(None, "second")).credentials.authorization() == "Bearer other"
    with pytest.raises(InvalidKubeconfig, match=r"no context 'x' \(there are: main, stray, second, third\)"):
        asyncio.run(load_rest_config(None, "x"))


def test_overrides_come_before_the_kubeconfig(tmp_path: Path) -> None:
    path = write(tmp_path / "config", "username: me, password: pw")

    async def load_overridden(overrides: Overrides) -> RestConfig:
        OVERRIDES.set(overrides)
        return await load_rest_config(path)

    overridden = asyncio.run(load_overridden(Overrides("https://[::1]:1", SECRET, "alice", ("a", "b"))))
    assert (overridden.server, overridden.credentials) == ("https://[::1]:1", Token(SECRET))
    assert overridden.impersonated == (
        ("Impersonate-User", "alice"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b"),
    )  # fmt: skip
    assert load(path).impersonated == ()


def test_a_server_needs_no_kubeconfig_and_gets_no_token_of_a_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")

    async def load_overridden(overrides: Overrides) -> RestConfig:
        OVERRIDES.set(overrides)
        return await load_rest_config()

    config = asyncio.run(load_overridden(Overrides("https://there", SECRET)))
    assert (config.server, config.credentials) == ("https://there", Token(SECRET))
    assert (config.namespace, config.tls is None) == ("default", False)
    anonymous = asyncio.run(load_overridden(Overrides("http://there:8001")))
    assert anonymous.credentials.authorization() == ""
    with pytest.raises(InvalidKubeconfig, match=r"^--server: 'there' is no http:// or https:// URL"):
        asyncio.run(load_overridden(Overrides("there")))


def test_a_token_replaces_that_of_a_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_cluster = RestConfig("https://[fd00::1]:443", credentials=Token("of the pod"))
    monkeypatch.setattr("quorate.kube.rest.config.in_cluster_config", lambda: in_cluster)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")

    async def load_overridden() -> RestConfig:
        OVERRIDES.set(Overrides(token=SECRET))
        return await load_rest_config()

    assert asyncio.run(load_overridden()).credentials == Token(SECRET)


def test_without_any_configuration_the_error_names_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(InvalidKubeconfig, match="name one with --kubeconfig"):
        asyncio.run(load_rest_config())


def test_a_pod_uses_its_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ca.crt").write_bytes(new_authority(WallClock().now()).certificate)
    (tmp_path / "token").write_text(SECRET)
    (tmp_path / "namespace").write_text("quorate-system")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    cluster = in_cluster_config(tmp_path)
    assert (cluster.server, cluster.namespace) == ("https://[fd00::1]:443", "quorate-system")
    assert cluster.credentials.authorization() == f"Bearer {SECRET}"


def test_a_changed_token_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    credentials = TokenFile(path)
    assert not asyncio.run(credentials.refresh("Bearer one"))
    (tmp_path / "next").write_text("two")
    (tmp_path / "next").rename(path)
    assert credentials.authorization() == "Bearer two"
    assert asyncio.run(credentials.refresh("Bearer one"))


@pytest.mark.slow
def test_a_server_is_trusted_if_the_authority_of_the_kubeconfig_signed_its_certificate(
    tmp_path: Path,
) -> None:
    authority, unknown_authority = (new_authority(WallClock().now()) for _ in range(2))
    pair = new_server_certificate(authority, WallClock().now())
    (tmp_path / "pair.pem").write_bytes(pair.certificate + pair.key)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(tmp_path / "pair.pem")

    async def story() -> None:
        async with FakeServer(lambda request: Answer(200, pod("a", 1)), serving) as server:
            for configured in (authority, unknown_authority):
                data = base64.b64encode(configured.certificate).decode()
                fields = f"server: '{server.url}', certificate-authority-data: {data}"
                cluster = await load_rest_config(write(tmp_path / "config", f"token: {SECRET}", fields))
                async with Client(cluster, random.Random(7)) as client:
                    if configured is authority:
                        assert (await client.get(PODS, Key("default", "a"))).metadata.name == "a"
                    else:
                        with pytest.raises(Unreachable, match="certificate-authority belong to this server"):
                            await client.get(PODS, Key("default", "a"))
            (request,) = server.requests
            assert request.headers["Authorization"] == f"Bearer {SECRET}"

    asyncio.run(story())
