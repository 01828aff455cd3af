"""A web page of queues, workloads, gangs and nodes, for administrators and tenants.

Entry point: ``process.run_dashboard``.  ``model`` follows the cluster, ``views`` computes what one caller may
see of it, ``history`` keeps samples, ``login`` authenticates users, ``simulation`` computes forecasts in a
process of its own, and ``serving`` answers requests.  Only the commands that start the dashboard import it.
Imports ``simulate``, ``controllers``, ``scheduler``, ``observe`` and what is below them.
"""
