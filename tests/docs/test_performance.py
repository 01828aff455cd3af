"""The limits on the performance page match the file of limits for measurements."""

from pathlib import Path

from bench.limits import load, markdown_table

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "performance.md"


def test_the_page_shows_every_limit() -> None:
    """``python -m bench.limits`` updates the page."""
    assert markdown_table(load()) in PAGE.read_text()
