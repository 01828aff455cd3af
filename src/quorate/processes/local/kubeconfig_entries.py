"""The entries of a local cluster in the kubeconfig of its user: add, update and remove them.

Only the text of these entries changes: comments, order and notation of all others stay.  Before a file is
replaced, its new content is decoded and compared with what was meant.

Files and ``current-context`` are chosen as ``kubectl config`` chooses them: of the files of ``$KUBECONFIG``
the file that has the context, else the first existing file, else the last file; without it
``~/.kube/config``.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from quorate.api.codec import Json
from quorate.inspect.errors import UsageError
from quorate.local.directory import CONTEXT, MERGED, ClusterDirectory

LISTS: Final = ("clusters", "users", "contexts")
_CURRENT: Final = "current-context"


def user_kubeconfigs(environment: Mapping[str, str], own: Path) -> tuple[Path, ...]:
    """Return the kubeconfig files of the user in order, without the cluster's ``own``."""
    listed = [Path(path) for path in environment.get("KUBECONFIG", "").split(os.pathsep) if path]
    others = tuple(path for path in listed if path.absolute() != own.absolute())
    return others or (Path("~/.kube/config").expanduser(),)


def add_context(paths: Sequence[Path], name: str, kubeconfig: Json) -> Path:
    """Add the cluster, user and context of ``kubeconfig`` as ``name``, or replace them.

    Return the file that has them.  Raises ``UsageError``.
    """
    target = _target(paths, name)
    entries = {
        "clusters": {"name": name, "cluster": kubeconfig["clusters"][0]["cluster"]},
        "users": {"name": name, "user": kubeconfig["users"][0]["user"]},
        "contexts": {
            "name": name,
            "context": {**kubeconfig["contexts"][0]["context"], "cluster": name, "user": name},
        },
    }
    with _edited(target) as document:
        for field, entry in entries.items():
            document.put(field, entry)
    return target


def make_current(paths: Sequence[Path], target: Path, name: str) -> None:
    """Make a context current that ``target`` has.  Raises ``UsageError``."""
    # The first file with a current context decides.
    deciding = next((path for path in paths if path.exists() and _decode(path).get(_CURRENT)), target)
    with _edited(deciding) as document:
        document.set_current(name)


def remove_context(paths: Sequence[Path], name: str) -> None:
    """Remove the entries ``name``, and ``current-context`` if it names them.  Raises ``UsageError``."""
    for path in filter(Path.exists, paths):
        with _edited(path) as document:
            for field in LISTS:
                document.remove(field, name)
            if document.content.get(_CURRENT) == name:
                document.set_current("")


def _target(paths: Sequence[Path], name: str) -> Path:
    existing = [path for path in paths if path.exists()]
    for path in existing:
        if any(_is_named(entry, name) for field in LISTS for entry in _decode(path).get(field) or ()):
            return path
    return existing[0] if existing else paths[-1]


def _is_named(entry: object, name: str) -> bool:
    return isinstance(entry, dict) and entry.get("name") == name


def _decode(path: Path) -> Json:
    return _Document(path, path.read_text()).content


@contextmanager
def _edited(path: Path) -> Iterator["_Document"]:
    """Yield the document of a file, and replace the file with its text at the end, under kubectl's lock."""
    target = path.resolve()  # a link stays one
    lock = target.with_name(f"{target.name}.lock")
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError as error:
        raise UsageError(f"{path}: another command changes it now (delete {lock} if none does)") from error
    except OSError as error:
        raise UsageError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    try:
        before = target.read_text() if target.exists() else ""
        document = _Document(path, before)
        yield document
        document.check()
        if document.text != before:
            partial = target.with_name(f".{target.name}.quorate")
            with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.write(document.text)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(target)
    except OSError as error:
        raise UsageError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    finally:
        lock.unlink()


class _Document:
    """The text of a kubeconfig with changes; ``content`` is what it must decode to."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self.text = text if text.endswith("\n") or not text else f"{text}\n"
        try:
            content = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise UsageError(f"{path}: is not YAML, it stays as it is ({error})") from error
        self.content: Json = {"apiVersion": "v1", "kind": "Config"} if content is None else content
        lists = [self.content.get(field) for field in LISTS] if isinstance(self.content, dict) else [0]
        if not all(entries is None or isinstance(entries, list) for entries in lists):
            raise UsageError(f"{path}: is no kubeconfig, it stays as it is (kubectl config view reads it)")
        if content is None:
            self.text += "apiVersion: v1\nkind: Config\n"

    def check(self) -> None:
        """Raise ``UsageError`` if the text does not decode to the content."""
        try:
            is_right = yaml.safe_load(self.text) == self.content
        except yaml.YAMLError:
            is_right = False
        if not is_right:
            raise UsageError(f"{self._path}: cannot be changed in place, it stays as it is (set KUBECONFIG)")

    def put(self, field: str, entry: Json) -> None:
        """Replace the entry with that name, or append it."""
        entries = self.content.get(field) or []
        names = [entry.get("name") if isinstance(entry, dict) else None for entry in entries]
        node = self._value(field)
        if entry["name"] in names:
            at = names.index(entry["name"])
            if entries[at] != entry:
                self._replace_item(node, at, entry)
                self.content[field] = [*entries[:at], entry, *entries[at + 1 :]]
            return
        self.content[field] = [*entries, entry]
        if not entries:
            self._set_field(field, node, "\n" + _block(entry, 0), [entry])
        elif node.flow_style:
            end = node.value[-1].end_mark.index
            self._splice(end, end, f", {json.dumps(entry)}")
        else:
            end = self._end_of_line(_last_leaf(node))
            self._splice(end, end, _block(entry, node.start_mark.column))

    def remove(self, field: str, name: str) -> None:
        """Remove the entry with that name, if there is one."""
        entries = self.content.get(field) or []
        kept = [entry for entry in entries if not _is_named(entry, name)]
        if len(kept) == len(entries):
            return
        node = self._value(field)
        self.content[field] = kept
        if not kept or node.flow_style:
            self._set_field(field, node, f" {json.dumps(kept)}\n", kept)
            return
        for at in reversed(range(len(entries))):
            if _is_named(entries[at], name):
                self._splice(*self._lines_of(node, at), "")

    def set_current(self, name: str) -> None:
        if self.content.get(_CURRENT) != name:
            self._set_field(_CURRENT, self._value(_CURRENT), f" {json.dumps(name)}\n", name)
            self.content[_CURRENT] = name

    def _root(self) -> yaml.MappingNode:
        root = yaml.compose(self.text, Loader=yaml.SafeLoader)
        assert isinstance(root, yaml.MappingNode), "it was decoded to a mapping"
        return root

    def _value(self, field: str) -> Any:
        """Return the node of a top-level field; None if it is absent."""
        root = self._root()
        return next((value for key, value in root.value if key.value == field), None)

    def _set_field(self, field: str, node: Any, block: str, value: object) -> None:
        """Replace the value of a field with ``block``, or with JSON inside of a flow mapping."""
        root = self._root()
        if root.flow_style:
            comma = ", " if root.value else ""
            inserted = f"{comma}{json.dumps(field)}: {json.dumps(value)}"
            end = root.end_mark.index - 1
            self._splice(*((end, end, inserted) if node is None else (*_span(node), json.dumps(value))))
        elif node is None:
            end = self._end_of_line(_last_leaf(root))
            self._splice(end, end, f"{field}:{block}")
        else:
            key = next(key for key, _ in root.value if key.value == field)
            start = self.text.index(":", key.end_mark.index) + 1
            self._splice(start, self._end_of_line(max(_last_leaf(node), start)), block)

    def _replace_item(self, node: Any, at: int, entry: Json) -> None:
        if node.flow_style:
            self._splice(*_span(node.value[at]), json.dumps(entry))
        else:
            self._splice(*self._lines_of(node, at), _block(entry, node.start_mark.column))

    def _lines_of(self, node: Any, at: int) -> tuple[int, int]:
        """Return start and end of the lines of an item in a block list, from its dash."""
        item = node.value[at]
        start = self.text.rindex("-", 0, item.start_mark.index)
        return self.text.rindex("\n", 0, start) + 1, self._end_of_line(_last_leaf(item))

    def _end_of_line(self, index: int) -> int:
        if index and self.text[index - 1] == "\n":
            return index
        return self.text.index("\n", index) + 1

    def _splice(self, start: int, end: int, text: str) -> None:
        self.text = self.text[:start] + text + self.text[end:]


def _block(entry: Json, indent: int) -> str:
    lines = yaml.safe_dump([entry], sort_keys=False).splitlines(keepends=True)
    return "".join(" " * indent + line for line in lines)


def _span(node: Any) -> tuple[int, int]:
    return node.start_mark.index, node.end_mark.index


def _last_leaf(node: Any) -> int:
    """Return the index after the last scalar of a node; a block ends after the comments behind it."""
    if isinstance(node, yaml.ScalarNode) or not node.value or node.flow_style:
        return int(node.end_mark.index)
    last = node.value[-1]
    return _last_leaf(last[1] if isinstance(last, tuple) else last)


def context_name(directory: ClusterDirectory) -> str:
    """Return the name of the context in a merged kubeconfig."""
    return f"quorate-{directory.path.name}"


def _contexts(directory: ClusterDirectory) -> dict[str, str]:
    """Return the names of the contexts in a merged kubeconfig, by that in the cluster's own: its first."""
    own = context_name(directory)
    prefix = "quorate" if own == CONTEXT else own
    return {CONTEXT: own} | {
        f"quorate-{worker.path.name}": f"{prefix}-{worker.path.name}" for worker in directory.workers
    }


def worker_contexts(directory: ClusterDirectory, merged: bool) -> list[str]:
    """Return the contexts of the workers of a cluster, in its own kubeconfig or in a merged one."""
    return list(_contexts(directory).values() if merged else _contexts(directory))[1:]


def merge_kubeconfig(directory: ClusterDirectory) -> Path:
    """Add the context of the cluster to the user's kubeconfig and make it current; return the file.

    Raises ``UsageError``.
    """
    if not directory.kubeconfig.exists():
        raise UsageError(f"{directory.kubeconfig}: does not exist (quorate local up starts a cluster)")
    paths = user_kubeconfigs(os.environ, directory.kubeconfig)
    target = _add_contexts(paths, directory)
    make_current(paths, target, context_name(directory))
    (directory.path / MERGED).write_text(f"{target.absolute()}\n")
    return target


def update_merged_kubeconfig(directory: ClusterDirectory) -> None:
    """Update a merged context, as another start may have another port.  Raises ``UsageError``."""
    merged = _merged(directory)
    if merged is not None:
        _add_contexts((merged,), directory)


def remove_merged_kubeconfig(directory: ClusterDirectory) -> Path | None:
    """Remove a merged context; return the file that had it.  Raises ``UsageError``."""
    merged = _merged(directory)
    if merged is not None:
        paths = (merged, *user_kubeconfigs(os.environ, directory.kubeconfig))
        for name in _contexts(directory).values():
            remove_context(paths, name)
        (directory.path / MERGED).unlink()
    return merged


def _merged(directory: ClusterDirectory) -> Path | None:
    try:
        return Path((directory.path / MERGED).read_text().strip())
    except FileNotFoundError:
        return None


def _add_contexts(paths: Sequence[Path], directory: ClusterDirectory) -> Path:
    """Add the contexts of the cluster and of its workers; return the file that has the cluster's context."""
    own: dict[str, Any] = yaml.safe_load(directory.kubeconfig.read_text())
    names = _contexts(directory)
    # In reverse: the file of the last, which is the cluster itself, is returned.
    targets = [
        add_context(paths, names[own["contexts"][at]["name"]], {field: [own[field][at]] for field in LISTS})
        for at in reversed(range(len(own["contexts"])))
    ]
    return targets[-1]
