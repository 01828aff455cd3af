"""The decision about a workload with provisioning checks."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from quorate.api.kueue import AdmissionCheckState, Workload, WorkloadStatus
from quorate.api.kueue.provisioning import (
    PodTemplate,
    ProvisioningRequest,
    ProvisioningRequestConfig,
    RequestedPodSet,
    TemplateReference,
)
from quorate.api.meta import Key, ObjectMeta, Uid
from quorate.controllers.jobframework.construct_workload import owner_of
from quorate.controllers.provisioning.provisioning_plan import ProvisioningInput, ProvisioningPlan, decide
from quorate.kube.resources import POD_TEMPLATES, PROVISIONING_REQUESTS, WORKLOADS
from quorate.kube.writes import Create, Patch
from tests.controllers.objects import CREATED_AT, a_flavor, a_workload
from tests.controllers.provisioning.provisioning_objects import a_check, a_config, a_request

NAME = "job-train-e4af4-capacity"
TEMPLATE = Key("default", f"ppt-{NAME}-1-main")
CONFIG = a_config()
NO_TEMPLATES: Mapping[Key, PodTemplate] = {}


def with_check(check: AdmissionCheckState, *conditions: str, admitted: bool = False) -> Workload:
    workload = a_workload(*conditions, admitted_to=["spot"], status=WorkloadStatus(admission_checks=(check,)))
    if admitted:
        return workload
    rest = tuple(each for each in workload.status.conditions if each.type != "Admitted")
    return msgspec.structs.replace(workload, status=msgspec.structs.replace(workload.status, conditions=rest))


def planned(
    workload: Workload,
    requests: Iterable[ProvisioningRequest] = (),
    config: ProvisioningRequestConfig | None = CONFIG,
    templates: Mapping[Key, PodTemplate] = NO_TEMPLATES,
    **options: Any,
) -> ProvisioningPlan:
    info = ProvisioningInput(
        workload,
        options.get("configs", {"capacity": config}),
        tuple(requests),
        templates.get,
        {"spot": a_flavor("spot")},
        options.get("deletes_evicted", True),
        CREATED_AT + 100,
    )
    return decide(info)


def show(plan: ProvisioningPlan) -> str:
    """Return the writes (``+`` create, ``-`` delete, ``?`` wait, ``!`` problem) and states."""
    words = [f"-{each.key.name}" for each in plan.deletions]
    for new in plan.new:
        words += [f"?{new.name}"] if new.waits_for else []
        words += [f"!{new.name}"] if new.problem else []
        words += [f"+{each.resource.plural}" for each in new.writes]
        words += [new.name] if new.writes else []
    checks = () if plan.status is None else plan.status.admission_checks
    return " ".join(words + [each.state for each in checks])


CREATES = "+podtemplates +provisioningrequests"


@pytest.mark.parametrize(
    ("workload", "requests", "want"),
    [
        pytest.param(with_check(a_check()), [], f"{CREATES} {NAME}-1 Pending", id="first request"),
        pytest.param(with_check(a_check()), [a_request()], "Pending", id="request exists"),
        pytest.param(with_check(a_check()), [a_request("Failed")], "Retry", id="request failed"),
        pytest.param(
            with_check(a_check(retry_count=1)),
            [],
            f"{CREATES} {NAME}-2 Pending",
            id="second request, first deleted",
        ),
        pytest.param(
            with_check(a_check(retry_count=1)),
            [a_request("Failed")],
            f"{CREATES} {NAME}-2 Pending",
            id="second request, first exists",
        ),
        pytest.param(
            with_check(a_check(retry_count=1)),
            [a_request("Failed"), a_request(attempt=2)],
            f"-{NAME}-1 Pending",
            id="only the latest is kept",
        ),
        pytest.param(
            with_check(a_check()),
            [a_request(class_name="other")],
            f"-{NAME}-1 ?{NAME}-1 Pending",
            id="request of another configuration is deleted first",
        ),
        pytest.param(with_check(a_check("Ready"), admitted=True), [], "Ready", id="ready, request deleted"),
        pytest.param(
            with_check(a_check("Retry")), [], f"{CREATES} {NAME}-1 Retry", id="retry, request deleted"
        ),
        pytest.param(with_check(a_check(), "Finished"), [a_request()], f"-{NAME}-1", id="finished"),
        pytest.param(with_check(a_check(), "Evicted"), [a_request()], f"-{NAME}-1", id="evicted"),
        pytest.param(
            a_workload(status=WorkloadStatus(admission_checks=(a_check(),))),
            [a_request()],
            f"-{NAME}-1",
            id="no quota reserved",
        ),
    ],
)
def test_requests_of_a_workload_are_created_and_deleted(
    workload: Workload, requests: list[ProvisioningRequest], want: str
) -> None:
    assert show(planned(workload, requests)) == want


def test_requests_of_evicted_workloads_may_be_kept() -> None:
    assert (
        planned(with_check(a_check(), "Evicted"), [a_request()], deletes_evicted=False) == ProvisioningPlan()
    )


def test_the_requests_of_a_check_that_no_longer_applies_are_deleted() -> None:
    workload = with_check(a_check("Ready"), admitted=True)
    workload = replace(workload, status=replace(workload.status, admission_checks=()))
    assert show(planned(workload, [a_request()], configs={})) == f"-{NAME}-1"


def test_a_check_without_configuration_is_pending() -> None:
    plan = planned(with_check(a_check("Ready")), [a_request()], config=None)
    assert plan.status is not None
    (check,) = plan.status.admission_checks
    assert (check.state, check.message) == ("Pending", "the check is not active")
    assert [each.message for each in plan.events] == [
        "Admission check capacity updated state from Ready to Pending with message: the check is not active"
    ]


def test_workloads_without_managed_resources_need_no_request() -> None:
    plan = planned(with_check(a_check()), [], a_config(managedResources=["gpu"]))
    assert plan.new == ()
    assert plan.status is not None
    (check,) = plan.status.admission_checks
    assert (check.state, check.message) == ("Ready", "the provisioning request is not needed")


def test_checks_of_other_controllers_do_not_change() -> None:
    foreign = a_check("Retry", name="other", message="later")
    workload = with_check(a_check())
    status = msgspec.structs.replace(workload.status, admission_checks=(foreign, a_check()))
    plan = planned(msgspec.structs.replace(workload, status=status), [a_request("Provisioned")])
    assert plan.status is not None
    assert plan.status.admission_checks[0] == foreign


def test_a_request_is_controlled_by_the_workload_and_has_its_parameters() -> None:
    workload = with_check(a_check())
    metadata = msgspec.structs.replace(
        workload.metadata, annotations={"provreq.kueue.x-k8s.io/zone": "b", "other": "c"}
    )
    workload = msgspec.structs.replace(workload, metadata=metadata)
    (new,) = planned(workload, config=a_config(parameters={"zone": "a", "kind": "x"})).new
    template, request = new.writes
    assert (template.resource, template.body["metadata"].name) == (POD_TEMPLATES, TEMPLATE.name)
    assert request == Create(PROVISIONING_REQUESTS, request.body, "default")
    assert request.body.metadata == ObjectMeta(
        name=f"{NAME}-1",
        namespace="default",
        labels={"kueue.x-k8s.io/managed": "true"},
        owner_references=(owner_of(WORKLOADS, metadata),),
    )
    assert request.body.spec.parameters == {"zone": "b", "kind": "x"}
    requested = RequestedPodSet(pod_template_ref=TemplateReference(name=TEMPLATE.name), count=3)
    assert request.body.spec.pod_sets == (requested,)


def stored(owner: Any, obj: Any) -> dict[Key, PodTemplate]:
    metadata = ObjectMeta(
        name=TEMPLATE.name, namespace="default", resource_version="5",
        owner_references=(owner_of(owner, obj.metadata),),
    )  # fmt: skip
    return {TEMPLATE: PodTemplate(metadata=metadata)}


def test_a_template_is_replaced_before_its_request_and_then_controlled_by_the_request() -> None:
    workload = with_check(a_check())
    own = stored(WORKLOADS, workload)
    assert show(planned(workload, templates=own)) == f"-{TEMPLATE.name} ?{NAME}-1 Pending"
    requested = RequestedPodSet(pod_template_ref=TemplateReference(name=TEMPLATE.name), count=3)
    request = a_request()
    request = msgspec.structs.replace(
        request, spec=msgspec.structs.replace(request.spec, pod_sets=(requested,))
    )
    owner = {"metadata": {"ownerReferences": [owner_of(PROVISIONING_REQUESTS, request.metadata)]}}
    assert planned(workload, [request], templates=own).template_owners == (
        Patch(POD_TEMPLATES, TEMPLATE, "5", owner),
    )
    foreign = stored(PROVISIONING_REQUESTS, request)
    assert planned(workload, [request], templates=foreign).template_owners == ()
    assert show(planned(workload, templates=foreign)) == f"-{TEMPLATE.name} ?{NAME}-1 Pending"
    other = stored(WORKLOADS, msgspec.structs.replace(workload, metadata=ObjectMeta(name="w", uid=Uid("x"))))
    assert show(planned(workload, templates=other)) == f"-{TEMPLATE.name} ?{NAME}-1 Pending"
