"""Reports on fields of pod groups and quotas that have no effect here, so that users do not rely on them."""

from collections.abc import Iterator

from quorate.api.core import ResourceQuota
from quorate.api.volcano import NetworkTopology, PodGroup, PodGroupSpec
from quorate.gang.namespace_quota.evaluation import unsupported_scopes
from quorate.kube.events import EventRecorder
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.kube.resources import POD_GROUPS, reference_to


def report_unsupported_fields(
    events: EventRecorder, groups: Informer[PodGroup], quotas: Informer[ResourceQuota]
) -> None:
    """Record an event on each pod group, and log each quota, when its spec comes or changes."""
    log = logger(__name__)

    def on_group(change: Change[PodGroup]) -> None:
        new = change.new
        if new is not None and (change.old is None or change.old.spec != new.spec):
            for message in unsupported_fields(new.spec):
                events.event(reference_to(POD_GROUPS, new), "Warning", "NotServed", message, unique=True)

    def on_quota(change: Change[ResourceQuota]) -> None:
        scopes = () if change.new is None else unsupported_scopes(change.new.spec)
        known = () if change.old is None else unsupported_scopes(change.old.spec)
        if scopes and scopes != known:
            log.warning("quota ignored: its scopes are not known", quota=change.key, scopes=scopes)

    groups.subscribe(on_group)
    quotas.subscribe(on_quota)


def unsupported_fields(spec: PodGroupSpec) -> Iterator[str]:
    """Yield a message for each field that has no effect."""
    if spec.network_topology is not None:
        yield _topology_message("spec.networkTopology", spec.network_topology)
    for index, policy in enumerate(spec.sub_group_policy):
        path = f"spec.subGroupPolicy[{index}]"
        yield (
            f"{path} is not served: minMember and minTaskMember say which members start together, and "
            f"{policy.name or 'its sub groups'} may start in part"
        )
        if policy.network_topology is not None:
            yield _topology_message(f"{path}.networkTopology", policy.network_topology)


def _topology_message(path: str, topology: NetworkTopology) -> str:
    return (
        f"{path} ({topology.mode}) is not served: members are placed without regard to the network "
        "(pod affinity to a node label such as the rack's keeps them near each other)"
    )
