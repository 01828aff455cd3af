"""Builders of configuration files, and the findings about them."""

import pytest

from quorate.api.configuration import load_configuration
from quorate.api.decoding.strict import InvalidConfiguration


def a_file(body: str = "", version: str = "v1beta2") -> str:
    return f"apiVersion: config.kueue.x-k8s.io/{version}\nkind: Configuration\n{body}"


def refusals(text: str) -> list[str]:
    with pytest.raises(InvalidConfiguration) as refusal:
        load_configuration(text)
    assert str(refusal.value).splitlines() == [str(finding) for finding in refusal.value.findings]
    return [str(finding) for finding in refusal.value.findings]
