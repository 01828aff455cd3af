"""``quorate snapshot``: write a world that ``quorate simulate`` plays, from a live cluster."""

from pathlib import Path
from typing import Annotated, Literal

import typer
import yaml

from quorate.cli.configuration_options import Config
from quorate.cli.simulate.run_times import Runs, report_origins
from quorate.cli.verbs import options as o
from quorate.cli.verbs.printing import json_text
from quorate.inspect.connection import ClusterOptions
from quorate.inspect.errors import UsageError
from quorate.inspect.live_cluster import read_cluster
from quorate.simulate.estimates.snapshot import documents
from quorate.simulate.inputs.pseudonyms import pseudonymised

File = Annotated[
    Path | None,
    typer.Option("--file", "-f", metavar="FILE", dir_okay=False, help="Where to write it. Default: stdout."),
]
Pseudonyms = Annotated[
    bool,
    typer.Option(
        "--pseudonyms",
        help="Replace names and values of labels by pseudonyms in the same order. Keys of labels stay.",
    ),
]  # fmt: skip


def snapshot(
    file: File = None,
    pseudonyms: Pseudonyms = False,
    runs: Runs = "1h",
    output: Annotated[
        Literal["yaml", "json"],
        typer.Option("--output", "-o", help="Documents that simulate reads, or one List in JSON."),
    ] = "yaml",
    config: Config = None,
    kubeconfig: o.Kubeconfig = None,
    context: o.Context = "",
) -> None:
    """Write the queues and workloads of a cluster to a file that simulate plays.

    Run times are those of finished workloads of the same kind, such as the runs of one CronJob, or of the same
    queue. Commands, environment and images of pods are left out. It lists queues, flavors, checks, workloads, namespaces,
    Reservations and, with topologies, nodes of all namespaces.

    [b]Example:[/b] quorate snapshot --file today.yaml && quorate simulate today.yaml --change larger-quota.yaml
    """  # noqa: E501  the example is one line, to be copied
    live = read_cluster(ClusterOptions(kubeconfig, context), config, runs)
    parts = documents(live.objects, live.times, live.now, live.effective.text)
    texts = pseudonymised(parts) if pseudonyms else list(parts)
    if output == "json":
        items = [yaml.safe_load(text) for text in texts]
        text = json_text({"apiVersion": "v1", "kind": "List", "items": items})
    else:
        text = "---\n".join(texts)
    if file is None:
        typer.echo(text, nl=False)
    else:
        try:
            file.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"--file {file}: {(error.strerror or '').lower()}") from error
    report_origins(live.times)
