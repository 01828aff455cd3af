"""The task pages, done step by step with the real kubectl on a cluster of their own."""

from pathlib import Path

import pytest

from tests.docs.walk import walk
from tests.e2e.commands import needs_kubectl

pytestmark = [
    pytest.mark.slow,
    needs_kubectl(),
]


@pytest.mark.parametrize(
    "page",
    [
        "all-or-nothing.md",
        "give-up-and-come-back.md",
        "plain-pods.md",
        "requeue-by-time.md",
        "start-smaller.md",
    ],
)
def test_a_page_is_true(page: str, tmp_path: Path) -> None:
    walk(page, tmp_path)
