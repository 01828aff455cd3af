"""``quorate dashboard``: serve the web page of a cluster."""

import asyncio
import ssl
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer
import uvloop

from quorate.api.configuration.process import Address
from quorate.api.syntax import InvalidDuration, parse_duration
from quorate.cli.configuration_options import Config
from quorate.cli.process_options import Kubeconfig, LogFormat, Verbose, listen_address, start_process
from quorate.cli.simulate.run_times import Runs
from quorate.cli.verbs.options import Context
from quorate.dashboard.login.oidc import OidcSettings
from quorate.dashboard.process import Options, serve_dashboard
from quorate.dashboard.serving.server_tls import CertificateFiles, self_signed_context
from quorate.dashboard.simulation.simulation_process import Cluster
from quorate.inspect.configuration_files import read_text
from quorate.inspect.errors import UsageError
from quorate.kube.clock import WallClock
from quorate.kube.serving.tls import UnusableCertificate
from quorate.processes.process_setup import run_until_signal

DEFAULT_PORT: Final = 7444
_SCOPES: Final = ("email", "groups")
_login: Final = partial(typer.Option, rich_help_panel="Logging in")
_serving: Final = partial(typer.Option, rich_help_panel="Serving")
_history: Final = partial(typer.Option, rich_help_panel="History")


def dashboard(
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    address: Annotated[
        Address,
        _serving(
            metavar="ADDRESS",
            parser=listen_address,
            help="The address to listen on. Other than on localhost: over TLS. [b]:8443[/b]: all interfaces.",
        ),
    ] = f"127.0.0.1:{DEFAULT_PORT}",  # type: ignore[assignment]  # a text, which the parser reads
    tls_certificate: Annotated[
        Path | None,
        _serving(
            metavar="FILE",
            help="The certificate of the server, in PEM. Default on other addresses than localhost: "
            "self-signed.",
        ),
    ] = None,
    tls_key: Annotated[Path | None, _serving(metavar="FILE", help="Its private key, in PEM.")] = None,
    plain_http: Annotated[
        bool,
        _serving(
            "--plain-http",
            help="Serve without TLS, behind a proxy that terminates it. Browsers log in over HTTPS only.",
        ),
    ] = False,
    external_url: Annotated[
        str,
        _serving(
            metavar="URL",
            help="The URL of the page for browsers, as the issuer knows it. Default: as requests name it.",
        ),
    ] = "",
    health_address: Annotated[
        Address | None,
        _serving(
            metavar="ADDRESS",
            parser=listen_address,
            show_default=False,
            help="The address for the probes of the kubelet, such as :8081. Default: none.",
        ),
    ] = None,
    oidc_issuer: Annotated[
        str,
        _login(
            metavar="URL",
            help="The OpenID Connect issuer of the API server: users log in there. Default: none.",
        ),
    ] = "",
    oidc_client_id: Annotated[
        str, _login(metavar="ID", help="The client at the issuer; the API server accepts it as audience.")
    ] = "",
    oidc_client_secret_file: Annotated[
        Path | None, _login(metavar="FILE", help="The secret of the client. Default: a public client.")
    ] = None,
    oidc_scope: Annotated[
        list[str] | None,
        _login(
            metavar="SCOPE",
            show_default=False,
            help="Scopes to ask for beside openid; may be repeated. Default: email, groups.",
        ),
    ] = None,
    oidc_ca: Annotated[
        Path | None, _login(metavar="FILE", help="The authority of the issuer's certificate, in PEM.")
    ] = None,
    history: Annotated[
        Path | None,
        _history(
            metavar="FILE",
            show_default=False,
            help="The file of the last 30 days of samples and transitions. Default: one for each API server"
            " in ~/.local/state/quorate, none in a pod.",
        ),
    ] = None,
    config: Config = None,
    runs: Runs = "1h",
    without_forecasts: Annotated[
        bool, typer.Option("--without-forecasts", help="Do not compute when waiting workloads would start.")
    ] = False,
    log_format: LogFormat = "console",
    verbose: Verbose = False,
) -> None:
    """Serve a web page of queues, workloads, gangs and nodes until Ctrl-C.

    Users log in with a Kubernetes token, or at the OpenID Connect issuer of the API server, and see what they
    may list. With a kubeconfig on localhost a link is printed that logs in once with its credentials.

    [b]Example:[/b] quorate dashboard
    """  # fmt: skip
    start_process(log_format, verbose)
    try:
        parse_duration(runs)
    except InvalidDuration as error:
        raise UsageError(f"--runs {runs}: is not a duration (write 10m, 1h30m or 500ms)") from error
    certificate = _certificate(tls_certificate, tls_key)
    oidc = _oidc(oidc_issuer, oidc_client_id, oidc_client_secret_file, oidc_scope, oidc_ca)
    clock = WallClock()
    if certificate is not None:
        tls = certificate.context
    elif plain_http or address.is_loopback:
        tls = None
    else:
        tls = self_signed_context(clock.now())
    options = Options(
        address=address,
        cluster=Cluster(
            kubeconfig=_text(kubeconfig), context=context, config=_text(config), run_duration=runs
        ),
        tls=tls,
        oidc=oidc,
        external_url=external_url,
        has_forecasts=not without_forecasts,
        history=history,
    )
    serving = serve_dashboard(kubeconfig, context, config, options, certificate, health_address, _print_link)
    with suppress(asyncio.CancelledError):  # by a signal
        uvloop.run(run_until_signal(serving))


def _print_link(link: str) -> None:
    typer.echo(f"open {link} in a browser (the link logs in once)")


def _certificate(certificate: Path | None, key: Path | None) -> CertificateFiles | None:
    if (certificate is None) != (key is None):
        raise UsageError("--tls-certificate and --tls-key belong together (write both or none)")
    if certificate is None or key is None:
        return None
    try:
        return CertificateFiles(certificate, key)
    except (OSError, UnusableCertificate) as error:
        raise UsageError(f"--tls-certificate {certificate}, --tls-key {key}: {error}") from error


def _oidc(
    issuer: str, client_id: str, secret_file: Path | None, scopes: list[str] | None, authority: Path | None
) -> OidcSettings | None:
    if bool(issuer) != bool(client_id):
        raise UsageError("--oidc-issuer and --oidc-client-id belong together (write both or none)")
    if not issuer:
        return None
    try:
        context = None if authority is None else ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"--oidc-ca {authority}: {error}") from error
    return OidcSettings(
        issuer=issuer,
        client_id=client_id,
        client_secret="" if secret_file is None else read_text(secret_file).strip(),
        scopes=("openid", *(_SCOPES if scopes is None else scopes)),
        authority=context,
    )


def _text(path: Path | None) -> str:
    return "" if path is None else str(path)
