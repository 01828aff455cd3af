"""Validation of pods: creation, updates, status; cases list field and reason."""

import copy
from typing import Any

import pytest

from quorate.local.server.registry.strategies import SUBRESOURCE_STRATEGIES
from quorate.local.server.registry.validation.field_rules import check
from tests.local.server.validation.objects import a_container, a_job, a_pod, asking, show
from tests.local.server.validation.strategies import STRATEGIES

Json = dict[str, Any]
POD = STRATEGIES["pods"]


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(a_pod(), [], id="a valid object"),
        pytest.param({"spec": {}}, ["spec.containers Required"], id="no containers"),
        pytest.param(a_pod({"name": "a"}), ["spec.containers[0].image Required"], id="no image"),
        pytest.param(
            a_pod(a_container("a"), a_container("a")),
            ["spec.containers[1].name Duplicate"],
            id="a duplicate container name",
        ),
        pytest.param(
            a_pod(initContainers=[a_container()]),
            ["spec.initContainers[0].name Duplicate"],
            id="init containers share the scope of names",
        ),
        pytest.param(
            a_pod(asking({"cpu": "2"}, {"cpu": "1"})),
            ["spec.containers[0].resources.requests Invalid"],
            id="a request above the limit",
        ),
        pytest.param(
            a_pod(asking({"example.com/gpu": "1"})),
            ["spec.containers[0].resources.limits Required"],
            id="an extended resource without a limit",
        ),
        pytest.param(
            a_pod(asking({"example.com/gpu": "500m"}, {"example.com/gpu": "500m"})),
            [
                "spec.containers[0].resources.limits[example.com/gpu] Invalid",
                "spec.containers[0].resources.requests[example.com/gpu] Invalid",
            ],
            id="a fraction of an extended resource",
        ),
        pytest.param(
            a_pod(a_container(volumeMounts=[{"name": "v", "mountPath": "/v"}])),
            ["spec.containers[0].volumeMounts[0].name NotFound"],
            id="a mount of an unknown volume",
        ),
        pytest.param(
            a_pod(tolerations=[{"operator": "Equal"}]),
            ["spec.tolerations[0].operator Invalid"],
            id="an Equal toleration without a key",
        ),
        pytest.param(
            a_pod(restartPolicy="Sometimes", hostname="Has.Dots", activeDeadlineSeconds=0),
            [
                "spec.restartPolicy NotSupported",
                "spec.activeDeadlineSeconds Invalid",
                "spec.hostname Invalid",
            ],
            id="every finding is reported",
        ),
    ],
)
def test_pods(pod: Json, want: list[str]) -> None:
    assert show(POD.validate(pod)) == want


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param({}, {"nodeName": "n"}, ["spec Forbidden"], id="nodeName is set by a binding only"),
        pytest.param({}, {"activeDeadlineSeconds": 9}, [], id="a deadline may be set"),
        pytest.param(
            {"activeDeadlineSeconds": 8},
            {"activeDeadlineSeconds": 9},
            ["spec.activeDeadlineSeconds Invalid"],
            id="but not extended",
        ),
        pytest.param(
            {"schedulingGates": [{"name": "g"}]},
            {"schedulingGates": [], "nodeSelector": {"a": "b"}},
            [],
            id="a gated pod may get a node selector and lose its gates",
        ),
        pytest.param(
            {},
            {"schedulingGates": [{"name": "g"}]},
            ["spec.schedulingGates[0].name Forbidden"],
            id="scheduling gates cannot be added",
        ),
        pytest.param(
            {},
            {"nodeSelector": {"a": "b"}},
            ["spec Forbidden"],
            id="the node selector of an ungated pod is immutable",
        ),
    ],
)
def test_pod_updates(before: Json, after: Json, want: list[str]) -> None:
    assert show(POD.validate_update(a_pod(**(before | after)), a_pod(**before))) == want


RESIZE = SUBRESOURCE_STRATEGIES["pods", "resize"]
SIZED = asking({"cpu": "1", "memory": "1Gi"}, {"memory": "1Gi"})


@pytest.mark.parametrize(
    ("after", "want"),
    [
        pytest.param(a_pod(asking({"cpu": "2"}, {"memory": "1Gi"})), [], id="more cpu"),
        pytest.param(
            a_pod({**asking({"cpu": "2"}, {"memory": "1Gi"}), "image": "other"}, nodeName="n"),
            [],
            id="what is no amount stays as it was",
        ),
        pytest.param(
            a_pod(SIZED, resources={"requests": {"cpu": "2"}}), [], id="an amount of the pod as a whole"
        ),
        pytest.param(
            a_pod(asking({"cpu": "1"})),
            [
                "spec.containers[0].resources.requests Forbidden",
                "spec.containers[0].resources.limits Forbidden",
            ],
            id="amounts cannot be removed",
        ),
        pytest.param(
            a_pod(asking({"cpu": "1", "a.com/g": "1"}, {"memory": "1Gi", "a.com/g": "1"})),
            ["spec Forbidden"],
            id="only cpu and memory",
        ),
        pytest.param(
            a_pod(asking({"cpu": "1", "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"})),
            ["spec Invalid"],
            id="the QoS class stays",
        ),
        pytest.param(
            a_pod({**SIZED, "name": "other"}), ["spec.containers[0].name Forbidden"], id="another container"
        ),
        pytest.param(
            {"spec": {"containers": []}},
            ["spec.containers Required", "spec Invalid", "spec.containers Forbidden"],
            id="no container",
        ),
    ],
)
def test_resizes(after: Json, want: list[str]) -> None:
    """The cases and their findings are those of a kube-apiserver 1.36."""
    old = a_pod(SIZED)
    new = {"metadata": {}, **copy.deepcopy(after)}
    RESIZE.prepare_for_update(new, {"metadata": {}, **old})
    assert show(RESIZE.validate(new) + RESIZE.validate_update(new, old)) == want
    assert new["spec"].get("nodeName") is None
    assert all(each["image"] == old["spec"]["containers"][0]["image"] for each in new["spec"]["containers"])


@pytest.mark.parametrize(
    ("policy", "want"), [("Always", []), (None, ["spec.initContainers[0].resources Forbidden"])]
)
def test_resizes_of_init_containers(policy: str | None, want: list[str]) -> None:
    def of(cpu: str) -> Json:
        container = {**asking({"cpu": cpu}), "name": "first", **({"restartPolicy": policy} if policy else {})}
        return {"metadata": {}, **a_pod(SIZED, initContainers=[container])}

    new = of("2")
    RESIZE.prepare_for_update(new, of("1"))
    assert show(RESIZE.validate_update(new, of("1"))) == want


C = "spec.containers[0]"
TERM = "requiredDuringSchedulingIgnoredDuringExecution"
TERMS = f"{TERM}.nodeSelectorTerms"


def needing(*expressions: Json) -> Json:
    return {"nodeAffinity": {TERM: {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}}}


ZONE: Json = {"key": "zone", "operator": "In", "values": ["b"]}
DISK: Json = {"key": "disk", "operator": "Exists"}


@pytest.mark.parametrize(
    ("container", "want"),
    [
        ({"image": " b"}, f"{C}.image Invalid"),
        ({"terminationMessagePolicy": "X"}, f"{C}.terminationMessagePolicy NotSupported"),
        ({"ports": [{"containerPort": 80, "name": "--"}]}, f"{C}.ports[0].name Invalid"),
        ({"ports": [{"containerPort": 80, "hostPort": 70_000}]}, f"{C}.ports[0].hostPort Invalid"),
        ({"env": [{"name": "a=b"}]}, f"{C}.env[0].name Invalid"),
        ({"env": [{"name": "A", "valueFrom": {}}]}, f"{C}.env[0].valueFrom Invalid"),
        (
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s"}}}]},
            f"{C}.env[0].valueFrom.secretKeyRef.key Required",
        ),
        ({"envFrom": [{}]}, f"{C}.envFrom Invalid"),
        ({"livenessProbe": {}}, f"{C}.livenessProbe Required"),
        (
            {"livenessProbe": {"exec": {"command": ["x"]}, "successThreshold": 2}},
            f"{C}.livenessProbe.successThreshold Invalid",
        ),
        ({"readinessProbe": {"exec": {"command": ["x"]}, "successThreshold": 2}}, ""),
        (
            {"readinessProbe": {"exec": {"command": ["x"]}, "tcpSocket": {"port": 1}}},
            f"{C}.readinessProbe.tcpSocket Forbidden",
        ),
        ({"lifecycle": {"preStop": {"httpGet": {"port": 0}}}}, f"{C}.lifecycle.preStop.httpGet.port Invalid"),
        ({"resources": {"limits": {"bogus": "1"}}}, f"{C}.resources.limits[bogus] Invalid"),
        ({"resources": {"limits": {"hugepages-2Mi": "2Mi"}}}, f"{C}.resources Forbidden"),
        ({"securityContext": {"runAsUser": -1}}, f"{C}.securityContext.runAsUser Invalid"),
    ],
)
def test_containers(container: Json, want: str) -> None:
    assert (*dict.fromkeys(show(POD.validate(a_pod(a_container(**container))))),)[:1] == (
        (want,) if want else ()
    )


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        (
            {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]},
            "spec.volumes[0].hostPath Forbidden",
        ),
        (
            {"volumes": [{"name": "v", "hostPath": {"path": "/a/../b"}}]},
            "spec.volumes[0].hostPath.path Invalid",
        ),
        ({"volumes": [{"name": "v" * 64, "emptyDir": {}}]}, "spec.volumes[0].name Invalid"),
        ({"volumes": [{"name": "v", "secret": {}}]}, "spec.volumes[0].secret.secretName Required"),
        (
            {"volumes": [{"name": "v", "configMap": {"name": "c", "items": [{"key": "k", "path": "/k"}]}}]},
            "spec.volumes[0].configMap.items[0].path Invalid",
        ),
        (
            {"initContainers": [a_container("i", lifecycle={"preStop": {"exec": {"command": ["x"]}}})]},
            "spec.initContainers[0].lifecycle Forbidden",
        ),
        ({"tolerations": [{"operator": "Exists", "value": "x"}]}, "spec.tolerations[0].operator Invalid"),
        ({"tolerations": [{"key": "a", "effect": "X"}]}, "spec.tolerations[0].effect NotSupported"),
        ({"tolerations": [{"key": "a", "tolerationSeconds": 1}]}, "spec.tolerations[0].effect Invalid"),
        (
            {"affinity": needing({"key": "zone", "operator": "In"})},
            f"spec.affinity.nodeAffinity.{TERMS}[0].matchExpressions[0].values Required",
        ),
        (
            {"affinity": needing({"key": "zone", "operator": "Near"})},
            f"spec.affinity.nodeAffinity.{TERMS}[0].matchExpressions[0].operator Invalid",
        ),
        (
            {"schedulingGates": [{"name": "a.b/c"}, {"name": "a.b/c"}]},
            "spec.schedulingGates[1] Duplicate",
        ),
        ({"schedulingGates": [{"name": "a.b/c"}], "nodeName": "n"}, "spec.nodeName Forbidden"),
        ({"priorityClassName": "No Class"}, "spec.priorityClassName Invalid"),
        ({"dnsPolicy": "None"}, "spec.dnsConfig Required"),
        ({"hostAliases": [{"ip": "here"}]}, "spec.hostAliases[0].ip Invalid"),
        ({"overhead": {"cpu": "-1"}}, "spec.overhead.limits[cpu] Invalid"),
    ],
)
def test_pod_specs(spec: Json, want: str) -> None:
    assert show(POD.validate(a_pod(**spec))) == [want]


def test_two_containers_cannot_share_a_host_port() -> None:
    port = {"containerPort": 80, "hostPort": 80}
    pod = a_pod(a_container("a", ports=[port]), a_container("b", ports=[port]))
    assert show(POD.validate(pod)) == ["spec.containers[1].ports[0].hostPort Duplicate"]


@pytest.mark.parametrize(
    ("port", "of_pod", "of_template"),
    [
        pytest.param({}, [], [], id="a pod gets its host ports by default, a template keeps none"),
        pytest.param({"hostPort": 80}, [], [], id="the same port"),
        pytest.param({"hostPort": 81}, ["hostPort Invalid"], ["hostPort Invalid"], id="another port"),
    ],
)
def test_host_ports_of_pods_on_the_network_of_the_host(
    port: Json, of_pod: list[str], of_template: list[str]
) -> None:
    main = a_container(ports=[{"containerPort": 80} | port])
    pod = show(POD.validate(a_pod(main, hostNetwork=True)))
    assert pod == [f"spec.containers[0].ports[0].{each}" for each in of_pod]
    job = show(STRATEGIES["jobs.batch"].validate(a_job(template={"hostNetwork": True, "containers": [main]})))
    assert job == [f"spec.template.spec.containers[0].ports[0].{each}" for each in of_template]


@pytest.mark.parametrize(("number", "want"), [(4096, []), (4097, ["spec.containers TooMany"])])
def test_a_pod_has_no_more_quantities_than_controllers_read(number: int, want: list[str]) -> None:
    amounts = {f"example.com/{each}": "1" for each in range(number)}
    pod = a_pod(a_container("a", resources={"requests": amounts, "limits": amounts}))
    assert show(POD.validate(pod)) == want


@pytest.mark.parametrize(
    ("field", "item", "most"),
    [
        ("initContainers", {"name": "a"}, 4096),
        ("topologySpreadConstraints", {"topologyKey": "zone"}, 256),
        ("affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms", {}, 256),
        ("affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution", {}, 256),
    ],
)
def test_a_pod_has_no_more_containers_and_terms_than_are_read(field: str, item: Json, most: int) -> None:
    def refused(count: int) -> bool:
        value: Any = [item] * count
        for name in reversed(field.split(".")):
            value = {name: value}
        pod = a_pod() | {"spec": a_pod()["spec"] | value}
        return any(each.endswith("TooMany") for each in show(POD.validate(pod)))

    assert (refused(most), refused(most + 1)) == (False, True)


def test_tolerations_are_compared_in_linear_time() -> None:
    """15,000 in one pod, each compared with all others, held a request for half a minute."""
    many = [{"key": f"k{number}", "operator": "Exists"} for number in range(15_000)]
    old = a_pod() | {"spec": a_pod()["spec"] | {"tolerations": many}}
    for kept, want in ((many, []), (many[:-1], ["spec.tolerations Forbidden"])):
        new = old | {"spec": old["spec"] | {"tolerations": kept}}
        assert show(POD.validate_update(new, old)) == want


def test_mounts_are_compared_with_volumes_in_linear_time() -> None:
    names = [f"v{number}" for number in range(10_000)]
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in (*names, "missing")]
    pod = a_pod(
        a_container("a", volumeMounts=mounts), volumes=[{"name": name, "emptyDir": {}} for name in names]
    )
    assert show(POD.validate(pod)) == ["spec.containers[0].volumeMounts[10000].name NotFound"]


def test_label_findings_of_a_template_omit_metadata_in_the_path() -> None:
    template = {"metadata": {"labels": {"bad key!": "v"}}, "spec": a_pod()["spec"]}
    assert show([*check("PodTemplateSpec", template, "spec.template")]) == ["spec.template.labels Invalid"]


GATED: Json = {"schedulingGates": [{"name": "a.b/c"}]}
KEPT = {"key": "a", "operator": "Exists"}


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param(
            {}, {"containers": []}, ["spec.containers Forbidden"], id="containers cannot be removed"
        ),
        pytest.param(
            {"activeDeadlineSeconds": 8},
            {"activeDeadlineSeconds": None},
            ["spec.activeDeadlineSeconds Invalid"],
            id="a deadline cannot be removed",
        ),
        pytest.param(
            {"tolerations": [KEPT]}, {"tolerations": [KEPT, {"key": "b"}]}, [], id="tolerations can be added"
        ),
        pytest.param(
            {"tolerations": [KEPT | {"effect": "NoExecute"}]},
            {"tolerations": [KEPT | {"effect": "NoExecute", "tolerationSeconds": 9}]},
            [],
            id="tolerationSeconds can change",
        ),
        pytest.param(
            {"tolerations": [KEPT]},
            {"tolerations": []},
            ["spec.tolerations Forbidden"],
            id="tolerations cannot be removed",
        ),
        pytest.param(
            GATED | {"nodeSelector": {"a": "b"}},
            {"nodeSelector": {"a": "c"}},
            ["spec.nodeSelector Invalid"],
            id="node selector terms of a gated pod cannot change",
        ),
        pytest.param(
            GATED | {"affinity": needing(ZONE)},
            {"affinity": needing(ZONE, DISK)},
            [],
            id="requirements of a gated pod can be added",
        ),
        pytest.param(
            GATED | {"affinity": needing(ZONE)},
            {"affinity": needing(DISK)},
            [f"spec.affinity.nodeAffinity.{TERMS}[0] Invalid"],
            id="requirements of a gated pod cannot change",
        ),
        pytest.param(
            {"terminationGracePeriodSeconds": -1},
            {"terminationGracePeriodSeconds": 1},
            [],
            id="a negative grace period can become 1",
        ),
    ],
)
def test_mutable_fields_of_a_pod(before: Json, after: Json, want: list[str]) -> None:
    old, new = a_pod(**before), a_pod(**before)
    new["spec"] |= after
    for field in [name for name, value in after.items() if value is None]:
        del new["spec"][field]
    assert show(POD.validate_update(new, old)) == want


@pytest.mark.parametrize(
    ("policy", "exit_code", "want"),
    [
        ("Never", 1, ["status.containerStatuses[0].state Forbidden"]),
        ("OnFailure", 0, ["status.containerStatuses[0].state Forbidden"]),
        ("OnFailure", 1, []),
        ("Always", 0, []),
    ],
)
def test_a_terminated_container_does_not_run_again(policy: str, exit_code: int, want: list[str]) -> None:
    def in_state(**state: Json) -> Json:
        return a_pod(restartPolicy=policy) | {
            "status": {"containerStatuses": [{"name": "main", "state": state}]}
        }

    ended, running = in_state(terminated={"exitCode": exit_code}), in_state(running={})
    assert show(POD.validate_status(running, ended)) == want


@pytest.mark.parametrize(
    ("status", "want"),
    [
        ({"nominatedNodeName": "n.example.com", "podIPs": [{"ip": "1.2.3.4"}, {"ip": "::1"}]}, []),
        ({"nominatedNodeName": "Bad_Name"}, ["status.nominatedNodeName Invalid"]),
        ({"podIPs": [{"ip": "1.2.3.4"}, {"ip": "1.2.3.5"}]}, ["status.podIPs Invalid"]),
        ({"qosClass": "Guaranteed"}, ["status.qosClass Invalid"]),
    ],
)
def test_a_status_of_a_pod(status: Json, want: list[str]) -> None:
    old = a_pod() | {"status": {"qosClass": "BestEffort"}}
    new = old | {"status": {"qosClass": "BestEffort"} | status}
    assert show(POD.validate_status(new, old)) == want


RESTARTS = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]
RESTARTS_ALL = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]


@pytest.mark.parametrize(
    ("first", "second", "code", "allowed"),
    [
        pytest.param({}, {}, 42, False, id="policy of the pod"),
        pytest.param({"restartPolicy": "Always"}, {}, 0, True, id="policy of the container"),
        pytest.param({"restartPolicy": "OnFailure"}, {}, 0, False, id="policy of success"),
        pytest.param({"restartPolicy": "Never", "restartPolicyRules": RESTARTS}, {}, 42, True, id="rule"),
        pytest.param({"restartPolicy": "Never", "restartPolicyRules": RESTARTS}, {}, 1, False, id="no rule"),
        pytest.param({}, {"restartPolicyRules": RESTARTS_ALL}, 1, True, id="rule of another container"),
    ],
)
def test_an_ended_container_starts_again_as_its_policy_and_rules_say(
    first: Json, second: Json, code: int, allowed: bool
) -> None:
    spec = {"restartPolicy": "Never", "containers": [{"name": "a", **first}, {"name": "b", **second}]}

    def in_state(state: Json) -> Json:
        status = {"containerStatuses": [{"name": "a", "state": state}]}
        return {"metadata": {"name": "p"}, "spec": spec, "status": status}

    ended, running = in_state({"terminated": {"exitCode": code}}), in_state({"running": {}})
    want = [] if allowed else ["status.containerStatuses[0].state Forbidden"]
    assert show(POD.validate_status(running, ended)) == want
