"""Verification of the front proxy: the API server, which forwards requests to an aggregated API.

One ConfigMap of every cluster has the authority of its client certificate and the allowed common names.
"""

import json
import ssl
from collections.abc import Mapping
from typing import Any, Final

from quorate.api.core import ConfigMap
from quorate.kube.client import Client
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.kube.resources import CONFIG_MAPS

NAMESPACE: Final = "kube-system"
NAME: Final = "extension-apiserver-authentication"


class FrontProxyVerifier:
    """Trusts no client before ``run`` reads the ConfigMap; then ``context`` requests client certificates."""

    def __init__(self, client: Client, context: ssl.SSLContext) -> None:
        self._context = context
        self._names: frozenset[str] | None = None  # empty: any; None: none is trusted yet
        self._informer = Informer(
            client, CONFIG_MAPS, namespace=NAMESPACE, field_selector=f"metadata.name={NAME}"
        )
        self._informer.subscribe(self._changed)

    async def run(self) -> None:
        """Follow the ConfigMap until cancelled."""
        await self._informer.run()

    def is_trusted(self, certificate: Mapping[str, Any]) -> bool:
        """Return True if the client with ``certificate`` (``getpeercert``) may name other users."""
        subject = certificate.get("subject", ())
        names = {value for part in subject for key, value in part if key == "commonName"}
        return self._names is not None and (not self._names or not self._names.isdisjoint(names))

    def _changed(self, change: Change[ConfigMap]) -> None:
        data = change.new.data if change.new is not None else {}
        authority = data.get("requestheader-client-ca-file", "")
        try:
            names = frozenset(map(str, json.loads(data.get("requestheader-allowed-names", "[]"))))
            if authority:
                # A replaced authority stays trusted until the process ends: it cannot be unloaded.
                self._context.load_verify_locations(cadata=authority)
                self._context.verify_mode = ssl.CERT_OPTIONAL
        except (ValueError, TypeError, ssl.SSLError) as error:
            logger(__name__).warning(
                "front proxy configuration is invalid", config_map=NAME, problem=str(error)
            )
            return
        self._names = names if authority else None
