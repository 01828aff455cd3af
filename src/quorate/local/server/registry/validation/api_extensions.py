"""Rules that relate fields of webhook configurations, APIServices and CustomResourceDefinitions."""

from urllib.parse import urlsplit

from quorate.api.codec import Json
from quorate.local.objects.crd import definition as definitions
from quorate.local.objects.errors import Cause, forbidden_field, invalid_value, not_supported, required
from quorate.local.server.admission_rules.expressions import InvalidExpression
from quorate.local.server.admission_rules.webhooks import compile_condition
from quorate.local.server.registry.validation.field_rules import Causes, Scope, check, relation

CONVERSION_STRATEGIES = ("None", "Webhook")


@relation
def match_expression(condition: Json, path: str, _: Scope) -> Causes:
    if not condition.get("expression", "").strip():
        yield required(f"{path}.expression")
        return
    try:
        compile_condition(condition.get("name", ""), condition["expression"])
    except InvalidExpression as error:
        yield invalid_value(f"{path}.expression", condition["expression"], str(error))


@relation
def url_or_service(config: Json, path: str, _: Scope) -> Causes:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
    if url is not None:
        yield from _url(url, f"{path}.url")


def _url(text: str, path: str) -> Causes:
    form = "; desired format: https://host[/path]"
    try:
        url = urlsplit(text)
    except ValueError as error:
        yield invalid_value(path, text, f"url must be a valid URL: {error}{form}")
        return
    if url.scheme != "https":
        yield invalid_value(path, url.scheme, f"'https' is the only allowed URL scheme{form}")
    if not url.netloc:
        yield invalid_value(path, url.netloc, f"host must be specified{form}")
    if url.username is not None:
        yield invalid_value(path, url.username, "user information is not permitted in the URL")
    if url.fragment:
        yield invalid_value(path, url.fragment, "fragments are not permitted in the URL")
    if url.query:
        yield invalid_value(path, url.query, "query parameters are not permitted in the URL")


@relation
def api_service_name(api_service: Json, path: str, _: Scope) -> Causes:
    spec, name = api_service["spec"], api_service["metadata"].get("name", "")
    expected = f"{spec.get('version', '')}.{spec.get('group', '')}"
    if name != expected:
        message = f'must be `spec.version+"."+spec.group`: {expected!r}'
        yield invalid_value("metadata.name", name, message)


def validate_definition(definition: Json) -> list[Cause]:
    conversion = (definition.get("spec") or {}).get("conversion") or {}
    return [*definitions.definition_findings(definition), *_conversion(conversion)]


def _conversion(conversion: Json) -> Causes:
    strategy = conversion.get("strategy")
    if strategy not in CONVERSION_STRATEGIES:
        yield not_supported("spec.conversion.strategy", strategy or "", CONVERSION_STRATEGIES)
    if strategy == "None" and "webhook" in conversion:
        message = "should not be set when strategy is not set to Webhook"
        for field in ("clientConfig", "conversionReviewVersions"):
            if conversion["webhook"].get(field):
                place = {"clientConfig": "webhookClientConfig"}.get(field, field)
                yield forbidden_field(f"spec.conversion.{place}", message)
    if strategy == "Webhook":
        yield from check("WebhookConversion", conversion.get("webhook") or {}, "spec.conversion")
