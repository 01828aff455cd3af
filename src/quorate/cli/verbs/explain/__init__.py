"""Explain why a workload is pending: the command, the explanation, and remedies for each reason."""
