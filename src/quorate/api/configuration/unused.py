"""Fields of Configuration that are checked, but that change nothing: each is answered with a warning."""

from typing import Final

from quorate.api.decoding.strict import checked, integer, label_selector

QUEUE_VISIBILITY: Final = checked(
    {
        "clusterQueues": checked({"maxCount": integer(least=0, most=4000)}),
        "updateIntervalSeconds": integer(least=1),
    }
)
POD_OPTIONS: Final = checked({"namespaceSelector": label_selector, "podSelector": label_selector})
