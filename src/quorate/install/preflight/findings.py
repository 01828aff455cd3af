"""A finding about a cluster: severity, subject, text and remedy."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from quorate.api.meta import Struct


class Severity(StrEnum):
    ERROR = "error"  # something does not work
    WARNING = "warning"  # something works differently than expected
    INFO = "info"  # worth knowing


class PreflightFinding(Struct):
    severity: Severity
    about: str  # the object or the part of the cluster
    says: str
    remedy: str = ""


_RANK: Final = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


def error(about: str, says: str, remedy: str = "") -> PreflightFinding:
    return PreflightFinding(severity=Severity.ERROR, about=about, says=says, remedy=remedy)


def warning(about: str, says: str, remedy: str = "") -> PreflightFinding:
    return PreflightFinding(severity=Severity.WARNING, about=about, says=says, remedy=remedy)


def info(about: str, says: str, remedy: str = "") -> PreflightFinding:
    return PreflightFinding(severity=Severity.INFO, about=about, says=says, remedy=remedy)


def by_severity(findings: Iterable[PreflightFinding]) -> tuple[PreflightFinding, ...]:
    """Sort by severity, otherwise keep the order."""
    return tuple(sorted(findings, key=lambda finding: _RANK[finding.severity]))
