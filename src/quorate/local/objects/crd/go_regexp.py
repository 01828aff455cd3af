r"""Translation of Go regular expressions (RE2), as used in schemas, to Python's `re`.

Relevant differences: Go allows flags such as `(?i)` anywhere and applies them to the rest of the group, `$`
never matches before a final newline, classes contain only ASCII characters, and brackets support POSIX class
names. Unicode classes (`\pL`) are not translated: a pattern with them is rejected.
"""

import re

_FLAGS = re.compile(r"\(\?([ims]*)(-[ims]+)?\)")
_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "digit": "0-9",
    "lower": "a-z",
    "upper": "A-Z",
    "space": r"\s",
    "word": r"\w",
    "xdigit": "0-9A-Fa-f",
}


def compile_pattern(text: str) -> re.Pattern[str]:
    """Compile a Go pattern.  Raises re.error if it is invalid."""
    return re.compile(_translate(text), re.ASCII)


def _translate(text: str) -> str:
    written: list[str] = []
    scopes = [0]
    """for each open group, the number of flag scopes opened in it, which end with it"""
    at = 0
    while at < len(text):
        flags = _FLAGS.match(text, at)
        if flags:
            written.append(f"(?{flags[1]}{flags[2] or ''}:")
            scopes[-1] += 1
            at = flags.end()
            continue
        piece = _next_token(text, at)
        at += len(piece)
        if piece == "(":
            scopes.append(0)
        elif piece == ")" and len(scopes) > 1:
            piece = ")" * scopes.pop() + ")"
        written.append(_python_syntax(piece))
    return "".join(written) + ")" * scopes[0]


def _next_token(text: str, at: int) -> str:
    """Return the next character, escape sequence or bracket expression."""
    if text[at] == "\\":
        return text[at : at + 2]
    if text[at] != "[":
        return text[at]
    end = at + 1 + text.startswith("[^", at)
    end += text.startswith("]", end)  # a leading bracket is literal
    while end < len(text) and text[end] != "]":
        if text[end] == "\\":
            end += 2
        elif text.startswith("[:", end) and ":]" in text[end:]:
            end = text.index(":]", end) + 2
        else:
            end += 1
    return text[at : end + 1]


def _python_syntax(piece: str) -> str:
    if piece == "$":
        return r"\Z"
    if piece == r"\z":
        return r"\Z"
    if piece.startswith("["):
        return re.sub(r"\[:(\w+):\]", lambda name: _POSIX.get(name[1], name[0]), piece)
    return piece
