"""Entries in a user's kubeconfig: only their own text changes."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from quorate.inspect.errors import UsageError
from quorate.processes.local.kubeconfig_entries import (
    add_context,
    make_current,
    remove_context,
    user_kubeconfigs,
)

NAME = "quorate-local"
OWN = {
    "clusters": [
        {"name": "x", "cluster": {"server": "https://127.0.0.1:7443", "certificate-authority-data": "QQ=="}}
    ],
    "users": [{"name": "x", "user": {"token": "secret"}}],
    "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x", "namespace": "default"}}],
}  # fmt: skip

HAND_WRITTEN = """\
# my clusters
apiVersion: v1
clusters:   # two of them
  - cluster: {server: "https://work"}   # vpn!
    name: work

  # the old one
  - name: 'old'
    cluster:
      server: https://old
kind: Config
contexts: [{name: work, context: {cluster: work, user: me}}]
users:
- name: me
  user:
    exec:
      command: login
      args: ["-v", "a: b"]
      installHint: |
        ask - the team
          else

preferences: {}
current-context: "work"  # mostly
"""


def decoded(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(path.read_text())
    return content


def is_subsequence(lines: list[str], text: list[str]) -> bool:
    rest = iter(text)
    return all(line in rest for line in lines)


def add(*paths: Path) -> Path:
    target = add_context(paths, NAME, OWN)
    make_current(paths, target, NAME)
    return target


def test_a_missing_file_is_created_for_the_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "kube" / "config"
    assert add(path) == path
    content = decoded(path)
    assert content["current-context"] == NAME
    assert [entry["name"] for field in ("clusters", "users", "contexts") for entry in content[field]] == [
        NAME
    ] * 3
    context = {"cluster": NAME, "user": NAME, "namespace": "default"}
    assert content["contexts"] == [{"name": NAME, "context": context}]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["config"], (
        "neither lock nor partial file is left"
    )


def test_other_entries_and_comments_keep_their_text(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(HAND_WRITTEN)
    add(path)
    kept = [line for line in HAND_WRITTEN.splitlines() if "contexts:" not in line and "current-" not in line]
    assert is_subsequence(kept, path.read_text().splitlines())
    assert (
        'contexts: [{name: work, context: {cluster: work, user: me}}, {"name": "quorate-local"'
        in path.read_text()
    )
    added = decoded(path)
    assert [entry["name"] for entry in added["clusters"]] == ["work", "old", NAME]

    once = path.read_text()
    add(path)
    assert path.read_text() == once, "the second time nothing changes"
    remove_context([path], NAME)
    assert decoded(path) == {**yaml.safe_load(HAND_WRITTEN), "current-context": ""}
    assert is_subsequence(kept, path.read_text().splitlines())


@pytest.mark.parametrize("text", ["", "# empty\n", "{}", "---\napiVersion: v1\n", "clusters:\nusers: null\n"])
def test_a_file_without_entries(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    add(path)
    assert decoded(path)["current-context"] == NAME
    remove_context([path], NAME)
    assert not any(decoded(path)[field] for field in ("clusters", "users", "contexts"))


TEXTS = st.sampled_from(["work", "a-b", "- x", "a: b", "#c", "l1\nl2\n", " ", "ü", "'", "yes", "1"])
NAMES = st.sampled_from(["work", "play", "- odd: #name", NAME])
ENTRIES = st.lists(
    st.fixed_dictionaries(
        {"name": NAMES, "cluster": st.dictionaries(TEXTS, TEXTS | st.lists(TEXTS), max_size=3)}
    ),
    max_size=4,
    unique_by=lambda entry: str(entry["name"]),
)
CONTENTS = st.fixed_dictionaries(
    {"apiVersion": st.just("v1")},
    optional={
        **{field: st.none() | ENTRIES for field in ("clusters", "users", "contexts")},
        "current-context": NAMES,
        "preferences": st.dictionaries(TEXTS, TEXTS, max_size=2),
    },
)
STYLES = st.sampled_from(
    [{"sort_keys": False}, {"indent": 4, "sort_keys": True}, {"default_flow_style": True}, None]
)


@given(content=CONTENTS, style=STYLES)
def test_entries_are_added_and_removed_in_every_notation(
    tmp_path_factory: pytest.TempPathFactory, content: dict[str, Any], style: dict[str, Any] | None
) -> None:
    path = tmp_path_factory.getbasetemp() / "config"
    path.write_text(json.dumps(content, indent=1) if style is None else yaml.safe_dump(content, **style))
    others = {
        field: [entry for entry in content.get(field) or [] if entry["name"] != NAME]
        for field in ("clusters", "users", "contexts")
    }
    add(path)
    for field, entries in others.items():
        after = decoded(path)[field]
        assert [entry for entry in after if entry["name"] != NAME] == entries
        assert len(after) == len(entries) + 1
    remove_context([path], NAME)
    assert {field: decoded(path)[field] for field in others} == others
    assert decoded(path).get("preferences") == content.get("preferences")


def test_of_several_files_the_one_with_the_context_is_used_then_the_first_that_exists(tmp_path: Path) -> None:
    first, second, last = (tmp_path / name for name in ("first", "second", "last"))
    assert add(first, second) == second, "none exists: the last"
    assert add(first, second) == second, "it has the context"
    second.unlink()
    first.write_text("current-context: work\n")
    assert add(first, last) == first
    last.write_text(HAND_WRITTEN)
    first.write_text("users: []\n")
    assert add(first, last) == first
    assert decoded(last)["current-context"] == NAME, "the file that decides which context is current"
    assert "current-context" not in decoded(first)


def test_the_files_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    own = tmp_path / "own"
    assert user_kubeconfigs({}, own) == (tmp_path / ".kube" / "config",)
    assert user_kubeconfigs({"KUBECONFIG": str(own)}, own) == (tmp_path / ".kube" / "config",)
    assert user_kubeconfigs({"KUBECONFIG": f"/a::{own}:/b"}, own) == (Path("/a"), Path("/b"))


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text(HAND_WRITTEN)
    link = tmp_path / "config"
    link.symlink_to("real")
    add(link)
    assert link.is_symlink()
    assert decoded(tmp_path / "real")["current-context"] == NAME


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("a: [1", "is not YAML, it stays as it is"),
        ("- a\n", "is no kubeconfig"),
        ("clusters: {a: b}\n", "is no kubeconfig"),
        ("a: 1\n---\nb: 2\n", "is not YAML"),
    ],
)
def test_what_is_no_kubeconfig_stays_as_it_is(tmp_path: Path, text: str, rule: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(UsageError, match=rule):
        add(path)
    assert path.read_text() == text


def test_a_file_that_another_command_changes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.lock").touch()
    with pytest.raises(UsageError, match="another command changes it now"):
        add(tmp_path / "config")
    assert (tmp_path / "config.lock").exists()
