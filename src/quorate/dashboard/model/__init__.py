"""All objects of a cluster from informers, and notices of their changes."""
