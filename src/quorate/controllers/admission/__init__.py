"""The admission driver: cycles over the queueing model, and the writes of their decisions."""
