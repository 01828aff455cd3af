"""What Spark requests for the driver and the executors of a SparkApplication, and how many executors.

The operator passes ``spec.sparkConf`` to ``spark-submit`` and then a property for each of its own fields, so
that a field takes precedence over the property.  ``spec.memoryOverheadFactor`` is passed first, so that the
property takes precedence.  Defaults and formulas are those of Spark ("Running Spark on Kubernetes").
"""

import re
from fractions import Fraction
from typing import Final

from quorate.api.field_path import InvalidTemplate, Path, look_up, read_count, read_field
from quorate.api.quantity import InvalidQuantity, parse_quantity
from quorate.kube.resources import Json

DRIVER: Final[Path] = ("spec", "driver")
EXECUTOR: Final[Path] = ("spec", "executor")
DYNAMIC: Final[Path] = ("spec", "dynamicAllocation")
_PROPERTIES: Final[Path] = ("spec", "sparkConf")
_INSTANCES: Final = 2  # Spark's default; the operator's webhook writes 1
_CORES: Final = 1
_MEMORY: Final = "1g"
_JAVA_MEMORY: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)([bkmgtp]?)b?", re.IGNORECASE)
_JAVA_UNITS: Final = {"b": "", "k": "Ki", "": "Mi", "m": "Mi", "g": "Gi", "t": "Ti", "p": "Pi"}
_FACTOR: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_MEBIBYTE: Final = 2**20
_LEAST_OVERHEAD_MIB: Final = 384
_OVERHEAD_FACTOR: Final = Fraction(1, 10)
_OVERHEAD_FACTOR_OUTSIDE_JVM: Final = Fraction(4, 10)  # of applications in Python or R


def properties_below(document: Json, prefix: str) -> dict[str, str]:
    """Return the properties of ``spec.sparkConf`` that begin with ``prefix``, without it."""
    properties = read_field(document, _PROPERTIES, dict, {})
    return {
        name.removeprefix(prefix): _property(document, name)[1]
        for name in properties
        if name.startswith(prefix)
    }


def least_executors(document: Json) -> int:
    """Return how many executors run at least once all have started; Spark ends idle ones."""
    stated = _instances(document)
    return _dynamic_count(document, "minExecutors", stated) if _is_dynamic(document) else stated


def most_executors(document: Json) -> int:
    """Return how many executors may run at once.  Raises ``InvalidTemplate`` if there is no limit."""
    stated = _instances(document)
    if not _is_dynamic(document):
        return stated
    first = max(stated, *(_dynamic_count(document, name, 0) for name in ("initialExecutors", "minExecutors")))
    limit = _dynamic_count(document, "maxExecutors", -1)
    if limit < 0:
        rule = "is missing: quota is needed for all executors that may run at once"
        raise InvalidTemplate((*DYNAMIC, "maxExecutors"), rule)
    return max(first, limit)


def resources(document: Json, path: Path) -> Json:
    """Return the requests and limits that Spark and the operator set for the role at ``path``.

    Raises ``InvalidTemplate`` for an amount that is none.
    """
    role = path[-1]
    _, cores = _setting(document, (*path, "coreRequest"), f"spark.kubernetes.{role}.request.cores")
    cores = cores or str(_count(document, (*path, "cores"), f"spark.{role}.cores", _CORES))
    _, limit = _setting(document, (*path, "coreLimit"), f"spark.kubernetes.{role}.limit.cores")
    limits = {
        "cpu": limit,
        "memory": _memory(read_field(document, (*path, "memoryLimit"), str, "")),
        **_devices(document, f"spark.{role}.resource."),
    }
    gpu = read_field(document, (*path, "gpu", "name"), str, "")
    quantity = read_field(document, (*path, "gpu", "quantity"), int, 0)
    if gpu and quantity > 0:
        limits[gpu] = str(quantity)
    requests = {"cpu": cores, "memory": f"{_memory_mib(document, path)}Mi"}
    stated = {name: amount for name, amount in limits.items() if amount}
    return {"requests": requests, "limits": stated} if stated else {"requests": requests}


def _devices(document: Json, prefix: str) -> dict[str, str]:
    properties = properties_below(document, prefix)
    return {
        f"{vendor}/{name.removesuffix('.vendor')}": properties.get(name.removesuffix("vendor") + "amount", "")
        for name, vendor in properties.items()
        if name.endswith(".vendor")
    }


def _memory_mib(document: Json, path: Path) -> int:
    """Return the memory that Spark requests for a pod, in whole MiB, with what it adds for other uses."""
    role = path[-1]
    memory = _mebibytes(*_setting(document, (*path, "memory"), f"spark.{role}.memory"), _MEMORY)
    source, overhead = _setting(document, (*path, "memoryOverhead"), f"spark.{role}.memoryOverhead")
    if overhead:
        memory += _mebibytes(source, overhead)
    else:
        least = _mebibytes(*_property(document, f"spark.{role}.minMemoryOverhead"), "0")
        part = int(memory * _overhead_factor(document, role))
        memory += max(part, least, _LEAST_OVERHEAD_MIB)
    if path == EXECUTOR:
        memory += _outside_heap_mib(document)
    return memory


def _outside_heap_mib(document: Json) -> int:
    memory = 0
    if _property(document, "spark.memory.offHeap.enabled")[1].lower() == "true":
        source, size = _property(document, "spark.memory.offHeap.size")
        memory += _mebibytes(source, f"{size}b" if size.isdecimal() else size, "0")
    if _language(document) == "Python":
        memory += _mebibytes(*_property(document, "spark.executor.pyspark.memory"), "0")
    return memory


def _memory(text: str) -> str:
    """Convert Java's notation, in which ``512m`` and ``512`` mean 512 MiB, to that of Kubernetes."""
    parsed = _JAVA_MEMORY.fullmatch(text)
    return text if parsed is None else parsed[1] + _JAVA_UNITS[parsed[2].lower()]


def _mebibytes(path: Path, text: str, default: str = "") -> int:
    try:
        return parse_quantity(_memory(text or default)).units // _MEBIBYTE
    except InvalidQuantity as invalid:
        raise InvalidTemplate(path, str(invalid)) from invalid


def _overhead_factor(document: Json, role: str | int) -> Fraction:
    settings = (
        _property(document, f"spark.{role}.memoryOverheadFactor"),
        _property(document, "spark.kubernetes.memoryOverheadFactor"),
        _setting(document, ("spec", "memoryOverheadFactor")),
    )
    path, text = next((setting for setting in settings if setting[1]), ((), ""))
    if not text:
        return _OVERHEAD_FACTOR_OUTSIDE_JVM if _language(document) in ("Python", "R") else _OVERHEAD_FACTOR
    if _FACTOR.fullmatch(text) is None:
        raise InvalidTemplate(path, f"is {text!r}, not a decimal number such as 0.1")
    return Fraction(text)


def _language(document: Json) -> str:
    """Return the language by the ending of the file, as Spark, or by the type if there is no file."""
    file = read_field(document, ("spec", "mainApplicationFile"), str, "")
    if not file:
        return read_field(document, ("spec", "type"), str, "")
    return {"py": "Python", "R": "R"}.get(file.rpartition(".")[2], "")


def _is_dynamic(document: Json) -> bool:
    enabled = _property(document, "spark.dynamicAllocation.enabled")[1].lower() == "true"
    return enabled or look_up(document, (*DYNAMIC, "enabled")) is True


def _instances(document: Json) -> int:
    default = 0 if _is_dynamic(document) else _INSTANCES
    return _count(document, (*EXECUTOR, "instances"), "spark.executor.instances", default)


def _dynamic_count(document: Json, name: str, default: int) -> int:
    """Return a count of dynamic allocation; the operator passes its fields only if they enable it."""
    field: Path = (*DYNAMIC, name) if look_up(document, (*DYNAMIC, "enabled")) is True else ()
    return _count(document, field, f"spark.dynamicAllocation.{name}", default)


def _count(document: Json, field: Path, name: str, default: int) -> int:
    if field and look_up(document, field) is not None:
        return read_count(document, field)
    path, text = _property(document, name)
    if text and _NUMBER.fullmatch(text) is None:
        raise InvalidTemplate(path, f"is {text!r}, must be a whole number")
    return int(text or default)


def _setting(document: Json, field: Path, name: str = "") -> tuple[Path, str]:
    """Return the text of a field or else of a property, and where it is; empty if neither is stated."""
    text = read_field(document, field, str, "")
    return (field, text) if text or not name else _property(document, name)


def _property(document: Json, name: str) -> tuple[Path, str]:
    path: Path = (*_PROPERTIES, name)
    return path, read_field(document, path, str, "")
