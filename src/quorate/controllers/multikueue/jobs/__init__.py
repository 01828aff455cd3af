"""Jobs of this cluster that run as copies in worker clusters."""
