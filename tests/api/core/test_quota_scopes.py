"""A quota counts the pods and the claims that all of its scopes select."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.core import ResourceQuotaSpec
from quorate.api.core.quota_scopes import ClaimAttributes, ScopeAttributes, is_counted_by

GROUP = ScopeAttributes()
GOLD = ClaimAttributes(frozenset({"gold"}))
CHANGING = ClaimAttributes(frozenset({"gold", "silver"}))


def spec(**fields: Any) -> ResourceQuotaSpec:
    return codec.convert(ResourceQuotaSpec, fields)


def selecting(scope: str, operator: str, *values: str) -> ResourceQuotaSpec:
    expression = {"scopeName": scope, "operator": operator, "values": list(values)}
    return spec(scopeSelector={"matchExpressions": [expression]})


@pytest.mark.parametrize(
    ("quota", "subject", "want"),
    [
        pytest.param(spec(), GROUP, True, id="without scopes all pods count"),
        pytest.param(
            spec(scopes=["NotTerminating", "NotBestEffort"]),
            GROUP,
            True,
            id="the attributes assumed for groups",
        ),
        pytest.param(spec(scopes=["Terminating"]), GROUP, False, id="no deadline"),
        pytest.param(spec(scopes=["BestEffort"]), GROUP, False, id="not best effort"),
        pytest.param(spec(scopes=["Terminating"]), ScopeAttributes(terminating=True), True, id="a deadline"),
        pytest.param(
            spec(scopes=["NotTerminating"]),
            ScopeAttributes(terminating=True),
            False,
            id="a deadline, negated",
        ),
        pytest.param(spec(scopes=["BestEffort"]), ScopeAttributes(best_effort=True), True, id="best effort"),
        pytest.param(
            spec(scopes=["NotBestEffort"]),
            ScopeAttributes(best_effort=True),
            False,
            id="best effort, negated",
        ),
        pytest.param(
            selecting("BestEffort", "Exists"), ScopeAttributes(best_effort=True), True, id="by selector"
        ),
        pytest.param(spec(scopes=["PriorityClass"]), GROUP, False, id="any class, but the pod has none"),
        pytest.param(spec(scopes=["PriorityClass"]), ScopeAttributes("high"), True, id="any class"),
        pytest.param(selecting("PriorityClass", "In", "high"), ScopeAttributes("high"), True, id="in"),
        pytest.param(
            selecting("PriorityClass", "In", "high"), ScopeAttributes("low"), False, id="in, another class"
        ),
        pytest.param(selecting("PriorityClass", "NotIn", "high"), ScopeAttributes("low"), True, id="not in"),
        pytest.param(selecting("PriorityClass", "NotIn", "high"), GROUP, True, id="not in, without a class"),
        pytest.param(selecting("PriorityClass", "DoesNotExist"), GROUP, True, id="no class"),
        pytest.param(spec(scopes=["CrossNamespacePodAffinity"]), GROUP, False, id="own namespace"),
        pytest.param(
            spec(scopes=["CrossNamespacePodAffinity"]),
            ScopeAttributes(crosses_namespaces=True),
            True,
            id="other namespaces",
        ),
        pytest.param(
            spec(scopes=["VolumeAttributesClass"]), ScopeAttributes("high"), False, id="a scope of claims"
        ),
        pytest.param(spec(scopes=["NotTerminating"]), GOLD, False, id="a claim and a scope of pods"),
        pytest.param(spec(scopes=["VolumeAttributesClass"]), GOLD, True, id="a claim with a class"),
        pytest.param(
            spec(scopes=["VolumeAttributesClass"]), ClaimAttributes(), False, id="a claim without a class"
        ),
        pytest.param(selecting("VolumeAttributesClass", "In", "gold"), GOLD, True, id="in, of a claim"),
        pytest.param(
            selecting("VolumeAttributesClass", "NotIn", "gold"),
            CHANGING,
            True,
            id="a claim that changes has two classes",
        ),
        pytest.param(
            selecting("VolumeAttributesClass", "DoesNotExist"),
            ClaimAttributes(),
            True,
            id="no class of a claim",
        ),
        pytest.param(spec(scopes=["NotBestEffort"]), None, False, id="scopes and an object of another kind"),
        pytest.param(spec(scopeSelector={"matchExpressions": []}), None, True, id="an empty selector"),
        pytest.param(
            spec(scopes=["NotBestEffort", "PriorityClass"]), GROUP, False, id="all scopes must match"
        ),
    ],
)
def test_scopes(
    quota: ResourceQuotaSpec, subject: ScopeAttributes | ClaimAttributes | None, want: bool
) -> None:
    assert is_counted_by(quota, subject) is want
