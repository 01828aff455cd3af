"""The admission check that asks a cluster autoscaler for capacity before a workload is admitted."""
