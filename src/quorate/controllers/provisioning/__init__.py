"""The admission check that requests capacity of a cluster autoscaler."""
