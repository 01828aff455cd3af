"""The aggregation layer: API groups that another server answers."""
