"""The reference page of the rights of each process, generated from the rules of its roles."""

from collections.abc import Iterable, Iterator
from typing import Final

from quorate.install.controller_rules import CONTROLLER_RULES, OWN, PolicyRule
from quorate.install.dashboard import DASHBOARD_RULES
from quorate.install.scheduler import PROVISIONING_RULES, SCHEDULER_RULES
from quorate.install.witness import WITNESS_RULES

_HEAD: Final = """\
# Rights of the processes

This page is generated from the rules of `deploy/` and of the chart (`make reference`). No rule has a `*`.
Stories run each process with these rules alone, and compare its requests with them.
[The security model](../concepts/security.md) says what follows from them.
"""
_PROCESSES: Final = (
    ("The controllers", CONTROLLER_RULES),
    ("The gang scheduler", SCHEDULER_RULES),
    ("The gang scheduler with `--provisioning-class`", PROVISIONING_RULES),
    ("The dashboard", DASHBOARD_RULES),
    ("The witness", WITNESS_RULES),
)


def page() -> str:
    return "".join([_HEAD, *(_section(title, rules) for title, rules in _PROCESSES)])


def _section(title: str, rules: Iterable[PolicyRule]) -> str:
    rows = "".join(_rows(rules))
    return f"\n## {title}\n\n| for | resources | verbs | in |\n|---|---|---|---|\n{rows}"


def _rows(rules: Iterable[PolicyRule]) -> Iterator[str]:
    for rule in rules:
        resources = ", ".join(
            f"`{name}.{rule.group}`" if rule.group else f"`{name}`" for name in rule.resources
        )
        where = {"": "all namespaces", OWN: "its own namespace"}.get(rule.namespace, f"`{rule.namespace}`")
        names = f", only {', '.join(f'`{name}`' for name in rule.names)}" if rule.names else ""
        yield f"| {rule.needed_for} | {resources} | {', '.join(rule.verbs)} | {where}{names} |\n"
