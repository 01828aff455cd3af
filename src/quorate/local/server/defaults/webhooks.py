"""Webhook configurations."""

from typing import Any

from quorate.local.server.defaults.pods import fill

Json = dict[str, Any]

HTTPS_PORT = 443
TIMEOUT_S = 10


def validating(configuration: Json) -> None:
    for webhook in configuration.get("webhooks", ()):
        _fill_in(webhook)


def mutating(configuration: Json) -> None:
    for webhook in configuration.get("webhooks", ()):
        _fill_in(webhook)
        webhook.setdefault("reinvocationPolicy", "Never")


def _fill_in(webhook: Json) -> None:
    fill(
        webhook,
        {
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
            "timeoutSeconds": TIMEOUT_S,
        },
    )
    for rule in webhook.get("rules", ()):
        rule.setdefault("scope", "*")
    service = webhook.get("clientConfig", {}).get("service")
    if service:
        service.setdefault("port", HTTPS_PORT)
