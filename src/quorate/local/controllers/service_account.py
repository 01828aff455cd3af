"""The ``default`` service account of each namespace."""

from typing import Final

from quorate.api.core import ServiceAccount
from quorate.api.meta import Key
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.controller.reconcile import Reconciler
from quorate.kube.errors import AlreadyExists, Forbidden, NotFound
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import SERVICE_ACCOUNTS
from quorate.local.controllers.namespace import Namespace

DEFAULT_SERVICE_ACCOUNT: Final = "default"


class ServiceAccountController:
    """Creates missing service accounts.  The caller runs the informers."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        namespaces: Informer[Namespace],
        accounts: Informer[ServiceAccount],
    ) -> None:
        self._client = client
        self._namespaces = namespaces
        self._accounts = accounts
        self._reconciler = Reconciler("service-account", self.reconcile, clock)
        namespaces.subscribe(self._on_namespace)
        accounts.subscribe(self._on_account)

    async def run(self) -> None:
        await self._namespaces.synced.wait()
        await self._accounts.synced.wait()
        await self._reconciler.run()

    def _on_namespace(self, change: Change[Namespace]) -> None:
        if change.new is not None:
            self._reconciler.enqueue(change.new.metadata.key)

    def _on_account(self, change: Change[ServiceAccount]) -> None:
        if change.new is None:
            assert change.old is not None
            self._reconciler.enqueue(Key("", change.old.metadata.namespace))

    async def reconcile(self, key: Key) -> None:
        namespace = self._namespaces.get(key)
        if namespace is None or namespace.metadata.deletion_timestamp is not None:
            return
        if self._accounts.get(Key(key.name, DEFAULT_SERVICE_ACCOUNT)) is not None:
            return
        try:
            await self._client.create(
                SERVICE_ACCOUNTS, {"metadata": {"name": DEFAULT_SERVICE_ACCOUNT}}, key.name
            )
        except (AlreadyExists, NotFound):
            return  # already created, or the namespace was deleted
        except Forbidden as refusal:
            # A terminating namespace needs no account; other rejections are retried.
            if all(cause.reason != "NamespaceTerminating" for cause in refusal.details.causes):
                raise
