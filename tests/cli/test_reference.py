"""The page of commands is what the command line says of itself."""

from pathlib import Path

from quorate.cli.reference import page

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "commands.md"


def test_the_page_is_up_to_date() -> None:
    again = "run: python -m quorate.cli.reference docs/reference/commands.md"
    assert PAGE.read_text(encoding="utf-8") == page(), again


def test_each_command_has_an_example_and_each_option_a_word() -> None:
    for section in page().split("\n## ")[1:]:
        name, *lines = section.splitlines()
        assert sum(line.startswith(f"    {name}") for line in lines) >= 2, f"{name} has no example"
        assert [line for line in lines if line.startswith("| `") and line.endswith("|  |")] == [], name
