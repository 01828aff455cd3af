"""Short texts of scheduler configurations: one plugin, or the arguments of one action."""

from quorate.api.scheduler_configuration import (
    SchedulerConfiguration,
    load_scheduler_configuration,
)


def loaded(body: str) -> SchedulerConfiguration:
    result = load_scheduler_configuration(body)
    assert result.warnings == ()
    return result.configuration


def plugin(entry: str) -> str:
    return f'{{actions: "allocate", tiers: [{{plugins: [{entry}]}}]}}'


def action(configurations: str, profile: str = "design") -> str:
    return (
        f'{{profile: {profile}, actions: "enqueue", tiers: [{{plugins: [{{name: gang}}]}}], '
        f"configurations: [{configurations}]}}"
    )
