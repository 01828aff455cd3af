"""``make test-faults REAL=1``: processes killed under a large load, on a real kube-apiserver.

Each scenario is a function of its scale and a seed, so that the tests run a small version of it.
"""
