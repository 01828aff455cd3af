"""A fuzzer: seeded hostile objects and requests for a cluster with controllers, scheduler and webhooks."""
