"""What a user asks for with ``quorate submit``: one command, and the pods that run it."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from quorate.api.quantity import InvalidQuantity, parse_quantity
from quorate.api.syntax import INT32_MAX, InvalidDuration, is_dns_label, is_qualified_name, parse_duration

DEFAULT_IMAGE: Final = "python:3-slim"
GPU: Final = "nvidia.com/gpu"
MAX_JOB_NAME: Final = 52  # a pod is named <job>-<index of at most 4 digits>-<5 characters>, in at most 63
MAX_PODS: Final = 10_000  # of one job; more need many jobs
_NAME_OF_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_ARRAY: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?(?:%(\d{1,9}))?", re.ASCII)
_SLURM_TIME: Final = re.compile(r"(?:(\d{1,6})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?", re.ASCII)
_SLURM_UNITS: Final = {"K": "Ki", "M": "Mi", "G": "Gi", "T": "Ti", "": "Mi"}  # units of 1024, as in Slurm


class InvalidRequest(ValueError):
    """An option has a value that cannot be; the text names the option, the value and what would do."""


class Array(msgspec.Struct, frozen=True):
    """Tasks with the numbers ``first``, ``first + step``, …; ``at_once`` of them run at the same time."""

    first: int
    step: int
    count: int
    at_once: int


_OPTIONS: Final = {"cpu": "--cpus ", "memory": "--mem ", GPU: "--gpus "}


class JobRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One command on ``pods`` pods that start together, or as the tasks of an array.

    Amounts are those of each pod, as quantities of Kubernetes.
    """

    name: str
    command: tuple[str, ...]
    image: str = DEFAULT_IMAGE
    local_queue: str = ""
    volcano_queue: str = ""  # of a gang
    pods: int = 1
    min_pods: int | None = None  # starts with so few; None: with all only
    cpus: str = "1"
    memory: str = ""
    gpus: int = 0
    resources: Mapping[str, str] = {}  # further ones, by name
    environment: Mapping[str, str] = {}
    array: Array | None = None
    time_limit_s: int | None = None  # after its admission
    priority_class: str = ""  # a WorkloadPriorityClass
    retries: int = 0  # of failed pods
    gang: bool = False  # a Volcano Job

    @property
    def amounts(self) -> dict[str, str]:
        """The requests of each pod, by resource."""
        named = {"cpu": self.cpus, "memory": self.memory, GPU: str(self.gpus) if self.gpus else ""}
        return {name: amount for name, amount in named.items() if amount} | dict(self.resources)


def check(request: JobRequest) -> None:
    """Raise ``InvalidRequest`` for the first option that cannot be."""
    problem = next(_problems(request), None)
    if problem is not None:
        raise InvalidRequest(problem)


def _problems(request: JobRequest) -> Iterator[str]:
    if not request.command or not request.command[0]:
        yield "there is no command to run (write it after --, or name a script)"
    if not is_dns_label(request.name) or len(request.name) > MAX_JOB_NAME:
        yield (
            f"--name {request.name}: is no name of a job "
            f"(at most {MAX_JOB_NAME} of a-z, 0-9 and -, with a letter or digit first and last)"
        )
    if request.pods > 1 and request.name[0].isdigit():
        yield f"--name {request.name}: must begin with a letter, as the Service of its pods does"
    if not 1 <= request.pods <= MAX_PODS:
        yield f"--nodes {request.pods}: is no number of pods (from 1 to {MAX_PODS})"
    if request.min_pods is not None and not 1 <= request.min_pods <= request.pods:
        yield f"--min-pods {request.min_pods}: must be from 1 to {request.pods}, which is --nodes"
    if request.array is not None and (request.pods > 1 or request.min_pods is not None or request.gang):
        yield "--array: its tasks run apart, each on one pod (drop --nodes, --min-pods and --gang)"
    if request.gang and request.time_limit_s is not None and not request.local_queue:
        yield "--time: a gang outside the queues of quota has no time limit (name a local queue with -q)"
    for name, amount in request.amounts.items():
        option = _OPTIONS.get(name, f"--request {name}=")
        try:
            quantity = parse_quantity(amount)
        except InvalidQuantity:
            yield f"{option}{amount}: is no quantity (write 2, 500m or 16Gi)"
            continue
        if quantity.nanos <= 0:
            yield f"{option}{amount}: must be above 0"
    for name in request.resources:
        if not is_qualified_name(name):
            yield f"--request {name}: is no name of a resource (such as nvidia.com/gpu)"
    for name in request.environment:
        if _NAME_OF_VARIABLE.fullmatch(name) is None:
            yield f"--env {name}: is no name of a variable (letters, digits and _, with no digit first)"


def parse_array(text: str) -> Array:
    """Return the tasks of ``1-20``, ``0-9:2`` or ``1-100%5`` as in Slurm.  Raises ``InvalidRequest``."""
    match = _ARRAY.fullmatch(text)
    if match is None:
        raise InvalidRequest(f"--array {text}: is no range (write 1-20, 0-9:2 or 1-100%5)")
    first, last, step, at_once = (None if group is None else int(group) for group in match.groups())
    assert first is not None, "the pattern needs it"
    last, step = first if last is None else last, 1 if step is None else step
    if last < first or step < 1 or at_once == 0:
        raise InvalidRequest(
            f"--array {text}: is empty (write the lower number first, and no 0 after : or %)"
        )
    count = (last - first) // step + 1
    if count > MAX_PODS:
        raise InvalidRequest(f"--array {text}: has {count} tasks (at most {MAX_PODS})")
    return Array(first, step, count, min(count, at_once or count))


def parse_memory(text: str) -> str:
    """Return the quantity of ``text``: ``16G`` means 16Gi, as in Slurm, and ``16Gi`` means itself.

    A number alone is in MiB, as in Slurm.
    """
    number, unit = text.rstrip("BKMGTbkmgt"), text.lstrip("0123456789.").upper().removesuffix("B")
    return f"{number}{_SLURM_UNITS[unit]}" if number and unit in _SLURM_UNITS else text


def parse_time(text: str) -> int:
    """Return the seconds of ``2h`` or ``1h30m``, or of Slurm's ``M``, ``M:S``, ``H:M:S``, ``D-H:M:S``.

    Raises ``InvalidRequest``.
    """
    if (match := _SLURM_TIME.fullmatch(text)) is not None:
        days, first, second, third = (int(group or 0) for group in match.groups())
        if match[1] is not None:  # D-H, D-H:M, D-H:M:S
            hours, minutes, seconds = days * 24 + first, second, third
        elif match[4] is not None:
            hours, minutes, seconds = first, second, third
        else:
            hours, minutes, seconds = 0, first, second
        total = float(hours * 3600 + minutes * 60 + seconds)
    else:
        try:
            total = parse_duration(text)
        except InvalidDuration as error:
            raise InvalidRequest(
                f"--time {text}: is no duration (write 2h, 1h30m, 02:00:00 or 1-12:00:00)"
            ) from error
    if not 1 <= total <= INT32_MAX:
        raise InvalidRequest(f"--time {text}: must be from 1 second to {INT32_MAX} seconds")
    return int(total)
