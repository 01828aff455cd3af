"""The end of the demo: when its jobs would end with more nodes."""

from rich.console import Console

from quorate.cli.run.demo import what_if, what_if_table


def test_with_more_nodes_the_jobs_run_side_by_side() -> None:
    console = Console(width=100)
    with console.capture() as capture:
        console.print(what_if_table(what_if()))
    rows = [line.split() for line in capture.get().splitlines()]
    assert rows[1:] == [
        ["job1", "ends", "after", "12s", "ends", "after", "12s"],
        ["job2", "ends", "after", "24s", "ends", "after", "12s"],
    ]
