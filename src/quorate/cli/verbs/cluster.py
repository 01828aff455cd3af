"""``quorate cluster``: list and describe the worker clusters of MultiKueue, and make their kubeconfigs."""

import base64
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer
import yaml

from quorate.api.configuration import DEFAULT_NAMESPACE
from quorate.api.kueue import ACTIVE, AdmissionCheck, Workload
from quorate.api.kueue.multikueue import KUBECONFIG_KEY, MultiKueueCluster, MultiKueueConfig
from quorate.api.meta import Condition, Key, find_condition
from quorate.api.names.multikueue import CONTROLLER
from quorate.cli.lazy_commands import command_group
from quorate.cli.verbs import options as o
from quorate.cli.verbs import printing as p
from quorate.cli.verbs.cluster_commands import on_cluster
from quorate.cli.verbs.listing import list_objects, print_whole
from quorate.inspect.connection import ClusterOptions, Connection, with_cluster
from quorate.inspect.errors import UsageError
from quorate.install.multikueue_worker import ACCOUNT, manager_kubeconfig
from quorate.kube.clock import WallClock
from quorate.kube.resources import (
    ADMISSION_CHECKS,
    KUBECONFIG_SECRETS,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    WORKLOADS,
    Json,
)
from quorate.queueing.conditions import is_finished

cluster = command_group("Worker clusters of MultiKueue: list, describe, make their kubeconfigs.")


@cluster.command("list")
@on_cluster
async def list_(
    connection: Connection,
    selector: o.LabelSelector = "",
    field_selector: o.FieldSelector = "",
    output: o.Format = o.Output.TABLE,
) -> None:
    """List worker clusters: whether they are connected, and how many workloads they have.

    [b]Example:[/b] quorate cluster list
    """
    now = WallClock().now()
    clusters = await list_objects(connection, MULTIKUEUE_CLUSTERS, output, selector, field_selector)
    if clusters:
        workloads = (await connection.client.list(WORKLOADS)).items
        p.print_objects(_columns(workloads, now), clusters, output)


@cluster.command()
@on_cluster
async def describe(
    connection: Connection,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the MultiKueueCluster.")],
    output: o.Format = o.Output.TABLE,
) -> None:
    """Show a worker cluster with its connection, the checks that use it and its workloads.

    [b]Example:[/b] quorate cluster describe worker-1
    """
    now = WallClock().now()
    client = connection.client
    if p.is_structured(output):
        await print_whole(connection, [(MULTIKUEUE_CLUSTERS, Key("", name))], output)
        return
    described = await client.get(MULTIKUEUE_CLUSTERS, Key("", name))
    configs = (await client.list(MULTIKUEUE_CONFIGS)).items
    checks = (await client.list(ADMISSION_CHECKS)).items
    workloads = (await client.list(WORKLOADS)).items
    p.print_sections(_sections(described, configs, checks, workloads, now))


@cluster.command("kubeconfig")
def kubeconfig_(
    server: Annotated[
        str, typer.Option(metavar="URL", help="The address at which the manager reaches the worker cluster.")
    ],
    namespace: o.Namespace = DEFAULT_NAMESPACE,
    secret: Annotated[
        str, typer.Option(metavar="NAME", help="Print a Secret for the manager, in the same namespace.")
    ] = "",
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="Write to a file that only you can read.")
    ] = None,
    output: Annotated[
        Literal["yaml", "json"], typer.Option("--output", "-o", help="The output format.")
    ] = "yaml",
    kubeconfig: o.Kubeconfig = None,
    context: o.Context = "",
) -> None:
    """Make the kubeconfig of a manager from the account of `quorate manifests --multikueue-worker`.

    It is read from the worker cluster. The output has a token: keep it secret.

    [b]Example:[/b] quorate cluster kubeconfig --context worker-1 --server https://10.0.0.7:6443
    --secret worker-1 | kubectl --context manager apply -f -
    """

    async def make(connection: Connection) -> Json:
        key = Key(namespace, ACCOUNT)
        data = (await connection.client.get(KUBECONFIG_SECRETS, key)).data
        if not ("token" in data and "ca.crt" in data):
            raise UsageError(
                f"Secret {key} has no token yet (apply quorate manifests --multikueue-worker, and try again)"
            )
        return manager_kubeconfig(server, base64.b64decode(data["token"]).decode(), data["ca.crt"])

    document = with_cluster(ClusterOptions(kubeconfig, context), make)
    if secret:
        document = _secret(secret, namespace, yaml.safe_dump(document, sort_keys=False))
    text = p.json_text(document) if output == "json" else yaml.safe_dump(document, sort_keys=False)
    if file is None:
        typer.echo(text, nl=False)
        return
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as opened:
            opened.write(text)
    except OSError as error:
        raise UsageError(f"--file: {file} cannot be written: {error.strerror}") from error


def _secret(name: str, namespace: str, kubeconfig: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "data": {KUBECONFIG_KEY: base64.b64encode(kubeconfig.encode()).decode()},
    }


def _columns(workloads: Sequence[Workload], now: float) -> Sequence[p.Column[MultiKueueCluster]]:
    def since(listed: MultiKueueCluster) -> str:
        active = _active(listed)
        return "" if active is None else p.age(active.last_transition_time, now)

    return (
        p.Column("NAME", lambda listed: listed.metadata.name),
        p.Column("CONNECTED", _status),
        p.Column("SINCE", since),
        p.Column("WORKLOADS", lambda listed: str(len(_placed(workloads, listed.metadata.name)))),
        p.Column("NOMINATED", lambda listed: str(len(_nominated(workloads, listed.metadata.name)))),
        p.Column("AGE", lambda listed: p.age(listed.metadata.creation_timestamp, now)),
        p.Column("CREDENTIALS", _credentials, wide=True),
        p.Column("MESSAGE", lambda listed: _message(_active(listed)), wide=True),
    )


def _active(listed: MultiKueueCluster) -> Condition | None:
    return find_condition(listed.status.conditions, ACTIVE)


def _status(listed: MultiKueueCluster) -> str:
    active = _active(listed)
    if active is None:
        return "Unknown"
    return active.status if active.status == "True" else f"{active.status} ({active.reason})"


def _message(condition: Condition | None) -> str:
    return "" if condition is None else condition.message


def _credentials(listed: MultiKueueCluster) -> str:
    source = listed.spec.cluster_source
    if source.kube_config is not None:
        return f"{source.kube_config.location_type.lower()} {source.kube_config.location}"
    profile = source.cluster_profile_ref
    return "" if profile is None else f"clusterprofile {profile.name}"


def _placed(workloads: Sequence[Workload], name: str) -> list[Workload]:
    """Return the workloads that run in a worker cluster."""
    return [
        workload
        for workload in workloads
        if workload.status.cluster_name == name and not is_finished(workload)
    ]


def _nominated(workloads: Sequence[Workload], name: str) -> list[Key]:
    """Return the keys of workloads that have the worker cluster ``name`` among their nominated clusters."""
    return [
        workload.metadata.key for workload in workloads if name in workload.status.nominated_cluster_names
    ]


def _sections(
    described: MultiKueueCluster,
    configs: Sequence[MultiKueueConfig],
    checks: Sequence[AdmissionCheck],
    workloads: Sequence[Workload],
    now: float,
) -> tuple[p.Section, ...]:
    name = described.metadata.name
    using = {config.metadata.name for config in configs if name in config.spec.clusters}
    used_by = sorted(
        check.metadata.name
        for check in checks
        if check.spec.controller_name == CONTROLLER
        and check.spec.parameters is not None
        and check.spec.parameters.name in using
    )
    return (
        p.Fields((
            ("Name", name),
            ("Connected", _status(described)),
            ("Message", _message(_active(described))),
            ("Credentials", _credentials(described)),
            ("Configurations", ", ".join(sorted(using))),
            ("Admission checks", ", ".join(used_by)),
            ("Age", p.age(described.metadata.creation_timestamp, now)),
        )),
        p.ListSection("Workloads", tuple(str(placed.metadata.key) for placed in _placed(workloads, name))),
        p.ListSection("Nominated", tuple(str(key) for key in _nominated(workloads, name))),
        p.conditions_section(described.status.conditions, now),
    )  # fmt: skip
