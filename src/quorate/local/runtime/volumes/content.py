"""The files of configMap, secret, downwardAPI and projected volumes, all of which change at once.

As in directories of a kubelet, ``..data`` links to the version, and a reader that opens files below it sees
one version of all of them:

    key         -> ..data/key
    ..data      -> ..2026_11_28_17_00_00.123456789
    ..2026_11_28_17_00_00.123456789/key
"""

import base64
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

from quorate.local.controllers.access import Secret
from quorate.local.runtime.containers.environment import ConfigError, PodFacts, pod_field, resource_field
from quorate.local.runtime.pod_types import (
    ConfigMap,
    ConfigMapSource,
    DownwardSource,
    Pod,
    ProjectedSource,
    Projection,
    SecretSource,
    TokenSource,
    Volume,
)

DATA: Final = "..data"
_NEW_LINK: Final = "..data_tmp"


@dataclass(frozen=True, slots=True)
class VolumeFile:
    content: bytes
    mode: int = 0o644


def is_safe(path: str) -> bool:
    """Return True if a path stays below its volume, and is no name of the writer's own files."""
    parts = PurePosixPath(path).parts
    return bool(parts) and not path.startswith("/") and ".." not in parts and not parts[0].startswith("..")


def write_files(directory: Path, files: Mapping[str, VolumeFile], version: str) -> bool:
    """Replace the content of a directory by ``files``, by relative path; return False if it is equal already.

    ``version``: a name that no earlier version of this directory has.
    """
    if _current(directory) == files:
        return False
    new = directory / f"..{version}"
    new.mkdir(mode=0o755, parents=True)
    for path, file in files.items():
        target = new / path
        target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        target.write_bytes(file.content)
        target.chmod(file.mode)
    link = directory / _NEW_LINK
    link.unlink(missing_ok=True)
    link.symlink_to(new.name)
    old = directory / DATA
    previous = directory / os.readlink(old) if old.is_symlink() else None
    link.replace(old)
    tops = {PurePosixPath(path).parts[0] for path in files}
    for entry in directory.iterdir():
        if entry.is_symlink() and not entry.name.startswith("..") and entry.name not in tops:
            entry.unlink()
    for top in tops:
        if not (directory / top).is_symlink():
            (directory / top).symlink_to(f"{DATA}/{top}")
    if previous is not None:
        shutil.rmtree(previous, ignore_errors=True)
    return True


def _current(directory: Path) -> dict[str, VolumeFile] | None:
    """Return the files of the current version, or None before the first."""
    data = directory / DATA
    if not data.is_dir():
        return None
    return {
        str(path.relative_to(data)): VolumeFile(path.read_bytes(), path.stat().st_mode & 0o7777)
        for path in data.rglob("*")
        if path.is_file()
    }


Files = dict[str, VolumeFile]


class VolumeError(Exception):
    """A volume cannot be made now; the kubelet retries (``FailedMount``)."""


class ObjectReader(Protocol):
    """Reads what volumes refer to."""

    async def config_map(self, namespace: str, name: str) -> ConfigMap | None: ...
    async def secret(self, namespace: str, name: str) -> Secret | None: ...
    async def token(self, pod: Pod, source: TokenSource) -> str: ...
    def authority(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class VolumeContext:
    pod: Pod
    facts: PodFacts
    reader: ObjectReader


def refers_to(volume: Volume) -> tuple[set[str], set[str]]:
    """Return the names of the ConfigMaps and of the Secrets that a volume contains."""
    projections = volume.projected.sources if volume.projected else ()
    config_maps = {p.config_map.name for p in projections if p.config_map}
    secrets = {p.secret.name for p in projections if p.secret}
    if volume.config_map:
        config_maps.add(volume.config_map.name)
    if volume.secret:
        secrets.add(volume.secret.secret_name)
    return config_maps, secrets


async def files_of(volume: Volume, context: VolumeContext) -> Files | None:
    """Return the files of a volume by relative path, or None if its content is not the API's.

    Raises ``VolumeError``.
    """
    files = await _files(volume, context)
    for path in files or ():
        if not is_safe(path):
            raise VolumeError(f"invalid path {path!r}: it must be relative and without '..'")
    return files


async def _files(volume: Volume, context: VolumeContext) -> Files | None:
    if volume.config_map is not None:
        return await _config_map_files(volume.config_map, volume.config_map.default_mode, context)
    if volume.secret is not None:
        source = volume.secret
        return await _secret_files(source.secret_name, source, source.default_mode, context)
    if volume.downward_api is not None:
        return _downward_files(volume.downward_api, volume.downward_api.default_mode, context)
    if volume.projected is not None:
        return await _projected_files(volume.projected, context)
    return None


async def _projected_files(projected: ProjectedSource, context: VolumeContext) -> Files:
    files: Files = {}
    for source in projected.sources:
        files |= await _projection_files(source, projected.default_mode, context)
    return files


async def _projection_files(source: Projection, mode: int, context: VolumeContext) -> Files:
    if source.config_map is not None:
        if source.config_map.name == ROOT_CA:
            authority = VolumeFile(context.reader.authority(), mode)
            return {item.path: authority for item in source.config_map.items} or {"ca.crt": authority}
        return await _config_map_files(source.config_map, mode, context)
    if source.secret is not None:
        return await _secret_files(source.secret.name, source.secret, mode, context)
    if source.downward_api is not None:
        return _downward_files(source.downward_api, mode, context)
    if source.service_account_token is not None:
        token = await context.reader.token(context.pod, source.service_account_token)
        return {source.service_account_token.path: VolumeFile(token.encode(), mode)}
    raise VolumeError("this projected volume source is not available in the process runtime")


ROOT_CA = "kube-root-ca.crt"  # every namespace of a cluster has this ConfigMap


async def _config_map_files(source: ConfigMapSource, mode: int, context: VolumeContext) -> Files:
    referenced = await context.reader.config_map(context.pod.metadata.namespace, source.name)
    if referenced is None:
        if source.optional:
            return {}
        raise VolumeError(f'configmap "{source.name}" not found')
    contents = {key: value.encode() for key, value in referenced.data.items()}
    contents |= {key: base64.b64decode(value) for key, value in referenced.binary_data.items()}
    return _select(contents, source, mode)


async def _secret_files(name: str, source: SecretSource, mode: int, context: VolumeContext) -> Files:
    referenced = await context.reader.secret(context.pod.metadata.namespace, name)
    if referenced is None:
        if source.optional:
            return {}
        raise VolumeError(f'secret "{name}" not found')
    return _select({key: base64.b64decode(value) for key, value in referenced.data.items()}, source, mode)


def _select(contents: Mapping[str, bytes], source: ConfigMapSource, mode: int) -> Files:
    if not source.items:
        return {key: VolumeFile(content, mode) for key, content in contents.items()}
    missing = [item.key for item in source.items if item.key not in contents]
    if missing and not source.optional:
        raise VolumeError(f"references non-existent config key: {missing[0]}")
    return {
        item.path: VolumeFile(contents[item.key], mode if item.mode is None else item.mode)
        for item in source.items
        if item.key in contents
    }


def _downward_files(source: DownwardSource, mode: int, context: VolumeContext) -> Files:
    files: Files = {}
    pod, facts = context.pod, context.facts
    try:
        for item in source.items:
            if item.field_ref is not None:
                text = pod_field(pod, item.field_ref.field_path, facts)
            elif item.resource_field_ref is not None:
                named = pod.container(item.resource_field_ref.container_name) or pod.spec.containers[0]
                text = resource_field(pod, named, item.resource_field_ref, facts)
            else:
                continue
            files[item.path] = VolumeFile(text.encode(), mode if item.mode is None else item.mode)
    except ConfigError as error:
        raise VolumeError(str(error)) from error
    return files
