"""Decorators that make commands of coroutine functions, connected to the cluster that options select."""

import inspect
from collections.abc import Callable, Coroutine
from functools import wraps
from inspect import Parameter
from typing import Any, Concatenate, Final

from quorate.cli.verbs import options as o
from quorate.inspect.connection import ClusterOptions, Connection, with_cluster

Verb = Callable[Concatenate[Connection, ...], Coroutine[Any, Any, None]]


def on_cluster(verb: Verb) -> Callable[..., None]:
    """Return a command with the parameters of ``verb`` after the connection, and the options of a cluster."""
    return _command(verb, _CLUSTER)


def in_namespace(verb: Verb) -> Callable[..., None]:
    """Return a command as ``on_cluster`` does, also with ``--namespace``."""
    return _command(verb, (_NAMESPACE, *_CLUSTER))


def in_namespaces(verb: Verb) -> Callable[..., None]:
    """Return a command as ``on_cluster`` does, also with ``--namespace`` and ``--all-namespaces``."""
    return _command(verb, (_NAMESPACE, _ALL_NAMESPACES, *_CLUSTER))


def _option(name: str, annotation: Any, default: Any) -> Parameter:
    return Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation=annotation, default=default)


_NAMESPACE: Final = _option("namespace", o.Namespace, "")
_ALL_NAMESPACES: Final = _option("all_namespaces", o.AllNamespaces, False)
_CLUSTER: Final = (_option("kubeconfig", o.Kubeconfig, None), _option("context", o.Context, ""))


def _command(verb: Verb, selecting: tuple[Parameter, ...]) -> Callable[..., None]:
    _, *own = inspect.signature(verb, eval_str=True).parameters.values()

    @wraps(verb)
    def run(**given: Any) -> None:
        cluster = ClusterOptions(**{option.name: given.pop(option.name) for option in selecting})
        with_cluster(cluster, lambda connection: verb(connection, **given))

    run.__signature__ = inspect.Signature([*own, *selecting])  # type: ignore[attr-defined]
    return run
