"""The task pages, done step by step with the real kubectl on a cluster of their own."""

import shutil
from pathlib import Path

import pytest

from tests.docs.walk import walk

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on this machine"),
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
