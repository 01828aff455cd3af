"""Webhooks for Volcano's kinds, and those of the note "Delay Pod Creation" that guard reserved quota.

Names and paths are Volcano's where it has them.  Like all our webhooks they add comfort: they answer from
copies in memory, which may lag, and by default the API server goes on without them when nobody answers.
"""
