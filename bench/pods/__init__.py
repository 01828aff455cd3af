"""How fast pods start and end as processes of this machine.

``python -m bench.pods`` starts single pods, one after the other, and then 200 at once. The latency of a pod
is the time from its creation to the first output of its program. Pods are created with a node name, without
a scheduler.
"""
