"""What pages delete when Quorate leaves a cluster: what refuses requests without a server."""

import pytest
import yaml

from tests.e2e.commands import ROOT

REGISTERED = [
    document["metadata"]["name"]
    for file in ("webhooks.yaml", "visibility.yaml")
    for document in yaml.safe_load_all((ROOT / "deploy" / file).read_text())
    if document["kind"].endswith("WebhookConfiguration") or document["kind"] == "APIService"
]
KUEUE_SERVES = "visibility.kueue.x-k8s.io"


@pytest.mark.parametrize("name", REGISTERED)
def test_a_registration_is_deleted_by_an_uninstallation_and_on_the_ways_back(name: str) -> None:
    assert name in (ROOT / "docs/tasks/upgrade.md").read_text()
    assert name in way_back("volcano")
    assert name in way_back("kueue") or name.endswith(KUEUE_SERVES)


def way_back(project: str) -> str:
    """Return the part of a page about a migration that leads back."""
    return (ROOT / f"docs/tasks/migrate-from-{project}.md").read_text().partition("## Migrate back")[2]
