"""The arguments of job plugins, which are written like flags of a command."""

from collections.abc import Mapping, Sequence


def flags(arguments: Sequence[str], defaults: Mapping[str, str]) -> dict[str, str]:
    """Parse ``--name=value``, ``--name value`` and ``--name``; return all flags by name.

    The syntax is that of Go's flag package: one dash or two, and a boolean flag without a value is true.
    Unknown flags are ignored.
    """
    values = dict(defaults)
    words = iter(arguments)
    for word in words:
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("-") or name not in defaults:
            continue
        is_switch = defaults[name] in ("true", "false")
        values[name] = value if equals else "true" if is_switch else next(words, defaults[name])
    return values
