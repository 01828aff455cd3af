"""The user of a request."""

from dataclasses import dataclass

from quorate.cli.dashboard.queries import Viewer
from quorate.cli.dashboard.sessions import Session


@dataclass(frozen=True, slots=True)
class Caller:
    session: Session
    viewer: Viewer  # what it may see
