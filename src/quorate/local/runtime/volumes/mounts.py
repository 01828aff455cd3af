"""The volumes of a pod as directories of the host, and the mounts of a container."""

import asyncio
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from msgspec.structs import replace

from quorate.kube.clock import Clock
from quorate.local.runtime.containers.environment import expand
from quorate.local.runtime.containers.sandbox import Mount
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
    TokenSource,
    Volume,
    VolumeMount,
)
from quorate.local.runtime.volumes.content import (
    ROOT_CA,
    Files,
    VolumeContext,
    VolumeError,
    files_of,
    is_safe,
    write_files,
)

TOKEN_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN_VOLUME: Final = "kube-api-access"
TOKEN_LIFETIME_S: Final = 3607


@dataclass(slots=True)
class PodVolumes:
    """The volumes of one pod; directories of the kubelet are deleted with the pod."""

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
