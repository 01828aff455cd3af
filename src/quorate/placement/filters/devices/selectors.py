"""CEL expressions that select devices.

Available are CEL's standard functions, its string extensions, and quantities and semantic versions as
Kubernetes compares them: a quantity is an integer of thousandths here, a version its text.  An expression
is evaluated for each device, so that what may take long is refused: loops over lists, and functions that make
long texts of short ones.  Attributes and capacities are scalars; they need neither.  Regular expressions are
few and count no repetitions, because those take milliseconds to compile.

Devices that are equal in what an expression reads have the same result, which is computed once.  An
expression reads an attribute or capacity where it names it, as ``device.attributes['domain'].name``; an
expression that uses ``device`` in another way may read everything.

Source: KEP-4381, "Dynamic Resource Allocation" in the Kubernetes documentation.
"""

import re
from collections.abc import Hashable, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from quorate.api import codec
from quorate.api.core.device_claims import Device, DeviceAttribute, DeviceCapacity
from quorate.placement.filters.devices.quantities import milli_of

if TYPE_CHECKING:
    from cel_expr_python import cel

T = TypeVar("T")

MAX_PROBLEM: Final = 200  # characters of a message
MAX_EXPRESSION: Final = 10 * 1024  # characters, the API server's limit
MAX_MATCHES: Final = 16  # calls of the function matches
MAX_RESULTS: Final = 256  # that are kept of one expression
_REFUSED: Final = re.compile(
    r"\b(all|exists|exists_one|existsOne|map|filter|transform\w+|bind|replace|format|join|split)"
    r"(?:\s|//[^\n]*\n)*\("
)
_MATCHES: Final = re.compile(r"\bmatches\b")
_COUNTED: Final = re.compile(r"\{|\\[xXuU0-9]")  # the brace of a counted repetition, or an escape of it
_READ: Final = re.compile(
    r"""\bdevice\.(?:driver\b|allowMultipleAllocations\b"""
    r"""|(attributes|capacity)\[(?:"(\w[\w./-]*)"|'(\w[\w./-]*)')\]\.(\w+)\b(?!\s*\())"""
)
_LITERAL: Final = re.compile(r"\"([^\"\\]*)\"|'([^'\\]*)'")


class SelectorProblem(NamedTuple):
    """Why an expression selects nothing: it does not compile, or fails for a device."""

    message: str
    is_unsupported: bool = False  # it may be valid for Kubernetes, which has more functions


class Reads(NamedTuple):
    """What expressions read of a device, beside its driver and whether several claims can have it."""

    attributes: frozenset[str] = frozenset()  # names with their domains
    capacity: frozenset[str] = frozenset()
    is_everything: bool = False  # the names are not all

    def key(self, driver: str, device: Device) -> Hashable:
        """Return what is read of ``device``: the results for devices with equal keys are equal."""
        if self.is_everything:
            content = codec.encode_sorted((device.attributes, device.capacity))
            return driver, device.allow_multiple_allocations, blake2b(content, digest_size=16).digest()
        attributes = tuple(_named(device.attributes, driver, name) for name in self.attributes)
        capacity = tuple(_named(device.capacity, driver, name) for name in self.capacity)
        values = tuple(amount and amount.value for amount in capacity)
        return driver, device.allow_multiple_allocations, attributes, values

    def __or__(self, other: "Reads") -> "Reads":
        return Reads(
            self.attributes | other.attributes,
            self.capacity | other.capacity,
            self.is_everything or other.is_everything,
        )


def reads_of(text: str) -> Reads:
    """Return what an expression reads."""
    names: dict[str, set[str]] = {"attributes": set(), "capacity": set()}
    for kind, one, other, name in _READ.findall(text):
        if kind:
            names[kind].add(f"{one or other}/{name}")
    is_everything = "//" in text or "device" in _READ.sub("", text)
    return Reads(frozenset(names["attributes"]), frozenset(names["capacity"]), is_everything)


class Selector:
    """One compiled expression, with its results."""

    def __init__(self, text: str, program: "cel.Expression") -> None:
        self.reads = reads_of(text)
        self.evaluations = 0
        self.units = 75 + len(text)  # work of one evaluation, in units of 0.2 microseconds
        self._program = program
        # An attribute of a domain that a device does not have is absent, not an error.
        self._domains = {one or other for one, other in _LITERAL.findall(text)}
        self._results: dict[Hashable, bool | SelectorProblem] = {}

    def matches(self, driver: str, device: Device) -> bool | SelectorProblem:
        """Return whether the expression selects ``device`` of ``driver``."""
        key = self.reads.key(driver, device)
        result = self._results.get(key)
        if result is None:
            if len(self._results) >= MAX_RESULTS:
                self._results.clear()
            result = self._results[key] = self._evaluate(driver, device)
        return result

    def _evaluate(self, driver: str, device: Device) -> bool | SelectorProblem:
        self.evaluations += 1
        bound = {
            "driver": driver,
            "attributes": self._by_domain(driver, device.attributes, _attribute),
            "capacity": self._by_domain(driver, device.capacity, lambda amount: milli_of(amount.value)),
            "allowMultipleAllocations": device.allow_multiple_allocations,
        }
        try:
            value = self._program.eval(data={"device": bound}).value()
        except (RuntimeError, SystemError, TypeError) as error:  # TypeError: an optional, which has no value
            return SelectorProblem(f"{error!s:.{MAX_PROBLEM}}")
        return value if isinstance(value, bool) else SelectorProblem(f"{value!s:.{MAX_PROBLEM}}")

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
        return SelectorProblem(
            f"calls {refused[1]}, which is not evaluated (compare attributes without it)", True
        )
    if calls := len(_MATCHES.findall(text)):
        if calls > MAX_MATCHES:
            return SelectorProblem(f"calls matches {calls} times, more than {MAX_MATCHES}", True)
        if _COUNTED.search(text):
            return SelectorProblem("calls matches with a counted repetition, which is not evaluated", True)
    from quorate.placement.filters.devices.cel_environment import ENVIRONMENT  # most processes need none

    try:
        program = ENVIRONMENT.compile(text)
    except (RuntimeError, TypeError) as refusal:
        message = str(refusal).partition("ERROR: ")[2].partition("\n")[0] or str(refusal)
        return SelectorProblem(message[:MAX_PROBLEM], is_unsupported="Syntax error" not in message)
    if program.return_type().name().lower() not in ("bool", "dyn"):
        return SelectorProblem("must evaluate to a bool")
    return Selector(text, program)


def capacity_named(driver: str, device: Device, name: str) -> DeviceCapacity | None:
    """Return the capacity with a name, qualified or not; None if the device does not have it."""
    return _named(device.capacity, driver, name)


def capacity_of(driver: str, device: Device, name: str) -> int:
    """Return the capacity with a name in thousandths; 0 if the device does not have it."""
    capacity = capacity_named(driver, device, name)
    return 0 if capacity is None else milli_of(capacity.value)


def attribute_of(driver: str, device: Device, name: str) -> object:
    """Return the value of the attribute with a name; None if the device does not have it."""
    attribute = _named(device.attributes, driver, name)
    return None if attribute is None else _attribute(attribute)


def _named(values: Mapping[str, T], driver: str, name: str) -> T | None:
    """Return the value of ``name``; a name without a domain has the domain of the driver."""
    domain, _, identifier = name.rpartition("/")
    return values.get(name, values.get(identifier if domain == driver else f"{driver}/{name}"))


def _attribute(attribute: DeviceAttribute) -> object:
    for value in (attribute.int_value, attribute.bool_value, attribute.string, attribute.version):
        if value is not None:
            return value
    return None
