"""What gangs on the stock scheduler need: a policy that groups pods, and the right to create pod groups."""

from collections.abc import Iterator
from typing import Final

from quorate.api import native_groups
from quorate.api.codec import Json
from quorate.api.native_groups import MEMBER_OF, POLICY
from quorate.install.controller_rules import PolicyRule
from quorate.install.roles import ACCOUNT, account_roles, metadata

RULES: Final = (
    PolicyRule("creating native pod groups", native_groups.GROUP, ("podgroups",), ("get", "create", "patch")),
    PolicyRule(
        "looking for the policy that groups pods",
        "admissionregistration.k8s.io",
        ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings"),
        ("get",),
        names=(POLICY,),
    ),
)
_ADMISSION: Final = "admissionregistration.k8s.io/v1"
_GROUP: Final = f"object.metadata.labels['{MEMBER_OF}']"


def native_gangs(namespace: str) -> Iterator[Json]:
    """Yield the admission policy, its binding, and the role of the controllers with its binding.

    The policy is part of the API server: it needs no webhook that can be down.  It replaces the group with
    which the Job controller of Kubernetes 1.37 makes the pods of a job without demands.
    """
    yield {
        "apiVersion": _ADMISSION,
        "kind": "MutatingAdmissionPolicy",
        "metadata": metadata(POLICY),
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                    }
                ],
                "objectSelector": {"matchExpressions": [{"key": MEMBER_OF, "operator": "Exists"}]},
            },
            "mutations": [
                {
                    "patchType": "JSONPatch",
                    "jsonPatch": {
                        "expression": f"[JSONPatch{{op: 'add', path: '/spec/schedulingGroup', "
                        f"value: {{'podGroupName': {_GROUP}}}}}]"
                    },
                }
            ],
        },
    }
    yield {
        "apiVersion": _ADMISSION,
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": metadata(POLICY),
        "spec": {"policyName": POLICY},
    }
    yield from account_roles(POLICY, ACCOUNT, RULES, namespace)
