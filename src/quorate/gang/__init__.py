"""The gang scheduling core: phases of pod groups, sessions, actions and plugins, with Volcano's names.

Entry points: ``model`` (the state), ``session``, ``actions``, ``plugins``.
Imports ``placement``, ``quota`` and ``api``; it is pure: no I/O, clock, randomness or log.
"""
