"""Rules about places in topologies and on nodes: placing, replacement, ungating, node failures."""
