"""Quotas, labels and taints of the command line are parsed."""

import pytest

from quorate.cli.verbs.quota_options import pairs, resource_groups, taints, tolerations
from quorate.inspect.errors import UsageError


def test_flavors_of_the_same_resources_share_a_group() -> None:
    written = ["spot:cpu=8;memory=36Gi,dear:memory=1Gi;cpu=500m;", "gpu:nvidia.com/gpu=4"]
    assert resource_groups(written, [], []) == [
        {
            "coveredResources": ["cpu", "memory"],
            "flavors": [
                {
                    "name": "spot",
                    "resources": [
                        {"name": "cpu", "nominalQuota": "8"}, {"name": "memory", "nominalQuota": "36Gi"}
                    ],
                },
                {
                    "name": "dear",
                    "resources": [
                        {"name": "cpu", "nominalQuota": "500m"}, {"name": "memory", "nominalQuota": "1Gi"}
                    ],
                },
            ],
        },
        {
            "coveredResources": ["nvidia.com/gpu"],
            "flavors": [{"name": "gpu", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "4"}]}],
        },
    ]  # fmt: skip


def test_limits_belong_to_the_quota_of_the_same_resource() -> None:
    (group,) = resource_groups(["spot:cpu=8;memory=36Gi"], ["spot:cpu=2"], ["spot:memory=0"])
    assert group["flavors"][0]["resources"] == [
        {"name": "cpu", "nominalQuota": "8", "borrowingLimit": "2"},
        {"name": "memory", "nominalQuota": "36Gi", "lendingLimit": "0"},
    ]


@pytest.mark.parametrize(
    ("nominal", "borrowing", "message"),
    [
        (["a:cpu=1", "a:cpu=2"], [], "--nominal-quota: flavor a is given twice"),
        (["a:cpu=1;memory=1", "b:cpu=1"], [], "cpu can be in one group only"),
        (["cpu=1"], [], "--nominal-quota: 'cpu=1' has no flavor or no resources"),
        (["a:cpu=1;cpu=2"], [], "--nominal-quota: a:cpu is given twice"),
        (["a:cpu"], [], "--nominal-quota: a:'cpu' is no amount (write RESOURCE=AMOUNT)"),
        (["a:"], [], "--nominal-quota: a:'' is no amount (write RESOURCE=AMOUNT)"),
        (["a:cpu=1;;memory=1"], [], "--nominal-quota: a:'' is no amount (write RESOURCE=AMOUNT)"),
        (["a:cpu=much"], [], "--nominal-quota: a:cpu: 'much' is not a quantity"),
        (["a:cpu=-4"], [], "--nominal-quota: a:cpu: '-4' is negative (write 0 or more)"),
        (["a:c p u=4"], [], "--nominal-quota: a:'c p u=4' is no amount (write RESOURCE=AMOUNT)"),
        (["a:cpu=1"], ["b:cpu=1"], "--borrowing-limit: b:cpu has no --nominal-quota"),
    ],
)
def test_invalid_quotas_are_refused(nominal: list[str], borrowing: list[str], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        resource_groups(nominal, borrowing, [])
    assert message in str(refused.value)


def test_labels_taints_and_tolerations_are_parsed() -> None:
    assert pairs("--x", ["a=b,c=d", "e="]) == {"a": "b", "c": "d", "e": ""}
    assert taints(["gpu=yes:NoSchedule", "old:NoExecute"]) == [
        {"key": "gpu", "effect": "NoSchedule", "value": "yes"}, {"key": "old", "effect": "NoExecute"}
    ]  # fmt: skip
    assert tolerations(["gpu=yes:NoSchedule", "old:NoExecute"]) == [
        {"key": "gpu", "effect": "NoSchedule", "value": "yes", "operator": "Equal"},
        {"key": "old", "effect": "NoExecute", "operator": "Exists"},
    ]
    for read, written in (
        (taints, "gpu=yes"),
        (tolerations, "gpu=yes:Never"),
        (taints, ":NoSchedule"),
        (taints, "a b=c:NoSchedule"),
    ):
        with pytest.raises(UsageError, match="is no taint"):
            read([written])
    for written in ("a", "=b", "a b=c", "a=b c", "ä=b"):
        with pytest.raises(UsageError, match="is no label"):
            pairs("--x", [written])
