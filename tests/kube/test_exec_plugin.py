"""Credentials of exec plugins, which are real programs."""

import asyncio
import base64
import json
import random
import ssl
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from quorate.api.meta import Key
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.resources import PODS
from quorate.kube.rest.config import load_rest_config
from quorate.kube.rest.credentials import Credentials
from quorate.kube.rest.kubeconfig import InvalidKubeconfig
from quorate.kube.serving import certificates
from quorate.local.certificates import new_authority
from tests.kube.fake_server import Answer, FakeServer, pod
from tests.kube.test_config import SECRET, SERVER, certificate_server, load, shown_certificate, write

V1, V1BETA1 = (f"client.authentication.k8s.io/{version}" for version in ("v1", "v1beta1"))


def credential(version: str = V1, **status: str) -> str:
    return json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})


def write_plugin(directory: Path, output: str, version: str = V1, **fields: Any) -> Path:
    """Return a kubeconfig with a plugin that records its runs and prints ``output``.

    ``@`` in the output is the number of the run.
    """
    (directory / "output").write_text(output, encoding="latin-1")
    program = directory / "program"
    program.write_text(
        textwrap.dedent(f"""\
        #!/bin/sh
        echo "$KUBERNETES_EXEC_INFO" > {directory}/info
        echo "$GREETING $*" > {directory}/arguments
        echo x >> {directory}/runs
        n=$(wc -l < {directory}/runs)
        LC_ALL=C sed "s/@/$((n))/" {directory}/output
        """)
    )
    program.chmod(0o755)
    mode = {"interactiveMode": "Never"} if version == V1 else {}
    plugin = {"apiVersion": version, "command": "./program", **mode, **fields}
    return write(directory / "config", f"exec: {json.dumps(plugin)}")


@pytest.mark.parametrize("version", [V1, V1BETA1])
def test_a_plugin_receives_its_request_variables_and_arguments(tmp_path: Path, version: str) -> None:
    path = write_plugin(
        tmp_path, credential(version, token=SECRET), version,
        args=["one", "two"], env=[{"name": "GREETING", "value": "hello"}],
    )  # fmt: skip
    cluster = load(path)
    assert cluster.credentials.authorization() == f"Bearer {SECRET}"
    assert SECRET not in repr(cluster.credentials)
    assert (tmp_path / "arguments").read_text() == "hello one two\n"
    request = {"kind": "ExecCredential", "apiVersion": version, "spec": {"interactive": False}}
    assert json.loads((tmp_path / "info").read_text()) == request


def test_a_plugin_receives_the_cluster_if_it_asks_for_it(tmp_path: Path) -> None:
    authority = base64.b64encode(new_authority(WallClock().now()).certificate).decode()
    fields = f"{SERVER}, tls-server-name: api, certificate-authority-data: {authority}"
    fields += ", insecure-skip-tls-verify: true, disable-compression: true"
    extension = "extensions: [{name: client.authentication.k8s.io/exec, extension: {audience: research}}]"
    path = write_plugin(tmp_path, credential(token=SECRET), args=None, env=None, provideClusterInfo=True)
    path.write_text(path.read_text().replace(SERVER, f"{fields}, {extension}"))
    load(path)
    assert json.loads((tmp_path / "info").read_text())["spec"]["cluster"] == {
        "server": "https://127.0.0.1:6443/",
        "tls-server-name": "api",
        "insecure-skip-tls-verify": True,
        "disable-compression": True,
        "certificate-authority-data": authority,
        "config": {"audience": "research"},
    }


@pytest.mark.parametrize(
    ("expiration", "tokens"),
    [
        pytest.param("2020-01-01T00:00:00Z", [2, 3, 4], id="expired before each request"),
        pytest.param("2120-01-01T00:00:00Z", [1, 1, 1], id="valid"),
    ],
)
def test_expired_credentials_are_replaced_before_a_request(
    tmp_path: Path, expiration: str, tokens: list[int]
) -> None:
    path = write_plugin(tmp_path, credential(token="token-@", expirationTimestamp=expiration))

    async def story() -> list[str]:
        async with FakeServer(lambda request: Answer(200, pod("a", 1))) as server:
            path.write_text(path.read_text().replace("https://127.0.0.1:6443/", server.url))
            async with Client(await load_rest_config(path), random.Random(7)) as client:
                for _ in tokens:
                    await client.get(PODS, Key("default", "a"))
            return [request.headers["Authorization"] for request in server.requests]

    assert asyncio.run(story()) == [f"Bearer token-{number}" for number in tokens]


def test_the_client_certificate_of_a_plugin_is_used_until_it_prints_another(tmp_path: Path) -> None:
    now = WallClock().now()
    authority = certificates.new_authority("test", now)
    server = certificate_server(authority, now)

    def print_certificate(name: str) -> None:
        pair = certificates.new_client_certificate(authority, name, now)
        status = {"clientCertificateData": pair.certificate.decode(), "clientKeyData": pair.key.decode()}
        write_plugin(tmp_path, credential(**status))

    def user_of(credentials: Credentials) -> str:
        assert credentials.tls is not None
        credentials.tls.check_hostname, credentials.tls.verify_mode = False, ssl.CERT_NONE
        return str(shown_certificate(credentials.tls, server))

    async def story() -> None:
        print_certificate("first")
        credentials = (await load_rest_config(tmp_path / "config")).credentials
        assert credentials.authorization() == ""
        assert "'first'" in user_of(credentials)
        print_certificate("second")
        assert await credentials.refresh("")
        assert "'second'" in user_of(credentials)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("output", "fields", "problem"),
    [
        pytest.param("not JSON", {}, "printed no ExecCredential", id="no JSON"),
        pytest.param('{"kind": "\xff"}', {}, "printed no ExecCredential", id="no text"),
        pytest.param("[]", {}, "printed no ExecCredential", id="a list"),
        pytest.param("{}", {}, "no ExecCredential of client.authentication.k8s.io/v1", id="no kind"),
        pytest.param(credential(V1BETA1, token="t"), {}, "k8s.io/v1 with a status", id="another version"),
        pytest.param(credential(), {}, "neither a token nor a certificate", id="no credentials"),
        pytest.param(credential(token="t", clientKeyData="k"), {}, "with its key", id="a key alone"),
        pytest.param(credential(clientKeyData="k", clientCertificateData="c"), {}, "certif", id="no PEM"),
        pytest.param(credential(token="t", expirationTimestamp="soon"), {}, "RFC3339", id="no time"),
        pytest.param("", {"interactiveMode": "Sometimes"}, "interactiveMode", id="unknown mode"),
        pytest.param("", {"interactiveMode": "Always"}, "not a terminal", id="no terminal"),
        pytest.param("", {"interactiveMode": ""}, "interactiveMode", id="version 1 requires a mode"),
        pytest.param("", {"apiVersion": f"{V1}alpha1"}, "apiVersion", id="unknown version"),
        pytest.param("", {"command": ""}, "needs a command", id="no command"),
        pytest.param("", {"command": "false"}, "exit code 1", id="failure"),
        pytest.param("", {"command": "./none", "installHint": "install it"}, "install it", id="a hint"),
        pytest.param("", {"args": ["\0"]}, "null byte", id="an impossible argument"),
    ],
)
def test_a_plugin_that_yields_no_credentials_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, fields: dict[str, Any], problem: str
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    path = write_plugin(tmp_path, output, **fields)
    with pytest.raises(InvalidKubeconfig, match=problem):
        load(path)


def test_an_auth_provider_is_refused_with_its_replacement(tmp_path: Path) -> None:
    with pytest.raises(InvalidKubeconfig, match="use an exec plugin"):
        load(write(tmp_path / "config", "auth-provider: {name: oidc}"))


def test_a_plugin_runs_again_once_when_its_token_is_refused(tmp_path: Path) -> None:
    path = write_plugin(tmp_path, credential(token="token-@"))

    async def story() -> None:
        credentials = (await load_rest_config(path)).credentials
        assert credentials.authorization() == "Bearer token-1"
        refreshed = await asyncio.gather(*(credentials.refresh("Bearer token-1") for _ in range(5)))
        assert refreshed == [True] * 5
        assert credentials.authorization() == "Bearer token-2"
        (tmp_path / "program").write_text("#!/bin/sh\nexit 1\n")
        assert not await credentials.refresh("Bearer token-2")
        assert "token" not in repr(credentials)

    asyncio.run(story())
