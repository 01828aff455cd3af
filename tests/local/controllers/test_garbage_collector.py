"""Actions of the garbage collector for one object, by the states of its owners."""

import pytest

from quorate.api.meta import ObjectMeta, OwnerReference, Uid, at_epoch
from quorate.kube.resources import Resource
from quorate.local.controllers.garbage_collector import (
    FOREGROUND,
    ORPHAN,
    Action,
    Delete,
    OwnerState,
    RemoveFinalizer,
    RemoveOwners,
    UnblockOwners,
    collection_actions,
)
from quorate.local.controllers.metadata_cache import CachedObject, PartialObjectMetadata

OBJECTS = Resource("", "v1", "configmaps", "ConfigMap", True, PartialObjectMetadata)


def an_object(
    uid: str, *finalizers: str, owners: str = "", blocks: bool = False, deleted: bool = False
) -> CachedObject:
    """``owners`` are uids of one letter each."""
    references = tuple(
        OwnerReference(
            api_version="v1", kind="ConfigMap", name=owner, uid=Uid(owner), block_owner_deletion=blocks
        )
        for owner in owners
    )
    return CachedObject(
        OBJECTS,
        ObjectMeta(
            name=uid,
            namespace="ns",
            uid=Uid(uid),
            finalizers=finalizers,
            owner_references=references,
            deletion_timestamp=at_epoch(0) if deleted else None,
        ),
    )


CHILD = an_object("child", owners="x")
BLOCKING = an_object("child", owners="x", blocks=True)


@pytest.mark.parametrize(
    ("entry", "owners", "dependents", "want"),
    [
        pytest.param(an_object("a"), "", [], (), id="no owner"),
        pytest.param(an_object("a", owners="p"), "present", [], (), id="an existing owner"),
        pytest.param(an_object("a", owners="p"), "absent", [], (Delete("Background"),), id="a deleted owner"),
        pytest.param(
            an_object("a", owners="pq"),
            "absent present",
            [],
            (RemoveOwners(an_object("a", owners="pq"), frozenset({Uid("p")})),),
            id="one of two owners is deleted",
        ),
        pytest.param(
            an_object("a", owners="pq"),
            "absent absent",
            [],
            (Delete("Background"),),
            id="both owners are deleted",
        ),
        pytest.param(
            an_object("a", owners="p"),
            "waiting",
            [],
            (Delete("Background"),),
            id="an owner that waits for dependents",
        ),
        pytest.param(
            an_object("a", owners="p"),
            "waiting",
            [CHILD],
            (Delete("Foreground"),),
            id="the same for an object with dependents",
        ),
        pytest.param(
            an_object("a", owners="p", blocks=True),
            "waiting",
            [an_object("p", FOREGROUND, owners="a", deleted=True)],
            (UnblockOwners(an_object("a", owners="p", blocks=True)),),
            id="a dependent that waits, too, perhaps in a circle",
        ),
        pytest.param(
            an_object("a", owners="p"),
            "waiting",
            [an_object("p", FOREGROUND, owners="a", deleted=True)],
            (Delete("Foreground"),),
            id="the same for an object that blocks no owner",
        ),
        pytest.param(
            an_object("a", ORPHAN, owners="p"),
            "absent",
            [CHILD],
            (Delete("Orphan"),),
            id="a deleted owner and the orphan finalizer",
        ),
        pytest.param(
            an_object("x", ORPHAN, deleted=True),
            "",
            [CHILD],
            (RemoveOwners(CHILD, frozenset({Uid("x")})),),
            id="dependents are orphaned first",
        ),
        pytest.param(
            an_object("x", ORPHAN, deleted=True),
            "",
            [],
            (RemoveFinalizer(ORPHAN),),
            id="then the finalizer is removed",
        ),
        pytest.param(an_object("x", FOREGROUND, deleted=True), "", [BLOCKING], (), id="a blocking dependent"),
        pytest.param(
            an_object("x", FOREGROUND, deleted=True),
            "",
            [CHILD],
            (RemoveFinalizer(FOREGROUND),),
            id="a dependent that does not block",
        ),
        pytest.param(an_object("x", deleted=True, owners="p"), "absent", [], (), id="already terminating"),
    ],
)
def test_collection_actions(
    entry: CachedObject, owners: str, dependents: list[CachedObject], want: tuple[Action, ...]
) -> None:
    states = dict(
        zip(
            (reference.uid for reference in entry.metadata.owner_references),
            (OwnerState[state.upper()] for state in owners.split()),
            strict=True,
        )
    )
    assert collection_actions(entry, states, dependents) == want
