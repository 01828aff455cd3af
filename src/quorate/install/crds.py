"""The CustomResourceDefinitions of an installation, and the policy that refuses to delete them."""

from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Final

from quorate.api.codec import Json
from quorate.api.crds import (
    DESCRIPTIONS,
    KUEUE_FIELDS,
    QUORATE_FIELDS,
    VOLCANO_FIELDS,
    custom_resource_definitions,
)
from quorate.install.roles import manifest, metadata

ALLOW_DELETION: Final = "quorate.dev/allow-deletion"  # annotation of a definition
_ADMISSION: Final = "admissionregistration.k8s.io/v1"
_POLICY: Final = "quorate-definition-deletion"
GANG: Final = "gang"  # directory of Volcano's groups, which a cluster may have from Volcano


def queueing_definitions(conversions: Mapping[str, Json] | None = None) -> tuple[Json, ...]:
    """Return the definitions of ``kueue.x-k8s.io`` and ``quorate.dev``, sorted by group and kind.

    ``conversions``: see ``custom_resource_definitions``.
    """
    descriptions = _shipped(DESCRIPTIONS)
    return (
        *custom_resource_definitions(_shipped(KUEUE_FIELDS), conversions, descriptions),
        *custom_resource_definitions(_shipped(QUORATE_FIELDS), descriptions=descriptions),
    )


def gang_definitions() -> tuple[Json, ...]:
    """Return the definitions of Volcano's groups."""
    return custom_resource_definitions(_shipped(VOLCANO_FIELDS), descriptions=_shipped(DESCRIPTIONS))


def _shipped(name: str) -> str:
    """Return the text of a file that ships with the package."""
    return (files("quorate.api.crds") / name).read_text(encoding="utf-8")


def deletion_policy() -> Iterator[Json]:
    """Yield the admission policy that refuses to delete a definition, and the binding of the policy.

    With a definition every object of its kind is deleted.  A policy needs no server that can be down, and
    sees no other objects: it cannot count those of the kind.
    """
    groups = sorted(
        {definition["spec"]["group"] for definition in (*queueing_definitions(), *gang_definitions())}
    )
    allowed = f"oldObject.metadata.?annotations[?'{ALLOW_DELETION}'].orValue('') == 'true'"
    message = (
        "'with this definition every ' + oldObject.spec.names.kind + ' of the cluster is deleted "
        f"(to allow it: kubectl annotate crd ' + oldObject.metadata.name + ' {ALLOW_DELETION}=true)'"
    )
    rule = {
        "apiGroups": ["apiextensions.k8s.io"],
        "apiVersions": ["*"],
        "operations": ["DELETE"],
        "resources": ["customresourcedefinitions"],
    }
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "group", "expression": f"oldObject.spec.group in {groups}"}],
        "validations": [{"expression": allowed, "messageExpression": message, "reason": "Forbidden"}],
    }
    binding = {"policyName": _POLICY, "validationActions": ["Deny"]}
    yield manifest(_ADMISSION, "ValidatingAdmissionPolicy", metadata(_POLICY), spec=policy)
    yield manifest(_ADMISSION, "ValidatingAdmissionPolicyBinding", metadata(_POLICY), spec=binding)
