"""``quorate simulate``: what would happen, with other queues or other jobs."""
