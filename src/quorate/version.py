"""The version of the distribution, which has no dependencies, so that every package may import it."""

from typing import Final

VERSION: Final = "0.2.0"
