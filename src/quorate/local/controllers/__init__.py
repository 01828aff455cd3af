"""What a kube-controller-manager does for the local cluster, over HTTP like any other client."""
