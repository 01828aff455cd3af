"""Renewal of the certificates in the Secret."""

from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from quorate.api.meta import at_epoch
from quorate.kube.serving.certificates import is_valid_for
from quorate.webhooks.serving_certificate import renew

NOW = 1_900_000_000.0
DAY_S = 86_400.0
HOSTS = ("kueue-webhook-service.kueue-system.svc", "127.0.0.1")


def test_an_empty_secret_gets_a_ca_and_a_server_certificate() -> None:
    made = renew({}, HOSTS, NOW)
    assert sorted(made.as_secret()) == ["ca.crt", "ca.key", "tls.crt", "tls.key"]
    assert is_valid_for(made.bundle, made.server, HOSTS)
    assert not is_valid_for(made.bundle, made.server, [*HOSTS, "elsewhere.svc"])
    assert not is_valid_for(renew({}, HOSTS, NOW).bundle, made.server, HOSTS)


@pytest.mark.parametrize(
    ("days", "same_ca", "same_server"),
    [
        pytest.param(0, True, True, id="new"),
        pytest.param(330, True, True, id="both valid"),
        pytest.param(336, True, False, id="server certificate ends within a month"),
        pytest.param(3300, False, False, id="CA ends within a year"),
        pytest.param(9999, False, False, id="both expired"),
    ],
)
def test_certificates_are_renewed_before_they_expire(days: int, same_ca: bool, same_server: bool) -> None:
    stored = renew({}, HOSTS, NOW).as_secret()
    later = NOW + days * DAY_S
    now = renew(stored, HOSTS, later)
    assert (now.ca_key == stored["ca.key"], now.server.key == stored["tls.key"]) == (
        same_ca, same_server,
    )  # fmt: skip
    assert is_valid_for(now.bundle, now.server, HOSTS)
    assert renew(now.as_secret(), HOSTS, later).as_secret() == now.as_secret(), "it comes to rest"


def test_the_bundle_keeps_the_previous_ca() -> None:
    stored = renew({}, HOSTS, NOW).as_secret()
    now = renew(stored, HOSTS, NOW + 3300 * DAY_S)
    assert now.bundle.count(b"BEGIN CERTIFICATE") == 2
    assert now.bundle.endswith(stored["ca.crt"])
    much_later = renew(now.as_secret(), HOSTS, NOW + 6600 * DAY_S)
    assert much_later.bundle.count(b"BEGIN CERTIFICATE") == 2, "but not those before it"


def test_another_service_gets_another_certificate_of_the_same_ca() -> None:
    stored = renew({}, HOSTS, NOW).as_secret()
    now = renew(stored, ["other.kueue-system.svc"], NOW)
    assert (now.ca_key, now.bundle) == (stored["ca.key"], stored["ca.crt"])
    assert is_valid_for(now.bundle, now.server, ["other.kueue-system.svc"])


@pytest.mark.parametrize("name", ["ca.crt", "ca.key", "tls.crt", "tls.key"])
@pytest.mark.parametrize(
    "value", [None, b"", b"no PEM", b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----"]
)
def test_invalid_content_is_replaced(name: str, value: bytes | None) -> None:
    stored = renew({}, HOSTS, NOW).as_secret()
    spoiled = {key: content for key, content in stored.items() if key != name}
    if value is not None:
        spoiled[name] = value
    now = renew(spoiled, HOSTS, NOW)
    assert is_valid_for(now.bundle, now.server, HOSTS)


def test_a_key_of_another_certificate_is_replaced() -> None:
    one, other = renew({}, HOSTS, NOW).as_secret(), renew({}, HOSTS, NOW).as_secret()
    now = renew({**one, "tls.key": other["tls.key"]}, HOSTS, NOW)
    assert now.server.key != other["tls.key"]
    assert is_valid_for(one["ca.crt"], now.server, HOSTS)


SERIAL_0 = b"""-----BEGIN CERTIFICATE-----
MIIBazCCARCgAwIBAgIBADAKBggqhkjOPQQDAjATMREwDwYDVQQDDAhzZXJpYWwt
MDAgFw0yNjExMzAxNTQ1NTVaGA8yMTI2MTEwNjE1NDU1NVowEzERMA8GA1UEAwwI
c2VyaWFsLTAwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAStubc5h5KDM0VCU1I/
hqlxlyC7p0bUrxP5HAga4hKinnj+Fn2p7WRq1800buBeRnjaotVN9VHXW6VKpMKg
l8w/o1MwUTAdBgNVHQ4EFgQU3cXcv6ycprJHB3ZcssWUn5YiWTEwHwYDVR0jBBgw
FoAU3cXcv6ycprJHB3ZcssWUn5YiWTEwDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjO
PQQDAgNJADBGAiEAvbwLqDObWSiqW65WxKWk309AhaLdnpIldcAJImV4+K4CIQC3
ICF+1Kt+1V0aMS7fv2zwEPENbwvPhQqoml2mK7Bj6g==
-----END CERTIFICATE-----
"""


def test_a_ca_with_the_serial_number_0_of_kueue_s_is_read_without_a_warning() -> None:
    stored = renew({}, HOSTS, NOW).as_secret()
    assert not is_valid_for(SERIAL_0, renew(stored, HOSTS, NOW).server, HOSTS)


def test_a_ca_created_by_kueue_is_kept() -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kueue-ca")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(at_epoch(NOW))
        .not_valid_after(at_epoch(NOW) + timedelta(days=3650))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    now = renew({"ca.crt": certificate, "ca.key": pem}, HOSTS, NOW)
    assert now.bundle == certificate
    assert is_valid_for(certificate, now.server, HOSTS)
