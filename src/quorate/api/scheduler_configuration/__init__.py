"""The gang scheduler's configuration: Volcano's ``volcano-scheduler.conf``, and ``profile``.

``actions`` lists what a session does, in order; ``tiers`` lists the plugins that it calls; ``configurations``
holds arguments of actions. ``profile`` is Quorate's own: ``design`` (default), or ``compat`` for Volcano's
behavior. Anything that would change which pods run where is rejected: unknown actions and plugins, and
unsupported plugins that filter. Other mismatches produce warnings, and an invalid argument keeps its default,
as in Volcano.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from fractions import Fraction
from functools import partial
from typing import Final, TypeVar, get_args

import msgspec

from quorate.api.decoding import strict as d
from quorate.api.decoding.lenient import Arguments, LenientSection, arguments, lenient_section
from quorate.api.scheduler_configuration.actions import (
    ACTIONS,
    GANG_ACTIONS,
    NO_OP_ACTION,
    Action,
    AllocateArguments,
    BackfillArguments,
    EnqueueArguments,
    PreemptArguments,
    Profile,
    ReclaimArguments,
    decode_allocate_arguments,
    decode_backfill_arguments,
    decode_enqueue_arguments,
    decode_gang_preempt_arguments,
    decode_gang_reclaim_arguments,
    decode_preempt_arguments,
    decode_reclaim_arguments,
)
from quorate.api.scheduler_configuration.plugins import (
    ENABLE_FIELDS,
    HIERARCHICAL_PLUGINS,
    PLUGIN_DECODERS,
    UNSUPPORTED_FILTERS,
    UNSUPPORTED_SCORERS,
    ExtensionPoint,
    OvercommitArguments,
    PluginArguments,
)

R = TypeVar("R")

_KNOWN: Final[Mapping[str, Action]] = {**{action: action for action in ACTIONS}, **GANG_ACTIONS}

_PROTECTING_PLUGINS: Final = ("cdp", "conformance", "gang", "pdb")  # protect some pods from reclaim
_SHARE_PLUGINS: Final = ("capacity", "proportion")

DEFAULT_FILE: Final = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
# Of profile native: what kube-scheduler does with Kubernetes' own pod groups.
NATIVE_FILE: Final = """\
actions: "allocate, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
  - name: predicates
  - name: nodeorder
"""


class PluginEntry(msgspec.Struct, frozen=True):
    """A plugin in its tier; ``disabled`` lists the extension points switched off by its entry."""

    name: str
    arguments: PluginArguments
    disabled: frozenset[ExtensionPoint] = frozenset()
    hierarchy: bool = False


class SchedulerConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    profile: Profile
    actions: tuple[Action, ...]
    tiers: tuple[tuple[PluginEntry, ...], ...]
    enqueue: EnqueueArguments = EnqueueArguments()
    allocate: AllocateArguments = AllocateArguments()
    preempt: PreemptArguments = PreemptArguments()
    reclaim: ReclaimArguments = ReclaimArguments()
    backfill: BackfillArguments = BackfillArguments()

    def has_plugin(self, name: str) -> bool:
        return any(entry.name == name for tier in self.tiers for entry in tier)


class LoadedSchedulerConfiguration(msgspec.Struct, frozen=True):
    configuration: SchedulerConfiguration
    warnings: tuple[str, ...]


def default_scheduler_configuration() -> SchedulerConfiguration:
    """Return the configuration without a file."""
    return load_scheduler_configuration(DEFAULT_FILE).configuration


def load_scheduler_configuration(text: str) -> LoadedSchedulerConfiguration:
    """Decode a configuration file.  Raises ``InvalidConfiguration`` with every finding."""
    context = d.decode_context(text, "must hold one with actions and tiers")
    root = context.root()
    _refuse_manifests(root)
    configuration = root.decode(lenient_section(_configuration), None)
    if configuration is None or context.findings:
        raise d.InvalidConfiguration(context.findings)
    return LoadedSchedulerConfiguration(configuration, tuple(context.warnings))


def _refuse_manifests(root: d.Field) -> None:
    """Reject other kinds of file at once, because findings about their fields would not help."""
    match root.value:
        case {"kind": "ConfigMap"}:
            root.entry("kind").reject("wraps a file (give the text under its data.volcano-scheduler.conf)")
        case {"kind": _}:
            root.entry("kind").reject("is not allowed here (write actions and tiers)")
        case _:
            return
    raise d.InvalidConfiguration(root.context.findings)


def _configuration(fields: LenientSection) -> SchedulerConfiguration:
    profile: Profile = fields.take("profile", d.choice(get_args(Profile)), "design")
    if profile == "native" and not ("actions" in fields or "tiers" in fields):
        native = load_scheduler_configuration(NATIVE_FILE).configuration
        return msgspec.structs.replace(native, profile=profile)
    if "actions" not in fields:
        fields.at("actions").reject(f"is missing (write {', '.join(ACTIONS[:3])})")
    named = fields.take("actions", _actions, ())
    tiers = fields.take("tiers", d.list_of(lenient_section(_tier)), ())
    if not any(tiers):
        fields.at("tiers").warn("lists no plugin, so no plugin takes part in decisions")
    for name, count in Counter(entry.name for tier in tiers for entry in tier).items():
        if count > 1:
            fields.at("tiers").warn(f"{name} is listed {count} times, and called as often (keep one)")
    given = _action_arguments(fields)
    nothing = d.Field(fields.field.context, "configurations", None)

    def rules(action: str, decoder: Callable[[Arguments], R], fallback: R) -> R:
        return given.get(action, nothing).decode(arguments(decoder), fallback)

    configuration = SchedulerConfiguration(
        profile=profile,
        actions=tuple(_KNOWN[name] for name in named),
        tiers=tiers,
        enqueue=rules(
            "enqueue", partial(decode_enqueue_arguments, overcommit=_overcommit(tiers)), EnqueueArguments()
        ),
        allocate=rules("allocate", decode_allocate_arguments, AllocateArguments()),
        preempt=rules("preempt", decode_preempt_arguments, PreemptArguments()),
        reclaim=rules("reclaim", decode_reclaim_arguments, ReclaimArguments()),
        backfill=rules("backfill", decode_backfill_arguments, BackfillArguments()),
    )
    if profile == "compat":
        configuration = _compat_profile(configuration, given)
        _warn_of_shares_without_effect(fields.at("tiers"), configuration)
    if "gangpreempt" in named:
        preempt = rules("gangpreempt", decode_gang_preempt_arguments, PreemptArguments())
        configuration = msgspec.structs.replace(configuration, preempt=preempt)
    if "gangreclaim" in named:
        reclaim = rules("gangreclaim", decode_gang_reclaim_arguments, ReclaimArguments())
        configuration = msgspec.structs.replace(configuration, reclaim=reclaim)
    return configuration


def _compat_profile(
    configuration: SchedulerConfiguration, given: Mapping[str, d.Field]
) -> SchedulerConfiguration:
    """Return ``configuration`` without the features of profile ``design``."""
    for action, field in given.items():
        if field.value and action != "allocate" and action not in GANG_ACTIONS:
            field.warn("has no effect with profile compat")
    return msgspec.structs.replace(
        configuration,
        enqueue=EnqueueArguments(),
        preempt=PreemptArguments(evict_overused=False, evict_whole_group=False),
        reclaim=ReclaimArguments(evict_whole_group=False),
        backfill=BackfillArguments(),
    )


def _warn_of_shares_without_effect(tiers: d.Field, configuration: SchedulerConfiguration) -> None:
    """Warn of plugins with shares that are not asked because a tier above theirs chooses the victims."""
    if "reclaim" not in configuration.actions:
        return
    protecting: list[str] = []
    for tier in configuration.tiers:
        choosing = [entry.name for entry in tier if "Reclaimable" not in entry.disabled]
        for name in choosing if protecting else ():
            if name in _SHARE_PLUGINS:
                above = " and ".join(protecting)
                tiers.warn(f"{name} does not limit reclaim where {above} above it let pods go (use one tier)")
        protecting += [name for name in choosing if name in _PROTECTING_PLUGINS]


def _overcommit(tiers: Iterable[Iterable[PluginEntry]]) -> Fraction | None:
    """Return the factor of the first overcommit plugin."""
    arguments = (entry.arguments for tier in tiers for entry in tier)
    return next((plugin.factor for plugin in arguments if isinstance(plugin, OvercommitArguments)), None)


def _actions(field: d.Field) -> tuple[str, ...]:
    """Decode the names of actions from one comma-separated text, as in Volcano."""
    if not isinstance(field.value, str):
        raise d.InvalidValue(f'is not text (write "{", ".join(ACTIONS[:3])}")')
    named = [name for name in map(str.strip, field.value.split(",")) if name]
    if not named:
        raise d.InvalidValue(f'names no action (write "{", ".join(ACTIONS[:3])}")')
    whole_gangs = [name for name in named if name in GANG_ACTIONS]
    if whole_gangs and {"preempt", "reclaim"} & set(named):
        raise d.InvalidValue(f"mixes {' and '.join(whole_gangs)} with preempt or reclaim (keep the latter)")
    actions = tuple(name for name in named if _is_action(field, name))
    for action, count in Counter(actions).items():
        if count > 1:
            field.warn(f"{action} is listed {count} times, and executed as often")
    return actions


def _is_action(field: d.Field, name: str) -> bool:
    """Return True if the scheduler has the action; report another name."""
    if name == NO_OP_ACTION:
        field.warn(
            f"{NO_OP_ACTION} does nothing: the plugins that use it, tdm and rescheduling, are not supported"
        )
    elif name not in _KNOWN:
        field.reject(f"names {name!r}, which is not an action ({_suggestion(name, _KNOWN)})")
    return name in _KNOWN


def _action_arguments(fields: LenientSection) -> Mapping[str, d.Field]:
    listed = fields.take("configurations", d.list_of(lenient_section(_named_arguments)), ())
    given: dict[str, d.Field] = {}
    for action, field in listed:
        if given.setdefault(action, field) is not field:
            field.warn(f"{action} already has arguments, so these have no effect")
    return given


def _named_arguments(fields: LenientSection) -> tuple[str, d.Field] | None:
    name = fields.take("name", d.text, "")
    given = fields.at("arguments")
    if name in _KNOWN:
        return name, given
    fields.at("name").warn(f"{name!r} is not an action, so its arguments have no effect")
    return None


def _tier(fields: LenientSection) -> tuple[PluginEntry, ...]:
    entries = fields.take("plugins", d.list_of(lenient_section(_plugin)), ())
    names = {entry.name for entry in entries}
    if "proportion" in names and any(entry.name == "drf" and entry.hierarchy for entry in entries):
        fields.at("plugins").reject("have drf with enableHierarchy and proportion in one tier (keep one)")
    return entries


def _plugin(fields: LenientSection) -> PluginEntry | None:
    fields.require("name", hint="write the name of a plugin")
    name = fields.take("name", d.text, "")
    hierarchy = fields.take("enableHierarchy", d.boolean, False)
    disabled = frozenset(
        switch for key, switch in ENABLE_FIELDS.items() if not fields.take(key, d.boolean, True)
    )
    given = fields.at("arguments")
    if name not in PLUGIN_DECODERS:
        _report_unsupported(fields.at("name"), name)
        return None
    if hierarchy and name not in HIERARCHICAL_PLUGINS:
        fields.at("enableHierarchy").warn(f"has no effect: {name} does not support a hierarchy")
    understood = given.decode(arguments(PLUGIN_DECODERS[name]), None)
    return None if understood is None else PluginEntry(name, understood, disabled, hierarchy)


def _report_unsupported(field: d.Field, name: str) -> None:
    if name in UNSUPPORTED_FILTERS:
        field.reject(f"{UNSUPPORTED_FILTERS[name]}, which is not supported (remove it to run without it)")
    elif name in UNSUPPORTED_SCORERS:
        field.warn(f"{name} {UNSUPPORTED_SCORERS[name]}, which is not supported: pods run without it")
    elif name:
        names = (*PLUGIN_DECODERS, *UNSUPPORTED_FILTERS, *UNSUPPORTED_SCORERS)
        field.reject(f"is not a plugin ({_suggestion(name, names)})")


def _suggestion(name: str, names: Collection[str]) -> str:
    near = get_close_matches(name, names, n=1)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(names)}"
