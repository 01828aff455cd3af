"""Defaulting, validating and conversion webhooks, which the API server calls.

No controller depends on them.  With webhooks a job is suspended before it is stored, an invalid object is
refused at once, and clients may use v1beta1.  Without them the controllers suspend jobs, report invalid
objects in conditions, and read what is stored.  Every replica serves them, whether it is the leader or not.

Entry points: ``process``, ``webhook_server``, ``routes``.
Imports ``api``, ``kube`` and the job kinds of ``controllers``.
"""
