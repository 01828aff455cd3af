"""Admission webhooks: servers that mutate or validate writes.

Their configurations are stored objects; the handlers of writes call ``dispatch``.
"""
