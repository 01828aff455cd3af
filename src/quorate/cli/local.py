"""``quorate local``: a Kubernetes cluster on this machine."""

from quorate.cli.lazy_commands import LazyCommand, command_group

local = command_group(
    "A Kubernetes cluster on this machine: real API server and controllers, simulated nodes.\n\n"
    "[b]Keep a cluster:[/b] quorate local up --detach --merge-kubeconfig, kubectl get nodes, "
    "quorate local down --delete\n\n"
    "[b]Run a directory of manifests:[/b] quorate examples copy, quorate local run examples/all-or-nothing",
    LazyCommand(
        "up", "quorate.cli.local_up:up",
        "Start the cluster and keep it running until Ctrl-C, or in the background.",
    ),
    LazyCommand("down", "quorate.cli.existing_local_cluster:down", "Stop the cluster."),
    LazyCommand(
        "logs", "quorate.cli.existing_local_cluster:logs",
        "Print the log of a cluster that was started in the background.",
    ),
    LazyCommand(
        "status", "quorate.cli.existing_local_cluster:status",
        "Show whether the cluster runs, its server, and its numbers of objects. "
        "Exit code 1 if it is stopped.",
    ),
    LazyCommand(
        "import", "quorate.cli.existing_local_cluster:import_",
        "Import nodes, queues, flavors, cohorts, topologies and priority classes of a real cluster.",
    ),
    LazyCommand(
        "kubeconfig", "quorate.cli.existing_local_cluster:kubeconfig",
        "Print the kubeconfig of the cluster, or merge it into yours "
        "([b]$KUBECONFIG[/b] or ~/.kube/config).",
    ),
    LazyCommand(
        "reset", "quorate.cli.existing_local_cluster:reset",
        "Delete the state of a stopped cluster: objects, certificates, token, kubeconfig.",
    ),
    LazyCommand(
        "run", "quorate.cli.run.command:run",
        "Run the manifests of a directory on a temporary cluster until every job has ended.",
    ),
)  # fmt: skip
