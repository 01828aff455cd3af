"""The configuration of a kubelet process, which its supervisor writes to a file."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from quorate.api.meta import Struct

FILE = "kubelet.json"
ERROR_FILE = "kubelet.error"  # the last line of a traceback, if the kubelet ended with an exception


class KubeletConfiguration(Struct, omit_defaults=False):
    kubeconfig: str
    authority: str  # file with the certificate authority of the API server
    state: str  # directory
    node_name: str
    home: str  # directory of the user
    resources: Mapping[str, str] = {}  # instead of what the machine has
    images: Mapping[str, str] = {}  # root directories, by image

    def write(self) -> Path:
        """Write the configuration to the state directory and return the file's path."""
        path = Path(self.state) / FILE
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode(self))
        return path


def read_configuration(path: Path) -> KubeletConfiguration:
    return msgspec.json.decode(path.read_bytes(), type=KubeletConfiguration)
