"""``quorate witness``: compare what pods use with quota and with the nodes."""

from pathlib import Path
from typing import Annotated

import typer
import uvloop

from quorate.cli.process_options import (
    HealthAddress,
    Kubeconfig,
    LogFormat,
    MetricsAddress,
    Verbose,
    start_process,
)
from quorate.cli.verbs.options import Context
from quorate.inspect.configuration_files import read_configuration_text
from quorate.processes.configuration_reload import ConfigurationInForce
from quorate.processes.witness import run_witness_process
from quorate.witness.process import Options


def witness(
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The Configuration of the controllers, for its resource transformations. "
            "Default: all defaults.",
        ),
    ] = None,
    grace: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0.0,
            help="Report a difference that lasts longer: more than pods take to terminate.",
        ),
    ] = 60.0,
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="The minimum time between two comparisons.")
    ] = 1.0,
    health_address: HealthAddress = None,
    metrics_address: MetricsAddress = None,
    log_format: LogFormat = "console",
    verbose: Verbose = False,
) -> None:
    """Compare what pods use with quota and with the nodes, until Ctrl-C or SIGTERM.

    It changes nothing and shares no code with the controllers that give quota: it sums the requests of the
    pods that run, by their cluster queue, flavor and node, and compares the sums with the quota of cluster
    queues and cohorts, and with what nodes can allocate. A difference that lasts is a log message, an Event
    about the ClusterQueue, Cohort or Node that names the pods, and the metric
    [b]quorate_witness_excess[/b].

    Reasons: [b]OverLimit[/b], [b]OutsideQuota[/b] (the pods of a workload use more than it was admitted
    with), [b]OverAllocatable[/b] and [b]WithoutAdmission[/b] (the workload of running pods has no quota) are
    faults of a controller, or pods that a user started around the queue.
    [b]LimitLowered[/b]: an administrator lowered the quota of what runs. [b]BeforeStart[/b]: the pods were
    there before the witness.

    [b]Example:[/b] quorate witness --config configuration.yaml --metrics-address 127.0.0.1:8080
    """
    text, loaded = read_configuration_text(config)
    start_process(log_format, verbose, config, loaded.warnings)
    in_force = ConfigurationInForce(config, text, loaded.configuration)
    uvloop.run(
        run_witness_process(
            kubeconfig, context, in_force, Options(grace, interval), health_address, metrics_address
        )
    )
