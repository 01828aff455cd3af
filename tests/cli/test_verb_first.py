"""The forms of kueuectl and kubectl, in which the verb comes before the kind."""

import pytest

from quorate.cli import group_first


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("list cq", "queue list"),
        ("list clusterqueues.kueue.x-k8s.io -o json", "queue list -o json"),
        ("get lq", "queue list --local"),
        ("get lq lab -n team", "queue describe --local lab -n team"),
        ("get wl -A", "workload list -A"),
        ("get wl/train", "workload describe train"),
        ("get pg gang", "podgroup explain gang"),
        ("get vj", "vcjob list"),
        ("create lq lab -c research", "queue create --local lab -c research"),
        ("create cq research", "queue create research"),
        ("stop localqueue lab", "queue stop --local lab"),
        ("resume workload train", "workload resume train"),
        ("delete wl train --yes", "workload delete train --yes"),
        ("list rf", "flavor list"),
        ("list pods --for job/train", "workload pods job/train"),
        ("list pods --for=job/train", "workload pods job/train"),
        ("get nodes", "get nodes"),
        ("list", "list"),
        ("queue list lq", "queue list lq"),
    ],
)
def test_the_group_of_commands_comes_first(written: str, read: str) -> None:
    assert group_first(written.split()) == read.split()
