"""Files of pods that outlive them, or come from a directory: claims of volumes, and images."""

import shutil
import subprocess
from pathlib import Path

import pytest

from quorate.api.meta import Key
from quorate.kube.resources import untyped
from tests.local.runtime.world import (
    PODS,
    Json,
    World,
    one_container,
    run_story,
    runs_processes,
)

pytestmark = [runs_processes, pytest.mark.slow]

CLAIMS = untyped("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True)


def root_directory(path: Path) -> Path:
    """Make a root directory with a shell, ``cat`` and the libraries that both need."""
    for program in ("sh", "cat"):
        found = shutil.which(program)
        assert found is not None
        libraries = subprocess.run(["ldd", found], capture_output=True, text=True, check=True).stdout.split()
        for file in [f"/bin/{program}", *(word for word in libraries if word.startswith("/"))]:
            target = path / file.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(found if target.name == program else file, target)
    (path / "etc").mkdir()
    (path / "etc" / "motto").write_text("of the image\n")
    return path


def test_a_container_sees_the_files_of_the_directory_of_its_image(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        text = "cat /etc/motto; test -e /usr/bin/env || echo none of the host"
        for name, image in (("inside", "tool:1.0"), ("outside", "other")):
            spec = one_container(text)
            spec["containers"][0]["image"] = image
            await world.run_pod(name, spec)
            await world.ended(name)
        assert await world.log("inside") == "of the image\nnone of the host\n"
        assert "of the image" not in await world.log("outside")

    run_story(tmp_path / "cluster", story, {"tool": root_directory(tmp_path / "root")})


def test_the_files_of_a_claim_outlive_its_pods(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        resources = {"requests": {"storage": "1Gi"}}
        claim = {"accessModes": ["ReadWriteOnce"], "resources": resources}
        await world.client.create(CLAIMS, {"metadata": {"name": "data"}, "spec": claim}, "default")

        def a_pod(text: str) -> Json:
            spec = one_container(text, volumeMounts=[{"name": "data", "mountPath": "/data"}])
            spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
            return spec

        await world.run_pod("writer", a_pod("echo kept > /data/file"))
        assert (await world.ended("writer"))["status"]["phase"] == "Succeeded"
        stored = await world.client.get(CLAIMS, Key("default", "data"))
        assert (stored["status"]["phase"], stored["spec"]["storageClassName"]) == ("Bound", "standard")
        await world.client.delete(PODS, Key("default", "writer"))
        await world.run_pod("reader", a_pod("cat /data/file"))
        await world.ended("reader")
        assert await world.log("reader") == "kept\n"

    run_story(tmp_path, story)
