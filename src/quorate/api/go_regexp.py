"""Regular expressions of schemas and rules: RE2, which matches in linear time, as Go's `regexp` does."""

import re2


class InvalidPattern(ValueError):
    """A regular expression is not valid in RE2's syntax; the text says why."""


class Pattern:
    """A compiled regular expression."""

    def __init__(self, text: str) -> None:
        """Compile a pattern.  Raises InvalidPattern."""
        try:
            self._compiled = re2.compile(text, _OPTIONS)
        except re2.error as error:
            raise InvalidPattern(error.args[0].decode("utf-8", "replace")) from error

    def search(self, text: str) -> str | None:
        """Return the first match in a text, or None."""
        match = self._compiled.search(text)
        return None if match is None else str(match.group())

    def matches(self, text: str) -> bool:
        """Return True if a part of ``text`` matches."""
        return self._compiled.search(text) is not None

    def find_all(self, text: str) -> list[str]:
        """Return all matches in a text that do not overlap."""
        return [match.group() for match in self._compiled.finditer(text)]


_OPTIONS = re2.Options()
_OPTIONS.log_errors = False  # the caller reports them
