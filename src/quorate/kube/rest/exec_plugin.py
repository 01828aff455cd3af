"""Credentials of an exec plugin or an auth provider, by means of kubernetes_asyncio."""

import asyncio
from pathlib import Path
from typing import Any

from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException, load_kube_config

from quorate.kube.log import logger
from quorate.kube.rest.credentials import Credentials
from quorate.kube.rest.kubeconfig import Certificate, InvalidKubeconfig, KubeconfigContext


class PluginCredentials:
    """A bearer token of a plugin, which runs again when the server refuses the token."""

    def __init__(self, path: Path, context: str) -> None:
        self._path, self._context = path, context
        self._token = ""
        self._refreshing = asyncio.Lock()

    def authorization(self) -> str:
        return f"Bearer {self._token}" if self._token else ""

    async def refresh(self, refused: str) -> bool:
        async with self._refreshing:  # many requests may be refused at once; one refresh serves all
            if self.authorization() == refused:
                try:
                    await self.run()
                except InvalidKubeconfig as error:
                    # It worked at the start, so the failure is probably temporary: the request fails with the
                    # refusal, and its caller retries.
                    logger(__name__).warning("credentials not refreshed", problem=str(error))
                    return False
            return self.authorization() != refused

    async def run(self) -> Any:
        """Run the plugin and return the Configuration of kubernetes_asyncio."""
        configuration = Configuration()
        try:
            await load_kube_config(str(self._path), self._context, configuration, persist_config=True)
        except ConfigException as error:
            raise InvalidKubeconfig(f"{self._path}: context {self._context}", str(error)) from error
        self._token = configuration.api_key.get("BearerToken", "").removeprefix("Bearer ")
        return configuration

    def __repr__(self) -> str:
        return f"PluginCredentials({str(self._path)!r}, {self._context!r})"


async def load_plugin(context: KubeconfigContext) -> tuple[Credentials, Certificate | None]:
    plugin = PluginCredentials(context.path, context.name)
    configuration = await plugin.run()
    certificate = None
    if configuration.cert_file and configuration.key_file:
        certificate = Certificate(_read(configuration.cert_file), _read(configuration.key_file))
    return plugin, certificate


def _read(path: str) -> bytes:
    return Path(path).read_bytes()
