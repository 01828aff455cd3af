"""The gang scheduling core: pod groups, sessions, actions and plugins, with Volcano's names.

A *gang* is a pod group with its *tasks*, one for each pod.  The model has the newest version of every object;
a *session* runs the configured actions over it with the callbacks of the configured plugins, and returns the
writes that follow.  Rules: Volcano 1.15 (profile ``compat``) and the design note "Delay Pod Creation"
(profile ``design``).

Entry points: ``cache.model`` (the state), ``session.run``, ``actions``, ``plugins``, ``reports``.
Imports ``placement``, ``quota`` and ``api``; it is pure: no I/O, clock, randomness or log.
"""
