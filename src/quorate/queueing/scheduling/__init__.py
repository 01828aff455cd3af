"""The admission cycle: nomination, flavor assignment, and the order in which heads are processed."""
