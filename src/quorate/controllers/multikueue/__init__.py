"""MultiKueue: workloads of this cluster that run in worker clusters (KEP-693)."""
