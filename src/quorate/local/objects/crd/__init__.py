"""CustomResourceDefinitions, their compiled schemas, and validation of custom resources."""
