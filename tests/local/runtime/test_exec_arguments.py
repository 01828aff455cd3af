from pathlib import Path

from quorate.local.runtime.containers.running import RunningContainer, exec_arguments


def test_a_command_runs_in_the_namespaces_and_the_working_directory_of_the_container() -> None:
    container = RunningContainer(
        pid=4711,
        environment={},
        working_directory="/data",
    )
    tool, *arguments = exec_arguments(container, ("ls", "-l"))
    assert Path(tool).name == "nsenter"
    assert arguments == [
        *("--target=4711", "--mount", "--uts", "--ipc", "--net", "--pid"),
        *("--root=/proc/4711/root", "--wd=/proc/4711/root/data", "--", "ls", "-l"),
    ]


def test_a_command_runs_as_the_user_of_the_container() -> None:
    container = RunningContainer(pid=4711, environment={}, working_directory="/", user=1000, group=50)
    assert exec_arguments(container, ("id",))[-5:] == [
        "--wd=/proc/4711/root/",
        "--setuid=1000",
        "--setgid=50",
        "--",
        "id",
    ]
