"""YAML documents decoded to JSON as Kubernetes decodes them, with the line of every value.

Differences from a plain YAML library:

- a duplicate key is reported instead of overwriting the first value;
- dates and ``1:30`` are text, because JSON has neither;
- keys must be text (``8080: x`` and ``true: x`` are rejected);
- nesting and aliases are limited, so that a short hostile text cannot become a large object.
"""

from typing import Any, Final

import msgspec
import yaml

from quorate.api.findings import Finding, child_path

_MAX_DEPTH: Final = 100
_MAX_VALUES: Final = 200_000
_STANDARD: Final = "tag:yaml.org,2002:"

SUFFIXES: Final = (".yaml", ".yml", ".json")  # of files with documents


class InvalidYaml(ValueError):
    """The text is not YAML, or not representable as JSON."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(line, problem)
        self.line, self.problem = line, problem

    def __str__(self) -> str:
        return f"line {self.line}: {self.problem}"


class Document(msgspec.Struct, frozen=True):
    """One YAML document: its JSON ``value``, the line of each path, and duplicate keys."""

    value: Any
    lines: dict[str, int]
    findings: tuple[Finding, ...]

    def line_of(self, path: str) -> int:
        """Return the line of ``path``, or of its nearest existing ancestor."""
        while path not in self.lines:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self.lines[path]


def read_documents(written: str | bytes) -> list[Document]:
    """Decode the documents of a text, without empty ones.  Raises ``InvalidYaml``."""
    try:
        text = written if isinstance(written, str) else written.decode()
    except UnicodeDecodeError as error:
        raise InvalidYaml(1, f"byte {error.start} is not UTF-8 (save the file as UTF-8)") from error
    loader = yaml.CSafeLoader(text)
    documents = []
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is not None:
                context = _DocumentBuilder(loader)
                value = context.value(node, "", 0)
                documents.append(Document(value, context.lines, tuple(context.findings)))
    except yaml.MarkedYAMLError as error:
        raise _invalid_yaml(error, text) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise InvalidYaml(line, f"character {error.character!r} is not allowed in YAML") from error
    finally:
        loader.dispose()
    return [document for document in documents if document.value is not None]


def _invalid_yaml(error: yaml.MarkedYAMLError, text: str) -> InvalidYaml:
    last = text.count("\n", 0, len(text.rstrip())) + 1
    line = min(error.problem_mark.line + 1 if error.problem_mark else 1, last)
    problem = error.problem or "is not YAML"
    if error.problem_mark and text.split("\n")[line - 1].startswith("\t", error.problem_mark.column):
        return InvalidYaml(line, "contains a tab where YAML requires spaces")
    if error.context_mark and (start := error.context_mark.line + 1) < line:
        problem += f" {error.context} that starts in line {start}"
    return InvalidYaml(line, problem)


class _DocumentBuilder:
    """Builds one document from YAML nodes."""

    def __init__(self, loader: yaml.CSafeLoader) -> None:
        self._loader = loader
        self._values = 0
        self.lines: dict[str, int] = {}
        self.findings: list[Finding] = []

    def value(self, node: yaml.Node, path: str, depth: int) -> Any:
        line = node.start_mark.line + 1
        self._values += 1
        if depth > _MAX_DEPTH:
            raise InvalidYaml(line, f"is nested deeper than {_MAX_DEPTH} levels")
        if self._values > _MAX_VALUES:
            raise InvalidYaml(line, f"contains more than {_MAX_VALUES} values once its aliases are expanded")
        self.lines[path] = line
        match node:
            case yaml.MappingNode():
                return self._mapping(node, path, depth)
            case yaml.SequenceNode():
                return [
                    self.value(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(node.value)
                ]
            case yaml.ScalarNode():
                return self._scalar(node)
            case _:
                raise AssertionError(node)

    def _mapping(self, node: yaml.MappingNode, path: str, depth: int) -> dict[str, Any]:
        self._find_duplicates(node, path)
        self._loader.flatten_mapping(node)  # values merged by `<<` come before the node's own keys
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = _key(key_node)
            field = child_path(path, key)
            result[key] = self.value(value_node, field, depth + 1)
            self.lines[field] = key_node.start_mark.line + 1
        return result

    def _find_duplicates(self, node: yaml.MappingNode, path: str) -> None:
        first: dict[str, int] = {}
        for key_node, _ in node.value:
            if key_node.tag == f"{_STANDARD}merge":
                continue
            key, line = _key(key_node), key_node.start_mark.line + 1
            if key in first:
                rule = f"is given twice, first in line {first[key]} (keep one of them)"
                self.findings.append(Finding(path, key, rule, line))
            first.setdefault(key, line)

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        tag = node.tag.removeprefix(_STANDARD)
        if tag == "null":
            return None
        if tag in ("str", "timestamp", "value") or (tag in ("int", "float") and ":" in node.value):
            return node.value
        if tag not in _SCALARS:
            raise InvalidYaml(node.start_mark.line + 1, f"tag {tag!r} has no meaning here")
        try:
            return _SCALARS[tag](self._loader, node)
        except (ValueError, KeyError) as error:
            raise InvalidYaml(
                node.start_mark.line + 1, f"{node.value[:40]!r} is not a valid {tag}"
            ) from error


_SCALARS: Final = {
    "bool": yaml.CSafeLoader.construct_yaml_bool,
    "int": yaml.CSafeLoader.construct_yaml_int,
    "float": yaml.CSafeLoader.construct_yaml_float,
}


def _key(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode) and node.tag in (f"{_STANDARD}str", f"{_STANDARD}merge"):
        return str(node.value)
    raise InvalidYaml(node.start_mark.line + 1, "a key must be text (put it in quotes)")
