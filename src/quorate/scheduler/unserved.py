"""What a pod group asks for and is placed without: said, so that nobody relies on it."""

from collections.abc import Iterator

from quorate.api.volcano import NetworkTopology, PodGroupSpec


def unserved(spec: PodGroupSpec) -> Iterator[str]:
    """A sentence on each field that changes nothing here."""
    if spec.network_topology is not None:
        yield _said("spec.networkTopology", spec.network_topology)
    for at, policy in enumerate(spec.sub_group_policy):
        path = f"spec.subGroupPolicy[{at}]"
        yield (
            f"{path} is not served: minMember and minTaskMember say which members start together, and "
            f"{policy.name or 'its sub groups'} may start in part"
        )
        if policy.network_topology is not None:
            yield _said(f"{path}.networkTopology", policy.network_topology)


def _said(path: str, topology: NetworkTopology) -> str:
    return (
        f"{path} ({topology.mode}) is not served: members are placed without regard to the network "
        "(pod affinity to a node label such as the rack's keeps them near each other)"
    )
