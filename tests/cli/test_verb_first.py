"""The forms of kueuectl and kubectl, in which the verb comes before the kind."""

import pytest

from quorate.cli import connection_options_first, group_first, kubectl_arguments


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("list cq", "queue list"),
        ("list clusterqueues.kueue.x-k8s.io -o json", "queue list -o json"),
        ("get lq", "queue list --local"),
        ("get lq lab -n team", "queue describe --local lab -n team"),
        ("get wl -A", "workload list -A"),
        ("get wl/train", "workload describe train"),
        ("list kueueworkload -A", "workload list -A"),
        ("stop kueueworkloads train", "workload stop train"),
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


@pytest.mark.parametrize(
    ("written", "kubectl"),
    [
        ("edit cq research", "edit clusterqueues.kueue.x-k8s.io research"),
        ("edit wl/train -n team", "edit workloads.kueue.x-k8s.io train -n team"),
        ("patch lq lab -p {}", "patch localqueues.kueue.x-k8s.io lab -p {}"),
        ("delete cq red --dry-run=server", "delete clusterqueues.kueue.x-k8s.io red --dry-run=server"),
        ("delete rf spot", "delete resourceflavors.kueue.x-k8s.io spot"),
        ("describe flavor spot", "describe resourceflavors.kueue.x-k8s.io spot"),
        ("get rf spot -o yaml", "get resourceflavors.kueue.x-k8s.io spot -o yaml"),
        ("delete wl train", ""),
        ("delete vcqueue q", ""),
        ("describe cq research", ""),
        ("get rf", ""),
        ("get rf -o yaml", ""),
        ("edit pods train", ""),
        ("queue list", ""),
        ("-n team edit lq lab", "edit localqueues.kueue.x-k8s.io lab -n team"),
        (
            "--context=a --as b patch cq/x -p {}",
            "patch clusterqueues.kueue.x-k8s.io x -p {} --as b --context=a",
        ),
        ("-n team get wl", ""),
        ("-n", ""),
    ],
)
def test_kubectl_does_what_no_command_does(written: str, kubectl: str) -> None:
    assert kubectl_arguments(written.split()) == kubectl.split()


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("status --as alice -n team", "--as alice status -n team"),
        ("queue list --as-group=a --server x --as b", "--as-group=a --server x --as b queue list"),
        ("submit --token t -- run --token mine", "--token t submit -- run --token mine"),
        ("status --as", "--as status"),
        ("-n team --context=a status", "status --namespace team --context a"),
        ("--kubeconfig f submit --token t -- run -n x", "--token t submit --kubeconfig f -- run -n x"),
        ("--as a queue list -n team", "--as a queue list -n team"),
        ("-n team vcqueue delete", "vcqueue delete --namespace team"),
        ("cluster kubeconfig --server x --token t", "--token t cluster kubeconfig --server x"),
    ],
)
def test_options_of_the_connection_may_stand_anywhere_before_the_command_of_a_job(
    written: str, read: str
) -> None:
    assert connection_options_first(written.split()) == read.split()
