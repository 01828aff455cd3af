"""Objects as tables, the form in which `kubectl get` asks for them."""
