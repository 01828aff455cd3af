"""The limits on the page of performance are those of the file that measurements are held to."""

from pathlib import Path

from bench.limits import load, markdown_table

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "performance.md"


def test_the_page_shows_every_limit() -> None:
    """After a change: python -m bench.limits."""
    assert markdown_table(load()) in PAGE.read_text()
