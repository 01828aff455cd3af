"""Commands with the verb first, as in kueuectl and kubectl: ``list cq``, ``get wl NAME``."""

from collections.abc import Mapping, Sequence
from typing import Final

_VERBS: Final = ("create", "delete", "describe", "get", "list", "resume", "stop")
# By singular, plural and short name: the group of commands, and what selects the kind in it.
_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("workload", "workloads", "wl", "kwl"), ("workload",)),
    **dict.fromkeys(("clusterqueue", "clusterqueues", "cq"), ("queue",)),
    **dict.fromkeys(("localqueue", "localqueues", "lq", "queue", "queues"), ("queue", "--local")),
    **dict.fromkeys(("resourceflavor", "resourceflavors", "rf", "flavor", "flavors"), ("flavor",)),
    **dict.fromkeys(("topology", "topologies"), ("topology",)),
    **dict.fromkeys(("podgroup", "podgroups", "pg"), ("podgroup",)),
    **dict.fromkeys(("vcjob", "vcjobs", "vj"), ("vcjob",)),
    **dict.fromkeys(("vcqueue", "vcqueues", "q"), ("vcqueue",)),
}
_GET: Final = {"podgroup": "explain", "vcjob": "view", "vcqueue": "get"}


def group_first(args: Sequence[str]) -> list[str]:
    """Return ``args`` with the group of commands first; others unchanged.

    ``get`` lists objects, or shows the one that is named directly after its kind.
    """
    match args:
        case verb, "pods" | "pod", *rest if verb in ("get", "list"):
            return ["workload", "pods", *(word.removeprefix("--for=") for word in rest if word != "--for")]
        case verb, written, *rest if verb in _VERBS:
            kind, slash, name = written.partition("/")
            found = _KINDS.get(kind.lower().partition(".")[0])
            if found is None:
                return [*args]
            group, *selection = found
            names = [name] if slash else []
            if verb == "get":
                is_named = slash or (rest and not rest[0].startswith("-"))
                verb = _GET.get(group, "describe") if is_named else "list"
            return [group, verb, *selection, *names, *rest]
    return [*args]
