"""Paths without a resource: API discovery, OpenAPI, version, health and metrics."""
