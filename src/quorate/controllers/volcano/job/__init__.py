"""Volcano's job controller: keep each Job of ``batch.volcano.sh``, its pod group and its pods in sync."""
