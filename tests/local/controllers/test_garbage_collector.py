"""What the garbage collector does about one object, by what has become of its owners."""

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
    collection_actions,
)
from quorate.local.controllers.metadata_cache import CachedObject, PartialObjectMetadata

THINGS = Resource("", "v1", "configmaps", "ConfigMap", True, PartialObjectMetadata)


def thing(
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
        THINGS,
        ObjectMeta(
            name=uid,
            namespace="ns",
            uid=Uid(uid),
            finalizers=finalizers,
            owner_references=references,
            deletion_timestamp=at_epoch(0) if deleted else None,
        ),
    )


CHILD = thing("child", owners="x")
BLOCKING = thing("child", owners="x", blocks=True)


@pytest.mark.parametrize(
    ("entry", "owners", "dependents", "want"),
    [
        pytest.param(thing("a"), "", [], (), id="nobody's"),
        pytest.param(thing("a", owners="p"), "there", [], (), id="its owner lives"),
        pytest.param(thing("a", owners="p"), "absent", [], (Delete("Background"),), id="its owner has gone"),
        pytest.param(
            thing("a", owners="pq"),
            "absent there",
            [],
            (RemoveOwners(thing("a", owners="pq"), frozenset({Uid("p")})),),
            id="one of two owners has gone",
        ),
        pytest.param(
            thing("a", owners="pq"),
            "absent absent",
            [],
            (Delete("Background"),),
            id="both have gone",
        ),
        pytest.param(
            thing("a", owners="p"), "waits", [], (Delete("Background"),), id="its owner waits for it to go"
        ),
        pytest.param(
            thing("a", owners="p"), "waits", [CHILD], (Delete("Foreground"),), id="and it has dependents"
        ),
        pytest.param(
            thing("a", ORPHAN, owners="p"),
            "absent",
            [CHILD],
            (Delete("Orphan"),),
            id="to leave orphans",
        ),
        pytest.param(
            thing("x", ORPHAN, deleted=True),
            "",
            [CHILD],
            (RemoveOwners(CHILD, frozenset({Uid("x")})),),
            id="orphans first",
        ),
        pytest.param(
            thing("x", ORPHAN, deleted=True), "", [], (RemoveFinalizer(ORPHAN),), id="then it goes itself"
        ),
        pytest.param(
            thing("x", FOREGROUND, deleted=True), "", [BLOCKING], (), id="a dependent holds it back"
        ),
        pytest.param(
            thing("x", FOREGROUND, deleted=True),
            "",
            [CHILD],
            (RemoveFinalizer(FOREGROUND),),
            id="one that does not block does not",
        ),
        pytest.param(thing("x", deleted=True, owners="p"), "absent", [], (), id="already on its way"),
    ],
)
def test_judge(
    entry: CachedObject, owners: str, dependents: list[CachedObject], want: tuple[Action, ...]
) -> None:
    fates = dict(
        zip(
            (reference.uid for reference in entry.metadata.owner_references),
            (OwnerState[fate.upper()] for fate in owners.split()),
            strict=True,
        )
    )
    assert collection_actions(entry, fates, dependents) == want
