"""What changes of running pods cost: nodes and bound pods whose statuses change, and nothing to decide.

The processes under test are the queueing controllers with a topology flavor, and the gang scheduler.
"""
