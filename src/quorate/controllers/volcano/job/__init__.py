"""Volcano's job controller: keep each Job, its pod group and its pods in sync."""
