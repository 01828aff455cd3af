"""Names of labels, annotations, scheduling gates and finalizers, by the API that they belong to."""
