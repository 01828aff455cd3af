"""Names derived from the names of Volcano Jobs are valid, whatever the job is called."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.syntax import is_dns_label, is_dns_subdomain
from quorate.controllers.volcano.job.derived_names import object_name, volume_name

JOBS = st.from_regex(
    r"[a-z0-9]([-a-z0-9]{0,80}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,80}[a-z0-9])?){0,3}", fullmatch=True
)
SUFFIXES = st.sampled_from(["ssh", "svc", "8c1f6c2e-1111-4111-8111-0123456789ab-ssh"])


@given(job=JOBS.filter(is_dns_subdomain), suffix=SUFFIXES)
def test_every_name_is_valid(job: str, suffix: str) -> None:
    assert is_dns_subdomain(object_name(job, suffix))
    assert is_dns_label(volume_name(job, suffix))


@pytest.mark.parametrize(
    ("job", "volume"),
    [("train", "train-ssh"), ("a" * 59, f"{'a' * 59}-ssh"), ("a" * 60, f"{'a' * 50}-07fed268-ssh"),
     ("train.v2", "train-v2-8c014173-ssh")],
)  # fmt: skip
def test_names_are_changed_only_if_they_must_be(job: str, volume: str) -> None:
    assert volume_name(job, "ssh") == volume


def test_long_names_stay_different() -> None:
    assert object_name("a" * 253, "svc") != object_name("a" * 252 + "b", "svc")
    assert volume_name("a-b", "ssh") != volume_name("a.b", "ssh")
