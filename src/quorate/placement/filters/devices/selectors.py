"""CEL expressions that select devices.

Available are CEL's standard functions, its string extensions, and quantities and semantic versions as
Kubernetes compares them: a quantity is an integer of thousandths here, a version its text.  An expression
is evaluated for each device, so that what may take long is refused: loops over lists, and functions that make
long texts of short ones.  Attributes and capacities are scalars; they need neither.

Source: KEP-4381, "Dynamic Resource Allocation" in the Kubernetes documentation.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from cel_expr_python import cel
from cel_expr_python.ext import ext_optional, ext_strings

from quorate.api.core.device_claims import Device, DeviceAttribute
from quorate.api.quantity import InvalidQuantity, Quantity, parse_quantity

MAX_EXPRESSION: Final = 10 * 1024  # characters, the API server's limit
_INT64: Final = 2**63 - 1
_REFUSED: Final = re.compile(
    r"\b(all|exists|exists_one|existsOne|map|filter|transform\w+|bind|replace|format|join|split)\s*\("
)
_LITERAL: Final = re.compile(r"\"([^\"\\]*)\"|'([^'\\]*)'")
_VERSION: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")


class SelectorProblem(NamedTuple):
    """Why an expression selects nothing: it does not compile, or fails for a device."""

    message: str


class Selector:
    """One compiled expression."""

    def __init__(self, text: str, program: cel.Expression) -> None:
        self._program = program
        # An attribute of a domain that a device does not have is absent, not an error.
        self._domains = {one or other for one, other in _LITERAL.findall(text)}

    def matches(self, driver: str, device: Device) -> bool | SelectorProblem:
        """Return whether the expression selects ``device`` of ``driver``."""
        bound = {
            "driver": driver,
            "attributes": self._by_domain(driver, device.attributes, _attribute),
            "capacity": self._by_domain(driver, device.capacity, lambda each: milli_of(each.value)),
            "allowMultipleAllocations": device.allow_multiple_allocations,
        }
        try:
            result = self._program.eval(data={"device": bound})
        except RuntimeError as error:
            return SelectorProblem(f"{error}")
        if result.type() == cel.Type.BOOL:
            return bool(result.value())
        return SelectorProblem(str(result.value()))

    def _by_domain(self, driver: str, values: Mapping[str, Any], read: Any) -> dict[str, dict[str, Any]]:
        domains: dict[str, dict[str, Any]] = {domain: {} for domain in self._domains}
        for name, value in values.items():
            domain, _, identifier = name.rpartition("/")
            domains.setdefault(domain or driver, {})[identifier] = read(value)
        return domains


@lru_cache(maxsize=1024)
def compiled(text: str) -> Selector | SelectorProblem:
    """Return the selector of an expression, or why it is not evaluated."""
    if len(text) > MAX_EXPRESSION:
        return SelectorProblem(f"has {len(text)} characters, more than {MAX_EXPRESSION}")
    if refused := _REFUSED.search(text):
        return SelectorProblem(f"calls {refused[1]}, which is not evaluated (compare attributes without it)")
    try:
        program = _ENVIRONMENT.compile(text)
    except RuntimeError as refusal:
        return SelectorProblem(str(refusal).partition("ERROR: ")[2].partition("\n")[0] or str(refusal))
    if program.return_type() not in (cel.Type.BOOL, cel.Type.DYN):
        return SelectorProblem("must evaluate to a bool")
    return Selector(text, program)


def capacity_of(driver: str, device: Device, name: str) -> int:
    """Return the capacity with a qualified name in thousandths; 0 if the device does not have it."""
    capacity = device.capacity.get(name)
    domain, _, identifier = name.rpartition("/")
    if capacity is None and domain == driver:
        capacity = device.capacity.get(identifier)
    return 0 if capacity is None else milli_of(capacity.value)


def attribute_of(driver: str, device: Device, name: str) -> object:
    """Return the value of the attribute with a qualified name; None if the device does not have it."""
    attribute = device.attributes.get(name)
    domain, _, identifier = name.rpartition("/")
    if attribute is None and domain == driver:
        attribute = device.attributes.get(identifier)
    return None if attribute is None else _attribute(attribute)


def _attribute(attribute: DeviceAttribute) -> object:
    for value in (attribute.int_value, attribute.bool_value, attribute.string, attribute.version):
        if value is not None:
            return value
    return None


def milli_of(value: Quantity) -> int:
    """Return thousandths, at most what 64 bits hold."""
    return max(-_INT64, min(value.milli, _INT64))


def _quantity(text: str) -> int:
    return milli_of(parse_quantity(text))


def _is_quantity(text: str) -> bool:
    try:
        parse_quantity(text)
    except InvalidQuantity:
        return False
    return True


def _semver(text: str) -> str:
    if not _is_semver(text):
        raise ValueError(f"{text!r:.60} is not a semantic version (write 1.2.3)")
    return text


def _is_semver(text: str) -> bool:
    return _VERSION.fullmatch(text) is not None


def _precedence(text: str) -> tuple[object, ...]:
    """Return the order of a version: without a pre-release after those with one, numbers before texts."""
    found = _VERSION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r:.60} is not a semantic version (write 1.2.3)")
    release = tuple(int(found[part]) for part in (1, 2, 3))
    parts = (found[4] or "").split(".") if found[4] else []
    ordered = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts)
    return (*release, not parts, ordered)


def _compare(one: Any, other: Any) -> int:
    return int(one > other) - int(one < other)


def _compare_versions(one: str, other: str) -> int:
    return _compare(_precedence(one), _precedence(other))


def _function(name: str, *overloads: tuple[list[cel.Type], cel.Type, Any], member: bool) -> cel.FunctionDecl:
    return cel.FunctionDecl(
        name,
        [
            cel.Overload(
                f"{name}_{'_'.join(each.name().lower() for each in arguments)}",
                result,
                arguments,
                member,
                run,
            )
            for arguments, result, run in overloads
        ],
    )


_TEXT, _NUMBER, _TRUTH = cel.Type.STRING, cel.Type.INT, cel.Type.BOOL
_ENVIRONMENT: Final = cel.NewEnv(
    variables={"device": cel.Type.DYN},
    extensions=[ext_optional.ExtOptional(), ext_strings.ExtStrings()],
    functions=[
        _function("quantity", ([_TEXT], _NUMBER, _quantity), member=False),
        _function("isQuantity", ([_TEXT], _TRUTH, _is_quantity), member=False),
        _function("semver", ([_TEXT], _TEXT, _semver), member=False),
        _function("isSemver", ([_TEXT], _TRUTH, _is_semver), member=False),
        _function(
            "compareTo",
            ([_NUMBER, _NUMBER], _NUMBER, _compare),
            ([_TEXT, _TEXT], _NUMBER, _compare_versions),
            member=True,
        ),
        _function(
            "isGreaterThan",
            ([_NUMBER, _NUMBER], _TRUTH, lambda one, other: one > other),
            ([_TEXT, _TEXT], _TRUTH, lambda one, other: _compare_versions(one, other) > 0),
            member=True,
        ),
        _function(
            "isLessThan",
            ([_NUMBER, _NUMBER], _TRUTH, lambda one, other: one < other),
            ([_TEXT, _TEXT], _TRUTH, lambda one, other: _compare_versions(one, other) < 0),
            member=True,
        ),
        _function("asInteger", ([_NUMBER], _NUMBER, lambda value: value // 1000), member=True),
        _function("major", ([_TEXT], _NUMBER, lambda text: _precedence(text)[0]), member=True),
        _function("minor", ([_TEXT], _NUMBER, lambda text: _precedence(text)[1]), member=True),
        _function("patch", ([_TEXT], _NUMBER, lambda text: _precedence(text)[2]), member=True),
    ],
)
