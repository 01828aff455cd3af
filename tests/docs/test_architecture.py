"""The architecture page names packages and modules that exist, and every package."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text()
NAMED = sorted(set(re.findall(r"`(quorate(?:\.[a-z_]+)+)`", PAGE)))
PACKAGES = sorted(f"quorate.{path.parent.name}" for path in (ROOT / "src/quorate").glob("*/__init__.py"))
# A participant of a sequence diagram is a package or module below quorate, or an actor without a dot.
PARTICIPANTS = sorted(set(re.findall(r"participant \w+ as ([a-z_]+(?:\.[a-z_]+)+)", PAGE)))


@pytest.mark.parametrize("name", NAMED)
def test_a_named_module_exists(name: str) -> None:
    assert find_spec(name) is not None


@pytest.mark.parametrize("name", PARTICIPANTS)
def test_a_participant_of_a_diagram_is_a_module(name: str) -> None:
    prefixes = ("quorate", "quorate.local")
    assert any(_exists(f"{prefix}.{name}") for prefix in prefixes)


def _exists(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_has_a_paragraph_and_a_layer(package: str) -> None:
    assert f"**`{package}`**" in PAGE
    assert re.search(rf"^\| \d+ \|.*`{package}`", PAGE, re.MULTILINE)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_describes_itself_and_its_imports(package: str) -> None:
    docstring = find_spec(package)
    assert docstring is not None
    assert docstring.origin is not None
    text = Path(docstring.origin).read_text()
    assert text.startswith('"""')
    assert re.search(r"[Ii]mports ", text)
