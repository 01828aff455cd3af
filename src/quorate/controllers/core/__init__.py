"""The controllers of Kueue's own objects: workloads, queues, cohorts, flavors, checks."""
