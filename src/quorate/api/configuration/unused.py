"""Decoders of fields that are checked but have no effect; each produces a warning."""

from typing import Final

from quorate.api.decoding.strict import ignored_section, integer, label_selector

QUEUE_VISIBILITY: Final = ignored_section(
    {
        "clusterQueues": ignored_section({"maxCount": integer(minimum=0, maximum=4000)}),
        "updateIntervalSeconds": integer(minimum=1),
    }
)
POD_OPTIONS: Final = ignored_section({"namespaceSelector": label_selector, "podSelector": label_selector})
