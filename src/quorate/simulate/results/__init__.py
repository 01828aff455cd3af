"""The figures of a run, its tables, and the difference between two runs."""
