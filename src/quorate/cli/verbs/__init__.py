"""Looking at queues and workloads, stopping and resuming them: ``quorate queue``, ``quorate workload``."""
