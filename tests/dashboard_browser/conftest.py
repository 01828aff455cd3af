"""``make test-browser``: the page in Chromium.  Without ``--browser`` none of these modules is imported."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

OPTION = "--browser"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, action="store_true", help="run the tests of the dashboard's page in Chromium")


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    return None if config.getoption(OPTION, default=False) else True


@pytest.fixture(scope="session")
def chromium() -> Iterator["Browser"]:
    from tests.dashboard_browser.pages import running_chromium

    with running_chromium() as browser:
        yield browser
