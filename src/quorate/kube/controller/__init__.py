"""Parts of a controller: the reconciler with its work queue, and when to run and to write."""
