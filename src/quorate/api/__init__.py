"""Typed objects of all API groups, with validation, conversion and CRDs.

Entry points: ``kueue``, ``volcano``, ``configuration``, ``quantity``, ``validation``.
Imports nothing of ours.
"""
