"""Forecasts and comparisons, computed by simulations in a process of their own."""
