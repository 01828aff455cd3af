"""Labels of all objects that Quorate installs or stores."""

from typing import Final

NAME_LABEL: Final = {"app.kubernetes.io/name": "quorate"}
