"""Why a patch was refused, with what the answer to the client needs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cause:
    """One finding: a cause in the details of a Status."""

    reason: str
    message: str
    field: str


class PatchRefused(Exception):
    """The patch cannot be applied; attributes are those of the Status that says so."""

    def __init__(self, code: int, reason: str, message: str, causes: tuple[Cause, ...] = ()) -> None:
        super().__init__(code, reason, message, causes)
        self.code, self.reason, self.message, self.causes = code, reason, message, causes

    def __str__(self) -> str:
        return self.message


def bad_request(message: str) -> PatchRefused:
    """The patch is not what its content type says."""
    return PatchRefused(400, "BadRequest", message)


def unprocessable() -> PatchRefused:
    """A JSON patch does not fit the object; kube-apiserver does not say where."""
    return PatchRefused(422, "Invalid", "the server rejected our request due to an error in our request")


def internal(message: str) -> PatchRefused:
    """What kube-apiserver answers as an internal error, though the client is at fault."""
    return PatchRefused(500, "", message)
