"""A local cluster has the webhooks that a Configuration asks for, or the Configuration is refused."""

from pathlib import Path

import pytest

from quorate.api.configuration import load_configuration
from quorate.inspect.errors import UsageError
from quorate.processes.controllers import stored_content
from quorate.processes.local.queueing_cluster import check_webhooks

HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("", "", id="no webhooks"),
        pytest.param("webhook: {}", "", id="every interface"),
        pytest.param("webhook: {host: localhost}", "", id="loopback by name"),
        pytest.param("webhook: {host: '::'}", "", id="every interface of IPv6"),
        pytest.param("webhook: {host: 127.0.0.2}", "", id="an address"),
        pytest.param(
            "webhook: {host: hooks.example}", "webhook.host: 'hooks.example' is not an IP address",
            id="another name",
        ),
        pytest.param(
            "webhook: {clientCAFile: /ca.crt}",
            "webhook.clientCAFile: '/ca.crt' requires a client certificate",
            id="certificates of clients",
        ),
        pytest.param(
            "webhook: {certDir: /none}\ninternalCertManagement: {enable: false}",
            "internalCertManagement.enable: false: /none/ca.crt: no such file or directory",
            id="certificates of another maker without their authority",
        ),
    ],
)  # fmt: skip
def test_webhooks_that_a_local_cluster_cannot_have_are_refused(text: str, problem: str) -> None:
    configuration = load_configuration(HEAD + text).configuration
    if not problem:
        check_webhooks(configuration)
        return
    with pytest.raises(UsageError) as refused:
        check_webhooks(configuration)
    assert str(refused.value).startswith(problem)


def test_certificates_of_another_maker_are_used_with_their_authority(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("a certificate")
    text = f"webhook: {{certDir: {tmp_path}}}\ninternalCertManagement: {{enable: false}}\n"
    check_webhooks(load_configuration(HEAD + text).configuration)


def test_the_stored_configuration_has_no_comments_and_decodes_to_the_same() -> None:
    text = (
        HEAD
        + """# a password: hunter2
manageJobsWithoutQueueName: true  # for all
auditInterval: 5m
clientConnection: {qps: 1.5, burst: 3}
featureGates: {PartialAdmission: false}
"""
    )
    stored = stored_content(text, ("webhook", "metrics"))
    assert "hunter2" not in stored["controller_manager_config.yaml"]
    assert stored["needs-restart"] == "webhook, metrics"
    again = load_configuration(stored["controller_manager_config.yaml"])
    assert again == load_configuration(text)
