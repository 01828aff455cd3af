"""The configuration that a process stores in the cluster."""

from quorate.processes.stored_scheduler_configuration import plain


def test_a_configuration_is_stored_without_comments_and_parsed_once() -> None:
    text = "# for all teams\nactions: allocate  # no eviction\n"
    assert plain(text) == "actions: allocate\n"
    assert plain(text) is plain(text)  # asked every second
