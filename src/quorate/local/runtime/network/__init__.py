"""Networks of pods: namespaces and addresses, names, services, and the way to the API server."""
