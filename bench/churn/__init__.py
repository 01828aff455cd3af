"""What changes of running pods cost: the statuses of bound pods change, and there is nothing to decide.

The processes under test are the queueing controllers with a topology flavor, and the gang scheduler.
"""
