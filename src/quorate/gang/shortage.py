"""One resource of which too little is free, and how messages write its amounts."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from quorate.gang.namespace_quota.evaluation import format_amount, plain_resource
from quorate.placement.diagnosis import Diagnosis, InsufficientResource
from quorate.quota.amount import Amount, counts_bytes

MAX_RESOURCES_IN_MESSAGE: Final = 16  # messages are stored, and a group or a pod may name any number
NEVER_FITS: Final = "so it can never fit"  # in messages of what is short with everything else gone


@dataclass(frozen=True, slots=True)
class Shortage:
    """One resource of which too little is free."""

    resource: str
    needed: int
    free: int
    at_most: Amount  # available with everything else gone
    overcommitted: int = 0  # part of both, beyond what the nodes have (plugin ``overcommit``)

    @property
    def never_fits(self) -> bool:
        """Whether more is needed than would be available with everything else gone."""
        return self.needed > self.at_most

    @property
    def equivalence_key(self) -> tuple[object, ...]:
        """The fields that do not change with every pod that starts or ends."""
        return (self.resource, self.needed, self.at_most if self.never_fits else None)

    @property
    def within_share(self) -> str:
        """Return a message for an amount that may change while nothing else goes."""
        name = self.resource
        assert isinstance(self.at_most, int), f"{name} is short without a limit"
        have, limit = rounded_down(name, max(0, self.free)), rounded_down(name, self.at_most)
        return f"{name}: need {rounded_up(name, self.needed)}, have {have} of {limit} now"

    def __str__(self) -> str:
        name = self.resource
        free = rounded_down(name, max(0, self.free))
        text = f"{name}: need {rounded_up(name, self.needed)}, have {free} now"
        if isinstance(self.at_most, int) and self.never_fits:
            most = rounded_down(name, self.at_most)
            return f"{text} and {most} at most{self._without_overcommit(self.at_most)}, {NEVER_FITS}"
        return f"{text}{self._without_overcommit(self.free)}"

    def _without_overcommit(self, amount: int) -> str:
        if not self.overcommitted:
            return ""
        return f" ({rounded_down(self.resource, max(0, amount - self.overcommitted))} without overcommit)"


def rounded_up(name: str, amount: int) -> str:
    """Return ``amount`` of the resource ``name`` as text that is not less."""
    return format_amount(name, amount + -amount % _precision(name, amount))


def rounded_down(name: str, amount: int) -> str:
    """Return ``amount`` of the resource ``name`` as text that is not more."""
    return format_amount(name, amount - amount % _precision(name, amount))


def _precision(name: str, amount: int) -> int:
    """Return the unit to which messages round: mebibytes from a gibibyte on."""
    return 1 << 20 if counts_bytes(plain_resource(name)) and amount >= 1 << 30 else 1


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is 1."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def no_fit_message(no_fit: Diagnosis) -> str:
    """Return kube-scheduler's message for a pod that fits no node, frequent reasons first."""
    is_usual = len(no_fit.insufficient) <= MAX_RESOURCES_IN_MESSAGE
    return _cached_no_fit_message(no_fit) if is_usual else _no_fit_message(no_fit)


def _no_fit_message(no_fit: Diagnosis) -> str:
    if not no_fit.nodes:
        return "no nodes available to schedule pods"
    insufficient = [
        f"{lack.nodes} Insufficient {lack.resource} (need {format_amount(lack.resource, lack.need)}, "
        f"{format_amount(lack.resource, lack.at_most)} at most{_overcommitted(lack)})"
        for lack in no_fit.insufficient[:MAX_RESOURCES_IN_MESSAGE]
    ]
    if omitted := len(no_fit.insufficient) - len(insufficient):
        insufficient.append(f"{omitted} resources more")
    constraints = (f"{refusal.nodes} {refusal.reason}" for refusal in no_fit.filtered)
    reasons = ", ".join((*insufficient, *constraints))
    return f"0/{no_fit.nodes} nodes are available: {reasons}"


def _overcommitted(resource: InsufficientResource) -> str:
    return f"; overcommitted on {resource.overcommitted} node(s)" if resource.overcommitted else ""


_cached_no_fit_message = lru_cache(maxsize=1_024)(_no_fit_message)
