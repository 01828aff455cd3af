"""HyperNodes: discovery from node labels, and their statuses."""
