"""Service account tokens: signed here, and valid while the account and the bound object exist.

They are JSON web tokens (RFC 7519) with kube-apiserver's claims.
"""

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from quorate.kube.clock import Clock
from quorate.local.server.auth.authentication import User, service_account_user
from quorate.local.server.storage.store import Key, Store

Json = dict[str, Any]

ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
API_AUDIENCES: Final = (ISSUER,)
"""The audience of a token that requests none: this server."""
HEADER: Final = {"alg": "ES256", "typ": "JWT"}
SIGNATURE_INTEGER_BYTES: Final = 32
"""The size of each of the two integers of a P-256 signature."""
BOUND_RESOURCES: Final = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}
"""The kinds that a token can be bound to."""
CLOCK_SKEW_S: Final = 10.0


class ObjectReference(msgspec.Struct, frozen=True):
    name: str
    uid: str = ""


class _KubernetesClaims(msgspec.Struct, frozen=True):
    namespace: str
    serviceaccount: ObjectReference
    pod: ObjectReference | None = None
    secret: ObjectReference | None = None
    node: ObjectReference | None = None


class Claims(msgspec.Struct, frozen=True):
    iss: str
    sub: str
    aud: tuple[str, ...]
    exp: float
    nbf: float
    jti: str
    kubernetes: _KubernetesClaims = msgspec.field(name="kubernetes.io")


class InvalidToken(Exception):
    """A token that does not authenticate."""


@dataclass(frozen=True, slots=True)
class IssuedToken:
    token: str
    expires: float


class ServiceAccountTokens:
    """Issues tokens, and authenticates them against the accounts in the store."""

    def __init__(self, key: bytes, store: Store, clock: Clock, new_uid: Callable[[], str]) -> None:
        loaded = serialization.load_pem_private_key(key, None)
        assert isinstance(loaded, ec.EllipticCurvePrivateKey), "tokens are signed with a key of ours"
        self._key, self._store, self._clock, self._new_uid = loaded, store, clock, new_uid
        self._claims = lru_cache(maxsize=4096)(self._verify)  # each signature is verified once

    def issue(
        self,
        account: Json,
        audiences: Sequence[str],
        lifetime_s: int,
        bound_object: tuple[str, ObjectReference] | None,
    ) -> IssuedToken:
        """``account``: a ServiceAccount.  ``bound_object``: the kind and reference of the bound object."""
        now, meta = int(self._clock.now()), account["metadata"]
        identity: Json = {
            "namespace": meta["namespace"],
            "serviceaccount": {"name": meta["name"], "uid": meta["uid"]},
        }
        if bound_object is not None:
            kind, reference = bound_object
            identity[kind.lower()] = {"name": reference.name, "uid": reference.uid}
        claims = {
            "aud": list(audiences),
            "exp": now + lifetime_s,
            "iat": now,
            "iss": ISSUER,
            "jti": self._new_uid(),
            "kubernetes.io": identity,
            "nbf": now,
            "sub": service_account_user(meta["namespace"], meta["name"]).name,
        }
        return IssuedToken(self._sign(claims), now + lifetime_s)

    def authenticate(
        self, token: str, audiences: Sequence[str] = API_AUDIENCES
    ) -> tuple[User, tuple[str, ...]]:
        """Return the user of a token, and the ``audiences`` that it is valid for.  Raises InvalidToken."""
        claims = self._claims(token)
        now = self._clock.now()
        if claims.iss != ISSUER:
            raise InvalidToken("another issuer")
        if now >= claims.exp or now < claims.nbf - CLOCK_SKEW_S:
            raise InvalidToken("service account token has expired")
        matched_audiences = tuple(audience for audience in audiences if audience in claims.aud)
        if not matched_audiences:
            raise InvalidToken(f"token audiences {list(claims.aud)} is invalid for the target audiences")
        return self._user(claims), matched_audiences

    def _user(self, claims: Claims) -> User:
        claim = claims.kubernetes
        self._require_live("serviceaccounts", claim.namespace, claim.serviceaccount)
        extra = {"authentication.kubernetes.io/credential-id": (f"JTI={claims.jti}",)}
        for kind, resource in BOUND_RESOURCES.items():
            bound: ObjectReference | None = getattr(claim, kind.lower())
            if bound is None:
                continue
            self._require_live(resource, "" if kind == "Node" else claim.namespace, bound)
            if kind != "Secret":
                extra[f"authentication.kubernetes.io/{kind.lower()}-name"] = (bound.name,)
                extra[f"authentication.kubernetes.io/{kind.lower()}-uid"] = (bound.uid,)
        return service_account_user(
            claim.namespace, claim.serviceaccount.name, claim.serviceaccount.uid, extra
        )

    def _require_live(self, resource: str, namespace: str, reference: ObjectReference) -> None:
        entry = self._store.get(Key(resource, namespace, reference.name))
        if entry is None or entry.decode()["metadata"]["uid"] != reference.uid:
            raise InvalidToken(f"{resource} {reference.name} of the token is gone")

    def _sign(self, claims: Json) -> str:
        signed = f"{_encode(msgspec.json.encode(HEADER))}.{_encode(msgspec.json.encode(claims))}"
        integers = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        signature = b"".join(integer.to_bytes(SIGNATURE_INTEGER_BYTES, "big") for integer in integers)
        return f"{signed}.{_encode(signature)}"

    def _verify(self, token: str) -> Claims:
        signed, _, signature = token.rpartition(".")
        try:
            raw = _decode(signature)
            integers = (
                int.from_bytes(raw[:SIGNATURE_INTEGER_BYTES], "big"),
                int.from_bytes(raw[SIGNATURE_INTEGER_BYTES:], "big"),
            )
            self._key.public_key().verify(
                encode_dss_signature(*integers), signed.encode(), ec.ECDSA(hashes.SHA256())
            )
            return msgspec.json.decode(_decode(signed.partition(".")[2]), type=Claims)
        except (InvalidSignature, binascii.Error, ValueError, msgspec.DecodeError) as error:
            raise InvalidToken("invalid bearer token") from error


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
