"""Why jobs are in their state, as results of the Python API, which a notebook shows as tables."""

from dataclasses import dataclass
from typing import Final

from quorate.api.explanation import Explanation
from quorate.sdk.html import table


class Explanations(tuple[Explanation, ...]):
    """Explanations of several objects."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """Return the state of each object, the reason for it, and what would be enough, for a notebook."""
        return table(
            ("object", "state", "reason", "message", "enough"),
            [
                (found.object, found.state, found.code, found.message, "; ".join(found.enough))
                for found in self
            ],
        )


NO_EXPLANATIONS: Final = Explanations()


@dataclass(frozen=True, slots=True)
class Ended:
    """How a job ended; a job that has failed has ``explanations``."""

    job: str
    succeeded: bool
    message: str
    explanations: Explanations = NO_EXPLANATIONS

    def _repr_html_(self) -> str:
        """Return the end of the job, for a notebook."""
        result = "succeeded" if self.succeeded else "failed"
        return table(("job", "result", "message"), [(self.job, result, self.message)])
