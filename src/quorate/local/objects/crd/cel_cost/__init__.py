"""Estimates of what CEL rules cost, by which a CustomResourceDefinition is refused."""
