"""Tables, the form in which `kubectl get` requests objects."""
