"""The objects of all API groups as typed structs: quantities, conditions, validation, conversion, CRDs.

Entry points: ``kueue``, ``volcano``, ``configuration``, ``quantity``, ``validation``.
Imports nothing of ours.
"""
