"""What the garbage collector does about one object, by what has become of its owners."""

import pytest

from quorate.api.meta import ObjectMeta, OwnerReference, Uid, at_epoch
from quorate.kube.resources import Resource
from quorate.local.controllers.garbage_collector import (
    FOREGROUND,
    ORPHAN,
    Action,
    Delete,
    DropFinalizer,
    DropOwners,
    Owner,
    judge,
)
from quorate.local.controllers.metadata_cache import Entry, Thing

THINGS = Resource("", "v1", "configmaps", "ConfigMap", True, Thing)


def thing(uid: str, *finalizers: str, owners: str = "", blocks: bool = False, deleted: bool = False) -> Entry:
    """``owners`` are uids of one letter each."""
    references = tuple(
        OwnerReference(
            api_version="v1", kind="ConfigMap", name=owner, uid=Uid(owner), block_owner_deletion=blocks
        )
        for owner in owners
    )
    return Entry(
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
            (DropOwners(thing("a", owners="pq"), frozenset({Uid("p")})),),
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
            (DropOwners(CHILD, frozenset({Uid("x")})),),
            id="orphans first",
        ),
        pytest.param(
            thing("x", ORPHAN, deleted=True), "", [], (DropFinalizer(ORPHAN),), id="then it goes itself"
        ),
        pytest.param(
            thing("x", FOREGROUND, deleted=True), "", [BLOCKING], (), id="a dependent holds it back"
        ),
        pytest.param(
            thing("x", FOREGROUND, deleted=True),
            "",
            [CHILD],
            (DropFinalizer(FOREGROUND),),
            id="one that does not block does not",
        ),
        pytest.param(thing("x", deleted=True, owners="p"), "absent", [], (), id="already on its way"),
    ],
)
def test_judge(entry: Entry, owners: str, dependents: list[Entry], want: tuple[Action, ...]) -> None:
    fates = dict(
        zip(
            (reference.uid for reference in entry.metadata.owner_references),
            (Owner[fate.upper()] for fate in owners.split()),
            strict=True,
        )
    )
    assert judge(entry, fates, dependents) == want
