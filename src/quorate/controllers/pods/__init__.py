"""Plain pods and groups of them: held back by a scheduling gate until their workload is admitted.

A pod cannot be suspended and started again as a job can: it starts when its gate is removed, which cannot
be put back, and it stops by being deleted.  A finalizer keeps a stopped pod until its group knows of it.
"""
