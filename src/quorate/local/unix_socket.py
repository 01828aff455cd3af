"""Unix sockets in directories with long paths."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def short_socket_path(path: Path) -> Iterator[str]:
    """Yield a short path of a socket, which holds while the block lasts: the kernel allows 107 bytes.

    Raises OSError if the directory of the socket does not exist.
    """
    directory = os.open(path.parent, os.O_PATH)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
