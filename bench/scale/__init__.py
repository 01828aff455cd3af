"""What the processes cost in a large cluster that exists only as generated JSON.

The controllers, the scheduler and the process of the estimates run as they do in a cluster: informers list
and watch, decode each object, and deliver it to the models.  Only the HTTP exchange is left out.
"""
