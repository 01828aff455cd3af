"""Sessions: runs of the configured actions, with statements and plugin callbacks."""
