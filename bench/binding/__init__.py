"""How fast the gang scheduler binds pods over HTTP, compared with bare bind calls on the same server.

The server shares the machine with the scheduler, so only the ratio of the two rates has a limit.  First a
process sends bare binds, with the concurrency of the scheduler; then the scheduler binds as many pods again,
in gangs that all fit.  Both rates are measured by a watch, from the first bound pod to the last.
"""
