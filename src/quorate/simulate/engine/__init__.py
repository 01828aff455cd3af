"""The player of a world: events in virtual time, simulated jobs and nodes, and the record of a run."""
