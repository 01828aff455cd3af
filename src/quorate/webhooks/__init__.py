"""Defaulting, validating and conversion webhooks; everything works without them.

Entry points: ``process``, ``webhook_server``, ``routes``.
Imports ``api``, ``kube`` and the job kinds of ``controllers``.
"""
