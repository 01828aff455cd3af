"""Simulation: recorded or generated jobs played through the cores in virtual time.

Entry points: ``world.read_world`` for the input, ``player.play`` for one run, ``summary.summarize`` for its
figures and ``comparison.compare`` for those of two runs.  No rule of admission or placement is
implemented here.  Imports ``api``, ``queueing``, ``gang``, ``quota``, ``kube`` and what ``controllers`` and
``scheduler`` feed to the models.
"""
