"""The pods of a cluster, of which each controller reads a selection.

If a controller reads all pods, one watch serves all selections; it has pods that have ended, too.  Otherwise,
pods that no controller reads are not watched: there is one watch for each selector.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from quorate.api.core.pod import Pod
from quorate.kube.informer import Informer
from quorate.kube.resources import PLACEABLE_PODS
from quorate.kube.selection import Selection

if TYPE_CHECKING:
    from quorate.kube.client import Client


class PodSelector(NamedTuple):
    """What a server selects, at least."""

    labels: str = ""
    fields: str = ""


ALL: Final = PodSelector()
UNFINISHED: Final = PodSelector(fields="status.phase!=Succeeded,status.phase!=Failed")


class PodInformers:
    """One informer for all pods if ``reads_all``, else one for each selector."""

    def __init__(self, client: "Client", *, reads_all: bool) -> None:
        self._client = client
        self._reads_all = reads_all
        self._informers: dict[PodSelector, Informer[Pod]] = {}

    def select(
        self, name: str, selector: PodSelector, selects: Callable[[Pod], bool], *, is_small: bool = False
    ) -> Selection[Pod]:
        """Return the pods that ``selects`` accepts; ``selector`` must select these, and may select others."""
        labels, fields = selector = ALL if self._reads_all else selector
        if selector not in self._informers:
            self._informers[selector] = Informer(
                self._client, PLACEABLE_PODS, label_selector=labels, field_selector=fields
            )
        return Selection(name, self._informers[selector], selects, is_small=is_small)

    def all(self, name: str) -> Selection[Pod]:
        return self.select(name, ALL, lambda _: True)
