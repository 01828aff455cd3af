"""Commands on the objects of a cluster: queues, workloads, pod groups and flavors."""
