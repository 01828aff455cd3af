"""Admission webhooks: servers elsewhere that may change or refuse what is written.

The registered configurations are ordinary objects; who writes asks ``admission`` what the webhooks say.
"""
