"""Run a file of test vectors and print the results: ``make vectors CASES=FILE``.

The top-level key of the vectors selects the schema.  A vector with the key ``skip``, a reason, is not run.
Exit status 1: a vector failed;
2: the file cannot be read or contains no vectors.
"""

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.gang.vectors import run_case
from tests.queueing.vectors import run_vector

DEFAULT = Path(__file__).parent / "queueing" / "admission-cases.yaml"

Vector = dict[str, Any]


class Schema(NamedTuple):
    """One schema of vectors."""

    fields: tuple[str, ...]  # required fields of a vector
    category: str  # the field with the part of the schema that a vector tests
    run: Callable[[Vector, Vector], list[str]]  # returns the differences of a vector; empty: passed


SCHEMAS: Mapping[str, Schema] = {
    "vectors": Schema(("id", "area", "given", "expected"), "area", lambda vector, file: run_vector(vector)),
    "cases": Schema(
        ("id", "kind", "given"),
        "kind",
        lambda case, file: run_case(case, file.get("confs", {})),
    ),
}


class InvalidVectorFile(Exception):
    """The file contains no vectors of a known schema."""


def read(path: Path) -> tuple[Schema, Vector, list[Vector]]:
    """Return the schema of a file, its content and its vectors."""
    try:
        content = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
    except OSError as error:
        raise InvalidVectorFile(f"{path}: {error.strerror or error}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidVectorFile(f"{path}: is not YAML: {' '.join(str(error).split())}") from error
    known = [key for key in SCHEMAS if isinstance(content, dict) and isinstance(content.get(key), list)]
    if not known:
        raise InvalidVectorFile(f"{path}: holds no vectors (a list under the key {' or '.join(SCHEMAS)})")
    schema, vectors = SCHEMAS[known[0]], content[known[0]]
    for index, vector in enumerate(vectors):
        missing = [field for field in schema.fields if not isinstance(vector, dict) or field not in vector]
        if missing:
            raise InvalidVectorFile(f"{path}: {known[0]}[{index}] lacks {', '.join(missing)}")
    return schema, content, vectors


def outcome(schema: Schema, vector: Vector, file: Vector) -> tuple[str, list[str]]:
    """Return passed, failed or skipped, and the remarks about the vector."""
    if "skip" in vector:
        return "skipped", [str(vector["skip"])]
    try:
        differences = schema.run(vector, file)
    except Exception as error:  # a vector that raises fails; the next vectors run
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        assert trace is not None
        place = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
        differences = [f"raised {type(error).__name__}: {error} ({place})"]
    return ("failed" if differences else "passed"), differences


def main(arguments: list[str]) -> int:
    try:
        schema, file, vectors = read(Path(arguments[0]) if arguments else DEFAULT)
    except InvalidVectorFile as error:
        print(error, file=sys.stderr)
        return 2
    counts: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    for vector in vectors:
        result, remarks = outcome(schema, vector, file)
        counts[result] += 1
        if result == "failed":
            print(f"FAILED {vector['id']} ({vector[schema.category]}): {vector.get('title', '')}")
            print(*(f"    {remark}" for remark in remarks), sep="\n")
        elif result == "skipped":
            skipped[f"{schema.category} {vector[schema.category]}: {remarks[0]}"] += 1
    for why, count in skipped.items():
        print(f"skipped {count} of {why}")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
