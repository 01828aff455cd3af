"""Exact quota: amounts with a distinct *unlimited*, and the tree of cohorts and queues.

Entry points: ``amount``, ``tree``.
Imports ``api``; it is pure: no I/O, clock, randomness or log.
"""
