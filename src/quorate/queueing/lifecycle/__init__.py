"""The lifecycle of a Workload: the rules of the workload controller and the statuses they write."""
