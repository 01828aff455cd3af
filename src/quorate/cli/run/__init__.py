"""``quorate local run``: read a directory of manifests, create the objects, follow the jobs to the end."""
