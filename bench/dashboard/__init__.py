"""The benchmarks of the dashboard."""
