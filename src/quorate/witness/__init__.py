"""An independent witness: what pods really use, compared with quota and with the nodes.

The witness shares no code with the packages that decide (``quota``, ``queueing``, ``placement``, ``gang``).
It reads pods, sums what runs, and has its own arithmetic for requests and cohorts, simple and slow.  A fault
that lets pods run outside of quota, and that every audit of the deciding packages shares, is a difference
here.

Entry points: ``witness.Witness`` (pure: from facts to a report), ``process.run_witness`` (the shell).
Imports ``api``, ``kube`` and, for its metrics, ``observe.families``.
"""
