"""The process that runs a container: bubblewrap in namespaces of its own, over the files of the host.

The root of a container is a small file system in memory, in which each directory of the host's root is
read-only. A directory that needs a mount point it does not have is an overlay instead, and so is the home
directory; their changes end with the container. The root of an image that has a directory is one overlay.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from quorate.local.runtime.containers.environment import DEFAULT_PATH
from quorate.local.runtime.containers.processes import tool_path
from quorate.local.runtime.containers.unshare_launcher import arguments_without_bubblewrap
from quorate.local.runtime.network.namespaces import ATTEMPTS

OWN_DIRECTORIES: Final = frozenset({"proc", "dev", "sys", "tmp", "run"})
JOINED_NAMESPACE: Final = "/run/pid-namespace"  # in the container, of the container that it joins
STATUS_FD: Final = "9"
LAYERS: Final = ("upper", "work", "merged")
OTHER_FORMATS: Final = Path("/proc/sys/fs/binfmt_misc")
FORMAT_ERROR: Final = ("/bin/sh", "-c", 'echo "exec $0: exec format error" >&2; exit 255')
PYTHONS: Final = ("python", "python3")
PYTHON_DIRECTORY: Final = "/usr/local/bin"


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or directory of the host in a container."""

    source: Path
    target: str
    read_only: bool


@dataclass(frozen=True, slots=True)
class Tools:
    """What the kernel and the installed tools permit, found once by ``find_tools``."""

    bwrap: str  # without symbolic links; empty: bubblewrap is not installed
    own_proc: bool  # a new /proc can be mounted: processes of the host are not seen

    @property
    def name(self) -> str:
        """Return the name of the tool that runs containers."""
        return "bubblewrap" if self.bwrap else "unshare"


@dataclass(frozen=True, slots=True)
class Sandbox:
    """All that the process of a container is started with."""

    command: Sequence[str]
    working_directory: str
    hostname: str
    network: Path | None  # of a network namespace; None: that of the host
    hosts: Path
    resolv_conf: Path
    mounts: Sequence[Mount]
    termination_log: Path
    termination_log_target: str
    layers: Path  # an empty directory, on which the container's changes are mounted
    image: Path  # the root directory of the image; / for the host's files
    home: str
    read_only: bool
    devices: Sequence[Path]
    cgroups: Sequence[Path]  # files to which the process writes its id
    user: int | None
    group: int | None
    terminal: bool  # stdin is to be the terminal of the command's session
    pid_namespace: Path | None  # of another container; None: the container has its own


def resolve_in(root: Path, path: str) -> str:
    """Return an absolute path without symbolic links, as a process with this root directory sees it."""
    resolved = Path("/")
    parts = list(reversed(Path(path).parts[1:]))
    links = 0
    while parts:
        part = parts.pop()
        if part == "..":
            resolved = resolved.parent
            continue
        candidate = resolved / part
        on_host = root / candidate.relative_to("/")
        if on_host.is_symlink() and links < 40:
            links += 1
            target = Path(os.readlink(on_host))
            if target.is_absolute():
                resolved = Path("/")
                parts += reversed(target.parts[1:])
            else:
                parts += reversed(target.parts)
            continue
        resolved = candidate
    return str(resolved)


_SHELL_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")


def with_format_error(sandbox: Sandbox, search_path: str) -> Sandbox:
    """Return ``sandbox``, with a command that fails if the kernel has no format for the program's file.

    The tools below would run such a file, a script without ``#!`` for example, with a shell.
    Source: the messages and exit code of runc.
    """
    program = _unrecognized_program(sandbox, search_path)
    return replace(sandbox, command=(*FORMAT_ERROR, program)) if program else sandbox


def _unrecognized_program(sandbox: Sandbox, search_path: str) -> str:
    """Return the path of the program that the command names if its format is unknown, else ""."""
    word = sandbox.command[0]
    directories = [sandbox.working_directory] if "/" in word else search_path.split(":")
    for directory in directories:
        path = os.path.join(directory, word)
        on_host = _on_host(sandbox, path)
        if on_host.is_file() and os.access(on_host, os.X_OK):
            with on_host.open("rb") as program:
                begins_with = program.read(4)
            others = len(os.listdir(OTHER_FORMATS)) if OTHER_FORMATS.is_dir() else 0
            is_known = others > 2 or begins_with.startswith(
                (b"#!", b"\x7fELF")
            )  # it has two files of its own
            return "" if is_known else word if "/" in word else path
    return ""


def _on_host(sandbox: Sandbox, path: str) -> Path:
    """Return the file of the host that a path in a container leads to."""
    resolved = Path(resolve_in(sandbox.image, path))
    mounts = [mount for mount in sandbox.mounts if Path(mount.target) in (resolved, *resolved.parents)]
    if not mounts:
        return sandbox.image / resolved.relative_to("/")
    mount = max(mounts, key=lambda mount: len(mount.target))
    return mount.source / resolved.relative_to(mount.target)


def variables_file(environment: Mapping[str, str]) -> int | None:
    """Return a file descriptor of options for ``arguments`` that set the variables which a shell drops.

    A shell passes on no variable with a name that is not one of its own, such as data-1 or a.b, and arguments
    can be read by other users. Return None if the environment has no such variable.
    """
    dropped = [item for item in environment.items() if not _SHELL_NAME.fullmatch(item[0])]
    if not dropped:
        return None
    options = "".join(f"--setenv\0{name}\0{value}\0" for name, value in dropped)
    descriptor = os.memfd_create("variables")
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(os.fsencode(options))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def arguments(sandbox: Sandbox, tools: Tools, status: Path, variables: int | None = None) -> list[str]:
    """Return the arguments of the process of a container, which writes bubblewrap's JSON status to a file.

    ``variables``: what ``variables_file`` returns, open in the process.
    """
    plan = _Root(sandbox)
    launcher: list[str] = []
    if sandbox.network is not None:
        launcher += [tool_path("nsenter"), f"--net={sandbox.network}", "--"]
    joins = (f"echo 0 > {shlex.quote(str(path))}" for path in sandbox.cgroups)
    # The tools are not those on the container's PATH.
    script = [
        *("set -e", "path=$PATH", f"PATH={DEFAULT_PATH}", *joins),
        *plan.script(),
        *_join_processes(sandbox),
        'PATH=$path exec "$@"' + (f" {STATUS_FD}>>{shlex.quote(str(status))}" if tools.bwrap else ""),
    ]
    launcher += [tool_path("unshare"), "--mount", "--", "/bin/sh", "-c", "\n".join(script), "sh"]
    options = [
        *("--unshare-ipc", "--unshare-uts", "--hostname", sandbox.hostname),
        *plan.binds(),
        *_processes(sandbox, tools),
        *("--dev", "/dev", "--ro-bind", "/sys", "/sys"),
        *(option for path in sandbox.devices for option in ("--dev-bind-try", str(path), str(path))),
        *plan.volumes(),
        *("--dir", sandbox.working_directory, "--chdir", sandbox.working_directory),
    ]
    command = [*(word for launcher in _inner_launchers(sandbox) for word in launcher), *sandbox.command]
    if not tools.bwrap:
        root = str(sandbox.layers / "root")
        return [
            *launcher,
            *arguments_without_bubblewrap(options, command, root, str(status), tool_path("unshare")),
        ]
    if variables is not None:
        options += ["--args", str(variables)]
    return [*launcher, tools.bwrap, "--json-status-fd", STATUS_FD, *options, "--", *command]


def _processes(sandbox: Sandbox, tools: Tools) -> Sequence[str]:
    """Return bubblewrap's options for the PID namespace and /proc."""
    if sandbox.pid_namespace is not None:
        proc, namespace = _joined_files(sandbox)
        return ("--bind", proc, "/proc", "--bind", namespace, JOINED_NAMESPACE)
    return ("--unshare-pid", *(("--proc", "/proc") if tools.own_proc else ("--ro-bind", "/proc", "/proc")))


def _join_processes(sandbox: Sandbox) -> Sequence[str]:
    """Return lines of the shell script that mount a joined PID namespace and its /proc.

    A process that enters another PID namespace is not in the /proc of that namespace, so nsenter could not
    find the namespace there.
    """
    if sandbox.pid_namespace is None:
        return ()
    proc, namespace = map(shlex.quote, _joined_files(sandbox))
    return (
        f"mkdir -p {proc}",
        f": > {namespace}",
        f"mount --bind {shlex.quote(str(sandbox.pid_namespace))} {namespace}",
        f"nsenter --pid={namespace} -- mount -t proc proc {proc}",
    )


def _joined_files(sandbox: Sandbox) -> tuple[str, str]:
    return str(sandbox.layers / "proc"), str(sandbox.layers / "pid-namespace")


def launches(sandbox: Sandbox) -> frozenset[bytes]:
    """Return the command lines, as in /proc, of the programs in the sandbox that execute the command."""
    lines: set[bytes] = set()
    words = sandbox.command
    for launcher in reversed(_inner_launchers(sandbox)):
        words = [*launcher, *words]
        lines.add(b"".join(os.fsencode(word) + b"\0" for word in words))
    return frozenset(lines)


def _inner_launchers(sandbox: Sandbox) -> list[list[str]]:
    """Return the programs, with arguments, of which each executes the next, and the last the command."""
    launchers: list[list[str]] = []
    if sandbox.pid_namespace is not None:
        launchers.append([tool_path("nsenter"), f"--pid={JOINED_NAMESPACE}", "--"])
    if sandbox.terminal:  # in the PID namespace of the command, for its job control
        launchers.append([tool_path("setsid"), "--ctty"])
    if sandbox.group is not None:
        launchers.append(_as_user(sandbox))
    return launchers


def _as_user(sandbox: Sandbox) -> list[str]:
    user = [] if sandbox.user is None else [f"--reuid={sandbox.user}"]
    return [tool_path("setpriv"), *user, f"--regid={sandbox.group}", "--clear-groups", "--"]


class _Root:
    """The root of one container: which directories are overlays, and what is mounted where."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._image = sandbox.image
        self._is_host = sandbox.image == Path("/")
        # Directories of the image that need an overlay: the paths to create in it, and the program that
        # a path is to run, or None for a mount point.
        self._overlays: dict[str, dict[str, str | None]] = {} if self._is_host else {"/": {}}
        self._mounts = [
            Mount(sandbox.hosts, self._resolve("/etc/hosts"), read_only=False),
            Mount(sandbox.resolv_conf, self._resolve("/etc/resolv.conf"), read_only=False),
            *(Mount(m.source, self._resolve(m.target), m.read_only) for m in sandbox.mounts),
            Mount(sandbox.termination_log, self._resolve(sandbox.termination_log_target), read_only=False),
        ]
        if not sandbox.read_only:
            self._need(self._resolve(sandbox.home))
        for mount in self._mounts:
            self._need(mount.target)
        self._need(self._resolve(sandbox.working_directory))
        self._offer_python()

    def _resolve(self, path: str) -> str:
        return resolve_in(self._image, path)

    def _on_host(self, path: str) -> Path:
        return self._image / path.lstrip("/")

    def _is_in_volume(self, path: Path) -> bool:
        return any(Path(mount.target) in path.parents for mount in self._mounts)

    def _need(self, path: str, program: str | None = None) -> None:
        """Record the overlay that ``path`` needs to exist, unless it exists in the image."""
        target = Path(path)
        top = target.parts[1] if len(target.parts) > 1 else ""
        if not top or top in OWN_DIRECTORIES:
            return
        if self._is_host and not self._on_host(f"/{top}").is_dir():
            return  # in the file system of the root, where everything can be created
        if self._is_in_volume(target):
            return
        if self._is_host and path == self._resolve(self._sandbox.home) and not self._sandbox.read_only:
            self._overlays.setdefault(path if self._on_host(path).is_dir() else f"/{top}", {})
        if self._on_host(path).exists():
            return
        directory = target.parent
        while not self._on_host(str(directory)).is_dir():
            directory = directory.parent
        covering = [above for above in self._overlays if Path(above) in (directory, *directory.parents)]
        self._overlays.setdefault(max(covering, default=str(directory)), {})[path] = program

    def _offer_python(self) -> None:
        """Offer the Python that runs this process, if the image is the host's and its PATH has none."""
        missing = [name for name in PYTHONS if shutil.which(name, path=DEFAULT_PATH) is None]
        if not self._is_host or not missing:
            return
        for name in missing:
            self._need(f"{PYTHON_DIRECTORY}/{name}", sys.executable)
        for prefix in sorted({Path(sys.prefix), Path(sys.base_prefix)}):
            if prefix.parts[1] in OWN_DIRECTORIES and not self._is_in_volume(prefix):
                self._mounts.append(Mount(prefix, str(prefix), read_only=True))

    def script(self) -> list[str]:
        """Return the lines of a shell script that mounts the overlays, with few processes."""
        if not self._overlays:
            return []
        directories: set[str] = set()
        files: list[str] = []
        programs: list[str] = []
        mounts: list[str] = []
        file_targets = {mount.target for mount in self._mounts if not mount.source.is_dir()}
        for number, (directory, paths) in enumerate(sorted(self._overlays.items())):
            upper, work, merged = (f"{self._sandbox.layers}/{number}/{part}" for part in LAYERS)
            directories |= {upper, work, merged}
            for path, program in paths.items():
                created = str(Path(upper) / Path(path).relative_to(directory))
                if program is not None:
                    # Not a link: a virtual environment is found beside the program that is called.
                    text = f'#!/bin/sh\nexec {shlex.quote(program)} "$@"\n'
                    files.append(f"printf %s {shlex.quote(text)} > {shlex.quote(created)}")
                    programs.append(created)
                elif path in file_targets:
                    files.append(f": > {shlex.quote(created)}")
                is_directory = program is None and path not in file_targets
                directories.add(created if is_directory else str(Path(created).parent))
            mounts.append(self._overlay(directory, upper, work, merged, is_needed=bool(paths)))
        return [
            f"mount -t tmpfs -o mode=755 tmpfs {shlex.quote(str(self._sandbox.layers))}",
            f"mkdir -p {shlex.join(sorted(directories))}",
            *files,
            *([f"chmod 755 {shlex.join(programs)}"] if programs else []),
            *mounts,
        ]

    def _overlay(self, directory: str, upper: str, work: str, merged: str, *, is_needed: bool) -> str:
        lower = self._on_host(directory)
        option = f"lowerdir={_escaped(str(lower))},upperdir={_escaped(upper)},workdir={_escaped(work)}"
        line = f"mount -t overlay -o {shlex.quote(option)},userxattr overlay {shlex.quote(merged)}"
        if is_needed or directory == "/":
            return line
        # Only for changes: without an overlay it cannot be changed.
        return f"{line} 2>/dev/null || mount --rbind {shlex.join([str(lower), merged])}"

    def binds(self) -> list[str]:
        """Return bubblewrap's options for the directories of the image."""
        options = ["--tmpfs", "/", "--dir", "/run", "--dir", "/tmp", "--chmod", "1777", "/tmp"]
        for entry in sorted(os.scandir(self._image), key=lambda entry: entry.name) if self._is_host else ():
            if entry.name in OWN_DIRECTORIES:
                continue
            if entry.is_symlink():
                options += ["--symlink", os.readlink(entry.path), f"/{entry.name}"]
            else:
                options += ["--ro-bind-try", entry.path, f"/{entry.name}"]
        for number, directory in enumerate(sorted(self._overlays)):
            options += ["--bind", f"{self._sandbox.layers}/{number}/merged", directory]
        return options

    def volumes(self) -> list[str]:
        """Return bubblewrap's options for the volumes and the files of the kubelet."""
        options: list[str] = []
        for mount in self._mounts:
            options += ["--ro-bind" if mount.read_only else "--bind", str(mount.source), mount.target]
        if self._sandbox.read_only:
            options += ["--remount-ro", "/", *(o for path in self._overlays for o in ("--remount-ro", path))]
        return options


def _escaped(path: str) -> str:
    """Return a path as a value of mount's options."""
    return path.replace("\\", "\\\\").replace(",", "\\,").replace(":", "\\:")


INSTALL: Final = "install the package bubblewrap"
_TRY: Final = ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--ro-bind", "/", "/", "--dev", "/dev")
TIMEOUT_S: Final = 20.0


class RuntimeUnavailable(Exception):
    """Pods cannot run as processes here; the message says why, and what to do."""


def find_tools() -> Tools:
    """Return how containers can be run on this machine.  Raises ``RuntimeUnavailable``."""
    missing = [tool for tool in ("unshare", "nsenter", "mount") if shutil.which(tool) is None]
    if missing:
        raise RuntimeUnavailable(f"{' and '.join(missing)} not found (install the package util-linux)")
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return _find_tools_without_bubblewrap()
    program = os.path.realpath(bwrap)
    problem = _problem([program, *_TRY, "--proc", "/proc", "--", "true"])
    if not problem:
        return Tools(program, own_proc=True)
    if not _problem([program, *_TRY, "--ro-bind", "/proc", "/proc", "--", "true"]):
        return Tools(program, own_proc=False)
    raise RuntimeUnavailable(f"bubblewrap cannot make a sandbox here: {problem}")


def _find_tools_without_bubblewrap() -> Tools:
    processes = [tool_path("unshare"), "--pid", "--fork", "--ipc", "--uts"]
    if not _problem([*processes, "--mount-proc", "--", "true"]):
        return Tools("", own_proc=True)
    if problem := _problem([*processes, "--", "true"]):
        raise RuntimeUnavailable(f"bubblewrap not found ({INSTALL}), and unshare fails: {problem}")
    return Tools("", own_proc=False)


def _problem(arguments: list[str]) -> str:
    """Return why a program cannot run in the namespaces of a node, or an empty string."""
    problem = ""
    for options in ATTEMPTS if os.geteuid() == 0 else ATTEMPTS[1:]:
        unshare = [tool_path("unshare"), *options, "--mount", "--"]
        try:
            result = subprocess.run(
                [*unshare, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if result.returncode == 0:
            return ""
        problem = result.stderr.strip() or f"exit code {result.returncode}"
    return problem
