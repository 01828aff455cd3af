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
def test_a_registration_is_deleted_by_an_uninstallation_and_by_the_way_back_to_kueue(name: str) -> None:
    assert name in (ROOT / "docs/tasks/upgrade.md").read_text()
    way_back = (ROOT / "docs/tasks/migrate-from-kueue.md").read_text().partition("## Migrate back")[2]
    assert name in way_back or name.endswith(KUEUE_SERVES)
