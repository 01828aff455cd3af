"""What was decided about a status holds until the API says it, or something newer."""

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


def told(model: Model, phase: str) -> GangStatus:
    """A session decided on ``phase``, and the API is being told."""
    gang = model.gangs[A]
    assert gang.written_status is not None
    status = replace(gang.written_status, phase=phase)
    gang.phase = phase
    model.assume_status(status)
    return status


def a_model() -> Model:
    model = Model(schedulers=("quorate",))
    model.set_group(group(1, "Pending"))
    return model


def test_an_object_from_before_the_decision_does_not_take_it_back() -> None:
    model = a_model()
    told(model, "Inqueue")
    model.set_group(group(2, "Pending", minMember=4))
    assert (model.gangs[A].phase, model.gangs[A].min_member) == ("Inqueue", 4)


def test_once_seen_written_the_object_is_believed_again() -> None:
    model = a_model()
    told(model, "Inqueue")
    model.set_group(group(2, "Inqueue"))
    model.set_group(group(3, "Pending"))  # somebody else's doing
    assert model.gangs[A].phase == "Pending"


def test_what_is_older_than_the_write_is_not_believed_and_what_is_newer_is() -> None:
    model = a_model()
    status = told(model, "Inqueue")
    model.status_written(status, group(5, "Inqueue").metadata)
    model.set_group(group(4, "Pending"))
    assert model.gangs[A].phase == "Inqueue"
    model.set_group(group(6, "Pending"))
    assert model.gangs[A].phase == "Pending"


def test_that_an_earlier_decision_was_written_says_nothing_of_a_later_one() -> None:
    model = a_model()
    first = told(model, "Inqueue")
    told(model, "Running")
    model.status_written(first, group(5, "Inqueue").metadata)
    model.set_group(group(5, "Inqueue"))
    assert model.gangs[A].phase == "Running"


def test_a_group_made_again_starts_afresh() -> None:
    model = a_model()
    told(model, "Inqueue")
    model.set_group(group(7, "", uid="2"))
    assert model.gangs[A].phase == ""
    told(model, "Inqueue")
    model.remove_group(A)
    model.set_group(group(9, "", uid="3"))
    assert model.gangs[A].phase == ""


def test_another_request_is_not_held_responsible_for_failed_attempts() -> None:
    model = a_model()
    notes = {"scheduling.volcano.sh/requeue-attempts": "3"}
    model.set_group(group(2, "Pending", annotations=notes))
    assert model.gangs[A].attempts == 3
    model.set_group(group(3, "Pending", annotations=notes, minMember=1, minResources={"cpu": 1}))
    assert model.gangs[A].attempts == 0
