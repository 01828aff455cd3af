"""Runs a sandbox with mount and unshare of util-linux, where bubblewrap is not installed.

The plan of the sandbox is the same: options of bubblewrap. A shell makes the mounts, in a mount namespace of
its own; below it are the init process, and its child, the command. They report what bubblewrap reports.
"""

import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from quorate.local.runtime.containers.environment import DEFAULT_PATH

TWO_VALUES: Final = frozenset(
    {"--bind", "--ro-bind", "--ro-bind-try", "--dev-bind-try", "--symlink", "--chmod"}
)
DEVICES: Final = ("full", "null", "random", "tty", "urandom", "zero")
FUNCTIONS: Final = """
bind() {
    if [ -d "$2" ]; then
        [ -d "$r$3" ] || mkdir -p "$r$3"
    elif ! [ -e "$r$3" ]; then
        mkdir -p "$r${3%/*}"; : > "$r$3"
    fi
    mount -o "$1" "$2" "$r$3"
}
read_only_below() {
    while read -r source target rest; do
        for top in "$@"; do
            case $target in "$r$top"/*)
                mount -o remount,bind,ro "$(printf %b "$target")" 2>/dev/null || :
                break;;
            esac
        done
    done < /proc/self/mounts
}
"""
INIT: Final = """
read -r pid rest < /proc/self/stat
echo "{\\"child-pid\\": $pid}" >> "$1"
[ -z "$2" ] || echo "$2" > /proc/sys/kernel/hostname
shift 2
exec "$@"
"""
REAPER_NAME: Final = "init"  # begins its message that the command cannot be executed
# Without exec, the command could be one that only the shell has.
REAPER: Final = ("/bin/sh", "-c", '(exec "$@"); exit $?', REAPER_NAME)


def arguments_without_bubblewrap(
    options: Sequence[str], command: Sequence[str], root: str, status: str, unshare: str
) -> list[str]:
    """Return the arguments of the process that runs ``command`` in a sandbox.

    ``root`` is an empty directory for the root of the sandbox, ``status`` the file for the JSON status,
    ``unshare`` the path of that tool.
    """
    values: dict[str, str] = {}
    lines = ["set -e", "path=$PATH", f"PATH={DEFAULT_PATH}", f"r={shlex.quote(root)}", FUNCTIONS]
    read_only: list[str] = []  # paths with mounts below them that are still to be made read-only
    for option, *given in (*_parsed(options), ("--bind", "", "")):
        quoted = [shlex.quote(value) for value in given]
        if option in ("--hostname", "--chdir", "--proc"):
            values[option] = given[0]
        elif option.startswith("--ro-bind"):
            read_only.append(quoted[1])
        elif option == "--bind" and read_only:
            lines.append(f"read_only_below {' '.join(read_only)}")
            read_only.clear()
        lines += _lines(option, quoted) if any(given) else []
    has_pids = "--unshare-pid" in options
    enter = [unshare, f"--root={root}", f"--wd={values.get('--chdir', '/')}"]
    enter += [f"--mount-proc={values['--proc']}"] if "--proc" in values else ["--mount"]
    init = [
        *(unshare, *(("--pid",) if has_pids else ()), "--fork", "--kill-child", "--ipc", "--uts", "--"),
        *("/bin/sh", "-c", INIT, "sh", status, values.get("--hostname", "")),
        *(*enter, "--", *(REAPER if has_pids else ())),
    ]
    lines += [
        "set +e",
        f'PATH=$path {shlex.join(init)} "$@"',
        f'code=$?; echo "{{\\"exit-code\\": $code}}" >> {shlex.quote(status)}; exit $code',
    ]
    return ["/bin/sh", "-c", "\n".join(lines), "sh", *command]


def _parsed(options: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield each option with its values."""
    position = 0
    while position < len(options):
        option = options[position]
        length = 1 if option.startswith("--unshare-") else 3 if option in TWO_VALUES else 2
        yield options[position : position + length]
        position += length


def _lines(option: str, given: Sequence[str]) -> Sequence[str]:
    """Return shell lines that do what an option says, given its quoted values."""
    match option, given:
        case "--tmpfs", [path]:
            return (f"mkdir -p $r{path}", f"mount -t tmpfs -o mode=755 tmpfs $r{path}")
        case (("--dir" | "--proc"), [path]):
            return (f"mkdir -p $r{path}",)
        case "--chmod", [mode, path]:
            return (f"chmod {mode} $r{path}",)
        case "--symlink", [target, path]:
            return (f"ln -s {target} $r{path}",)
        case "--bind", [source, path]:
            return (f"bind rbind {source} {path}",)
        case "--ro-bind", [source, path]:
            return (f"bind rbind,ro {source} {path}",)
        case "--ro-bind-try", [source, path]:
            return (f"if [ -e {source} ]; then bind rbind,ro {source} {path}; fi",)
        case "--dev-bind-try", [source, path]:
            return (f"if [ -e {source} ]; then bind rbind {source} {path}; fi",)
        case "--remount-ro", [path]:
            return (f'mount -o remount,bind,ro "$r"{path.removesuffix("/")}',)
        case "--dev", [path]:
            return (
                f"mkdir -p $r{path}",
                f"mount -t tmpfs -o mode=755 tmpfs $r{path}",
                f"mkdir $r{path}/pts $r{path}/shm",
                *(f"bind bind /dev/{name} {path}/{name}" for name in DEVICES),
                f"mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts $r{path}/pts",
                f"mount -t tmpfs -o mode=1777 tmpfs $r{path}/shm",
                f"ln -s pts/ptmx $r{path}/ptmx",
                f"ln -s /proc/self/fd $r{path}/fd",
                *(
                    f"ln -s /proc/self/fd/{number} $r{path}/{name}"
                    for number, name in enumerate(("stdin", "stdout", "stderr"))
                ),
            )
        case _:
            return ()
