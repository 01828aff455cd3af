"""The user of a request."""

from dataclasses import dataclass

from quorate.cli.dashboard.login.sessions import Session
from quorate.cli.dashboard.queries import Viewer


@dataclass(frozen=True, slots=True)
class Caller:
    session: Session
    viewer: Viewer  # what it may see
