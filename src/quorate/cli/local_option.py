"""Options that name a local cluster."""

from pathlib import Path
from typing import Annotated, Final

import typer

from quorate.api.syntax import is_dns_label
from quorate.inspect.errors import UsageError
from quorate.local.directory import ClusterDirectory

DEFAULT_NAME: Final = "local"
DEFAULT_DASHBOARD_PORT: Final = 7444

DataDir = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="The directory for state, certificates and kubeconfig. Default: ~/.quorate/NAME."
    ),
]
Name = Annotated[
    str, typer.Option(metavar="NAME", help="The name of the cluster: several can run beside each other.")
]


def cluster_directory(name: str, data_dir: Path | None) -> ClusterDirectory:
    """Return the directory of a cluster.  Raises ``UsageError``."""
    if not is_dns_label(name):
        raise UsageError(f"--name: {name!r} is not a name of small letters, digits and hyphens (write test)")
    if data_dir is not None and name != DEFAULT_NAME:
        raise UsageError("--name has no effect with --data-dir (drop one of the two)")
    return ClusterDirectory(data_dir or Path("~/.quorate") / name)


def options_text(name: str, data_dir: Path | None) -> str:
    """Return the options that name the same cluster to another command."""
    if data_dir is not None:
        return f" --data-dir {data_dir}"
    return "" if name == DEFAULT_NAME else f" --name {name}"
