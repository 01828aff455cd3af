"""What an installation of Quorate in a cluster consists of, and the checks of a cluster for one.

``manifests`` has all objects of an installation, which ``deploy/`` holds as files: definitions (``crds``),
roles (``roles``, ``controller_rules``) and the objects of ``controllers``, ``scheduler``, ``dashboard``,
``witness`` and ``visibility``.  ``preflight`` finds problems of a cluster, each with a remedy.
Imports ``webhooks`` and ``controllers``, and what is below them.
"""
