"""Admission: plugins that complete or reject a write, resource quota, and admission webhooks."""
