"""Hostile values, by the type of the field that takes them.

Most of them are stored by an API server, which checks formats and not sense; the rest must be refused.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

INT32: Final = 2**31
INT64: Final = 2**63

QUANTITIES: Final[Sequence[Any]] = (
    "0", "1", "1n", "-1", "-0", "0.000000001", "1E310", "1e400", "1e-400", "1E99999999", "9999999999Ei",
    "1.5Gi",
    str(INT64 - 1), str(INT64), str(-INT64 - 1), "1" * 400, "0." + "9" * 400, "+1", "1e3", "100m", "NaN",
    "Inf",
    "-Infinity", "1e", ".", "", " 1", "1 ", "٣", "0x10", "1_000", 4, 0.1, -1, INT64 * 2, 1e300,
)  # fmt: skip
INTEGERS: Final[Sequence[Any]] = (
    0, 1, -1, 2, 100, 100_000, INT32 - 1, INT32, -INT32, -INT32 - 1, INT64 - 1, INT64, -INT64, -INT64 - 1,
    INT64 * INT64, 1.5, 1e18, 1e300, -0.0,
)  # fmt: skip
NUMBERS: Final[Sequence[Any]] = (*INTEGERS, 0.1, 5e-324, 1.7976931348623157e308, float("nan"), float("inf"))
INTS_OR_STRINGS: Final[Sequence[Any]] = (
    0, -1, INT32 - 1, INT64, "0%", "50%", "100%", "-1%", "99999999999999999999%", "half", "",
)  # fmt: skip
BOOLEANS: Final[Sequence[Any]] = (True, False)
TIMES: Final[Sequence[Any]] = (
    "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "1970-01-01T00:00:00Z", "2026-01-01T00:00:00+23:59",
    "2026-02-30T00:00:00Z", "2026-01-01T00:00:60Z", "2026-01-01T00:00:00.999999999Z", "0000-01-01T00:00:00Z",
    "2026-01-01T00:00:00-00:00", "10000-01-01T00:00:00Z", "yesterday", "", None,
)  # fmt: skip
DURATIONS: Final[Sequence[Any]] = (
    "0s", "-1h", "1ns", "2562047h47m16.854775807s", "9999999999999h", "1", "5 m", "",
)  # fmt: skip
NAMES: Final[Sequence[Any]] = (
    "a", "default", "fuzz", "queue", "main", "missing", "a" * 63, "a" * 64, "a." * 126 + "a", "a" * 254,
    "A", "-",
    "..", "a/b", "a b", "größe", "\u202eright-to-left", "a\u0301\u0327" * 20, "\x00", "\ud800", "😀",
    "%2e%2e", "",
    "kubernetes.io/x", "null", "true", "0",
)  # fmt: skip
TEXTS: Final[Sequence[Any]] = (
    *NAMES, "x" * 10_000, "\n" * 100, "{{.}}", "$(VARIABLE)", '{"a":', "\u200b\ufeff", "\U0010ffff",
    "\u202e", "'", "\\",
    "1e999", "-1", *DURATIONS, *TIMES[:4], "Always", "Never", "Exists", "In", "Gt", "NoSchedule",
)  # fmt: skip
KEYS: Final[Sequence[str]] = (
    "a", "a" * 63, "a" * 64, "example.com/" + "k" * 63, "a" * 253 + "/k", "/", "a/b/c", "", "ключ",
    "kubernetes.io/x",
    "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/priority-class",
    "kueue.x-k8s.io/prebuilt-workload-name", "kueue.x-k8s.io/max-exec-time-seconds", "kueue.x-k8s.io/managed",
    "kubernetes.io/hostname", "topology.kubernetes.io/zone", "scheduling.k8s.io/group-name",
    "volcano.sh/queue-name", "volcano.sh/job-name", "volcano.sh/task-spec",
)  # fmt: skip
RESOURCES: Final[Sequence[str]] = (
    "cpu", "memory", "pods", "ephemeral-storage", "nvidia.com/gpu", "hugepages-2Mi",
    "example.com/" + "r" * 63,
    "requests.cpu", "count/jobs.batch", "CPU", "", "attachable-volumes-csi-x", "ресурс",
)  # fmt: skip
ANYTHING: Final[Sequence[Any]] = (
    None, {}, [], [[]], [None], {"": None}, [{}] * 1000, "text", True, 0, *INTEGERS[6:12], *QUANTITIES[4:9],
)  # fmt: skip

BY_TYPE: Final[Mapping[str, Sequence[Any]]] = {
    "quantity": QUANTITIES,
    "integer": INTEGERS,
    "number": NUMBERS,
    "int-or-string": INTS_OR_STRINGS,
    "boolean": BOOLEANS,
    "time": TIMES,
    "string": TEXTS,
    "any": ANYTHING,
}
ANNOTATIONS: Final[Mapping[str, Sequence[Any]]] = {
    "kueue.x-k8s.io/pod-group-total-count": ("0", "-4", str(INT64 * 5), "many", "9" * 5000, "2"),
    "kueue.x-k8s.io/pod-group-fast-admission": ("true", "maybe"),
    "kueue.x-k8s.io/job-min-parallelism": ("0", "-1", str(INT64 * 9), "٣", "1e3", "1"),
    "kueue.x-k8s.io/job-completions-equal-parallelism": ("true", "TRUE", ""),
    "kueue.x-k8s.io/podset-required-topology": NAMES,
    "kueue.x-k8s.io/podset-preferred-topology": NAMES,
    "kueue.x-k8s.io/podset-slice-size": ("0", "-1", str(INT64), "x"),
    "kueue.x-k8s.io/elastic-job": ("true", "x"),
    "kueue.x-k8s.io/priority-boost": ("1", "-1", str(INT64), "9" * 5000, "x"),
    "kueue.x-k8s.io/admission-gated-by": ("example.com/x", ",,,", "\u202e"),
    "kueue.x-k8s.io/retriable-in-group": ("false", "x"),
    "kueue.x-k8s.io/safe-to-forcefully-delete": ("true", "x"),
    "kueue.x-k8s.io/role-hash": TEXTS,
    "quorate.dev/pods-ready-timeout": DURATIONS,
    "quorate.dev/pods-recovery-timeout": DURATIONS,
    "quorate.dev/pods-scheduling-timeout": DURATIONS,
    "scheduling.k8s.io/group-name": NAMES,
    "scheduling.volcano.sh/queue-name": NAMES,
    "volcano.sh/preemptable": ("true", "false", "x"),
    "volcano.sh/cooldown-time": DURATIONS,
    "volcano.sh/revocable-zone": ("*", "x"),
    "volcano.sh/jdb-min-available": ("1", "50%", "-1", "x"),
    "volcano.sh/jdb-max-unavailable": ("1", "150%", "-1", "x"),
    "volcano.sh/numa-topology-policy": ("restricted", "x"),
    "volcano.sh/task-topology-affinity": ("a,b;c", ";;;,", "a" * 10_000),
    "simulate.quorate.dev/duration": DURATIONS,
    "simulate.quorate.dev/start-delay": DURATIONS,
    "simulate.quorate.dev/stop-delay": DURATIONS,
    "simulate.quorate.dev/exit-code": ("0", "1", "-1", "256", str(INT64), "x"),
}


def value_for(field: str, type_: str, rng: random.Random) -> Any:
    """Return a hostile value for a field; its name narrows the type ``string``."""
    lower = field.lower()
    if type_ == "string":
        if lower.endswith(("name", "namespace", "ref", "queue", "flavor", "uid", "host")):
            return rng.choice(NAMES)
        if lower.endswith(("key", "label", "topology", "required", "preferred")):
            return rng.choice(KEYS)
        if lower.endswith(("timeout", "duration", "seconds", "time")):
            return rng.choice((*DURATIONS, *TIMES))
    return rng.choice(BY_TYPE[type_])
