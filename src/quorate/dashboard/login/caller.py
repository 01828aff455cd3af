"""The user of a request."""

from dataclasses import dataclass

from quorate.dashboard.login.sessions import Session
from quorate.dashboard.queries import Viewer


@dataclass(frozen=True, slots=True)
class Caller:
    session: Session
    viewer: Viewer  # what it may see
