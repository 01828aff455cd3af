"""How fast the gang scheduler binds pods over HTTP, beside bare bind calls on the same server.

The server takes part in the machine as much as the scheduler does, so only their ratio is held to a limit:
first a process sends bare binds, as many at once as the scheduler sends, then as many pods again are left to
the scheduler, in gangs that all fit.  Both are watched from here: from the first pod seen bound to the last.
"""
