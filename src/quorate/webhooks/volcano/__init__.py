"""Webhooks for Volcano's kinds, and webhooks that guard quota reserved for pod groups.

Names and paths are Volcano's where it has them.  No controller depends on these webhooks: they read from
caches, which may lag, and by default a request is allowed if there is no response.
"""
