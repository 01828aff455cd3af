"""CustomResourceDefinitions: what is wrong with the definition, and with the webhook that converts."""

from quorate.local.objects.crd import definition as definitions
from quorate.local.server.errors import Cause, invalid_value, not_supported, required
from quorate.local.server.registry.validation.field_rules import Causes, Json
from quorate.local.server.registry.validation.webhook_configurations import client_config
from quorate.local.server.storage.version_conversion import REVIEW_VERSIONS

STRATEGIES = ("None", "Webhook")


def validate(definition: Json) -> list[Cause]:
    conversion = (definition.get("spec") or {}).get("conversion") or {}
    return [*definitions.definition_findings(definition), *_conversion(conversion)]


def _conversion(conversion: Json) -> Causes:
    strategy, webhook = conversion.get("strategy"), conversion.get("webhook")
    if strategy not in STRATEGIES:
        yield not_supported("spec.conversion.strategy", strategy or "", STRATEGIES)
    if strategy != "Webhook":
        return
    config = (webhook or {}).get("clientConfig")
    if config is None:
        yield required("spec.conversion.webhook.clientConfig", "required when strategy is set to Webhook")
    else:
        yield from client_config(config, "spec.conversion.webhook.clientConfig")
    versions = (webhook or {}).get("conversionReviewVersions") or []
    path = "spec.conversion.webhook.conversionReviewVersions"
    if not versions:
        yield required(path)
    elif not set(versions) & set(REVIEW_VERSIONS):
        yield invalid_value(path, versions, f"must include at least one of {', '.join(REVIEW_VERSIONS)}")
