"""Deployments, ReplicaSets and StatefulSets: what their makers may say, and what may change later."""

from quorate.local.server.errors import Cause, forbidden_field, invalid_value, required
from quorate.local.server.registry.validation.field_rules import Causes, Json, not_negative, one_of, unchanged
from quorate.local.server.registry.validation.pods import pod_spec
from quorate.local.server.registry.validation.selectors import label_selector, selector_matches

STRATEGIES = ("Recreate", "RollingUpdate")
UPDATE_STRATEGIES = ("OnDelete", "RollingUpdate")
POD_MANAGEMENT = ("OrderedReady", "Parallel")
CHANGEABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


def deployment(obj: Json) -> list[Cause]:
    spec = obj["spec"]
    strategy = one_of(spec["strategy"], "spec.strategy", "type", STRATEGIES)
    return [*_set(spec, "deployment"), *strategy, *_both_zero(spec["strategy"])]


def replica_set(obj: Json) -> list[Cause]:
    return [*_set(obj["spec"], "replicaset")]


def stateful_set(obj: Json) -> list[Cause]:
    spec = obj["spec"]
    order = one_of(spec, "spec", "podManagementPolicy", POD_MANAGEMENT)
    strategy = one_of(spec["updateStrategy"], "spec.updateStrategy", "type", UPDATE_STRATEGIES)
    return [*_set(spec, "statefulset"), *order, *strategy]


def unchanged_selector(new: Json, old: Json) -> list[Cause]:
    return [*unchanged(new["spec"], old["spec"], "spec", "selector")]


def stateful_set_update(new: Json, old: Json) -> list[Cause]:
    if _fixed(new["spec"]) == _fixed(old["spec"]):
        return []
    named = ", ".join(f"'{field}'" for field in CHANGEABLE[:-1])
    why = f"updates to statefulset spec for fields other than {named} and '{CHANGEABLE[-1]}' are forbidden"
    return [forbidden_field("spec", why)]


def _fixed(spec: Json) -> Json:
    return {name: value for name, value in spec.items() if name not in CHANGEABLE}


def _set(spec: Json, kind: str) -> Causes:
    yield from not_negative(spec, "spec", "replicas", "minReadySeconds", "revisionHistoryLimit")
    selector, template = spec.get("selector"), spec["template"]
    if selector is None:
        yield required("spec.selector")
    else:
        yield from label_selector(selector, "spec.selector")
        if not (selector.get("matchLabels") or selector.get("matchExpressions")):
            yield invalid_value("spec.selector", selector, f"empty selector is invalid for {kind}")
        labels = template["metadata"].get("labels", {})
        if not selector_matches(selector, labels):
            why = "`selector` does not match template `labels`"
            yield invalid_value("spec.template.metadata.labels", labels, why)
    yield from pod_spec.template(template, "spec.template")
    yield from one_of(template["spec"], "spec.template.spec", "restartPolicy", ("Always",))


def _both_zero(strategy: Json) -> Causes:
    rolling = strategy.get("rollingUpdate", {})
    if [rolling.get(name) in (0, "0%") for name in ("maxSurge", "maxUnavailable")] == [True, True]:
        path, value = "spec.strategy.rollingUpdate.maxUnavailable", rolling["maxUnavailable"]
        yield invalid_value(path, value, "may not be 0 when `maxSurge` is 0")
