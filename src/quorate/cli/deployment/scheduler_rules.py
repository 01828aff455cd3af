"""Which rights the gang scheduler needs: the table behind its roles and their test, as ``rights`` is.

What it writes of pods is where they run and why not, and it deletes those that must give way; of pod groups
the status, which Volcano's definition has in the object itself; of claims where they will be used.
"""

from typing import Final

from quorate.api import volcano
from quorate.api.kueue import provisioning
from quorate.api.volcano import legacy as volcano_legacy
from quorate.cli.deployment.controller_rules import OWN, READ, Right

SCHEDULER_RIGHTS: Final = (
    Right("the pods to be placed, and those that have a place", "", ("pods",), READ),
    Right("having pods give way to others", "", ("pods",), ("delete",)),
    Right("giving pods their nodes", "", ("pods/binding",), ("create",)),
    Right("telling why pods wait, and why they go", "", ("pods/status",), ("patch",)),
    Right("what nodes there are", "", ("nodes",), READ),
    Right("which namespaces a pod wants to be near or far from", "", ("namespaces",), READ),
    Right("where volumes tie pods to", "", ("persistentvolumeclaims", "persistentvolumes"), READ),
    Right("saying where a claim will be used that waits for its pod, or which volume is kept for it", "",
          ("persistentvolumeclaims", "persistentvolumes"), ("patch",)),
    Right("where volumes can be made, and how many a node takes", "storage.k8s.io",
          ("storageclasses", "csinodes"), READ),
    Right("what is decided about pod groups", volcano.GROUP, ("podgroups",), (*READ, "patch")),
    Right(
        "the same, where their definition keeps the status apart", volcano.GROUP, ("podgroups/status",),
        ("patch",),
    ),
    Right("the queues of pod groups, of which two are always there", volcano.GROUP, ("queues",),
          (*READ, "create")),
    Right("telling what the pods of queues hold", volcano.GROUP, ("queues/status",), ("patch",)),
    Right("what quotas leave to pod groups", "", ("resourcequotas",), READ),
    Right("priorities of pod groups", "scheduling.k8s.io", ("priorityclasses",), READ),
    Right("telling what happened", "events.k8s.io", ("events",), ("create", "get", "patch")),
    Right("who asks for metrics", "authentication.k8s.io", ("tokenreviews",), ("create",)),
    Right("whether they may have them", "authorization.k8s.io", ("subjectaccessreviews",), ("create",)),
    Right(
        "one of several replicas decides", "coordination.k8s.io", ("leases",),
        ("get", "create", "patch"), OWN,
    ),
)  # fmt: skip
# With ``--legacy-apis`` only.
LEGACY_RIGHTS: Final = (
    *(
        Right("what older versions say", group, ("podgroups", "queues"), READ)
        for group, _ in volcano_legacy.VERSIONS
    ),
    Right("their pod groups in the version of today", volcano.GROUP, ("podgroups",), ("create",)),
    Right("their queues in the version of today", volcano.GROUP, ("queues",), ("patch",)),
)
# With ``--provisioning-class`` only.
DEMAND_RIGHTS: Final = (
    Right("asking autoscalers for nodes", provisioning.GROUP, ("provisioningrequests",),
          ("create", "delete", "get", "list")),
    Right("the pods that nodes are asked for", "", ("podtemplates",), ("create", "delete")),
    Right("owning both by pod groups", volcano.GROUP, ("podgroups/finalizers",), ("update",)),
)  # fmt: skip
