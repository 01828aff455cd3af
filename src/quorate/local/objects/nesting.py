"""The limit on nested lists and maps, so that recursive functions can process every stored object.

kube-apiserver's limit is 10,000 levels, which Python's recursion limit of 1,000 calls does not allow.
"""

import re
from itertools import accumulate

MAX_DEPTH = 200

# The end is optional: otherwise each quotation mark of an unterminated string would be tried as a start up to
# the end of the text.
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_OTHER_BYTES = bytes(byte for byte in range(256) if byte not in _STEPS)


def exceeds_depth(encoded: bytes) -> bool:
    """Return True if a JSON text nests deeper than MAX_DEPTH."""
    if encoded.count(b"{") + encoded.count(b"[") <= MAX_DEPTH:
        return False
    brackets = _STRING.sub(b"", encoded).translate(None, _OTHER_BYTES)
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > MAX_DEPTH
