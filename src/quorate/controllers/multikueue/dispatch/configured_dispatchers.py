"""The dispatchers that a Configuration can name."""

from quorate.api.configuration import Configuration
from quorate.api.configuration.multikueue import MultiKueue
from quorate.api.names.multikueue import ALL_AT_ONCE, EARLIEST_START, INCREMENTAL
from quorate.controllers.multikueue.dispatch.dispatchers import Dispatcher, all_at_once, incremental_with
from quorate.controllers.multikueue.dispatch.earliest_start import earliest_start


def configured_dispatchers(configuration: Configuration) -> dict[str, Dispatcher]:
    """Return the dispatchers by their names, as ``configuration`` sets them."""
    gates, rules = configuration.multikueue_gates, configuration.multikueue
    step = rules.step_size if gates.incremental_dispatcher_config else MultiKueue().step_size
    in_order = gates.incremental_in_configured_order
    return {
        ALL_AT_ONCE: all_at_once,
        INCREMENTAL: incremental_with(step, in_configured_order=in_order),
        EARLIEST_START: earliest_start,
    }
