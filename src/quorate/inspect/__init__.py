"""Reading a cluster for answers: what the commands, the dashboard and the Python API have in common.

``connection`` connects to the cluster that a user selects, ``cluster_model`` loads its Configuration and its
queueing model, ``job_names`` finds what a user names, ``explain`` explains it, ``status`` shows the jobs,
queues and nodes, and ``live_cluster`` reads what a simulation needs.  ``errors`` and
``configuration_files`` report what a user can correct.  Only ``submitting`` writes to a cluster: it creates
the objects of a job.  Imports ``install``, ``simulate`` and ``controllers``, and what is below them.
"""
