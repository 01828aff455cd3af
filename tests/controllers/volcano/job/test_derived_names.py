"""Names derived from the names of Volcano Jobs are valid, whatever the job is called."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quorate.api.names.volcano import GROUP_NAME
from quorate.api.syntax import is_dns_label, is_dns_subdomain
from quorate.controllers.volcano.job.plugins import KNOWN, plugins_of
from quorate.controllers.volcano.job.pod_manifest import label_name, object_name
from tests.controllers.volcano.job.test_pod_builder import a_job, a_task, pod_of

JOBS = st.from_regex(
    r"[a-z0-9]([-a-z0-9]{0,80}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,80}[a-z0-9])?){0,3}", fullmatch=True
)
SUFFIXES = st.sampled_from(["ssh", "svc", "8c1f6c2e-1111-4111-8111-0123456789ab-ssh"])


@given(job=JOBS.filter(is_dns_subdomain), suffix=SUFFIXES)
@example(job="a" * 253, suffix="svc")
@example(job=".".join(["a" * 62] * 4), suffix="ssh")
def test_every_name_is_valid(job: str, suffix: str) -> None:
    assert is_dns_subdomain(object_name(job, suffix))
    assert is_dns_label(label_name(job, suffix))


@pytest.mark.parametrize(
    ("job", "volume"),
    [("train", "train-ssh"), ("a" * 59, f"{'a' * 59}-ssh"), ("a" * 60, f"{'a' * 50}-07fed268-ssh"),
     ("train.v2", "train-v2-8c014173-ssh")],
)  # fmt: skip
def test_names_are_changed_only_if_they_must_be(job: str, volume: str) -> None:
    assert label_name(job, "ssh") == volume


@given(job=JOBS.filter(lambda name: is_dns_subdomain(name) and len(name) <= 63))
@example(job="a" * 63)
@example(job="a" * 55)
@example(job="train.v2")
def test_every_object_of_a_job_with_all_plugins_has_a_valid_name(job: str) -> None:
    """Longer names of jobs are no values of the label that their pods have."""
    tasks = [a_task("master"), a_task("worker", 2)]
    uid = "8c1f6c2e-1111-4111-8111-0123456789ab"
    volcano_job = a_job(tasks, {"name": job, "uid": uid}, plugins={name: [] for name in KNOWN})
    plugins, _ = plugins_of(volcano_job)
    owned = [each for plugin in plugins for each in plugin.owned_objects()]
    services = {each.name for each in owned if each.resource.kind == "Service"}
    assert [name for name in services if not is_dns_label(name)] == []
    assert [each.name for each in owned if not is_dns_subdomain(each.name)] == []
    for index in range(2):
        pod = pod_of(volcano_job, index=index)
        spec = pod["spec"]
        assert is_dns_subdomain(pod["metadata"]["name"])
        assert spec["subdomain"] in services
        labels = [spec["subdomain"], *(volume["name"] for volume in spec["volumes"])]
        labels += [spec["hostname"]] if "hostname" in spec else []
        assert [label for label in labels if not is_dns_label(label)] == []
        assert is_dns_subdomain(pod["metadata"]["annotations"][GROUP_NAME])


def test_long_names_stay_different() -> None:
    assert object_name("a" * 253, "svc") != object_name("a" * 252 + "b", "svc")
    assert label_name("a-b", "ssh") != label_name("a.b", "ssh")
