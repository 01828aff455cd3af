"""``quorate webhooks`` writes what the API server is to ask, and ``quorate crds`` who converts."""

from pathlib import Path

import yaml

from quorate.cli.deployment.crds import crds
from quorate.cli.deployment.webhooks import webhooks


def test_the_configurations_lead_to_the_service_of_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "configuration.yaml"
    file.write_text(
        "{apiVersion: config.kueue.x-k8s.io/v1beta2, kind: Configuration, namespace: queueing, "
        "internalCertManagement: {webhookServiceName: hooks}}",
        encoding="utf-8",
    )
    webhooks(tmp_path / "new", file)
    written = {path.name: yaml.safe_load(path.read_text()) for path in (tmp_path / "new").iterdir()}
    assert sorted(written) == [
        "quorate-mutating-webhook-configuration.yaml",
        "quorate-validating-webhook-configuration.yaml",
    ]
    services = {
        (hook["clientConfig"]["service"]["namespace"], hook["clientConfig"]["service"]["name"])
        for configuration in written.values()
        for hook in configuration["webhooks"]
    }
    assert services == {("queueing", "hooks")}


def test_definitions_say_who_converts_if_asked_to(tmp_path: Path) -> None:
    crds(tmp_path, conversion_webhook=True)
    strategies = {
        path.name.partition(".")[0]: yaml.safe_load(path.read_text())["spec"]["conversion"]["strategy"]
        for path in tmp_path.glob("*.yaml")
    }
    assert {name for name, strategy in strategies.items() if strategy == "Webhook"} == {
        "workloads", "clusterqueues", "localqueues", "cohorts", "multikueueclusters",
    }  # fmt: skip
    assert "None" in strategies.values()
