"""``quorate webhooks`` writes webhook configurations; ``quorate crds`` can set the conversion webhook."""

from pathlib import Path

import yaml

from quorate.cli.install import crds, webhooks


def test_webhooks_call_the_service_of_the_configuration(tmp_path: Path) -> None:
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


def test_definitions_have_a_conversion_webhook_on_request(tmp_path: Path) -> None:
    crds(tmp_path, conversion_webhook=True)
    strategies = {
        path.name.partition(".")[0]: yaml.safe_load(path.read_text())["spec"]["conversion"]["strategy"]
        for path in tmp_path.glob("*.yaml")
    }
    assert {name for name, strategy in strategies.items() if strategy == "Webhook"} == {
        "workloads", "clusterqueues", "localqueues", "cohorts", "multikueueclusters",
    }  # fmt: skip
    assert "None" in strategies.values()
