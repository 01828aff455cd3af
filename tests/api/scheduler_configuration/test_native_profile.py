"""Profile ``native`` alone is a configuration."""

from quorate.api.scheduler_configuration import load_scheduler_configuration


def test_the_native_profile_has_actions_and_plugins_of_its_own() -> None:
    loaded = load_scheduler_configuration("profile: native")
    configuration = loaded.configuration
    assert (configuration.profile, configuration.actions) == ("native", ("allocate", "preempt"))
    ((*plugins,),) = configuration.tiers
    assert [entry.name for entry in plugins] == ["priority", "gang", "conformance", "predicates", "nodeorder"]
    assert loaded.warnings == ()


def test_given_actions_take_the_place_of_those_of_the_native_profile() -> None:
    text = 'profile: native\nactions: "enqueue, allocate"\ntiers:\n- plugins:\n  - name: gang\n'
    configuration = load_scheduler_configuration(text).configuration
    assert (configuration.profile, configuration.actions) == ("native", ("enqueue", "allocate"))
