"""At rest a new process decides nothing: heads that search for flavors, lose to others, or wait for pods."""

from tests.queueing.notation import Json
from tests.queueing.played_remedies import explained
from tests.queueing.resting_histories import failure
from tests.queueing.resting_world import RestingWorld, one_queue


def test_a_workload_that_changes_during_a_pause_is_tried_on_the_first_flavor_again() -> None:
    queues = {
        "first": {"quota": [{"one": {"cpu": 1}}]},
        "cq": {"quota": [{"one": {"cpu": 1}}, {"two": {"cpu": 0}}]},
    }
    given = one_queue(
        [{"name": "other", "queue": "first"}, {"name": "w", "created": 1}],
        flavors={"one": {}, "two": {}},
        clusterQueues=queues,
        localQueues={"q": {"clusterQueue": "cq"}, "first": {"clusterQueue": "first"}},
    )
    steps = [{"run": 1}, {"update": {"workloads": {"w": {"priority": 0}}}}]  # another generation
    assert failure(given, steps) == ""


def test_a_workload_that_arrives_during_a_pause_keeps_no_flavor_from_being_tried() -> None:
    """The search of ``waits`` ended at a flavor that an unready workload blocks, with another one left."""
    given = one_queue(
        [
            {"name": "later", "create": "later", "requests": {}},
            {"name": "unready", "queue": "first", "requests": {"cpu": 2}},
            {"name": "waits"},
        ],
        config={"waitForPodsReady": {"blockAdmission": True, "blockAdmissionScope": "SameFlavors"}},
        flavors={"one": {}, "two": {}},
        clusterQueues={
            "cq": {"quota": [{"one": {"cpu": 4}}, {"two": {"cpu": 2}}]},
            "first": {"quota": [{"one": {"cpu": 3}}]},
        },
        localQueues={"q": {"clusterQueue": "cq"}, "first": {"clusterQueue": "first"}},
    )
    assert failure(given, [{"run": 1}, {"create": ["later"]}]) == ""


def test_a_search_that_lost_before_a_pause_sees_what_the_others_took() -> None:
    """Once ``borrows`` is admitted, ``reclaims`` may preempt it: it had no candidates before."""
    given = one_queue(
        [
            {"name": "first", "queue": "other"},
            {
                "name": "borrows",
                "queue": "other",
                "created": 1,
                "podSets": [{"count": 3, "requests": {"cpu": 1}}],
            },
            {
                "name": "reclaims",
                "created": 2,
                "podSets": [
                    {"requests": {"cpu": 2}},
                    {"name": "workers", "requests": {"cpu": 1}, "nodeSelector": {"pool": "one"}},
                ],
            },
            {"name": "later", "created": 3, "create": "later", "requests": {}},
        ],
        config={"nodeFit": {"mode": "Require"}},
        flavors={"one": {}, "two": {}},
        nodes={
            "n1": {"labels": {"pool": "one"}, "allocatable": {"cpu": 3, "pods": 10}},
            "n2": {"allocatable": {"cpu": 4, "pods": 10}},
        },
        cohorts={"left": {"parent": "top"}},
        clusterQueues={
            "cq": {
                "cohort": "left",
                "quota": [{"one": {"cpu": 1}}, {"two": {"cpu": 5}}],
                "preemption": {"reclaimWithinCohort": "Any"},
            },
            "other": {"cohort": "top", "quota": [{"one": {"cpu": 3}}]},
        },
        localQueues={"q": {"clusterQueue": "cq"}, "other": {"clusterQueue": "other"}},
    )
    assert failure(given, [{"run": 3}, {"run": 2}, {"create": ["later"]}]) == ""


def test_a_head_that_lost_its_places_to_one_that_is_tried_again_is_tried_again() -> None:
    given = one_queue(
        [
            {"name": "small", "queue": "other", "requests": {"cpu": 2}},
            {
                "name": "large",
                "priority": 1,
                "podSets": [{"count": 2, "requests": {"cpu": 2}, "hostPort": 80}],
            },
        ],
        config={"nodeFit": {"mode": "Require"}},
        flavors={"one": {"nodeLabels": {"pool": "one"}}, "two": {}},
        nodes={"n1": {"allocatable": {"cpu": 4, "pods": 10}}},
        clusterQueues={
            "cq": {"cohort": "left", "quota": [{"two": {"cpu": 4}}]},
            "empty": {"cohort": "left"},
            "other": {"quota": [{"one": {"cpu": 5}}, {"two": {"cpu": 5}}]},
        },
        localQueues={"q": {"clusterQueue": "cq"}, "other": {"clusterQueue": "other"}},
    )
    steps = [{"run": 2}, {"update": {"clusterQueues": {"empty": {"strategy": "StrictFIFO"}}}}]
    assert failure(given, steps) == ""


def test_a_preemptor_does_not_wait_for_the_pods_of_others() -> None:
    """It arrives while a head of another queue waits, in a suspended round, for the pods of ``low``."""
    given = one_queue(
        [
            {"name": "low"},
            {"name": "waits", "queue": "other", "created": 1, "requests": {}},
            {"name": "high", "priority": 2, "created": 2, "create": "later"},
        ],
        config={"waitForPodsReady": {"blockAdmission": True}},
        clusterQueues={
            "cq": {
                "quota": [{"one": {"cpu": 1}}],
                "preemption": {"withinClusterQueue": "LowerPriority"},
            },
            "other": {},
        },
        localQueues={"q": {"clusterQueue": "cq"}, "other": {"clusterQueue": "other"}},
    )
    assert failure(given, [{"run": None}, {"create": ["high"]}]) == ""


def test_a_head_that_lost_and_became_inadmissible_is_not_tried_for_ever() -> None:
    given = one_queue(
        [{"name": "first", "queue": "other"}, {"name": "loses", "created": 1}],
        namespaces={"default": {}},
        clusterQueues={
            "cq": {"cohort": "both", "quota": [{"one": {"cpu": 1}}]},
            "other": {"cohort": "both", "quota": [{"one": {"cpu": 0}}]},
        },
        localQueues={"q": {"clusterQueue": "cq"}, "other": {"clusterQueue": "other"}},
    )
    steps = [{"run": 2}, {"limitRange": {"type": "Pod", "max": {"cpu": 2}}}]
    assert failure(given, steps) == ""


def test_fewer_pods_have_other_combinations_of_flavors_too() -> None:
    given = one_queue(
        [
            {"name": "low", "podSets": [{"count": 3, "requests": {"cpu": 1}}]},
            {
                "name": "high",
                "priority": 1,
                "podSets": [
                    {"count": 3, "requests": {"cpu": 2}, "minCount": 1},
                    {"name": "workers", "count": 2, "requests": {"cpu": 2}},
                ],
            },
        ],
        flavors={"one": {}, "two": {}},
        clusterQueues={
            "cq": {
                "quota": [{"one": {"cpu": 4}}, {"two": {"cpu": 3}}],
                "preemption": {"withinClusterQueue": "LowerPriority"},
            }
        },
    )
    assert failure(given, []) == ""


SAME_FLAVORS: Json = {"waitForPodsReady": {"blockAdmission": True, "blockAdmissionScope": "SameFlavors"}}


def test_a_slice_that_is_replaced_before_an_admission_check_blocks_no_flavor() -> None:
    given = one_queue(
        [
            {"name": "waits", "requests": {"cpu": 2}},
            {"name": "growing", "requests": {}, "created": 1, "replaces": "small"},
            {"name": "small", "queue": "other", "priority": 1, "requests": {"cpu": 2}},
        ],
        config=SAME_FLAVORS,
        flavors={"one": {}, "two": {"nodeTaints": [{"key": "spot", "effect": "NoSchedule"}]}},
        admissionChecks={"budget": {}},
        clusterQueues={
            "cq": {
                "admissionChecks": ["budget"],
                "quota": [{"one": {"cpu": 4}}, {"two": {"cpu": 4}}],
            },
            "other": {"quota": [{"one": {"cpu": 3}}]},
        },
        localQueues={"q": {"clusterQueue": "cq"}, "other": {"clusterQueue": "other"}},
    )
    assert failure(given, []) == ""


def test_a_blocked_flavor_that_was_the_best_of_all_leaves_the_others_to_be_tried() -> None:
    given = one_queue(
        [
            {"name": "unready", "queue": "other"},
            {"name": "waits", "created": 1, "podSets": [{"count": 3, "requests": {"cpu": 1}}]},
        ],
        config=SAME_FLAVORS,
        flavors={"one": {}, "two": {}},
        clusterQueues={
            "cq": {
                "cohort": "both",
                "quota": [{"one": {"cpu": 2}}, {"two": {"cpu": 2}}],
                "flavorFungibility": {"whenCanBorrow": "TryNextFlavor"},
            },
            "other": {"cohort": "both", "quota": [{"one": {"cpu": 2}}, {"two": {"cpu": 2}}]},
        },
        localQueues={"q": {"clusterQueue": "cq"}, "other": {"clusterQueue": "other"}},
    )
    world = RestingWorld(given)
    world.rest()
    assert {name: one.pod_set_assignments[0].flavors for name, one in world.admitted().items()} == {
        "unready": {"cpu": "one"},
        "waits": {"cpu": "two"},
    }


def test_a_workload_that_waits_for_the_pods_of_its_flavor_preempts_no_others() -> None:
    """``borrows`` is admitted after ``waits`` was blocked by ``unready``."""
    given = one_queue(
        [
            {"name": "unready", "queue": "gpus", "requests": {"gpu": 1}},
            {"name": "waits", "created": 1, "requests": {"cpu": 1, "gpu": 1}},
            {"name": "borrows", "queue": "other", "created": 2, "requests": {"cpu": 1}},
        ],
        config=SAME_FLAVORS,
        flavors={"one": {}, "gold": {}},
        clusterQueues={
            "cq": {
                "cohort": "both",
                "resourceGroups": [
                    {"covered": ["cpu"], "flavors": [{"name": "one", "quotas": {"cpu": 1}}]},
                    {"covered": ["gpu"], "flavors": [{"name": "gold", "quotas": {"gpu": 1}}]},
                ],
                "preemption": {"reclaimWithinCohort": "Any"},
            },
            "other": {"cohort": "both", "quota": [{"one": {"cpu": 0}}]},
            "gpus": {"quota": [{"gold": {"gpu": 1}}]},
        },
        localQueues={
            "q": {"clusterQueue": "cq"},
            "other": {"clusterQueue": "other"},
            "gpus": {"clusterQueue": "gpus"},
        },
    )
    assert failure(given, []) == ""


def test_a_replaced_slice_does_not_block_its_flavor_for_ever() -> None:
    """It counts no usage any more when it is finished, but was unready with some."""
    given = one_queue(
        [
            {"name": "blocked"},
            {"name": "first", "priority": 1, "requests": {}},
            {"name": "growing", "priority": 1, "replaces": "small"},
            {"name": "small", "queue": "other"},
        ],
        config={"waitForPodsReady": {"blockAdmission": True, "blockAdmissionScope": "SameFlavors"}},
        flavors={"one": {}, "two": {}},
        clusterQueues={
            "cq": {"quota": [{"one": {"cpu": 5}}, {"two": {"cpu": 4}}]},
            "other": {"quota": [{"two": {"cpu": 2}}]},
        },
        localQueues={"q": {"clusterQueue": "cq"}, "other": {"clusterQueue": "other"}},
    )
    assert failure(given, []) == ""


def test_a_head_that_lost_waits_for_the_end_of_the_search_that_it_lost_to() -> None:
    """``large`` reserves the rest of ``one`` in each round until it has tried all flavors of its driver."""
    given = one_queue(
        [
            {"name": "runs", "requests": {"cpu": 2}},
            {
                "name": "large",
                "created": 1,
                "create": "later",
                "podSets": [
                    {"name": "driver", "requests": {"cpu": 1}},
                    {"name": "workers", "requests": {"cpu": 3}},
                ],
            },
            {"name": "small", "queue": "other", "created": 2, "create": "later", "requests": {"cpu": 2}},
        ],
        flavors={"one": {}, "two": {}, "three": {}},
        clusterQueues={
            "cq": {
                "cohort": "both",
                "quota": [{"one": {"cpu": 4}}, {"two": {"cpu": 1}}, {"three": {"cpu": 1}}],
            },
            "other": {"cohort": "both", "quota": [{"one": {"cpu": 0}}, {"two": {"cpu": 0}}]},
        },
        localQueues={"q": {"clusterQueue": "cq"}, "other": {"clusterQueue": "other"}},
    )
    assert failure(given, [{"run": None}, {"create": ["large", "small"]}]) == ""


def test_a_head_that_lost_to_one_that_is_gone_is_tried_again() -> None:
    """``large`` is finished during a pause, after it reserved the rest of ``one``."""
    given = one_queue(
        [
            {"name": "runs", "queue": "third", "requests": {"cpu": 5}},
            {"name": "large", "queue": "other", "priority": 1, "create": "later", "requests": {"cpu": 4}},
            {"name": "small", "create": "later"},
        ],
        flavors={"one": {}, "two": {}},
        clusterQueues={
            "cq": {"cohort": "all", "quota": [{"one": {"cpu": 4}}, {"two": {"cpu": 0}}]},
            "other": {"cohort": "all", "quota": [{"one": {"cpu": 4}}]},
            "third": {"cohort": "all", "quota": [{"one": {"cpu": 0}}]},
        },
        localQueues={
            "q": {"clusterQueue": "cq"},
            "other": {"clusterQueue": "other"},
            "third": {"clusterQueue": "third"},
        },
    )
    steps = [{"run": None}, {"create": ["large", "small"]}, {"run": 1}, {"finish": ["large"]}]
    assert failure(given, steps) == ""


def test_a_target_that_is_written_during_a_pause_is_preempted() -> None:
    """``large`` was to preempt ``borrows``, of which the admission was not written yet."""
    given = one_queue(
        [
            {"name": "a", "requests": {}},
            {"name": "large", "requests": {"cpu": 4, "gpu": 2}},
            {"name": "borrows", "queue": "other", "requests": {"cpu": 2}},
            {"name": "refused", "queue": "other", "requests": {"gpu": 1}},
        ],
        flavors={"one": {}, "gold": {}},
        cohorts={"left": {"parent": "all", **groups(gpu=("gold", 3))}},
        clusterQueues={
            "other": {"cohort": "all", "strategy": "StrictFIFO", **groups(cpu=("one", 0))},
            "cq": {
                "cohort": "left",
                "preemption": {"reclaimWithinCohort": "Any"},
                **groups(cpu=("one", 5), gpu=("gold", 0)),
            },
        },
        localQueues={"q": {"clusterQueue": "cq"}, "other": {"clusterQueue": "other"}},
    )
    assert failure(given, [{"run": 1}, {"run": 3}]) == ""


def test_a_head_that_lost_its_places_is_not_held_back_for_the_flavor_that_it_had() -> None:
    """On the node that is left ``fewer`` has room for fewer pods, which need no quota of ``two``."""
    given = one_queue(
        [
            {"name": "first", "queue": "other", "podSets": [{"count": 3, "requests": {"cpu": 1}}]},
            {
                "name": "fewer",
                "created": 1,
                "podSets": [
                    {"count": 3, "minCount": 1, "requests": {"cpu": 2}},
                    {"name": "workers", "requests": {"cpu": 1}},
                ],
            },
        ],
        config={
            "nodeFit": {"mode": "Require"},
            "waitForPodsReady": {"blockAdmission": True, "blockAdmissionScope": "SameFlavors"},
        },
        flavors={"one": {}, "two": {}},
        nodes={name: {"allocatable": {"cpu": 3, "pods": 9}} for name in ("n1", "n3")},
        clusterQueues={
            "cq": {"quota": [{"one": {"cpu": 4}}, {"two": {"cpu": 4}}]},
            "other": {"quota": [{"two": {"cpu": 5}}]},
        },
        localQueues={"q": {"clusterQueue": "cq"}, "other": {"clusterQueue": "other"}},
    )
    assert failure(given, [{"run": None}]) == ""


def groups(**nominal: tuple[str, int]) -> Json:
    """Return a resource group for each resource, with one flavor and its nominal quota."""
    return {
        "resourceGroups": [
            {
                "covered": [resource],
                "flavors": [{"name": flavor, "quotas": {resource: {"nominal": amount}}}],
            }
            for resource, (flavor, amount) in nominal.items()
        ]
    }


def test_a_head_that_is_not_evaluated_because_admissions_wait_for_pods_has_this_reason() -> None:
    given = one_queue(
        [
            {"name": "unready"},
            {"name": "second", "created": 1},
            {"name": "other", "queue": "other", "created": 2},
            {"name": "last", "queue": "other", "created": 3},
        ],
        config={"waitForPodsReady": {"blockAdmission": True}},
        clusterQueues={"cq": {"quota": [{"one": {"cpu": 4}}]}, "other": {"quota": [{"one": {"cpu": 4}}]}},
        localQueues={"q": {"clusterQueue": "cq"}, "other": {"clusterQueue": "other"}},
    )
    world = RestingWorld(given)
    world.rest()
    for name in ("second", "other", "last"):
        explanation = explained(world, name)
        assert explanation is not None
        assert explanation.code == "AwaitingPodsReady"
        assert explanation.enough == (
            "wait until the pods of default/unready are ready, or its timeout expires",
        )


def test_a_head_beside_one_for_which_quota_is_kept_waits_for_its_start() -> None:
    """``waits`` may use the whole quota of its queue, and keeps what is free of it from ``borrows``."""
    given = one_queue(
        [
            {"name": "runs"},
            {"name": "waits", "created": 1, "requests": {"cpu": 2}},
            {"name": "borrows", "queue": "other", "created": 2, "create": "later"},
        ],
        clusterQueues={
            "cq": {"cohort": "both", "strategy": "StrictFIFO", "quota": [{"one": {"cpu": 2}}]},
            "other": {"cohort": "both", "quota": [{"one": {"cpu": 0}}]},
        },
        localQueues={"q": {"clusterQueue": "cq"}, "other": {"clusterQueue": "other"}},
    )
    world = RestingWorld(given)
    world.rest()
    world.run({"create": ["borrows"]})
    world.rest()
    explanation = explained(world, "borrows")
    assert explanation is not None
    (enough,), (remedy,) = explanation.enough, explanation.remedies
    assert enough.startswith("wait until default/waits starts or is deleted")
    assert remedy.text == "wait until the pending workload has started for which the free quota is kept"


def test_a_search_of_several_rounds_ends_with_the_reasons_of_all_its_flavors() -> None:
    """The first pod set fits ``one``, and takes what the second one needs; then it is tried in ``two``."""
    pod_sets = [{"name": name, "requests": {"cpu": 1}} for name in ("main", "second")]
    given = one_queue(
        [{"name": "waits", "podSets": pod_sets}],
        flavors={
            "one": {},
            "two": {"nodeTaints": [{"key": "spot", "value": "true", "effect": "NoSchedule"}]},
        },
        clusterQueues={"cq": {"quota": [{"one": {"cpu": 1}, "two": {"cpu": 1}}]}},
    )
    world = RestingWorld(given)
    world.rest()
    explanation = explained(world, "waits")
    assert explanation is not None
    reasons = [(reason.pod_set, reason.code) for reason in explanation.reasons]
    assert reasons == [
        ("main", "TaintUntolerated"),
        ("second", "QuotaExceeded"),
        ("second", "TaintUntolerated"),
    ]
