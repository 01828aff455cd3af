"""The context of a local cluster in the kubeconfig of its user."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from quorate.inspect.errors import UsageError
from quorate.local.directory import CONTEXT, MERGED, ClusterDirectory
from quorate.processes.local.kubeconfig_entries import (
    LISTS,
    add_context,
    make_current,
    remove_context,
    user_kubeconfigs,
)


def context_name(directory: ClusterDirectory) -> str:
    """Return the name of the context in a merged kubeconfig."""
    return f"quorate-{directory.path.name}"


def _contexts(directory: ClusterDirectory) -> dict[str, str]:
    """Return the names of the contexts in a merged kubeconfig, by that in the cluster's own: its first."""
    own = context_name(directory)
    prefix = "quorate" if own == CONTEXT else own
    return {CONTEXT: own} | {
        f"quorate-{worker.path.name}": f"{prefix}-{worker.path.name}" for worker in directory.workers
    }


def worker_contexts(directory: ClusterDirectory, merged: bool) -> list[str]:
    """Return the contexts of the workers of a cluster, in its own kubeconfig or in a merged one."""
    return list(_contexts(directory).values() if merged else _contexts(directory))[1:]


def merge_kubeconfig(directory: ClusterDirectory) -> Path:
    """Add the context of the cluster to the user's kubeconfig and make it current; return the file.

    Raises ``UsageError``.
    """
    if not directory.kubeconfig.exists():
        raise UsageError(f"{directory.kubeconfig}: does not exist (quorate local up starts a cluster)")
    paths = user_kubeconfigs(os.environ, directory.kubeconfig)
    target = _add_contexts(paths, directory)
    make_current(paths, target, context_name(directory))
    (directory.path / MERGED).write_text(f"{target.absolute()}\n")
    return target


def update_merged_kubeconfig(directory: ClusterDirectory) -> None:
    """Update a merged context, as another start may have another port.  Raises ``UsageError``."""
    merged = _merged(directory)
    if merged is not None:
        _add_contexts((merged,), directory)


def remove_merged_kubeconfig(directory: ClusterDirectory) -> Path | None:
    """Remove a merged context; return the file that had it.  Raises ``UsageError``."""
    merged = _merged(directory)
    if merged is not None:
        paths = (merged, *user_kubeconfigs(os.environ, directory.kubeconfig))
        for name in _contexts(directory).values():
            remove_context(paths, name)
        (directory.path / MERGED).unlink()
    return merged


def _merged(directory: ClusterDirectory) -> Path | None:
    try:
        return Path((directory.path / MERGED).read_text().strip())
    except FileNotFoundError:
        return None


def _add_contexts(paths: Sequence[Path], directory: ClusterDirectory) -> Path:
    """Add the contexts of the cluster and of its workers; return the file that has the cluster's context."""
    own: dict[str, Any] = yaml.safe_load(directory.kubeconfig.read_text())
    names = _contexts(directory)
    # In reverse: the file of the last, which is the cluster itself, is returned.
    targets = [
        add_context(paths, names[own["contexts"][at]["name"]], {field: [own[field][at]] for field in LISTS})
        for at in reversed(range(len(own["contexts"])))
    ]
    return targets[-1]
