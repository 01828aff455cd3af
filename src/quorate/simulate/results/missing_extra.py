"""The error of a result that needs an optional package."""


class MissingExtra(ImportError):
    """An optional package is not installed."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(
            f"{what} needs {package}, which is not installed"
            f" (run: pip install {package}, or in a clone: pip install '.[{extra}]')"
        )
