"""``quorate scheduler``: run the gang scheduler for a cluster."""

from typing import Annotated

import typer
import uvloop

from quorate.api.meta import Key
from quorate.api.syntax import is_dns_label
from quorate.cli.configuration_options import SchedulerConf, SchedulerNames
from quorate.cli.process_options import (
    Check,
    HealthAddress,
    Kubeconfig,
    LogFormat,
    MetricsAddress,
    Verbose,
    report_check,
    start_process,
)
from quorate.cli.verbs.options import Context
from quorate.inspect.configuration_files import read_scheduler_configuration_text
from quorate.processes.configuration_reload import SchedulerConfigurationInForce
from quorate.processes.scheduler import ListenAddresses, run_scheduler_process
from quorate.scheduler.process import LEASE_NAME
from quorate.scheduler.scheduler import SCHEDULER_NAMES, Options


def _namespace(written: str) -> str:
    if not is_dns_label(written):
        raise typer.BadParameter(
            f"{written!r} is no namespace (at most 63 lower case letters, digits and '-')"
        )
    return written


def scheduler(
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    scheduler_conf: SchedulerConf = None,
    scheduler_name: SchedulerNames = None,
    schedule_period: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=0.0, max=3600.0, help="The minimum time between two scheduling sessions."
        ),
    ] = 0.05,
    binds_at_once: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many pods are bound concurrently.")
    ] = 64,
    provisioning_class: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Create ProvisioningRequests of this class for pod groups that fit no nodes. "
            "Default: none are created.",
            show_default=False,
        ),
    ] = "",
    leader_elect: Annotated[
        bool, typer.Option("--leader-elect", help="Elect a leader among replicas, by a Lease.")
    ] = False,
    lease_namespace: Annotated[
        str, typer.Option(metavar="NAMESPACE", parser=_namespace, help="The namespace of that Lease.")
    ] = "quorate-system",
    health_address: HealthAddress = None,
    metrics_address: MetricsAddress = None,
    check: Check = False,
    log_format: LogFormat = "console",
    verbose: Verbose = False,
) -> None:
    """Run the gang scheduler for a cluster until Ctrl-C or SIGTERM.

    It schedules pods with its schedulerName. Pods of a PodGroup (scheduling.volcano.sh) get nodes together:
    at least minMember of them, or none. All state is in the cluster, so it can be stopped and restarted at
    any time.

    [b]Example:[/b] quorate scheduler --scheduler-conf volcano-scheduler.conf
    """
    text, loaded = read_scheduler_configuration_text(scheduler_conf)
    if check:
        report_check(scheduler_conf, loaded.warnings)
        return
    start_process(log_format, verbose, scheduler_conf, loaded.warnings)
    in_force = SchedulerConfigurationInForce(scheduler_conf, text, loaded.configuration)
    options = Options(
        names=tuple(scheduler_name) if scheduler_name else SCHEDULER_NAMES,
        period_s=schedule_period,
        bind_workers=binds_at_once,
        provisioning_class=provisioning_class,
    )
    lease = Key(lease_namespace, LEASE_NAME) if leader_elect else None
    addresses = ListenAddresses(health_address, metrics_address)
    uvloop.run(run_scheduler_process(kubeconfig, context, in_force, options, lease, addresses))
