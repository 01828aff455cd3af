"""The benchmark of ``quorate simulate``."""
