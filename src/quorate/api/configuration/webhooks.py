"""The fields of Configuration about webhooks: where they listen, with which certificates and TLS.

As with every address here, a ``webhook`` field that is left out opens no port: jobs are then suspended and
objects found invalid by the controllers, after they were stored.
"""

from typing import Final

import msgspec

from quorate.api.configuration.process import Address
from quorate.api.decoding.strict import (
    Field,
    InvalidValue,
    Section,
    boolean,
    choice,
    integer,
    list_of,
    text,
    text_matching,
)
from quorate.api.syntax import is_dns_label, is_dns_subdomain


class Webhooks(msgspec.Struct, frozen=True, kw_only=True):
    """The server of admission and conversion webhooks."""

    address: Address | None = None  # None: not served
    certificate_directory: str = "/tmp/k8s-webhook-server/serving-certs"  # read when management is off


class CertificateManagement(msgspec.Struct, frozen=True, kw_only=True):
    """Whether certificates are made and renewed here, and the Secret that holds them for all replicas."""

    enable: bool = True
    service: str = "kueue-webhook-service"
    secret: str = "kueue-webhook-server-cert"


class TlsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a client must speak; by default what the platform's library finds safe."""

    minimum_version: str = "VersionTLS12"
    ciphers: tuple[str, ...] = ()  # as OpenSSL names them; none: the library's own choice
    curve: str = ""  # as OpenSSL names it; none: the library's own choice


# The versions as Go spells them, which is how Kueue's files do.
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


def decode_webhooks(fields: Section) -> Webhooks:
    """The field as a whole asks for webhooks; its host is empty, every interface, as in Kueue."""
    host = fields.take("host", text, "")
    return Webhooks(
        address=Address(host, fields.take("port", integer(minimum=1, maximum=65535), 9443)),
        certificate_directory=fields.take("certDir", text, "") or Webhooks().certificate_directory,
    )


def decode_certificate_management(fields: Section) -> CertificateManagement:
    default = CertificateManagement()
    service = text_matching(is_dns_label, "the name of a Service")
    secret = text_matching(is_dns_subdomain, "the name of a Secret")
    return CertificateManagement(
        enable=fields.take("enable", boolean, default.enable),
        service=fields.take("webhookServiceName", service, default.service),
        secret=fields.take("webhookSecretName", secret, default.secret),
    )


def decode_tls_options(fields: Section) -> TlsOptions:
    version = fields.take("minVersion", choice(TLS_VERSIONS), TlsOptions().minimum_version)
    if version == "VersionTLS13" and fields.field.value.get("cipherSuites"):
        fields.at("cipherSuites").reject("contradicts minVersion VersionTLS13, whose suites are fixed")
    return TlsOptions(
        minimum_version=version,
        ciphers=fields.take("cipherSuites", list_of(_cipher), ()),
        curve=fields.take("curvePreferences", _curve, ""),
    )


def _cipher(field: Field) -> str:
    return _CIPHERS[choice(tuple(_CIPHERS))(field)]


def _curve(field: Field) -> str:
    curves = list_of(choice(tuple(_CURVES)))(field)
    if len(curves) > 1:
        raise InvalidValue(
            "names several curves, and only one can be insisted on (write one, or leave this out)"
        )
    return _CURVES[curves[0]] if curves else ""
