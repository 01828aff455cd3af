"""Commands that write the manifests of an installation, and ``quorate preflight``."""
