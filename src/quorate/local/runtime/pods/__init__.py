"""The life of a pod on this node: what to do next, what its status says, and the task that does it."""
