"""``quorate dashboard``: a web page of queues, workloads, gangs and nodes, for administrators and tenants."""
