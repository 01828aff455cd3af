"""An assumed status holds until the API has it, or a newer one."""

from dataclasses import replace
from typing import Any

import msgspec

from quorate.api.meta import Key, Uid
from quorate.api.volcano import PodGroup
from quorate.gang.cache.model import Model
from quorate.gang.outcome import GangStatus
from tests.gang.objects import pod_group

A = Key("default", "a")


def group(version: int, phase: str, *, uid: str = "1", **given: Any) -> PodGroup:
    made = pod_group({"name": "a", "phase": phase, **given})
    metadata = msgspec.structs.replace(made.metadata, resource_version=str(version), uid=Uid(uid))
    return msgspec.structs.replace(made, metadata=metadata)


def assume(model: Model, phase: str) -> GangStatus:
    """Assume a status with ``phase``, as a session does."""
    gang = model.gangs[A]
    assert gang.reported.written is not None
    status = replace(gang.reported.written, phase=phase)
    gang.phase = phase
    model.assumed.set_status(status)
    return status


def a_model() -> Model:
    model = Model(schedulers=("quorate",))
    model.set_group(group(1, "Pending"))
    return model


def test_an_object_older_than_the_decision_does_not_override_it() -> None:
    model = a_model()
    assume(model, "Inqueue")
    model.set_group(group(2, "Pending", minMember=4))
    assert (model.gangs[A].phase, model.gangs[A].min_member) == ("Inqueue", 4)


def test_after_the_write_is_observed_the_object_counts_again() -> None:
    model = a_model()
    assume(model, "Inqueue")
    model.set_group(group(2, "Inqueue"))
    model.set_group(group(3, "Pending"))  # by another writer
    assert model.gangs[A].phase == "Pending"


def test_objects_older_than_the_write_are_ignored_and_newer_ones_count() -> None:
    model = a_model()
    status = assume(model, "Inqueue")
    model.assumed.status_written(status, group(5, "Inqueue").metadata)
    model.set_group(group(4, "Pending"))
    assert model.gangs[A].phase == "Inqueue"
    model.set_group(group(6, "Pending"))
    assert model.gangs[A].phase == "Pending"


def test_the_write_of_an_earlier_decision_does_not_confirm_a_later_one() -> None:
    model = a_model()
    first = assume(model, "Inqueue")
    assume(model, "Running")
    model.assumed.status_written(first, group(5, "Inqueue").metadata)
    model.set_group(group(5, "Inqueue"))
    assert model.gangs[A].phase == "Running"


def test_a_group_created_anew_starts_afresh() -> None:
    model = a_model()
    assume(model, "Inqueue")
    model.set_group(group(7, "", uid="2"))
    assert model.gangs[A].phase == ""
    assume(model, "Inqueue")
    model.remove_group(A)
    model.set_group(group(9, "", uid="3"))
    assert model.gangs[A].phase == ""


def test_a_changed_spec_resets_the_attempts() -> None:
    model = a_model()
    notes = {"scheduling.volcano.sh/requeue-attempts": "3"}
    model.set_group(group(2, "Pending", annotations=notes))
    assert model.gangs[A].admission.attempts == 3
    model.set_group(group(3, "Pending", annotations=notes, minMember=1, minResources={"cpu": 1}))
    assert model.gangs[A].admission.attempts == 0
