"""Scripts with options in comments: ``#QUORATE`` options of ``quorate submit``, ``#SBATCH`` Slurm's."""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from quorate.submission.request import InvalidRequest

MAX_BYTES: Final = 100_000  # the kernel starts no program with an argument above 128 KiB
_SHELLS: Final = ("sh", "bash", "dash", "ash", "zsh", "ksh")
_PYTHONS: Final = ("python", "python2", "python3")


class Script(msgspec.Struct, frozen=True):
    command: tuple[str, ...]  # that runs the text of the script; arguments may follow
    options: tuple[str, ...]  # of ``quorate submit``
    ignored: tuple[str, ...]  # options of Slurm without a meaning here


def read_script(name: str, text: str) -> Script:
    """Return how to run the script ``text``, and the options in the comments before its first command.

    Raises ``InvalidRequest``.
    """
    if len(text.encode()) > MAX_BYTES:
        raise InvalidRequest(f"{name}: is above {MAX_BYTES} bytes (put it into the image)")
    options: list[str] = []
    ignored: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            break
        mark, *written = line.split(maxsplit=1) or [""]
        if mark not in ("#QUORATE", "#SBATCH"):
            continue
        try:
            words = shlex.split("".join(written), comments=True)
        except ValueError as error:
            raise InvalidRequest(f"{name}:{number}: {error}") from error
        if mark == "#QUORATE":
            options += words
            continue
        for slurm, value in _slurm_options(words):
            translated = _TRANSLATED.get(_LONG.get(slurm, slurm))
            if translated is None:
                ignored.append(slurm)
            else:
                options += translated(value)
    return Script(_command(name, text), tuple(options), tuple(ignored))


def _command(name: str, text: str) -> tuple[str, ...]:
    """Return the command that runs ``text`` by the program that its first line names."""
    first = text.partition("\n")[0]
    words = first[2:].split() if first.startswith("#!") else ["/bin/sh"]
    program = words[1:] if words and words[0].endswith("/env") else words
    program_name = program[0].rpartition("/")[2] if program else ""
    if program_name in _SHELLS:
        return (*words, "-c", text, name)  # the first argument of a shell is the name of what it runs
    if program_name in _PYTHONS:
        return (*words, "-c", text)
    raise InvalidRequest(
        f"{name}:1: {first!r:.80} names no shell and no Python (put the script into the image, "
        "and name its path after --)"
    )


def _slurm_options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield names and values of ``--nodes=2``, ``--nodes 2``, ``-N 2`` and ``-N2``."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word.startswith("--"):
            name, has_value, value = word.partition("=")
        else:
            name, value = word[:2], word[2:]
            has_value = value
        if not has_value and rest and not rest[0].startswith("-"):
            value = rest.pop(0)
        yield name, value


def _as(option: str) -> Callable[[str], list[str]]:
    return lambda value: [f"{option}={value}"]


def _gpus(value: str) -> list[str]:
    """Return the option for ``8`` or ``a100:8``."""
    return [f"--gpus={value.rpartition(':')[2]}"]


def _generic(value: str) -> list[str]:
    """Return the option for generic resources: ``gpu:8`` or ``gpu:a100:8``; none for others than GPUs."""
    kind, _, amount = value.partition(":")
    return _gpus(amount or "1") if kind == "gpu" else []


_LONG: Final[Mapping[str, str]] = {
    "-J": "--job-name", "-N": "--nodes", "-c": "--cpus-per-task", "-t": "--time", "-a": "--array",
    "-p": "--partition",
}  # fmt: skip
# Slurm's options that have the same meaning, as options of ``quorate submit``.
_TRANSLATED: Final[Mapping[str, Callable[[str], list[str]]]] = {
    "--job-name": lambda value: [f"--name={value.lower().replace('_', '-')}"],
    "--nodes": _as("--nodes"),
    "--cpus-per-task": _as("--cpus"),
    "--mem": _as("--mem"),
    "--time": _as("--time"),
    "--array": _as("--array"),
    "--partition": _as("--queue"),
    "--gpus-per-node": _gpus,
    "--gres": _generic,
}
