"""Limits of the webhook server."""

from typing import Final

from quorate.kube.limits import MAX_VALUES

# Bodies
MAX_REVIEW_BYTES: Final = 7 * 1024 * 1024  # two objects of the largest size that etcd stores, as in Kueue

# One object: an API server converts what it stores one by one, also for a list, and reads requests of 3 MiB.
MAX_CONVERSION_BYTES: Final = 4 * 1024 * 1024  # with the managedFields that it adds
MAX_REVIEW_VALUES: Final = 2 * MAX_VALUES  # the object before and after an update
PAUSE_RATIO: Final = 3  # large bodies use a quarter of the event loop's time at most
MAX_FINDINGS: Final = 100  # that a response lists; the message states how many there are
MAX_COUNTED: Final = 2000  # findings about the entries of one object that are looked for
MAX_SHARED_AMOUNTS: Final = 64  # a pod may name tens of thousands, which the cache would keep

# Times
TIMEOUT_S: Final = 10  # of a webhook, as in Kueue
IGNORE_TIMEOUT_S: Final = 2  # of a webhook with failurePolicy Ignore
VOLCANO_TIMEOUT_S: Final = 5  # of a webhook of Volcano's kinds
CERTIFICATE_FILES_INTERVAL_S: Final = 10.0  # between two reads of the files of a certificate
CERTIFICATE_SECRET_INTERVAL_S: Final = 30.0  # ten small requests; also until the CA bundle is injected again
CERTIFICATE_RETRY_S: Final = 2.0  # while there is no certificate at all
DISCOVERY_INTERVAL_S: Final = 30.0  # until Volcano's kinds are served
SCHEDULER_INTERVAL_S: Final = 5.0  # between two reads of the scheduler's configuration in force
