"""Secrets with a token of a service account.

The rules are those of the tokens controller of kube-controller-manager.
"""

import base64
from collections.abc import Mapping
from typing import Final

from quorate.api import codec
from quorate.api.codec import Json
from quorate.api.core import ServiceAccount
from quorate.api.meta import Key, ObjectMeta, Struct
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import SERVICE_ACCOUNTS, Resource
from quorate.local.controllers.controller import Controller, ControllerContext

TYPE: Final = "kubernetes.io/service-account-token"
ACCOUNT_NAME: Final = "kubernetes.io/service-account.name"
ACCOUNT_UID: Final = "kubernetes.io/service-account.uid"
LIFETIME_S: Final = 2**32  # the longest of a token request; tokens of kube-controller-manager do not expire


class Secret(Struct):
    """A Secret; data is base64."""

    metadata: ObjectMeta
    type: str = ""
    data: Mapping[str, str] = {}


SECRETS: Final = Resource("", "v1", "secrets", "Secret", True, Secret)


class TokensController(Controller):
    """Fills each Secret of the type, and deletes it with its service account.  A key is a Secret."""

    def __init__(
        self,
        context: ControllerContext,
        authority: bytes,
        accounts: Informer[ServiceAccount],
        secrets: Informer[Secret],
    ) -> None:
        """``authority``: certificates in PEM; empty without any."""
        super().__init__("tokens-controller", context, accounts, secrets)
        self._authority = authority
        self._accounts = accounts
        self._secrets = secrets
        secrets.subscribe(self._on_secret)
        accounts.subscribe(self._on_account)

    def _on_secret(self, change: Change[Secret]) -> None:
        if change.new is not None and change.new.type == TYPE:
            self._reconciler.enqueue(change.key)

    def _on_account(self, change: Change[ServiceAccount]) -> None:
        if change.old is None or change.new is None:
            for secret in self._secrets:
                if secret.type == TYPE and _account_of(secret) == change.key:
                    self._reconciler.enqueue(secret.metadata.key)

    async def reconcile(self, key: Key) -> None:
        secret = self._secrets.get(key)
        if secret is None or secret.type != TYPE or secret.metadata.deletion_timestamp is not None:
            return
        account = self._accounts.get(_account_of(secret)) or await self._client.find(
            SERVICE_ACCOUNTS, _account_of(secret)
        )
        uid = secret.metadata.annotations.get(ACCOUNT_UID)
        if account is None or uid not in (None, account.metadata.uid):
            await self._client.delete(SECRETS, key, uid=secret.metadata.uid)
            return
        wanted = {"namespace": key.namespace.encode()} if "namespace" not in secret.data else {}
        if self._authority:
            wanted["ca.crt"] = self._authority
        data = {name: base64.b64encode(value).decode() for name, value in wanted.items()}
        missing = {name: value for name, value in data.items() if secret.data.get(name) != value}
        if not secret.data.get("token"):
            missing["token"] = base64.b64encode((await self._token(secret, account)).encode()).decode()
        if missing or uid is None:
            metadata = {"uid": secret.metadata.uid, "annotations": {ACCOUNT_UID: account.metadata.uid}}
            await self._client.patch(SECRETS, key, {"metadata": metadata, "data": missing})

    async def _token(self, secret: Secret, account: ServiceAccount) -> str:
        """Return a token that ends with its Secret."""
        bound = {
            "apiVersion": "v1", "kind": "Secret", "name": secret.metadata.name, "uid": secret.metadata.uid,
        }  # fmt: skip
        body: Json = {"spec": {"expirationSeconds": LIFETIME_S, "boundObjectRef": bound}}
        path = SERVICE_ACCOUNTS.path(account.metadata.namespace, account.metadata.name, "token")
        answer = await self._client.request("POST", path, body=codec.encode(body))
        return str(codec.decode(TokenRequest, answer).status.token)


class TokenStatus(Struct):
    token: str


class TokenRequest(Struct):
    status: TokenStatus


def _account_of(secret: Secret) -> Key:
    return Key(secret.metadata.namespace, secret.metadata.annotations.get(ACCOUNT_NAME, ""))
