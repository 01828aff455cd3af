"""Dispatch: which worker cluster gets a workload, and what is written there."""
