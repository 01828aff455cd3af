"""Fields of Volcano's scheduler configuration that are refused, or have no effect and cause a warning."""

import pytest

from quorate.api.decoding.strict import InvalidConfiguration
from quorate.api.scheduler_configuration import (
    load_scheduler_configuration,
)
from tests.api.scheduler_configuration.notation import action, loaded, plugin


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
        pytest.param("actions: [a", "line 1: 'actions: [a' did not find expected", id="not YAML"),
        pytest.param("", "'' contains 0 documents, must hold one with actions and tiers", id="no document"),
        pytest.param("[]", "line 1: [] is not a mapping of fields", id="not a mapping"),
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
            "line 1: actions: is missing (write enqueue, allocate, backfill)",
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
            "{actions: ' , '}",
            "line 1: actions: ' , ' names no action (write \"enqueue, allocate, backfill\")",
            id="commas without actions",
        ),
        pytest.param(
            "{actions: 'allocate, gangpreempt, preempt'}",
            "line 1: actions: 'allocate, gangpreempt, preempt' mixes gangpreempt with preempt or reclaim "
            "(keep the latter)",
            id="two ways to preempt",
        ),
        pytest.param(
            "{profile: strict, actions: allocate}",
            "line 1: profile: 'strict' is not allowed here (write compat or design or native)",
            id="an unknown profile",
        ),
        pytest.param(
            plugin("{name: gnag}"),
            "line 1: tiers[0].plugins[0].name: 'gnag' is not a plugin (did you mean gang?)",
            id="an unknown plugin",
        ),
        pytest.param(
            plugin("{}"),
            "line 1: tiers[0].plugins[0].name: is missing (write the name of a plugin)",
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
