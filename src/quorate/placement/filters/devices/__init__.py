"""Devices that pods claim by dynamic resource allocation (resource.k8s.io), as filters of nodes read them.

``pools`` reads what drivers publish, ``inventory`` knows the devices of each node, ``demand`` what the claims
of a pod request, ``allocation`` chooses devices for a pod on one node, and ``index`` counts what is in use
and filters nodes.
"""
