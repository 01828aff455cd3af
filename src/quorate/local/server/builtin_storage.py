"""The built-in kinds of storage.  Nothing here makes or binds a volume: who creates one says all of it."""

from quorate.local.server.kinds import STATUS, Kind

STORAGE_GROUP = "storage.k8s.io"

STORAGE = (
    Kind(
        "",
        "v1",
        "PersistentVolume",
        "persistentvolumes",
        False,
        short_names=("pv",),
        subresources=(STATUS,),
        deletion_answers_object=True,
    ),
    Kind(
        "",
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        True,
        short_names=("pvc",),
        subresources=(STATUS,),
        deletion_answers_object=True,
    ),
    Kind(
        STORAGE_GROUP,
        "v1",
        "StorageClass",
        "storageclasses",
        False,
        short_names=("sc",),
        deletion_answers_object=True,
    ),
    Kind(STORAGE_GROUP, "v1", "CSINode", "csinodes", False, deletion_answers_object=True),
)
