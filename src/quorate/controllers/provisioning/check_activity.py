"""Whether an admission check of ours can be made: its parameters must name a configuration that is there."""

from typing import Final

from msgspec.structs import replace

from quorate.api.kueue import GROUP, AdmissionCheck, CheckParameters
from quorate.api.kueue.provisioning import ProvisioningRequestConfig
from quorate.api.meta import Condition, find_condition, with_condition
from quorate.controllers.provisioning.request_names import CONTROLLER
from quorate.kube.resources import ADMISSION_CHECKS
from quorate.kube.writes import Patch
from quorate.queueing.conditions import is_unchanged, new_condition

KIND: Final = "ProvisioningRequestConfig"


def config_name(check: AdmissionCheck | None) -> str | None:
    """The configuration that a check of ours names; ``None``: the check is not ours, or names none."""
    if check is None or check.spec.controller_name != CONTROLLER:
        return None
    parameters = check.spec.parameters
    return parameters.name if parameters is not None and not _misdirected(parameters) else None


def decide_active(
    check: AdmissionCheck, config: ProvisioningRequestConfig | None, now: float
) -> tuple[Patch, ...]:
    """The patch of a check's Active condition; none if it says so already, or is not ours to write."""
    if check.spec.controller_name != CONTROLLER:
        return ()
    new = _active(check, config, now)
    conditions = check.status.conditions
    if is_unchanged(find_condition(conditions, new.type), new):
        return ()
    metadata = check.metadata
    status = replace(check.status, conditions=with_condition(conditions, new))
    return (Patch(ADMISSION_CHECKS, metadata.key, metadata.resource_version, {"status": status}, "status"),)


def _active(check: AdmissionCheck, config: ProvisioningRequestConfig | None, now: float) -> Condition:
    generation = check.metadata.generation
    parameters = check.spec.parameters
    if parameters is None:
        problem = "spec.parameters: nothing, must name a ProvisioningRequestConfig"
    elif not (problem := _misdirected(parameters)) and config is None:
        problem = f"{KIND} {parameters.name} doesn't exist"
    if problem:
        return new_condition("Active", "False", "BadParametersRef", problem, now, generation)
    return new_condition("Active", "True", "Active", "The admission check is active", now, generation)


def _misdirected(parameters: CheckParameters) -> str:
    """What is wrong with where they point; empty if nothing is."""
    if (parameters.api_group, parameters.kind) == (GROUP, KIND) and parameters.name:
        return ""
    return (
        f"spec.parameters: {parameters.kind or 'no kind'} {parameters.name or 'without a name'} of "
        f"{parameters.api_group or 'no group'}, must name a {KIND} of {GROUP}"
    )
