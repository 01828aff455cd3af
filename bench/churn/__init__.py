"""What changes of running pods cost: statuses of nodes and bound pods change, and nothing is to decide.

The processes under test are the queueing controllers with a topology flavor, and the gang scheduler.
"""
