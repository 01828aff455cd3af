"""Decoding of Volcano's scheduler configuration."""

from fractions import Fraction
from typing import Any

import pytest

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
from tests.api.scheduler_configuration.notation import action, loaded, plugin

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


def names(configuration: SchedulerConfiguration) -> list[list[str]]:
    return [[entry.name for entry in tier] for tier in configuration.tiers]


def test_superfluous_commas_between_actions_are_ignored() -> None:
    text = "{actions: ' enqueue,, allocate ,', tiers: [{plugins: [{name: gang}]}]}"
    assert load_scheduler_configuration(text).configuration.actions == ("enqueue", "allocate")


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


@pytest.mark.parametrize("value", [None, "{}", "~"])
def test_arguments_may_be_absent(value: Any) -> None:
    said = "" if value is None else f", arguments: {value}"
    assert loaded(plugin(f"{{name: sla{said}}}")).tiers == ((PluginEntry("sla", SlaArguments()),),)
