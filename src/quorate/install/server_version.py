"""The version that an API server reports, as distributions and builds without a stamp write it."""

import re
from typing import Final

from quorate.api.meta import Struct
from quorate.kube.client import Client

_NUMBER: Final = re.compile(r"([0-9]{1,4})\+?")  # GKE and EKS report the minor version 36+
_GIT_VERSION: Final = re.compile(r"v?([0-9]{1,4})\.([0-9]{1,4})(?:[.+-].*)?")


class ServerVersion(Struct):
    """The response of GET /version."""

    git_version: str = ""
    major: str = ""
    minor: str = ""
    emulation_major: str = ""  # of --emulated-version, which decides what the server supports
    emulation_minor: str = ""

    @property
    def numbers(self) -> tuple[int, int] | None:
        """Return the major and minor version of what the server supports; None if it is not known.

        A build without a stamp has the gitVersion ``v0.0.0-master+$Format:%H$``, and may have no major
        and minor version.
        """
        git = _GIT_VERSION.fullmatch(self.git_version)
        for major, minor in (
            (self.emulation_major, self.emulation_minor),
            (self.major, self.minor),
            git.groups() if git is not None else ("", ""),
        ):
            numbers = _NUMBER.fullmatch(major), _NUMBER.fullmatch(minor)
            if numbers[0] is not None and numbers[1] is not None and int(numbers[0][1]) > 0:
                return int(numbers[0][1]), int(numbers[1][1])
        return None

    def __str__(self) -> str:
        """Return the gitVersion, after the version that it does not show."""
        if self.numbers is None:
            return self.git_version or "of unknown version"
        short = f"v{self.numbers[0]}.{self.numbers[1]}"
        shows_it = re.match(rf"{re.escape(short)}(?![0-9])", self.git_version)
        return self.git_version if shows_it else f"{short} ({self.git_version or 'no gitVersion'})"


async def server_version(client: Client) -> ServerVersion:
    return await client.request_as(ServerVersion, "GET", "/version")
