"""Quantities of devices as the integers that selectors and sums calculate with."""

from typing import Final

from quorate.api.core.device_claims import DeviceCapacity
from quorate.api.quantity import Quantity

INT64_MAX: Final = 2**63 - 1  # sums of amounts and counts do not exceed it, as in Kueue


def milli_of(value: Quantity) -> int:
    """Return thousandths, at most what 64 bits hold."""
    return max(-INT64_MAX, min(value.milli, INT64_MAX))


def capacity_charge(capacity: DeviceCapacity, requested: Quantity | None) -> Quantity | None:
    """Return the amount that a claim takes of a capacity; None if the device cannot satisfy the claim.

    The amount is the requested one, else the default of the device, else the whole capacity.  It is rounded
    up to the next amount that the policy of the device allows.
    """
    value, policy = capacity.value, capacity.request_policy
    amount = next(given for given in (requested, policy.default, value) if given is not None)
    valid = policy.valid_range
    if policy.valid_values:
        larger = [valid_value for valid_value in policy.valid_values if valid_value >= amount]
        if not larger:
            return None
        amount = min(larger)
    elif valid is not None:
        if valid.min is not None:
            amount = max(amount, valid.min)
            step = 0 if valid.step is None else valid.step.nanos
            if step > 0:
                steps = -(-(amount.nanos - valid.min.nanos) // step)
                amount = Quantity(valid.min.nanos + steps * step, amount.form)
        if valid.max is not None and amount > valid.max:
            return None
    return None if amount > value else amount
