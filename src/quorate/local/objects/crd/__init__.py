"""CustomResourceDefinitions: validation, compiled schemas, and validation of custom resources."""
