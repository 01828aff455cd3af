"""The volumes of a pod as directories of the host, and the mounts of a container.

The files of configMap, secret, downwardAPI and projected volumes all change at once, as in directories of a
kubelet: ``..data`` links to the version, and a reader that opens files below it sees one version of all.

    key         -> ..data/key
    ..data      -> ..2026_11_28_17_00_00.123456789
    ..2026_11_28_17_00_00.123456789/key
"""

import asyncio
import base64
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from msgspec.structs import replace

from quorate.kube.clock import Clock
from quorate.local.runtime.containers.environment import (
    ConfigError,
    PodFacts,
    expand,
    pod_field,
    resource_field,
)
from quorate.local.runtime.containers.sandbox import Mount
from quorate.local.runtime.objects import ApiObjects, VolumeError
from quorate.local.runtime.pod_types import (
    ConfigMapSource,
    Container,
    DownwardFile,
    DownwardSource,
    EmptyDirSource,
    FieldSelector,
    HostPathSource,
    Pod,
    ProjectedSource,
    Projection,
    SecretSource,
    TokenSource,
    Volume,
    VolumeMount,
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


@dataclass(frozen=True, slots=True)
class VolumeContext:
    pod: Pod
    facts: PodFacts
    objects: ApiObjects


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
            authority = VolumeFile(context.objects.authority(), mode)
            return {item.path: authority for item in source.config_map.items} or {"ca.crt": authority}
        return await _config_map_files(source.config_map, mode, context)
    if source.secret is not None:
        return await _secret_files(source.secret.name, source.secret, mode, context)
    if source.downward_api is not None:
        return _downward_files(source.downward_api, mode, context)
    if source.service_account_token is not None:
        token = await context.objects.token(context.pod, source.service_account_token)
        return {source.service_account_token.path: VolumeFile(token.encode(), mode)}
    raise VolumeError("this projected volume source is not available in the process runtime")


ROOT_CA = "kube-root-ca.crt"  # every namespace of a cluster has this ConfigMap


async def _config_map_files(source: ConfigMapSource, mode: int, context: VolumeContext) -> Files:
    referenced = await context.objects.config_map(context.pod.metadata.namespace, source.name)
    if referenced is None:
        if source.optional:
            return {}
        raise VolumeError(f'configmap "{source.name}" not found')
    contents = {key: value.encode() for key, value in referenced.data.items()}
    contents |= {key: base64.b64decode(value) for key, value in referenced.binary_data.items()}
    return _select(contents, source, mode)


async def _secret_files(name: str, source: SecretSource, mode: int, context: VolumeContext) -> Files:
    referenced = await context.objects.secret(context.pod.metadata.namespace, name)
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


def downward_facts(pod: Pod) -> tuple[object, ...]:
    """Return what files of the downward API show and an update of the pod may change."""
    metadata = pod.metadata
    return metadata.labels, metadata.annotations, [container.resources for container in pod.spec.containers]


TOKEN_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN_VOLUME: Final = "kube-api-access"
TOKEN_LIFETIME_S: Final = 3607


@dataclass(slots=True)
class PodVolumes:
    """The volumes of a pod. The kubelet makes directories for volumes and deletes them with the pod."""

    directory: Path
    sources: dict[str, Path] = field(default_factory=dict)  # of volumes that can be mounted, by name


def with_service_account(pod: Pod) -> Pod:
    """Return the pod with the volume of its service account's token, as an API server would admit it."""
    if any(volume.name == TOKEN_VOLUME for volume in pod.spec.volumes):
        return pod
    volume = Volume(name=TOKEN_VOLUME, projected=_TOKEN_SOURCES)
    mount = VolumeMount(name=TOKEN_VOLUME, mount_path=TOKEN_PATH, read_only=True)

    def mounted(container: Container) -> Container:
        if any(PurePosixPath(m.mount_path) == PurePosixPath(TOKEN_PATH) for m in container.volume_mounts):
            return container
        return replace(container, volume_mounts=(*container.volume_mounts, mount))

    spec = replace(
        pod.spec,
        volumes=(*pod.spec.volumes, volume),
        containers=tuple(map(mounted, pod.spec.containers)),
        init_containers=tuple(map(mounted, pod.spec.init_containers)),
    )
    return replace(pod, spec=spec)


_TOKEN_SOURCES: Final = ProjectedSource(
    sources=(
        Projection(service_account_token=TokenSource(expiration_seconds=TOKEN_LIFETIME_S)),
        Projection(config_map=ConfigMapSource(name=ROOT_CA)),
        Projection(
            downward_api=DownwardSource(
                items=(
                    DownwardFile(path="namespace", field_ref=FieldSelector(field_path="metadata.namespace")),
                )
            )
        ),
    )
)


async def prepare_volumes(
    volumes: PodVolumes, context: VolumeContext, claims: Mapping[str, Path], clock: Clock
) -> None:
    """Make the directories of a pod's volumes, or bring their content up to date.

    ``claims`` are the directories of its PersistentVolumeClaims, by claim. Raises ``VolumeError``.
    """
    for volume in context.pod.spec.volumes:
        try:
            volumes.sources[volume.name] = await _prepare(volumes, volume, context, claims, clock)
        except (OSError, ValueError, VolumeError) as error:
            raise VolumeError(f'MountVolume.SetUp failed for volume "{volume.name}" : {error}') from error


async def _prepare(
    volumes: PodVolumes, volume: Volume, context: VolumeContext, claims: Mapping[str, Path], clock: Clock
) -> Path:
    directory = volumes.directory / volume.name
    if volume.host_path is not None:
        return await asyncio.to_thread(_host_path, volume.host_path)
    if volume.persistent_volume_claim is not None:
        claim = volume.persistent_volume_claim.claim_name
        if claim not in claims:
            raise VolumeError(f'persistentvolumeclaim "{claim}" has no hostPath or local volume on this node')
        return claims[claim]
    files = await files_of(volume, context)
    if files is not None:
        version = f"{clock.now():.6f}"
        await asyncio.to_thread(_write, directory, files, version)
        return directory
    if volume.empty_dir is None:
        raise VolumeError("a volume of this type is not available in the process runtime")
    await asyncio.to_thread(_empty_directory, directory, volume.empty_dir)
    return directory


def _empty_directory(directory: Path, source: EmptyDirSource) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    if source.medium == "Memory" and not directory.is_mount():
        size = [] if source.size_limit is None else [f"-osize={source.size_limit.units}"]
        # Where mounts are not permitted the directory is on the disk.
        subprocess.run(["mount", "-t", "tmpfs", *size, "tmpfs", directory], check=False, capture_output=True)
    directory.chmod(0o777)


def _write(directory: Path, files: Files, version: str) -> None:
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    write_files(directory, files, version)


def _host_path(source: HostPathSource) -> Path:
    """Return the path of a hostPath volume, created if its type says so.  Raises ``VolumeError``."""
    path = Path(source.path)
    match source.type:
        case "DirectoryOrCreate":
            path.mkdir(mode=0o755, parents=True, exist_ok=True)
        case "FileOrCreate":
            path.touch(mode=0o644, exist_ok=True)
        case "Directory" if not path.is_dir():
            raise VolumeError(f"hostPath type check failed: {path} is not a directory")
        case "File" if not path.is_file():
            raise VolumeError(f"hostPath type check failed: {path} is not a file")
        case "" if not path.exists():
            path.mkdir(mode=0o755, parents=True, exist_ok=True)  # as container runtimes do
    return path


def mounts_of(container: Container, volumes: PodVolumes, environment: Mapping[str, str]) -> list[Mount]:
    """Return the volume mounts of a container, outer paths before inner ones.  Raises ``VolumeError``."""
    mounts = []
    for mount in container.volume_mounts:
        source = volumes.sources.get(mount.name)
        if source is None:
            raise VolumeError(f'volume "{mount.name}" not found')
        sub_path = expand(mount.sub_path_expr, environment) if mount.sub_path_expr else mount.sub_path
        if sub_path:
            source = _sub_path(source, sub_path)
        mounts.append(Mount(source, str(PurePosixPath("/") / mount.mount_path), mount.read_only))
    return sorted(mounts, key=lambda mount: len(PurePosixPath(mount.target).parts))


def read_file(volumes: PodVolumes, volume: str, path: str) -> str | None:
    """Return the text of a file in a volume, or None if the volume has no such file."""
    source = volumes.sources.get(volume)
    if source is None or not is_safe(path):
        return None
    file = (source / path).resolve()
    try:
        return file.read_text(errors="replace") if file.is_relative_to(source.resolve()) else None
    except OSError:
        return None


def _sub_path(source: Path, sub_path: str) -> Path:
    if not is_safe(sub_path):
        raise VolumeError(f"subPath {sub_path!r}: must be relative and without '..'")
    path = source / sub_path
    if not path.exists():
        path.mkdir(mode=0o755, parents=True)
    resolved = path.resolve()  # the version of a file, which no update replaces
    if not resolved.is_relative_to(source.resolve()):
        raise VolumeError(f"subPath {sub_path!r}: leads out of the volume")
    return resolved


def remove_volumes(volumes: PodVolumes) -> None:
    for directory in volumes.directory.glob("*"):
        if directory.is_mount():
            subprocess.run(["umount", "-l", directory], check=False, capture_output=True)
    shutil.rmtree(volumes.directory, ignore_errors=True)
