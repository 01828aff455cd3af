"""Which nodes can hold which pods."""
