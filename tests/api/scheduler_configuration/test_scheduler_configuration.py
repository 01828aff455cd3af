"""Decoding of Volcano's scheduler configuration."""

from fractions import Fraction
from typing import Any

import pytest

from quorate.api.decoding.strict import InvalidConfiguration
from quorate.api.scheduler_configuration import (
    PluginEntry,
    SchedulerConfiguration,
    default_scheduler_configuration,
    load_scheduler_configuration,
)
from quorate.api.scheduler_configuration.actions import EnqueueArguments, PreemptArguments, ReclaimArguments
from quorate.api.scheduler_configuration.plugins import (
    BinpackArguments,
    CapacityArguments,
    NoArguments,
    NodeOrderArguments,
    OvercommitArguments,
    PredicateArguments,
    SlaArguments,
)

# The file that Volcano's chart installs.
CHART = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""


def loaded(body: str) -> SchedulerConfiguration:
    result = load_scheduler_configuration(body)
    assert result.warnings == ()
    return result.configuration


def plugin(entry: str) -> str:
    return f'{{actions: "allocate", tiers: [{{plugins: [{entry}]}}]}}'


def action(configurations: str, profile: str = "design") -> str:
    return (
        f'{{profile: {profile}, actions: "enqueue", tiers: [{{plugins: [{{name: gang}}]}}], '
        f"configurations: [{configurations}]}}"
    )


def names(configuration: SchedulerConfiguration) -> list[list[str]]:
    return [[entry.name for entry in tier] for tier in configuration.tiers]


def test_without_a_file_volcanos_defaults_apply_with_profile_design() -> None:
    configuration = default_scheduler_configuration()
    assert configuration.profile == "design"
    assert configuration.actions == ("enqueue", "allocate", "backfill")
    assert names(configuration) == [
        ["priority", "gang", "conformance"],
        ["overcommit", "drf", "predicates", "proportion", "nodeorder"],
    ]
    assert all(not entry.disabled for tier in configuration.tiers for entry in tier)


def test_the_file_of_volcanos_chart_is_accepted() -> None:
    configuration = loaded(CHART)
    silenced = [
        entry.name for tier in configuration.tiers for entry in tier if "Preemptable" in entry.disabled
    ]
    assert silenced == ["gang", "drf"]
    assert names(configuration)[1][-1] == "binpack"


@pytest.mark.parametrize(
    ("entry", "want"),
    [
        pytest.param("{name: gang}", PluginEntry("gang", NoArguments()), id="no arguments"),
        pytest.param(
            "{name: priority, enableJobOrder: false, enabledOverused: false, enableTaskOrder: true}",
            PluginEntry("priority", NoArguments(), frozenset({"JobOrder", "Overused"})),
            id="enable fields of both spellings",
        ),
        pytest.param(
            "{name: drf, enableHierarchy: true}",
            PluginEntry("drf", NoArguments(), hierarchy=True),
            id="hierarchy of drf",
        ),
        pytest.param(
            "{name: overcommit, arguments: {overcommit-factor: 1.1}}",
            PluginEntry("overcommit", OvercommitArguments(Fraction(11, 10))),
            id="a factor is exact",
        ),
        pytest.param(
            "{name: overcommit, arguments: {overcommit-factor: '1.25'}}",
            PluginEntry("overcommit", OvercommitArguments(Fraction(5, 4))),
            id="a number in quotes",
        ),
        pytest.param(
            "{name: sla, arguments: {sla-waiting-time: 1h30m}}",
            PluginEntry("sla", SlaArguments(5400.0)),
            id="a duration as Go writes it",
        ),
        pytest.param(
            "{name: sla, arguments: {sla-waiting-time: 90}}",
            PluginEntry("sla", SlaArguments(90.0)),
            id="a duration in seconds",
        ),
        pytest.param(
            "{name: capacity, enableHierarchy: true, arguments: {ancestorReclaimLevel: 2}}",
            PluginEntry("capacity", CapacityArguments(2), hierarchy=True),
            id="a hierarchy of queues",
        ),
        pytest.param(
            "{name: binpack, arguments: {binpack.weight: 10, binpack.cpu: 5, "
            "binpack.resources: 'nvidia.com/gpu, example.com/foo,', binpack.resources.nvidia.com/gpu: 2}}",
            PluginEntry(
                "binpack",
                BinpackArguments(10, {"cpu": 5, "memory": 1, "nvidia.com/gpu": 2, "example.com/foo": 1}),
            ),
            id="weights of listed resources",
        ),
        pytest.param(
            "{name: nodeorder, arguments: {leastrequested.weight: 0, mostrequested.weight: 3}}",
            PluginEntry("nodeorder", NodeOrderArguments(least_requested=0, most_requested=3)),
            id="weights of scores",
        ),
        pytest.param(
            "{name: predicates, arguments: {predicate.VolumeZoneEnable: false, "
            "predicate.PodTopologySpreadEnable: 'false', predicate.CacheEnable: true}}",
            PluginEntry("predicates", PredicateArguments(volume_zone=False, pod_topology_spread=False)),
            id="constraints switched off",
        ),
    ],
)
def test_arguments_of_plugins(entry: str, want: PluginEntry) -> None:
    assert loaded(plugin(entry)).tiers == ((want,),)


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param("{}", EnqueueArguments(), id="no arguments"),
        pytest.param(
            "{order: fair, idle-factor: 0.9, inqueue-timeout: 1m30s, requeue-backoff-base: 5, "
            "requeue-backoff-max: 1m, check-quota: false}",
            EnqueueArguments(
                order="fair", idle_factor=Fraction(9, 10), inqueue_timeout_s=90.0, backoff_base_s=5.0,
                backoff_max_s=60.0, check_quota=False,
            ),
            id="all arguments",
        ),
        pytest.param("{inqueue-timeout: 0}", EnqueueArguments(inqueue_timeout_s=None),
            id="0 means unlimited"),
    ],
)  # fmt: skip
def test_arguments_of_enqueue(arguments: str, want: EnqueueArguments) -> None:
    assert loaded(action(f"{{name: enqueue, arguments: {arguments}}}")).enqueue == want


def test_arguments_of_the_other_actions() -> None:
    configuration = loaded(
        action(
            "{name: preempt, arguments: {evict-overused: false}}, "
            "{name: reclaim, arguments: {evict-whole-group: false}}, "
            "{name: backfill, arguments: {fill-fragments: true}}, "
            "{name: allocate, arguments: {predicateErrorCacheEnable: 'false'}}"
        )
    )
    assert configuration.preempt == PreemptArguments(evict_overused=False, evict_whole_group=True)
    assert configuration.reclaim == ReclaimArguments(evict_whole_group=False)
    assert configuration.backfill.fill_fragments
    assert not configuration.allocate.predicate_error_cache


@pytest.mark.parametrize(
    ("said", "want"),
    [
        pytest.param("", Fraction(6, 5), id="the factor of overcommit"),
        pytest.param("arguments: {idle-factor: 1}", Fraction(1), id="its own factor"),
    ],
)
def test_the_idle_factor_defaults_to_the_factor_of_overcommit(said: str, want: Fraction) -> None:
    entry = (
        "{actions: enqueue, tiers: [{plugins: [{name: overcommit}]}], configurations: [{name: enqueue, %s}]}"
    )
    assert loaded(entry % said).enqueue.idle_factor == want


def test_profile_compat_disables_features_that_volcano_lacks() -> None:
    result = load_scheduler_configuration(
        action(
            "{name: enqueue, arguments: {order: fair}}, {name: preempt}, "
            "{name: allocate, arguments: {predicateErrorCacheEnable: false}}",
            profile="compat",
        )
    )
    configuration = result.configuration
    assert configuration.enqueue == EnqueueArguments()
    assert configuration.preempt == PreemptArguments(evict_overused=False, evict_whole_group=False)
    assert configuration.reclaim == ReclaimArguments(evict_whole_group=False)
    assert not configuration.allocate.predicate_error_cache
    assert result.warnings == ("configurations[0].arguments: has no effect with profile compat",)


@pytest.mark.parametrize(
    ("profile", "actions", "tiers"),
    [
        pytest.param("design", "reclaim", "[{name: gang}]}, {plugins: [{name: capacity}]", id="design"),
        pytest.param("compat", "preempt", "[{name: gang}]}, {plugins: [{name: capacity}]", id="no reclaim"),
        pytest.param("compat", "reclaim", "[{name: gang}, {name: capacity}]", id="one tier"),
        pytest.param("compat", "reclaim", "[{name: proportion}]}, {plugins: [{name: gang}]", id="below"),
        pytest.param(
            "compat",
            "reclaim",
            "[{name: gang, enableReclaimable: false}]}, {plugins: [{name: capacity}]",
            id="switched off",
        ),
    ],
)
def test_shares_that_limit_reclaim_produce_no_warning(profile: str, actions: str, tiers: str) -> None:
    result = load_scheduler_configuration(
        f"{{profile: {profile}, actions: {actions}, tiers: [{{plugins: {tiers}}}]}}"
    )
    assert result.warnings == ()


@pytest.mark.parametrize("profile", ["design", "compat"])
@pytest.mark.parametrize("allows", [True, False])
def test_the_actions_for_whole_gangs_evict_them_in_both_profiles(profile: str, allows: bool) -> None:
    arguments = f"arguments: {{allowWholeBundle: {str(allows).lower()}}}"
    result = load_scheduler_configuration(
        f"{{profile: {profile}, actions: 'allocate, gangpreempt, gangreclaim', "
        "tiers: [{plugins: [{name: gang}]}], "
        f"configurations: [{{name: gangpreempt, {arguments}}}, {{name: gangreclaim, {arguments}}}]}}"
    )
    configuration = result.configuration
    assert configuration.actions == ("allocate", "preempt", "reclaim")
    assert configuration.preempt == PreemptArguments(
        evict_overused=False, evict_whole_group=allows, only_lower_gangs=True
    )
    assert configuration.reclaim == ReclaimArguments(evict_whole_group=allows)
    assert result.warnings == ()


def test_the_bound_on_searched_domains_has_no_effect() -> None:
    result = load_scheduler_configuration(
        "{actions: gangpreempt, tiers: [{plugins: [{name: gang}]}], "
        "configurations: [{name: gangpreempt, arguments: {maxDomains: 4}}]}"
    )
    assert result.configuration.preempt.evict_whole_group
    assert result.warnings == ("configurations[0].arguments.maxDomains: is unknown and has no effect",)


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param("actions: [a", "line 1: .: 'actions: [a' did not find expected", id="not YAML"),
        pytest.param(
            "", ".: '' contains 0 documents, must hold one with actions and tiers", id="no document"
        ),
        pytest.param("[]", "line 1: .: [] is not a mapping of fields", id="not a mapping"),
        pytest.param(
            "{kind: ConfigMap, data: {volcano-scheduler.conf: x}}",
            "line 1: kind: 'ConfigMap' wraps a file (give the text under its data.volcano-scheduler.conf)",
            id="the ConfigMap around the file",
        ),
        pytest.param(
            "{kind: Configuration}",
            "line 1: kind: 'Configuration' is not allowed here (write actions and tiers)",
            id="the file of the queueing controllers",
        ),
        pytest.param(
            "{tiers: [{plugins: [{name: gang}]}]}",
            "line 1: actions: null is missing (write enqueue, allocate, backfill)",
            id="no actions",
        ),
        pytest.param(
            "{actions: [allocate]}",
            'line 1: actions: ["allocate"] is not text (write "enqueue, allocate, backfill")',
            id="a list of actions",
        ),
        pytest.param(
            "{actions: 'enqeue, allocate'}",
            "line 1: actions: 'enqeue, allocate' names 'enqeue', which is not an action "
            "(did you mean enqueue?)",
            id="a typo",
        ),
        pytest.param(
            "{actions: 'allocate,'}",
            "line 1: actions: 'allocate,' names '', which is not an action "
            "(known are enqueue, allocate, backfill, preempt, reclaim, gangpreempt, gangreclaim)",
            id="a trailing comma",
        ),
        pytest.param(
            "{actions: 'allocate, gangpreempt, preempt'}",
            "line 1: actions: 'allocate, gangpreempt, preempt' mixes gangpreempt with preempt or reclaim "
            "(keep the latter)",
            id="two ways to preempt",
        ),
        pytest.param(
            "{profile: strict, actions: allocate}",
            "line 1: profile: 'strict' is not allowed here (write compat or design)",
            id="an unknown profile",
        ),
        pytest.param(
            plugin("{name: gnag}"),
            "line 1: tiers[0].plugins[0].name: 'gnag' is not a plugin (did you mean gang?)",
            id="an unknown plugin",
        ),
        pytest.param(
            plugin("{}"),
            "line 1: tiers[0].plugins[0].name: null is missing (write the name of a plugin)",
            id="a plugin without a name",
        ),
        pytest.param(
            plugin("{name: tdm}"),
            "line 1: tiers[0].plugins[0].name: 'tdm' keeps pods off revocable nodes outside of their hours, "
            "which is not supported (remove it to run without it)",
            id="an unsupported plugin that filters",
        ),
        pytest.param(
            plugin("{name: gang, enableJobOrder: 'off'}"),
            "line 1: tiers[0].plugins[0].enableJobOrder: 'off' is not a boolean (write true or false)",
            id="an enable field that is not a boolean",
        ),
        pytest.param(
            plugin("{name: sla, arguments: [1m]}"),
            'line 1: tiers[0].plugins[0].arguments: ["1m"] is not a mapping of arguments',
            id="a list of arguments",
        ),
        pytest.param(
            plugin("{name: drf, enableHierarchy: true}, {name: proportion}"),
            'line 1: tiers[0].plugins: [{"name": "drf", "enableHierarchy": true}, {"name": "proportion"}] '
            "have drf with enableHierarchy and proportion in one tier (keep one)",
            id="drf with hierarchy and proportion in one tier",
        ),
    ],
)
def test_rejected_configurations(body: str, want: str) -> None:
    with pytest.raises(InvalidConfiguration) as refusal:
        load_scheduler_configuration(body)
    assert len(refusal.value.findings) == 1
    assert str(refusal.value).startswith(want)


def test_hierarchy_and_proportion_may_be_in_different_tiers() -> None:
    loaded(
        "{actions: allocate, tiers: [{plugins: [{name: drf, enableHierarchy: true}]}, "
        "{plugins: [{name: proportion}]}]}"
    )


def test_every_finding_is_listed() -> None:
    with pytest.raises(InvalidConfiguration) as refusal:
        load_scheduler_configuration("profile: x\nactions: y\ntiers:\n- plugins:\n  - name: z\n")
    assert [(finding.path, finding.line) for finding in refusal.value.findings] == [
        ("profile", 1), ("actions", 2), ("tiers[0].plugins[0].name", 5),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param(
            "{actions: allocate}",
            "tiers: lists no plugin, so no plugin takes part in decisions",
            id="no plugin",
        ),
        pytest.param(
            "{actions: 'allocate, shuffle', tiers: [{plugins: [{name: gang}]}]}",
            "actions: shuffle does nothing: the plugins that use it, tdm and rescheduling, are not supported",
            id="an action without its plugins",
        ),
        pytest.param(
            "{actions: allocate, tiers: [{plugins: [{name: gang}]}], metrics: {type: prometheus}}",
            "metrics: is unknown and has no effect",
            id="an unknown section",
        ),
        pytest.param(
            plugin("{name: gang, enablePreemptible: false}"),
            "tiers[0].plugins[0].enablePreemptible: is unknown and has no effect "
            "(did you mean enablePreemptable?)",
            id="an enable field with a typo",
        ),
        pytest.param(
            plugin("{name: gang}, {name: task-topology}"),
            "tiers[0].plugins[1].name: task-topology places roles near each other, "
            "which is not supported: pods run without it",
            id="an unsupported plugin that scores",
        ),
        pytest.param(
            plugin("{name: gang, enableHierarchy: true}"),
            "tiers[0].plugins[0].enableHierarchy: has no effect: gang does not support a hierarchy",
            id="a hierarchy for gang",
        ),
        pytest.param(
            plugin("{name: overcommit, arguments: {overcommit-factor: 0.5}}"),
            "tiers[0].plugins[0].arguments.overcommit-factor: 0.5 is too small, must be at least 1: "
            "the default is used",
            id="a factor below one",
        ),
        pytest.param(
            plugin("{name: overcommit, arguments: {overcommit-factor: .nan}}"),
            "tiers[0].plugins[0].arguments.overcommit-factor: NaN is not a number: the default is used",
            id="not a number",
        ),
        pytest.param(
            plugin("{name: overcommit, arguments: {overcommit-factor: '1e999999999'}}"),
            "tiers[0].plugins[0].arguments.overcommit-factor: '1e999999999' is not a number: "
            "the default is used",
            id="a huge number",
        ),
        pytest.param(
            plugin("{name: sla, arguments: {sla-waiting-time: soon}}"),
            "tiers[0].plugins[0].arguments.sla-waiting-time: 'soon' is not a duration "
            "(write 10m, 1h30m or a number of seconds): the default is used",
            id="not a duration",
        ),
        pytest.param(
            plugin("{name: sla, arguments: {sla-waiting-time: 0s}}"),
            "tiers[0].plugins[0].arguments.sla-waiting-time: '0s' is too short, must be more than 0s: "
            "the default is used",
            id="a duration of zero",
        ),
        pytest.param(
            action("{name: enqueue, arguments: {requeue-backoff-max: 99999999999}}"),
            "configurations[0].arguments.requeue-backoff-max: 99999999999 is too long, "
            "must be at most 292 years: the default is used",
            id="a time beyond the maximum",
        ),
        pytest.param(
            plugin("{name: binpack, arguments: {binpack.weight: -1}}"),
            "tiers[0].plugins[0].arguments[binpack.weight]: -1 is out of range, must be 0 to 2147483647: "
            "the default is used",
            id="a negative weight",
        ),
        pytest.param(
            plugin("{name: binpack, arguments: {binpack.cpu: 1.5}}"),
            "tiers[0].plugins[0].arguments[binpack.cpu]: 1.5 is not a whole number: the default is used",
            id="a fractional weight",
        ),
        pytest.param(
            plugin("{name: predicates, arguments: {predicate.NodeAfinityEnable: false}}"),
            "tiers[0].plugins[0].arguments[predicate.NodeAfinityEnable]: is unknown and has no effect "
            "(did you mean predicate.NodeAffinityEnable?)",
            id="an argument with a typo",
        ),
        pytest.param(
            plugin("{name: predicates, arguments: {predicate.ProportionalEnable: true}}"),
            "tiers[0].plugins[0].arguments[predicate.ProportionalEnable]: is not supported and has no effect",
            id="an unsupported predicate",
        ),
        pytest.param(
            action("{name: enqueue, arguments: {order: lifo}}"),
            "configurations[0].arguments.order: 'lifo' is not allowed here (write fcfs or fair): "
            "the default is used",
            id="an unknown order",
        ),
        pytest.param(
            action("{name: enqueue, arguments: {idle-factor: 0}}"),
            "configurations[0].arguments.idle-factor: 0 is too small, must be more than 0: "
            "the default is used",
            id="a factor of zero",
        ),
        pytest.param(
            action("{name: enqueue}, {name: enqueue, arguments: {order: fair}}"),
            "configurations[1].arguments: enqueue already has arguments, so these have no effect",
            id="duplicate arguments",
        ),
        pytest.param(
            '{actions: "enqueue, allocate, enqueue", tiers: [{plugins: [{name: gang}]}]}',
            "actions: enqueue is listed 2 times, and executed as often",
            id="a duplicate action",
        ),
        pytest.param(
            '{actions: "enqueue", tiers: [{plugins: [{name: gang}]}, {plugins: [{name: gang}]}]}',
            "tiers: gang is listed 2 times, and called as often (keep one)",
            id="a duplicate plugin",
        ),
        pytest.param(
            action("{name: elect}"),
            "configurations[0].name: 'elect' is not an action, so its arguments have no effect",
            id="arguments of an unknown action",
        ),
        pytest.param(
            "{profile: compat, actions: reclaim, "
            "tiers: [{plugins: [{name: gang}, {name: conformance}]}, {plugins: [{name: capacity}]}]}",
            "tiers: capacity does not limit reclaim where gang and conformance above it let pods go "
            "(use one tier)",
            id="shares below a plugin that protects pods",
        ),
    ],
)
def test_ignored_fields_produce_a_warning(body: str, want: str) -> None:
    result = load_scheduler_configuration(body)
    assert result.warnings == (want,)


@pytest.mark.parametrize("value", [None, "{}", "~"])
def test_arguments_may_be_absent(value: Any) -> None:
    said = "" if value is None else f", arguments: {value}"
    assert loaded(plugin(f"{{name: sla{said}}}")).tiers == ((PluginEntry("sla", SlaArguments()),),)
