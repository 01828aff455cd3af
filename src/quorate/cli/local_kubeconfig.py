"""The context of a local cluster in the kubeconfig of its user."""

import os
from pathlib import Path

import yaml

from quorate.cli.kubeconfig_entries import add_context, make_current, remove_context, user_kubeconfigs
from quorate.inspect.errors import UsageError
from quorate.local.directory import MERGED, ClusterDirectory


def context_name(directory: ClusterDirectory) -> str:
    """Return the name of the context in a merged kubeconfig."""
    return f"quorate-{directory.path.name}"


def merge_kubeconfig(directory: ClusterDirectory) -> Path:
    """Add the context of the cluster to the user's kubeconfig and make it current; return the file.

    Raises ``UsageError``.
    """
    if not directory.kubeconfig.exists():
        raise UsageError(f"{directory.kubeconfig}: does not exist (quorate local up starts a cluster)")
    paths = user_kubeconfigs(os.environ, directory.kubeconfig)
    target = add_context(paths, context_name(directory), _own(directory))
    make_current(paths, target, context_name(directory))
    (directory.path / MERGED).write_text(f"{target.absolute()}\n")
    return target


def update_merged_kubeconfig(directory: ClusterDirectory) -> None:
    """Update a merged context, as another start may have another port.  Raises ``UsageError``."""
    merged = _merged(directory)
    if merged is not None:
        add_context((merged,), context_name(directory), _own(directory))


def remove_merged_kubeconfig(directory: ClusterDirectory) -> Path | None:
    """Remove a merged context; return the file that had it.  Raises ``UsageError``."""
    merged = _merged(directory)
    if merged is not None:
        remove_context((merged, *user_kubeconfigs(os.environ, directory.kubeconfig)), context_name(directory))
        (directory.path / MERGED).unlink()
    return merged


def _merged(directory: ClusterDirectory) -> Path | None:
    try:
        return Path((directory.path / MERGED).read_text().strip())
    except FileNotFoundError:
        return None


def _own(directory: ClusterDirectory) -> dict[str, list[dict[str, dict[str, str]]]]:
    config: dict[str, list[dict[str, dict[str, str]]]] = yaml.safe_load(directory.kubeconfig.read_text())
    return config
