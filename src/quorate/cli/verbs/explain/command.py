"""``quorate workload explain``: the state of a workload, the reasons for it, and what would let it start."""

from functools import partial

import typer

from quorate.cli.files import Config
from quorate.cli.verbs import options as o
from quorate.cli.verbs.explain.own_model import OwnModel
from quorate.cli.verbs.explain.sections import explanation_sections
from quorate.cli.verbs.job_names import Workloads, named_workloads
from quorate.cli.verbs.printing import is_structured, print_sections, print_value
from quorate.controllers.jobs.unserved import why_not_queued


def explain(
    names: Workloads,
    config: Config = None,
    namespace: o.Namespace = "",
    output: o.Format = o.Output.TABLE,
    kubeconfig: o.Kubeconfig = None,
    context: o.Context = "",
) -> None:
    """Explain why a workload is pending, with numbers, and what would let it start.

    The command reads the whole cluster, evaluates it by the rules of the controllers, and writes nothing. It
    reads their Configuration from the cluster, unless [b]--config[/b] is given, and prints which it used.

    [b]Example:[/b] quorate workload explain job/train
    """

    async def show(connection: o.Connection) -> None:
        model = await OwnModel.load(connection.client, config)
        why = partial(why_not_queued, model.configuration.integrations)
        found = [each for name in names for each in await named_workloads(connection, name, why)]
        explanations = [await model.workload(each) for each in found]
        typer.echo(f"evaluated with {model.origin}", err=True)
        for explanation in explanations:
            if is_structured(output):
                print_value(explanation, output)
            else:
                print_sections(explanation_sections(explanation))

    o.with_cluster(o.ClusterOptions(kubeconfig, context, namespace), show)
