"""Formats of names, keys and other single values, as field rules name them.

A format is a function that yields what is wrong with a value, in kube-apiserver's words.
"""

import base64
import ipaddress
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

from cel_expr_python import cel
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from quorate.local.objects import cron
from quorate.local.objects.errors import Cause, invalid_value
from quorate.local.server.admission_rules import expressions
from quorate.local.server.admission_rules.webhooks import REVIEW_VERSIONS

MAX_PORT = 65_535
MAX_PORT_NAME = 15
MAX_API_SERVICE_PRIORITY = 20_000
MAX_WEBHOOK_TIMEOUT_S = 30
MIN_SERIES_COUNT = 2
LIMIT_TYPES = ("Container", "PersistentVolumeClaim", "Pod")

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
QUALIFIED_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
CONDITION_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
SEARCH_DOMAIN = re.compile(r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*")
SYSCTL = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")
HTTP_HEADER = re.compile(r"[-A-Za-z0-9]+")
DATA_KEY = re.compile(r"[-._a-zA-Z0-9]+")
ENVIRONMENT_NAME = re.compile(r"[\x20-\x3c\x3e-\x7e]+")
CEL_NAME = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
DOMAIN_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")


def _regex_note(example: str, regex: str) -> str:
    return f"(e.g. {example}, regex used for validation is '{regex}')"


_KEY_NOTE = _regex_note("'MyName',  or 'my.name',  or '123-abc'", QUALIFIED_PART.pattern)
Format = Callable[[Any], Iterator[str]]


def _pattern(regex: re.Pattern[str], message: str, most: int | None = None, unit: str = "bytes") -> Format:
    """Return the format of texts that match a pattern, with at most ``most`` units."""

    def check(value: Any) -> Iterator[str]:
        if most is not None and len(value) > most:
            yield f"must be no more than {most} {unit}"
        if not regex.fullmatch(value):
            yield message

    return check


subdomain = _pattern(
    SUBDOMAIN,
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must"
    " start and end with an alphanumeric character " + _regex_note("'example.com'", SUBDOMAIN.pattern),
    253,
    "characters",
)
_label = _pattern(
    LABEL,
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and"
    " end with an alphanumeric character " + _regex_note("'my-name',  or '123-abc'", LABEL.pattern),
    63,
    "characters",
)


def label(value: str) -> Iterator[str]:
    """Check a DNS label."""
    is_subdomain = not LABEL.fullmatch(value) and SUBDOMAIN.fullmatch(value)
    for message in _label(value):
        yield "must not contain dots" if is_subdomain and "RFC" in message else message


def _in_bytes(check_characters: Format) -> Format:
    """Return the format as declarative validation words it: it counts bytes, not characters."""

    def check(value: Any) -> Iterator[str]:
        for message in check_characters(value):
            yield re.sub(r"(must be no more than \d+) characters", r"\1 bytes", message)

    return check


short_name, long_name = _in_bytes(label), _in_bytes(subdomain)
label_value = _pattern(
    LABEL_VALUE,
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must"
    " start and end with an alphanumeric character "
    + _regex_note("'MyValue',  or 'my_value',  or '12345'", LABEL_VALUE.pattern),
    63,
)


def port_name(value: str) -> Iterator[str]:
    if len(value) > MAX_PORT_NAME:
        yield f"must be no more than {MAX_PORT_NAME} characters"
    if not re.fullmatch(r"[-a-z0-9]+", value):
        yield "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if not re.search(r"[a-z]", value):
        yield "must contain at least one letter (a-z)"
    if "--" in value:
        yield "must not contain consecutive hyphens"
    if value.startswith("-") or value.endswith("-"):
        yield "must not begin or end with a hyphen"


_search_domain = _pattern(
    SEARCH_DOMAIN,
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and"
    " must start and end with an alphanumeric character "
    + _regex_note("'example.com'", SEARCH_DOMAIN.pattern),
    253,
    "characters",
)


def search_domain(value: str) -> Iterator[str]:
    """Check a search domain, which may end in a dot or be the root."""
    if value != ".":
        yield from _search_domain(value.removesuffix("."))


sysctl = _pattern(SYSCTL, f"must have at most 253 characters and match regex ^{SYSCTL.pattern}$")
http_header = _pattern(
    HTTP_HEADER,
    "a valid HTTP header must consist of alphanumeric characters or '-' "
    + _regex_note("'X-Header-Name'", HTTP_HEADER.pattern),
)


def check_format(value: str, path: str, format_function: Format) -> Iterator[Cause]:
    """Yield what is wrong with a value at a path."""
    for message in format_function(value):
        yield invalid_value(path, value, message)


def path_segment(value: str) -> Iterator[str]:
    if value in (".", ".."):
        yield f"may not be '{value}'"
    for character in "/%":
        if character in value:
            yield f"may not contain '{character}'"


def qualified(value: str) -> Iterator[str]:
    """Check a label key: ``name`` or ``example.com/name``."""
    prefix, slash, name = value.rpartition("/")
    if slash and not prefix:
        yield "prefix part must be non-empty"
    if "/" in prefix:
        yield (
            "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and"
            f" end with an alphanumeric character {_KEY_NOTE} with an optional DNS subdomain prefix and '/'"
            " (e.g. 'example.com/MyName')"
        )
        return
    if prefix:
        yield from (f"prefix part {finding}" for finding in subdomain(prefix))
    if not name:
        yield "name part must be non-empty"
    elif len(name) > 63:
        yield "name part must be no more than 63 bytes"
    if not QUALIFIED_PART.fullmatch(name):
        yield (
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with"
            f" an alphanumeric character {_KEY_NOTE}"
        )


def data_key(value: str) -> Iterator[str]:
    """Check a key of a ConfigMap or a Secret, which becomes a file name."""
    if len(value) > 253:
        yield "must be no more than 253 bytes"
    if not DATA_KEY.fullmatch(value):
        yield "a valid key must consist of alphanumeric characters, '-', '_' or '.'"
    if value in (".", "..") or value.startswith(".."):
        yield "must not be '.' nor start with '..'"


def domain_path(value: str) -> Iterator[str]:
    """Check the name of a controller: ``example.com/controller``."""
    domain, slash, path = value.partition("/")
    if not (domain and slash and path):
        yield 'must be a domain-prefixed path (such as "acme.io/foo")'
        return
    yield from subdomain(domain)
    if not DOMAIN_PATH.fullmatch(path):
        yield "the path may only consist of the characters that the path of an address may have"


def port(value: int | str) -> Iterator[str]:
    """Check the number of a port, or its name."""
    if isinstance(value, str):
        yield from port_name(value)
    elif not 1 <= value <= MAX_PORT:
        yield f"must be between 1 and {MAX_PORT}, inclusive"


def ip_address(value: str) -> Iterator[str]:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        yield "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


def trimmed(value: str) -> Iterator[str]:
    if value != value.strip():
        yield "must not have leading or trailing whitespace"


def relative_path(value: str) -> Iterator[str]:
    """Check a path that stays below the directory it is relative to."""
    if value.startswith("/"):
        yield "must be a relative path"
    yield from no_backsteps(value)


def file_path(value: str) -> Iterator[str]:
    """Check the path of a file of a volume, which may not look like a path that kubelets write."""
    yield from relative_path(value)
    if value.startswith("..") and not value.startswith("../"):
        yield "must not start with '..'"


def cidr(value: str) -> Iterator[str]:
    try:
        ipaddress.ip_network(value, strict=False)
        valid = "/" in value
    except ValueError:
        valid = False
    if not valid:
        yield "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


def token_seconds(value: int) -> Iterator[str]:
    if value < MIN_TOKEN_S:
        yield "may not specify a duration less than 10 minutes"
    if value > MAX_TOKEN_S:
        yield "may not specify a duration larger than 2^32 seconds"


def no_backsteps(value: str) -> Iterator[str]:
    if ".." in value.split("/"):
        yield "must not contain '..'"


def absolute_path(value: str) -> Iterator[str]:
    if not value.startswith("/"):
        yield "must be an absolute path"


def url_path(value: str) -> Iterator[str]:
    if value in ("", "/"):
        return
    if not value.startswith("/"):
        yield "must start with a '/'"
    for index, segment in enumerate(value[1:].removesuffix("/").split("/")):
        findings = subdomain(segment) if segment else ()
        yield from (f"segment[{index}]: {finding}" for finding in findings)
        if not segment:
            yield f"segment[{index}] may not be empty"


def ingress_host(value: str) -> Iterator[str]:
    """Check a host name, which may begin with a wildcard."""
    with suppress(ValueError):
        ipaddress.ip_address(value)
        yield "must be a DNS name, not an IP address"
    yield from subdomain(value.removeprefix("*."))


def cron_schedule(value: str) -> Iterator[str]:
    if "TZ" in value:
        yield "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        return
    try:
        cron.parse_schedule(value)
    except cron.InvalidSchedule as error:
        yield str(error)


def time_zone(value: str) -> Iterator[str]:
    if value.lower() == "local":
        yield "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        return
    try:
        cron.time_zone(value)
    except cron.InvalidSchedule as error:
        yield str(error)


def certificate_request(value: str) -> Iterator[str]:
    """Check a certificate signing request in PEM, with the signature of its own key."""
    try:
        if not x509.load_pem_x509_csr(base64.b64decode(value)).is_signature_valid:
            yield "the signature is not that of the key in the request"
    except (ValueError, UnsupportedAlgorithm) as error:
        yield f"PEM block type must be CERTIFICATE REQUEST: {error}"


def policy_expression(
    value: str, want: cel.Type = cel.Type.DYN, environment: cel.Env = expressions.POLICIES
) -> Iterator[str]:
    """Check a CEL expression of an admission policy; an unsupported expression is accepted."""
    try:
        expressions.compile_expression(value, want, environment)
    except expressions.Unsupported:
        return
    except expressions.InvalidExpression as error:
        yield str(error)


def policy_condition(value: str) -> Iterator[str]:
    yield from policy_expression(value, cel.Type.BOOL)


def device_condition(value: str) -> Iterator[str]:
    yield from policy_expression(value, cel.Type.BOOL, expressions.DEVICES)


def policy_message(value: str) -> Iterator[str]:
    yield from policy_expression(value, cel.Type.STRING)


def limit_type(value: str) -> Iterator[str]:
    """Check the type of a LimitRange item."""
    findings = list(qualified(value))
    yield from findings
    if not findings and "/" not in value and value not in LIMIT_TYPES:
        yield "must be a standard limit type or fully qualified"


def share(value: int | str) -> Iterator[str]:
    """Check a number of pods, or a percentage of them."""
    percent = value.removesuffix("%") if isinstance(value, str) else ""
    if isinstance(value, int):
        valid = value >= 0
    else:
        valid = percent != value and percent.isdecimal() and int(percent) <= 100
    if not valid:
        yield "must be a number that is not negative, or a percentage of at most 100%"


def webhook_name(value: str) -> Iterator[str]:
    yield from subdomain(value)
    if value.count(".") < 2:
        yield "should be a domain with at least three segments separated by dots"


def review_versions(values: Collection[str]) -> Iterator[str]:
    if not set(values) & set(REVIEW_VERSIONS):
        yield f"must include at least one of {', '.join(REVIEW_VERSIONS)}"


def lone_wildcard(values: Collection[str]) -> Iterator[str]:
    if "*" in values and len(values) > 1:
        yield "if '*' is present, must not specify other values"


def certificate_bundle(value: str) -> Iterator[str]:
    try:
        x509.load_pem_x509_certificates(base64.b64decode(value))
    except ValueError:
        yield "unable to load root certificates"


def _holds(test: Callable[[Any], bool], message: str) -> Format:
    """Return the format that yields ``message`` for a value that fails the test."""

    def check(value: Any) -> Iterator[str]:
        if not test(value):
            yield message

    return check


MIN_TOKEN_S, MAX_TOKEN_S = 600, 2**32
MAX_AFFINITY_S = 86_400
FORMATS: Mapping[str, Format] = {
    "absolutePath": absolute_path,
    "affinitySeconds": _holds(
        lambda seconds: 0 < seconds <= MAX_AFFINITY_S, "must be greater than 0 and less than 86400"
    ),
    "anyExitCode": _holds(bool, "at least one value is required"),
    "apiServicePriority": _holds(
        lambda value: 0 < value <= MAX_API_SERVICE_PRIORITY,
        f"must be positive and less than {MAX_API_SERVICE_PRIORITY}",
    ),
    "celName": _pattern(CEL_NAME, "name is not a valid CEL identifier"),
    "certificateBundle": certificate_bundle,
    "certificateRequest": certificate_request,
    "cidr": cidr,
    "conditionReason": _pattern(
        CONDITION_REASON,
        "a condition reason must start with alphabetic character, optionally followed by a string of"
        " alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' "
        + _regex_note(
            "'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB'",
            CONDITION_REASON.pattern,
        ),
    ),
    "cronSchedule": cron_schedule,
    "dataKey": data_key,
    "deviceCondition": device_condition,
    "devicePath": _holds(lambda path: ".." not in path.split("/"), "can not contain backsteps ('..')"),
    "distinctKeys": _holds(lambda keys: len(set(keys)) == len(keys), "must not name a key twice"),
    "domainPath": domain_path,
    "driverName": lambda value: subdomain(value.lower()),
    "environmentName": _pattern(
        ENVIRONMENT_NAME,
        "a valid environment variable name must consist only of printable ASCII characters other than '='",
    ),
    "eventType": _holds(lambda value: value in ("Normal", "Warning"), "must be Normal or Warning"),
    "extendedResource": _holds(
        lambda name: "/" in name and "kubernetes.io/" not in name and not any(qualified(name)),
        "must be a valid extended resource name",
    ),
    "fileMode": _holds(
        lambda mode: 0 <= mode <= 0o777, "must be a number between 0 and 0777 (octal), both inclusive"
    ),
    "filePath": file_path,
    "groupVersion": _holds(lambda version: "/" in version, "apiVersion must specify API group"),
    "httpHeader": http_header,
    "ingressHost": ingress_host,
    "ipAddress": ip_address,
    "label": label,
    "labelValue": label_value,
    "limitType": limit_type,
    "loneWildcard": lone_wildcard,
    "longName": long_name,
    "noBacksteps": no_backsteps,
    "pathSegment": path_segment,
    "policyCondition": policy_condition,
    "policyExpression": policy_expression,
    "policyMessage": policy_message,
    "port": port,
    "portName": port_name,
    "qualifiedName": qualified,
    "relativePath": relative_path,
    "reviewVersions": review_versions,
    "searchDomain": search_domain,
    "seriesCount": _holds(lambda value: value >= MIN_SERIES_COUNT, f"should be at least {MIN_SERIES_COUNT}"),
    "share": share,
    "shortName": short_name,
    "subdomain": subdomain,
    "sysctl": sysctl,
    "timeZone": time_zone,
    "tokenSeconds": token_seconds,
    "trimmed": trimmed,
    "urlPath": url_path,
    "webhookName": webhook_name,
    "webhookPort": _holds(lambda value: 1 <= value <= MAX_PORT, "port is not valid"),
    "webhookTimeout": _holds(
        lambda value: 1 <= value <= MAX_WEBHOOK_TIMEOUT_S,
        f"the timeout value must be between 1 and {MAX_WEBHOOK_TIMEOUT_S} seconds",
    ),
}
