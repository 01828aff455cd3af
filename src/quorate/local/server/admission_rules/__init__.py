"""Stored admission webhooks and ValidatingAdmissionPolicies, compiled once for each revision."""
