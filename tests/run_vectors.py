"""Run a file of test vectors and tell what passed: ``make vectors CASES=FILE``.

The schema of a file is recognised by the key its vectors are under.  Exit status 1: a vector failed;
2: the file cannot be read, or is no such file.
"""

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.queueing.vectors import NOT_BUILT, run_vector

DEFAULT = Path(__file__).parent / "queueing" / "admission-cases.yaml"


class Kind(NamedTuple):
    """One schema of vectors."""

    run: Callable[[dict[str, Any]], list[str]]  # every difference; empty when the vector passes
    skipped: Mapping[str, str]  # areas that are not run, and why


KINDS: Mapping[str, Kind] = {"vectors": Kind(run_vector, NOT_BUILT)}


class NotVectors(Exception):
    """A file that holds no vectors of a known schema."""


def read(path: Path) -> tuple[Kind, list[dict[str, Any]]]:
    try:
        content = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
    except OSError as error:
        raise NotVectors(f"{path}: {error.strerror or error}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise NotVectors(f"{path}: is not YAML: {' '.join(str(error).split())}") from error
    known = [key for key in KINDS if isinstance(content, dict) and isinstance(content.get(key), list)]
    if not known:
        raise NotVectors(f"{path}: holds no vectors (a list under the key {' or '.join(KINDS)})")
    kind, vectors = KINDS[known[0]], content[known[0]]
    for index, vector in enumerate(vectors):
        fields = ("id", "area", "given", "expected")
        missing = [field for field in fields if not isinstance(vector, dict) or field not in vector]
        if missing:
            raise NotVectors(f"{path}: {known[0]}[{index}] lacks {', '.join(missing)}")
    return kind, vectors


def outcome(kind: Kind, vector: dict[str, Any]) -> tuple[str, list[str]]:
    """Passed, failed or skipped, and what there is to say about it."""
    if vector["area"] in kind.skipped:
        return "skipped", [kind.skipped[vector["area"]]]
    try:
        differences = kind.run(vector)
    except Exception as error:  # a vector that cannot be played fails, and the others go on
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        assert trace is not None
        place = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
        differences = [f"raised {type(error).__name__}: {error} ({place})"]
    return ("failed" if differences else "passed"), differences


def main(arguments: list[str]) -> int:
    try:
        kind, vectors = read(Path(arguments[0]) if arguments else DEFAULT)
    except NotVectors as error:
        print(error, file=sys.stderr)
        return 2
    counts: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    for vector in vectors:
        result, remarks = outcome(kind, vector)
        counts[result] += 1
        if result == "failed":
            print(f"FAILED {vector['id']} ({vector['area']}): {vector.get('title', '')}")
            print(*(f"    {remark}" for remark in remarks), sep="\n")
        elif result == "skipped":
            skipped[f"{vector['area']}: {remarks[0]}"] += 1
    for why, count in skipped.items():
        print(f"skipped {count} of area {why}")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
