"""Tokens of service accounts: signed here, believed while the account and what they are bound to last.

They are JSON web tokens (RFC 7519) with the claims that kube-apiserver puts into its own.
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
from quorate.local.server.auth.authentication import User, service_account
from quorate.local.server.storage.store import Key, Store

Json = dict[str, Any]

ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
AUDIENCES: Final = (ISSUER,)
"""Whom a token is for that names nobody: this server."""
HEADER: Final = {"alg": "ES256", "typ": "JWT"}
WORD: Final = 32
"""Bytes of each of a P-256 signature's two numbers."""
BOUND_RESOURCES: Final = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}
"""What a token may be bound to."""
MAY_BE_EARLY_S: Final = 10.0


class Reference(msgspec.Struct, frozen=True):
    name: str
    uid: str = ""


class _Kubernetes(msgspec.Struct, frozen=True):
    namespace: str
    serviceaccount: Reference
    pod: Reference | None = None
    secret: Reference | None = None
    node: Reference | None = None


class Claims(msgspec.Struct, frozen=True):
    iss: str
    sub: str
    aud: tuple[str, ...]
    exp: float
    nbf: float
    jti: str
    kubernetes: _Kubernetes = msgspec.field(name="kubernetes.io")


class Rejected(Exception):
    """A token that proves nothing."""


@dataclass(frozen=True, slots=True)
class Issued:
    token: str
    expires: float


class Tokens:
    """Issues tokens and reads them back, against the accounts in the store."""

    def __init__(self, key: bytes, store: Store, clock: Clock, new_uid: Callable[[], str]) -> None:
        loaded = serialization.load_pem_private_key(key, None)
        assert isinstance(loaded, ec.EllipticCurvePrivateKey), "tokens are signed with a key of ours"
        self._key, self._store, self._clock, self._new_uid = loaded, store, clock, new_uid
        self._claims = lru_cache(maxsize=4096)(self._verify)  # a signature is checked once

    def issue(
        self, account: Json, audiences: Sequence[str], lasts_s: int, bound_to: tuple[str, Reference] | None
    ) -> Issued:
        """``account``: a ServiceAccount.  ``bound_to``: an object the token ends with, and its kind."""
        now, meta = int(self._clock.now()), account["metadata"]
        identity: Json = {
            "namespace": meta["namespace"],
            "serviceaccount": {"name": meta["name"], "uid": meta["uid"]},
        }
        if bound_to is not None:
            kind, reference = bound_to
            identity[kind.lower()] = {"name": reference.name, "uid": reference.uid}
        claims = {
            "aud": list(audiences),
            "exp": now + lasts_s,
            "iat": now,
            "iss": ISSUER,
            "jti": self._new_uid(),
            "kubernetes.io": identity,
            "nbf": now,
            "sub": service_account(meta["namespace"], meta["name"]).name,
        }
        return Issued(self._sign(claims), now + lasts_s)

    def read(self, token: str, audiences: Sequence[str] = AUDIENCES) -> tuple[User, tuple[str, ...]]:
        """Whose token it is, and which of ``audiences`` it is for.  Raises Rejected."""
        claims = self._claims(token)
        now = self._clock.now()
        if claims.iss != ISSUER:
            raise Rejected("another issuer")
        if now >= claims.exp or now < claims.nbf - MAY_BE_EARLY_S:
            raise Rejected("service account token has expired")
        meant = tuple(audience for audience in audiences if audience in claims.aud)
        if not meant:
            raise Rejected(f"token audiences {list(claims.aud)} is invalid for the target audiences")
        return self._user(claims), meant

    def _user(self, claims: Claims) -> User:
        known = claims.kubernetes
        self._require("serviceaccounts", known.namespace, known.serviceaccount)
        extra = {"authentication.kubernetes.io/credential-id": (f"JTI={claims.jti}",)}
        for kind, resource in BOUND_RESOURCES.items():
            bound: Reference | None = getattr(known, kind.lower())
            if bound is None:
                continue
            self._require(resource, "" if kind == "Node" else known.namespace, bound)
            if kind != "Secret":
                extra[f"authentication.kubernetes.io/{kind.lower()}-name"] = (bound.name,)
                extra[f"authentication.kubernetes.io/{kind.lower()}-uid"] = (bound.uid,)
        return service_account(known.namespace, known.serviceaccount.name, known.serviceaccount.uid, extra)

    def _require(self, resource: str, namespace: str, reference: Reference) -> None:
        entry = self._store.get(Key(resource, namespace, reference.name))
        if entry is None or entry.decode()["metadata"]["uid"] != reference.uid:
            raise Rejected(f"{resource} {reference.name} of the token is gone")

    def _sign(self, claims: Json) -> str:
        signed = f"{_encode(msgspec.json.encode(HEADER))}.{_encode(msgspec.json.encode(claims))}"
        numbers = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{_encode(b''.join(number.to_bytes(WORD, 'big') for number in numbers))}"

    def _verify(self, token: str) -> Claims:
        signed, _, signature = token.rpartition(".")
        try:
            raw = _decode(signature)
            numbers = (int.from_bytes(raw[:WORD], "big"), int.from_bytes(raw[WORD:], "big"))
            self._key.public_key().verify(
                encode_dss_signature(*numbers), signed.encode(), ec.ECDSA(hashes.SHA256())
            )
            return msgspec.json.decode(_decode(signed.partition(".")[2]), type=Claims)
        except (InvalidSignature, binascii.Error, ValueError, msgspec.DecodeError) as fault:
            raise Rejected("invalid bearer token") from fault


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
