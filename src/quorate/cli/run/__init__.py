"""Running a directory of manifests: read, create, watch, conclude, show."""
