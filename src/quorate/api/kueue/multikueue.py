"""MultiKueueConfig and MultiKueueCluster (``kueue.x-k8s.io/v1beta2``), and what is read to connect.

A Secret has the kubeconfig of a worker cluster.  A ClusterProfile (``multicluster.x-k8s.io``, KEP-5339)
describes how to reach a cluster; a plugin of the Configuration gives the credentials.
"""

from typing import Any, Final, Literal

from quorate.api.meta import Condition, ObjectMeta, Struct

KUBECONFIG_KEY: Final = "kubeconfig"  # of the data of a Secret
PROFILE_GROUP: Final = "multicluster.x-k8s.io"


class MultiKueueConfigSpec(Struct):
    clusters: tuple[str, ...] = ()  # the most preferred first
    quota_management: Literal["Manual", "Automated"] | None = None


class MultiKueueConfig(Struct):
    metadata: ObjectMeta
    spec: MultiKueueConfigSpec = MultiKueueConfigSpec()


class KubeConfig(Struct):
    location: str
    location_type: Literal["Secret", "Path"] = "Secret"


class ClusterProfileRef(Struct):
    name: str


class ClusterSource(Struct):
    """Where the credentials of a worker cluster are: exactly one of both."""

    kube_config: KubeConfig | None = None
    cluster_profile_ref: ClusterProfileRef | None = None


class MultiKueueClusterSpec(Struct):
    cluster_source: ClusterSource = ClusterSource()


class MultiKueueClusterStatus(Struct):
    conditions: tuple[Condition, ...] = ()


class MultiKueueCluster(Struct):
    metadata: ObjectMeta
    spec: MultiKueueClusterSpec = MultiKueueClusterSpec()
    status: MultiKueueClusterStatus = MultiKueueClusterStatus()


class Secret(Struct):
    """A Secret with its data in base64, which no text of ours shows."""

    metadata: ObjectMeta
    data: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"Secret({self.metadata.key})"


class AccessProvider(Struct):
    """How a cluster is reached; ``cluster`` has the fields of a cluster in a kubeconfig."""

    name: str
    cluster: dict[str, Any] = {}


class ClusterProfileStatus(Struct):
    access_providers: tuple[AccessProvider, ...] = ()
    credential_providers: tuple[AccessProvider, ...] = ()  # the former name


class ClusterProfile(Struct):
    metadata: ObjectMeta
    status: ClusterProfileStatus = ClusterProfileStatus()
