"""Configuration of the webhook server: address, certificates and TLS.

Without ``webhook`` no port is opened. The controllers then suspend jobs and report invalid objects after they
are stored.
"""

from typing import Final

import msgspec

from quorate.api.configuration.process import Address
from quorate.api.decoding import strict as d
from quorate.api.syntax import is_dns_label, is_dns_subdomain


class Webhooks(msgspec.Struct, frozen=True, kw_only=True):
    """The server of admission and conversion webhooks."""

    address: Address | None = None  # None: not served
    certificate_directory: str = "/tmp/k8s-webhook-server/serving-certs"  # without management
    client_ca_file: str = ""  # empty: clients of admission webhooks need no certificate


class CertificateManagement(msgspec.Struct, frozen=True, kw_only=True):
    """Management of certificates, and the Secret that shares them among replicas."""

    enable: bool = True
    service: str = "kueue-webhook-service"
    secret: str = "kueue-webhook-server-cert"


class TlsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """TLS settings of servers; the defaults are those of the platform's TLS library."""

    minimum_version: str = "VersionTLS12"
    ciphers: tuple[str, ...] = ()  # OpenSSL names; empty: the library's default
    curve: str = ""  # an OpenSSL name; empty: the library's default


# Go's names of the versions, which Kueue's files use.
TLS_VERSIONS: Final = ("VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13")
_CIPHERS: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
}
_CURVES: Final = {
    "CurveP256": "prime256v1",
    "CurveP384": "secp384r1",
    "CurveP521": "secp521r1",
    "X25519": "X25519",
}


def decode_webhooks(fields: d.Section) -> Webhooks:
    """Decode ``webhook``; its presence enables the server on all interfaces, as in Kueue."""
    host = fields.take("host", d.text, "")
    return Webhooks(
        address=Address(host, fields.take("port", d.integer(minimum=1, maximum=65535), 9443)),
        certificate_directory=fields.take("certDir", d.text, "") or Webhooks().certificate_directory,
        client_ca_file=fields.take("clientCAFile", d.text, ""),
    )


decode_certificate_management = d.struct_of(
    CertificateManagement,
    enable=("enable", d.boolean),
    service=("webhookServiceName", d.text_matching(is_dns_label, "the name of a Service")),
    secret=("webhookSecretName", d.text_matching(is_dns_subdomain, "the name of a Secret")),
)


def decode_tls_options(fields: d.Section) -> TlsOptions:
    version = fields.take_set("minVersion", d.choice(TLS_VERSIONS), TlsOptions().minimum_version)
    if version == "VersionTLS13" and fields.field.value.get("cipherSuites"):
        fields.at("cipherSuites").reject("contradicts minVersion VersionTLS13: its suites are fixed")
    return TlsOptions(
        minimum_version=version,
        ciphers=fields.take("cipherSuites", d.list_of(_cipher), ()),
        curve=fields.take("curvePreferences", _curve, ""),
    )


def _cipher(field: d.Field) -> str:
    return _CIPHERS[d.choice(tuple(_CIPHERS))(field)]


def _curve(field: d.Field) -> str:
    curves = d.list_of(d.choice(tuple(_CURVES)))(field)
    if len(curves) > 1:
        raise d.InvalidValue("lists several curves, and only one is supported (write one, or leave this out)")
    return _CURVES[curves[0]] if curves else ""
