"""Simulation: recorded or generated jobs played through the queueing core in virtual time.

Entry points: ``world.read_world`` for the input, ``player.play`` for one run, ``summary.summarize`` for its
figures and ``comparison.compare`` for those of two runs.  No rule of admission is implemented here.
Imports ``api``, ``queueing``, ``kube`` and the feeds of ``controllers``.
"""
