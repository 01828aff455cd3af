"""History of the dashboard: samples of queues and transitions of workloads, for 30 days."""
