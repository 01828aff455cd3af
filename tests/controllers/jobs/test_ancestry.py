"""Jobs that are a part of another: whose, over several levels and strange chains."""

from collections.abc import Mapping

from quorate.api.batch import Job
from quorate.api.meta import Key, ObjectMeta, OwnerReference, Uid
from quorate.controllers.jobs.ancestry import Ancestry, NotSeen
from quorate.kube.resources import JOBS

QUEUED = {"kueue.x-k8s.io/queue-name": "queue"}


def job(name: str, owner: str = "", *, queued: bool = False, owner_kind: str = "Job") -> ObjectMeta:
    """A job whose uid is its name in capitals, controlled by another, written ``name`` or ``name=uid``."""
    owner_name, _, owner_uid = owner.partition("=")
    reference = OwnerReference(
        api_version="batch/v1",
        kind=owner_kind,
        name=owner_name,
        uid=Uid(owner_uid or owner_name.upper()),
        controller=True,
    )
    return ObjectMeta(
        name=name,
        namespace="default",
        uid=Uid(name.upper()),
        labels=QUEUED if queued else {},
        owner_references=(reference,) if owner else (),
    )


def manager(of: ObjectMeta, *others: ObjectMeta, manage_all: bool = False) -> str | None:
    """The uid of who manages ``of``; ``?name`` when it depends on an owner that is not there."""
    ancestry = Ancestry([JOBS], manage_all)
    jobs: Mapping[Key, Job] = {each.key: Job(metadata=each) for each in others}
    ancestry.add(JOBS, jobs.get)
    found = ancestry.manager_of(of)
    return f"?{found.owner.name}" if isinstance(found, NotSeen) else found


def test_a_job_without_an_owner_stands_for_itself() -> None:
    assert manager(job("a")) is None


def test_a_job_of_a_queued_one_is_a_part_of_it() -> None:
    assert manager(job("a", "b", queued=True), job("b", queued=True)) == "B"


def test_the_topmost_that_is_queued_manages() -> None:
    chain = job("b", "c", queued=True), job("c", "d", queued=True), job("d")
    assert manager(job("a", "b"), *chain) == "C"
    assert manager(job("a", "b"), *chain, manage_all=True) == "D"


def test_an_owner_of_another_kind_ends_the_chain() -> None:
    assert manager(job("a", "b", owner_kind="CronJob"), job("b", queued=True)) is None


def test_an_owner_that_took_the_name_of_a_former_one_is_none() -> None:
    assert manager(job("a", "b=OLD"), job("b", queued=True)) is None


def test_nothing_is_said_before_the_owner_is_seen() -> None:
    assert manager(job("a", "b")) == "?b"
    assert isinstance(
        Ancestry([JOBS], False).manager_of(job("a", "b")), NotSeen
    )  # its kind is not served yet


def test_a_chain_that_bites_its_tail_ends() -> None:
    assert manager(job("a", "b"), job("a", "b"), job("b", "a", queued=True)) == "B"
