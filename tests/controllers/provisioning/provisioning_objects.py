"""Factories of requests, configurations and check states."""

from typing import Any

from quorate.api import codec
from quorate.api.kueue import AdmissionCheckState
from quorate.api.kueue.provisioning import (
    ProvisioningRequest,
    ProvisioningRequestConfig,
    ProvisioningRequestSpec,
    ProvisioningRequestStatus,
)
from quorate.api.meta import Condition, ObjectMeta, Uid, at_epoch
from quorate.controllers.jobframework.construct_workload import owner_of
from quorate.kube.resources import WORKLOADS
from tests.controllers.objects import CREATED_AT, a_workload


def a_config(**spec: Any) -> ProvisioningRequestConfig:
    body = {"metadata": {"name": "config"}, "spec": {"provisioningClassName": "queued", **spec}}
    return codec.convert(ProvisioningRequestConfig, body)


def a_check(state: Any = "Pending", *, name: str = "capacity", **fields: Any) -> AdmissionCheckState:
    return AdmissionCheckState(name=name, state=state, last_transition_time=at_epoch(CREATED_AT), **fields)


def a_request(
    *conditions: str, attempt: int = 1, class_name: str = "queued", details: dict[str, str] | None = None
) -> ProvisioningRequest:
    """Return a request of ``a_workload()`` for check ``capacity``; ``!Type`` is False."""
    given = tuple(
        Condition(
            type=each.lstrip("!"),
            status="False" if each.startswith("!") else "True",
            message=f"{each.lstrip('!')} it is",
        )
        for each in conditions
    )
    workload = a_workload().metadata
    return ProvisioningRequest(
        metadata=ObjectMeta(
            name=f"{workload.name}-capacity-{attempt}",
            namespace=workload.namespace,
            uid=Uid(f"r{attempt}"),
            resource_version="11",
            owner_references=(owner_of(WORKLOADS, workload),),
        ),
        spec=ProvisioningRequestSpec(provisioning_class_name=class_name),
        status=ProvisioningRequestStatus(conditions=given, provisioning_class_details=details or {}),
    )
