"""The configuration file of a gang scheduler: Volcano's (``volcano-scheduler.conf``), and one field of ours.

``actions`` say what a session does and in which order; ``tiers`` whom it asks; ``configurations`` hold
arguments of actions.  Ours is ``profile``: ``design``, the default, or ``compat``, which does as Volcano
does.  What would change who runs where is refused: unknown actions and plugins, and plugins that forbid
something and are not served here.  Everything else that does not fit is told and left aside, and an argument
that cannot be read keeps its default, as Volcano has it: its files work here as they are.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from fractions import Fraction
from functools import partial
from typing import Final, TypeVar, get_args

import msgspec

from quorate.api.decoding.lenient import Arguments, OpenSection, arguments, open_section
from quorate.api.decoding.strict import (
    InvalidConfiguration,
    Place,
    Refused,
    boolean,
    choice,
    list_of,
    reading_of,
    text,
)
from quorate.api.scheduler_configuration.actions import (
    ACTIONS,
    IDLE,
    UNSERVED,
    Action,
    AllocateRules,
    BackfillRules,
    EnqueueRules,
    PreemptRules,
    Profile,
    ReclaimRules,
    allocate_rules,
    backfill_rules,
    enqueue_rules,
    preempt_rules,
    reclaim_rules,
)
from quorate.api.scheduler_configuration.plugins import (
    FORBIDDING,
    HIERARCHICAL,
    PREFERRING,
    SERVED,
    SWITCHES,
    OvercommitArguments,
    PluginArguments,
    Switch,
)

R = TypeVar("R")

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


class PluginEntry(msgspec.Struct, frozen=True):
    """One plugin in its tier: ``arguments`` are of its own class, ``silent`` is what it has no say on."""

    name: str
    arguments: PluginArguments
    silent: frozenset[Switch] = frozenset()
    hierarchy: bool = False


class SchedulerConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    profile: Profile
    actions: tuple[Action, ...]
    tiers: tuple[tuple[PluginEntry, ...], ...]
    enqueue: EnqueueRules = EnqueueRules()
    allocate: AllocateRules = AllocateRules()
    preempt: PreemptRules = PreemptRules()
    reclaim: ReclaimRules = ReclaimRules()
    backfill: BackfillRules = BackfillRules()


class LoadedSchedulerConfiguration(msgspec.Struct, frozen=True):
    configuration: SchedulerConfiguration
    warnings: tuple[str, ...]


def default_scheduler_configuration() -> SchedulerConfiguration:
    """What holds without a file."""
    return load_scheduler_configuration(DEFAULT_FILE).configuration


def load_scheduler_configuration(text: str) -> LoadedSchedulerConfiguration:
    """Read a configuration file.  Raises ``InvalidConfiguration`` with every finding."""
    reading = reading_of(text, "must hold one with actions and tiers")
    root = reading.root()
    _refuse_manifests(root)
    configuration = root.read(open_section(_configuration), None)
    if configuration is None or reading.findings:
        raise InvalidConfiguration(reading.findings)
    return LoadedSchedulerConfiguration(configuration, tuple(reading.warnings))


def _refuse_manifests(root: Place) -> None:
    """At once: what else there is to say of another kind of file would only add noise."""
    match root.value:
        case {"kind": "ConfigMap"}:
            root.entry("kind").refuse("wraps a file (give the text under its data.volcano-scheduler.conf)")
        case {"kind": _}:
            root.entry("kind").refuse("is not allowed here (write actions and tiers)")
        case _:
            return
    raise InvalidConfiguration(root.reading.findings)


def _configuration(fields: OpenSection) -> SchedulerConfiguration:
    profile: Profile = fields.take("profile", choice(get_args(Profile)), "design")
    if "actions" not in fields:
        fields.at("actions").refuse(f"is missing (write {', '.join(ACTIONS[:3])})")
    actions = fields.take("actions", _actions, ())
    tiers = fields.take("tiers", list_of(open_section(_tier)), ())
    if not any(tiers):
        fields.at("tiers").warn("no plugin is named, so nobody is asked")
    for name, count in Counter(entry.name for tier in tiers for entry in tier).items():
        if count > 1:
            fields.at("tiers").warn(f"{name} is named {count} times, and asked as often (keep one)")
    told = _told_of_actions(fields)
    nothing = Place(fields.place.reading, "configurations", None)

    def rules(action: Action, reader: Callable[[Arguments], R], otherwise: R) -> R:
        return told.get(action, nothing).read(arguments(reader), otherwise)

    configuration = SchedulerConfiguration(
        profile=profile,
        actions=actions,
        tiers=tiers,
        enqueue=rules("enqueue", partial(enqueue_rules, overcommit=_overcommit(tiers)), EnqueueRules()),
        allocate=rules("allocate", allocate_rules, AllocateRules()),
        preempt=rules("preempt", preempt_rules, PreemptRules()),
        reclaim=rules("reclaim", reclaim_rules, ReclaimRules()),
        backfill=rules("backfill", backfill_rules, BackfillRules()),
    )
    return configuration if profile == "design" else _as_volcano(configuration, told)


def _as_volcano(
    configuration: SchedulerConfiguration, told: Mapping[Action, Place]
) -> SchedulerConfiguration:
    """Without what only profile ``design`` does."""
    for action, place in told.items():
        if place.value and action != "allocate":
            place.warn("changes nothing with profile compat")
    return msgspec.structs.replace(
        configuration,
        enqueue=EnqueueRules(),
        preempt=PreemptRules(evict_overused=False, evict_whole_group=False),
        reclaim=ReclaimRules(evict_whole_group=False),
        backfill=BackfillRules(),
    )


def _overcommit(tiers: Iterable[Iterable[PluginEntry]]) -> Fraction | None:
    """The factor of the first such plugin."""
    found = (entry.arguments for tier in tiers for entry in tier)
    return next((each.factor for each in found if isinstance(each, OvercommitArguments)), None)


def _actions(place: Place) -> tuple[Action, ...]:
    """One text with commas, as Volcano has it."""
    if not isinstance(place.value, str):
        raise Refused(f'is not text (write "{", ".join(ACTIONS[:3])}")')
    named = [name.strip() for name in place.value.split(",")]
    whole_gangs = [name for name in named if name in UNSERVED]
    if whole_gangs and {"preempt", "reclaim"} & set(named):
        raise Refused(f"mixes {' and '.join(whole_gangs)} with preempt or reclaim (keep the latter)")
    actions = tuple(action for name in named if (action := _action(place, name)) is not None)
    for action, count in Counter(actions).items():
        if count > 1:
            place.warn(f"{action} is named {count} times, and done as often")
    return actions


def _action(place: Place, name: str) -> Action | None:
    for action in ACTIONS:
        if name == action:
            return action
    if name == IDLE:
        place.warn(f"{IDLE} does nothing: the plugins that ask for it, tdm and rescheduling, are not here")
    elif name in UNSERVED:
        place.refuse(f"names {name}, which is not served here ({UNSERVED[name]})")
    else:
        place.refuse(f"names {name!r}, which is no action ({_suggestion(name, ACTIONS)})")
    return None


def _told_of_actions(fields: OpenSection) -> Mapping[Action, Place]:
    listed = fields.take("configurations", list_of(open_section(_arguments_of_action)), ())
    told: dict[Action, Place] = {}
    for action, place in listed:
        if told.setdefault(action, place) is not place:
            place.warn(f"{action} has its arguments already, so these change nothing")
    return told


def _arguments_of_action(fields: OpenSection) -> tuple[Action, Place] | None:
    name = fields.take("name", text, "")
    given = fields.at("arguments")
    for action in ACTIONS:
        if name == action:
            return action, given
    fields.at("name").warn(f"{name!r} is no action here, so its arguments change nothing")
    return None


def _tier(fields: OpenSection) -> tuple[PluginEntry, ...]:
    entries = fields.take("plugins", list_of(open_section(_plugin)), ())
    names = {entry.name for entry in entries}
    if "proportion" in names and any(entry.name == "drf" and entry.hierarchy for entry in entries):
        fields.at("plugins").refuse("have drf with enableHierarchy and proportion in one tier (keep one)")
    return entries


def _plugin(fields: OpenSection) -> PluginEntry | None:
    if "name" not in fields:
        fields.at("name").refuse("is missing (write the name of a plugin)")
    name = fields.take("name", text, "")
    hierarchy = fields.take("enableHierarchy", boolean, False)
    silent = frozenset(switch for key, switch in SWITCHES.items() if not fields.take(key, boolean, True))
    given = fields.at("arguments")
    if name not in SERVED:
        _tell_of_unserved(fields.at("name"), name)
        return None
    if hierarchy and name not in HIERARCHICAL:
        fields.at("enableHierarchy").warn(f"changes nothing: {name} knows no hierarchy")
    understood = given.read(arguments(SERVED[name]), None)
    return None if understood is None else PluginEntry(name, understood, silent, hierarchy)


def _tell_of_unserved(place: Place, name: str) -> None:
    if name in FORBIDDING:
        place.refuse(f"{FORBIDDING[name]}, which is not served here (take it out to go without)")
    elif name in PREFERRING:
        place.warn(f"{name} {PREFERRING[name]}, which is not served here: pods run without it")
    elif name:
        place.refuse(f"is no plugin ({_suggestion(name, (*SERVED, *FORBIDDING, *PREFERRING))})")


def _suggestion(name: str, known: Collection[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
