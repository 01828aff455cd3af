"""APIServices: which group and version another server answers."""

from quorate.local.server.errors import Cause, invalid_value, required
from quorate.local.server.registry.validation.field_rules import Causes, Json, present
from quorate.local.server.registry.validation.webhook_configurations import authority

HIGHEST_PRIORITY = 20_000


def validate(given: Json) -> list[Cause]:
    return list(_spec(given["spec"], given["metadata"].get("name", "")))


def _spec(spec: Json, name: str) -> Causes:
    named = f"{spec.get('version', '')}.{spec.get('group', '')}"
    if name != named:
        why = f'must be `spec.version+"."+spec.group`: {named!r}'
        yield invalid_value("metadata.name", name, why)
    yield from present(spec, "spec", "group", "version")
    for field in ("groupPriorityMinimum", "versionPriority"):
        if not 0 < spec.get(field, 0) <= HIGHEST_PRIORITY:
            why = f"must be positive and less than {HIGHEST_PRIORITY}"
            yield invalid_value(f"spec.{field}", spec.get(field, 0), why)
    service = spec.get("service")
    if service is not None:
        for field in ("name", "namespace"):
            if not service.get(field):
                yield required(f"spec.service.{field}")
    if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
        why = "may not be true if caBundle is present"
        yield invalid_value("spec.insecureSkipTLSVerify", True, why)
    yield from authority(spec, "spec")
