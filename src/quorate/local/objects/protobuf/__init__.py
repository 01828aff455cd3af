"""Kubernetes' protobuf format, which Go clients prefer to JSON for built-in kinds.

`envelope` reads and writes bodies.  `messages.txt` has the fields of all messages.
"""
