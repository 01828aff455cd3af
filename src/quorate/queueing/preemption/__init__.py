"""Preemption: candidates, the classical and the fair sharing search, and the history against loops."""
