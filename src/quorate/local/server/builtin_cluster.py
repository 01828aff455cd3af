"""The built-in kinds that say how the cluster is run: webhooks, endpoints, policies, aggregated APIs."""

from quorate.local.server.kinds import STATUS, Kind

WEBHOOKS = "admissionregistration.k8s.io"
FLOW_CONTROL = "flowcontrol.apiserver.k8s.io"

CLUSTER = (
    Kind("", "v1", "Endpoints", "endpoints", True, short_names=("ep",), list_kind="EndpointsList"),
    Kind(
        "discovery.k8s.io",
        "v1",
        "EndpointSlice",
        "endpointslices",
        True,
        counts_generations=True,
    ),
    Kind(
        WEBHOOKS,
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        False,
        categories=("api-extensions",),
        counts_generations=True,
    ),
    Kind(
        WEBHOOKS,
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        False,
        categories=("api-extensions",),
        counts_generations=True,
    ),
    Kind(
        "apiregistration.k8s.io",
        "v1",
        "APIService",
        "apiservices",
        False,
        categories=("api-extensions",),
        subresources=(STATUS,),
    ),
    Kind(
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        True,
        short_names=("pdb",),
        subresources=(STATUS,),
        counts_generations=True,
    ),
    Kind(
        "networking.k8s.io",
        "v1",
        "NetworkPolicy",
        "networkpolicies",
        True,
        short_names=("netpol",),
        counts_generations=True,
    ),
    Kind(
        FLOW_CONTROL,
        "v1",
        "FlowSchema",
        "flowschemas",
        False,
        subresources=(STATUS,),
        counts_generations=True,
    ),
    Kind(
        FLOW_CONTROL,
        "v1",
        "PriorityLevelConfiguration",
        "prioritylevelconfigurations",
        False,
        subresources=(STATUS,),
        counts_generations=True,
    ),
)
