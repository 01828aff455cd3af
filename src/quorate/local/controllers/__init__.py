"""Controllers of kube-controller-manager and a scheduler for the local cluster, over HTTP."""
