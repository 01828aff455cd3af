"""The state of a cluster for its users, as ``quorate status`` shows it: jobs, queues and nodes."""
