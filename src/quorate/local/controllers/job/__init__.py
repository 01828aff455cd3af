"""The batch/v1 Job controller."""
