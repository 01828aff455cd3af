"""The command line of the searches for loops in families of small worlds."""

import argparse
from collections.abc import Collection
from typing import NamedTuple


class Selection(NamedTuple):
    families: tuple[str, ...]
    every: int  # each so many worlds one is run


def selection_of(description: str | None, families: Collection[str]) -> Selection:
    """Return what the command line selects of ``families``; exit with a message if it is invalid."""

    def family(name: str) -> str:
        if name not in families:
            raise argparse.ArgumentTypeError(f"{name!r} is none of: {', '.join(families)}")
        return name

    def positive(text: str) -> int:
        number = int(text)
        if number < 1:
            raise argparse.ArgumentTypeError(f"{number} is less than 1")
        return number

    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "family", nargs="*", type=family, help=f"by default all of them: {', '.join(families)}"
    )
    parser.add_argument("--every", type=positive, default=1, metavar="N", help="run only each Nth world")
    options = parser.parse_args()
    return Selection(tuple(options.family) or tuple(families), options.every)
